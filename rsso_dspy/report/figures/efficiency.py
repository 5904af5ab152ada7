"""Figure of success against model calls per task, as OmniReflect's Figure 3: a bubble's size is the turns of a task.

draw_efficiency_figure([("react", measure_tasks(records))])
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures.canvas import freeze_layout, get_width, open_axes
from rsso_dspy.report.figures.style import clean_name
from rsso_dspy.report.task_measures import TaskMeasures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.6
POINTS_PER_TURN = 6.0
"""Area of a bubble, in square points, for a turn of a task."""

Bubble = tuple[str, TaskMeasures]
"""Name and measures of an arm."""


def draw_efficiency_figure(arms: Sequence[Bubble]) -> "Figure":
    """Draw a bubble per arm. Raises `UsageError` if no arm has a unit with a score, or matplotlib is not installed."""
    kept = [(name, row) for name, row in arms if row.units and row.calls is not None and row.turns is not None]
    if not kept:
        raise UsageError("no unit has a score, so there is nothing to draw")
    with open_axes(get_width(), HEIGHT) as (figure, axes):
        for name, row in kept:
            success = 100 * row.solved / row.units
            size = POINTS_PER_TURN * (row.turns or 0) + 1
            axes.scatter([row.calls or 0], [success], s=size, alpha=0.6, label=clean_name(name))
        axes.set_xlabel("model calls per task, all roles and trials")
        axes.set_ylabel("success, percent of tasks")
        axes.set_ylim(-8, 108)
        axes.margins(x=0.25)
        axes.grid()
        figure.legend(loc="outside lower left", ncols=2, markerscale=0.5, title="Size of a bubble: turns per task")
        return freeze_layout(figure)


def describe_efficiency_figure(arms: Sequence[Bubble]) -> str:
    """Describe the figure in words."""
    said = [
        f"{clean_name(name)}: {row.solved} of {row.units} tasks, {row.calls:.1f} calls and {row.turns:.1f} turns a "
        f"task, {row.most_calls} calls at most"
        for name, row in arms
        if row.calls is not None and row.turns is not None
    ]
    return f"Bubble chart: success against model calls per task; the size of a bubble is its turns. {'; '.join(said)}."
