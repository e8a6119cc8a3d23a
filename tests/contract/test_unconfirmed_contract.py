"""Late binding in every index: what its source did not confirm matches no search and weighs in no statistic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import qdrant_edge as edge
from qdrant_client import models

from core.access import Trim, Unconfirmed, issue_trim, issue_verified
from core.errors import InvariantError
from core.index import filters as f
from core.index.port import IndexPoint
from core.principals import issue_asker, issue_principal_set
from tests.contract import index_world as w
from tests.contract.test_index_contract import Opened, make_index, uris

__all__ = ["make_index"]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]
LABELS = (None, "Public", "Internal", "Secret", "never heard of")


def trim(free: tuple[str, ...] | None, verified: Sequence[str] = (), *, blocked: Sequence[str] = ()) -> Trim:
    """Of someone in group `a`; `free` labels need no word of a source, which gave it for `verified`."""
    plain = w.trim("a", blocked=blocked)
    word = issue_verified(plain.principals, verified, asked=len(verified)) if verified else None
    return issue_trim(
        plain.principals,
        matching=plain.matching,
        blocked=plain.blocked,
        readable=plain.readable,
        epoch=1,
        free_labels=free,
        verified=word,
    )


def points() -> list[IndexPoint]:
    """Two items of each label, one of them nobody's of group `a`."""
    made = []
    for n, label in enumerate(LABELS):
        for allowed in ("a", "b"):
            uri = f"ctx://{label or 'none'}/{allowed}"
            made.append(replace(w.point(uri, allowed=(allowed,), scope=f"s{n}", text=f"text {n}"), label=label))
    return made


@pytest.fixture
def index(make_index: Callable[[], Opened]) -> Opened:
    made = make_index()
    for point in points():
        made.writer.replace_item(point.uri, [point])
    return made


def mine(*labels: str | None) -> list[str]:
    return sorted(f"ctx://{label or 'none'}/a" for label in labels)


@pytest.mark.invariant("INV-3", "INV-7")
def test_from_a_label_on_only_what_was_confirmed_is_found(index: Opened) -> None:
    query = w.query()
    assert uris(index, trim(None), query) == mine(*LABELS)
    assert uris(index, trim(("Public", "Internal")), query) == mine(None, "Public", "Internal")
    assert uris(index, trim(("Public",)), query) == mine(None, "Public")
    assert uris(index, trim(()), query) == mine(None)
    word = ["ctx://Secret/a", "ctx://Secret/b", "ctx://not there"]
    assert uris(index, trim(("Public",), word), query) == mine(None, "Public", "Secret")
    assert uris(index, trim((), word, blocked=["s3"]), query) == mine(None)
    assert index.reader.count(trim(("Public",), word)) == 3


@pytest.mark.invariant("INV-4", "INV-7")
def test_what_was_not_confirmed_weighs_in_no_score(index: Opened, make_index: Callable[[], Opened]) -> None:
    without = make_index()
    kept = [p for p in points() if p.label in (None, "Public", "Internal")]
    for point in kept:
        without.writer.replace_item(point.uri, [point])
    asked, limited = w.query(), trim(("Public", "Internal"))
    ours, theirs = index.reader.search(limited, asked), without.reader.search(limited, asked)
    assert [c.uri for c in ours] == [c.uri for c in theirs]
    readable = [p for p in kept if w.may_read(limited, p)]
    for a, b in zip(ours, theirs, strict=True):
        point = next(p for p in readable if p.uri == a.uri)
        assert (a.dense_score, a.sparse_score) == pytest.approx(w.true_scores(readable, asked, point), abs=1e-4)
        if index.bits_are_exact:
            assert (a.dense_score, a.sparse_score) == (b.dense_score, b.sparse_score)


def test_items_to_ask_about_are_named_nearest_first_and_no_others_are(index: Opened) -> None:
    asked = Unconfirmed(trim=trim(("Public", "Internal")))
    query = replace(w.query(), dense=next(p.dense for p in points() if p.uri == "ctx://Secret/a"))
    assert index.reader.nearest_unconfirmed(asked, query, 10)[0] == "ctx://Secret/a"
    assert sorted(index.reader.nearest_unconfirmed(asked, query, 10)) == mine("Secret", "never heard of")
    assert index.reader.nearest_unconfirmed(asked, query, 1) == ["ctx://Secret/a"]
    shut = Unconfirmed(trim=trim(("Public", "Internal"), blocked=["s3"]))
    assert index.reader.nearest_unconfirmed(shut, query, 10) == mine("never heard of")


def test_asking_begins_with_nothing_confirmed() -> None:
    for begun in (trim(None), trim(("Public",), ["ctx://x"])):
        with pytest.raises(InvariantError):
            Unconfirmed(trim=begun)


@pytest.mark.invariant("INV-1", "INV-7")
def test_the_word_of_a_source_holds_for_whom_it_was_given(index: Opened) -> None:
    plain = w.trim("a")
    other = issue_asker(principal=w.principal("other"), tenant="t", agent=None, scopes=frozenset())
    strange = issue_principal_set(other, frozenset({other.principal, *plain.principals.principals}))
    word = issue_verified(strange, ["ctx://Secret/a"], asked=1)
    with pytest.raises(InvariantError, match="whom it was given for"):
        issue_trim(
            plain.principals, matching=(), blocked=(), readable=(), epoch=1, free_labels=("Public",), verified=word
        )


@pytest.mark.invariant("INV-3", "INV-7")
@pytest.mark.parametrize("dialect", [f.EdgeDialect(), f.ServerDialect()], ids=["edge", "server"])
def test_a_request_that_forgets_late_binding_is_not_sent(dialect: f.Dialect) -> None:
    def request(found: Any) -> Any:
        return (
            edge.QueryRequest(limit=1, filter=found)
            if isinstance(dialect, f.EdgeDialect)
            else models.QueryRequest(filter=found)
        )

    limited, confirmed = trim(("Public",)), trim(("Public",), ["ctx://Secret/a"])
    for right in (limited, confirmed):
        f.assert_trimmed(request(f.readable(dialect, right)), right)
    for forgotten, rule in (
        (trim(None), limited),  # no condition at all
        (trim(("Public", "Secret")), limited),  # other labels
        (confirmed, limited),  # confirmed for another question
        (limited, confirmed),
    ):
        with pytest.raises(InvariantError, match="did not confirm"):
            f.assert_trimmed(request(f.readable(dialect, forgotten)), rule)
    asked = Unconfirmed(trim=limited)
    f.assert_unconfirmed(request(f.to_confirm(dialect, asked)), asked)
    with pytest.raises(InvariantError, match="other things"):
        f.assert_unconfirmed(request(f.readable(dialect, trim(None))), asked)
    # It names what may not be shown yet, so no search may be sent with it.
    with pytest.raises(InvariantError):
        f.assert_trimmed(request(f.to_confirm(dialect, asked)), limited)
