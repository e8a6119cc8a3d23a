"""What every index must do: Qdrant Edge, the client's local mode, and a server where QDRANT_URL is set."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.access import WITHHELD, ScopeId
from core.errors import ConfigError, InvariantError, StoreUnavailableError
from core.index.edge import EdgeIndex
from core.index.port import IndexReader, IndexWriter, SearchLeg, SparseVector
from core.index.server import ServerConnection, ServerReader, ServerWriter
from core.items import Source
from tests.contract import index_world as w

# What local mode says about itself at every step.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]

ADAPTERS = ["edge", "local", *(["server"] if os.environ.get("QDRANT_URL") else [])]


@dataclass
class Opened:
    kind: str
    reader: IndexReader
    writer: IndexWriter

    @property
    def bits_are_exact(self) -> bool:
        # Local mode scores with one matrix product, whose last bit depends on the matrix's shape.
        return self.kind != "local"


@pytest.fixture(params=ADAPTERS)
def make_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Opened]]:
    opened: list[Any] = []

    def make() -> Opened:
        if request.param == "edge":
            edge = EdgeIndex(tmp_path / uuid.uuid4().hex, embedder="m", size=w.SIZE)
            opened.append(edge)
            return Opened("edge", edge.reader, edge.writer)
        from qdrant_client import QdrantClient

        client: Any = QdrantClient(":memory:") if request.param == "local" else None
        name = f"contract-{uuid.uuid4().hex}"
        connection = ServerConnection(
            collection=name,
            embedder="m",
            size=w.SIZE,
            create=True,
            client=client,
            url=os.environ.get("QDRANT_URL"),
            api_key=os.environ.get("QDRANT_API_KEY"),
        )
        writer = ServerWriter(connection)
        assert writer.count_points() == 0
        opened.append(_Dropping(connection))
        return Opened(request.param, ServerReader(connection), writer)

    yield make
    for index in opened:
        index.close()


class _Dropping:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.run(lambda c: c.delete_collection(self._connection.collection))
        self._connection.close()


@pytest.fixture
def index(make_index: Callable[[], Opened]) -> Opened:
    return make_index()


def uris(index: Opened, trim: Any, query: Any) -> list[str]:
    return sorted({c.uri for c in index.reader.search(trim, query)})


def test_everything_that_is_stored_comes_back_with_its_true_scores(index: Opened) -> None:
    point = w.point("ctx://x", text="hello")
    other = w.point("ctx://y", sparse=SparseVector((3,), (1.0,)))
    index.writer.replace_item("ctx://x", [point])
    index.writer.replace_item("ctx://y", [other])
    trim = w.trim("a")
    query = w.query()
    found = {c.uri: c for c in index.reader.search(trim, query)}
    assert set(found) == {"ctx://x", "ctx://y"}
    got = found["ctx://x"]
    assert (got.id, got.ordinal, got.source, got.kind, got.scope) == (point.id, 0, Source.WIKIS, "wiki_page", "s0")
    assert (got.digest, got.title, got.heading, got.text) == (point.digest, "Title", ("A", "B"), "hello")
    assert got.part_uris == ("ctx://x",)
    for p in (point, other):
        dense, sparse = w.true_scores([point, other], query, p)
        assert found[p.uri].dense_score == pytest.approx(dense, abs=1e-5)
        assert found[p.uri].sparse_score == pytest.approx(sparse, abs=1e-5)
    assert found["ctx://y"].sparse_score == 0.0


def test_results_stand_in_the_order_of_their_ids(index: Opened) -> None:
    for i in range(20):
        index.writer.replace_item(f"ctx://{i}", [w.point(f"ctx://{i}")])
    found = [str(c.id) for c in index.reader.search(w.trim("a"), w.query())]
    assert found == sorted(found)
    assert len(found) == 20


def test_a_question_without_keywords_searches_by_meaning_alone(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x")])
    found = index.reader.search(w.trim("a"), w.query(sparse=SparseVector((), ())))
    assert [(c.uri, c.sparse_score) for c in found] == [("ctx://x", 0.0)]


def test_a_chunk_without_keywords_can_be_stored_and_found(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", sparse=SparseVector((), ()))])
    assert uris(index, w.trim("a"), w.query()) == ["ctx://x"]


def test_keyword_ids_may_take_all_32_bits(index: Opened) -> None:
    high = SparseVector((2**31, 2**32 - 1), (1.0, 1.0))
    index.writer.replace_item("ctx://x", [w.point("ctx://x", sparse=high)])
    found = index.reader.search(w.trim("a"), w.query(sparse=SparseVector((2**32 - 1,), (1.0,))))
    assert found[0].sparse_score > 0


def test_a_trim_that_sees_nothing_asks_the_engine_nothing(index: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x")])

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the engine was asked")

    holder: Any = getattr(index.reader, "_shard", None) or getattr(index.reader, "_connection", None)
    monkeypatch.setattr(holder, "run", refuse)
    for trim in (w.trim(""), w.trim("a", readable=())):
        assert index.reader.search(trim, w.query()) == []
        assert index.reader.count(trim) == 0


def test_the_fault_of_a_fused_query_without_a_root_filter_does_not_show(index: Opened) -> None:
    for i, allowed in enumerate("aab"):
        index.writer.replace_item(f"ctx://{i}", [w.point(f"ctx://{i}", allowed=allowed)])
    assert uris(index, w.trim("a"), w.query()) == ["ctx://0", "ctx://1"]


def test_a_point_that_names_nobody_is_seen_by_nobody(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", allowed=())])
    assert uris(index, w.trim("abc"), w.query()) == []
    assert index.reader.count(w.trim("abc")) == 0
    assert index.writer.count_points() == 1


def test_a_blocked_scope_is_left_out(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", scope="s1")])
    index.writer.replace_item("ctx://y", [w.point("ctx://y", scope="s2")])
    assert uris(index, w.trim("a", blocked=["s1"]), w.query()) == ["ctx://y"]
    assert index.reader.count(w.trim("a", blocked=["s1"])) == 1


def test_access_is_rewritten_before_the_call_returns(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", scope="s1")])
    for i in range(200):
        index.writer.set_access(ScopeId("s1"), [], i)
        assert uris(index, w.trim("a"), w.query()) == []
        index.writer.set_access(ScopeId("s1"), [w.principal("a")], i)
        assert uris(index, w.trim("a"), w.query()) == ["ctx://x"]


def test_access_of_one_scope_leaves_others_and_all_vectors_alone(index: Opened) -> None:
    x, y = w.point("ctx://x", scope="s1"), w.point("ctx://y", scope="s2")
    index.writer.replace_item("ctx://x", [x])
    index.writer.replace_item("ctx://y", [y])
    before = index.reader.search(w.trim("a"), w.query())
    index.writer.set_access(ScopeId("s1"), [w.principal("b")], 2)
    assert uris(index, w.trim("a"), w.query()) == ["ctx://y"]
    assert uris(index, w.trim("b"), w.query()) == ["ctx://x"]
    after = index.reader.search(w.trim("ab"), w.query())
    assert [(c.id, c.text, c.dense_score) for c in after] == [(c.id, c.text, c.dense_score) for c in before]


def test_an_item_moves_to_another_scope(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", scope="s1"), w.point("ctx://x", ordinal=1, scope="s1")])
    index.writer.move_item("ctx://x", ScopeId("s2"), [w.principal("b")], 3)
    assert uris(index, w.trim("a"), w.query()) == []
    found = index.reader.search(w.trim("b"), w.query())
    assert [c.scope for c in found] == ["s2", "s2"]
    assert uris(index, w.trim("b", blocked=["s2"]), w.query()) == []


def test_replacing_an_item_leaves_exactly_its_new_points(index: Opened) -> None:
    index.writer.replace_item("ctx://y", [w.point("ctx://y")])
    index.writer.replace_item("ctx://x", [w.point("ctx://x", ordinal=i, text="old") for i in range(5)])
    index.writer.replace_item("ctx://x", [w.point("ctx://x", ordinal=i, text="new") for i in range(2)])
    found = index.reader.search(w.trim("a"), w.query())
    assert sorted((c.uri, c.ordinal, c.text) for c in found) == [
        ("ctx://x", 0, "new"),
        ("ctx://x", 1, "new"),
        ("ctx://y", 0, "text"),
    ]
    assert index.writer.count_points() == 3
    index.writer.replace_item("ctx://x", [])
    assert uris(index, w.trim("a"), w.query()) == ["ctx://y"]


def test_writing_content_again_never_widens_access(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", allowed="ab")])
    index.writer.replace_item("ctx://x", [w.point("ctx://x", allowed="b", text="again")])
    assert uris(index, w.trim("a"), w.query()) == []
    assert uris(index, w.trim("b"), w.query()) == ["ctx://x"]
    index.writer.replace_item("ctx://x", [w.point("ctx://x", allowed="")])
    assert uris(index, w.trim("ab"), w.query()) == []


def test_deleted_items_are_gone_and_others_stay(index: Opened) -> None:
    for name in "xyz":
        index.writer.replace_item(f"ctx://{name}", [w.point(f"ctx://{name}", ordinal=i) for i in range(3)])
    index.writer.delete_items(["ctx://x", "ctx://z", "ctx://never"])
    assert list(index.writer.uris()) == ["ctx://y"]
    index.writer.delete_items([])
    assert index.writer.count_points() == 3


def test_items_are_listed_once_each_whatever_their_number(index: Opened) -> None:
    for i in range(30):
        index.writer.replace_item(f"ctx://{i}", [w.point(f"ctx://{i}", ordinal=n) for n in range(40)])
    listed = list(index.writer.uris())
    assert sorted(listed) == sorted(f"ctx://{i}" for i in range(30))


def test_every_point_of_a_source_tells_what_it_is_and_where_it_hangs(index: Opened) -> None:
    for i in range(3):
        index.writer.replace_item(f"ctx://{i}", [w.point(f"ctx://{i}", ordinal=n, scope=f"s{i}") for n in range(500)])
    index.writer.replace_item("ctx://chat", [w.point("ctx://chat", source=Source.TEAMS)])
    index.writer.move_item("ctx://1", WITHHELD, (), 0)
    index.writer.set_access(ScopeId("s2"), [w.principal("b")], 7)
    found = list(index.writer.inventory(Source.WIKIS))
    places = {"ctx://0": ("s0", 1), "ctx://1": (WITHHELD, 0), "ctx://2": ("s2", 7)}
    assert sorted((p.uri, p.ordinal, p.digest) for p in found) == sorted(
        (uri, n, f"d-text-{n}") for uri in places for n in range(500)
    )
    assert {(p.uri, p.scope, p.acl_version) for p in found} == {(uri, *place) for uri, place in places.items()}
    assert [p.uri for p in index.writer.inventory(Source.TEAMS)] == ["ctx://chat"]
    assert list(index.writer.inventory(Source.CODE)) == []


def test_what_is_withheld_is_found_by_nobody_and_keeps_its_vectors(index: Opened) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x")])
    index.writer.replace_item("ctx://y", [w.point("ctx://y")])
    index.writer.move_item("ctx://x", WITHHELD, (), 0)
    kept = index.writer.vectors_of("ctx://x")
    assert uris(index, w.trim("a"), w.query()) == ["ctx://y"]
    assert index.reader.count(w.trim("a")) == 1
    # Its words weigh in no statistic: `y` scores as it would if `x` had never been there.
    shown = index.reader.search(w.trim("a"), w.query())
    index.writer.delete_items(["ctx://x"])
    alone = index.reader.search(w.trim("a"), w.query())
    assert [c.sparse_score for c in alone] == [c.sparse_score for c in shown]
    assert [c.uri for c in alone] == ["ctx://y"]
    assert kept.keys() == {"d-text-0"}


def test_vectors_come_back_by_digest_so_that_text_is_not_embedded_again(index: Opened) -> None:
    x = w.point("ctx://x", digest="one")
    y = w.point("ctx://x", ordinal=1, digest="two", sparse=SparseVector((), ()))
    index.writer.replace_item("ctx://x", [x, y])
    kept = index.writer.vectors_of("ctx://x")
    assert set(kept) == {"one", "two"}
    assert kept["one"][1] == x.sparse
    assert kept["two"][1] == y.sparse
    np.testing.assert_allclose(kept["one"][0], x.dense, atol=1e-6)
    if index.bits_are_exact:
        assert kept["one"][0].tobytes() == x.dense.tobytes()
    assert index.writer.vectors_of("ctx://none") == {}


BROKEN = {
    "not a number": np.array([np.nan] + [0.0] * (w.SIZE - 1), dtype=np.float32),
    "infinite": np.array([np.inf] + [0.0] * (w.SIZE - 1), dtype=np.float32),
    "zero": np.zeros(w.SIZE, dtype=np.float32),
    "too short": np.ones(w.SIZE - 1, dtype=np.float32),
    "two rows": np.ones((2, w.SIZE), dtype=np.float32),
}


@pytest.mark.parametrize("vector", BROKEN.values(), ids=BROKEN.keys())
def test_a_vector_that_can_not_be_searched_is_refused_and_the_item_stays(index: Opened, vector: Any) -> None:
    index.writer.replace_item("ctx://x", [w.point("ctx://x", text="old")])
    with pytest.raises(InvariantError):
        index.writer.replace_item("ctx://x", [w.point("ctx://x", ordinal=1), w.point("ctx://x", dense=vector)])
    assert [c.text for c in index.reader.search(w.trim("a"), w.query())] == ["old"]


@pytest.mark.parametrize(
    "sparse",
    [
        SparseVector((2, 1), (1.0, 1.0)),
        SparseVector((1, 1), (1.0, 1.0)),
        SparseVector((1,), ()),
        SparseVector((1,), (float("nan"),)),
        SparseVector((-1,), (1.0,)),
        SparseVector((2**32,), (1.0,)),
    ],
)
def test_keyword_weights_that_are_not_sound_are_refused(index: Opened, sparse: SparseVector) -> None:
    with pytest.raises(InvariantError):
        index.writer.replace_item("ctx://x", [w.point("ctx://x", sparse=sparse)])
    assert index.writer.count_points() == 0


def test_a_point_of_another_item_or_without_a_scope_is_refused(index: Opened) -> None:
    with pytest.raises(InvariantError):
        index.writer.replace_item("ctx://x", [w.point("ctx://y")])
    with pytest.raises(InvariantError):
        index.writer.replace_item("ctx://x", [w.point("ctx://x", scope="")])
    assert index.writer.count_points() == 0


def test_a_question_of_the_wrong_size_is_refused(index: Opened) -> None:
    with pytest.raises(InvariantError):
        index.reader.search(w.trim("a"), w.query(dense=np.ones(3, dtype=np.float32)))


def test_legs_look_only_in_their_sources_and_each_gives_its_best(index: Opened) -> None:
    target = w.unit(1)
    for i, source in enumerate(Source):
        for n in range(4):
            noise = target + 0.05 * (n + 1) * w.unit(50 + 10 * i + n)
            uri = f"ctx://{source}/{n}"
            point = w.point(uri, source=source, dense=noise.astype(np.float32), sparse=SparseVector((n,), (1.0,)))
            index.writer.replace_item(uri, [point])
    legs = (SearchLeg(sources=(Source.CODE,), limit=1), SearchLeg(sources=(Source.TEAMS, Source.WIKIS), limit=2))
    found = index.reader.search(w.trim("a"), w.query(dense=target, sparse=SparseVector((3,), (1.0,)), legs=legs))
    by_source: dict[str, set[str]] = {}
    for c in found:
        by_source.setdefault(c.source, set()).add(c.uri)
    assert by_source["code"] == {"ctx://code/0", "ctx://code/3"}
    assert set(by_source) == {"code", "teams", "wikis"}
    assert {"ctx://teams/3", "ctx://wikis/3"} <= by_source["teams"] | by_source["wikis"]
    assert len(found) == 2 + 4


def test_a_search_can_be_narrowed_to_items(index: Opened) -> None:
    for name in "xyz":
        index.writer.replace_item(f"ctx://{name}", [w.point(f"ctx://{name}")])
    index.writer.replace_item("ctx://hidden", [w.point("ctx://hidden", allowed="b")])
    query = w.query(only_uris=("ctx://x", "ctx://z", "ctx://hidden"))
    assert uris(index, w.trim("a"), query) == ["ctx://x", "ctx://z"]


def test_what_did_not_exist_yet_or_has_no_date_is_left_out_of_the_past(index: Opened) -> None:
    for name, at in {"old": 10, "then": 20, "new": 21, "undated": None}.items():
        index.writer.replace_item(f"ctx://{name}", [w.point(f"ctx://{name}", created_at=at)])
    assert uris(index, w.trim("a"), w.query(created_until=20)) == ["ctx://old", "ctx://then"]
    assert len(uris(index, w.trim("a"), w.query())) == 4


def test_a_narrow_reader_gets_all_of_theirs_however_low_it_ranks(index: Opened) -> None:
    target = w.unit(1)
    for i in range(60):
        points = [w.point(f"ctx://{i}", ordinal=n, dense=target, allowed="b") for n in range(10)]
        index.writer.replace_item(f"ctx://{i}", points)
    for i in range(5):
        uri = f"ctx://mine-{i}"
        index.writer.replace_item(uri, [w.point(uri, dense=-target, sparse=SparseVector((99,), (1.0,)))])
    legs = (SearchLeg(sources=tuple(Source), limit=5),)
    assert uris(index, w.trim("a"), w.query(legs=legs)) == [f"ctx://mine-{i}" for i in range(5)]


def test_equal_scores_are_cut_by_id_whatever_the_order_of_writing(make_index: Callable[[], Opened]) -> None:
    points = [w.point(f"ctx://{i}", dense=w.unit(3)) for i in range(60)]
    legs = (SearchLeg(sources=tuple(Source), limit=5),)
    expected = [str(p.id) for p in sorted(points, key=lambda p: p.id)[:5]]
    for order in (points, points[::-1]):
        index = make_index()
        for p in order:
            index.writer.replace_item(p.uri, [p])
        assert [str(c.id) for c in index.reader.search(w.trim("a"), w.query(legs=legs))] == expected


def test_a_copy_that_may_not_be_read_leaves_the_other_copy_alone(index: Opened) -> None:
    same = {"text": "Fuel cut-off is 14:00", "dense": w.unit(5)}
    index.writer.replace_item("ctx://x1", [w.point("ctx://x1", allowed="b", created_at=200, **same)])
    alone = index.reader.search(w.trim("a"), w.query())
    index.writer.replace_item("ctx://x2", [w.point("ctx://x2", allowed="a", created_at=100, **same)])
    assert alone == []
    assert uris(index, w.trim("a"), w.query()) == ["ctx://x2"]


def test_the_wrong_model_is_told_at_once(index: Opened, tmp_path: Path) -> None:
    if index.kind == "edge":
        EdgeIndex(tmp_path / "i", embedder="one", size=w.SIZE).close()
        for model, size in (("two", w.SIZE), ("one", 4)):
            with pytest.raises(ConfigError, match="written with"):
                EdgeIndex(tmp_path / "i", embedder=model, size=size)
        return
    holder: Any = index.reader
    connection = holder._connection
    other = ServerConnection(collection=connection.collection, embedder="two", size=w.SIZE, client=connection._client)
    with pytest.raises(ConfigError, match="written with"):
        ServerReader(other).ping()


def test_a_closed_or_missing_index_is_an_unavailable_store(tmp_path: Path) -> None:
    edge = EdgeIndex(tmp_path / "i", embedder="m", size=w.SIZE)
    edge.close()
    edge.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        edge.reader.ping()
    nobody = ServerConnection(collection="c", embedder="m", size=w.SIZE, url="http://127.0.0.1:9", timeout=1)
    with pytest.raises(StoreUnavailableError):
        ServerReader(nobody).ping()
    nobody.close()


# --- the same, over worlds that nobody thought of ---------------------------------------------------------------------

GROUPS = "abcdef"
points_drawn = st.lists(
    st.tuples(
        st.sets(st.sampled_from(GROUPS), max_size=3),
        st.integers(0, 5),
        st.sampled_from(list(Source)),
        st.dictionaries(st.integers(0, 12), st.sampled_from([0.5, 1.0, 1.7]), max_size=5),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=points_drawn,
    matching=st.sets(st.sampled_from(GROUPS), max_size=3),
    blocked=st.sets(st.integers(0, 5), max_size=2),
    words=st.sets(st.integers(0, 12), max_size=4),
    limit=st.integers(1, 6),
)
def test_no_result_is_ever_outside_what_may_be_read_and_no_hidden_point_moves_a_score(
    make_index: Callable[[], Opened],
    drawn: list[Any],
    matching: set[str],
    blocked: set[int],
    words: set[int],
    limit: int,
) -> None:
    points = [
        w.point(
            f"ctx://{i}",
            allowed=sorted(allowed),
            scope=f"s{scope}",
            source=source,
            dense=w.unit(seed),
            sparse=SparseVector(tuple(sorted(sparse)), tuple(sparse[k] for k in sorted(sparse))),
        )
        for i, (allowed, scope, source, sparse, seed) in enumerate(drawn)
    ]
    trim = w.trim(matching, blocked=[f"s{x}" for x in blocked])
    readable = [p for p in points if w.may_read(trim, p)]
    keywords = SparseVector(tuple(sorted(words)), (1.0,) * len(words))
    legs = tuple(SearchLeg(sources=(s,), limit=limit) for s in Source)
    query = w.query(dense=w.unit(99), sparse=keywords, legs=legs)

    index = make_index()
    for p in points:
        index.writer.replace_item(p.uri, [p])
    found = index.reader.search(trim, query)
    # 1. nothing that may not be read, and everything that the naive search finds
    scores = {p.id: w.true_scores(readable, query, p) for p in readable}
    assert {c.id for c in found} <= set(scores)
    for source in Source:
        mine = [p.id for p in readable if p.source is source]
        best = sorted((round(scores[i][0], 4) for i in mine), reverse=True)[:limit]
        got = {c.id: c for c in found if c.source is source}
        top = sorted((round(c.dense_score, 4) for c in got.values()), reverse=True)[: len(best)]
        assert top == pytest.approx(best, abs=2e-4)
        if words:
            best = sorted((scores[i][1] for i in mine if scores[i][1] > 0), reverse=True)[:limit]
            top = sorted((c.sparse_score for c in got.values()), reverse=True)[: len(best)]
            assert top == pytest.approx(best, rel=1e-4, abs=1e-5)
    # 2. true scores, with document frequencies over the readable alone
    for c in found:
        assert c.dense_score == pytest.approx(scores[c.id][0], abs=1e-5)
        assert c.sparse_score == pytest.approx(scores[c.id][1] if words else 0.0, abs=1e-4)
    # 3. the same bits in an index where the hidden never was, and when asked again
    without = make_index()
    for p in readable:
        without.writer.replace_item(p.uri, [p])
    alone = without.reader.search(trim, query)
    assert index.reader.count(trim) == without.reader.count(trim) == len(readable if trim.matching else [])
    if index.bits_are_exact:
        assert alone == found
    else:
        assert [c.id for c in alone] == [c.id for c in found]
    assert index.reader.search(trim, query) == found


def test_many_hidden_texts_change_no_bit_of_a_large_search(make_index: Callable[[], Opened]) -> None:
    rng = np.random.default_rng(4)

    def words() -> SparseVector:
        ids = sorted(rng.choice(60, size=12, replace=False).tolist())
        return SparseVector(tuple(ids), tuple(float(x) for x in rng.uniform(0.2, 2.0, size=12).astype(np.float32)))

    mine = [w.point(f"ctx://m{i}", dense=w.unit(1000 + i), sparse=words()) for i in range(300)]
    hidden = [w.point(f"ctx://h{i}", allowed="b", dense=w.unit(5000 + i), sparse=words()) for i in range(600)]
    query = w.query(sparse=SparseVector(tuple(range(0, 60, 5)), (1.0,) * 12))
    query = replace(query, legs=(SearchLeg(sources=tuple(Source), limit=40),))
    alone, beside = make_index(), make_index()
    for p in mine:
        alone.writer.replace_item(p.uri, [p])
    for h, m in zip(hidden[::2], mine, strict=True):
        beside.writer.replace_item(h.uri, [h])
        beside.writer.replace_item(m.uri, [m])
    for h in hidden[1::2]:
        beside.writer.replace_item(h.uri, [h])
    a = alone.reader.search(w.trim("a"), query)
    b = beside.reader.search(w.trim("a"), query)
    assert len(a) >= 40
    if alone.bits_are_exact:
        assert a == b
    else:
        assert [c.id for c in a] == [c.id for c in b]
