"""An embedder without a model: vectors made of a text's digest, for tests in which only sameness matters."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from core.index.port import DenseVector

SIZE = 16


class QuickEmbedder:
    """The same text has the same unit vector; counts words as tokens. `texts` is how many it was given in all."""

    name = "quick@1"
    size = SIZE
    window = 60

    def __init__(self) -> None:
        self.texts = 0

    def count_tokens(self, text: str) -> int:
        """Words, with some for the ends."""
        return len(text.split()) + 2

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """A unit vector a text."""
        self.texts += len(texts)
        return [_vector(text) for text in texts]

    def embed_query(self, text: str) -> DenseVector:
        """The vector of a question."""
        return _vector(text)


def _vector(text: str) -> DenseVector:
    digest = hashlib.sha512(text.encode()).digest()[: SIZE * 2]
    values = np.frombuffer(digest, dtype="<i2").astype(np.float64)
    return (values / np.linalg.norm(values)).astype(np.float32)
