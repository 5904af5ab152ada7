"""What an arm came to so far, counted as its units finish; `metrics.py` says the whole of it from all records.

tally = Tally()
tally.add(finished(record, price_of))
tally.mean, tally.solve_share, tally.spent.cost
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rsso_dspy.money import PriceOf, cost, total
from rsso_dspy.report.metrics import best_accumulator
from rsso_dspy.trajectory import SOLVED_SCORE, Record, TrainingRecord, UnitRecord, Usage


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, and US dollars; None when a price, or the number of tokens, is not known."""

    input: int = 0
    output: int = 0
    cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.input + other.input, self.output + other.output, total([self.cost, other.cost]))


def spent(usage: Mapping[str, Usage], models: Mapping[str, str], price_of: PriceOf) -> Spent:
    """What this usage, by role, came to. `models` maps role to model."""
    found = Spent()
    for role, used in usage.items():
        price = price_of(models.get(role, ""))
        known = price is not None and (price.free or not used.unmetered)
        found += Spent(used.input, used.output, cost(used, price) if price and known else None)
    return found


def spent_on(record: Record, price_of: PriceOf) -> Spent:
    """What a record's trials came to; nothing when it was taken over from a run that paid for it."""
    return Spent() if "forked_from" in record.provenance else taken(record, price_of)


def taken(record: Record, price_of: PriceOf) -> Spent:
    """What a record's trials took, whoever paid for them."""
    found = Spent()
    for trial in record.trials:
        models = {role: record.models.get(role, record.model) for role in trial.usage}
        found += spent(trial.usage, models, price_of)
    return found


@dataclass(frozen=True, slots=True)
class Finished:
    """What one unit or training adds to its arm."""

    arm: str
    key: str
    training: bool
    errored: bool
    best: int = 0
    """Best accumulator of its trials; of units alone."""
    trial_1: int = 0
    solved: bool = False
    spent: Spent = Spent()


def finished(record: UnitRecord | TrainingRecord, price_of: PriceOf) -> Finished:
    """What the record adds."""
    key = f"{record.key}/s{record.seed}"
    paid = spent_on(record, price_of)
    if record.errored or isinstance(record, TrainingRecord):
        return Finished(record.arm, key, isinstance(record, TrainingRecord), record.errored, spent=paid)
    trials = record.trajectories
    solved = any(trial.environment_score >= SOLVED_SCORE for trial in trials)
    best = int(best_accumulator(record))
    return Finished(record.arm, key, False, False, best, trials[0].accumulator, solved, paid)


@dataclass(slots=True)
class Tally:
    """One arm so far. Each unit and training counts once; what errored counts as that until it is played again."""

    units: set[str] = field(default_factory=set)
    trainings: set[str] = field(default_factory=set)
    errored: set[str] = field(default_factory=set)
    solved: int = 0
    spent: Spent = Spent()
    """Of what is finished."""
    _best: int = 0
    _trial_1: int = 0

    @property
    def finished(self) -> int:
        """Units and trainings."""
        return len(self.units) + len(self.trainings)

    @property
    def mean(self) -> float | None:
        """Best accumulator over the trials, averaged over units."""
        return self._best / len(self.units) if self.units else None

    @property
    def trial_1(self) -> float | None:
        """Mean accumulator of first trials."""
        return self._trial_1 / len(self.units) if self.units else None

    @property
    def solve_share(self) -> float | None:
        """Share of units that reached environment score 100 on any trial."""
        return self.solved / len(self.units) if self.units else None

    def add(self, new: Finished) -> bool:
        """Count it; False when that was done before."""
        if new.key in self.units or new.key in self.trainings or (new.errored and new.key in self.errored):
            return False
        if new.errored:
            self.errored.add(new.key)
            return True
        self.errored.discard(new.key)
        (self.trainings if new.training else self.units).add(new.key)
        self._best += new.best
        self._trial_1 += new.trial_1
        self.solved += new.solved
        self.spent += new.spent
        return True
