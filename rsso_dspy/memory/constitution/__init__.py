"""A constitution: rules distilled from experience, carried from task to task (OmniReflect).

rules           a lesson with an id and a history, and how two compare
constitution    the book of rules as a value, with the log of its edits
memory          the Memory: what is written during an episode, what stays, when it is summarized
file            a constitution as a file, and as lines for a person to edit

Who writes is none of this room's business: a `Writer` is handed in, with or without a language model behind it.
"""

from rsso_dspy.memory.constitution.constitution import Constitution, RuleEdit, condense_rules, merge_lasting_rules
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
    "merge_lasting_rules",
]
