"""The contract of every language-model call: what goes in, what comes out, and the words that ask for it.

Prompts live here and nowhere else, so that an optimizer can reach all of them. Every signature differs from every
other in fields or instructions, because optimizers tell predictors apart by their signatures.
"""

from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.complete import WORDS as WORDS
from rsso_dspy.signatures.constitution import ErrorRule, SummarizeConstitution, WriteRules
from rsso_dspy.signatures.reflection import Reflect
from rsso_dspy.signatures.skills import JudgeEquivalence, NameTarget, SummarizeSkill, WriteInstructions

__all__ = [
    "ErrorRule",
    "FlatActor",
    "JudgeEquivalence",
    "NameTarget",
    "Reflect",
    "SkillActor",
    "SummarizeConstitution",
    "SummarizeSkill",
    "WriteInstructions",
    "WriteRules",
]
