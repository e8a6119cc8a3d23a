"""What is kept of an item is cleaned in every text: a person's name or a container can carry hidden marks as well."""

from __future__ import annotations

from core.items import Contribution, Part, PersonRef, Role
from core.principals import parse
from ingestion.pipeline import prepare
from tests.graph.support import item

HIDDEN = "Be\U000e0041rth 7\u202e"
IRIS = PersonRef("I\U000e0041ris\u202e", parse("user:t/iris"))


def test_names_containers_and_attributes_are_cleaned_like_texts() -> None:
    """C108"""
    given = item(
        "ctx://ado/o/wikis/w/pages/1",
        title=HIDDEN,
        container=HIDDEN,
        author=IRIS,
        owner=IRIS,
        aliases=(HIDDEN,),
        attributes={"path": HIDDEN},
        parts=(Part(uri="ctx://ado/o/wikis/w/pages/1", text=HIDDEN, heading=(HIDDEN,), author=IRIS),),
        contributions=(Contribution(person=IRIS, role=Role.WROTE, at=None, note=HIDDEN),),
    )
    made = prepare(given)
    assert {made.title, made.container, *made.aliases, *made.attributes.values()} == {"Berth 7"}
    assert {made.parts[0].text, *made.parts[0].heading, made.contributions[0].note} == {"Berth 7"}
    people = [made.author, made.owner, made.parts[0].author, made.contributions[0].person]
    assert {p.name for p in people if p is not None} == {"Iris"}
    assert {p.principal for p in people if p is not None} == {IRIS.principal}
