"""Figure of score against cost.

draw_cost_figure(by_arm(records), price_of)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

from rsso_dspy.pricing import PriceOf, format_dollars
from rsso_dspy.report.cost_report import TokenCost, return_no_price, sum_record_cost
from rsso_dspy.report.figures.canvas import (
    add_legend_and_notes,
    freeze_layout,
    get_width,
    make_legend_entry,
    mark_axis_start,
    open_axes,
    widen_points_axis,
)
from rsso_dspy.report.figures.labels import label_points
from rsso_dspy.report.figures.score_estimates import (
    MeanEstimate,
    UnitsByArm,
    describe_bars,
    estimate_mean,
    list_figure_notes,
    require_scored_arms,
    score_units,
    select_scored_arms,
)
from rsso_dspy.report.figures.style import ArmStyle, assign_arm_styles, clean_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6

SPREAD = 10
"""Ratio of largest to smallest cost above which the scale is logarithmic."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Average cost of a unit per arm, over all roles and trials."""

    of: dict[str, float]
    dollars: bool
    """Whether costs are in US dollars; otherwise in tokens (in and out)."""

    @property
    def is_logarithmic(self) -> bool:
        least, most = min(self.of.values()), max(self.of.values())
        return 0 < least * SPREAD < most

    def format_amount(self, amount: float) -> str:
        return format_dollars(amount) if self.dollars else f"{amount:,.0f} tokens"

    def format_ticks(self, amounts: Sequence[float]) -> list[str]:
        """Amounts along an axis, with as many digits each."""
        sign, marks = ("$", ((1.0, ""),)) if self.dollars else ("", ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")))
        if self.is_logarithmic:
            scaled = [
                next(((amount / unit, mark) for unit, mark in marks if amount >= unit), (amount, ""))
                for amount in amounts
            ]
            return [f"{sign}{amount:,.12g}{mark}" for amount, mark in scaled]
        unit, mark = next((each for each in marks if max(amounts) >= each[0]), (1.0, ""))
        digits = max(len(f"{amount / unit:.9g}".partition(".")[2]) for amount in amounts)
        return [f"{sign}{amount / unit:,.{digits}f}{mark}" for amount in amounts]


def draw_cost_figure(arms: UnitsByArm, price_of: PriceOf = return_no_price) -> "Figure":
    """Draw a dot per arm: cost per unit, and Mean with its interval.

    Costs are in US dollars if every model has a price and one is not free, otherwise in tokens. Raises `UsageError` if
    no unit has a score.
    """
    require_scored_arms(arms)
    return _draw_cost_chart(arms, price_of, named=True) or _draw_cost_chart(arms, price_of, named=False)  # type: ignore[return-value]


def describe_cost_figure(arms: UnitsByArm, price_of: PriceOf = return_no_price) -> str:
    """Describe the figure in words."""
    costs = compute_unit_costs(arms, price_of)
    lines = [
        f"{clean_name(arm)}: {costs.format_amount(costs.of[arm])}, Mean {estimate_mean(score_units(records)).as_text}"
        for arm, records in select_scored_arms(arms).items()
    ]
    return f"Scatter chart: what a unit costs, and the Mean in points of 100. {'; '.join(lines)}."


def compute_unit_costs(arms: UnitsByArm, price_of: PriceOf = return_no_price) -> UnitCosts:
    """Return the cost of units with a score."""
    kept = select_scored_arms(arms)
    totals = {
        arm: sum((sum_record_cost(record, price_of) for record in records), TokenCost())
        for arm, records in kept.items()
    }
    priced = {arm: each.cost / len(kept[arm]) for arm, each in totals.items() if each.cost is not None}
    if len(priced) == len(totals) and any(priced.values()):
        return UnitCosts(priced, True)
    return UnitCosts({arm: each.tokens / len(kept[arm]) for arm, each in totals.items()}, False)


def _draw_cost_chart(arms: UnitsByArm, price_of: PriceOf, named: bool) -> "Figure | None":
    """Draw the figure with names beside the dots (None if they do not fit), or with a legend."""
    kept, look, costs = select_scored_arms(arms), assign_arm_styles(arms), compute_unit_costs(arms, price_of)
    means = {arm: estimate_mean(score_units(records)) for arm, records in kept.items()}
    with open_axes(get_width(), HEIGHT) as (figure, axes):
        for arm, found in means.items():
            _draw_mean_dot(axes, costs.of[arm], found, look[arm])
        _set_cost_axis(axes, costs)
        axes.set_ylabel("Mean, points of 100")
        widen_points_axis(axes)
        starts = mark_axis_start(axes) + ([] if costs.is_logarithmic else mark_axis_start(axes, "x"))
        axes.grid()
        add_legend_and_notes(
            figure,
            [*starts, *_list_cost_notes(arms, means.values())],
            () if named else [make_legend_entry(look[arm]) for arm in kept],
        )
        points = [(costs.of[arm], found.mean, look[arm].name) for arm, found in means.items()]
        bars = [(costs.of[arm], found.low, found.high) for arm, found in means.items()]
        if named and not label_points(figure, axes, points, bars):
            return None
        return freeze_layout(figure)


def _draw_mean_dot(axes: "Axes", x: float, found: MeanEstimate, style: ArmStyle) -> None:
    axes.plot([x, x], [found.low, found.high], color=style.colour, linewidth=1, alpha=0.6)
    axes.plot(x, found.mean, style.marker, color=style.colour, markersize=7, markeredgewidth=0)


def _set_cost_axis(axes: "Axes", costs: UnitCosts) -> None:
    from matplotlib.ticker import MaxNLocator

    least, most = min(costs.of.values()), max(costs.of.values())
    if costs.is_logarithmic:
        axes.set_xscale("log")
        low, high = least / 1.5, most * (most / least) ** 0.25
        steps = (1,) if high / low > 1e3 else (1, 2, 5)
        powers = range(floor(log10(low)), floor(log10(high)) + 1)
        places = [float(f"{step}e{power}") for power in powers for step in steps]
    else:
        room = (most - least) or most or 1.0
        low, high = max(0.0, least - 0.25 * room), most + 0.3 * room
        places = [float(f"{place:.9g}") for place in MaxNLocator(6).tick_values(low, high)]
    shown = [place for place in places if low <= place <= high]
    axes.set_xticks(shown, costs.format_ticks(shown))
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
    what = "US dollars per unit, all roles" if costs.dollars else "tokens per unit, sent and answered, all roles"
    axes.set_xlabel(what + (", logarithmic scale" if costs.is_logarithmic else ""))


def _list_cost_notes(arms: UnitsByArm, means: Iterable[MeanEstimate]) -> list[str]:
    kept = select_scored_arms(arms)
    found = describe_bars(means)
    records = [record for units in kept.values() for record in units]
    if any(record.start for record in records):
        found.append("What was learned before the first trial is not in the costs.")
    if any(usage.unmetered for record in records for trial in record.trials for usage in trial.usage.values()):
        found.append("A server did not tell all tokens: what is shown is the least they were.")
    return [*found, *list_figure_notes(arms, best=True)]
