"""What a way to vectors offers. `Embedder` puts memory, cache and threads around it."""

from collections.abc import Sequence
from importlib import metadata
from typing import Protocol

import numpy as np


class EmbedderRoute(Protocol):
    """One model behind one way to reach it. `encode` may be called from several threads at once."""

    name: str
    """What doctor calls it."""
    batch: int
    """How many texts `encode` takes at most. Local models take one: a batch pads its texts to one length, and the
    padding shows in the last digits."""
    remote: bool
    """Whether a server answers, whose vectors a recording has to keep."""
    tokens: int
    """Tokens that were paid for so far; 0 for what runs on this machine."""

    def check(self) -> None:
        """Raise now what would stop every unit later: missing files, a missing package, a missing key."""
        ...

    def encode(self, texts: Sequence[str]) -> Sequence[np.ndarray]:
        """One float32 row of length 1 for every text, in order. Raises `BackendFailure` when the model's side fails."""
        ...

    def cache_identity(self) -> dict[str, str] | None:
        """Everything that a text's vector depends on beside the text; None where keeping vectors does not pay."""
        ...

    def describe_source(self) -> str:
        """Where the model comes from, for people; empty when there are no files and no endpoint."""
        ...


def normalize_vector(vector: np.ndarray) -> np.ndarray:
    """The same direction with length 1, float32."""
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def read_package_versions(*packages: str) -> dict[str, str]:
    """Installed versions by package name, without importing the packages; absent ones are empty."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = ""
    return found
