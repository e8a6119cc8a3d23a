"""What is looked for of an erased person in texts, and what is left of items that name them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access import ScopeId
from core.erased import MARK, ErasedPeople, name_digests, names_to_find, subject_digest
from core.items import Contribution, Item, ItemKind, Link, Part, PersonRef, Role, Source
from core.principals import user
from ingestion.erasure import without

KEY = b"k" * 32
ANNE, BEN = user("t", "anne"), user("t", "ben")
NAMES = names_to_find(shown=["Anne-Marie Ørsted", "Anne"], addresses=["am.orsted@corp.example", "CORP\\amo7"])
ERASED = ErasedPeople(KEY, subjects=[subject_digest(KEY, ANNE)], names=name_digests(KEY, NAMES))
ANNES, BENS = PersonRef("Anne-Marie Ørsted", ANNE), PersonRef("Ben", BEN)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Ask Anne-Marie Ørsted.", "Ask [erased]."),
        ("ANNE MARIE ØRSTED's review", "[erased]'s review"),
        ("Ørsted, Anne-Marie wrote", "[erased] wrote"),
        ("**Anne-Marie** Ørsted", "**[erased]"),
        ("Anne-Marie\nØrsted", "[erased]"),
        ("to am.orsted@corp.example and AMO7", "to [erased] and [erased]"),
        ("/docs/Anne-Marie%20%C3%98rsted or am_orsted", "/docs/Anne-Marie%20%C3%98rsted or [erased]"),
        ("Anne was here", "Anne was here"),
        ("Ørsted is a firm", "Ørsted is a firm"),
        ("Anne-Marie (from sales) Ørsted", "Anne-Marie (from sales) Ørsted"),
        ("nothing at all", "nothing at all"),
        ("", ""),
    ],
)
def test_a_name_is_found_in_its_forms_and_a_first_or_last_name_alone_is_anybodys(text: str, left: str) -> None:
    assert ERASED.masked(text) == left


@pytest.mark.parametrize(
    ("shown", "address"),
    [
        ("Will", "will@corp.example"),
        ("Maya Smit", "may@corp.example"),
        ("IT", "it@x.example"),
        ("Jo S", "js@x.example"),
    ],
)
def test_a_name_that_is_a_word_of_every_text_spoils_none(shown: str, address: str) -> None:
    text = "It may be that this will do in JS."
    called = names_to_find(shown=[shown], addresses=[address])
    erased = ErasedPeople(KEY, subjects=["x"], names=name_digests(KEY, called))
    assert erased.masked(text) == text
    assert erased.masked(f"Write to {address}") == f"Write to {MARK}"


def test_composed_and_decomposed_letters_are_the_same_and_accents_may_be_missing() -> None:
    josé = ErasedPeople(KEY, subjects=["x"], names=name_digests(KEY, ["José Núñez"]))
    for written in ("José Núñez", "Jose\u0301 Nu\u0301n\u0303ez", "Jose Nunez"):
        assert josé.masked(f"by {written} today") == f"by {MARK} today"


def test_digests_tell_no_name_and_another_key_gives_others() -> None:
    kept = [n.to_json() for n in name_digests(KEY, NAMES)]
    assert not any("anne" in str(n).lower() or "orsted" in str(n).lower() for n in kept)
    assert not name_digests(KEY, NAMES) & name_digests(b"j" * 32, NAMES)


@given(st.text())
def test_any_text_is_masked_once_and_for_all(text: str) -> None:
    once = ERASED.masked(f"{text} Anne-Marie Ørsted {text}")
    assert "Ørsted" not in once.replace(text, "")
    assert ERASED.masked(once) == once


def item(kind: ItemKind, *parts: Part, **more: object) -> Item:
    """An item of which everything names her."""
    made = Item(
        uri="ctx://i",
        source=Source.TEAMS if kind is ItemKind.THREAD else Source.WIKIS,
        kind=kind,
        scope=ScopeId("s"),
        title="By Anne-Marie Ørsted",
        url="https://x.example/amo7",
        parts=parts,
        version="1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        modified_at=None,
        author=ANNES,
        owner=PersonRef("Anne-Marie Ørsted"),
        contributions=(
            Contribution(person=ANNES, role=Role.WROTE, at=None),
            Contribution(person=BENS, role=Role.REVIEWED, at=None, note="for Anne-Marie Ørsted"),
        ),
        links=(Link(to="https://x.example/amo7", rel="mentions"),),
        aliases=("amo7", "other"),
        replaced_by=("Notes of Anne-Marie Ørsted", "https://x.example/amo7"),
        attributes={"tags": "amo7; pay"},
    )
    return replace(made, **more)  # type: ignore[arg-type]


def part(uri: str, text: str, author: PersonRef | None, *heading: str) -> Part:
    return Part(uri=uri, text=text, author=author, heading=heading)


def test_a_document_stays_without_its_author_and_names_and_a_comment_goes() -> None:
    left = without(
        item(
            ItemKind.WORK_ITEM,
            part("ctx://i", "Ask Anne-Marie Ørsted", ANNES, "AMO7"),
            part("ctx://i/comments/1", "My words", ANNES),
            part("ctx://i/comments/2", "Her words", BENS),
        ),
        ERASED,
    )
    assert left is not None
    assert [(p.text, p.author, p.heading) for p in left.parts] == [
        ("Ask [erased]", None, ("[erased]",)),
        ("Her words", BENS, ()),
    ]
    assert (left.title, left.author, left.owner) == ("By [erased]", None, None)
    assert [(c.person, c.note) for c in left.contributions] == [(BENS, "for [erased]")]
    assert (left.aliases, left.attributes) == (("other",), {"tags": "[erased]; pay"})
    assert left.replaced_by == ("Notes of [erased]", "https://x.example/amo7")
    assert (left.uri, left.url, left.links) == ("ctx://i", "https://x.example/amo7", item(ItemKind.FILE).links)


def test_a_remark_in_a_pull_request_goes_and_its_description_stays() -> None:
    parts = (part("ctx://i", "What it does", ANNES), part("ctx://i", "Why?", ANNES, "a.py:1"))
    left = without(item(ItemKind.PULL_REQUEST, *parts), ERASED)
    assert left is not None
    assert [p.text for p in left.parts] == ["What it does"]


@pytest.mark.parametrize(
    ("title", "left"), [("Where is the …", MARK), ("**Where** is the limit?", MARK), ("Limits", "Limits")]
)
def test_a_thread_that_a_dropped_reply_gave_its_title_loses_it(title: str, left: str) -> None:
    parts = (part("ctx://i", "So?", BENS), part("ctx://i/replies/1", "Where is the limit?", ANNES))
    kept = without(item(ItemKind.THREAD, *parts, title=title), ERASED)
    assert kept is not None
    assert (kept.title, [p.text for p in kept.parts]) == (left, ["So?"])


def test_a_thread_that_they_opened_keeps_the_answers_and_one_of_theirs_alone_is_gone() -> None:
    opened = item(ItemKind.THREAD, part("ctx://i", "A question", ANNES), part("ctx://i/replies/1", "Yes.", BENS))
    left = without(replace(opened, title="A subject"), ERASED)
    assert left is not None
    assert (left.title, [p.text for p in left.parts]) == (MARK, ["Yes."])
    assert without(item(ItemKind.THREAD, part("ctx://i", "Alone", ANNES)), ERASED) is None


def test_somebody_else_of_the_same_name_stays_who_they_are() -> None:
    other = PersonRef("Anne-Marie Ørsted", user("t", "another"))
    left = without(item(ItemKind.THREAD, part("ctx://i", "Mine", other), author=other), ERASED)
    assert left is not None
    assert left.author == other
    assert left.parts[0].author == other


def test_what_names_nobody_is_the_same_object_and_doing_it_twice_changes_nothing() -> None:
    plain = item(
        ItemKind.FILE,
        part("ctx://i", "Words", BENS),
        title="T",
        author=BENS,
        owner=None,
        contributions=(),
        aliases=(),
        replaced_by=(),
        attributes={},
    )
    assert without(plain, ERASED) is plain
    assert without(plain, ErasedPeople()) is plain
    named = item(ItemKind.FILE, part("ctx://i", "By Anne-Marie Ørsted", ANNES))
    once = without(named, ERASED)
    assert once is not None
    assert without(once, ERASED) is once
