"""The signatures of all language-model calls: inputs, outputs and instructions.

Prompts are defined only here, so that an optimizer can reach all of them. No two signatures are equal in fields and
instructions, because optimizers distinguish predictors by their signatures.
"""

from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.complete import WORDS as WORDS
from rsso_dspy.signatures.constitution import ErrorRule, SummarizeConstitution, WriteRules
from rsso_dspy.signatures.reflection import DistillReflections as DistillReflections
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
