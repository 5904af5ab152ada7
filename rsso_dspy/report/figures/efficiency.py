"""Figure of success against model calls per task, as OmniReflect's Figure 3: a bubble's area is the turns of a task.

draw_efficiency_figure(by_arm(records))
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.records import UnitRecord
from rsso_dspy.report.figures.canvas import (
    finish_figure,
    get_width,
    make_legend_entry,
    make_legend_line,
    open_axes,
)
from rsso_dspy.report.figures.score_estimates import (
    MeanEstimate,
    UnitsByArm,
    describe_bars,
    estimate_mean,
    list_figure_notes,
    require_scored_arms,
    select_scored_arms,
)
from rsso_dspy.report.figures.style import FAINT, assign_arm_styles, clean_name
from rsso_dspy.report.metrics import get_unit_key
from rsso_dspy.report.task_measures import measure_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6

LARGEST = 22.0
"""Points across the bubble with the most turns."""

SIZES = tuple(step * 10.0**power for power in range(-1, 5) for step in (1, 2, 5))
"""Turns whose bubbles a legend may show; it has the three largest that are drawn."""


def draw_efficiency_figure(arms: UnitsByArm) -> "Figure":
    """Draw a bubble per arm: calls per task, and success in percent of tasks with its interval.

    Raises `UsageError` if no unit has a score, or matplotlib is not installed.
    """
    kept, look = require_scored_arms(arms), assign_arm_styles(arms)
    measures = {arm: measure_tasks(records) for arm, records in kept.items()}
    calls = {arm: row.calls or 0.0 for arm, row in measures.items()}
    turns = {arm: row.turns or 0.0 for arm, row in measures.items()}
    found = {arm: _estimate_success(records) for arm, records in kept.items()}
    most = max(turns.values()) or 1.0
    with open_axes(get_width(), HEIGHT) as (figure, axes):
        for arm in sorted(kept, key=lambda arm: -turns[arm]):
            x, each, style = calls[arm], found[arm], look[arm]
            axes.plot([x, x], [each.low, each.high], color=style.colour, linewidth=1, alpha=0.6)
            size = _scale_bubble(turns[arm], most)
            axes.plot(x, each.mean, "o", color=style.colour, markersize=size, alpha=0.3, mew=0, clip_on=False)
            axes.plot(x, each.mean, style.marker, color=style.colour, markersize=5, markeredgewidth=0, clip_on=False)
        axes.set_xlim(0, 1.12 * (max(calls.values()) or 1.0))
        axes.set_ylim(-8, 108)
        axes.set_xlabel("model calls per task, all roles and trials")
        axes.set_ylabel("success, % of tasks")
        axes.grid()
        _add_size_legend(axes, most)
        entries = [make_legend_entry(look[arm]) for arm in kept]
        return finish_figure(figure, [*describe_bars(found.values()), *list_figure_notes(arms, best=True)], entries)


def describe_efficiency_figure(arms: UnitsByArm) -> str:
    """Describe the figure in words."""
    said = []
    for arm, records in select_scored_arms(arms).items():
        row = measure_tasks(records)
        said.append(
            f"{clean_name(arm)}: {row.solved} of {row.units} tasks, {_estimate_success(records).as_text} percent, "
            f"{row.calls:.1f} calls and {row.turns:.1f} turns a task, {row.most_calls} calls at most"
        )
    return f"Bubble chart: success against model calls per task; the area of a bubble is its turns. {'; '.join(said)}."


def _estimate_success(records: Sequence[UnitRecord]) -> MeanEstimate:
    """Percent of units that some trial solved, with an interval as that of a mean of scores."""
    solved = {get_unit_key(each): 100.0 * any(trial.solved for trial in each.trajectories) for each in records}
    return estimate_mean(solved)


def _scale_bubble(turns: float, most: float) -> float:
    """Return the width in points of a bubble whose area is proportional to its turns."""
    return float(LARGEST * (turns / most) ** 0.5)


def _add_size_legend(axes: "Axes", most: float) -> None:
    """Show above the axes how large bubbles of some turns are."""
    shown = [size for size in SIZES if size <= most][-3:] or [most]
    names = [f"{size:,g}" for size in shown]
    handles = [
        make_legend_line(FAINT, linestyle="", marker="o", markersize=_scale_bubble(size, most), alpha=0.5, mew=0)
        for size in shown
    ]
    names[-1] += " turns per task"
    axes.legend(
        handles, names, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(shown), borderaxespad=0.2, borderpad=0.6
    )
