"""Running totals of an arm, updated as its units finish; `metrics.py` computes all metrics from the records.

tally = RunningTotals()
tally.add_finished(record)
tally.mean, tally.solved
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rsso_dspy.pricing import PriceOf, compute_cost, sum_amounts
from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, TrialsRecord, UnitRecord, Usage
from rsso_dspy.report.metrics import get_best_accumulator


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Tokens and their cost in US dollars, None if a price or the number of tokens is unknown."""

    input: int = 0
    output: int = 0
    cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def __add__(self, other: "TokenCost") -> "TokenCost":
        return TokenCost(self.input + other.input, self.output + other.output, sum_amounts([self.cost, other.cost]))


def sum_usage_cost(usage: Mapping[str, Usage], models: Mapping[str, str], price_of: PriceOf) -> TokenCost:
    """Return the cost of usage by role. `models` maps role to model."""
    found = TokenCost()
    for role, used in usage.items():
        price = price_of(models.get(role, ""))
        known = price is not None and (price.is_free or not used.unmetered)
        found += TokenCost(used.input, used.output, compute_cost(used, price) if price and known else None)
    return found


def sum_record_cost(record: TrialsRecord, price_of: PriceOf) -> TokenCost:
    """Return the cost of a record's trials."""
    found = TokenCost()
    for trial in record.trials:
        models = {role: record.models.get(role, record.model) for role in trial.usage}
        found += sum_usage_cost(trial.usage, models, price_of)
    return found


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
