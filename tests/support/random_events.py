"""Random changes of an organization, each made from a number of its own: any part of a row of them can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fixtures.sandbox.state import SandboxState
from tests.support import random_containers as containers
from tests.support import random_content as content
from tests.support import random_teams as teams
from tests.support.chance import Chance, Nothing


def change(state: SandboxState, number: int, kinds: tuple[str, ...] | None = None) -> str:
    """Make the change of that number and tell it in words; one that can't happen now changes nothing."""
    chance = Random(number)
    names = kinds or tuple(_KINDS)
    kind = chance.choices(names, [_KINDS[name][0] for name in names])[0]
    try:
        with state.lock:
            return f"{kind}: {_KINDS[kind][1](Chance(state, chance))}"
    except Nothing:
        return f"{kind}: nothing"


# Kind → (how often, what it does).
_KINDS: dict[str, tuple[float, Callable[[Chance], str]]] = {
    "new item": (6, content.new_item),
    "edit item": (8, content.edit_item),
    "move item": (4, content.move_item),
    "delete item": (4, lambda c: c.happen(delete={"item": f"work_item:{c.work_item()}"})),
    "restore item": (4, lambda c: c.happen(restore={"item": f"work_item:{c.work_item(deleted=True)}"})),
    "destroy item": (2, content.destroy),
    "comment": (4, content.comment),
    "edit comment": (
        2,
        lambda c: c.happen(edit={"item": content.one_comment(c, deleted=False), "by": c.person(), "body": c.text()}),
    ),
    "delete comment": (2, lambda c: c.happen(delete={"item": content.one_comment(c, deleted=False)})),
    "restore comment": (1, lambda c: c.happen(restore={"item": content.one_comment(c, deleted=True)})),
    "new page": (5, content.new_page),
    "edit page": (6, content.edit_page),
    "move page": (4, content.move_page),
    "swap pages": (2, content.swap_pages),
    "delete page": (3, lambda c: c.happen(delete={"item": "wiki:" + "/".join(c.page())})),
    "restore page": (3, content.restore_page),
    "push": (8, content.push),
    "edit file": (4, content.edit_file),
    "move file": (3, content.move_file),
    "delete file": (3, content.delete_file),
    "reset branch": (2, content.reset),
    "default branch": (2, content.default_branch),
    "new pull": (3, content.new_pull),
    "edit pull": (3, content.edit_pull),
    "discuss": (3, content.discuss),
    "vote": (3, content.vote),
    "complete": (3, content.complete),
    "rename container": (2, containers.rename_container),
    "rename area": (2, containers.rename_area),
    "delete container": (1, lambda c: c.happen(delete={"item": containers.container(c, ("project", "repo", "wiki"))})),
    "restore container": (
        2,
        lambda c: c.happen(restore={"item": containers.container(c, ("project", "repo"), deleted=True)}),
    ),
    "move repo": (1, containers.move_repo),
    "switch repo": (2, containers.disable_repo),
    "acl": (5, containers.acl),
    "member": (4, containers.member),
    "label": (3, containers.label),
    "licence": (2, containers.licence),
    "visibility": (1, containers.visibility),
    "post": (6, teams.post),
    "edit message": (3, teams.edit),
    "delete message": (3, teams.delete),
    "restore message": (2, teams.restore),
    "label in teams": (1, teams.label),
    "rename in teams": (1, teams.rename),
    "member in teams": (5, teams.member),
    "delete in teams": (1, teams.gone),
    "restore in teams": (2, teams.back),
    "disable person": (1, lambda c: c.happen(disable_person={"who": c.person()})),
}
