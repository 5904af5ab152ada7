"""Rules: lessons that a constitution holds, and how two of them compare, without knowing any language but words."""

import re
from dataclasses import dataclass
from typing import get_args

from rsso_dspy.records import Category, Lesson

CATEGORIES: tuple[Category, ...] = get_args(Category)
LASTING: tuple[Category, ...] = ("abstract", "error")
"""Categories that outlive the episode."""

LONGEST = 500
"""Characters of one text of a rule at most; what is longer is cut off."""

NOTHING_SAID = frozenset({"none", "n/a", "null", "nothing", "empty"})
"""What stands for a rule where there is none."""

_MARKERS = re.compile(r"\[\[\s*##|##\s*\]\]")
_WORDS = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "for",
        "from",
        "has",
        "in",
        "into",
        "is",
        "it",
        "its",
    }
    | {"not", "of", "on", "or", "that", "the", "to", "was"}
)
ALIKE = 0.5
"""Share of a rule's words from which on another rule, made of it and others, counts as holding it."""
NEARLY_ALL = 0.8
"""Share from which on it says the same."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a constitution."""

    id: str
    """Letter of its category and a number that is never given again, e.g. ``A7``."""
    lesson: Lesson
    task: str = ""
    """Task type it was learnt on; empty for one that came with the environment, or from several."""
    source: str = ""
    """Key of the variant it was learnt on, `` + `` between several; or who wrote it by hand."""
    count: int = 1
    """How often it was said."""


def clean_rule_text(text: object) -> str:
    """What a model or a file says, as a text of a rule: one line of printable characters, of bounded length, without
    the marks that part the fields of a prompt; empty when it says nothing."""
    line = " ".join(str(text or "").encode("utf-8", "replace").decode().split())
    line = _MARKERS.sub("", "".join(letter for letter in line if letter.isprintable()))[:LONGEST].strip()
    return "" if line.strip(".").lower() in NOTHING_SAID else line


def normalize_lesson(lesson: Lesson) -> str:
    """A lesson without case and punctuation: two of the same are one."""
    return f"{lesson.category} {' '.join(_WORDS.findall(lesson.line.lower()))}"


def compute_word_overlap(one: Lesson, other: Lesson) -> float:
    """Share of the words of one lesson that stand in the other; 0 for other categories."""
    ours, theirs = _extract_rule_words(one), _extract_rule_words(other)
    if one.category != other.category or not ours:
        return 0.0
    return len(ours & theirs) / len(ours)


def _extract_rule_words(lesson: Lesson) -> set[str]:
    return {word for word in _WORDS.findall(lesson.line.lower()) if word not in _FILLERS}
