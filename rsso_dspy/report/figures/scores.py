"""The numbers that pictures are drawn from. Scores are best accumulators, points of 100; errored units have none."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from rsso_dspy.report.figures.style import shown
from rsso_dspy.report.metrics import UNEVEN, Key, alike, best_accumulator, finished, longest, plays, unit_key
from rsso_dspy.trajectory import RULE_BASED_NOTE, UnitRecord

Arms = Mapping[str, Sequence[UnitRecord]]
"""Arm to its units, in the order of arms."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over units."""

    mean: float
    error: float | None
    """Its standard error over variants, seeds of one averaged; None below two variants."""
    units: int

    @property
    def low(self) -> float:
        return self.mean - (self.error or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.error or 0.0)

    @property
    def words(self) -> str:
        return f"{self.mean:.1f}" + (f" ± {self.error:.1f}" if self.error is not None else "")


def scored(arms: Arms) -> dict[str, list[UnitRecord]]:
    """Arms that have a unit with a score, and those units."""
    return {arm: kept for arm, records in arms.items() if (kept := finished(records))}


def scores(records: Sequence[UnitRecord], trials: int | None = None) -> dict[Key, float]:
    """Unit to its best accumulator, of the first so many trials when `trials` is given."""
    return {unit_key(record): best_accumulator(record, trials) for record in finished(records)}


def estimate(values: Mapping[Key, float]) -> Estimate:
    """Mean and standard error of at least one unit."""
    variants: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (task, index, _), value in values.items():
        variants[task, index].append(value)
    means = [fmean(each) for each in variants.values()]
    error = stdev(means) / sqrt(len(means)) if len(means) > 1 else None
    return Estimate(fmean(values.values()), error, len(values))


def best_of_t(records: Sequence[UnitRecord], trials: int | None = None) -> list[Estimate]:
    """After 1, 2, ... trials, up to `trials` or the most that one of these finished units played: the mean best so far.
    A unit that stopped early keeps its best."""
    last = longest(records) if trials is None else trials
    return [estimate(scores(records, trial)) for trial in range(1, last + 1)]


def notes(arms: Arms, best: bool = False, paired: bool = False) -> list[str]:
    """What has to be said beside a picture of these arms; `best` where it shows the best of all trials, `paired` where
    it shows only units that all of them finished."""
    found = []
    errored = sum(record.errored for records in arms.values() for record in records)
    if errored:
        found.append(f"{errored} errored {'units are' if errored > 1 else 'unit is'} left out: an error is no score.")
    if not paired and not alike(arms.values()):
        found.append(UNEVEN)
    allowed = plays(scored(arms))
    if best and len(set(allowed.values())) > 1:
        many = max(allowed.values())
        fewer = ", ".join(f"{shown(arm)} {count}" for arm, count in allowed.items() if count < many)
        found.append(f"The best of {many} trials, but of fewer, and so lower by itself, for: {fewer}.")
    return found


def origin(arms: Arms) -> list[str]:
    """What has to be said of who answered."""
    if any(record.rule_based for records in arms.values() for record in records):
        return [RULE_BASED_NOTE]
    return []


def signed(value: float) -> str:
    """A difference in points."""
    text = f"{value:+.1f}".replace("-", "−")
    return text if text.strip("+−0.") else "0.0"


def counted(number: int, what: str) -> str:
    """In words: 1 unit, 2 units."""
    return f"{number} {what}{'' if number == 1 else 's'}"
