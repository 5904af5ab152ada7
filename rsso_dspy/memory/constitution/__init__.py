"""A constitution: rules distilled from experience, carried from task to task (OmniReflect).

constitution    the set of rules as an immutable value, with the log of its edits
memory          the Memory: who writes, writing during an episode, keeping, summarizing
file            a constitution as a file, and as a block of Markdown
"""

from rsso_dspy.memory.constitution.constitution import CATEGORIES, LASTING, Constitution, Rule, condense_rules
from rsso_dspy.memory.constitution.memory import ConstitutionMemory, ConstitutionSettings, PartialEpisode, RuleWriter

__all__ = [
    "CATEGORIES",
    "LASTING",
    "Constitution",
    "ConstitutionMemory",
    "ConstitutionSettings",
    "PartialEpisode",
    "Rule",
    "RuleWriter",
    "condense_rules",
]
