"""From a label on, an item is shown only where its source confirms it for this asker at this moment."""

from __future__ import annotations

import json

import pytest

from core.bundle import Bundle
from core.errors import NotFoundError
from tests.late_binding.conftest import Side
from tests.late_binding.harbour import BOARD_IS_SHUT, QUESTION, on_behalf_of

SECRET_EVENTS = [e["id"] for e in BOARD_IS_SHUT if e["id"] != "open-shut"]


def secrets(bundle: Bundle) -> set[str]:
    """Sources of the evidence that is labelled secret."""
    return {e.source.value for e in bundle.evidence if e.label == "Secret"}


def comparable(bundle: Bundle) -> str:
    data = bundle.model_dump(mode="json", by_alias=True)
    for key in ("id", "made_at"):
        data.pop(key, None)
    for source in data["sources"]:
        source.pop("synced_at")
    return json.dumps(data, sort_keys=True, indent=1)


@pytest.mark.invariant("INV-7", "INV-5")
@pytest.mark.parametrize("method", ["on_behalf_of", "permissions"])
def test_what_a_source_has_just_taken_away_is_not_shown_and_what_has_no_such_label_is_until_that_is_learnt(
    side: Side, method: str
) -> None:
    service = side.service(on_behalf_of(side.sandbox, method=method))
    assert secrets(side.ask("ben", service=service)) == {"work_items", "wikis", "code", "teams"}
    for event in (*SECRET_EVENTS, "open-shut"):
        side.sandbox.apply(event)
    after = side.ask("ben", service=service)
    assert secrets(after) == set()
    assert any(e.title == "Publish the quay crane tariff" for e in after.evidence)
    # Ann still may.
    assert secrets(side.ask("ann", service=service)) == {"work_items", "wikis", "code", "teams"}


@pytest.mark.invariant("INV-7", "INV-4")
@pytest.mark.parametrize(
    "question", [QUESTION, "what does QCT mean?", "who knows about the quay crane tariff?", "#3", "Havbris"]
)
def test_what_was_taken_away_is_as_if_it_had_never_been(side: Side, without_secrets: Side, question: str) -> None:
    for event in (*SECRET_EVENTS, "open-shut"):
        side.sandbox.apply(event)
    # The same hour in both.
    without_secrets.sandbox.apply("open-shut")
    theirs, ours = side.ask("ben", question), without_secrets.ask("ben", question)
    assert comparable(theirs) == comparable(ours)
    assert theirs.digest == ours.digest


@pytest.mark.invariant("INV-7")
def test_opening_an_item_asks_its_source_too(side: Side) -> None:
    found = {e.uri for e in side.ask("ben").evidence if e.label == "Secret"}
    assert found
    for uri in found:
        assert side.open("ben", uri).label == "Secret"
    for event in SECRET_EVENTS:
        side.sandbox.apply(event)
    for uri in found:
        with pytest.raises(NotFoundError):
            side.open("ben", uri)
