"""Rules of a constitution, and their comparison by words."""

import re
from dataclasses import dataclass
from typing import get_args

from rsso_dspy.records import Category, Lesson

CATEGORIES: tuple[Category, ...] = get_args(Category)
LASTING: tuple[Category, ...] = ("abstract", "error")
"""Categories that outlive the episode."""

LONGEST = 500
"""Maximum length of a text of a rule in characters; longer texts are cut off."""

NOTHING_SAID = frozenset({"none", "n/a", "null", "nothing", "empty"})
"""Texts that mean that there is no rule."""

_MARKERS = re.compile(r"\[\[\s*##|##\s*\]\]")
_WORDS = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    _WORDS.findall("a an and are as at be by can do for from has in into is it its not of on or that the to was")
)
ALIKE = 0.5
"""Share of a rule's words above which a merged rule counts as containing it."""
NEARLY_ALL = 0.8
"""Share above which two rules say the same."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a constitution."""

    id: str
    """Letter of its category and a number that is never reused, e.g. ``A7``."""
    lesson: Lesson
    task: str = ""
    """Task type it was learned on; empty for initial rules and for rules from several tasks."""
    source: str = ""
    """Key of the variant it was learned on, several joined by `` + ``; or the author of a handwritten rule."""
    count: int = 1
    """How often it was written."""


def clean_rule_text(text: object) -> str:
    """Sanitize a text of a rule: one printable line of bounded length without field separators; empty for no rule."""
    line = " ".join(str(text or "").encode("utf-8", "replace").decode().split())
    line = _MARKERS.sub("", "".join(letter for letter in line if letter.isprintable()))[:LONGEST].strip()
    return "" if line.strip(".").lower() in NOTHING_SAID else line


def normalize_lesson(lesson: Lesson) -> str:
    """Normalize a lesson without case and punctuation, to find duplicates."""
    return f"{lesson.category} {' '.join(_WORDS.findall(lesson.line.lower()))}"


def compute_word_overlap(one: Lesson, other: Lesson) -> float:
    """Return the share of one lesson's words that the other contains; 0 for different categories."""
    ours, theirs = _extract_rule_words(one), _extract_rule_words(other)
    if one.category != other.category or not ours:
        return 0.0
    return len(ours & theirs) / len(ours)


def _extract_rule_words(lesson: Lesson) -> set[str]:
    return {word for word in _WORDS.findall(lesson.line.lower()) if word not in _FILLERS}
