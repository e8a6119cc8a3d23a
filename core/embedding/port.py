"""The port of the embedder. Every adapter passes `tests/contract/test_embedder_contract.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.index.port import DenseVector


class Embedder(Protocol):
    """Turns text into unit vectors. The same text gives the same bits, whatever stands beside it in a batch:
    a batch that changed the last bit of a neighbour would let hidden text show in scores."""

    @property
    def name(self) -> str:
        """Names model and revision; part of the index's identity."""
        ...

    @property
    def size(self) -> int:
        """Number of dimensions."""
        ...

    @property
    def window(self) -> int:
        """How many tokens of its own a text may have; a longer one is refused, never cut in silence."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by the model's own tokenizer, special tokens included."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """One unit vector a text, in order. Raises InputError where a text exceeds the window."""
        ...

    def embed_query(self, text: str) -> DenseVector:
        """The unit vector of a question; a question longer than the window is embedded by its first window."""
        ...
