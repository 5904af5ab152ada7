"""Interaction figure: the 2x2 of skills and reflections within one scaffold.

draw_interaction_figure(arms, squares(arms)["zero-shot"])
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.comparison import FACTORIAL_METHODS, compute_factorial, count_common_trials
from rsso_dspy.report.figures.canvas import (
    finish_figure,
    get_width,
    is_column,
    make_legend_entry,
    make_legend_line,
    mark_axis_start,
    open_axes,
    widen_points_axis,
)
from rsso_dspy.report.figures.labels import LINE, SIZE, separate_values
from rsso_dspy.report.figures.score_estimates import (
    MeanEstimate,
    UnitsByArm,
    describe_bars,
    estimate_mean,
    format_difference,
    list_figure_notes,
    score_units,
)
from rsso_dspy.report.figures.style import INK, assign_arm_styles, clean_name
from rsso_dspy.report.metrics import select_scored_units
from rsso_dspy.report.statistical_tests import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = (("without skills", (0, (4, 2)), (0, 1)), ("with skills", "-", (2, 3)))
"""A line, how it is drawn, and its corners in the order of `SQUARE`: without and with reflections."""

APART = 0.02


def draw_interaction_figure(arms: UnitsByArm, corners: UnitsByArm) -> "Figure":
    """Draw the means of the four corners with their intervals over common units; parallel lines mean no interaction.

    One line without and one with skills, from without to with reflections. `corners` are the methods of `SQUARE`;
    `arms` are all arms of the run, which determine the colours. Raises `UsageError` if they share no unit.
    """
    means = _estimate_corners(corners)
    look = assign_arm_styles(arms)
    arm_of = [corners[method][0].arm for method in FACTORIAL_METHODS]
    with open_axes(min(6.4, get_width()), 3.6) as (figure, axes):
        for side, (_, dashes, places) in zip((-APART, APART), LINES, strict=True):
            at = [side, 1 + side]
            axes.plot(at, [means[place].mean for place in places], color=INK, linestyle=dashes, linewidth=1.3)
            for x, place in zip(at, places, strict=True):
                style, found = look.get(arm_of[place]), means[place]
                colour, marker = (style.colour, style.marker) if style else (INK, "o")
                axes.plot([x, x], [found.low, found.high], color=colour, linewidth=1)
                axes.plot(x, found.mean, marker, color=colour, markersize=7)
        widen_points_axis(axes)
        names = [look[arm].name if arm in look else arm for arm in arm_of]
        _label_corners(axes, means, [""] * len(names) if is_column() else names)
        room = 0.5 if is_column() else 0.9
        axes.set_xlim(-room, 1 + room)
        axes.set_xticks([0, 1], ["without reflections", "with reflections"])
        axes.set_ylabel("Mean, points of 100")
        axes.grid(axis="y")
        entries = [(make_legend_line(INK, linestyle=dashes), name) for name, dashes, _ in LINES]
        if is_column():  # beside the corners, names would leave the axes no room
            entries += [make_legend_entry(look[arm]) for arm in arm_of if arm in look]
        starts = mark_axis_start(axes)
        notes = [_describe_interaction(corners), *starts, *describe_bars(means)]
        notes += list_figure_notes(corners, paired=True)
        return finish_figure(figure, notes, entries)


def describe_interaction_figure(corners: UnitsByArm) -> str:
    """Describe the figure in words."""
    means = _estimate_corners(corners)
    listed = ", ".join(
        f"{clean_name(corners[method][0].arm)} {found.as_text}"
        for method, found in zip(FACTORIAL_METHODS, means, strict=True)
    )
    return (
        "Interaction plot: Mean without and with reflections, one line without skills, one with skills. "
        f"{listed}, over {means[0].units} units. {_describe_interaction(corners)}"
    )


def _estimate_corners(corners: UnitsByArm) -> list[MeanEstimate]:
    kept = [select_scored_units(corners[method]) for method in FACTORIAL_METHODS]
    trials = count_common_trials(*kept)
    found = [score_units(records, trials) for records in kept]
    shared = set.intersection(*(set(each) for each in found))
    if not shared:
        raise UsageError("the four arms share no finished unit, so there is nothing to draw")
    return [estimate_mean({key: each[key] for key in sorted(shared)}) for each in found]


def _describe_interaction(corners: UnitsByArm) -> str:
    found = compute_factorial(corners)
    assert found is not None, "four arms that share a unit are a square"
    between = found.interaction
    bounds = (
        f"{LEVEL:.0%} interval {format_difference(between.low)} to {format_difference(between.high)}"
        if between
        else "no interval"
    )
    return f"Interaction {format_difference(found.difference)} points ({bounds}): {found.reading}."


def _label_corners(axes: "Axes", means: Sequence[MeanEstimate], names: Sequence[str]) -> None:
    """Names and means left of what is without reflections, right of what is with them."""
    low, high = axes.get_ylim()
    aside = 0.14 if is_column() else 0.08
    gap = LINE / 2.9 * (high - low)
    for places, x, across in (((0, 2), -aside, "right"), ((1, 3), 1 + aside, "left")):
        heights = separate_values([means[place].mean for place in places], gap, low, high)
        for place, height in zip(places, heights, strict=True):
            said = f"{names[place]} {means[place].mean:.1f}".strip()
            axes.text(x, height, said, ha=across, va="center", fontsize=SIZE)
    axes.set_ylim(low, high)
