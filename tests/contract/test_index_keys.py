"""The query plane's key to the index reads and nothing else: every write that could be tried with it fails.

Runs over the stand-in for Qdrant's REST interface, which checks keys as the server documents it
(https://qdrant.tech/documentation/guides/security/), and over a server where QDRANT_URL, QDRANT_API_KEY and
QDRANT_READ_KEY name one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from context_engine.stores import build_index, build_reading_index
from core.errors import ConfigError, StoreUnavailableError
from core.settings import Settings
from tests.contract import index_world as w
from tests.support.qdrant_rest import QdrantRest
from tests.support.quick_embedder import QuickEmbedder

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")

KEY, READ_KEY = "writes-and-reads", "reads-only"
_ID = str(uuid.UUID(int=7))
_EVERYTHING = models.FilterSelector(filter=models.Filter(must=[]))

Write = Callable[[QdrantClient, str], Any]
WRITES: dict[str, Write] = {
    "upsert": lambda c, n: c.upsert(n, [models.PointStruct(id=_ID, vector={}, payload={"allowed": ["user:t/me"]})]),
    "delete": lambda c, n: c.delete(n, _EVERYTHING),
    "set payload": lambda c, n: c.set_payload(n, {"allowed": ["user:t/me"]}, points=[_ID]),
    "overwrite payload": lambda c, n: c.overwrite_payload(n, {"allowed": ["user:t/me"]}, points=[_ID]),
    "clear payload": lambda c, n: c.clear_payload(n, [_ID]),
    "delete payload": lambda c, n: c.delete_payload(n, ["allowed"], points=[_ID]),
    "update vectors": lambda c, n: c.update_vectors(n, [models.PointVectors(id=_ID, vector={"dense": [0.0]})]),
    "delete vectors": lambda c, n: c.delete_vectors(n, ["dense"], [_ID]),
    "batch": lambda c, n: c.batch_update_points(n, [models.DeleteOperation(delete=_EVERYTHING)]),
    "create collection": lambda c, n: c.create_collection(f"{n}-mine", vectors_config={}),
    "delete collection": lambda c, n: c.delete_collection(n),
    "index a field": lambda c, n: c.create_payload_index(n, "text", models.PayloadSchemaType.TEXT),
    "drop an index": lambda c, n: c.delete_payload_index(n, "allowed"),
    "alias": lambda c, n: c.update_collection_aliases(
        [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=n, alias_name=f"{n}-alias"),
            )
        ]
    ),
    "snapshot": lambda c, n: c.create_snapshot(n),
}


@pytest.fixture
def server() -> Iterator[tuple[str, str, str]]:
    """Address and both keys of an index server."""
    named = [os.environ.get(x) for x in ("QDRANT_URL", "QDRANT_API_KEY", "QDRANT_READ_KEY")]
    if all(named):
        url, key, read_key = (x or "" for x in named)
        yield url, key, read_key
        return
    rest = QdrantRest(key=KEY, read_key=READ_KEY)
    rest.start()
    try:
        yield rest.url, KEY, READ_KEY
    finally:
        rest.close()


def settings(server: tuple[str, str, str], **more: Any) -> Settings:
    url, key, read_key = server
    given = {"qdrant_url": url, "qdrant_api_key": key, "qdrant_read_key": read_key, **more}
    return Settings.model_validate({k: v for k, v in given.items() if v is not None})


def test_whoever_holds_the_query_planes_key_can_write_nothing(server: tuple[str, str, str]) -> None:
    name = f"keys-{uuid.uuid4().hex}"
    index = build_index(settings(server, qdrant_collection=name), QuickEmbedder())
    try:
        assert index.writer.count_points() == 0, "the ingestion plane's key makes the collection"
        thief = QdrantClient(url=server[0], api_key=server[2], check_compatibility=False)
        for what, write in WRITES.items():
            with pytest.raises(UnexpectedResponse) as refused:
                write(thief, name)
            assert refused.value.status_code == 403, what
        assert thief.count(name).count == 0, "it may read"
        thief.close()
    finally:
        index.close()


@pytest.mark.parametrize("key", [None, "", "guessed", KEY.upper()])
def test_whoever_holds_no_key_of_the_server_reads_nothing(server: tuple[str, str, str], key: str | None) -> None:
    stranger = QdrantClient(url=server[0], api_key=key, check_compatibility=False)
    for ask in (lambda: stranger.get_collection("context"), lambda: stranger.scroll("context")):
        with pytest.raises(UnexpectedResponse) as refused:
            ask()
        assert refused.value.status_code in (401, 403)
    stranger.close()


def test_the_query_plane_connects_with_the_key_that_reads(server: tuple[str, str, str]) -> None:
    """Given the other way round, its reader still works, so the test looks at what its connection can't do."""
    name = f"keys-{uuid.uuid4().hex}"
    index = build_index(settings(server, qdrant_collection=name), QuickEmbedder())
    assert index.writer.count_points() == 0
    half = build_reading_index(settings(server, qdrant_api_key=None, qdrant_collection=name), QuickEmbedder())
    try:
        connection: Any = half.reader._connection  # type: ignore[attr-defined]
        with pytest.raises(StoreUnavailableError, match="refuses the key"):
            connection.run(lambda c: c.delete(name, _EVERYTHING))
        assert half.reader.count(w.trim(["a"])) == 0
    finally:
        half.close()
        index.close()


def test_one_key_for_both_planes_is_refused_at_the_start(server: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigError, match="key of its own"):
        build_index(settings(server, qdrant_read_key=None), QuickEmbedder())
