"""A made-up organization of any size, the same for the same seed, as a world has it; its events change 1% of it.

At scale 1: 20 projects, 20,000 work items, 2,000 wiki pages, 200 repos with 10,000 files, 5,000 people in 800 nested
groups, 3,000 nodes with an ACL of their own.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from benchmarks.prose import Prose

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
TENANT = "5d0c7f7e-7a55-4c0e-9b35-7c1d2f6f0a11"
NAME = "generated"
CHANGED = 0.01
_LANGUAGES = ["py"] * 7 + ["ts"] * 4 + ["sql"] * 2 + ["yaml"] * 3 + ["md"] * 3 + ["png"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much there is of everything; `nodes` are projects, areas, repos and wikis with an ACL of their own."""

    projects: int = 20
    work_items: int = 20_000
    pages: int = 2_000
    repos: int = 200
    files: int = 10_000
    people: int = 5_000
    groups: int = 800
    nodes: int = 3_000

    def scaled(self, factor: float) -> Size:
        """The same organization, smaller or larger."""
        least = {"projects": 2, "repos": 4, "groups": 8}
        return Size(**{f.name: max(least.get(f.name, 20), round(getattr(self, f.name) * factor)) for f in fields(Size)})


class Organization:
    """Draws an organization from a seed. `world` is its mapping, as a world file has it, events included."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self._size = size
        self._r = Random(seed)  # noqa: S311 - repeatable, not secret
        self._prose = Prose(self._r)
        self._people = [f"p{n}" for n in range(size.people)]
        self._projects = [f"Project {n:02}" for n in range(size.projects)]
        self._own: dict[str, list[str]] = {p: [] for p in self._projects}
        self._entra: list[str] = []
        self._areas: dict[str, list[str]] = {}
        # What can be changed: references by kind.
        self._there: dict[str, list[str]] = {"work_item": [], "page": [], "file": [], "pr": [], "node": [], "group": []}
        self._waiting: dict[str, list[str]] = {"work_item": [], "page": [], "file": []}
        groups = self._groups()
        projects = {name: self._project(name) for name in self._projects}
        self._fill(projects)
        self.world: Row = {
            "format": 1,
            "name": NAME,
            "now": NOW.isoformat(),
            "tenant_id": TENANT,
            "people": {p: self._person(n) for n, p in enumerate(self._people)},
            "groups": groups,
            "azure_devops": {"organization": NAME, "projects": projects},
            "events": [],
        }
        self.world["events"] = self._events()

    # --- people and permissions

    def _person(self, n: int) -> Row:
        level = self._r.choices(("basic", "stakeholder", "none"), (88, 10, 2))[0]
        return {"name": f"Person {n:04}", "upn": f"p{n}@generated.example", "access_level": level}

    def _groups(self) -> dict[str, Row]:
        """Half of the groups are Entra's, half are projects' own; each may lie in others, and two in each other."""
        made: dict[str, Row] = {}
        homeless = iter(self._people)
        half = self._size.groups // 2
        for n in range(half):
            key = f"e{n}"
            members = self._r.sample(self._people, min(20, len(self._people)))
            members += [p for _, p in zip(range(self._size.people // half + 1), homeless, strict=False)]
            members += [f"group:{g}" for g in self._r.sample(self._entra, min(len(self._entra), self._r.randint(0, 2)))]
            made[key] = {"name": f"Entra {n}", "members": list(dict.fromkeys(members))}
            self._entra.append(key)
        made["e0"]["members"].append(f"group:e{half - 1}")
        for n in range(half, self._size.groups):
            key, project = f"a{n}", self._projects[n % len(self._projects)]
            members = [*self._r.sample(self._people, 3), *(f"group:{g}" for g in self._r.sample(self._entra, 2))]
            if self._own[project]:
                members.append(f"group:{self._r.choice(self._own[project])}")
            made[key] = {"name": f"Team {n}", "kind": "azure_devops", "project": project, "members": members}
            self._own[project].append(key)
        self._there["group"] = list(made)
        return made

    def _acl(self, project: str) -> list[Row]:
        own = self._own[project] or self._entra
        rows = [{"to": f"group:{g}", "allow": ["read"]} for g in self._r.sample(own, min(len(own), 2))]
        rows.append({"to": f"group:{self._r.choice(self._entra)}", "allow": ["read"]})
        if self._r.random() < 0.2:
            rows.append({"to": f"person:{self._r.choice(self._people)}", "deny": ["read"]})
        return rows

    def _project(self, name: str) -> Row:
        acl = [{"to": f"group:{g}", "allow": ["read"]} for g in [*self._own[name][:8], *self._r.sample(self._entra, 3)]]
        visibility = "organization" if self._r.random() < 0.1 else "private"
        return {"visibility": visibility, "acl": acl, "areas": {}, "work_items": [], "wikis": {}, "repos": {}}

    def _node(self, project: str, reference: str) -> Row:
        self._there["node"].append(reference)
        return {"acl": self._acl(project), "inherit": self._r.random() > 0.05}

    # --- content

    def _fill(self, projects: dict[str, Row]) -> None:
        size = self._size
        for n in range(size.nodes - size.projects * 2 - size.repos):
            project = self._projects[n % len(self._projects)]
            known = self._areas.setdefault(project, [""])
            shallow = [a for a in known[-40:] if a.count("/") < 4]
            path = f"{self._r.choice(shallow or known)}/{self._prose.name()} {n}"
            projects[project]["areas"][path] = self._node(project, f"area:{project}{path}")
            known.append(path)
        for name in self._projects:
            wiki = f"{name} wiki"
            projects[name]["wikis"][wiki] = {**self._node(name, f"wiki:{wiki}"), "pages": {}}
        for number in range(1, size.work_items + 1):
            self._work_item(projects, number, deleted=False)
        extra = round(size.work_items * CHANGED * 0.2) + 1
        for number in range(size.work_items + 1, size.work_items + 1 + extra):
            self._work_item(projects, number, deleted=True)
        for n in range(size.pages + round(size.pages * CHANGED * 0.2) + 1):
            self._page(projects, n, deleted=n >= size.pages)
        for n in range(size.repos):
            share = size.files // size.repos + (n < size.files % size.repos)
            project = self._projects[n % len(self._projects)]
            projects[project]["repos"][f"repo-{n:03}"] = self._repo(f"repo-{n:03}", project, share)

    def _at(self, *, least: float = 1, most: float = 900) -> str:
        return (NOW - timedelta(days=round(self._r.uniform(least, most), 3))).isoformat()

    def _stamp(self, at: str | None = None) -> Row:
        return {"by": self._r.choice(self._people), "at": at or self._at()}

    def _work_item(self, projects: dict[str, Row], number: int, *, deleted: bool) -> None:
        r, name = self._r, self._r.choice(self._projects)
        row: Row = {
            "id": number,
            "type": r.choice(("Bug", "User Story", "Task", "Feature")),
            "title": self._prose.title(),
            "state": r.choice(("New", "Active", "Resolved", "Closed")),
            "area": r.choice(self._areas[name]) or "/",
            "tags": [r.choice(("risk", "debt", "customer", "audit"))] if r.random() < 0.3 else [],
            "created": self._stamp(self._at(least=300)),
            "assigned": r.choice(self._people),
            "description": f"<p>{self._prose.paragraph()}</p><p>{self._prose.paragraph(1, 4)}</p>",
        }
        if r.random() < 0.5:
            row["changed"] = self._stamp(self._at(most=299))
        if r.random() < 0.3:
            row["comments"] = [
                {**self._stamp(self._at(most=290)), "text": self._prose.paragraph(1, 3)} for _ in range(r.randint(1, 3))
            ]
        if number > 2 and not deleted and r.random() < 0.3:
            row["links"] = [{"rel": "related", "to": f"work_item:{r.randrange(1, number)}"}]
        if deleted:
            row["deleted"] = self._stamp(self._at(least=0.1, most=0.9))
        projects[name]["work_items"].append(row)
        (self._waiting if deleted else self._there)["work_item"].append(f"work_item:{number}")

    def _page(self, projects: dict[str, Row], n: int, *, deleted: bool) -> None:
        name = self._projects[n % len(self._projects)]
        wiki, pages = f"{name} wiki", projects[name]["wikis"][f"{name} wiki"]["pages"]
        above = self._r.choice([*list(pages)[-10:], ""])
        path = f"{above}/{self._prose.name()} {n}".strip("/") if above.count("/") < 4 else f"{self._prose.name()} {n}"
        times = sorted(self._at() for _ in range(self._r.randint(1, 3)))
        page: Row = {"revisions": [{**self._stamp(at), "content": self._prose.page()} for at in times]}
        if deleted:
            page["deleted"] = self._stamp(self._at(least=0.1, most=0.9))
        pages[path] = page
        (self._waiting if deleted else self._there)["page"].append(f"wiki:{wiki}/{path}")

    def _file(self, path: str) -> Any:
        kind = path.rpartition(".")[2]
        return (
            {"base64": base64.b64encode(self._r.randbytes(300)).decode()} if kind == "png" else self._prose.code(kind)
        )

    def _repo(self, key: str, project: str, files: int) -> Row:
        r = self._r
        folders = [self._prose.name() for _ in range(max(2, files // 8))]
        paths = [f"src/{r.choice(folders)}/{self._prose.name()}-{n}.{r.choice(_LANGUAGES)}" for n in range(files)]
        times = sorted(self._at(least=2) for _ in range(r.randint(3, 10)))
        first = max(1, files * 2 // 3)
        commits: list[Row] = []
        for number, at in enumerate(times):
            some = paths[:first] if number == 0 else r.sample(paths[:first], min(first, 3))
            if number > 0:
                some = [*some, *paths[first:][number - 1 :: len(times) - 1]]
            commits.append(self._commit(f"c{number}", at, {p: self._file(p) for p in some}))
        waiting = f"src/{folders[0]}/{self._prose.name()}-{files}.py"
        for number, content in enumerate((self._file(waiting), None)):
            commits.append(
                self._commit(
                    f"w{number}", self._at(least=1.1 - number / 10, most=1.2 - number / 10), {waiting: content}
                )
            )
        pulls = []
        for number in range(1, r.randint(1, 3) + 1):
            topic = self._commit(
                f"t{number}", self._at(least=0.6, most=0.9), {p: self._file(p) for p in r.sample(paths, 2)}
            )
            commits.append({**topic, "branch": f"topic/{number}"})
            pulls.append(self._pull(number, f"topic/{number}", topic))
            self._there["pr"].append(f"pr:{key}/{number}")
        self._there["file"] += [f"file:{key}/{p}" for p in paths if not p.endswith(".png")]
        self._waiting["file"].append(f"file:{key}/{waiting}")
        return {**self._node(project, f"repo:{key}"), "commits": commits, "pull_requests": pulls}

    def _commit(self, key: str, at: str, files: Row) -> Row:
        message = f"{self._prose.title()}\n\n{self._prose.sentence()}"
        return {"key": key, **self._stamp(at), "message": message, "files": files}

    def _pull(self, number: int, branch: str, topic: Row) -> Row:
        r = self._r
        status = r.choice(("active", "completed", "completed", "abandoned"))
        row: Row = {
            "id": number,
            "title": self._prose.title(),
            "description": self._prose.paragraph(),
            "created": {"by": topic["by"], "at": topic["at"]},
            "status": status,
            "source": branch,
            "commits": [topic["key"]],
            "reviewers": [{"who": r.choice(self._people), "vote": r.choice((10, 5, -5))}],
            "threads": [{"comments": [{**self._stamp(topic["at"]), "text": self._prose.paragraph(1, 2)}]}],
            "work_items": [r.randint(1, self._size.work_items)],
        }
        if status != "active":
            row["closed"] = self._stamp(self._at(least=0.1, most=0.5))
        return row

    # --- what changes

    def _events(self) -> list[Row]:
        """1% of each kind: most are edited, some deleted, brought back as new, or moved; ACLs and memberships too."""
        r, made = self._r, []
        for kind, known in self._there.items():
            for number, reference in enumerate(r.sample(known, max(2, round(len(known) * CHANGED)))):
                made.append(self._change(kind, reference, number % 10))
        return [{"id": f"change-{n}", "after": f"{10 + n}s", **change} for n, change in enumerate(made)]

    def _change(self, kind: str, reference: str, turn: int) -> Row:
        by = self._r.choice(self._people)
        match kind:
            case "node":
                project = self._r.choice(self._projects)
                return {"set_acl": {"on": reference, "acl": self._acl(project)}}
            case "group":
                return {"add_member": {"group": reference, "who": by}}
            case "pr":
                return {"edit": {"item": reference, "by": by, "fields": {"title": self._prose.title()}}}
        if turn in (1, 6) and self._waiting[kind]:
            fresh = self._waiting[kind].pop()
            if kind == "file":
                return {"edit": {"item": fresh, "by": by, "content": self._file(fresh)}}
            return {"restore": {"item": fresh}}
        if turn == 4:
            return {"delete": {"item": reference}}
        if turn == 5:
            if kind == "work_item":
                project = self._r.choice(self._projects)
                area = self._r.choice(self._areas[project])
                return {"move": {"item": reference, "to": f"area:{project}{area}" if area else f"project:{project}"}}
            return {
                "rename": {"what": reference, "to": f"{self._prose.name()}-moved" + (".py" if kind == "file" else "")}
            }
        text = (
            self._prose.page()
            if kind == "page"
            else self._file(reference)
            if kind == "file"
            else self._prose.paragraph()
        )
        return {"edit": {"item": reference, "by": by, "content": text}}
