"""Learning of an arm from trial to trial: when its units were solved, and with how many reflections and skills."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rsso_dspy.records import TrialResult, UnitRecord
from rsso_dspy.report.metrics import count_max_trials, select_scored_units

LEVELS = (50, 75)
"""Percentages of variants."""

REFLECTIONS, SKILLS, CONSTITUTION = "plans_from_past_attempts", "skills", "constitution"
"""Regions of the memories, by which records name what was learned and shown."""


@dataclass(frozen=True, slots=True)
class ReflectionBin:
    """Trials that began with the same number of reflections in memory."""

    reflections: int
    trials: int
    solved: int


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Learning of one arm over its scored units."""

    arm: str
    units: int
    newly_solved: tuple[int, ...]
    """Number of variants solved for the first time in trial 1, 2, ..."""
    trials_to: dict[int, int | None]
    """Percentage to the number of trials after which that share of variants was solved; None if it never was."""
    held: tuple[ReflectionBin, ...]
    """Trials by number of reflections held, of units that began with none. Variants that fail more often hold more
    reflections, so this is not the effect of a reflection."""


def compute_learning_curve(arm: str, records: Sequence[UnitRecord]) -> LearningCurve:
    """Analyze the learning of one arm."""
    scored = select_scored_units(records)
    newly = [0] * count_max_trials(scored)
    by_held: dict[int, list[bool]] = defaultdict(list)
    for record in scored:
        solved = [trajectory.solved for trajectory in record.trajectories]
        if True in solved:
            newly[solved.index(True)] += 1
        if (held := list_held_reflections(record)) is not None:
            for count, success in zip(held, solved, strict=True):
                by_held[count].append(success)
    return LearningCurve(
        arm,
        len(scored),
        tuple(newly),
        {level: _count_trials_to_solve(newly, len(scored) * level / 100) for level in LEVELS},
        tuple(ReflectionBin(count, len(by_held[count]), sum(by_held[count])) for count in sorted(by_held)),
    )


def list_held_reflections(record: UnitRecord) -> list[int] | None:
    """Return the number of reflections held at the start of each trial; None if the unit began with reflections that
    were learned elsewhere."""
    return (
        _list_held_counts(record.trials, REFLECTIONS, "held") if is_memory_empty_at_start(record, REFLECTIONS) else None
    )


def list_held_skills(record: UnitRecord) -> list[int] | None:
    """Return the number of skills in the library at the start of each trial; None if the unit began with a library."""
    return _list_held_counts(record.trials, SKILLS, "library") if is_memory_empty_at_start(record, SKILLS) else None


def is_memory_empty_at_start(record: UnitRecord, memory: str) -> bool:
    """Return whether the memory was empty when the unit began."""
    return not (record.start and is_memory_shown(record.trials[0], memory))


def list_shown_skills(trial: TrialResult) -> set[str]:
    """Return the ids of the skills in the trial's prompts. Steps note the entries of other memories too, whose texts
    stand in other regions."""
    named = (key.partition(":") for key in trial.shown)
    others = {name for region, _, names in named if region != SKILLS for name in names.split(",")}
    steps = trial.trajectory.steps if trial.trajectory else ()
    return {name for step in steps for name in step.recalled} - others


def is_memory_shown(trial: TrialResult, memory: str) -> bool:
    """Return whether the trial's prompts showed anything of the memory."""
    return any(region.partition(":")[0].partition("@")[0] == memory for region in trial.shown)


def _list_held_counts(trials: Sequence[TrialResult], memory: str, count: str) -> list[int]:
    found = [0]
    for result in trials[:-1]:
        found.append(int(result.learnt.get(memory, {}).get(count, found[-1])))
    return found[: len(trials)]


def _count_trials_to_solve(newly: Sequence[int], wanted: float) -> int | None:
    solved = 0
    for number, more in enumerate(newly, start=1):
        solved += more
        if solved >= wanted:
            return number
    return None
