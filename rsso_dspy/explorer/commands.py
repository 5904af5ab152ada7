"""Commands of the text game that the player knows, read out of prose: the grammar is the benchmark's own."""

from rsso_dspy.environments.grammar import AdviceClause, Command, extract_content_words, normalize_words
from rsso_dspy.environments.scienceworld.grammar import GRAMMAR

__all__ = ["AdviceClause", "Command", "command", "extract_content_words", "lines", "make", "normalize_words"]

command, lines, make = GRAMMAR.parse_command, GRAMMAR.parse_advice, GRAMMAR.make_command
