"""Warnings, before a run, about trials that cannot differ.

Equal retries are the control of every memory: as many trials without learning. A model at temperature 0 answers equal
requests equally, so further trials without a memory repeat the first one and control nothing.
"""

from rsso_dspy.experiment.plan import Plan
from rsso_dspy.lm import Backend
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.store.units import Arm

MEND = "set protocol.retry_temperature (e.g. --set protocol.retry_temperature=0.7), or the temperature of the actor"


def list_retry_warnings(plan: Plan, backend: Backend) -> list[str]:
    """Return warnings for arms whose trials repeat the first one, and for arms that differ only by their memories.

    Empty if the actor's answers vary.
    """
    if backend.is_stochastic("actor", plan.rules.retry_temperature):
        return []
    rules = {unit.arm: plan.get_rules(unit) for unit in plan.units}
    again = {arm: of_arm for arm, of_arm in rules.items() if of_arm.trials > 1}
    same = [arm.name for arm, of_arm in again.items() if not _has_learning_memory(arm, of_arm)]
    others = [arm.name for arm, of_arm in again.items() if _has_learning_memory(arm, of_arm)]
    seed = ", where a seed changes nothing" if backend.config.seed else ""
    at = f"the actor draws the likeliest token only (temperature 0 or top_k 1{seed})"
    said = []
    if same:
        said.append(
            f"warning: {at}, so further trials of {', '.join(same)} repeat the first one and are no "
            f"control. {MEND[0].upper()}{MEND[1:]}"
        )
    if others:
        said.append(
            f"note: {at}, so further trials of {', '.join(others)} differ from the first only by their memories, "
            "and repeat it while these are empty" + ("" if same else f"; {MEND}")
        )
    return said


def _has_learning_memory(arm: Arm, rules: TrialRules) -> bool:
    """Return whether a memory of the arm can change between trials."""
    return bool(arm.method.written) and not rules.frozen
