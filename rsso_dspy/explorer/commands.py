"""Parses commands of the text game that the player knows out of prose, with the benchmark's own grammar."""

from rsso_dspy.environments.grammar import AdviceClause, Command, extract_content_words, normalize_words
from rsso_dspy.environments.scienceworld.grammar import GRAMMAR

__all__ = [
    "TRAVEL", "AdviceClause", "Command", "command", "extract_content_words", "is_same_verb", "lines", "make",
    "normalize_words",
]  # fmt: skip

command, lines, make = GRAMMAR.parse_command, GRAMMAR.parse_advice, GRAMMAR.make_command

TRAVEL = ("teleport", "go")
"""Verbs that lead to another room; either may stand for the other."""


def is_same_verb(one: Command, other: Command) -> bool:
    """Whether two commands do the same, whatever their objects."""
    return one.verb == other.verb or (one.verb in TRAVEL and other.verb in TRAVEL)
