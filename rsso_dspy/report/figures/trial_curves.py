"""What trying again brought: the best so far after every trial, over all units and per task type.

draw_best_of_t_figure(by_arm(records), published()["cumulative_best_of_t"], published()["source"])
draw_tasks_figure(by_arm(records))
"""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rsso_dspy.report.figures.canvas import (
    LegendEntry,
    add_legend_and_notes,
    compute_side_offsets,
    finish_figure,
    freeze_layout,
    get_width,
    is_column,
    make_legend_entry,
    make_legend_line,
    mark_axis_start,
    open_axes,
    set_trial_axis,
    use_figure_style,
    widen_points_axis,
)
from rsso_dspy.report.figures.labels import has_label_room, label_line_ends
from rsso_dspy.report.figures.score_estimates import (
    UnitsByArm,
    describe_bars,
    estimate_best_of_t,
    estimate_mean,
    format_count,
    list_figure_notes,
    require_scored_arms,
    score_units,
    select_scored_arms,
)
from rsso_dspy.report.figures.style import FAINT, ArmStyle, assign_arm_styles, clean_name, shorten_name
from rsso_dspy.report.metrics import map_allowed_trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PublishedCurves = Mapping[str, Sequence[float | None]]
"""Method to its Mean after 1, 2, ... trials, None where it was not said."""

HEIGHT = 3.6
COLUMNS = 3
"""Panels in a row of a page's width."""


def draw_best_of_t_figure(arms: UnitsByArm, published: PublishedCurves | None = None, source: str = "") -> "Figure":
    """Cumulative best of t (rSSO, Figure 2): per arm the mean of the best accumulator after 1, 2, ... trials, with its
    interval. What is `published` is dashed, and a note names its `source`, another model's. Raises
    `UsageError` when no unit has a score."""
    kept, look, told = require_scored_arms(arms), assign_arm_styles(arms), published or {}
    allowed = map_allowed_trials(kept)
    trials = max([*allowed.values()] + [len(values) for values in told.values()])
    with open_axes(get_width(), HEIGHT) as (figure, axes):
        ends = _draw_arm_lines(axes, {arm: look[arm] for arm in kept}, kept, allowed)
        entries = [*(make_legend_entry(look[arm]) for arm in kept), *_draw_published_lines(axes, told, look)]
        set_trial_axis(axes, trials)
        axes.set_xlabel("trials")
        axes.set_ylabel("Mean of the best so far, points of 100")
        axes.grid(axis="y")
        widen_points_axis(axes)
        room = has_label_room([name for *_, name, _ in ends], HEIGHT - 0.9, get_width())
        direct = room and not told and all(each == trials for each in allowed.values())
        if direct:
            label_line_ends(axes, ends, HEIGHT - 0.9)
        said_of = [f"Dashed: published, another model. {clean_name(source)}."] if told else []
        bars = describe_bars(each for arm, units in kept.items() for each in estimate_best_of_t(units, allowed[arm]))
        notes = [*mark_axis_start(axes), *bars, *said_of, *list_figure_notes(arms)]
        return finish_figure(figure, notes, () if direct else entries)


def describe_best_of_t_figure(arms: UnitsByArm, published: PublishedCurves | None = None, source: str = "") -> str:
    """The picture in words."""
    kept = select_scored_arms(arms)
    lines = [
        f"{clean_name(arm)}: {', '.join([*(f'{each.mean:.1f}' for each in found[:-1]), found[-1].as_text])}"
        for arm, found in (
            (arm, estimate_best_of_t(kept[arm], trials)) for arm, trials in map_allowed_trials(kept).items()
        )
    ]
    told = [
        f"{clean_name(method)} {', '.join('not said' if value is None else f'{value:.1f}' for value in values)}"
        for method, values in (published or {}).items()
    ]
    dashed = f" Dashed, published of another model ({clean_name(source)}): {'; '.join(told)}." if told else ""
    return f"Line chart: mean of the best accumulator after each trial, points of 100. {'; '.join(lines)}.{dashed}"


def draw_tasks_figure(arms: UnitsByArm) -> "Figure":
    """The same for every task type: small multiples with shared axes. Raises `UsageError` when no unit has a score."""
    kept, look = require_scored_arms(arms), assign_arm_styles(arms)
    tasks = sorted({record.variant.task for records in kept.values() for record in records})
    trials = max(map_allowed_trials(kept).values())
    columns = min(2 if is_column() else COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    with use_figure_style() as new_figure:
        figure = new_figure(figsize=(get_width(), 1.32 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, task in zip(grid.flat, tasks, strict=False):
            _draw_task_panel(axes, task, kept, look, trials)
        for axes in list(grid.flat)[len(tasks) :]:
            axes.remove()
        for column in range(columns):
            lowest = grid[(len(tasks) - 1 - column) // columns][column]
            lowest.tick_params(labelbottom=True)
            lowest.set_xlabel("trials", fontsize=8)
        middle = add_legend_and_notes(figure, list_figure_notes(arms), [make_legend_entry(look[arm]) for arm in kept])
        figure.supylabel("best so far, points", y=middle, fontsize=8)
        return freeze_layout(figure)


def describe_tasks_figure(arms: UnitsByArm) -> str:
    """The picture in words: of every task type, who is first and last at the end."""
    kept = select_scored_arms(arms)
    lines = []
    for task in sorted({record.variant.task for records in kept.values() for record in records}):
        ends = {
            arm: estimate_mean(score_units(mine)).mean
            for arm, records in kept.items()
            if (mine := [record for record in records if record.variant.task == task])
        }
        best, worst = max(ends.values()), min(ends.values())
        if best == worst:
            lines.append(f"{clean_name(task)}: {'all ' if len(ends) > 1 else ''}{best:.1f}")
        else:
            lines.append(
                f"{clean_name(task)}: from {_format_value_arms(ends, worst)} to {_format_value_arms(ends, best)}"
            )
    return (
        f"{format_count(len(lines), 'small line chart')}, one per task type: mean of the best accumulator after "
        f"each trial, points of 100. At the end: {'; '.join(lines)}."
    )


def _draw_arm_lines(
    axes: "Axes", look: Mapping[str, ArmStyle], kept: UnitsByArm, trials: Mapping[str, int], small: bool = False
) -> list[tuple[float, float, str, str]]:
    """Draw every arm, up to as many `trials`; where each ends: x, y, name, colour."""
    aside = compute_side_offsets(list(look))
    ends: list[tuple[float, float, str, str]] = []
    for arm, records in kept.items():
        style, found = look[arm], estimate_best_of_t(records, trials[arm])
        places = list(range(1, len(found) + 1))
        means = [each.mean for each in found]
        if not small:
            for number, each in zip(places, found, strict=True):
                if each.interval:
                    x = number + aside[arm]  # bars alone stand aside: points would seem to differ
                    axes.plot([x, x], [each.low, each.high], color=style.colour, linewidth=0.9, alpha=0.55)
        sizes: Any = {"linewidth": 1.0, "markersize": 3.2} if small else {"linewidth": 1.4, "markersize": 5}
        axes.plot(places, means, **style.line_options, marker=style.marker, markeredgewidth=0, **sizes)
        ends.append((places[-1], means[-1], style.name, style.colour))
    return ends


def _format_value_arms(ends: Mapping[str, float], value: float) -> str:
    """A value, and which arms have it."""
    first, *more = (clean_name(arm) for arm, each in ends.items() if each == value)
    return f"{value:.1f} ({first}{f' and {len(more)} more' if more else ''})"


def _draw_published_lines(axes: "Axes", told: PublishedCurves, look: Mapping[str, ArmStyle]) -> list[LegendEntry]:
    entries = []
    for method, values in told.items():
        colour = look[method].colour if method in look else FAINT
        known = [(number, value) for number, value in enumerate(values, start=1) if value is not None]
        drawn: dict[str, Any] = {"linestyle": (0, (4, 2)), "marker": "o", "markerfacecolor": "none", "markersize": 4}
        axes.plot([x for x, _ in known], [y for _, y in known], color=colour, linewidth=1.2, **drawn)
        entries.append((make_legend_line(colour, **drawn), f"{shorten_name(method, 16)}, published"))
    return entries


def _draw_task_panel(axes: "Axes", task: str, kept: UnitsByArm, look: Mapping[str, ArmStyle], trials: int) -> None:
    allowed = map_allowed_trials(kept)
    mine = {arm: [record for record in records if record.variant.task == task] for arm, records in kept.items()}
    mine = {arm: records for arm, records in mine.items() if records}
    _draw_arm_lines(axes, {arm: look[arm] for arm in kept}, mine, allowed, small=True)
    axes.set_title(fill(shorten_name(task, 78), 26 if is_column() else 39), fontsize=7, loc="left", pad=4)
    axes.set_ylim(-6, 106)
    axes.set_yticks([0, 50, 100])
    set_trial_axis(axes, trials)
    axes.tick_params(labelsize=7.5)
    axes.grid(axis="y")
