"""The signatures of all language-model calls: inputs, outputs and instructions.

Prompts are defined only here, so that an optimizer can reach all of them. No two signatures are equal in fields and
instructions, because optimizers distinguish predictors by their signatures. A name is loaded when it is asked for.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "actor": ("FlatActor", "SkillActor"),
    "constitution": ("ErrorRule", "SummarizeConstitution", "WriteRules"),
    "reflection": ("DistillReflections", "Reflect"),
    "skills": ("JudgeEquivalence", "NameTarget", "SummarizeSkill", "WriteInstructions"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _HOMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{module}"), name)
