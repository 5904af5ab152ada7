"""The nearest texts by cosine of their embeddings."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], NDArray[np.floating]]
"""Maps n texts to an (n, d) array of L2-normalized rows; equal texts give equal rows."""

BILLION = 1_000_000_000


def find_nearest(embed: Embed, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Positions of the texts with their cosines, nearest first, equals in their order. Cosines are rounded to
    billionths, so the order does not depend on the machine."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return []
    vectors = embed([query, *distinct])
    cosines = {
        text: round(sum(float(a) * float(b) for a, b in zip(vectors[0], row, strict=True)) * BILLION)
        for text, row in zip(distinct, vectors[1:], strict=True)
    }
    ranked = sorted(range(len(texts)), key=lambda place: -cosines[texts[place]])
    return [(place, cosines[texts[place]] / BILLION) for place in ranked]
