"""Reflexion's own measures: success trial by trial, success per task type, and why trials failed.

compute_success("reflexion", units).trials      # solved so far, additional, accuracy of every trial
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.loops import find_action_loop
from rsso_dspy.records import Trajectory, UnitRecord
from rsso_dspy.report.learning_curves import compute_learning_curve
from rsso_dspy.report.metrics import select_scored_units

FAILURES = ("loops", "not found", "wrong answer", "out of steps", "other")
"""Why a trial was not solved; `classify_failure` says when each applies."""


@dataclass(frozen=True, slots=True)
class TrialSuccess:
    """One trial of an arm."""

    trial: int
    solved: int
    """Variants solved in it or before."""
    additional: int
    """Variants solved in it for the first time."""
    accuracy: float
    """Solved so far, as a share of all variants, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Success:
    """Success and failures of an arm over its units, without errored ones."""

    arm: str
    units: int
    trials: tuple[TrialSuccess, ...]
    by_task: Mapping[str, tuple[int, int]]
    """Task type to variants solved and variants."""
    failures: Mapping[str, int]
    """One of `FAILURES` to the trials that failed so."""


def compute_success(arm: str, records: Sequence[UnitRecord]) -> Success:
    """Compute the measures of one arm."""
    scored = select_scored_units(records)
    trials, solved = [], 0
    for number, more in enumerate(compute_learning_curve(arm, scored).newly_solved, start=1):
        solved += more
        trials.append(TrialSuccess(number, solved, more, solved / len(scored)))
    by_task: dict[str, list[bool]] = defaultdict(list)
    for record in scored:
        by_task[record.variant.task].append(any(trial.solved for trial in record.trajectories))
    failed = Counter(classify_failure(each) for unit in scored for each in unit.trajectories if not each.solved)
    return Success(
        arm,
        len(scored),
        tuple(trials),
        {task: (sum(each), len(each)) for task, each in sorted(by_task.items())},
        {why: failed[why] for why in FAILURES},
    )


def classify_failure(trajectory: Trajectory) -> str:
    """Why a trial was not solved, the first that fits: the environment ended it at a loss (wrong answer), it ended in a
    loop, it earned nothing (not found), its steps were used up, anything else."""
    steps = trajectory.steps
    if trajectory.outcome == "failed" and steps and steps[-1].reward < 0:
        return "wrong answer"
    if trajectory.outcome in ("repeated", "exhausted") or find_action_loop(steps):
        return "loops"
    if trajectory.outcome == "budget":
        return "out of steps" if trajectory.accumulator else "not found"
    return "other"


def serialize_success(found: Success) -> dict[str, Any]:
    """The measures as JSON data."""
    return {
        "trials": [asdict(each) for each in found.trials],
        "by_task": {task: {"solved": solved, "units": units} for task, (solved, units) in found.by_task.items()},
        "failures": dict(found.failures),
    }
