"""Two tests of memories in a stream: forgetting, by the scores of a return to the first task types, and repair, by the
scores before, during and after wrong rewards.

for test in measure_streams(group_by_arm(records)):
    print(test.arm, test.name, test.means, test.changes[0].interval)

Arms outside a stream are measured on the same variants: what changes there is the variants' difficulty. The difference
of an arm's change to that of its equal retries leaves this difficulty out.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rsso_dspy.programs.methods import find_retry_control
from rsso_dspy.records import (
    AFTER,
    BEFORE,
    CORRECTED,
    DURING,
    FIRST_VISIT,
    RETURN,
    TAKEN_BACK,
    TOLD_WRONG,
    UnitRecord,
)
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


Changes = Mapping[str, Sequence[float | None]]
"""Task type to the change of each pair of its variants, by place; None where a score is missing."""


@dataclass(frozen=True, slots=True)
class MeanChange:
    """A mean over pairs of variants."""

    pairs: int
    difference: float | None
    interval: BootstrapInterval | None


@dataclass(frozen=True, slots=True)
class PhaseChange(MeanChange):
    """Score of a later phase minus score of the first, over pairs of variants of a task type: the first variants that
    both phases played, the second ones, and so on."""

    phase: str
    beside_retries: MeanChange | None = None
    """The arm's change minus that of its equal retries, pair by pair; None where these were not played."""


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
    taken_back: int | None = None
    """Items that memories dropped with these corrections; None for memories that cannot tell them from others."""
    control: str | None = None
    """The arm of its equal retries, where it was played."""


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
    placed = {
        arm: _place_scores(units, shared if agree else own[arm], PHASES[name], trials) for arm, units in arms.items()
    }
    return [_measure_arm(arm, name, units, placed, _find_control(units, arms)) for arm, units in arms.items()]


def _place_scores(
    records: Sequence[UnitRecord], phases: Mapping[UnitKey, str], compared: Sequence[str], trials: int
) -> dict[str, dict[str, list[float | None]]]:
    """Return the scores of an arm by phase and task type, in the order of variants; None for one that is missing."""
    played = {get_unit_key(record): get_best_accumulator(record, trials) for record in select_scored_units(records)}
    placed: dict[str, dict[str, list[float | None]]] = {phase: defaultdict(list) for phase in compared}
    for key, phase in sorted(phases.items()):
        if phase in placed:
            placed[phase][key[0]].append(played.get(key))
    return placed


def _find_control(records: Sequence[UnitRecord], arms: Mapping[str, Sequence[UnitRecord]]) -> str | None:
    """Return the one arm that has the equal retries of this arm, of the same program."""
    wanted = {(find_retry_control(record.method), record.program) for record in records}
    found = [name for name, units in arms.items() if {(unit.method, unit.program) for unit in units} == wanted]
    return found[0] if len(found) == 1 else None


def _measure_arm(
    arm: str,
    name: TestName,
    records: Sequence[UnitRecord],
    placed: Mapping[str, Mapping[str, Mapping[str, Sequence[float | None]]]],
    control: str | None,
) -> StreamTest:
    mine = placed[arm]
    scores = {phase: [x for each in by_task.values() for x in each if x is not None] for phase, by_task in mine.items()}
    learnt = [counts for unit in records for trial in unit.trials for counts in trial.learnt.values()]
    taken = [counts[TAKEN_BACK] for counts in learnt if TAKEN_BACK in counts]
    first, *later = PHASES[name]
    changes = []
    for phase in later:
        change = _subtract(mine[first], mine[phase])
        theirs = placed.get(control or "")
        beside = _average(_subtract(_subtract(theirs[first], theirs[phase]), change)) if theirs else None
        mean = _average(change)
        changes.append(PhaseChange(mean.pairs, mean.difference, mean.interval, phase, beside))
    return StreamTest(
        arm,
        name,
        any(record.stream_phase for record in records),
        {phase: len(each) for phase, each in scores.items()},
        {phase: fmean(each) if each else None for phase, each in scores.items()},
        tuple(changes),
        sum(counts.get(TOLD_WRONG, 0) for counts in learnt),
        sum(counts.get(CORRECTED, 0) for counts in learnt),
        sum(taken) if taken else None,
        control,
    )


def _subtract(first: Changes, later: Changes) -> Changes:
    """Return the later values minus the first by place; a place where one of them is missing stays, and moves no
    other."""
    return {
        task: [
            None if old is None or new is None else new - old
            for old, new in zip(first[task], later[task], strict=False)
        ]
        for task in sorted(first.keys() & later.keys())
    }


def _average(changes: Changes) -> MeanChange:
    known = {task: [value for value in values if value is not None] for task, values in changes.items()}
    values = [value for each in known.values() for value in each]
    return MeanChange(len(values), fmean(values) if values else None, bootstrap_mean(known))
