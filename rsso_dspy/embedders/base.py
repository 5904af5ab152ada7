"""The contract of an embedding route. `Embedder` adds memory, cache and threads."""

from collections.abc import Sequence
from importlib import metadata
from typing import Protocol

import numpy as np


class EmbedderRoute(Protocol):
    """One model and its route. `encode` may be called from several threads at once."""

    name: str
    """Description for doctor."""
    batch: int
    """Maximum texts per `encode`. Local models take one: padding in a batch changes the last digits."""
    remote: bool
    """Whether a server answers, so that recordings must keep its vectors."""
    tokens: int
    """Tokens paid for so far; 0 for local models."""

    def check(self) -> None:
        """Raise errors that would stop every unit: missing files, packages or keys."""

    def encode(self, texts: Sequence[str]) -> Sequence[np.ndarray]:
        """Return one float32 row of length 1 per text, in order. Raises `BackendFailure` if the model's side fails."""

    def cache_identity(self) -> dict[str, str] | None:
        """Return everything that a vector depends on besides its text; None if caching is not worthwhile."""

    def describe_source(self) -> str:
        """Describe the model's files or endpoint; empty if it has none."""


def normalize_vector(vector: np.ndarray) -> np.ndarray:
    """Normalize a vector to length 1, float32."""
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def read_package_versions(*packages: str) -> dict[str, str]:
    """Return installed versions by package name without importing; empty if not installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = ""
    return found
