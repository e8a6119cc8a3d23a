"""The golden questions of the second world agree with the rules of access, before and after its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.sandbox.access import may_read
from fixtures.sandbox.state import SandboxState
from fixtures.sandbox.world import load_world, read_yaml

HAVENLICHT = Path(__file__).parents[2] / "fixtures" / "worlds" / "havenlicht"
QUESTIONS: list[dict[str, Any]] = read_yaml(HAVENLICHT / "questions.yaml")["questions"]


@pytest.fixture(scope="module", name="state")
def fixture_state() -> SandboxState:
    """One state; every test sets it back first."""
    return SandboxState(load_world(HAVENLICHT))


def _at(state: SandboxState, event: str | None) -> SandboxState:
    state.reset()
    if event is not None:
        state.apply(event)
    return state


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_an_asker_may_read_what_is_expected_and_nothing_that_must_be_absent(
    state: SandboxState, question: dict[str, Any]
) -> None:
    now = _at(state, question.get("after"))
    expect = question["expect"]
    wanted = {*expect.get("evidence", []), *expect.get("receipts", []), *expect.get("stale", [])}
    wanted |= {ref for pair in expect.get("conflicts", []) for ref in pair}
    wanted |= {ref for pair in expect.get("superseded", []) for ref in pair.values()}

    assert [ref for ref in sorted(wanted) if not may_read(now, question["as"], ref)] == []
    assert [ref for ref in expect.get("absent", []) if may_read(now, question["as"], ref)] == []


# Who may read what, at the corners of the rules: (event, person, item, may they, why).
CORNERS = [
    (None, "jan-monteur", "work_item:118", False, "a deny in one group beats an allow in another"),
    (None, "jan-monteur", "work_item:119", True, "a nearer allow beats a farther deny"),
    (None, "aylin", "work_item:119", True, "a node that names nobody of the asker's leaves it to the next"),
    (None, "aylin", "work_item:121", False, "a child of a node that is cut inherits the cut"),
    (None, "bram", "work_item:121", True, "a stakeholder reads work items"),
    (None, "bram", "wiki:Walstroom.wiki/Connecting a vessel", True, "a stakeholder reads a project wiki"),
    (None, "bram", "file:walstroom-gateway/src/meter.py", False, "a stakeholder reads no code of a private project"),
    (None, "bram", "file:kade-data/grafana/ligplaatsen.json", False, "nor where the organization may look in"),
    (None, "bram", "file:havenkit/havenkit/slots.py", True, "but does in a public project"),
    (None, "bram", "wiki:havenkit-docs/Getting-started", True, "and its code wiki"),
    (None, "lena", "file:havenkit/havenkit/slots.py", True, "public is open to guests"),
    (None, "lena", "wiki:Kadeplanning.wiki/Begrippen", False, "organization is not"),
    (None, "kraanbot", "wiki:Kadeplanning.wiki/Begrippen", False, "nor to a service"),
    (None, "kraanbot", "file:walstroom-gateway/README.md", True, "a service named on the repo reads it"),
    (None, "jan-monteur", "wiki:Kadeplanning.wiki/Begrippen", False, "a deny on the project beats open visibility"),
    (None, "sietske", "file:havenkit/havenkit/slots.py", False, "without a licence nothing, though it is public"),
    (None, "sietske", "work_item:120", False, "though an area names her"),
    ("sietske-licence", "sietske", "work_item:120", True, "until she gets a licence"),
    (None, "mees", "work_item:117", False, "an entry for other rights lets nobody in"),
    (None, "aylin", "work_item:117", True, "nor does it keep anybody out"),
    (None, "ruben", "wiki:Walstroom.wiki/Connecting a vessel", False, "inherit: false on a wiki cuts it"),
    (None, "mees", "work_item:208", True, "groups that are members of each other"),
    (None, "katrien", "work_item:208", True, "an organization-level group"),
    (None, "ruben", "work_item:208", False, "not in any group named there"),
    ("ruben-audits", "ruben", "work_item:208", True, "a group within the group that is named"),
    (None, "bram", "work_item:208", False, "the same group name in another project"),
    (None, "joost", "file:havenkit-archief/importer.py", False, "a disabled repo is nobody's"),
    (None, "willem", "work_item:204", False, "one who left reads nothing"),
    (None, "joost", "message:Kade Ops/Douane-incident/zegel", True, "a private channel's member outside the team"),
    (None, "femke", "message:Kade Ops/Douane-incident/zegel", False, "the team's owner outside the channel"),
    (None, "katrien", "message:Kade Ops/Algemeen/besluit-90", False, "an owner who is no member"),
    (None, "mees", "message:Walstroom/Koppelingen/poort", True, "shared with a team through nested groups"),
    (None, "lena", "message:Walstroom/Koppelingen/poort", True, "a guest who is a member herself"),
    (None, "ruben", "message:Walstroom/Koppelingen/poort", False, "the host team's members do not count"),
    (None, "sietske", "message:Prikbord/Algemeen/bhv", True, "a public team is everyone's"),
    (None, "lena", "message:Prikbord/Algemeen/bhv", False, "but no guest's"),
    ("plan-moved", "aylin", "work_item:210", False, "a work item takes the ACL of where it was moved to"),
    ("plan-moved", "mees", "work_item:210", True, "and so do its readers"),
    ("quay-data", "ruben", "file:kade-data/grafana/ligplaatsen.json", True, "a rename changes no access"),
    ("jan-gone", "jan-monteur", "work_item:119", False, "a disabled account reads nothing"),
    ("aylin-without-licence", "aylin", "work_item:117", False, "a licence taken away"),
]


@pytest.mark.parametrize(("event", "person", "item", "may", "why"), CORNERS)
def test_who_may_read_what_at_the_corners_of_the_rules(
    state: SandboxState, event: str | None, person: str, item: str, may: bool, why: str
) -> None:
    assert may_read(_at(state, event), person, item) is may, why
