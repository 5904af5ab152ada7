"""Arms against each other, unit by unit.

draw_slope_figure(arms, ("sso", "rsso"))
draw_forest_figure([compare("sso", arms["sso"], "rsso", arms["rsso"])])
"""

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.report.comparison import Comparison, count_common_trials
from rsso_dspy.report.figures.canvas import (
    finish_figure,
    get_width,
    is_column,
    make_legend_line,
    open_axes,
    widen_points_axis,
    wrap_label,
)
from rsso_dspy.report.figures.score_estimates import (
    UnitsByArm,
    format_count,
    format_difference,
    list_figure_notes,
    score_units,
)
from rsso_dspy.report.figures.style import DOWN, FAINT, INK, UP, assign_arm_styles, clean_name
from rsso_dspy.report.metrics import count_allowed_trials, select_scored_units
from rsso_dspy.report.statistical_tests import LEVEL, NO_INTERVAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ArmPair = tuple[str, str]

WAYS: tuple[tuple[str, str, str], ...] = (("up", UP, "-"), ("down", DOWN, "--"), ("equal", FAINT, ":"))
"""What becomes of a unit from the first arm to the second: its name, colour and line style."""

WIDEST = 4.0
"""Points, of the line of several units that go the same way."""

WIDE = {"page": 34, "column": 24}
"""Letters of two names that stand on one line, by the width of figures."""

ROW = 0.3
"""Inches of a row of the forest, and of every further line in it."""


def draw_slope_figure(arms: UnitsByArm, against: ArmPair) -> "Figure":
    """A line for every unit that both arms finished, from its score in the first to that in the second; the means in
    bold. Scores are the best of as many trials as both may play. Raises `UnknownName` for an arm that is not there,
    `UsageError` when the two share no unit."""
    pairs, trials = _pair_scores(arms, against)
    if not pairs:
        raise UsageError(f"{against[0]} and {against[1]} share no finished unit, so there is nothing to draw")
    look = assign_arm_styles(arms)
    lines, chosen = Counter(pairs), {name: arms[name] for name in against}
    with open_axes(min(4.8, get_width()), 4.0) as (figure, axes):
        for (before, after), count in sorted(lines.items()):
            _, colour, dashes = WAYS[_classify_direction(before, after)]
            width = min(WIDEST, 0.8 * sqrt(count))
            axes.plot([0, 1], [before, after], color=colour, linestyle=dashes, linewidth=width, alpha=0.8)
        means = [fmean(values) for values in zip(*pairs, strict=True)]
        axes.plot([0, 1], means, "o-", color=INK, linewidth=3, markersize=7, zorder=5)
        for x, value, across in ((-0.05, means[0], "right"), (1.05, means[1], "left")):
            axes.text(x, value, f"{value:.1f}", ha=across, va="center", fontweight="bold")
        axes.set_xlim(-0.32, 1.32)
        axes.set_ylim(-4, 104)
        axes.set_xticks([0, 1], [look[arm].name for arm in against])
        axes.set_ylabel("best accumulator, points of 100")
        ways = Counter(_classify_direction(*pair) for pair in pairs)
        entries = [
            (make_legend_line(colour, linestyle=dashes, linewidth=1.6), f"{ways[place]} {name}")
            for place, (name, colour, dashes) in enumerate(WAYS)
        ]
        entries.append((make_legend_line(INK, linewidth=3, marker="o"), "mean"))
        notes = [*_describe_slopes(arms, against, trials, lines), *list_figure_notes(chosen, paired=True)]
        return finish_figure(figure, notes, entries)


def describe_slope_figure(arms: UnitsByArm, against: ArmPair) -> str:
    """The picture in words."""
    pairs, trials = _pair_scores(arms, against)
    ways = Counter(_classify_direction(*pair) for pair in pairs)
    means = [fmean(values) for values in zip(*pairs, strict=True)]
    first, second = map(clean_name, against)
    counts = ", ".join(f"{ways[place]} {name}" for place, (name, _, _) in enumerate(WAYS))
    return (
        f"Slope chart of {format_count(len(pairs), 'unit')} from {first} to {second}, best of "
        f"{format_count(trials, 'trial')}: {counts}. Mean {means[0]:.1f} in {first}, {means[1]:.1f} in {second}."
    )


def draw_forest_figure(comparisons: Sequence[Comparison], notes: Sequence[str] = ()) -> "Figure":
    """A row for every comparison: the mean difference ``second - first`` as a point, with its interval; a line at 0.
    Raises `UsageError` when no two arms share a unit."""
    drawn = [each for each in comparisons if each.difference is not None]
    if not drawn:
        raise UsageError("no two arms share a finished unit, so there is nothing to draw")
    look = assign_arm_styles(dict.fromkeys(name for each in drawn for name in (each.first, each.second)))
    names = [_format_row_label(look[each.second].name, look[each.first].name) for each in drawn]
    if is_column():  # beside the axes, numbers would leave them no room
        names = [f"{name}\n{_describe_row(each)}" for name, each in zip(names, drawn, strict=True)]
    height = ROW * sum(name.count("\n") * 0.5 + 1 for name in names) + 0.75
    with open_axes(get_width(), height) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=0.8)
        places = _draw_forest_rows(axes, drawn, names, beside=not is_column())
        axes.set_yticks(places, names)
        axes.set_ylim(places[-1] + 0.7, places[0] - 0.7)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        about = wrap_label("mean paired difference, points of 100; right of 0 the arm named first did better")
        if is_column():  # it is wider than the axes
            axes.set_xlabel(about, x=1, ha="right")
        else:
            axes.set_xlabel(about)
        axes.margins(x=0.06)
        widen_points_axis(axes, "x")
        axes.grid(axis="x")
        return finish_figure(figure, [*_describe_intervals(drawn), *notes])


def describe_forest_figure(comparisons: Sequence[Comparison]) -> str:
    """The picture in words."""
    lines = [
        f"{clean_name(each.second)} minus {clean_name(each.first)}: {_format_interval(each)}, "
        f"{format_count(each.pairs, 'pair')}"
        for each in comparisons
        if each.difference is not None
    ]
    return f"Forest plot of paired differences in points, with {LEVEL:.0%} intervals. {'; '.join(lines)}."


def has_shared_units(arms: UnitsByArm, against: ArmPair) -> bool:
    """Whether both arms finished some unit."""
    return bool(_pair_scores(arms, against)[0])


def _pair_scores(arms: UnitsByArm, against: ArmPair) -> tuple[list[tuple[float, float]], int]:
    for name in against:
        if name not in arms:
            raise UnknownName("arm", name, arms)
    ours, theirs = (select_scored_units(arms[name]) for name in against)
    trials = count_common_trials(ours, theirs)
    before, after = score_units(ours, trials), score_units(theirs, trials)
    return [(before[key], after[key]) for key in sorted(before.keys() & after.keys())], trials


def _classify_direction(before: float, after: float) -> int:
    return 0 if after > before else 1 if after < before else 2


def _describe_slopes(arms: UnitsByArm, against: ArmPair, trials: int, lines: Counter[tuple[float, float]]) -> list[str]:
    found = []
    if any(count_allowed_trials(select_scored_units(arms[name]), trials) > trials for name in against):
        found.append(f"Best of the first {trials}, as many trials as both may play.")
    if max(lines.values()) > 1:
        found.append("A thicker line stands for several units.")
    return found


def _format_row_label(second: str, first: str) -> str:
    """The name of a row: on two lines when long, or when a name runs from right to left and would draw in the other."""
    turned = any(bidirectional(letter) in ("R", "AL") for letter in first + second)
    return (
        f"{second}\n− {first}"
        if turned or len(first + second) > WIDE["column" if is_column() else "page"]
        else f"{second} − {first}"
    )


def _draw_forest_rows(
    axes: "Axes", drawn: Sequence[Comparison], names: Sequence[str], beside: bool = True
) -> list[float]:
    """Draw the rows from the top, with their numbers `beside` the axes or not; where they stand."""
    places, place = [], 0.0
    for each, name in zip(drawn, names, strict=True):
        half = (1 + 0.5 * name.count("\n")) / 2
        place += half
        places.append(place)
        if each.interval:
            axes.plot([each.interval.low, each.interval.high], [place, place], color=INK, linewidth=1.4)
        filling = INK if each.interval else "none"
        axes.plot([each.difference or 0.0], [place], "o", color=INK, markersize=5, markerfacecolor=filling)
        if beside:
            words = _describe_row(each)
            axes.text(1.02, place, words, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        place += half
    return places


def _describe_row(comparison: Comparison) -> str:
    return f"{_format_interval(comparison)}, n = {comparison.pairs}"


def _format_interval(comparison: Comparison) -> str:
    found = comparison.interval
    between = f" ({format_difference(found.low)} to {format_difference(found.high)})" if found else " (no interval)"
    return format_difference(comparison.difference or 0.0) + between


def _describe_intervals(drawn: Sequence[Comparison]) -> list[str]:
    found = []
    over = {each.interval.over for each in drawn if each.interval}
    if "task types" in over:
        found.append(f"Bars: {LEVEL:.0%} intervals, bootstrapped over task types.")
    if "units" in over:
        found.append(
            f"{'' if len(over) == 1 else 'Of one task type alone: '}{LEVEL:.0%} intervals over units of one task type, "
            "which say nothing about other tasks."
        )
    if any(each.interval is None for each in drawn):
        found.append(f"A ring has no interval: {NO_INTERVAL}.")
    if any(each.trials < max(each.may_play) for each in drawn):
        found.append("Each the best of as many trials as both arms may play.")
    return found
