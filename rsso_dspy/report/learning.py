"""How an arm got better from trial to trial: who was solved when, and with what in memory."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rsso_dspy.trajectory import TrialResult, UnitRecord

LEVELS = (50, 75)
"""Percent of variants."""

REFLECTIONS = "plans_from_past_attempts"


@dataclass(frozen=True, slots=True)
class Held:
    """Trials that began with so many reflections in memory."""

    reflections: int
    trials: int
    solved: int


@dataclass(frozen=True, slots=True)
class Learning:
    """One arm over its units; errored ones are left out."""

    arm: str
    units: int
    newly_solved: tuple[int, ...]
    """Variants solved for the first time in trial 1, 2, ..."""
    trials_to: dict[int, int | None]
    """Percent to the number of trials after which so many variants were solved; None when they never were."""
    held: tuple[Held, ...]
    """Solved trials by number of reflections held, of units that began with none. Those that hold more are the variants
    that failed more often: not to be read as what a reflection does."""


def learning(arm: str, records: Sequence[UnitRecord]) -> Learning:
    """How one arm learnt."""
    scored = [record for record in records if not record.errored]
    longest = max((len(record.trials) for record in scored), default=0)
    newly = [0] * longest
    by_held: dict[int, list[bool]] = defaultdict(list)
    for record in scored:
        solved = [trajectory.solved for trajectory in record.trajectories]
        if True in solved:
            newly[solved.index(True)] += 1
        if not record.start:
            for count, success in zip(reflections_held(record.trials), solved, strict=True):
                by_held[count].append(success)
    return Learning(
        arm,
        len(scored),
        tuple(newly),
        {level: _trials_to(newly, len(scored) * level / 100) for level in LEVELS},
        tuple(Held(count, len(by_held[count]), sum(by_held[count])) for count in sorted(by_held)),
    )


def reflections_held(trials: Sequence[TrialResult]) -> list[int]:
    """Reflections in memory when each trial of a unit that began with none began."""
    return _before(trials, REFLECTIONS, "held")


def skills_held(trials: Sequence[TrialResult]) -> list[int]:
    """Skills in the library when each trial of a unit that began with none began."""
    return _before(trials, "skills", "library")


def _before(trials: Sequence[TrialResult], memory: str, count: str) -> list[int]:
    found = [0]
    for result in trials[:-1]:
        found.append(int(result.learnt.get(memory, {}).get(count, found[-1])))
    return found[: len(trials)]


def _trials_to(newly: Sequence[int], wanted: float) -> int | None:
    solved = 0
    for number, more in enumerate(newly, start=1):
        solved += more
        if solved >= wanted:
            return number
    return None
