"""How scores are distributed.

draw_survival_figure(by_arm(records))
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.report.figures.canvas import finish_figure, get_width, make_legend_entry, open_axes
from rsso_dspy.report.figures.labels import has_label_room, label_line_ends
from rsso_dspy.report.figures.score_estimates import (
    UnitsByArm,
    list_figure_notes,
    require_scored_arms,
    score_units,
    select_scored_arms,
)
from rsso_dspy.report.figures.style import assign_arm_styles, clean_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.6
LEVELS = (50, 75, 100)
"""Said in words."""


def draw_survival_figure(arms: UnitsByArm) -> "Figure":
    """The survival function of best scores (rSSO, Figure 3): per arm the share of units whose best accumulator is at
    least x. Raises `UsageError` when no unit has a score."""
    kept, look = require_scored_arms(arms), assign_arm_styles(arms)
    with open_axes(get_width(), HEIGHT) as (figure, axes):
        ends = []
        for place, (arm, records) in enumerate(kept.items()):
            style, values = look[arm], sorted(score_units(records).values())
            steps = sorted({0.0, 100.0, *(value for value in values if 0 < value < 100)})
            # at a score the share still holds, just above it no longer
            shares = [_compute_survival_percent(values, x) for x in steps]
            axes.step(steps, shares, where="pre", linewidth=1.4, **style.line_options)
            marks = [5 + 20 * (number + place / len(kept)) for number in range(5) if number + place / len(kept) < 4.75]
            shares = [_compute_survival_percent(values, x) for x in marks]
            axes.plot(marks, shares, style.marker, color=style.colour, markersize=5, mew=0)
            ends.append((100.0, _compute_survival_percent(values, 100), style.name, style.colour))
        axes.set_xlim(0, 100)
        axes.set_ylim(-2, 102)
        axes.set_xlabel("x: best accumulator of the unit, points of 100")
        axes.set_ylabel("units that reach x, %")
        axes.grid(axis="y")
        direct = has_label_room([name for *_, name, _ in ends], HEIGHT - 0.9, get_width())
        if direct:
            label_line_ends(axes, ends, HEIGHT - 0.9)
        entries = () if direct else [make_legend_entry(look[arm]) for arm in kept]
        return finish_figure(figure, list_figure_notes(arms, best=True), entries)


def describe_survival_figure(arms: UnitsByArm) -> str:
    """The picture in words."""
    lines = []
    for arm, records in select_scored_arms(arms).items():
        values = list(score_units(records).values())
        shares = [f"{_compute_survival_percent(values, level):.0f}% reach {level}" for level in LEVELS]
        lines.append(f"{clean_name(arm)}: {', '.join(shares)}")
    return f"Step chart: share of units whose best accumulator is at least x, for x from 0 to 100. {'; '.join(lines)}."


def _compute_survival_percent(values: Sequence[float], x: float) -> float:
    """Percent of values that are at least x."""
    return 100 * sum(value >= x for value in values) / len(values)
