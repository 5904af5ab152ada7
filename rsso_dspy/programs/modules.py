"""The modules that an agent may have beside its actor: a row each, with the role that answers it."""

from collections.abc import Callable
from dataclasses import dataclass

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.constitution_writer import ConstitutionWriter
from rsso_dspy.programs.skill_verbalizer import SkillVerbalizer
from rsso_dspy.signatures import DistillReflections, JudgeEquivalence, Reflect
from rsso_dspy.signatures.memory_writers import (
    ExtractStrategies,
    InduceWorkflows,
    ReviewPlaybook,
    ReviseInsights,
    RewriteCheatsheet,
)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module. Calling the row makes the module."""

    make: Callable[[], dspy.Module]
    role: str
    """Which model answers it, and under which name its tokens are counted."""
    parts: tuple[str, ...] = ()
    """Names of its predictors, where it has several."""

    def __call__(self) -> dspy.Module:
        return self.make()


MODULES: dict[str, ModuleRow] = {
    "reflector": ModuleRow(lambda: dspy.Predict(Reflect), "reflector"),
    "reflection_distiller": ModuleRow(lambda: dspy.Predict(DistillReflections), "reflector"),
    "skill_verbalizer": ModuleRow(SkillVerbalizer, "verbalizer", ("summary", "instructions", "target")),
    "skill_equivalence": ModuleRow(lambda: dspy.Predict(JudgeEquivalence), "verbalizer"),
    "constitution_writer": ModuleRow(ConstitutionWriter, "advisor", ("write", "summarize")),
    "insight_writer": ModuleRow(lambda: dspy.Predict(ReviseInsights), "advisor"),
    "workflow_writer": ModuleRow(lambda: dspy.Predict(InduceWorkflows), "verbalizer"),
    "strategy_writer": ModuleRow(lambda: dspy.Predict(ExtractStrategies), "verbalizer"),
    "playbook_reviewer": ModuleRow(lambda: dspy.Predict(ReviewPlaybook), "reflector"),
    "cheatsheet_writer": ModuleRow(lambda: dspy.Predict(RewriteCheatsheet), "advisor"),
}
"""What an agent may have beside its actor."""

PREDICTORS = (
    "actor",
    *(f"{name}.{part}" if part else name for name, row in MODULES.items() for part in row.parts or ("",)),
)
"""Every predictor that an agent of some method has, by DSPy's name for it."""


def get_role(predictor: str) -> str:
    """The role of a predictor, by its name: which model answers it, and under which name its tokens are counted."""
    name = predictor.partition(".")[0]
    return "actor" if name == "actor" else MODULES[name].role


ROLE_OF = {name: get_role(name) for name in PREDICTORS}
"""Predictor to role."""


def check_replacement(name: str, before: dspy.Module, module: dspy.Module) -> None:
    """Raise `UsageError` when a module cannot stand in for the one that is there: an input that it does not take would
    keep a memory out of the prompt without a word."""
    missing_inputs = _collect_fields(before, "input_fields") - _collect_fields(module, "input_fields")
    missing_outputs = _collect_fields(before, "output_fields") - _collect_fields(module, "output_fields") - _SPARED
    if missing_inputs or missing_outputs:
        lacks = [f"the inputs {', '.join(sorted(missing_inputs))}"] if missing_inputs else []
        lacks += [f"the outputs {', '.join(sorted(missing_outputs))}"] if missing_outputs else []
        raise UsageError(
            f"this {type(module).__name__} cannot be the {name}: its signature lacks {' and '.join(lacks)}; "
            "add them to the signature, which may have more"
        )


_SPARED = {"thought", "reasoning"}
"""Outputs that are shown and decide nothing."""


def _collect_fields(module: dspy.Module, kind: str) -> set[str]:
    return {name for predictor in module.predictors() for name in getattr(predictor.signature, kind)}
