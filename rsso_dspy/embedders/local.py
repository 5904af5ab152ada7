"""sentence-transformers models on this machine, with torch or numpy.

Texts are encoded one at a time on one thread: padding in a batch would make the last digits of a vector depend on the
other texts, and two threads are slower than one on small machines. So vectors do not depend on the order or the number
of jobs.
"""

import platform
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rsso_dspy.embedders.base import normalize_vector, read_package_versions
from rsso_dspy.embedders.numpy_bert import NumpyBert, check_architecture
from rsso_dspy.embedders.recipe import EncodingRecipe
from rsso_dspy.embedders.weights import find_weights, hash_tokenizer_settings, hash_weights
from rsso_dspy.errors import BackendUnreachable, UsageError

INSTALL_TORCH = "pip install 'rsso-dspy[sentence-transformers]'"

Encoder = Callable[[str], np.ndarray]


class _LocalRoute(ABC):
    """A model that is loaded with the first text."""

    batch = 1
    remote = False
    tokens = 0
    route: str
    packages: tuple[str, ...]
    """Packages whose versions a vector depends on."""

    def __init__(self, model: str):
        self.model = model
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()

    @cached_property
    def folder(self) -> Path:
        """Folder of the model's files, located once."""
        return find_weights(self.model)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load_encoder()
            return [self._encoder(text) for text in texts]

    def cache_identity(self) -> dict[str, str]:
        files = {"weights": hash_weights(self.folder), "settings": hash_tokenizer_settings(self.folder)}
        about = {"route": self.route, "model": self.model, "machine": platform.machine()}
        return about | files | read_package_versions(*self.packages)

    def describe_source(self) -> str:
        return str(self.folder)

    @abstractmethod
    def _load_encoder(self) -> Encoder:
        """The loaded model."""


class TorchRoute(_LocalRoute):
    """The model as sentence-transformers runs it, on one thread."""

    name, route = "sentence-transformers with torch", "torch"
    packages = ("torch", "sentence-transformers", "transformers", "tokenizers")

    def check(self) -> None:
        what = f"the embedder {self.model}"
        install = f"{INSTALL_TORCH}, or set embedder.model=numpy/{self.model} for the same model without torch"
        for package in ("sentence_transformers", "torch"):
            if find_spec(package) is None:
                raise BackendUnreachable(f"{what} needs the package {package}, which is not installed: {install}")
        _ = self.folder

    def _load_encoder(self) -> Encoder:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()
        torch.set_num_threads(1)
        model = SentenceTransformer(str(self.folder), device="cpu")

        def encode_text(text: str) -> np.ndarray:
            return model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0].astype(np.float32)

        return encode_text


class NumpyRoute(_LocalRoute):
    """The same model in numpy, on one thread, without torch: equal to `TorchRoute` up to rounding."""

    name, route, packages = "numpy", "numpy", ("numpy", "scipy", "tokenizers")

    def check(self) -> None:
        check_architecture(EncodingRecipe.from_folder(self.folder).network)
        if not (self.folder / "model.safetensors").is_file():
            raise UsageError(
                f"{self.folder} has no model.safetensors, which the numpy route reads: save the weights in that form, "
                "or install sentence-transformers (pip install 'rsso-dspy[sentence-transformers]')"
            )

    def _load_encoder(self) -> Encoder:
        from threadpoolctl import ThreadpoolController

        recipe = EncodingRecipe.from_folder(self.folder)
        network, tokenize, threads = NumpyBert(recipe.network), load_tokenizer(recipe), ThreadpoolController()

        def encode_text(text: str) -> np.ndarray:
            with threads.limit(limits=1):
                return normalize_vector(network(tokenize(text)).mean(axis=0))

        return encode_text


def load_tokenizer(recipe: EncodingRecipe) -> Callable[[str], list[int]]:
    """Return a function from a text to its token ids, with the special ones, cut at the model's limit."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(recipe.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(recipe.tokens)

    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(recipe.prepare_text(text)).ids
        return ids

    return tokenize
