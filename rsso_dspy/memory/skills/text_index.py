"""Distinct texts, their embeddings and their similarities.

A memory meets the same few hundred texts repeatedly, so each one is embedded once and referred to by its index.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.errors import BackendFailure
from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import BILLION
from rsso_dspy.records import State

Integers = NDArray[np.int64]

PUNCTUATION = ".,!?\"')(}{][:;"
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})


def normalize_text(text: str, keep_fill_words: bool = False) -> str:
    """Normalize a text for comparison: lower case, without punctuation and fill words (release, utils.py:12-20)."""
    words = (word.strip(PUNCTUATION) for word in text.lower().split())
    return " ".join(word for word in words if word and (keep_fill_words or word not in FILL_WORDS))


def get_embedding_text(state: State, settings: SkillSettings) -> str:
    return state.inventory_first if settings.inventory_first else state.description


class TextIndex:
    """A growing table of distinct texts."""

    def __init__(self, embed: Embed):
        self._embed = embed
        self._index: dict[str, int] = {}
        self._meaning: dict[str, int] = {}
        self._meanings: list[int] = []
        self._rows: list[NDArray[np.float64]] = []

    def index_texts(self, texts: Iterable[str]) -> Integers:
        """Return the index of each text; new texts are embedded in one call."""
        wanted = list(texts)
        new = [text for text in dict.fromkeys(wanted) if text not in self._index]
        if new:
            rows = np.asarray(self._embed(new), dtype=np.float64)
            if rows.ndim != 2 or len(rows) != len(new) or not np.isfinite(rows).all():
                raise BackendFailure(
                    f"the embedder answered {len(new)} texts with an array of shape {rows.shape}; expected "
                    f"({len(new)}, d) finite numbers. Check the backend of `embed`."
                )
            for text, row in zip(new, rows, strict=True):
                self._index[text] = len(self._rows)
                self._rows.append(row)
                self._meanings.append(self._meaning.setdefault(normalize_text(text), len(self._meaning)))
        return np.array([self._index[text] for text in wanted], dtype=np.int64)

    def compute_similarities(self, left: Integers, right: Integers) -> Integers:
        """Return (len(left), len(right)) cosines in billionths; texts that are equal after normalization count as 1."""
        rows, row = np.unique(left, return_inverse=True)
        columns, column = np.unique(right, return_inverse=True)
        cosines = self._stack_embeddings(rows) @ self._stack_embeddings(columns).T
        billionths = np.rint(cosines * BILLION).astype(np.int64)
        same = self._get_normalized_indices(rows)[:, None] == self._get_normalized_indices(columns)[None, :]
        return np.where(same, BILLION, billionths)[row[:, None], column[None, :]]

    def _stack_embeddings(self, indices: Integers) -> NDArray[np.float64]:
        return np.stack([self._rows[index] for index in indices])

    def _get_normalized_indices(self, indices: Integers) -> Integers:
        return np.array([self._meanings[index] for index in indices], dtype=np.int64)
