"""Two tests of memories in a stream: forgetting, by the scores of a return to the first task types, and repair, by the
scores before, during and after wrong rewards.

for test in measure_streams(group_by_arm(records)):
    print(test.arm, test.name, test.means, test.changes[0].interval)

Arms outside a stream are measured on the same variants: what changes there is the variants' difficulty.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rsso_dspy.records import AFTER, BEFORE, CORRECTED, DURING, FIRST_VISIT, RETURN, TOLD_WRONG, UnitRecord
from rsso_dspy.report.metrics import (
    UnitKey,
    get_best_accumulator,
    get_unit_key,
    map_allowed_trials,
    select_scored_units,
)
from rsso_dspy.report.statistical_tests import BootstrapInterval, bootstrap_mean

TestName = Literal["forgetting", "repair"]

PHASES: Mapping[TestName, tuple[str, ...]] = {"forgetting": (FIRST_VISIT, RETURN), "repair": (BEFORE, DURING, AFTER)}
"""Phases that are compared, each with the first."""


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """Score of a later phase minus score of the first, over pairs of variants of a task type: the first variants that
    both phases played, the second ones, and so on."""

    phase: str
    pairs: int
    difference: float | None
    interval: BootstrapInterval | None


@dataclass(frozen=True, slots=True)
class StreamTest:
    """One arm in one test."""

    arm: str
    name: TestName
    in_stream: bool
    """Whether a memory goes from variant to variant; an arm without one is a control."""
    units: Mapping[str, int]
    """Phase to its scored units."""
    means: Mapping[str, float | None]
    """Phase to its mean best accumulator, over as many trials as all arms may play."""
    changes: tuple[PhaseChange, ...]
    told_wrong: int = 0
    """Trials that memories were told with a wrong reward."""
    corrected: int = 0
    """Trials of those that memories were told again, with the true reward."""


def measure_streams(arms: Mapping[str, Sequence[UnitRecord]]) -> list[StreamTest]:
    """Measure every arm in the test that the run's streams are; nothing for streams without phases. Where streams of
    several arms have other phases, as shards of other lengths have, arms outside a stream are no control and get no
    means."""
    own = {
        arm: {get_unit_key(unit): unit.stream_phase for unit in units if unit.stream_phase}
        for arm, units in arms.items()
    }
    shared: dict[UnitKey, str] = {}
    agree = all(shared.setdefault(key, phase) == phase for phases in own.values() for key, phase in phases.items())
    if not shared:
        return []
    name: TestName = "repair" if {BEFORE, DURING, AFTER} & set(shared.values()) else "forgetting"
    trials = min(map_allowed_trials(arms).values(), default=1)
    return [_measure_arm(arm, name, units, shared if agree else own[arm], trials) for arm, units in arms.items()]


def _measure_arm(
    arm: str, name: TestName, records: Sequence[UnitRecord], phases: Mapping[UnitKey, str], trials: int
) -> StreamTest:
    played = {get_unit_key(record): get_best_accumulator(record, trials) for record in select_scored_units(records)}
    placed: dict[str, dict[str, list[float | None]]] = {phase: defaultdict(list) for phase in PHASES[name]}
    for key, phase in sorted(phases.items()):
        if phase in placed:
            placed[phase][key[0]].append(played.get(key))
    scores = {
        phase: [x for each in by_task.values() for x in each if x is not None] for phase, by_task in placed.items()
    }
    learnt = [counts for unit in records for trial in unit.trials for counts in trial.learnt.values()]
    first, *later = PHASES[name]
    return StreamTest(
        arm,
        name,
        any(record.stream_phase for record in records),
        {phase: len(each) for phase, each in scores.items()},
        {phase: fmean(each) if each else None for phase, each in scores.items()},
        tuple(_compare_phases(phase, placed[first], placed[phase]) for phase in later),
        sum(counts.get(TOLD_WRONG, 0) for counts in learnt),
        sum(counts.get(CORRECTED, 0) for counts in learnt),
    )


def _compare_phases(
    phase: str, first: Mapping[str, list[float | None]], later: Mapping[str, list[float | None]]
) -> PhaseChange:
    """Pair variants by their places in the phases; a place where one of them has no score is left out, and moves no
    other."""
    paired = {
        task: [
            new - old for old, new in zip(first[task], later[task], strict=False) if old is not None and new is not None
        ]
        for task in sorted(first.keys() & later.keys())
    }
    differences = [value for values in paired.values() for value in values]
    return PhaseChange(phase, len(differences), fmean(differences) if differences else None, bootstrap_mean(paired))
