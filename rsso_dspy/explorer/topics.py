"""Judges whether a task is of the sort that advice is about, by the words of both."""

import re

from rsso_dspy.explorer.commands import extract_content_words, normalize_words
from rsso_dspy.explorer.goals import TaskGoals
from rsso_dspy.explorer.vocabulary import TOPIC_WORDS, TOPICS
from rsso_dspy.explorer.wordings import stem

_FILLERS = frozenset(
    {"task", "game", "problem", "kind", "type", "sort", "thing", "object", "item", "something", "anything", "any"}
    | {"all", "that", "which", "where", "you", "your", "must", "need", "have", "ask", "asked", "require", "required"}
    | {"involve", "concern", "concerned", "about", "like", "such", "every", "each", "other", "use", "using", "some"}
    | {"substance", "with", "called", "named", "known", "unknown", "determine"}
)
"""Words of a topic that say nothing about the sort of task."""


def is_task_about(topic: str, goals: TaskGoals) -> bool:
    """Whether the task is of the sort that a topic names: "boiling or melting", "lifespan-longest-lived", "tasks that
    ask you to mix chemicals"."""
    said = normalize_words(topic.replace("life-span", "lifespan").replace("life span", "lifespan"))
    said = re.sub(r"\b(?:tasks?|games?|problems?)\b", " ", said).strip()
    parts = [part for part in re.split(r",| or |/| and (?=\w+$)", said) if part.strip()]
    return any(_is_topic_met(part, goals) for part in parts)


def _is_topic_met(part: str, goals: TaskGoals) -> bool:
    told = {stem(word) for word in extract_content_words(goals.text.replace("life span", "lifespan"))}
    said = (word for word in re.split(r"[\s-]+", part) if len(word) > 2 and not word.isdigit())
    words = {stem(word) for word in said if word not in _FILLERS and extract_content_words(word)}
    if not words:
        return False
    met = sum(_is_word_told(word, told) for word in words)
    return met == len(words) or ("-" in part and 2 * met >= len(words) and met > 0)


def _is_word_told(word: str, told: set[str]) -> bool:
    return word in told or any(word in group and group & told and _is_close(word, group, told) for group in TOPICS)


def _is_close(word: str, group: frozenset[str], told: set[str]) -> bool:
    """Another word of the group is told, one that is no common word beside it."""
    return bool((group & told) - {word, "state"}) or word in ("phase", "matter")


def judge_topic(text: str, goals: TaskGoals) -> bool | None:
    """ "when boiling a substance": about the sort of task, where all words are names of such; None for other texts."""
    words = {stem(word) for word in extract_content_words(text) if word not in _FILLERS}
    return is_task_about(text, goals) if words and words <= TOPIC_WORDS else None
