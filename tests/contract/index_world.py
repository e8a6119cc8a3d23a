"""Points, trims and a brute-force oracle for the index contract."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence

import numpy as np

from core.access import ScopeId, Trim, issue_trim
from core.index.port import DenseVector, HybridQuery, IndexPoint, SearchLeg, SparseVector
from core.items import Source
from core.principals import Principal, issue_asker, issue_principal_set, user

SIZE = 8
ME = user("t", "me")
ONE_WORD = SparseVector((7,), (1.0,))
EVERYTHING = (SearchLeg(sources=tuple(Source), limit=1000),)


def principal(name: str) -> Principal:
    return Principal(f"group:t/{name}")


def trim(matching: Iterable[str], *, blocked: Iterable[str] = (), readable: Iterable[str] | None = None) -> Trim:
    """A trim of someone who counts as these groups; `readable` defaults to every scope that is not blocked."""
    groups = frozenset(principal(x) for x in matching)
    asker = issue_asker(principal=ME, tenant="t", agent=None, scopes=frozenset())
    blocked = frozenset(ScopeId(x) for x in blocked)
    scopes = frozenset(ScopeId(f"s{i}") for i in range(40)) if readable is None else frozenset(map(ScopeId, readable))
    return issue_trim(
        issue_principal_set(asker, groups | {ME}),
        matching=groups,
        blocked=blocked,
        readable=scopes - blocked,
        epoch=1,
    )


def unit(seed: int) -> DenseVector:
    vector = np.random.default_rng(seed).normal(size=SIZE)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def point(
    uri: str,
    *,
    ordinal: int = 0,
    scope: str = "s0",
    allowed: Sequence[str] = ("a",),
    source: Source = Source.WIKIS,
    text: str = "text",
    dense: DenseVector | None = None,
    sparse: SparseVector | None = None,
    created_at: int | None = 100,
    digest: str | None = None,
) -> IndexPoint:
    key = f"{uri}#{ordinal}"
    seed = int.from_bytes(uuid.uuid5(uuid.NAMESPACE_URL, key + text).bytes[:4], "big")
    return IndexPoint(
        id=uuid.uuid5(uuid.NAMESPACE_URL, key),
        uri=uri,
        ordinal=ordinal,
        source=source,
        kind="wiki_page",
        scope=ScopeId(scope),
        allowed=tuple(principal(x) for x in allowed),
        acl_version=1,
        label=None,
        digest=digest or f"d-{text}-{ordinal}",
        title="Title",
        heading=("A", "B"),
        text=text,
        part_uris=(uri,),
        created_at=created_at,
        modified_at=created_at,
        dense=unit(seed) if dense is None else dense,
        sparse=SparseVector((1, 7), (1.0, 0.5)) if sparse is None else sparse,
    )


def query(
    *,
    dense: DenseVector | None = None,
    sparse: SparseVector = ONE_WORD,
    legs: tuple[SearchLeg, ...] = EVERYTHING,
    only_uris: tuple[str, ...] = (),
    created_until: int | None = None,
) -> HybridQuery:
    return HybridQuery(
        dense=unit(1) if dense is None else dense,
        sparse=sparse,
        legs=legs,
        only_uris=only_uris,
        created_until=created_until,
    )


def may_read(trim: Trim, point: IndexPoint) -> bool:
    """The rule, said naively."""
    return bool(set(point.allowed) & set(trim.matching)) and point.scope not in trim.blocked


def true_scores(readable: Sequence[IndexPoint], asked: HybridQuery, point: IndexPoint) -> tuple[float, float]:
    """Cosine, and keyword sum with document frequencies over `readable`."""
    a, b = point.dense.astype(float), asked.dense.astype(float)
    dense = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    weights = dict(zip(point.sparse.indices, point.sparse.values, strict=True))
    total = 0.0
    for index, value in zip(asked.sparse.indices, asked.sparse.values, strict=True):
        n = sum(index in p.sparse.indices for p in readable)
        idf = math.log((len(readable) - n + 0.5) / (n + 0.5) + 1)
        total += weights.get(index, 0.0) * value * idf
    return dense, total
