"""A constitution: rules distilled from experience, carried from task to task (OmniReflect).

rules           a lesson with id and history, and the comparison of two
constitution    the set of rules as an immutable value, with the log of its edits
memory          the Memory: writing during an episode, keeping, summarizing
file            a constitution as a file, and as lines for a person to edit

The rule writer is passed in as a `Writer`, with or without a language model.
"""

from rsso_dspy.memory.constitution.constitution import Constitution, RuleEdit, condense_rules
from rsso_dspy.memory.constitution.memory import ConstitutionMemory, ConstitutionSettings, PartialEpisode, RuleWriter
from rsso_dspy.memory.constitution.rules import CATEGORIES, LASTING, Rule

__all__ = [
    "CATEGORIES",
    "LASTING",
    "Constitution",
    "ConstitutionMemory",
    "ConstitutionSettings",
    "PartialEpisode",
    "Rule",
    "RuleEdit",
    "RuleWriter",
    "condense_rules",
]
