"""What trying again brought: the best so far after every trial, over all units and per task type.

best_of_t_figure(by_arm(records), published()["cumulative_best_of_t"], published()["source"])
tasks_figure(by_arm(records))
"""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures.canvas import (
    WIDTH,
    Entry,
    below,
    drawing,
    entry,
    points_axis,
    settled,
    sideways,
    stroke,
    trial_axis,
)
from rsso_dspy.report.figures.labels import fits, name_ends
from rsso_dspy.report.figures.scores import Arms, best_of_t, counted, estimate, notes, origin, scored, scores
from rsso_dspy.report.figures.style import FAINT, Style, said, shown, styles
from rsso_dspy.report.metrics import plays

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Published = Mapping[str, Sequence[float | None]]
"""Method to its Mean after 1, 2, ... trials, None where it was not said."""

HEIGHT = 3.6
COLUMNS = 3
"""Panels in a row."""


def best_of_t_figure(arms: Arms, published: Published | None = None, source: str = "") -> "Figure":
    """Cumulative best of t (rSSO, Figure 2): per arm the mean of the best accumulator after 1, 2, ... trials, with its
    standard error over variants. What is `published` is dashed, and a note names its `source`, another model's. Raises
    `UsageError` when no unit has a score."""
    kept, look, told = scored(arms), styles(arms), published or {}
    if not kept:
        raise UsageError("no unit has a score, so there is nothing to draw")
    allowed = plays(kept)
    trials = max([*allowed.values()] + [len(values) for values in told.values()])
    with drawing() as new_figure:
        figure = new_figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        ends = _lines(axes, {arm: look[arm] for arm in kept}, kept, trials=allowed)
        entries = [*(entry(look[arm]) for arm in kept), *_published(axes, told, look)]
        trial_axis(axes, trials)
        axes.set_xlabel("trials")
        axes.set_ylabel("Mean of the best so far, points of 100")
        axes.grid(axis="y")
        points_axis(axes)
        direct = not told and all(each == trials for each in allowed.values()) and fits(len(ends), HEIGHT - 0.9)
        if direct:
            name_ends(axes, ends, HEIGHT - 0.9)
        said_of = [f"Dashed: published, another model. {said(source)}."] if told else []
        bars = ["Bars: standard error over variants."] if any(len(units) > 1 for units in kept.values()) else []
        below(figure, [*bars, *said_of, *notes(arms), *origin(arms)], () if direct else entries)
        return settled(figure)


def best_of_t_words(arms: Arms, published: Published | None = None, source: str = "") -> str:
    """The picture in words."""
    kept = scored(arms)
    lines = [
        f"{said(arm)}: {', '.join(f'{each.mean:.1f}' for each in found)}"
        + (f" (standard error {found[-1].error:.1f} at the end)" if found[-1].error is not None else "")
        for arm, found in ((arm, best_of_t(kept[arm], trials)) for arm, trials in plays(kept).items())
    ]
    told = [
        f"{said(method)} {', '.join('not said' if value is None else f'{value:.1f}' for value in values)}"
        for method, values in (published or {}).items()
    ]
    dashed = f" Dashed, published of another model ({said(source)}): {'; '.join(told)}." if told else ""
    return f"Line chart: mean of the best accumulator after each trial, points of 100. {'; '.join(lines)}.{dashed}"


def tasks_figure(arms: Arms) -> "Figure":
    """The same for every task type: small multiples with shared axes. Raises `UsageError` when no unit has a score."""
    kept, look = scored(arms), styles(arms)
    tasks = sorted({record.variant.task for records in kept.values() for record in records})
    if not tasks:
        raise UsageError("no unit has a score, so there is nothing to draw")
    trials = max(plays(kept).values())
    columns = min(COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    with drawing() as new_figure:
        figure = new_figure(figsize=(WIDTH, 1.32 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, task in zip(grid.flat, tasks, strict=False):
            _panel(axes, task, kept, look, trials)
        for axes in list(grid.flat)[len(tasks) :]:
            axes.remove()
        for column in range(columns):
            lowest = grid[(len(tasks) - 1 - column) // columns][column]
            lowest.tick_params(labelbottom=True)
            lowest.set_xlabel("trials", fontsize=8)
        middle = below(figure, [*notes(arms), *origin(arms)], [entry(look[arm]) for arm in kept])
        figure.supylabel("best so far, points", y=middle, fontsize=8)
        return settled(figure)


def tasks_words(arms: Arms) -> str:
    """The picture in words: of every task type, who is first and last at the end."""
    kept = scored(arms)
    lines = []
    for task in sorted({record.variant.task for records in kept.values() for record in records}):
        ends = {
            arm: estimate(scores(mine)).mean
            for arm, records in kept.items()
            if (mine := [record for record in records if record.variant.task == task])
        }
        best, worst = max(ends.values()), min(ends.values())
        if best == worst:
            lines.append(f"{said(task)}: {'all ' if len(ends) > 1 else ''}{best:.1f}")
        else:
            lines.append(f"{said(task)}: from {_at(ends, worst)} to {_at(ends, best)}")
    return (
        f"{counted(len(lines), 'small line chart')}, one per task type: mean of the best accumulator after each trial, "
        f"points of 100. At the end: {'; '.join(lines)}."
    )


def _lines(
    axes: "Axes", look: Mapping[str, Style], kept: Arms, small: bool = False, trials: Mapping[str, int] | None = None
) -> list[tuple[float, float, str, str]]:
    """Draw every arm, up to as many `trials`; where each ends: x, y, name, colour."""
    aside, ends = sideways(list(look)), []
    for arm, records in kept.items():
        style, found = look[arm], best_of_t(records, trials[arm] if trials else None)
        places = [number + aside[arm] for number in range(1, len(found) + 1)]
        means = [each.mean for each in found]
        if not small:
            for x, each in zip(places, found, strict=True):
                if each.error is not None:
                    axes.plot([x, x], [each.low, each.high], color=style.colour, linewidth=0.9, alpha=0.55)
        size = 3.2 if small else 5
        axes.plot(
            places,
            means,
            **style.line,
            marker=style.marker,
            linewidth=1.0 if small else 1.4,
            markersize=size,
            markeredgewidth=0,
        )
        ends.append((places[-1], means[-1], style.name, style.colour))
    return ends


def _at(ends: Mapping[str, float], value: float) -> str:
    """A value, and which arms have it."""
    first, *more = (said(arm) for arm, each in ends.items() if each == value)
    return f"{value:.1f} ({first}{f' and {len(more)} more' if more else ''})"


def _published(axes: "Axes", told: Published, look: Mapping[str, Style]) -> list[Entry]:
    entries = []
    for method, values in told.items():
        colour = look[method].colour if method in look else FAINT
        known = [(number, value) for number, value in enumerate(values, start=1) if value is not None]
        drawn: dict[str, Any] = {"linestyle": (0, (4, 2)), "marker": "o", "markerfacecolor": "none", "markersize": 4}
        axes.plot([x for x, _ in known], [y for _, y in known], color=colour, linewidth=1.2, **drawn)
        entries.append((stroke(colour, **drawn), f"{shown(method, 16)}, published"))
    return entries


def _panel(axes: "Axes", task: str, kept: Arms, look: Mapping[str, Style], trials: int) -> None:
    allowed = plays(kept)
    mine = {arm: [record for record in records if record.variant.task == task] for arm, records in kept.items()}
    mine = {arm: records for arm, records in mine.items() if records}
    _lines(axes, {arm: look[arm] for arm in kept}, mine, small=True, trials=allowed)
    axes.set_title(fill(shown(task, 78), 39), fontsize=7, loc="left", pad=4)
    axes.set_ylim(-6, 106)
    axes.set_yticks([0, 50, 100])
    trial_axis(axes, trials)
    axes.tick_params(labelsize=7.5)
    axes.grid(axis="y")
