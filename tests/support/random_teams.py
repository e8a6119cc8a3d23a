"""Random changes of teams, channels and what is said in them."""

from __future__ import annotations

from fixtures.sandbox.refs import Ref
from tests.support.chance import Chance, Nothing


def _channel(c: Chance, *kinds: str) -> tuple[str, str]:
    state = c.state
    return tuple(  # type: ignore[return-value]
        c.pick((t, k) for t, k in state.channel_keys() if not kinds or state.world.teams[t].channels[k].kind in kinds)
    )


def _message(c: Chance, *, deleted: bool = False) -> str:
    state = c.state
    found = [
        f"message:{team}/{channel}/{key}"
        for team, channel in state.channel_keys()
        for key in state.lookup.messages[team, channel]
        if state.is_deleted(Ref("message", (team, channel, key))) == deleted
    ]
    return str(c.pick(found))


def post(c: Chance) -> str:
    """A message that begins a thread, or answers in one."""
    team, channel = _channel(c)
    to = f"channel:{team}/{channel}"
    roots = [k for k in c.state.root_keys(team, channel) if not c.state.is_deleted(Ref("message", (team, channel, k)))]
    if roots and c.random.random() < 0.6:
        to = f"message:{team}/{channel}/{c.pick(roots)}"
    said = {"key": f"k{len(c.state.journal)}", "by": c.person(), "at": c.state.now.isoformat(), "body": c.text()}
    return c.happen(post={"channel": to, "message": said})


def edit(c: Chance) -> str:
    return c.happen(edit={"item": _message(c), "by": c.person(), "body": c.text()})


def delete(c: Chance) -> str:
    return c.happen(delete={"item": _message(c)})


def restore(c: Chance) -> str:
    return c.happen(restore={"item": _message(c, deleted=True)})


def label(c: Chance) -> str:
    team, channel = _channel(c)
    on = c.random.choice((f"team:{team}", f"channel:{team}/{channel}", _message(c)))
    return c.happen(label={"on": on, "label": c.pick(c.state.world.labels)})


def rename(c: Chance) -> str:
    team, channel = _channel(c)
    what = c.random.choice((f"team:{team}", f"channel:{team}/{channel}"))
    return c.happen(rename={"what": what, "to": f"Room {c.random.randrange(1000)}"})


def member(c: Chance) -> str:
    """Somebody joins or leaves a team, or a private or shared channel."""
    kind = c.random.choice(("add_member", "remove_member", "remove_member"))
    if c.random.random() < 0.5:
        return c.happen(**{kind: {"team": c.pick(c.state.teams()), "who": c.person()}})
    team, channel = _channel(c, "private", "shared")
    return c.happen(**{kind: {"channel": f"{team}/{channel}", "who": c.person()}})


def gone(c: Chance) -> str:
    """A channel or a team is deleted; one channel at least stays."""
    if len(list(c.state.channel_keys())) < 3:
        raise Nothing
    team, channel = _channel(c)
    return c.happen(delete={"item": c.random.choice((f"channel:{team}/{channel}", f"team:{team}"))})


def back(c: Chance) -> str:
    """A channel or a team that was deleted is there again."""
    away = [str(ref) for ref in c.state.deleted if ref.kind in ("team", "channel")]
    return c.happen(restore={"item": c.pick(away)})
