"""Embeds over HTTP, in the way of OpenAI's `/embeddings`: Ollama, vLLM, Azure OpenAI, and most others.

One text goes in a request: servers batch texts in their own way, and a vector's last bits would then depend on its
neighbours. What comes back is normalised and rounded to a fixed grid here, so that small differences of the server's
arithmetic from call to call seldom show; how repeatable the server is beyond that is up to the server.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, Final

import httpx
import numpy as np

from core.errors import ConfigError, InputError, StoreUnavailableError
from core.index.port import DenseVector
from core.this_machine import NO_PROXY

_GRID: Final = 2.0**20


class OpenAIEmbedder:
    """See Embedder. `base_url` is what stands before `/embeddings`; its query string (Azure's api-version) is kept.

    Tokens are counted by an estimate that errs on the large side, since the server's tokenizer is not at hand: a
    token for every three bytes of UTF-8, or for every word and mark where those are more, and two for the special
    ones. `window` is in the same tokens. `azure` sends the key as `api-key` instead of a bearer token.

    Errors are StoreUnavailableError("embedder", …), or ConfigError where the server refuses the key or the model.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        azure: bool = False,
        window: int = 512,
        size: int | None = None,
        timeout: float = 30.0,
        client: httpx.Client | None = None,
    ) -> None:
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as e:
            raise ConfigError(f"not a URL: {e}", where="embedder_url") from e
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigError("not an http(s) URL", where="embedder_url", mend="For example http://127.0.0.1:11434/v1")
        path = url.path.rstrip("/")
        self._url = url if path.endswith("/embeddings") else url.copy_with(path=f"{path}/embeddings")
        self._headers = _key_header(api_key, azure)
        self._model = model
        self._window = window
        self._size = size
        self._lock = threading.Lock()
        self._client = client or httpx.Client(timeout=timeout, follow_redirects=False, mounts=NO_PROXY)

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._model

    @property
    def size(self) -> int:
        """See Embedder; the server is asked once."""
        with self._lock:
            known = self._size
        return known if known is not None else len(self._embed("size"))

    @property
    def window(self) -> int:
        """See Embedder."""
        return self._window

    def count_tokens(self, text: str) -> int:
        """See Embedder; an estimate that errs on the large side."""
        marks = sum(1 for c in text if not c.isalnum() and not c.isspace())
        return 2 + max(math.ceil(len(text.encode("utf-8", "replace")) / 3), len(text.split()) + marks)

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """See Embedder."""
        for text in texts:
            tokens = self.count_tokens(text)
            if tokens > self._window:
                raise InputError(f"a text of about {tokens} tokens; the embedder takes {self._window}")
        return [self._embed(text) for text in texts]

    def embed_query(self, text: str) -> DenseVector:
        """See Embedder."""
        while self.count_tokens(text) > self._window and len(text) > 1:
            # In proportion, and never less than one character, until the estimate fits.
            keep = len(text) * (self._window - 2) // self.count_tokens(text)
            text = text[: max(1, min(keep, len(text) - 1))]
        return self._embed(text)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _embed(self, text: str) -> DenseVector:
        body = {"model": self._model, "input": [text], "encoding_format": "float"}
        try:
            response = self._client.post(self._url, json=body, headers=self._headers)
        except httpx.HTTPError as e:
            raise StoreUnavailableError("embedder", f"no answer ({type(e).__name__})") from e
        if response.status_code in (401, 403):
            raise ConfigError(f"the server refuses the key ({response.status_code})", where="embedder_key")
        if response.status_code in (400, 404, 422):
            raise ConfigError(
                f"the server refuses the request ({response.status_code}): {response.text[:200]}",
                where="embedder_model",
                mend="Check the model's name and the URL",
            )
        if response.status_code != 200:
            retry_after = _seconds(response.headers.get("retry-after"))
            raise StoreUnavailableError("embedder", f"it answers {response.status_code}", retry_after=retry_after)
        return self._vector(response)

    def _vector(self, response: httpx.Response) -> DenseVector:
        try:
            data: Any = response.json()["data"]
            raw = np.asarray(data[0]["embedding"], dtype=np.float64)
        except (ValueError, KeyError, IndexError, TypeError) as e:
            raise StoreUnavailableError("embedder", "it answers with something else than an embedding") from e
        length = float(np.linalg.norm(raw)) if raw.ndim == 1 and raw.size else 0.0
        if len(data) != 1 or not np.isfinite(raw).all() or length == 0.0:
            raise StoreUnavailableError("embedder", "it answers with a vector that can't be used")
        with self._lock:
            if self._size is None:
                self._size = raw.size
            if raw.size != self._size:
                raise StoreUnavailableError("embedder", f"{raw.size} dimensions instead of {self._size}")
        rounded = np.round(raw / length * _GRID) / _GRID
        return (rounded / np.linalg.norm(rounded)).astype(np.float32)


def _key_header(key: str | None, azure: bool) -> dict[str, str]:
    if not key:
        return {}
    return {"api-key": key} if azure else {"authorization": f"Bearer {key}"}


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isascii() and header.isdigit() else 5.0
