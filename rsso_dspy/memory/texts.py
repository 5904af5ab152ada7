"""Texts of memories: cleaned where a model wrote them, and compared by their vectors."""

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_TEXT = 500  # maximum length of a text that a model writes, in characters; longer texts are cut off
_NO_TEXT = frozenset({"none", "n/a", "null", "nothing", "empty"})
_MARKERS = re.compile(r"\[\[\s*##|##\s*\]\]")


def clean_text(text: object) -> str:
    """What a model wrote as one printable line of bounded length without field separators; empty where it says that
    there is nothing."""
    encodable = str(text or "").encode("utf-8", "replace").decode()
    line = " ".join(encodable.split())
    printable = "".join(letter for letter in line if letter.isprintable())
    cleaned = _MARKERS.sub("", printable)[:LONGEST_TEXT].strip()
    if cleaned.strip(".").lower() in _NO_TEXT:
        return ""
    return cleaned


def clean_document(text: str) -> str:
    """A text of many lines as it is, without control characters and field separators, which cannot be sent."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    printable = "".join(letter for letter in lines if _can_be_sent(letter))
    return _MARKERS.sub("", printable).strip("\n")


def _can_be_sent(letter: str) -> bool:
    return letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs")


Embed = Callable[[Sequence[str]], NDArray[np.floating]]  # n texts to (n, d) L2-normalized rows

BILLION = 1_000_000_000  # similarities are whole billionths: their sums and order do not depend on the machine


def find_nearest(embed: Embed, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """Positions of the texts with their cosines, nearest first, equals in their order."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return []

    vectors = embed([query, *distinct])
    cosines = {}
    for text, row in zip(distinct, vectors[1:], strict=True):
        cosine = sum(float(a) * float(b) for a, b in zip(vectors[0], row, strict=True))
        cosines[text] = round(cosine * BILLION)

    ranked = sorted(range(len(texts)), key=lambda place: -cosines[texts[place]])
    return [(place, cosines[texts[place]] / BILLION) for place in ranked]
