"""Which messages say something: C083."""

from __future__ import annotations

import pytest

from ingestion.teams.speech import EVENT, MEMBERSHIP_EVENT, UNKNOWN_KIND, is_gone, is_speech, silence
from tests.ingestion.teams.graph_messages import Json, message

_DETAIL = "#microsoft.graph.{}EventMessageDetail"


def _event(name: str, kind: str = "systemEventMessage") -> Json:
    detail = {"@odata.type": _DETAIL.format(name)}
    return message("1", "<systemEventMessage/>", html=True, messageType=kind, eventDetail=detail, **{"from": None})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (message(), None),
        (message(content=""), None),
        (message(content=None), None),
        (message(messageType=None), None),
        (_event("membersAdded"), MEMBERSHIP_EVENT),
        (_event("membersDeleted", "unknownFutureValue"), MEMBERSHIP_EVENT),
        (_event("conversationMemberRoleUpdated"), MEMBERSHIP_EVENT),
        (_event("channelRenamed"), EVENT),
        (message(content=None, messageType="unknownFutureValue"), EVENT),
        (message(content="<systemEventMessage/>", messageType="unknownFutureValue"), EVENT),
        (message(content="x", messageType="chatEvent"), EVENT),
        (message(content="", messageType="typing"), EVENT),
        (message(content="words", messageType="unknownFutureValue"), UNKNOWN_KIND),
        (message(content="words", messageType="hologram"), UNKNOWN_KIND),
    ],
)
def test_a_message_says_something_or_why_it_does_not(said: Json, why: str | None) -> None:
    assert silence(said) == why
    assert is_speech(said) == (why is None)


@pytest.mark.parametrize(
    ("more", "gone"),
    [
        ({}, False),
        ({"deletedDateTime": "2031-01-05T09:00:00Z"}, True),
        ({"@removed": {"reason": "changed"}}, True),
        ({"policyViolation": {"dlpAction": "blockAccess"}}, True),
        ({"policyViolation": {"dlpAction": "notifySender, blockAccessExternal"}}, True),
        ({"policyViolation": {"dlpAction": "notifySender"}}, False),
        ({"policyViolation": {"dlpAction": None, "userAction": "override"}}, False),
    ],
)
def test_what_is_deleted_or_blocked_is_gone(more: Json, gone: bool) -> None:
    assert is_gone(message(**more)) is gone
