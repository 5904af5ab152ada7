"""What one arm achieved (rSSO, section 4). Scores are points of 100; an errored unit has none and is left out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from rsso_dspy.trajectory import SOLVED_SCORE, Record, TrainingRecord, Trajectory, UnitRecord, Usage, Variant

R = TypeVar("R", bound=Record)

Key = tuple[str, int, int]
"""What a unit is in every arm: task type, variant, seed."""

UNEVEN = "Arms finished different units, and so their means differ by that too: only paired differences compare them."
"""Stands beside means of such arms."""


@dataclass(frozen=True, slots=True)
class ArmMetrics:
    """One arm over its units. Means are micro (over variants) unless said otherwise; None when there are no units."""

    arm: str
    units: int
    errored: int
    mean: float | None
    """The paper's Mean: best accumulator over the trials, averaged over variants."""
    mean_with_reset: float | None
    """The same with the points already held after reset added."""
    macro_mean: float | None
    """Mean over task types of their means."""
    environment_score: float | None
    """Best environment score over the trials, averaged over variants; a wrong final choice costs here."""
    solve: int
    """Variants that reached environment score 100 on any trial."""
    acc100: int
    """Variants whose best accumulator reached 100."""
    trial_1: float | None
    """Mean accumulator of first trials."""
    mean_over_trials: float | None
    """Mean accumulator over all trials played, per variant, then over variants."""
    trials_played: int
    stalled: int
    """Of these, trials that a step ended which took too long; they count with what they had until then."""
    best_of_t: tuple[float, ...]
    """Cumulative best accumulator after 1, 2, ... trials; a variant that stopped early keeps its best."""
    invalid_rate: float | None
    """Share of steps that were malformed or not understood."""
    asked_rate: float | None
    """Share of steps that the environment answered with a question."""
    idle_rate: float | None
    """Share of steps whose action was understood and did nothing."""
    steps: int
    calls_per_unit: float | None
    """Answers of all roles, per unit that is not errored (OmniReflect, Figure 3)."""
    tokens: dict[str, Usage]
    """Calls and tokens by role; those of errored units were paid for too and are in it."""


def metrics(arm: str, records: Sequence[UnitRecord]) -> ArmMetrics:
    """The metrics of one arm's units."""
    scored = finished(records)
    plays = [record.trajectories for record in scored]
    longest = max(map(len, plays), default=0)
    by_task: dict[str, list[float]] = defaultdict(list)
    for record in scored:
        by_task[record.variant.task].append(best_accumulator(record))
    everything = [trajectory for trials in plays for trajectory in trials]
    steps = sum(len(trajectory.steps) for trajectory in everything)
    return ArmMetrics(
        arm=arm,
        units=len(scored),
        errored=len(records) - len(scored),
        mean=_mean(map(best_accumulator, scored)),
        mean_with_reset=_mean(_best(trials, _with_reset) for trials in plays),
        macro_mean=_mean(fmean(scores) for scores in by_task.values()),
        environment_score=_mean(_best(trials, _environment) for trials in plays),
        solve=sum(_best(trials, _environment) >= SOLVED_SCORE for trials in plays),
        acc100=sum(_best(trials, _accumulator) >= SOLVED_SCORE for trials in plays),
        trial_1=_mean(trials[0].accumulator for trials in plays),
        mean_over_trials=_mean(fmean(map(_accumulator, trials)) for trials in plays),
        trials_played=len(everything),
        stalled=sum(record.stalled for record in scored),
        best_of_t=tuple(fmean(_best(trials[:t], _accumulator) for trials in plays) for t in range(1, longest + 1)),
        invalid_rate=sum(trajectory.invalid for trajectory in everything) / steps if steps else None,
        asked_rate=sum(trajectory.asked_back for trajectory in everything) / steps if steps else None,
        idle_rate=sum(trajectory.no_effect for trajectory in everything) / steps if steps else None,
        steps=steps,
        calls_per_unit=sum(u.calls for u in _tokens(scored).values()) / len(scored) if scored else None,
        tokens=_tokens(records),
    )


@dataclass(frozen=True, slots=True)
class TrainingMetrics:
    """What the trainings of one arm came to, and cost."""

    arm: str
    tasks: int
    """Trainings, one per task."""
    errored: int
    episodes: int
    """Trials played."""
    stalled: int
    """Of these, trials that a step ended which took too long."""
    rounds: tuple[float, ...]
    """Mean accumulator of the first, second, ... trials on the training variants."""
    tokens: dict[str, Usage]
    """Calls and tokens by role."""


def training_metrics(trainings: Sequence[TrainingRecord]) -> list[TrainingMetrics]:
    """The metrics of every arm's trainings."""
    return [_training_metrics(arm, records) for arm, records in by_arm(trainings).items()]


def _training_metrics(arm: str, records: Sequence[TrainingRecord]) -> TrainingMetrics:
    by_round: dict[int, list[int]] = defaultdict(list)
    for record in records:
        met: Counter[Variant] = Counter()
        for trajectory in record.trajectories:
            met[trajectory.variant] += 1
            by_round[met[trajectory.variant]].append(trajectory.accumulator)
    return TrainingMetrics(
        arm=arm,
        tasks=len(records),
        errored=sum(record.errored for record in records),
        episodes=sum(map(len, by_round.values())),
        stalled=sum(record.stalled for record in records),
        rounds=tuple(fmean(by_round[number]) for number in sorted(by_round)),
        tokens=_tokens(records),
    )


def best_accumulator(record: UnitRecord, trials: int | None = None) -> float:
    """A unit's score: the best accumulator of its trials, of the first so many of them when `trials` is given."""
    return _best(record.trajectories[:trials], _accumulator)


def unit_key(record: UnitRecord) -> Key:
    """What the unit is in every arm."""
    return record.variant.task, record.variant.index, record.seed


def finished(records: Iterable[UnitRecord]) -> list[UnitRecord]:
    """Units that have a score: an error is none."""
    return [record for record in records if not record.errored]


def longest(records: Iterable[Record]) -> int:
    """The most trials that one of them played; 0 without any."""
    return max((len(record.trials) for record in records), default=0)


def may_play(records: Iterable[UnitRecord], otherwise: int) -> int:
    """Trials that units of an arm may play. Where their records are too old to say, the most that a unit has played
    which was not solved in its last: a solved one may have had more before it; where all were solved, `otherwise`."""
    told = [record.trials_allowed or _played_out(record) for record in finished(records)]
    return max(told, default=0) or otherwise


def _played_out(record: UnitRecord) -> int:
    """Trials of a unit that ended though it was not solved; 0 of any other."""
    return 0 if record.trajectories[-1].solved else len(record.trials)


def plays(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, int]:
    """Arm to the trials that its units may play. An arm of older records, all solved, may play as many as any."""
    most = max((longest(units) for units in arms.values()), default=0)
    return {arm: may_play(units, most) for arm, units in arms.items()}


def alike(arms: Iterable[Sequence[UnitRecord]]) -> bool:
    """Whether all arms with a score have one for the same units; otherwise their means differ by that too."""
    return len({frozenset(map(unit_key, kept)) for records in arms if (kept := finished(records))}) <= 1


def by_arm(records: Iterable[R]) -> dict[str, list[R]]:
    """Records grouped by arm, arms in the order in which they first appear."""
    groups: dict[str, list[R]] = defaultdict(list)
    for record in records:
        groups[record.arm].append(record)
    return dict(groups)


def _accumulator(trajectory: Trajectory) -> float:
    return trajectory.accumulator


def _with_reset(trajectory: Trajectory) -> float:
    return trajectory.accumulator + trajectory.points_at_reset


def _environment(trajectory: Trajectory) -> float:
    return trajectory.environment_score


def _best(trials: Sequence[Trajectory], score: Callable[[Trajectory], float]) -> float:
    return max(map(score, trials))


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None


def _tokens(records: Sequence[Record]) -> dict[str, Usage]:
    totals: dict[str, Usage] = defaultdict(Usage)
    for record in records:
        for trial in record.trials:
            for role, usage in trial.usage.items():
                totals[role] += usage
    return dict(sorted(totals.items()))
