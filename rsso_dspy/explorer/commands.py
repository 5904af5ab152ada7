"""Parses commands of the text game that the player knows out of prose, with the benchmark's own grammar."""

from rsso_dspy.environments.grammar import AdviceClause, Command, extract_content_words, normalize_words
from rsso_dspy.environments.scienceworld.actions import GRAMMAR

__all__ = [
    "TRAVEL", "AdviceClause", "Command", "command", "extract_content_words", "is_concrete", "is_same_verb", "lines",
    "make", "normalize_words",
]  # fmt: skip

command, lines, make = GRAMMAR.parse_command, GRAMMAR.parse_advice, GRAMMAR.make_command

TRAVEL = ("teleport", "go")
"""Verbs that lead to another room; either may stand for the other."""
_SLOTS = frozenset({"obj", "object", "container", "location", "something", "it", "thing", "substance", "item"})


def is_concrete(done: Command) -> bool:
    """Whether no part of a command is a placeholder such as OBJ or "the substance"."""
    return not any(
        extract_content_words(part) & _SLOTS and len(extract_content_words(part)) == 1
        for part in (done.thing, done.place)
    )


def is_same_verb(one: Command, other: Command) -> bool:
    """Whether two commands do the same, whatever their objects."""
    return one.verb == other.verb or (one.verb in TRAVEL and other.verb in TRAVEL)
