"""A row per arm of a run that plays: what is finished, what is under way, and what it took."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rsso_dspy.config import make_price_lookup
from rsso_dspy.pricing import format_dollars, format_tokens
from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, TrialResult, UnitRecord
from rsso_dspy.report.cost import TokenCost, sum_record_cost, sum_usage_cost
from rsso_dspy.report.metrics import get_best_accumulator
from rsso_dspy.report.terminal import create_named_table, replace_controls
from rsso_dspy.store.units import Job, Training, Unit

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run


@dataclass(slots=True)
class RunningTotals:
    """Totals of one arm so far. Each unit and training counts once; an errored one moves when it is played again."""

    units: set[str] = field(default_factory=set)
    trainings: set[str] = field(default_factory=set)
    errored: set[str] = field(default_factory=set)
    solved: int = 0
    _best: int = 0

    @property
    def mean(self) -> float | None:
        """Mean best accumulator of the units."""
        return self._best / len(self.units) if self.units else None

    def add_finished(self, record: UnitRecord | TrainingRecord) -> None:
        """Add a unit or training, unless it was counted before."""
        key = f"{record.key}/s{record.seed}"
        if key in self.units or key in self.trainings or (record.has_errors and key in self.errored):
            return
        if record.has_errors:
            self.errored.add(key)
            return
        self.errored.discard(key)
        if isinstance(record, TrainingRecord):
            self.trainings.add(key)
            return
        self.units.add(key)
        self._best += int(get_best_accumulator(record))
        self.solved += any(trial.environment_score >= SOLVED_SCORE for trial in record.trajectories)


@dataclass(frozen=True, slots=True)
class LiveRow:
    """What is shown of an arm."""

    arm: str
    total: int
    """Total number of units."""
    tally: RunningTotals
    spent: TokenCost
    """Total usage, including unfinished units."""
    trials: Sequence[int] = ()
    """Numbers of the current trials."""
    training: bool = False
    """Whether these are trials of trainings."""


def build_live_table(rows: Sequence[LiveRow]) -> Table:
    """Build the table, with a cost column if any cost is known and not 0."""
    priced = any(row.spent.cost for row in rows)
    costs = ["cost"] if priced else []
    table = create_named_table("", "arm", "units", "errors", "Mean", "solved", "trial", "tokens", *costs)
    for row in rows:
        tally = row.tally
        table.add_row(
            Text(replace_controls(row.arm)),  # a folder's name is no markup
            f"{len(tally.units):,}/{row.total:,}",
            f"{len(tally.errored):,}" if tally.errored else "",
            "" if tally.mean is None else f"{tally.mean:.1f}",
            f"{tally.solved:,}" if tally.units else "",
            _format_active_trials(row),
            format_tokens(row.spent.tokens),
            *([format_dollars(row.spent.cost)] if priced else []),
        )
    return table


def _format_active_trials(row: LiveRow) -> str:
    """Format the numbers of current trials; of four or more, only the first and the last."""
    numbers = sorted(set(row.trials))
    said = ",".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]}-{numbers[-1]}"
    return f"train {said}" if row.training and numbers else said


class ArmProgress:
    """Results of the arms of a run so far, including the work in progress."""

    def __init__(self, planned: "Run", work: Sequence[Job], jobs: int):
        self._plan = planned.plan
        self._work = sorted(work, key=lambda each: isinstance(each, Unit))
        self._jobs = jobs
        self._price_of = make_price_lookup(planned.config.prices)
        self._models = planned.models_in_use
        self._trials = dict(planned.played)
        self._finished: set[str] = set()
        self._totals = Counter(unit.arm.name for unit in self._plan.units)
        self.tallies = {arm: RunningTotals() for arm in self._plan.arms}
        self._spent = {arm: TokenCost() for arm in self._plan.arms}
        for record in planned.load_records():
            self._count_record(record)
            self._add_spending(record.arm, sum_record_cost(record, self._price_of))
        for begun in planned.store.load_begun():
            self._add_spending(begun.arm, sum_record_cost(begun, self._price_of))
        for arm, role, usage in (*planned.store.read_abandoned(), *planned.store.read_under_way()):
            self._add_spending(arm, sum_usage_cost({role: usage}, self._models, self._price_of))

    def add_trial(self, work: Job, result: TrialResult) -> None:
        """A trial is finished."""
        self._trials[work.key] = result.trial
        self._add_spending(work.arm.name, sum_usage_cost(result.usage, self._models, self._price_of))

    def add_record(self, work: Job, record: UnitRecord | TrainingRecord) -> None:
        """Count a finished unit or training, whose trials were already counted."""
        self._finished.add(work.key)
        self._count_record(record)

    def build_rows(self) -> list[LiveRow]:
        """Return one row per arm."""
        under_way = self._list_under_way()
        return [
            LiveRow(
                arm,
                self._totals[arm],
                tally,
                self._spent[arm],
                tuple(self._trials.get(each.key, 0) + 1 for each in under_way if each.arm.name == arm),
                any(isinstance(each, Training) for each in under_way),
            )
            for arm, tally in self.tallies.items()
        ]

    def _count_record(self, record: UnitRecord | TrainingRecord) -> None:
        if record.arm in self.tallies:
            self.tallies[record.arm].add_finished(record)

    def _add_spending(self, arm: str, more: TokenCost) -> None:
        if arm in self._spent:
            self._spent[arm] += more

    def _list_under_way(self) -> list[Job]:
        """Return the work in progress.

        Work starts in order, no unit before all trainings, and none before its predecessor in a stream.
        """
        left = [each for each in self._work if each.key not in self._finished and not self._is_waiting(each)]
        first: list[Job] = [each for each in left if not isinstance(each, Unit)]
        return (first or left)[: self._jobs]

    def _is_waiting(self, work: Job) -> bool:
        before = self._plan.get_previous_unit(work) if isinstance(work, Unit) else None
        return before in self._work and before.key not in self._finished if before else False
