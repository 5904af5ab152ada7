"""Text embeddings, each distinct text encoded once per run by the configured model.

    embed = Embedder("all-MiniLM-L6-v2")
    vectors = embed(["a red door", "an open door"])     # (2, 384), float32, rows of length 1

| `embedder.model` | what encodes | needs |
|---|---|---|
| NAME or a folder | sentence-transformers with torch, one thread | its files and the extra `sentence-transformers` |
| `numpy/NAME` | the same model (BERT only) in numpy, one thread, without torch | its files |
| `litellm/PROVIDER/MODEL` | a provider's model, 64 texts a request | its key or its server |
| `lexical` | hashed words and word pairs, well below 1 ms a text | nothing |
| `hash` | a random direction per text, meaningless: for tests | nothing |

The first three cache their vectors in the user's cache folder (see `vector_cache.py`), so a later run neither computes
nor pays for them again, and loads no model without new texts; `embedder.cache=false` disables this.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from pydantic import ValidationError

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embedders.base import EmbedderRoute
from rsso_dspy.embedders.hashing import HashRoute, LexicalRoute
from rsso_dspy.embedders.local import NumpyRoute, TorchRoute
from rsso_dspy.embedders.remote import LiteLLMRoute
from rsso_dspy.embedders.vector_cache import VectorCache
from rsso_dspy.embedders.weights import MINILM
from rsso_dspy.errors import BackendFailure, ConfigError
from rsso_dspy.lm.recording import is_taped, keep_vectors, recall_vectors

__all__ = ["MINILM", "Embedder"]


class Embedder:
    """A caching text encoder.

    Thread-safe: if several threads need a text, one encodes it, and requests to a provider run in parallel. Loads
    nothing and sends no request before the first unknown text.
    """

    def __init__(self, config: EmbedderConfig | str | None = None):
        """`config` is the section of the configuration or a name; without one the default of `embedder.model` holds.

        Raises `ConfigError` for an unknown route.
        """
        self.config = _build_embedder_config(config) if isinstance(config, str) else config or EmbedderConfig()
        self.model = self.config.model
        self._route = _select_route(self.config)
        self._known: dict[str, np.ndarray] = {}
        self._dimensions = 0
        self._claims: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of unit length, shape (len(texts), d), float32.

        Raises `BackendFailure` or a subclass if the model's side fails; texts encoded until then stay cached.
        """
        # Lone surrogates, as in broken emoji, are accepted by no tokenizer and by no request.
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        taped = self._route.remote and is_taped()
        if taped:
            self._recall_vectors(dict.fromkeys(texts))
        while missing := [text for text in dict.fromkeys(texts) if text not in self._known]:
            own, others = self._claim_texts(missing)
            try:
                self._encode_texts(own)
            finally:
                self._release_texts(own)
            for other in others:  # if its owner failed, the text is still missing and claimed in the next round
                other.wait()
        if taped:
            keep_vectors(self.model, {text: self._known[text].tobytes() for text in dict.fromkeys(texts)})
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def check(self, replayed: bool = False) -> None:
        """Raise errors that would stop every unit, without loading anything.

        `BackendUnreachable` for missing files or packages, `MissingKey`, and `ConfigError` for a model that the route
        cannot run. With `replayed`, recordings answer and a remote route is not checked.
        """
        if not (replayed and self._route.remote):
            self._route.check()

    def __len__(self) -> int:
        """Number of distinct texts so far."""
        return len(self._known)

    @property
    def tokens(self) -> int:
        """Tokens counted by a provider so far; 0 for local models."""
        return self._route.tokens

    @property
    def route(self) -> str:
        return self._route.name

    def describe_source(self) -> str:
        """The model's files or endpoint; empty if it has none."""
        return self._route.describe_source()

    @cached_property
    def _vector_cache(self) -> VectorCache | None:
        identity = self._route.cache_identity() if self.config.cache else None
        return None if identity is None else VectorCache(identity)

    def _claim_texts(self, texts: Sequence[str]) -> tuple[list[str], list[threading.Event]]:
        """Return the texts that this thread must encode, and the events to wait for the others."""
        own, others = [], []
        with self._lock:
            for text in texts:
                if text in self._claims:
                    others.append(self._claims[text])
                elif text not in self._known:
                    self._claims[text] = threading.Event()
                    own.append(text)
        return own, others

    def _release_texts(self, texts: Iterable[str]) -> None:
        with self._lock:
            for text in texts:
                if claim := self._claims.pop(text, None):
                    claim.set()

    def _encode_texts(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        with self._opening:
            disk = self._vector_cache
        if disk:
            self._store_vectors(disk.get(texts))
        new = [text for text in texts if text not in self._known]
        for start in range(0, len(new), self._route.batch):
            batch = new[start : start + self._route.batch]
            vectors = dict(zip(batch, self._route.encode(batch), strict=True))
            self._store_vectors(vectors)
            if disk:
                disk.put(vectors)

    def _recall_vectors(self, texts: Iterable[str]) -> None:
        """Know the vectors of these texts that a recording holds, where one answers in place of models."""
        missing = [text for text in texts if text not in self._known]
        found = recall_vectors(self.model, missing)
        self._store_vectors({text: np.frombuffer(row, np.float32) for text, row in found.items()})

    def _store_vectors(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Store these vectors and wake the threads that wait for them."""
        with self._lock:
            for vector in vectors.values():
                self._dimensions = self._dimensions or vector.size
                if vector.size != self._dimensions:
                    raise BackendFailure(
                        f"the embedder {self.model} returned a vector of {vector.size} dimensions after vectors of "
                        f"{self._dimensions}: the model behind this name has changed; set embedder.cache=false to "
                        "ignore vectors of earlier runs"
                    )
            self._known.update(vectors)
        self._release_texts(vectors)


def _build_embedder_config(model: str) -> EmbedderConfig:
    try:
        return EmbedderConfig(model=model)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"embedder.model={model!r}: {said}") from None


def _select_route(config: EmbedderConfig) -> EmbedderRoute:
    if config.model == "hash":
        return HashRoute()
    if config.model == "lexical":
        return LexicalRoute()
    route, _, name = config.model.partition("/")
    if route == "numpy":
        return NumpyRoute(name)
    if route == "litellm":
        return LiteLLMRoute(config)
    return TorchRoute(config.model)
