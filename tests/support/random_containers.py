"""Random changes of containers, permissions and people."""

from __future__ import annotations

from typing import Any

from fixtures.sandbox import state_additions as add
from fixtures.sandbox.refs import Ref
from tests.support.chance import Chance


def container(c: Chance, kinds: tuple[str, ...], *, deleted: bool = False) -> str:
    kind = c.random.choice(kinds)
    state = c.state
    all_of: dict[str, Any] = {"project": state.lookup.projects, "repo": state.lookup.repos, "wiki": state.lookup.wikis}
    keys = [k for k in all_of[kind] if state.is_deleted(Ref(kind, (k,))) == deleted]
    return f"{kind}:{c.pick(keys)}"


def rename_container(c: Chance) -> str:
    what = container(c, ("project", "repo", "wiki"))
    return c.happen(rename={"what": what, "to": f"{what.partition(':')[2]}-{c.random.randrange(1000)}"})


def rename_area(c: Chance) -> str:
    project = c.project()
    area = c.pick(a for a in c.state.areas(project) if a != "/")
    return c.happen(rename={"what": f"area:{project}{area}", "to": f"area {c.random.randrange(1000)}"})


def move_repo(c: Chance) -> str:
    return c.happen(move={"item": f"repo:{c.repo()}", "to": f"project:{c.project()}"})


def disable_repo(c: Chance) -> str:
    repo = c.pick(c.state.repos())
    add.set_disabled(c.state, repo, not c.state.repo_model(repo).disabled)
    return str(repo)


def acl(c: Chance) -> str:
    project = c.project()
    area = c.area(project)
    on = c.random.choice((f"area:{project}{'' if area == '/' else area}", container(c, ("project", "repo", "wiki"))))
    names = [*c.state.world.people, *(f"group:{g}" for g in c.state.world.groups)]
    acl = [{"to": c.pick(names), c.random.choice(("allow", "allow", "deny")): ["read"]} for _ in range(2)]
    return c.happen(set_acl={"on": on, "acl": acl, "inherit": c.random.choice((True, True, False))})


def member(c: Chance) -> str:
    group = c.pick(c.state.world.groups)
    who = c.pick([*c.state.world.people, *(f"group:{g}" for g in c.state.world.groups if g != group)])
    kind = c.random.choice(("add_member", "remove_member"))
    return c.happen(**{kind: {"group": group, "who": who}})


def label(c: Chance) -> str:
    wiki, page = c.page()
    on = c.random.choice(
        (f"work_item:{c.work_item()}", f"wiki:{wiki}/{page}", container(c, ("project", "repo"))),
    )
    return c.happen(label={"on": on, "label": c.pick(c.state.world.labels)})


def licence(c: Chance) -> str:
    level = c.random.choice(("basic", "stakeholder", "none"))
    return c.happen(set_access_level={"who": c.person(), "access_level": level})


def visibility(c: Chance) -> str:
    project, visibility = c.project(), c.random.choice(("private", "organization", "public"))
    add.set_visibility(c.state, project, visibility)
    return f"{project} {visibility}"
