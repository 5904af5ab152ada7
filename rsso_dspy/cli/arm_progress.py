"""A row per arm of a run that plays: what is finished, what is under way, and what it took."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.config import make_price_lookup
from rsso_dspy.records import TrainingRecord, TrialResult, UnitRecord
from rsso_dspy.report.live_table import LiveRow
from rsso_dspy.report.running_totals import RunningTotals, TokenCost, sum_record_cost, sum_usage_cost
from rsso_dspy.store.units import Job, Training, Unit

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run


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
