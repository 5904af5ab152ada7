"""Metrics of one arm (rSSO, section 4). Scores are points of 100; errored units have none and are left out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, TrialsRecord, UnitRecord, Usage, Variant

R = TypeVar("R", bound=TrialsRecord)

UnitKey = tuple[str, int, int]
"""Identity of a unit across arms: task type, variant, seed."""

UNEVEN = "Arms finished different units, which also changes their means: compare them by paired differences only."
"""Note shown with the means of such arms."""


@dataclass(frozen=True, slots=True)
class ArmMetrics:
    """Metrics of one arm. Means are micro (over variants) unless noted; None without units."""

    arm: str
    units: int
    errored: int
    mean: float | None
    """The paper's Mean: best accumulator over the trials, averaged over variants."""
    mean_with_reset: float | None
    """Mean plus the points already held after reset."""
    macro_mean: float | None
    """Mean over task types of their means."""
    environment_score: float | None
    """Best environment score over the trials, averaged over variants; includes the penalty of a wrong final focus."""
    solve: int
    """Number of variants that reached environment score 100 in any trial."""
    acc100: int
    """Number of variants whose best accumulator reached 100."""
    trial_1: float | None
    """Mean accumulator of first trials."""
    mean_over_trials: float | None
    """Mean of unit means: each unit's mean accumulator over the trials that it played, averaged over units."""
    trials_played: int
    stalled: int
    """Number of these trials that stalled; they count with the score they had."""
    best_of_t: tuple[float, ...]
    """Cumulative best accumulator after 1, 2, ... trials; a variant that stopped early keeps its best."""
    invalid_rate: float | None
    """Share of steps that were malformed or not understood."""
    asked_rate: float | None
    """Share of steps answered with a question."""
    idle_rate: float | None
    """Share of steps whose action was understood and changed nothing."""
    steps: int
    calls_per_unit: float | None
    """Model calls of all roles per scored unit (OmniReflect, Figure 3)."""
    tokens: dict[str, Usage]
    """Calls and tokens by role, including those of errored units."""


def compute_arm_metrics(arm: str, records: Sequence[UnitRecord]) -> ArmMetrics:
    """Compute the metrics of one arm's units."""
    scored = select_scored_units(records)
    plays = [record.trajectories for record in scored]
    points = [get_best_accumulator(record) for record in scored]
    environment_scores = [max(trial.environment_score for trial in trials) for trials in plays]
    by_task: dict[str, list[float]] = defaultdict(list)
    for record, score in zip(scored, points, strict=True):
        by_task[record.variant.task].append(score)
    everything = [trajectory for trials in plays for trajectory in trials]
    steps = sum(len(trajectory.steps) for trajectory in everything)
    return ArmMetrics(
        arm=arm,
        units=len(scored),
        errored=len(records) - len(scored),
        mean=_average(points),
        mean_with_reset=_average([max(t.accumulator + t.points_at_reset for t in trials) for trials in plays]),
        macro_mean=_average([fmean(scores) for scores in by_task.values()]),
        environment_score=_average(environment_scores),
        solve=sum(score >= SOLVED_SCORE for score in environment_scores),
        acc100=sum(score >= SOLVED_SCORE for score in points),
        trial_1=_average([trials[0].accumulator for trials in plays]),
        mean_over_trials=_average([fmean(t.accumulator for t in trials) for trials in plays]),
        trials_played=len(everything),
        stalled=sum(record.stalled_trials for record in scored),
        best_of_t=tuple(
            fmean(get_best_accumulator(record, t) for record in scored) for t in range(1, count_max_trials(scored) + 1)
        ),
        invalid_rate=sum(trajectory.invalid_actions for trajectory in everything) / steps if steps else None,
        asked_rate=sum(trajectory.asked_back for trajectory in everything) / steps if steps else None,
        idle_rate=sum(trajectory.no_effect for trajectory in everything) / steps if steps else None,
        steps=steps,
        calls_per_unit=sum(u.calls for u in _sum_usage_by_role(scored).values()) / len(scored) if scored else None,
        tokens=_sum_usage_by_role(records),
    )


@dataclass(frozen=True, slots=True)
class TrainingMetrics:
    """Results and cost of one arm's trainings."""

    arm: str
    tasks: int
    """Trainings, one per task."""
    errored: int
    episodes: int
    """Trials played."""
    stalled: int
    """Number of these trials that stalled."""
    rounds: tuple[float, ...]
    """Mean accumulator of the first, second, ... trials on the training variants."""
    tokens: dict[str, Usage]
    """Calls and tokens by role."""


def compute_training_metrics(trainings: Sequence[TrainingRecord]) -> list[TrainingMetrics]:
    """Compute the metrics of every arm's trainings."""
    return [_compute_arm_training_metrics(arm, records) for arm, records in group_by_arm(trainings).items()]


def _compute_arm_training_metrics(arm: str, records: Sequence[TrainingRecord]) -> TrainingMetrics:
    by_round: dict[int, list[int]] = defaultdict(list)
    for record in records:
        met: Counter[Variant] = Counter()
        for trajectory in record.trajectories:
            met[trajectory.variant] += 1
            by_round[met[trajectory.variant]].append(trajectory.accumulator)
    return TrainingMetrics(
        arm=arm,
        tasks=len(records),
        errored=sum(record.has_errors for record in records),
        episodes=sum(map(len, by_round.values())),
        stalled=sum(record.stalled_trials for record in records),
        rounds=tuple(fmean(by_round[number]) for number in sorted(by_round)),
        tokens=_sum_usage_by_role(records),
    )


def get_best_accumulator(record: UnitRecord, trials: int | None = None) -> float:
    """Return a unit's score: the best accumulator of its trials, or of the first `trials` if given."""
    return max(trajectory.accumulator for trajectory in record.trajectories[:trials])


def get_unit_key(record: UnitRecord) -> UnitKey:
    """Return the identity of the unit across arms."""
    return record.variant.task, record.variant.index, record.seed


def select_scored_units(records: Iterable[UnitRecord]) -> list[UnitRecord]:
    """Return the units with a score, i.e. without an error."""
    return [record for record in records if not record.has_errors]


def count_max_trials(records: Iterable[TrialsRecord]) -> int:
    """Return the maximum number of played trials; 0 without units."""
    return max((len(record.trials) for record in records), default=0)


def count_allowed_trials(records: Iterable[UnitRecord], otherwise: int) -> int:
    """Return the number of trials that units of an arm may play.

    For records without this number: the most that an unsolved unit played, or `otherwise` if all were solved.
    """
    known = []
    for record in select_scored_units(records):
        played = 0 if record.trajectories[-1].solved else len(record.trials)
        known.append(record.trials_allowed or played)
    return max(known, default=0) or otherwise


def map_allowed_trials(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, int]:
    """Return the allowed trials of each arm. An arm of solved records without a number counts as the largest."""
    most = max((count_max_trials(units) for units in arms.values()), default=0)
    return {arm: count_allowed_trials(units, most) for arm, units in arms.items()}


def have_same_units(arms: Iterable[Sequence[UnitRecord]]) -> bool:
    """Return whether all scored arms have scores for the same units; otherwise their means are not comparable."""
    return len({frozenset(map(get_unit_key, kept)) for records in arms if (kept := select_scored_units(records))}) <= 1


def group_by_arm(records: Iterable[R]) -> dict[str, list[R]]:
    """Group records by arm, in order of first appearance."""
    groups: dict[str, list[R]] = defaultdict(list)
    for record in records:
        groups[record.arm].append(record)
    return dict(groups)


def _average(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _sum_usage_by_role(records: Sequence[TrialsRecord]) -> dict[str, Usage]:
    totals: dict[str, Usage] = defaultdict(Usage)
    for record in records:
        for trial in record.trials:
            for role, usage in trial.usage.items():
                totals[role] += usage
    return dict(sorted(totals.items()))
