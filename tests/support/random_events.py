"""Random changes of an organization, each made from a number of its own: any part of a row of them can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fixtures.sandbox import state_additions as add
from fixtures.sandbox import world_models as m
from fixtures.sandbox.refs import Ref
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.state_events import apply_event
from fixtures.sandbox.world_models import Event

_WORDS = ("settle", "partner", "invoice", "limit", "retry", "window", "card", "refund", "batch", "ledger")


class Nothing(Exception):  # noqa: N818 - no error: the change asked for can't happen now
    """There is nothing that this change could be made to."""


def change(state: SandboxState, number: int, kinds: tuple[str, ...] | None = None) -> str:
    """Make the change of that number and tell it in words; one that can't happen now changes nothing."""
    chance = Random(number)
    names = kinds or tuple(_KINDS)
    kind = chance.choices(names, [_KINDS[name][0] for name in names])[0]
    try:
        with state.lock:
            return f"{kind}: {_KINDS[kind][1](_Chance(state, chance))}"
    except Nothing:
        return f"{kind}: nothing"


class _Chance:
    """The present, and what to choose from it."""

    def __init__(self, state: SandboxState, chance: Random) -> None:
        self.state, self.random = state, chance

    def pick(self, found: Any) -> Any:
        rows = sorted(found, key=str)
        if not rows:
            raise Nothing
        return self.random.choice(rows)

    def happen(self, **what: Any) -> str:
        minutes = self.random.choice((0, 1, 30))
        past = int((self.state.now - self.state.first.now).total_seconds() // 60)
        data = {"id": f"e{len(self.state.journal)}", "after": f"{past + minutes}m", **what}
        apply_event(self.state, Event.model_validate(data))
        return str(what)

    def words(self, n: int = 3) -> str:
        return " ".join(self.random.choices(_WORDS, k=n))

    def name(self) -> str:
        return f"{self.words(1)} {self.random.randrange(10**6)}"

    def text(self) -> str:
        """A text with a heading, a mention of a number, a link to a page, or a definition, now and then."""
        extra = self.random.choice(
            ("", "# Rules\n\n", "\n\nSee #1 and [Start](/Start).", "\n\nDCC means dynamic currency conversion.")
        )
        body = "\n\n".join(self.words(12) + "." for _ in range(self.random.choice((1, 1, 2, 6))))
        return extra + body if extra.startswith("#") else body + extra

    def person(self) -> str:
        return str(self.pick(self.state.world.people))

    def project(self) -> str:
        return str(self.pick(self.state.projects()))

    def work_item(self, *, deleted: bool = False) -> int:
        return int(self.pick(self.state.work_item_numbers(deleted=deleted)))

    def area(self, project: str) -> str:
        return str(self.pick(self.state.areas(project)))

    def repo(self, *, plain: bool = False) -> str:
        """A repo that is on; `plain`: without a code wiki in it."""
        wiki_of = {self.state.code_repo(w) for w in self.state.wikis().values() if w.kind == "code"}
        return str(
            self.pick(
                key
                for key in self.state.repos()
                if not self.state.repo_model(key).disabled and not (plain and key in wiki_of)
            )
        )

    def wiki(self) -> str:
        found = self.state.wikis()
        return str(self.pick(k for k, w in found.items() if w.kind != "code" or self.on(self.state.code_repo(w))))

    def on(self, repo: str) -> bool:
        return repo in self.state.repos() and not self.state.repo_model(repo).disabled

    def page(self, *, deleted: bool = False) -> tuple[str, str]:
        wiki = self.wiki()
        keys = [k for k in self.state.lookup.pages[wiki] if self.state.is_deleted(Ref("page", (wiki, k))) == deleted]
        return wiki, str(self.pick(keys))

    def file(self) -> tuple[str, str]:
        """A file as references name it: by the path that it first had."""
        repo = self.repo()
        wikis = [w for w in self.state.wikis().values() if w.kind == "code" and self.state.code_repo(w) == repo]
        folders = tuple(f"{(w.path or '/').strip('/')}/" for w in wikis)
        present = self.state.files(repo)
        keys = [k for k in self.state.lookup.files(repo) if self.state.file_path_now(repo, k) in present]
        return repo, str(self.pick(k for k in keys if not (folders and k.startswith(folders))))

    def pull(self, *, active: bool = False) -> tuple[str, int]:
        repo = self.repo()
        rows = [n for n, p in self.state.pull_requests(repo).items() if not active or p.status == "active"]
        return repo, int(self.pick(rows))


# --- work items


def _new_item(c: _Chance) -> str:
    project = c.project()
    number = max(c.state.lookup.work_items, default=0) + c.random.choice((1, 1, 3))
    links = [m.Link(rel="related", to=f"work_item:{c.work_item()}")] if c.random.random() < 0.3 else []
    item = m.WorkItem(
        id=number,
        type=c.random.choice(("Task", "Bug", "User Story")),
        title=c.words(),
        area=c.area(project),
        created=m.Stamp(by=c.person(), at=c.state.now),
        description=c.text(),
        format=c.random.choice(("html", "markdown")),
        tags=c.random.choice(([], ["pay"], ["pay", "new"])),
        links=links,
    )
    add.add_work_item(c.state, project, item)
    return f"{number} in {project}"


def _edit_item(c: _Chance) -> str:
    number = c.work_item()
    fields: dict[str, Any] = c.random.choice(
        (
            {"title": c.words()},
            {"description": c.text()},
            {"state": c.random.choice(("New", "Active", "Closed"))},
            {"tags": c.random.choice(("", "pay; urgent", "card"))},
            {"assigned": c.person()},
            {"Custom.Risk": c.words(1)},
        )
    )
    return c.happen(edit={"item": f"work_item:{number}", "by": c.person(), "fields": fields})


def _move_item(c: _Chance) -> str:
    number, project = c.work_item(), c.project()
    area = c.area(project)
    return c.happen(move={"item": f"work_item:{number}", "to": f"area:{project}{'' if area == '/' else area}"})


def _comment(c: _Chance) -> str:
    number = c.work_item()
    add.add_comment(c.state, number, c.person(), c.text())
    return str(number)


def _one_comment(c: _Chance, *, deleted: bool) -> str:
    number = c.work_item()
    found = [n for n, _ in c.state.comments(number, deleted=True)]
    gone = [n for n in found if c.state.is_deleted(Ref("comment", (str(number), str(n))))]
    return f"comment:{number}/{c.pick(gone if deleted else set(found) - set(gone))}"


def _destroy(c: _Chance) -> str:
    number = c.work_item(deleted=c.random.random() < 0.7)
    add.destroy_work_item(c.state, number)
    return str(number)


# --- pages and files


def _new_page(c: _Chance) -> str:
    wiki = c.wiki()
    pages = [p.path for p in c.state.pages(wiki)]
    below = f"{c.pick(pages)}/" if pages and c.random.random() < 0.4 else ""
    path = f"{below}{c.name()}"
    add.add_page(c.state, wiki, path, c.person(), c.text())
    return f"{wiki}/{path}"


def _edit_page(c: _Chance) -> str:
    wiki, key = c.page()
    return c.happen(edit={"item": f"wiki:{wiki}/{key}", "by": c.person(), "content": c.text()})


def _move_page(c: _Chance) -> str:
    wiki, key = c.page()
    return c.happen(move={"item": f"wiki:{wiki}/{key}", "to": f"wiki:{wiki}/{c.name()}"})


def _restore_page(c: _Chance) -> str:
    wiki, key = c.page(deleted=True)
    return c.happen(restore={"item": f"wiki:{wiki}/{key}"})


def _swap_pages(c: _Chance) -> str:
    """A page takes the path that another had a moment ago."""
    wiki, key = c.page()
    path = c.state.page_path_now(wiki, key)
    c.happen(move={"item": f"wiki:{wiki}/{key}", "to": f"wiki:{wiki}/{c.name()}"})
    other = c.pick(p.key for p in c.state.pages(wiki) if not path.startswith(p.path + "/"))
    return c.happen(move={"item": f"wiki:{wiki}/{other}", "to": f"wiki:{wiki}/{path}"}) + f" after {key}"


def _push(c: _Chance) -> str:
    repo = c.repo()
    branch = c.random.choice((None, None, None, "topic", "side"))
    paths = sorted(c.state.git(repo).files(branch)) if branch in c.state.git(repo).branches() else []
    paths = paths or sorted(c.state.files(repo))
    files: add.Files = {}
    for _ in range(c.random.choice((1, 1, 2, 4))):
        if paths and c.random.random() < 0.5:
            path = c.random.choice(paths)
            if path.startswith("docs/"):
                continue
            files[path] = None if c.random.random() < 0.2 else f"# {c.words()}\n"
        else:
            folder = c.random.choice(("", "src/", "a/b/"))
            ending = c.random.choice((".py", ".md", ".sql", ".bin", ".json"))
            body: str | bytes = b"\0\1" if ending == ".bin" else f"# {c.words()}\nx = {c.random.randrange(10**6)}\n"
            files[f"{folder}{c.words(1)}{c.random.randrange(4)}{ending}"] = body
    if not files:
        raise Nothing
    add.push(c.state, repo, files, by=c.person(), message=c.text(), branch=branch)
    return f"{repo} {branch} {sorted(files)}"


def _edit_file(c: _Chance) -> str:
    repo, path = c.file()
    return c.happen(edit={"item": f"file:{repo}/{path}", "by": c.person(), "content": f"# {c.words(6)}\n"})


def _move_file(c: _Chance) -> str:
    repo, path = c.file()
    now = c.state.file_path_now(repo, path)
    to = f"moved/{c.random.randrange(100)}/{now.rpartition('/')[2]}"
    return c.happen(move={"item": f"file:{repo}/{path}", "to": f"file:{repo}/{to}"})


def _delete_file(c: _Chance) -> str:
    repo, path = c.file()
    return c.happen(delete={"item": f"file:{repo}/{path}"})


def _reset(c: _Chance) -> str:
    repo, back, forget = c.repo(plain=True), c.random.choice((1, 1, 2)), c.random.random() < 0.5
    add.reset_branch(c.state, repo, back, forget=forget)
    return f"{repo} {back} {forget}"


def _default_branch(c: _Chance) -> str:
    repo = c.repo(plain=True)
    branch = c.pick(set(c.state.git(repo).branches()) - {c.state.git(repo).default_branch})
    add.set_default_branch(c.state, repo, branch)
    return f"{repo} {branch}"


# --- pull requests


def _new_pull(c: _Chance) -> str:
    repo = c.repo()
    number = max(c.state.lookup.pull_requests[repo], default=0) + 1
    branch = c.random.choice([*c.state.git(repo).branches(), "gone"])
    pull = m.PullRequest(
        id=number,
        title=c.words(),
        description=c.text(),
        created=m.Stamp(by=c.person(), at=c.state.now),
        source=branch if branch != c.state.git(repo).default_branch else "gone",
    )
    add.add_pull_request(c.state, repo, pull)
    return f"{repo} {number}"


def _edit_pull(c: _Chance) -> str:
    repo, number = c.pull()
    fields: dict[str, Any] = c.random.choice(({"title": c.words()}, {"description": c.text()}, {"status": "abandoned"}))
    return c.happen(edit={"item": f"pr:{repo}/{number}", "by": c.person(), "fields": fields})


def _discuss(c: _Chance) -> str:
    repo, number = c.pull(active=True)
    add.comment_on(c.state, repo, number, c.person(), c.text(), c.random.choice((None, "a.py")))
    return f"{repo} {number}"


def _vote(c: _Chance) -> str:
    repo, number = c.pull()
    add.vote(c.state, repo, number, c.person(), c.random.choice((10, 5, 0, -5, -10)))
    return f"{repo} {number}"


def _complete(c: _Chance) -> str:
    repo, number = c.pull(active=True)
    add.complete(c.state, repo, number, c.person())
    return f"{repo} {number}"


# --- containers, permissions and people


def _container(c: _Chance, kinds: tuple[str, ...], *, deleted: bool = False) -> str:
    kind = c.random.choice(kinds)
    state = c.state
    all_of: dict[str, Any] = {"project": state.lookup.projects, "repo": state.lookup.repos, "wiki": state.lookup.wikis}
    keys = [k for k in all_of[kind] if state.is_deleted(Ref(kind, (k,))) == deleted]
    return f"{kind}:{c.pick(keys)}"


def _rename_container(c: _Chance) -> str:
    what = _container(c, ("project", "repo", "wiki"))
    return c.happen(rename={"what": what, "to": f"{what.partition(':')[2]}-{c.random.randrange(1000)}"})


def _rename_area(c: _Chance) -> str:
    project = c.project()
    area = c.pick(a for a in c.state.areas(project) if a != "/")
    return c.happen(rename={"what": f"area:{project}{area}", "to": f"area {c.random.randrange(1000)}"})


def _move_repo(c: _Chance) -> str:
    return c.happen(move={"item": f"repo:{c.repo()}", "to": f"project:{c.project()}"})


def _disable_repo(c: _Chance) -> str:
    repo = c.pick(c.state.repos())
    add.set_disabled(c.state, repo, not c.state.repo_model(repo).disabled)
    return str(repo)


def _acl(c: _Chance) -> str:
    project = c.project()
    area = c.area(project)
    on = c.random.choice((f"area:{project}{'' if area == '/' else area}", _container(c, ("project", "repo", "wiki"))))
    names = [*c.state.world.people, *(f"group:{g}" for g in c.state.world.groups)]
    acl = [{"to": c.pick(names), c.random.choice(("allow", "allow", "deny")): ["read"]} for _ in range(2)]
    return c.happen(set_acl={"on": on, "acl": acl, "inherit": c.random.choice((True, True, False))})


def _member(c: _Chance) -> str:
    group = c.pick(c.state.world.groups)
    who = c.pick([*c.state.world.people, *(f"group:{g}" for g in c.state.world.groups if g != group)])
    kind = c.random.choice(("add_member", "remove_member"))
    return c.happen(**{kind: {"group": group, "who": who}})


def _label(c: _Chance) -> str:
    wiki, page = c.page()
    on = c.random.choice(
        (f"work_item:{c.work_item()}", f"wiki:{wiki}/{page}", _container(c, ("project", "repo"))),
    )
    return c.happen(label={"on": on, "label": c.pick(c.state.world.labels)})


def _licence(c: _Chance) -> str:
    level = c.random.choice(("basic", "stakeholder", "none"))
    return c.happen(set_access_level={"who": c.person(), "access_level": level})


def _visibility(c: _Chance) -> str:
    project, visibility = c.project(), c.random.choice(("private", "organization", "public"))
    add.set_visibility(c.state, project, visibility)
    return f"{project} {visibility}"


# Kind → (how often, what it does).
_KINDS: dict[str, tuple[float, Callable[[_Chance], str]]] = {
    "new item": (6, _new_item),
    "edit item": (8, _edit_item),
    "move item": (4, _move_item),
    "delete item": (4, lambda c: c.happen(delete={"item": f"work_item:{c.work_item()}"})),
    "restore item": (4, lambda c: c.happen(restore={"item": f"work_item:{c.work_item(deleted=True)}"})),
    "destroy item": (2, _destroy),
    "comment": (4, _comment),
    "edit comment": (
        2,
        lambda c: c.happen(edit={"item": _one_comment(c, deleted=False), "by": c.person(), "body": c.text()}),
    ),
    "delete comment": (2, lambda c: c.happen(delete={"item": _one_comment(c, deleted=False)})),
    "restore comment": (1, lambda c: c.happen(restore={"item": _one_comment(c, deleted=True)})),
    "new page": (5, _new_page),
    "edit page": (6, _edit_page),
    "move page": (4, _move_page),
    "swap pages": (2, _swap_pages),
    "delete page": (3, lambda c: c.happen(delete={"item": "wiki:" + "/".join(c.page())})),
    "restore page": (3, _restore_page),
    "push": (8, _push),
    "edit file": (4, _edit_file),
    "move file": (3, _move_file),
    "delete file": (3, _delete_file),
    "reset branch": (2, _reset),
    "default branch": (2, _default_branch),
    "new pull": (3, _new_pull),
    "edit pull": (3, _edit_pull),
    "discuss": (3, _discuss),
    "vote": (3, _vote),
    "complete": (3, _complete),
    "rename container": (2, _rename_container),
    "rename area": (2, _rename_area),
    "delete container": (1, lambda c: c.happen(delete={"item": _container(c, ("project", "repo", "wiki"))})),
    "restore container": (2, lambda c: c.happen(restore={"item": _container(c, ("project", "repo"), deleted=True)})),
    "move repo": (1, _move_repo),
    "switch repo": (2, _disable_repo),
    "acl": (5, _acl),
    "member": (4, _member),
    "label": (3, _label),
    "licence": (2, _licence),
    "visibility": (1, _visibility),
    "disable person": (1, lambda c: c.happen(disable_person={"who": c.person()})),
}
