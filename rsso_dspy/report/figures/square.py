"""Do two memories compose? The 2x2 of skills and reflections within one scaffold.

interaction_figure(arms, squares(arms)["zero-shot"])
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.comparison import SQUARE, equal_trials, square
from rsso_dspy.report.figures.canvas import below, drawing, points_axis, settled, stroke
from rsso_dspy.report.figures.labels import LINE, SIZE, apart
from rsso_dspy.report.figures.scores import Arms, Estimate, estimate, notes, origin, scores, signed
from rsso_dspy.report.figures.style import INK, said, styles
from rsso_dspy.report.inference import LEVEL
from rsso_dspy.report.metrics import finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = (("without skills", (0, (4, 2)), (0, 1)), ("with skills", "-", (2, 3)))
"""A line, how it is drawn, and its corners in the order of `SQUARE`: without and with reflections."""

APART = 0.02


def interaction_figure(arms: Arms, corners: Arms) -> "Figure":
    """Means of the four corners with their standard errors, over the units that all four finished: a line without and
    one with skills, from without to with reflections. Lines that run side by side do not interact. `corners` are the
    methods of `SQUARE`, `arms` all of the run, which give the colours. Raises `UsageError` when they share no unit."""
    means = _corners(corners)
    look = styles(arms)
    arm_of = [corners[method][0].arm for method in SQUARE]
    with drawing() as new_figure:
        figure = new_figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for side, (_, dashes, places) in zip((-APART, APART), LINES, strict=True):
            at = [side, 1 + side]
            axes.plot(at, [means[place].mean for place in places], color=INK, linestyle=dashes, linewidth=1.3)
            for x, place in zip(at, places, strict=True):
                style, found = look.get(arm_of[place]), means[place]
                colour, marker = (style.colour, style.marker) if style else (INK, "o")
                axes.plot([x, x], [found.low, found.high], color=colour, linewidth=1)
                axes.plot(x, found.mean, marker, color=colour, markersize=7)
        points_axis(axes)
        _name_corners(axes, means, [look[arm].name if arm in look else arm for arm in arm_of])
        axes.set_xlim(-0.9, 1.9)
        axes.set_xticks([0, 1], ["without reflections", "with reflections"])
        axes.set_ylabel("Mean, points of 100")
        axes.grid(axis="y")
        entries = [(stroke(INK, linestyle=dashes), name) for name, dashes, _ in LINES]
        more = ["Bars: standard error over variants."] if means[0].error is not None else []
        below(figure, [_interaction(corners), *more, *notes(corners, paired=True), *origin(corners)], entries)
        return settled(figure)


def interaction_words(corners: Arms) -> str:
    """The picture in words."""
    means = _corners(corners)
    listed = ", ".join(
        f"{said(corners[method][0].arm)} {found.words}" for method, found in zip(SQUARE, means, strict=True)
    )
    return (
        "Interaction plot: Mean without and with reflections, one line without skills, one with skills. "
        f"{listed}, over {means[0].units} units. {_interaction(corners)}"
    )


def drawable(corners: Arms) -> bool:
    """Whether all four share a unit."""
    return square(corners) is not None


def _corners(corners: Arms) -> list[Estimate]:
    kept = [finished(corners[method]) for method in SQUARE]
    trials = equal_trials(*kept)
    found = [scores(records, trials) for records in kept]
    shared = set.intersection(*(set(each) for each in found))
    if not shared:
        raise UsageError("the four arms share no finished unit, so there is nothing to draw")
    return [estimate({key: each[key] for key in sorted(shared)}) for each in found]


def _interaction(corners: Arms) -> str:
    found = square(corners)
    assert found is not None, "four arms that share a unit are a square"
    between = found.interaction
    bounds = f"{LEVEL:.0%} interval {signed(between.low)} to {signed(between.high)}" if between else "no interval"
    return f"Interaction {signed(found.difference)} points ({bounds}): {found.reading}."


def _name_corners(axes: "Axes", means: Sequence[Estimate], names: Sequence[str]) -> None:
    """Names and means left of what is without reflections, right of what is with them."""
    low, high = axes.get_ylim()
    gap = LINE / 2.9 * (high - low)
    for places, x, across in (((0, 2), -0.08, "right"), ((1, 3), 1.08, "left")):
        heights = apart([means[place].mean for place in places], gap, low, high)
        for place, height in zip(places, heights, strict=True):
            axes.text(x, height, f"{names[place]} {means[place].mean:.1f}", ha=across, va="center", fontsize=SIZE)
    axes.set_ylim(low, high)
