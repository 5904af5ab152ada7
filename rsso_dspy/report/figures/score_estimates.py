"""Numbers for figures. Scores are best accumulators in points of 100; errored units have none."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.figures.style import shorten_name
from rsso_dspy.report.metrics import (
    UNEVEN,
    UnitKey,
    count_max_trials,
    get_best_accumulator,
    get_unit_key,
    have_same_units,
    map_allowed_trials,
    select_scored_units,
)

UnitsByArm = Mapping[str, Sequence[UnitRecord]]
"""Arm to its units, in the order of arms."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over units."""

    mean: float
    error: float | None
    """Standard error over variants, averaged over seeds; None below two variants."""
    units: int

    @property
    def low(self) -> float:
        return self.mean - (self.error or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.error or 0.0)

    @property
    def as_text(self) -> str:
        return f"{self.mean:.1f}" + (f" ± {self.error:.1f}" if self.error is not None else "")


def select_scored_arms(arms: UnitsByArm) -> dict[str, list[UnitRecord]]:
    """Return the arms with scored units, and these units."""
    return {arm: kept for arm, records in arms.items() if (kept := select_scored_units(records))}


def score_units(records: Sequence[UnitRecord], trials: int | None = None) -> dict[UnitKey, float]:
    """Return each unit's best accumulator, over the first `trials` if given."""
    return {get_unit_key(record): get_best_accumulator(record, trials) for record in select_scored_units(records)}


def estimate_mean(values: Mapping[UnitKey, float]) -> MeanEstimate:
    """Estimate mean and standard error of at least one unit."""
    variants: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (task, index, _), value in values.items():
        variants[task, index].append(value)
    means = [fmean(each) for each in variants.values()]
    error = stdev(means) / sqrt(len(means)) if len(means) > 1 else None
    return MeanEstimate(fmean(values.values()), error, len(values))


def estimate_best_of_t(records: Sequence[UnitRecord], trials: int | None = None) -> list[MeanEstimate]:
    """After 1, 2, ... trials, up to `trials` or the most that one of these finished units played: the mean best so far.
    A unit that stopped early keeps its best."""
    last = count_max_trials(records) if trials is None else trials
    return [estimate_mean(score_units(records, trial)) for trial in range(1, last + 1)]


def list_figure_notes(arms: UnitsByArm, best: bool = False, paired: bool = False) -> list[str]:
    """What has to be said beside a picture of these arms; `best` where it shows the best of all trials, `paired` where
    it shows only units that all of them finished."""
    found = []
    errored = sum(record.has_errors for records in arms.values() for record in records)
    if errored:
        found.append(f"{errored} errored {'units are' if errored > 1 else 'unit is'} left out: an error is no score.")
    if not paired and not have_same_units(arms.values()):
        found.append(UNEVEN)
    allowed = map_allowed_trials(select_scored_arms(arms))
    if best and len(set(allowed.values())) > 1:
        many = max(allowed.values())
        fewer = ", ".join(f"{shorten_name(arm)} {count}" for arm, count in allowed.items() if count < many)
        found.append(f"The best of {many} trials, but of fewer, and so lower by itself, for: {fewer}.")
    return found


def list_origin_notes(arms: UnitsByArm) -> list[str]:
    """Return notes on the models that answered."""
    if any(record.rule_based for records in arms.values() for record in records):
        return [RULE_BASED_NOTE]
    return []


def format_difference(value: float) -> str:
    """A difference in points."""
    text = f"{value:+.1f}".replace("-", "−")
    return text if text.strip("+−0.") else "0.0"


def format_count(number: int, what: str) -> str:
    """Format a count with its noun: 1 unit, 2 units."""
    return f"{number} {what}{'' if number == 1 else 's'}"
