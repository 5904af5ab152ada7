"""Commands of the text game that the player knows, read out of prose: the grammar is the benchmark's own."""

from rsso_dspy.environments.grammar import Command, Line, plain, words
from rsso_dspy.environments.scienceworld.grammar import GRAMMAR

__all__ = ["Command", "Line", "command", "lines", "make", "plain", "words"]

command, lines, make = GRAMMAR.command, GRAMMAR.lines, GRAMMAR.make
