"""The reflector's call with its improvements: which fields are asked for, and the plan as one text.

fields = list_reflection_fields(predictor, improvements, trajectory)     # what to hand to the predictor besides
compose_reflection(prediction, trajectory)                               # what the memory keeps
"""

from collections.abc import Callable, Sequence
from typing import Any

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.loops import describe_loops, name_place
from rsso_dspy.memory.reflections import LongTerm
from rsso_dspy.records import State, Trajectory
from rsso_dspy.signatures.reflection import ADDED_INPUTS, ADDED_OUTPUTS, LOOPS, add_reflection_fields

_LABELS = {
    "failed_action_pattern": "Failed action pattern",
    "root_cause": "Root cause",
    "missing_exploration": "Missing exploration",
    "strategy_adjustment": "Strategy adjustment",
    "priority_locations": "Priority locations",
}


def list_reflection_fields(
    module: dspy.Module,
    improvements: frozenset[str],
    trajectory: Trajectory,
    name_place: Callable[[State], str] = name_place,
) -> dict[str, Any]:
    """What a call of the reflector is told besides, for these improvements: a signature with their fields, and the
    loops. Empty without them, so that the prompt stays what it was. `name_place` tells the place of a state.

    Raises `UsageError` when the reflector was replaced by a module that lacks the fields and cannot be given them.
    """
    asked = improvements & (ADDED_INPUTS.keys() | ADDED_OUTPUTS.keys())
    if not asked:
        return {}
    told: dict[str, Any] = {LOOPS: describe_loops(trajectory.steps, name_place)} if "loops" in asked else {}
    if isinstance(module, dspy.Predict):
        return {**told, "signature": add_reflection_fields(module.signature, asked)}
    for predictor in module.predictors():
        if add_reflection_fields(predictor.signature, asked) is predictor.signature:
            return told
    missing = [name for each in sorted(asked) for name in (*ADDED_INPUTS.get(each, ()), *ADDED_OUTPUTS.get(each, ()))]
    raise UsageError(
        f"this {type(module).__name__} cannot be the reflector of {', '.join(sorted(asked))}: its signature lacks "
        f"{', '.join(missing)}; add them to the signature, or use dspy.Predict"
    )


def compose_reflection(prediction: dspy.Prediction, trajectory: Trajectory) -> str:
    """The reflection as one text: what went wrong, what the improvements add, the plan."""
    lines = [str(prediction.what_went_wrong)]
    for name, label in _LABELS.items():
        value = prediction.get(name)
        said = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "").strip()
        if said:
            lines.append(f"{label}: {said}")
    lines += _describe_counterfactual(prediction, trajectory)
    return "\n".join([*lines, str(prediction.plan)]).strip()


def _describe_counterfactual(prediction: dspy.Prediction, trajectory: Trajectory) -> list[str]:
    """The critical step with the action that was really taken there; nothing when the trial has no such step."""
    number = prediction.get("critical_step")
    if not isinstance(number, int) or not 1 <= number <= len(trajectory.steps):
        return []
    lines = [f"Critical step: {number}, {trajectory.steps[number - 1].action or 'no action'}"]
    if instead := str(prediction.get("should_have_done") or "").strip():
        lines.append(f"Instead: {instead}")
    if outcome := str(prediction.get("expected_outcome") or "").strip():
        lines.append(f"Expected: {outcome}")
    return lines


def describe_long_term(known: LongTerm, task_type: str, plans: Sequence[str]) -> dict[str, Any]:
    return {
        "task_type": task_type,
        "known_never": list(known.never),
        "known_always": list(known.always),
        "known_strategy": known.strategies.get(task_type, ""),
        "plans": "\n\n".join(f"Attempt {number}: {plan}" for number, plan in enumerate(plans, start=1)),
    }
