"""Who may read what, worked out the slow way from a world's plain data: shares nothing with the engine or the sandbox.

Each question is answered on its own, from the documented rules, by walking: is this person in that group; does this
list say anything of reading to them; which node of the chain speaks first.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]


class NaiveAccess:
    """Answers for one world. `project_reaches`: a project's own list is the last layer of every chain (as worlds
    define it); otherwise a chain ends with its own nodes (as the real service has it). `deny_reaches_down`: a deny
    anywhere on what is left of a chain by its first cut decides, whatever stands nearer."""

    def __init__(self, world: Data, *, project_reaches: bool, deny_reaches_down: bool) -> None:
        self.world = world
        self.project_reaches = project_reaches
        self.deny_reaches_down = deny_reaches_down
        self._asked: dict[tuple[str, str], bool] = {}

    def may_read(self, person: str, project: str, kind: str, key: str) -> bool:
        """Whether the person may read what hangs on a node: an `area` by its path, a `repo` or `wiki` by its key."""
        home = self.world["azure_devops"]["projects"][project]
        if self.world["people"][person].get("left"):
            return False
        if kind == "repo" and home["repos"][key].get("disabled"):
            return False
        return (
            self._level_suffices(person, home, kind)
            and self._project_opens(person, home)
            and self._chain_opens(person, home, kind, key)
        )

    def _level_suffices(self, person: str, home: Data, kind: str) -> bool:
        level = self.world["people"][person]["access_level"]
        if level == "none":
            return False
        return level == "basic" or kind != "repo" or home["visibility"] == "public"

    def _project_opens(self, person: str, home: Data) -> bool:
        said = self._says(home.get("acl"), person)
        return self._visible(person, home) if said is None else said

    def _chain_opens(self, person: str, home: Data, kind: str, key: str) -> bool:
        if self.deny_reaches_down and self._denied_somewhere(person, home, kind, key):
            return False
        for node in self._chain(home, kind, key):
            said = self._says(node.get("acl"), person)
            if said is not None:
                return said
            if not node.get("inherit", True):
                return False
        return self.project_reaches and self._project_opens(person, home)

    def _denied_somewhere(self, person: str, home: Data, kind: str, key: str) -> bool:
        for node in self._chain(home, kind, key):
            if self._says(node.get("acl"), person) is False:
                return True
            if not node.get("inherit", True):
                return False
        return False

    @staticmethod
    def _chain(home: Data, kind: str, key: str) -> list[Data]:
        if kind != "area":
            return [home[f"{kind}s"][key]]
        chain = []
        while key != "/":
            chain.append(home["areas"][key])
            key = key[: key.rindex("/")] or "/"
        return [*chain, home["areas"]["/"]]

    def _visible(self, person: str, home: Data) -> bool:
        kind = self.world["people"][person]["kind"]
        # To be public is to be open to people: a service principal signs in, but never asks.
        if home["visibility"] == "public":
            return bool(kind != "service")
        return bool(home["visibility"] == "organization" and kind == "member")

    def _says(self, acl: list[Data] | None, person: str) -> bool | None:
        """What a list says of reading to a person: False where any entry denies, True where one allows, else None."""
        mine = [entry for entry in acl or [] if self._is(person, entry["to"])]
        if any("read" in entry["deny"] for entry in mine):
            return False
        return True if any("read" in entry["allow"] for entry in mine) else None

    def _is(self, person: str, whom: str) -> bool:
        if whom == "group:everyone":
            return bool(self.world["people"][person]["kind"] == "member")
        if not whom.startswith("group:"):
            return whom.removeprefix("person:") == person
        group = whom.removeprefix("group:")
        if (person, group) not in self._asked:
            self._asked[person, group] = self._is_in(person, group, set())
        return self._asked[person, group]

    def _is_in(self, person: str, group: str, seen: set[str]) -> bool:
        if group in seen:
            return False
        seen.add(group)
        for member in self.world["groups"][group]["members"]:
            if member.startswith("group:"):
                if self._is_in(person, member.removeprefix("group:"), seen):
                    return True
            elif member.removeprefix("person:") == person:
                return True
        return False
