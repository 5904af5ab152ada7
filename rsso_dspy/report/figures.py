"""Figures of a run, drawn by matplotlib without a window: the same bytes for the same analysis.

for picture in draw_figures(analyze(units)):
    save_figure(picture.figure, folder / f"{picture.name}.svg")
    page += render_svg(picture.figure, picture.name)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import UsageError
from rsso_dspy.records import RULE_BASED_NOTE
from rsso_dspy.report.analysis import Analysis, ScoreEstimates
from rsso_dspy.report.figure_canvas import (
    FAINT,
    INK,
    FigureRow,
    FigureSize,
    assign_arm_styles,
    clean_name,
    compute_side_offsets,
    finish_figure,
    join_names,
    make_arm_entry,
    make_legend_line,
    mark_axis_start,
    open_axes,
    open_rows,
    shorten_name,
    widen_points_axis,
    wrap_label,
)
from rsso_dspy.report.metrics import UNEVEN
from rsso_dspy.report.published import load_published_tables
from rsso_dspy.report.statistics import LEVEL, NO_INTERVAL, BootstrapInterval, MeanEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6
"""Height of axes in inches."""

LARGEST = 22.0
"""Points across the bubble with the most turns."""

TURNS = tuple(step * 10.0**power for power in range(-1, 5) for step in (1, 2, 5))
"""Turns whose bubbles a legend may show; it has the three largest that are drawn."""

LEVELS = (50, 75, 100)
"""Scores whose share of units is said in words."""


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure with its name and description."""

    name: str
    """Of a file that holds it, without ending; unique in a run."""
    title: str
    alt: str
    """What the picture shows, in words with numbers. It holds names as they are, without markup."""
    figure: "Figure"


def draw_figures(found: Analysis, size: FigureSize = "page", with_paper: bool = False) -> list[ReportFigure]:
    """Draw every figure that the run has data for; with the paper's curves if `with_paper`. Raises `UsageError` if
    matplotlib is not installed."""
    several = len(found.estimates) > 1
    drawn = []
    if found.estimates and (with_paper or max(found.plays[arm] for arm in found.estimates) > 1):
        drawn.append(draw_best_of_t_figure(found, size, with_paper))
    if any(len(each.scores) > 1 for each in found.estimates.values()):
        drawn.append(draw_survival_figure(found, size))
    if any(each.comparison.interval for each in found.findings):
        drawn.append(draw_differences_figure(found, size))
    if several:
        drawn.append(draw_scores_figure(found, size))
    if several and any(found.measures[arm].calls for arm in found.estimates):
        drawn.append(draw_efficiency_figure(found, size))
    return drawn


def draw_best_of_t_figure(found: Analysis, size: FigureSize = "page", with_paper: bool = False) -> ReportFigure:
    """Draw the cumulative best of t (rSSO, Figure 2): per arm the mean of the best accumulator after 1, 2, ... trials,
    with its interval. What the paper published is dashed, and a note names its model. Raises `UsageError` when no unit
    has a score."""
    kept, look = _require_scores(found), assign_arm_styles(row.arm for row in found.arms)
    paper = load_published_tables() if with_paper else {}
    published = paper.get("cumulative_best_of_t", {})
    trials = max([*(len(each.best_of_t) for each in kept.values()), *map(len, published.values())])
    aside = compute_side_offsets(list(kept))
    with open_axes(size, HEIGHT) as (figure, axes):
        for arm, each in kept.items():
            style, places = look[arm], list(range(1, len(each.best_of_t) + 1))
            for number, mean in zip(places, each.best_of_t, strict=True):
                if mean.interval:
                    x = number + aside[arm]  # bars alone stand aside: points would seem to differ
                    axes.plot([x, x], [mean.low, mean.high], color=style.colour, linewidth=0.9, alpha=0.55)
            means = [mean.mean for mean in each.best_of_t]
            axes.plot(places, means, **style.line, marker=style.marker, linewidth=1.4, markersize=5, mew=0)
        entries = [make_arm_entry(look[arm]) for arm in kept]
        for method, values in published.items():
            colour = look[method].colour if method in look else FAINT
            known = [(number, value) for number, value in enumerate(values, start=1) if value is not None]
            dashed: dict[str, Any] = {"linestyle": (0, (4, 2)), "marker": "o", "mfc": "none", "markersize": 4}
            axes.plot(*zip(*known, strict=True), color=colour, linewidth=1.2, **dashed)
            entries.append((make_legend_line(colour, **dashed), f"{shorten_name(method, 16)}, published"))
        step = max(1, -(-trials // 10))
        axes.set_xticks(sorted({1, *range(step, trials + 1, step)}))
        axes.set_xlim(0.7, trials + 0.3)
        axes.set_xlabel("trials")
        axes.set_ylabel("Mean of the best so far, points of 100")
        axes.grid(axis="y")
        widen_points_axis(axes)
        source = [f"Dashed: published, another model. {clean_name(paper['source'])}."] if published else []
        bars = _describe_bars(mean for each in kept.values() for mean in each.best_of_t)
        finish_figure(figure, [*mark_axis_start(axes), *bars, *source, *_list_notes(found)], entries)
    lines = [
        f"{clean_name(arm)}: {', '.join([*(f'{mean.mean:.1f}' for mean in means[:-1]), str(means[-1])])}"
        for arm, means in ((arm, each.best_of_t) for arm, each in kept.items())
    ]
    told = [
        f"{clean_name(method)} {', '.join('not said' if value is None else f'{value:.1f}' for value in values)}"
        for method, values in published.items()
    ]
    dashed_words = f" Dashed, published of another model: {'; '.join(told)}." if told else ""
    words = f"Line chart: mean of the best accumulator after each trial, points of 100. {'; '.join(lines)}."
    return ReportFigure("best-of-t", "Best of t trials", _join_words(words + dashed_words, found), figure)


def draw_survival_figure(found: Analysis, size: FigureSize = "page") -> ReportFigure:
    """Draw the survival function of best scores (rSSO, Figure 3): per arm the share of units whose best accumulator is
    at least x. Raises `UsageError` when no unit has a score."""
    kept, look = _require_scores(found), assign_arm_styles(row.arm for row in found.arms)
    lines = []
    with open_axes(size, HEIGHT) as (figure, axes):
        for place, (arm, each) in enumerate(kept.items()):
            style, values = look[arm], each.scores
            steps = sorted({0.0, 100.0, *(value for value in values if 0 < value < 100)})
            # at a score the share still holds, just above it no longer
            shares = [_compute_survival_percent(values, x) for x in steps]
            axes.step(steps, shares, where="pre", linewidth=1.4, **style.line)
            marks = [5 + 20 * (number + place / len(kept)) for number in range(5) if number + place / len(kept) < 4.75]
            shares = [_compute_survival_percent(values, x) for x in marks]
            axes.plot(marks, shares, style.marker, color=style.colour, markersize=5, mew=0)
            told = [f"{_compute_survival_percent(values, level):.0f}% reach {level}" for level in LEVELS]
            lines.append(f"{clean_name(arm)}: {', '.join(told)}")
        axes.set_xlim(0, 100)
        axes.set_ylim(-2, 102)
        axes.set_xlabel(wrap_label("x: best accumulator of the unit, points of 100", size))
        axes.set_ylabel("units that reach x, %")
        axes.grid(axis="y")
        finish_figure(figure, _list_notes(found, best=True), [make_arm_entry(look[arm]) for arm in kept])
    words = f"Step chart: share of units whose best accumulator is at least x, for x from 0 to 100. {'; '.join(lines)}."
    return ReportFigure("survival", "How scores are distributed", _join_words(words, found, best=True), figure)


def _compute_survival_percent(values: Sequence[float], x: float) -> float:
    """Percent of values that are at least x."""
    return 100 * sum(value >= x for value in values) / len(values)


def draw_differences_figure(found: Analysis, size: FigureSize = "page") -> ReportFigure:
    """Draw a row for every comparison, the mean difference ``second - first`` with its interval, and one for the
    interaction of every 2x2 of skills and reflections; a line at 0. Raises `UsageError` when no two arms share a
    unit."""
    compared = [each.comparison for each in found.findings if each.comparison.difference is not None]
    if not compared:
        raise UsageError("no two arms share a finished unit, so there is nothing to draw")
    look = assign_arm_styles(row.arm for row in found.arms)
    rows = [
        FigureRow(
            join_names(look[each.second].name, look[each.first].name, size),
            MeanEstimate(each.difference or 0.0, each.interval),
            f"{_format_interval(each.difference or 0.0, each.interval)}, n = {each.pairs}",
        )
        for each in compared
    ]
    lines = [
        f"{clean_name(each.second)} minus {clean_name(each.first)}: "
        f"{_format_interval(each.difference or 0.0, each.interval)}, {_format_count(each.pairs, 'pair')}"
        for each in compared
    ]
    notes = []
    for program, square in found.squares.items():
        named = f"interaction ({shorten_name(program, 14)})" if len(found.squares) > 1 else "interaction"
        said = _format_interval(square.difference, square.interaction)
        estimate = MeanEstimate(square.difference, square.interaction)
        rows.append(FigureRow(named, estimate, f"{said}, n = {square.pairs}", marker="D"))
        neither, reflections, skills, both = map(shorten_name, square.corners)
        notes.append(f"{named}: {both} − {skills} − {reflections} + {neither}; {square.reading}.")
        means = ", ".join(f"{name} {mean:.1f}" for name, mean in zip(square.corners, square.means, strict=True))
        lines.append(f"{named} of {means}: {said}, {square.reading}")
    notes += _describe_intervals([row.estimate.interval for row in rows])
    if any(each.trials < max(each.may_play) for each in compared):
        notes.append("Each the best of as many trials as both arms may play.")
    about = "mean paired difference, points of 100; right of 0 the arm named first did better"
    with open_rows(rows, about, size) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=0.8)
        finish_figure(figure, [*notes, *_list_notes(found, paired=True)])
    words = f"Forest plot of paired differences in points, with {LEVEL:.0%} intervals. {'; '.join(lines)}."
    return ReportFigure("differences", "Paired differences", _join_words(words, found, paired=True), figure)


def draw_scores_figure(found: Analysis, size: FigureSize = "page") -> ReportFigure:
    """Draw a row for every arm: its Mean with its interval. Raises `UsageError` when no unit has a score."""
    kept, look = _require_scores(found), assign_arm_styles(row.arm for row in found.arms)
    means = {arm: each.best_of_t[-1] for arm, each in kept.items()}
    rows = [
        FigureRow(look[arm].name, mean, f"{mean}, n = {len(kept[arm].scores)}", look[arm].colour, look[arm].marker)
        for arm, mean in means.items()
    ]
    with open_rows(rows, "Mean, points of 100", size) as (figure, axes):
        notes = [*mark_axis_start(axes, "x"), *_describe_bars(means.values()), *_list_notes(found, best=True)]
        finish_figure(figure, notes)
    lines = "; ".join(f"{clean_name(arm)}: {mean}, {len(kept[arm].scores)} units" for arm, mean in means.items())
    words = _join_words(f"Dot chart: Mean of every arm, points of 100. {lines}.", found, best=True)
    return ReportFigure("scores", "Scores", words, figure)


def draw_efficiency_figure(found: Analysis, size: FigureSize = "page") -> ReportFigure:
    """Draw success against model calls per task, as OmniReflect's Figure 3: a bubble per arm, whose area is the turns
    a task, and success in percent of tasks with its interval. Raises `UsageError` if no unit has a score."""
    kept, look = _require_scores(found), assign_arm_styles(row.arm for row in found.arms)
    measures = {arm: found.measures[arm] for arm in kept}
    turns = {arm: row.turns or 0.0 for arm, row in measures.items()}
    most = max(turns.values()) or 1.0
    lines = []
    with open_axes(size, HEIGHT) as (figure, axes):
        for arm in sorted(kept, key=lambda arm: -turns[arm]):
            x, each, style = measures[arm].calls or 0.0, kept[arm].success, look[arm]
            axes.plot([x, x], [each.low, each.high], color=style.colour, linewidth=1, alpha=0.6)
            bubble = _scale_bubble(turns[arm], most)
            axes.plot(x, each.mean, "o", color=style.colour, markersize=bubble, alpha=0.3, mew=0, clip_on=False)
            axes.plot(x, each.mean, style.marker, color=style.colour, markersize=5, mew=0, clip_on=False)
        axes.set_xlim(0, 1.12 * (max(row.calls or 0.0 for row in measures.values()) or 1.0))
        axes.set_ylim(-8, 108)
        axes.set_xlabel("model calls per task, all roles and trials")
        axes.set_ylabel("success, % of tasks")
        axes.grid()
        _add_size_legend(axes, most)
        notes = [*_describe_bars(each.success for each in kept.values()), *_list_notes(found, best=True)]
        finish_figure(figure, notes, [make_arm_entry(look[arm]) for arm in kept])
    for arm, row in measures.items():
        lines.append(
            f"{clean_name(arm)}: {row.solved} of {row.units} tasks, {kept[arm].success} percent, "
            f"{row.calls:.1f} calls and {row.turns:.1f} turns a task, {row.most_calls} calls at most"
        )
    said = "; ".join(lines)
    words = f"Bubble chart: success against model calls per task; the area of a bubble is its turns. {said}."
    return ReportFigure("efficiency", "Success against calls", _join_words(words, found, best=True), figure)


def _scale_bubble(turns: float, most: float) -> float:
    """Return the width in points of a bubble whose area is proportional to its turns."""
    return float(LARGEST * (turns / most) ** 0.5)


def _add_size_legend(axes: "Axes", most: float) -> None:
    """Show above the axes how large bubbles of some turns are."""
    shown = [turns for turns in TURNS if turns <= most][-3:] or [most]
    bubbles: dict[str, Any] = {"linestyle": "", "marker": "o", "alpha": 0.5, "mew": 0}
    handles = [make_legend_line(FAINT, markersize=_scale_bubble(turns, most), **bubbles) for turns in shown]
    names = [*(f"{turns:,g}" for turns in shown[:-1]), f"{shown[-1]:,g} turns per task"]
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2, "borderpad": 0.6}
    axes.legend(handles, names, ncols=len(shown), **place)


# What is said beside a picture.


def _require_scores(found: Analysis) -> Mapping[str, ScoreEstimates]:
    if not found.estimates:
        raise UsageError("no unit has a score, so there is nothing to draw")
    return found.estimates


def _list_notes(found: Analysis, best: bool = False, paired: bool = False, origin: bool = True) -> list[str]:
    """What has to be said beside a picture of these arms; `best` where it shows the best of all trials, `paired` where
    it shows only units that all of them finished, `origin` where the words beside it do not name who answered."""
    notes = []
    errored = sum(row.errored for row in found.arms)
    if errored:
        notes.append(f"{errored} errored {'units are' if errored > 1 else 'unit is'} left out: an error is no score.")
    if not paired and not found.alike:
        notes.append(UNEVEN)
    allowed = {arm: found.plays[arm] for arm in found.estimates}
    if best and len(set(allowed.values())) > 1:
        most = max(allowed.values())
        fewer = ", ".join(f"{shorten_name(arm)} {count}" for arm, count in allowed.items() if count < most)
        notes.append(f"The best of {most} trials, but of fewer, and so lower by itself, for: {fewer}.")
    if origin and found.rule_based:
        notes.append(RULE_BASED_NOTE)
    return notes


def _join_words(words: str, found: Analysis, best: bool = False, paired: bool = False) -> str:
    return " ".join([words, *_list_notes(found, best, paired, origin=False)])


def _describe_bars(means: Iterable[MeanEstimate]) -> list[str]:
    """Say what the bars of these means are; nothing where there are none."""
    drawn = {each.interval.over for each in means if each.interval}
    if not drawn:
        return []
    over = "task types" if drawn == {"task types"} else "units of the only task type"
    return [f"Bars: 95% intervals of each mean by itself, over {over}. Differences have intervals of their own."]


def _describe_intervals(intervals: Sequence[BootstrapInterval | None]) -> list[str]:
    over = {each.over for each in intervals if each}
    notes = []
    if "task types" in over:
        notes.append(f"Bars: {LEVEL:.0%} intervals, bootstrapped over task types.")
    if "units" in over:
        notes.append(
            f"{'' if len(over) == 1 else 'Of one task type alone: '}{LEVEL:.0%} intervals over units of one task type, "
            "which say nothing about other tasks."
        )
    if None in intervals:
        notes.append(f"A ring has no interval: {NO_INTERVAL}.")
    return notes


def _format_interval(difference: float, interval: BootstrapInterval | None) -> str:
    between = (
        f"{_format_difference(interval.low)} to {_format_difference(interval.high)}" if interval else "no interval"
    )
    return f"{_format_difference(difference)} ({between})"


def _format_difference(value: float) -> str:
    text = f"{value:+.1f}".replace("-", "−")
    return text if text.strip("+−0.") else "0.0"


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
