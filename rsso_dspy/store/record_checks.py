"""Checks of readable records: origin in this run, and plausible content.

    why = find_origin_fault(record, identity, arms) or find_record_fault(record, finished=True)      # empty: accepted

A record names its configuration, and its folder's `run.json` names that of all its records, so a file copied from
another run is detected. Impossible content (steps beyond the budget, rewards that are not the change of the score, a
missing trial) was not written by a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from rsso_dspy.environments.benchmark import ORIGIN as BENCHMARK
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.records import SOLVED_SCORE, Step, TrainingRecord, Trajectory, TrialResult, UnitRecord, Usage, Variant

MOST = 10**15
"""Upper bound of any count: more tokens than will ever be sent, but safe to calculate with."""

ORIGIN = ("config_hash", "prompts", "rsso_dspy", "dspy", *BENCHMARK)
"""Keys in both the provenance of a record and the identity of its folder."""

COUNTS = ("held", "library")
"""Counts of memories that tables use."""


def find_origin_fault(record: UnitRecord | TrainingRecord, identity: Mapping[str, Any], arms: Mapping[str, str]) -> str:
    """Return evidence that the record belongs to another run, or an empty string."""
    said = {**record.provenance, "protocol": record.protocol}
    for name in ("protocol", *ORIGIN):
        if name in said and name in identity and said[name] != identity[name]:
            return f"its {name} is {said[name]}, that of the run {identity[name]}"
    if arms and record.arm not in arms:
        return f"the run has no arm {record.arm}"
    if arms and record.provenance.get("program", arms[record.arm]) != arms[record.arm]:
        return f"another program of {record.arm} played it"
    return ""


def find_record_fault(record: UnitRecord | TrainingRecord, finished: bool) -> str:
    """Return what is impossible in the record, or an empty string.

    `finished`: whether it is stored among finished records, not started ones.
    """
    return next(_find_faults(record, finished), "")


def find_trials_fault(trials: Sequence[TrialResult], variant: Variant) -> str:
    """Return what is impossible in trials of one variant with unknown budget, or an empty string."""
    for number, result in enumerate(trials, start=1):
        if result.trial != number or result.trajectory is None or result.trajectory.variant != variant:
            return f"trial {number} is not what belongs there"
        if why := next(_find_trial_faults(result, MOST), ""):
            return why
    return ""


def parse_usage(data: Any) -> Usage | None:
    """Parse the cost of answers in a journal entry, or None."""
    try:
        usage = Usage(**data)
    except TypeError:
        return None
    wrong = any(isinstance(each, bool) or not isinstance(each, int | float) for each in astuple(usage))
    return None if wrong or _is_miscounted(usage) else usage


def find_memory_fault(record: UnitRecord | TrainingRecord) -> str:
    """Return why play cannot resume from the memories of a record, or an empty string."""
    from rsso_dspy.programs.methods import MEMORIES, load_memory

    try:
        for name in MEMORIES.keys() & record.memories.keys():
            load_memory(name).entries(record.memories[name])
    except RunMismatch:
        return ""  # the player reports it
    except (UsageError, KeyError, TypeError, ValueError, AttributeError) as error:
        return f"its memories are damaged: {type(error).__name__}: {error}"
    return ""


def _find_faults(record: UnitRecord | TrainingRecord, finished: bool) -> Iterator[str]:
    unit = isinstance(record, UnitRecord)
    if not 0 <= record.seed <= MOST:
        yield f"its seed is {record.seed}"
    allowed = record.trials_allowed if isinstance(record, UnitRecord) else len(record.budgets)
    if not 0 <= allowed <= MOST:
        yield f"{allowed} trials are allowed"
    if not all(_is_count(count) for source in record.sources for count in (source.place, source.size or 0)):
        yield "its memories started with what cannot be counted"
    played = len(record.trials)
    for number, result in enumerate(record.trials, start=1):
        if result.trial != number:
            yield f"trial {result.trial} stands where trial {number} belongs"
        if result.trajectory is None and number < played:
            yield f"trial {number} is an error and others follow"
        if (allowed or not unit) and number > allowed:
            yield f"it holds {played} trials of {allowed}"
            return
        if isinstance(record, UnitRecord):
            yield from _find_trial_faults(result, record.budget)
            if result.trajectory and result.trajectory.variant != record.variant:
                yield f"trial {number} was played on {result.trajectory.variant.key}"
        else:
            yield from _find_trial_faults(result, record.budgets[number - 1])
            if result.trajectory and result.trajectory.variant.task != record.task:
                yield f"trial {number} was played on {result.trajectory.variant.key}"
    if not finished and record.has_errors:
        yield "it is begun and ends in an error"
    if finished and not record.has_errors and played < allowed and not (unit and record.trajectories[-1].solved):
        yield f"it holds {played} trials of {allowed} and is not solved"


def _find_trial_faults(result: TrialResult, budget: int) -> Iterator[str]:
    where = f"trial {result.trial}"
    trajectory = result.trajectory
    if (trajectory is None) != (result.error is not None):
        yield f"{where} has {'no' if trajectory is None else 'a'} trajectory and {'an' if result.error else 'no'} error"
    counts = [*result.failures.values(), result.replayed]
    counts += [told[name] for told in result.learnt.values() for name in COUNTS if name in told]
    if not all(_is_count(count) for count in counts):
        yield f"{where} counts what cannot be counted so"
    if any(map(_is_miscounted, result.usage.values())):
        yield f"{where} cost what nothing can cost"
    if trajectory is not None:
        if trajectory.trial != result.trial:
            yield f"{where} holds trial {trajectory.trial}"
        yield from (f"{where}{fault}" for fault in _find_trajectory_faults(trajectory, budget))


def _find_trajectory_faults(trajectory: Trajectory, budget: int) -> Iterator[str]:
    steps, score = trajectory.steps, trajectory.points_at_reset
    if not 0 < len(steps) <= budget:
        yield f" has {len(steps)} steps of {budget}"
    if not -SOLVED_SCORE <= score <= SOLVED_SCORE:
        yield f" begins with {score} points"
    for number, step in enumerate(steps, start=1):
        stalled = number == len(steps) and trajectory.outcome == "stalled"  # nobody saw what that step came to
        yield from (
            f", step {number}{fault}" for fault in _find_step_faults(step, None if stalled else step.score - score)
        )
        score = step.score
        if trajectory.solved and score >= SOLVED_SCORE and number < len(steps):
            yield f" goes on after step {number} solved it"
    if trajectory.outcome == "error" or trajectory.solved != (trajectory.outcome == "solved"):
        yield f" ends as {trajectory.outcome} with {trajectory.environment_score} points"


def _find_step_faults(step: Step, change: int | None) -> Iterator[str]:
    if not -SOLVED_SCORE <= step.score <= SOLVED_SCORE:
        yield f" has score {step.score}"
    if change is not None and step.reward != change:
        yield f" has reward {step.reward} for a change of {change}"
    if step.malformed and (step.understood or step.action or step.reward):
        yield " had no action and an effect"


def _is_miscounted(usage: Usage) -> bool:
    return any(isinstance(each, int | float) and not 0 <= each <= MOST for each in astuple(usage))


def _is_count(count: Any) -> bool:
    return type(count) is int and 0 <= count <= MOST
