"""Cheap embeddings without a model."""

import hashlib
import math
import re
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from rsso_dspy.embedders.base import normalize_vector

DIMENSIONS = 512
"""Length of a lexical vector."""

_WORD = re.compile(r"\w+")


class _ModelFreeRoute:
    batch = 64
    remote = False
    tokens = 0

    def check(self) -> None:
        pass

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self._embed_text(text) for text in texts]

    @staticmethod
    @abstractmethod
    def _embed_text(text: str) -> np.ndarray: ...

    def cache_identity(self) -> None:
        return None

    def describe_source(self) -> str:
        return ""


class HashRoute(_ModelFreeRoute):
    """Return a random direction seeded by the text's digest, shape (384,).

    Equal texts are equal, all others unrelated. sso_golden.json was computed with the same directions in double
    precision: mean cosines differ by less than 5e-9.
    """

    name = "random directions"

    @staticmethod
    def _embed_text(text: str) -> np.ndarray:
        seed = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)
        return normalize_vector(np.random.RandomState(seed).randn(384))


class LexicalRoute(_ModelFreeRoute):
    """Hash words and pairs of neighbouring words into 512 dimensions: similarity measures shared words.

    Equal on every machine and in every process.
    """

    name = "shared words"

    @staticmethod
    def _embed_text(text: str) -> np.ndarray:
        words = _WORD.findall(text.lower())
        features = Counter(words)
        features.update(f"{first} {second}" for first, second in pairwise(words))
        vector = [0.0] * DIMENSIONS
        for feature, count in features.items():
            place, sign = _hash_feature(feature)
            vector[place] += sign * (1 + math.log(count))
        if not any(vector):
            vector[0] = 1.0  # no word at all, or words that cancel out: one direction for all such texts
        return normalize_vector(np.array(vector))


@lru_cache(maxsize=100_000)
def _hash_feature(feature: str) -> tuple[int, float]:
    """Return dimension and sign of a feature; signs make collisions cancel on average instead of adding up."""
    value = zlib.crc32(feature.encode())
    return value % DIMENSIONS, 1.0 if value >> 31 else -1.0
