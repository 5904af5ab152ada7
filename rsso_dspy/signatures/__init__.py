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
"""Module to the names that it holds."""

__all__ = [  # `hash_prompts` reads them in this order
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


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
