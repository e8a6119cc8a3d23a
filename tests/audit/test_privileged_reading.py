"""Reading past everybody's access: the same of every index, for the audit plane alone, with a reason, without text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient

from core.errors import InvariantError
from core.index.edge import EdgeIndex
from core.index.port import IndexWriter, SparseVector
from core.index.privileged import PrivilegedHit, PrivilegedQuery, PrivilegedReader
from core.index.privileged_edge import EdgePrivilegedReader
from core.index.privileged_server import ServerPrivilegedReader
from core.index.server import ServerConnection, ServerWriter
from tests.contract import index_world as w

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]
POINTS = {
    "ctx://a": w.point("ctx://a", allowed=("a",), scope="s1", sparse=SparseVector((7,), (2.0,)), created_at=100),
    "ctx://b": w.point("ctx://b", allowed=("b",), scope="s2", sparse=SparseVector((8,), (1.0,)), created_at=200),
    "ctx://c": w.point("ctx://c", allowed=(), scope="s3", sparse=SparseVector((9,), (1.0,)), created_at=None),
}


@pytest.fixture(params=["edge", "server"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PrivilegedReader]:
    """A privileged reader of an index that holds the points."""
    found: PrivilegedReader
    writer: IndexWriter
    if request.param == "edge":
        edge = EdgeIndex(tmp_path / "edge", embedder="m", size=w.SIZE)
        found, writer = EdgePrivilegedReader(edge), edge.writer
    else:
        client = QdrantClient(":memory:")
        connection = ServerConnection(collection="c", embedder="m", size=w.SIZE, create=True, client=client)
        found, writer = ServerPrivilegedReader(connection), ServerWriter(connection)
    for uri, point in POINTS.items():
        writer.replace_item(uri, [point])
    yield found
    writer.close()


def asked(**more: object) -> PrivilegedQuery:
    given = {"dense": POINTS["ctx://c"].dense, "sparse": w.ONE_WORD, "limit": 10} | more
    return PrivilegedQuery(**given)  # type: ignore[arg-type]


def test_everything_is_found_whoever_may_read_it_with_both_scores(reader: PrivilegedReader) -> None:
    hits = {h.uri: h for h in reader.nearest(asked(), reason="a test")}
    assert {h.uri: h.scope for h in hits.values()} == {"ctx://a": "s1", "ctx://b": "s2", "ctx://c": "s3"}
    assert hits["ctx://c"].dense_score == pytest.approx(1.0, abs=1e-5)
    assert hits["ctx://a"].sparse_score > 0.0
    assert hits["ctx://b"].sparse_score == hits["ctx://c"].sparse_score == 0.0
    for uri, hit in hits.items():
        assert hit.dense_score == pytest.approx(float(POINTS[uri].dense @ POINTS["ctx://c"].dense), abs=1e-5)
    reader.ping()


def test_each_leg_gives_its_best(reader: PrivilegedReader) -> None:
    assert {h.uri for h in reader.nearest(asked(limit=1), reason="a test")} == {"ctx://c", "ctx://a"}


def test_what_did_not_exist_yet_is_left_out(reader: PrivilegedReader) -> None:
    assert {h.uri for h in reader.nearest(asked(created_until=150), reason="a test")} == {"ctx://a"}
    assert reader.nearest(asked(created_until=50), reason="a test") == []


def test_a_question_without_words_is_searched_by_meaning(reader: PrivilegedReader) -> None:
    hits = reader.nearest(asked(sparse=SparseVector((), ()), limit=1), reason="a test")
    assert [(h.uri, h.sparse_score) for h in hits] == [("ctx://c", 0.0)]


@pytest.mark.parametrize("bad", [np.full(w.SIZE, np.nan, dtype=np.float32), np.ones(3, dtype=np.float32)])
def test_a_vector_that_can_t_be_searched_is_refused(reader: PrivilegedReader, bad: object) -> None:
    with pytest.raises(InvariantError):
        reader.nearest(asked(dense=bad), reason="a test")


def test_it_takes_a_reason(reader: PrivilegedReader) -> None:
    with pytest.raises(InvariantError):
        reader.nearest(asked(), reason="  ")


def test_no_text_leaves_the_index_that_way() -> None:
    assert {f.name for f in fields(PrivilegedHit)} == {"id", "uri", "source", "scope", "dense_score", "sparse_score"}
