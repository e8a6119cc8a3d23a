"""What every embedder must do: sentence-transformers, the HTTP adapter against a server on loopback, the cache."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from core.embedding.cache import CachingEmbedder
from core.embedding.openai_http import OpenAIEmbedder
from core.embedding.port import Embedder
from core.embedding.sentence_transformers import SentenceTransformersEmbedder, installed_model
from core.errors import ConfigError, InputError, StoreUnavailableError

TEXTS = [
    "How to onboard a new partner",
    "x",
    "The gateway retries with exponential back-off. " * 8,
    "Måleområde kai 7 – 日本語 👍",
]


@pytest.fixture(scope="module")
def model() -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(threads=1)


class EmbeddingServer:
    """An OpenAI-compatible server that answers with the real model's vectors, or as it is told."""

    def __init__(self, model: Embedder) -> None:
        self.seen: list[dict[str, Any]] = []
        self.answer: Callable[[], tuple[int, Any]] | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.seen.append({"path": self.path, "body": body, "headers": dict(self.headers.items())})
                if outer.answer:
                    status, content = outer.answer()
                else:
                    # Not of unit length, as some servers do.
                    vectors = [(3.0 * model.embed_query(t)).tolist() for t in body["input"]]
                    status, content = 200, {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)]}
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                if status == 429:
                    self.send_header("retry-after", "7")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(model: SentenceTransformersEmbedder) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(model)
    yield server
    server.close()


@pytest.fixture(params=["sentence-transformers", "openai", "cache"])
def embedder(
    request: pytest.FixtureRequest, model: SentenceTransformersEmbedder, server: EmbeddingServer, tmp_path: Path
) -> Iterator[Embedder]:
    if request.param == "openai":
        http = OpenAIEmbedder(base_url=f"{server.url}/v1", model="minilm", window=256)
        yield http
        http.close()
    elif request.param == "cache":
        cache = CachingEmbedder(model, tmp_path / "vectors.sqlite")
        yield cache
        cache.close()
    else:
        yield model


def test_vectors_are_finite_unit_and_of_the_stated_size(embedder: Embedder) -> None:
    for vector in [*embedder.embed_documents(TEXTS), embedder.embed_query(TEXTS[0])]:
        assert vector.dtype == np.float32
        assert vector.shape == (embedder.size,)
        assert np.isfinite(vector).all()
        assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_a_text_has_the_same_bits_whatever_stands_beside_it(embedder: Embedder) -> None:
    together = [v.tobytes() for v in embedder.embed_documents(TEXTS)]
    alone = [embedder.embed_documents([t])[0].tobytes() for t in TEXTS]
    turned = [v.tobytes() for v in embedder.embed_documents(TEXTS[::-1])][::-1]
    assert together == alone == turned


def test_what_is_alike_in_meaning_is_near(embedder: Embedder) -> None:
    near, far = embedder.embed_documents(["Steps to connect a new business partner", "The canteen is closed on Friday"])
    asked = embedder.embed_query("how do I onboard a partner?")
    assert float(asked @ near) > float(asked @ far) + 0.2


def test_a_text_beyond_the_window_is_refused_and_one_within_is_not(embedder: Embedder) -> None:
    text = "word " * (embedder.window * 2)
    assert embedder.count_tokens(text) > embedder.window
    with pytest.raises(InputError, match="tokens"):
        embedder.embed_documents(["fine", text])
    assert embedder.count_tokens("short") <= embedder.window
    assert embedder.embed_documents([]) == []


def test_a_question_beyond_the_window_is_embedded_by_its_first_window(embedder: Embedder) -> None:
    question = "where is the partner adapter? " * 400
    assert embedder.embed_query(question).tobytes() == embedder.embed_query(question + "and so on").tobytes()


def test_its_name_is_part_of_the_indexs_identity(embedder: Embedder) -> None:
    assert embedder.name
    assert embedder.window >= 64


def test_a_text_is_refused_rather_than_cut_at_exactly_one_token_too_many(model: SentenceTransformersEmbedder) -> None:
    text = "pier " * (model.window - 2)
    assert model.count_tokens(text) == model.window
    assert len(model.embed_documents([text])) == 1
    with pytest.raises(InputError):
        model.embed_documents([text + "pier"])


def test_many_threads_may_use_one_model(model: SentenceTransformersEmbedder) -> None:
    expected = model.embed_query("one").tobytes()
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(model.embed_query("one").tobytes())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [expected] * 4


def test_the_number_of_threads_changes_no_bit(model: SentenceTransformersEmbedder) -> None:
    more = SentenceTransformersEmbedder(threads=2)
    assert [v.tobytes() for v in more.embed_documents(TEXTS)] == [v.tobytes() for v in model.embed_documents(TEXTS)]
    assert more.embed_query(TEXTS[0]).tobytes() == model.embed_documents(TEXTS[:1])[0].tobytes()


def test_a_folder_without_a_model_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no sentence-transformers model"):
        SentenceTransformersEmbedder(tmp_path)
    assert (installed_model() / "modules.json").is_file()


def test_the_cache_asks_once_for_a_text_and_answers_with_the_same_bits(
    model: SentenceTransformersEmbedder, tmp_path: Path
) -> None:
    asked: list[str] = []

    class Counting(SentenceTransformersEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            asked.extend(texts)
            return model.embed_documents(texts)

    first = CachingEmbedder(Counting(), tmp_path / "v.sqlite")
    a = first.embed_documents(["one", "two", "one"])
    first.close()
    second = CachingEmbedder(Counting(), tmp_path / "v.sqlite")
    b = second.embed_documents(["two", "one"])
    second.close()
    assert asked == ["one", "two"]
    assert [x.tobytes() for x in a] == [b[1].tobytes(), b[0].tobytes(), b[1].tobytes()]
    raw = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"one" not in raw


def test_one_text_goes_in_a_request_with_the_key_where_the_server_wants_it(server: EmbeddingServer) -> None:
    plain = OpenAIEmbedder(base_url=f"{server.url}/v1/", model="m", api_key="k1")
    azure = OpenAIEmbedder(
        base_url=f"{server.url}/openai/deployments/d?api-version=2024-02-01", model="m", api_key="k2", azure=True
    )
    plain.embed_documents(["a", "b"])
    azure.embed_query("c")
    assert [x["body"]["input"] for x in server.seen] == [["a"], ["b"], ["c"]]
    assert [x["path"] for x in server.seen] == [
        "/v1/embeddings",
        "/v1/embeddings",
        "/openai/deployments/d/embeddings?api-version=2024-02-01",
    ]
    headers = [{k.lower(): v for k, v in x["headers"].items()} for x in server.seen]
    assert headers[0]["authorization"] == "Bearer k1"
    assert headers[2]["api-key"] == "k2"
    assert "authorization" not in headers[2]
    plain.close()
    azure.close()


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (401, {}, ConfigError),
        (404, {"error": "model not found"}, ConfigError),
        (429, {}, StoreUnavailableError),
        (503, {}, StoreUnavailableError),
        (200, {"data": []}, StoreUnavailableError),
        (200, {"data": [{"embedding": [0.0, 0.0]}]}, StoreUnavailableError),
        (200, {"data": [{"embedding": [float("nan"), 1.0]}]}, StoreUnavailableError),
        (200, {"data": [{"embedding": "AAAA"}]}, StoreUnavailableError),
        (200, ["what"], StoreUnavailableError),
    ],
)
def test_an_answer_that_is_no_embedding_is_an_error_of_ours(
    server: EmbeddingServer, status: int, content: Any, error: type[Exception]
) -> None:
    server.answer = lambda: (status, content)
    embedder = OpenAIEmbedder(base_url=server.url, model="m", api_key="secret-key")
    with pytest.raises(error) as caught:
        embedder.embed_query("a")
    assert "secret-key" not in str(caught.value)
    if status == 429:
        assert isinstance(caught.value, StoreUnavailableError)
        assert caught.value.retry_after == 7.0
    embedder.close()


def test_a_server_that_is_not_there_or_no_url_is_told() -> None:
    client = httpx.Client(timeout=1)
    with pytest.raises(StoreUnavailableError):
        OpenAIEmbedder(base_url="http://127.0.0.1:9/v1", model="m", client=client).embed_query("a")
    client.close()
    with pytest.raises(ConfigError):
        OpenAIEmbedder(base_url="localhost:11434", model="m")
