"""The signatures of all language-model calls: inputs, outputs and instructions.

Prompts are defined only here, so that an optimizer can reach all of them. No two signatures are equal in fields and
instructions, because optimizers distinguish predictors by their signatures. A name is loaded when it is asked for.
"""

from importlib import import_module
from typing import Any

_HOMES = {  # name to its module; `hash_prompts` reads them in this order
    "ErrorRule": "constitution",
    "FlatActor": "actor",
    "JudgeEquivalence": "skills",
    "NameTarget": "skills",
    "Reflect": "reflection",
    "SkillActor": "actor",
    "SummarizeConstitution": "constitution",
    "SummarizeSkill": "skills",
    "WriteInstructions": "skills",
    "WriteRules": "constitution",
    "DistillReflections": "reflection",
}
__all__ = list(_HOMES)[:-1]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
