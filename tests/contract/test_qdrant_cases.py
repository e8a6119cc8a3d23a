"""Cases in which filters of a vector index have let too much through elsewhere, on every index alike."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.access import Gate, Layer, Scope, ScopeAcl, ScopeId, Trim
from core.clock import FixedClock
from core.errors import InvariantError
from core.index import filters
from core.index.edge import EdgeIndex
from core.index.port import IndexReader, IndexWriter, SearchLeg
from core.index.server import ServerConnection, ServerReader, ServerWriter
from core.items import Source
from core.principals import issue_asker, issue_principal_set, user
from graph.db import Database
from graph.scopes import ScopeStore
from tests.contract import index_world as w

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]
Halves = tuple[IndexReader, IndexWriter]
NOW = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture(params=["edge", "local"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Halves]:
    """Both halves of an empty index: in process, and by the client of a server."""
    if request.param == "edge":
        edge = EdgeIndex(tmp_path / "edge", embedder="m", size=w.SIZE)
        yield edge.reader, edge.writer
        edge.close()
        return
    from qdrant_client import QdrantClient

    client: Any = QdrantClient(":memory:")
    name = f"cases-{uuid.uuid4().hex}"
    connection = ServerConnection(collection=name, embedder="m", size=w.SIZE, create=True, client=client)
    yield ServerReader(connection), ServerWriter(connection)
    connection.close()


def found(index: Halves, trim: Trim, **asked: Any) -> set[str]:
    """Addresses that a search by meaning and keyword returns."""
    return {c.uri for c in index[0].search(trim, w.query(**asked))}


@pytest.mark.invariant("INV-3")
def test_a_search_on_two_legs_is_filtered_on_both_and_as_a_whole(
    index: Halves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C052: in each request that goes out the access rule stands at the root, in every prefetch and in the corpus."""
    for n, group in enumerate("aab"):
        index[1].replace_item(f"ctx://{n}", [w.point(f"ctx://{n}", allowed=(group,))])
    looked_at: list[Any] = []
    original = filters.assert_trimmed

    def watched(request: Any, trim: Trim) -> None:
        looked_at.append(request)
        original(request, trim)

    monkeypatch.setattr(filters, "assert_trimmed", watched)
    legs = tuple(SearchLeg(sources=(source,), limit=10) for source in Source)
    assert found(index, w.trim("a"), legs=legs) == {"ctx://0", "ctx://1"}
    assert len(looked_at) >= 2 * len(legs)


@pytest.mark.invariant("INV-3", "INV-7")
def test_what_is_left_out_by_name_leaves_in_what_has_no_name(index: Halves) -> None:
    """C053: a point without a label, or with one that asks for no word, is there; one denied by name is not."""
    labels = {"ctx://none": None, "ctx://public": "Public", "ctx://secret": "Secret", "ctx://unknown": "Velvet"}
    for uri, label in labels.items():
        index[1].replace_item(uri, [replace(w.point(uri), label=label)])
    index[1].replace_item("ctx://denied", [w.point("ctx://denied", scope="s1")])
    assert found(index, w.trim("a", blocked=["s1"])) == set(labels)
    late = w.trim("a", blocked=["s1"])
    unconfirmed = filters_of(late, free=("Public",))
    assert found(index, unconfirmed) == {"ctx://none", "ctx://public"}


def filters_of(trim: Trim, *, free: tuple[str, ...]) -> Trim:
    """The same trim where labels ask for their source's word, and none was given."""
    from core.access import issue_trim

    return issue_trim(
        trim.principals,
        matching=trim.matching,
        blocked=trim.blocked,
        readable=trim.readable,
        epoch=trim.epoch,
        free_labels=free,
    )


@pytest.mark.invariant("INV-3", "INV-5")
def test_new_content_keeps_who_may_read_it_and_what_names_nobody_is_nobody_s(index: Halves) -> None:
    """C055: a point carries its rule whenever it is written; without one it is invisible, and counted all the same."""
    reader, writer = index
    writer.replace_item("ctx://p", [w.point("ctx://p", text="before")])
    writer.set_access(ScopeId("s0"), [w.principal("b")], 2)
    writer.replace_item("ctx://p", [w.point("ctx://p", text="after", allowed=("b",))])
    assert found(index, w.trim("b")) == {"ctx://p"}
    assert found(index, w.trim("a")) == set()
    writer.replace_item("ctx://nobody", [w.point("ctx://nobody", allowed=())])
    assert found(index, w.trim("ab")) == {"ctx://p"}
    assert reader.count(w.trim("ab")) == 1
    assert writer.count_points() == 2
    with pytest.raises(InvariantError):
        writer.replace_item("ctx://lost", [replace(w.point("ctx://lost"), scope=ScopeId(""))])


@pytest.mark.invariant("INV-6")
def test_a_change_of_access_is_seen_by_the_very_next_read(index: Halves) -> None:
    """C057: a write is over when it returns."""
    reader, writer = index
    writer.replace_item("ctx://p", [w.point("ctx://p")])
    stale = 0
    for turn in range(250):
        writer.set_access(ScopeId("s0"), [], 2 * turn)
        stale += reader.count(w.trim("a"))
        writer.set_access(ScopeId("s0"), [w.principal("a")], 2 * turn + 1)
        stale += 1 - reader.count(w.trim("a"))
    assert stale == 0


@pytest.mark.invariant("INV-3")
def test_somebody_in_a_thousand_groups_sends_those_that_a_rule_names(index: Halves, ingest_db: Database) -> None:
    """C058: 1,500 groups, 300 rules; what is sent stays small, and the result is that of brute force."""
    scopes = ScopeStore(ingest_db, revocation_limit=timedelta(days=1), wall_clock=FixedClock(NOW))
    rules = [
        Scope(
            id=ScopeId(f"s{n}"),
            source="wikis",
            kind="wiki",
            name=f"s{n}",
            acl=ScopeAcl((Gate("object", (Layer("here", allow=frozenset({w.principal(f"g{7 * n}")})),)),)),
        )
        for n in range(300)
    ]
    scopes.apply("azure_devops", tuple(rules), complete=True, at=NOW)
    scopes.touch("azure_devops", NOW)
    me = user("t", "me")
    mine = frozenset({me, *(w.principal(f"g{n}") for n in range(1500))})
    asker = issue_asker(principal=me, tenant="t", agent=None, scopes=frozenset())
    trim = scopes.trim_for(issue_principal_set(asker, mine))
    points = [w.point(f"ctx://{n}", scope=f"s{n}", allowed=(f"g{7 * n}",)) for n in range(300)]
    for point in points:
        index[1].replace_item(point.uri, [point])
    assert len(trim.matching) <= 300
    expected = {p.uri for p in points if set(p.allowed) & mine}
    assert 0 < len(expected) < len(points)
    assert found(index, trim) == expected
