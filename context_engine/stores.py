"""Settings to stores: the embedder, and the index with a half for each plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from core.embedding.port import Embedder
from core.errors import ConfigError
from core.index.port import IndexReader, IndexWriter
from core.index.privileged import PrivilegedReader
from core.settings import Settings

if TYPE_CHECKING:
    from core.index.privileged_server import ServerPrivilegedReader
    from core.index.server import ServerIndex


@dataclass(frozen=True, slots=True)
class Index:
    """The two halves of the vector index, one a plane; `privileged` is the audit plane's, None where it has no key."""

    reader: IndexReader
    writer: IndexWriter
    close: Callable[[], None]
    privileged: PrivilegedReader | None = None


@dataclass(frozen=True, slots=True)
class WritingHalf:
    """The index as the ingestion plane's process has it."""

    writer: IndexWriter
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ReadingHalf:
    """The index as the query plane's process has it."""

    reader: IndexReader
    close: Callable[[], None]


def build_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name. Raises ConfigError where it can't be had."""
    if settings.embedder == "openai":
        from core.embedding.openai_http import OpenAIEmbedder

        if settings.embedder_url is None or settings.embedder_model is None:
            raise ConfigError(
                "an OpenAI-compatible embedder needs an address and a model",
                where="embedder",
                mend="Set embedder_url and embedder_model",
            )
        key = settings.embedder_key.get_secret_value() if settings.embedder_key else None
        return OpenAIEmbedder(settings.embedder_url, settings.embedder_model, api_key=key)
    from core.embedding.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(settings.embedder_model, threads=settings.embedder_threads)


def build_index(settings: Settings, embedder: Embedder) -> Index:
    """The index that the settings name: a Qdrant server, or Qdrant Edge in the data folder of this process."""
    if settings.qdrant_url is not None:
        return _server_index(settings, settings.qdrant_url, embedder)
    from core.index.edge import EdgeIndex
    from core.index.privileged_edge import EdgePrivilegedReader

    edge = EdgeIndex(edge_folder(settings.data), size=embedder.size, embedder=embedder.name)
    return Index(edge.reader, edge.writer, edge.writer.close, EdgePrivilegedReader(edge))


def _server_index(settings: Settings, url: str, embedder: Embedder) -> Index:
    """A connection a plane, each with its own key."""
    if settings.qdrant_api_key is not None and settings.qdrant_read_key is None:
        raise ConfigError(
            "the query plane needs a key of its own",
            where="qdrant_read_key",
            mend="Set it to the server's read-only key",
        )
    writing = _connect(settings, url, settings.qdrant_api_key, embedder, read_only=False)
    reading = _connect(settings, url, settings.qdrant_read_key, embedder, read_only=True)
    # A server that knows no keys gives everybody everything; one that does wants the audit plane's own.
    open_to_all = settings.qdrant_api_key is None
    auditing = build_privileged_index(settings, embedder) if settings.qdrant_audit_key or open_to_all else None

    def close() -> None:
        if auditing is not None:
            auditing.close()
        reading.close()
        writing.close()

    return Index(reading.reader, writing.writer, close, auditing)


def build_privileged_index(settings: Settings, embedder: Embedder) -> ServerPrivilegedReader:
    """The index of a server as the audit plane has it. Raises ConfigError where none is set."""
    from core.index.privileged_server import ServerPrivilegedReader
    from core.index.server import ServerConnection

    key = settings.qdrant_audit_key
    return ServerPrivilegedReader(
        ServerConnection(
            url=_server(settings),
            api_key=key.get_secret_value() if key else None,
            collection=settings.qdrant_collection,
            size=embedder.size,
            embedder=embedder.name,
        )
    )


def build_writing_index(settings: Settings, embedder: Embedder) -> WritingHalf:
    """The index of a server as a process of the ingestion plane alone has it. Raises ConfigError where none is set."""
    index = _connect(settings, _server(settings), settings.qdrant_api_key, embedder, read_only=False)
    return WritingHalf(index.writer, index.close)


def build_reading_index(settings: Settings, embedder: Embedder) -> ReadingHalf:
    """The index of a server as a process of the query plane alone has it. Raises ConfigError where none is set."""
    index = _connect(settings, _server(settings), settings.qdrant_read_key, embedder, read_only=True)
    return ReadingHalf(index.reader, index.close)


def _server(settings: Settings) -> str:
    if settings.qdrant_url is None:
        raise ConfigError(
            "processes of their own share the index of a server", where="qdrant_url", mend="Set it to a Qdrant server"
        )
    return settings.qdrant_url


def _connect(
    settings: Settings, url: str, key: SecretStr | None, embedder: Embedder, *, read_only: bool
) -> ServerIndex:
    from core.index.server import ServerIndex

    return ServerIndex.connect(
        url,
        api_key=key.get_secret_value() if key else None,
        collection=settings.qdrant_collection,
        size=embedder.size,
        embedder=embedder.name,
        read_only=read_only,
    )


def edge_folder(data: Path) -> Path:
    """Where the embedded index lives."""
    return data / "qdrant"
