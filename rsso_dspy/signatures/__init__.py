"""The signatures of all that agents ask: inputs, outputs and instructions. Their prompts are defined only here, so that
an optimizer can reach all of them. No two are equal in fields and instructions: optimizers tell predictors by these."""

from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.constitution import ErrorRule, SummarizeConstitution, WriteRules
from rsso_dspy.signatures.memory_writers import JudgeEquivalence, NameTarget, Reflect, SummarizeSkill, WriteInstructions

__all__ = ["ErrorRule", "FlatActor", "JudgeEquivalence", "NameTarget", "Reflect", "SkillActor"]
__all__ += ["SummarizeConstitution", "SummarizeSkill", "WriteInstructions", "WriteRules"]
