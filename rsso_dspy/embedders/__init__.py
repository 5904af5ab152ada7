"""Text to vectors, each distinct text once per run, by a model that the configuration names.

    embed = Embedder("all-MiniLM-L6-v2")
    vectors = embed(["a red door", "an open door"])     # (2, 384), float32, rows of length 1

| `embedder.model` | what encodes | needs |
|---|---|---|
| NAME or a folder | sentence-transformers with torch, one thread | the model's files |
| `onnx/NAME` | the same model in onnxruntime, one thread, without torch | its files and the extra `onnx` |
| `litellm/PROVIDER/MODEL` | a provider's model, 64 texts a request | its key or its server |
| `lexical` | hashed words and word pairs, well below 1 ms a text | nothing |
| `hash` | a random direction a text, knows no meaning: for tests | nothing |

The first three keep their vectors in the user's cache folder (see `vector_cache.py`), so that a later run neither
computes nor pays for them again, nor loads a model when it meets no new text; `embedder.cache=false` turns that off.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from pydantic import ValidationError

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embedders.base import EmbedderRoute
from rsso_dspy.embedders.hashing import HashRoute, LexicalRoute
from rsso_dspy.embedders.local import OnnxRoute, TorchRoute
from rsso_dspy.embedders.remote import LiteLLMRoute
from rsso_dspy.embedders.vector_cache import VectorCache
from rsso_dspy.embedders.weights import MINILM
from rsso_dspy.errors import BackendFailure, ConfigError
from rsso_dspy.lm.recording import is_taped, keep_vectors, recall_vectors

__all__ = ["MINILM", "Embedder"]


class Embedder:
    """A text encoder that remembers. Thread-safe: a text that several threads want is encoded by one of them, and
    requests to a provider go out side by side. Nothing is loaded or asked for before a text arrives that is not
    known."""

    def __init__(self, config: EmbedderConfig | str = MINILM):
        """`config`: the section of the configuration, or just a name. Raises `ConfigError` for a name of no route."""
        self.config = _build_embedder_config(config) if isinstance(config, str) else config
        self.model = self.config.model
        self._route = _select_route(self.config)
        self._known: dict[str, np.ndarray] = {}
        self._dimensions = 0
        self._claims: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of unit length, shape (len(texts), d), float32. Raises `BackendFailure` or one of its kinds when the
        model's side fails; what was encoded until then stays known."""
        texts = [_make_encodable(text) for text in texts]
        taped = self._route.remote and is_taped()
        if taped:
            self._recall_vectors(dict.fromkeys(texts))
        while missing := [text for text in dict.fromkeys(texts) if text not in self._known]:
            own, others = self._claim_texts(missing)
            try:
                self._encode_texts(own)
            finally:
                self._release_texts(own)
            for other in others:  # if its owner failed, the text is missing still and claimed in the next round
                other.wait()
        if taped:
            keep_vectors(self.model, {text: self._known[text].tobytes() for text in dict.fromkeys(texts)})
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def check(self, replayed: bool = False) -> None:
        """Raise now what would stop every unit: `BackendUnreachable` for missing files or packages, `MissingKey`,
        `ConfigError` for a model that the route cannot run. Loads nothing. Where recordings answer, no server has
        to."""
        if not (replayed and self._route.remote):
            self._route.check()

    def __len__(self) -> int:
        """Distinct texts met so far."""
        return len(self._known)

    @property
    def tokens(self) -> int:
        """Tokens that a provider counted so far; 0 for models on this machine."""
        return self._route.tokens

    @property
    def route(self) -> str:
        """What encodes, in words."""
        return self._route.name

    def describe_source(self) -> str:
        """Where the model comes from: its files or its endpoint; empty when there are none."""
        return self._route.describe_source()

    @cached_property
    def _vector_cache(self) -> VectorCache | None:
        identity = self._route.cache_identity() if self.config.cache else None
        return None if identity is None else VectorCache(identity)

    def _claim_texts(self, texts: Sequence[str]) -> tuple[list[str], list[threading.Event]]:
        """Of these texts, those that this thread is to encode, and what to wait for as to the rest."""
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
        for batch in _iter_batches([text for text in texts if text not in self._known], self._route.batch):
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
        """Know these vectors from now on, and let go of who waits for them."""
        with self._lock:
            for vector in vectors.values():
                self._dimensions = self._dimensions or vector.size
                if vector.size != self._dimensions:
                    raise BackendFailure(
                        f"the embedder {self.model} gave a vector of {vector.size} dimensions after ones of "
                        f"{self._dimensions}: what it stands for has changed; with embedder.cache=false no earlier "
                        "run's vectors are used"
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
    if route == "onnx":
        return OnnxRoute(name)
    if route == "litellm":
        return LiteLLMRoute(config)
    return TorchRoute(config.model)


def _iter_batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def _make_encodable(text: str) -> str:
    """The text itself, half characters (as in broken emoji) replaced: no tokenizer and no request can hold them."""
    return text.encode("utf-8", "replace").decode("utf-8")
