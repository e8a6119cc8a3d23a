"""Random organizations: the same content each time, and permissions, groups, levels and visibility by chance.

Many are packed into one world, a project each with groups of its own, so that one sync reads hundreds. Content never
changes between rounds and its texts are few and short, so that nothing is read or embedded twice.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from fixtures.sandbox.ids import Ids
from tests.sandbox.small import AT, NOW, TENANT, stamp

Data = dict[str, Any]

MEMBERS, GUESTS, SERVICES = 9, 3, 2
AREAS = ("/", "/A", "/A/B", "/A/B/C", "/D")
WORDS = "tide table of the harbour"
PEOPLE = tuple(f"p{n}" for n in range(MEMBERS + GUESTS + SERVICES))


@dataclass(frozen=True)
class Slot:
    """Where the things of the project of one number stand in the world."""

    number: int

    @property
    def project(self) -> str:
        """The project's key."""
        return f"P{self.number}"

    def nodes(self, ids: Ids) -> dict[str, tuple[str, str]]:
        """What an item's address begins with, to the kind and key of the node that its permissions hang on."""
        n = self.number
        found = {f"work-items/{n * 10 + k + 1}": ("area", path) for k, path in enumerate(AREAS)}
        found |= {f"repos/{ids.repo(key)}": ("repo", key) for key in (f"r{n}a", f"r{n}b")}
        # A code wiki is as readable as its repo.
        found |= {f"wikis/{ids.wiki(f'c{n}', code=True)}": ("repo", f"r{n}b")}
        return found | {f"wikis/{ids.wiki(f'w{n}', code=False)}": ("wiki", f"w{n}")}


def organization(seed: str, projects: int) -> Data:
    """A world of so many random organizations."""
    chance = Random(seed)
    people = {key: _person(chance, number) for number, key in enumerate(PEOPLE)}
    groups: Data = {}
    found: Data = {}
    for number in range(projects):
        slot = Slot(number)
        names = _groups(chance, slot, groups)
        found[slot.project] = _project(chance, slot, names)
    return {
        "format": 1,
        "name": "random",
        "now": NOW,
        "tenant_id": TENANT,
        "labels": [],
        "people": people,
        "groups": groups,
        "azure_devops": {"organization": "Random", "projects": found},
        "events": [],
    }


def crawlable(world: Data) -> Data:
    """The same world with every repo switched on: what is off can't be read, and has no content to lose."""
    copy = deepcopy(world)
    for project in copy["azure_devops"]["projects"].values():
        for repo in project["repos"].values():
            repo["disabled"] = False
    return copy


def _person(chance: Random, number: int) -> Data:
    kind = "member" if number < MEMBERS else "guest" if number < MEMBERS + GUESTS else "service"
    found: Data = {
        "name": f"Person {number}",
        "upn": f"p{number}@random.example",
        "kind": kind,
        "access_level": chance.choices(("basic", "stakeholder", "none"), (8, 3, 1))[0],
    }
    if chance.random() < 0.06:
        found["left"] = "2026-01-31"
    return found


def _groups(chance: Random, slot: Slot, groups: Data) -> list[str]:
    """Groups of a project: of either kind, in each other in any direction, cycles among them."""
    names = [f"g{slot.number}x{k}" for k in range(chance.randrange(6))]
    for name in names:
        kind = chance.choice(("entra", "azure_devops"))
        members = [chance.choice(PEOPLE) for _ in range(chance.randrange(4))]
        members += [f"group:{chance.choice(names)}" for _ in range(chance.randrange(3))]
        groups[name] = {"name": name, "kind": kind, "members": list(dict.fromkeys(members))}
        if kind == "azure_devops" and chance.random() < 0.7:
            groups[name]["project"] = slot.project
    return names


def _project(chance: Random, slot: Slot, names: list[str]) -> Data:
    n = slot.number
    whom = _pool(names)

    def node(**more: Any) -> Data:
        made: Data = {}
        if chance.random() < 0.65:
            made["acl"] = acl(chance, whom, generous=chance.random() < 0.5)
        if chance.random() < 0.2:
            made["inherit"] = False
        return made | more

    def repo(disabled: bool, **more: Any) -> Data:
        commit = stamp("p0") | {"key": "k", "message": "Tide", "files": {"tide.txt": WORDS}}
        return node(commits=[commit], disabled=disabled, **more)

    pull = {"id": n + 1, "title": "Tide", "created": stamp("p0"), "source": "t", "description": WORDS}
    pages = {"Tide": {"revisions": [stamp("p0") | {"content": WORDS}]}}
    found: Data = {
        "visibility": chance.choices(("private", "organization", "public"), (6, 2, 2))[0],
        "areas": {path: node() for path in AREAS},
        "work_items": [
            {"id": n * 10 + k + 1, "type": "Task", "title": "Tide", "area": path, "created": stamp("p0")}
            | {"description": WORDS}
            for k, path in enumerate(AREAS)
        ],
        "repos": {
            f"r{n}a": repo(chance.random() < 0.05, pull_requests=[pull]),
            f"r{n}b": repo(chance.random() < 0.05),
        },
        "wikis": {
            f"w{n}": node(pages=pages),
            f"c{n}": {"kind": "code", "repo": f"r{n}b", "path": "/docs", "pages": pages},
        },
    }
    if chance.random() < 0.95:
        # Without a project rule that lets some people in, nearly every item would be shut to all.
        found["acl"] = acl(chance, whom, generous=chance.random() < 0.9)
    return found


def _pool(names: list[str]) -> list[str]:
    return [*(f"person:{p}" for p in PEOPLE), *(f"group:{g}" for g in names for _ in range(3)), "group:everyone"]


def acl(chance: Random, whom: list[str], *, generous: bool = False) -> list[Data]:
    """A list of entries: allows, denies, both at once, and such as speak of other rights than reading."""
    entries = []
    for _ in range(chance.randrange(1, 5) + (2 if generous else 0)):
        to = "group:everyone" if generous and chance.random() < 0.3 else chance.choice(whom)
        allow, deny = chance.choices(
            ((["read"], []), ([], ["read"]), (["read"], ["read"]), (["contribute"], []), ([], ["contribute"])),
            (12, 4, 1, 1, 1),
        )[0]
        entries.append({"to": to, "allow": list(allow), "deny": list(deny)})
    return entries


def events(chance: Random, world: Data, number: int) -> list[Data]:
    """So many random changes of permission, in the shape of a world's events."""
    projects = list(world["azure_devops"]["projects"])
    made: list[Data] = []
    while len(made) < number:
        change = _change(chance, world, Slot(int(chance.choice(projects)[1:])))
        if change is not None:
            made.append({"id": f"e{len(made)}", "after": f"{len(made) + 1}m", **change})
    return made


def _change(chance: Random, world: Data, slot: Slot) -> Data | None:
    names = [g for g in world["groups"] if g.startswith(f"g{slot.number}x")]
    kind = chance.choices(("acl", "join", "leave", "level", "disable"), (12, 4, 4, 1, 0.2))[0]
    if kind == "acl":
        project, n = slot.project, slot.number
        areas = [f"area:{project}{path}" for path in AREAS]
        on = chance.choice((f"project:{project}", f"repo:r{n}a", f"repo:r{n}b", f"wiki:w{n}", *areas))
        change: Data = {"on": on, "acl": acl(chance, _pool(names), generous=on.startswith("project"))}
        if chance.random() < 0.4 and not on.startswith("project"):
            change["inherit"] = chance.random() < 0.5
        return {"set_acl": change}
    if kind == "level":
        level = chance.choice(("basic", "stakeholder", "none"))
        return {"set_access_level": {"who": chance.choice(PEOPLE), "access_level": level}}
    if kind == "disable":
        return {"disable_person": {"who": chance.choice(PEOPLE)}}
    if not names:
        return None
    group = chance.choice(names)
    if kind == "join":
        who = chance.choice([*PEOPLE, *(f"group:{g}" for g in names)])
        return {"add_member": {"group": group, "who": who}}
    members = world["groups"][group]["members"]
    return {"remove_member": {"group": group, "who": chance.choice(members)}} if members else None


def happened(world: Data, event: Data) -> None:
    """Make an event's change in the plain data of a world."""
    if change := event.get("set_acl"):
        node = node_of(world, change["on"])
        node["acl"] = change["acl"]
        if "inherit" in change:
            node["inherit"] = change["inherit"]
    elif change := event.get("set_access_level"):
        world["people"][change["who"]]["access_level"] = change["access_level"]
    elif change := event.get("disable_person"):
        world["people"][change["who"]]["left"] = AT[:10]
    elif change := event.get("add_member"):
        members = world["groups"][change["group"]]["members"]
        if change["who"] not in members:
            members.append(change["who"])
    elif change := event.get("remove_member"):
        members = world["groups"][change["group"]]["members"]
        members[:] = [m for m in members if m != change["who"]]


def node_of(world: Data, on: str) -> Data:
    """The node that a reference such as `area:P0/A` names."""
    kind, _, rest = on.partition(":")
    projects: Data = world["azure_devops"]["projects"]
    if kind == "project":
        return dict_of(projects[rest])
    if kind == "area":
        project, _, path = rest.partition("/")
        return dict_of(projects[project]["areas"]["/" + path])
    project = f"P{rest.strip('rwab')}"
    return dict_of(projects[project][f"{kind}s"][rest])


def dict_of(value: Any) -> Data:
    """A mapping, for the type checker."""
    assert isinstance(value, dict)
    return value
