"""sentence-transformers models on this machine, with torch or with onnxruntime.

Texts are encoded one at a time on one thread: padding in a batch would make the last digits of a vector depend on the
other texts, and two threads are slower than one on small machines. So vectors do not depend on the order or the number
of jobs.
"""

import platform
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from rsso_dspy.embedders.base import normalize_vector, read_package_versions
from rsso_dspy.embedders.onnx_export import INSTALL, EncodingRecipe, ensure_onnx_file, require_package
from rsso_dspy.embedders.weights import find_weights, hash_model_file, hash_tokenizer_settings, hash_weights
from rsso_dspy.errors import BackendFailure

Encoder = Callable[[str], np.ndarray]


class _LocalRoute(ABC):
    """A model that is loaded with the first text."""

    batch = 1
    remote = False
    tokens = 0

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

    @abstractmethod
    def _load_encoder(self) -> Encoder:
        """The loaded model."""


class TorchRoute(_LocalRoute):
    """The model as sentence-transformers runs it, on one thread."""

    name = "sentence-transformers with torch"

    def check(self) -> None:
        _ = self.folder

    def cache_identity(self) -> dict[str, str]:
        packages = read_package_versions("torch", "sentence-transformers", "transformers", "tokenizers")
        files = {"weights": hash_weights(self.folder), "settings": hash_tokenizer_settings(self.folder)}
        return {"route": "torch", "model": self.model, "machine": platform.machine(), **files, **packages}

    def describe_source(self) -> str:
        return str(self.folder)

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


class OnnxRoute(_LocalRoute):
    """The same model in onnxruntime, on one thread, without torch: equal to `TorchRoute` up to rounding."""

    name = "onnxruntime"

    def check(self) -> None:
        require_package("onnxruntime", f"the embedder onnx/{self.model}")
        EncodingRecipe.from_folder(self.folder)
        ensure_onnx_file(self.folder, export=False)

    def cache_identity(self) -> dict[str, str]:
        files = {"weights": hash_model_file(self.file), "settings": hash_tokenizer_settings(self.folder)}
        packages = read_package_versions("onnxruntime", "tokenizers")
        return {"route": "onnx", "model": self.model, "machine": platform.machine(), **files, **packages}

    @cached_property
    def file(self) -> Path:
        """The model in ONNX format, from its folder or exported now."""
        return ensure_onnx_file(self.folder)

    def describe_source(self) -> str:
        return str(self.file)

    def _load_encoder(self) -> Encoder:
        self.check()
        import onnxruntime
        from tokenizers import Tokenizer

        recipe = EncodingRecipe.from_folder(self.folder)
        tokenizer = Tokenizer.from_file(str(recipe.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(recipe.tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            network = onnxruntime.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise BackendFailure(
                f"onnxruntime cannot load {self.file} ({type(error).__name__}: {error}); delete it to export it "
                f"again, or reinstall: {INSTALL}"
            ) from error
        inputs = {wanted.name for wanted in network.get_inputs()}

        def encode_text(text: str) -> np.ndarray:
            tokens = np.array([tokenizer.encode(recipe.prepare_text(text)).ids], dtype=np.int64)
            given = {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            }
            (states, *_) = network.run(None, {name: array for name, array in given.items() if name in inputs})
            return normalize_vector(states[0].mean(axis=0))  # all tokens count: nothing is padded

        return encode_text
