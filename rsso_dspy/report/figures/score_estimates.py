"""Numbers for figures. Scores are best accumulators in points of 100; errored units have none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rsso_dspy.errors import UsageError
from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.figures.style import shorten_name
from rsso_dspy.report.metrics import (
    UNEVEN,
    UnitKey,
    get_best_accumulator,
    get_unit_key,
    have_same_units,
    map_allowed_trials,
    select_scored_units,
)
from rsso_dspy.report.statistical_tests import BootstrapInterval, bootstrap_scores

UnitsByArm = Mapping[str, Sequence[UnitRecord]]
"""Arm to its units, in the order of arms."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over units."""

    mean: float
    interval: BootstrapInterval | None
    """Its 95% interval, drawn like that of a difference; None for a unit, and for a few that are all alike."""
    units: int

    @property
    def low(self) -> float:
        return self.interval.low if self.interval else self.mean

    @property
    def high(self) -> float:
        return self.interval.high if self.interval else self.mean

    @property
    def as_text(self) -> str:
        return f"{self.mean:.1f}" + (f" ({self.low:.1f} to {self.high:.1f})" if self.interval else "")


def describe_bars(means: Iterable[MeanEstimate]) -> list[str]:
    """Say what the bars of these means are; nothing where there are none."""
    drawn = {each.interval.over for each in means if each.interval}
    if not drawn:
        return []
    over = "task types" if drawn == {"task types"} else "units of the only task type"
    return [f"Bars: 95% intervals of each mean by itself, over {over}. Differences have intervals of their own."]


def select_scored_arms(arms: UnitsByArm) -> dict[str, list[UnitRecord]]:
    """Return the arms with scored units, and these units."""
    return {arm: kept for arm, records in arms.items() if (kept := select_scored_units(records))}


def require_scored_arms(arms: UnitsByArm) -> dict[str, list[UnitRecord]]:
    """Return what `select_scored_arms` returns. Raises `UsageError` if no unit has a score."""
    if kept := select_scored_arms(arms):
        return kept
    raise UsageError("no unit has a score, so there is nothing to draw")


def score_units(records: Sequence[UnitRecord], trials: int | None = None) -> dict[UnitKey, float]:
    """Return each unit's best accumulator, over the first `trials` if given."""
    return {get_unit_key(record): get_best_accumulator(record, trials) for record in select_scored_units(records)}


def estimate_mean(values: Mapping[UnitKey, float]) -> MeanEstimate:
    """Estimate the mean of at least one unit, and its interval over task types."""
    interval = bootstrap_scores((task, value) for (task, _, _), value in values.items())
    return MeanEstimate(fmean(values.values()), interval, len(values))


def estimate_best_of_t(records: Sequence[UnitRecord], trials: int) -> list[MeanEstimate]:
    """After 1, 2, ... trials, up to `trials`: the mean best so far. A unit that stopped early keeps its best."""
    return [estimate_mean(score_units(records, trial)) for trial in range(1, trials + 1)]


def list_figure_notes(arms: UnitsByArm, best: bool = False, paired: bool = False, origin: bool = True) -> list[str]:
    """What has to be said beside a picture of these arms; `best` where it shows the best of all trials, `paired` where
    it shows only units that all of them finished, `origin` where the words beside it do not name who answered."""
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
    if origin and any(record.rule_based for records in arms.values() for record in records):
        found.append(RULE_BASED_NOTE)
    return found


def format_difference(value: float) -> str:
    """A difference in points."""
    text = f"{value:+.1f}".replace("-", "−")
    return text if text.strip("+−0.") else "0.0"


def format_count(number: int, what: str) -> str:
    """Format a count with its noun: 1 unit, 2 units."""
    return f"{number} {what}{'' if number == 1 else 's'}"
