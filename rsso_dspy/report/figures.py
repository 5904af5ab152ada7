"""Figures of a run, drawn by matplotlib without a window: the same bytes for the same analysis. Every colour has a
contrast of 3 or more on white and on a dark page, and any two are distinguishable with colour blindness. The marker is
a second cue and repeats with another period than the colour."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, cycle
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import require_extra
from rsso_dspy.files import atomic_path
from rsso_dspy.power import LEVEL
from rsso_dspy.records import RULE_BASED_NOTE
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.compare import Comparison, Factorial2x2
from rsso_dspy.report.doses import describe_doses
from rsso_dspy.report.intervals import NO_INTERVAL, NOT_TESTED, Bars, Cluster, MeanEstimate, MeanInterval
from rsso_dspy.report.published import (
    describe_derived_points,
    list_derived_points,
    load_data,
    load_published_curves,
    load_published_tables,
)
from rsso_dspy.report.rounds import NOT_ANNOUNCED
from rsso_dspy.report.sheets import make_kind
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2  # width in inches, about that of a page's text
HEIGHT = 3.6  # height of axes in inches
ROW_OF_TWO_LINES = 0.42  # inches of a row of the figure of differences
LONGEST = 36  # letters of a name in a picture
LARGEST = 22.0  # points across the bubble with the most turns

INK = "#1a1a1a"
FAINT = "#777f87"  # notes, grid and what is not of this run; of equal contrast on white and on a dark page
PALETTE = ("#464afb", "#cb8218", "#319586", "#b777df", "#8e5c14", "#7457a6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

SETTINGS: dict[str, Any] = {
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "grid.color": FAINT,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "font.size": 9,
    "legend.fontsize": 8,
    "svg.hashsalt": "rsso-dspy",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
    "text.parse_math": False,  # names of arms may contain a dollar sign
    "text.hinting": "none",  # it widens letters by another share at each resolution
}


@dataclass(frozen=True, slots=True)
class ReportFigure:
    name: str  # of a file that holds it, without ending; unique in a run
    title: str
    alt: str  # what the picture shows, in words; its numbers stand in the tables
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class ArmStyle:
    name: str  # as written in pictures
    colour: str
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """How matplotlib is to draw the line of the arm; it would hide a label that begins with an underscore."""
        label = f" {self.name}" if self.name.startswith("_") else self.name
        return {
            "color": self.colour,
            "marker": self.marker,
            "label": label,
            "linewidth": 1.4,
            "markersize": 5,
            "mew": 0,
        }


def assign_arm_styles(arms: Iterable[str]) -> dict[str, ArmStyle]:
    """Assign a style to each arm by its place among the arms of the run."""
    styles = {}
    for arm, colour, marker in zip(arms, cycle(PALETTE), cycle(MARKERS), strict=False):
        styles[arm] = ArmStyle(shorten_name(arm), colour, marker)
    return styles


def shorten_name(text: str) -> str:
    """Return a name on one line, without characters that act, the middle of a long one left out, because names differ
    at either end."""
    name = " ".join(replace_controls(text).split())
    if len(name) <= LONGEST:
        return name
    half = LONGEST // 2
    return f"{name[:half]}…{name[1 - half :]}"


# The figures. Titles, and words for who does not see them, stand in data/texts.toml.


def draw_figures(found: Analysis, with_paper: bool = False, bars: Bars = "interval") -> list[ReportFigure]:
    """Draw every figure that the run has data for; with the paper's curves if `with_paper`. `bars` are those of means;
    differences always have their intervals. Raises `NotInstalled` without matplotlib."""
    styles = assign_arm_styles(row.arm for row in found.arms)
    several = any(found.plays[arm] > 1 for arm in found.estimates)
    drawn = []
    with use_figure_style():
        if found.estimates and (with_paper or several):
            drawn.append(_draw_best_of_t(found, styles, bars, with_paper))
        if several:
            drawn.append(_draw_success(found, styles, bars))
        if any(len(estimates.scores) > 1 for estimates in found.estimates.values()):
            drawn.append(_draw_survival(found, styles))
        if any(pair.interval for pair in found.comparisons):
            drawn.append(_draw_differences(found, styles))
        if len(found.estimates) > 1 and any(row.calls_per_unit for row in found.arms):
            drawn.append(_draw_efficiency(found, styles, bars))
    return drawn


def _draw_best_of_t(found: Analysis, styles: Mapping[str, ArmStyle], bars: Bars, with_paper: bool) -> ReportFigure:
    """Draw the mean best after 1, 2, ... trials (rSSO, Figure 2). What the paper published is dashed."""
    axes = _open_axes()
    axes.set_ylabel("Mean of the best so far, points of 100")
    curves = {arm: estimates.best_of_t for arm, estimates in found.estimates.items()}
    notes = _draw_curves(axes, curves, styles, bars)
    if with_paper:
        notes += _draw_published_curves(axes, styles)

    low, high = axes.get_ylim()
    if high - low < 2:  # so that equal scores look equal
        middle = (low + high) / 2
        low = middle - 1
        axes.set_ylim(low, middle + 1)
    if low > 0:
        notes.insert(0, "The vertical axis does not begin at 0.")
    return _finish_figure("best-of-t", axes, [*notes, *list_notes(found)])


def _draw_published_curves(axes: "Axes", styles: Mapping[str, ArmStyle]) -> list[str]:
    """Draw the curves of rSSO's Figure 2, dashed, and return the notes on them. Its ReAct is one trial, so a level
    line. Points that follow from printed values, and are not printed themselves, are filled."""
    published = load_published_tables()
    dashes = (0, (4, 2))
    for method, values in load_published_curves().items():
        colour = _choose_colour(method, styles)
        label = f"{method}, published"
        heights = [float("nan") if value is None else value for value in values]
        if method in published["single_trial"]:
            axes.axhline(heights[0], label=f"{label}, one trial", color=colour, linestyle=dashes, linewidth=1)
        else:
            ring: dict[str, Any] = {"marker": "o", "mfc": "none", "markersize": 4}
            axes.plot(range(1, len(heights) + 1), heights, label=label, color=colour, linestyle=dashes, **ring)

    for point in list_derived_points():
        colour = _choose_colour(point.method, styles)
        axes.plot([point.trial], [point.value], color=colour, marker="o", markersize=4, linestyle="none")
    source = f"Dashed: published, another model. {published['source']}."
    return [source, describe_derived_points("A filled circle")]


def _choose_colour(method: str, styles: Mapping[str, ArmStyle]) -> str:
    """Choose the colour of a published method: that of the arm with its name, if there is one."""
    if method in styles:
        return styles[method].colour
    return FAINT


def _draw_success(found: Analysis, styles: Mapping[str, ArmStyle], bars: Bars) -> ReportFigure:
    """Draw the percent of units that 1, 2, ... trials solved (Reflexion's accuracy)."""
    axes = _open_axes()
    axes.set(ylim=(-2, 102), ylabel="units solved so far, %")
    curves = {arm: estimates.success for arm, estimates in found.estimates.items()}
    notes = _draw_curves(axes, curves, styles, bars)
    return _finish_figure("success", axes, [*notes, *list_notes(found)])


def _draw_survival(found: Analysis, styles: Mapping[str, ArmStyle]) -> ReportFigure:
    """Draw the share of units whose best accumulator is at least x (rSSO, Figure 3)."""
    axes = _open_axes()
    for place, (arm, estimates) in enumerate(found.estimates.items()):
        inner_scores = [score for score in estimates.scores if 0 < score < 100]
        steps = sorted({0.0, 100.0, *inner_scores})
        # at a score the share still holds, just above it no longer
        shares = [_measure_survival(estimates.scores, x) for x in steps]
        axes.step(steps, shares, where="pre", markevery=(0.03 * place, 0.2), **styles[arm].line)
    axes.set(xlim=(0, 100), ylim=(-2, 102), ylabel="units that reach x, %")
    axes.set_xlabel("x: best accumulator of the unit, points of 100")
    axes.grid(axis="y")
    return _finish_figure("survival", axes, list_notes(found, best=True))


def _measure_survival(scores: Sequence[float], least: float) -> float:
    """Return the percent of scores that are at least so high."""
    return 100 * sum(score >= least for score in scores) / len(scores)


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A row of the figure of differences, in points."""

    name: str
    difference: float
    interval: MeanInterval | None
    units: int
    word: str  # the verdict, or how a 2x2 is read
    marker: str = "o"

    @property
    def text(self) -> str:
        """The numbers, and below them the verdict."""
        ends = "no interval"
        if self.interval:
            ends = f"{_format_points(self.interval.low)} to {_format_points(self.interval.high)}"
        return f"{_format_points(self.difference)} ({ends}), n = {self.units}\n{self.word}"


def _format_points(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _draw_differences(found: Analysis, styles: Mapping[str, ArmStyle]) -> ReportFigure:
    rows = _list_difference_rows(found, styles)
    axes = _open_axes(ROW_OF_TWO_LINES * len(rows) + 0.75)
    for place, row in enumerate(rows):
        _draw_difference(axes, place, row)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    axes.grid(axis="x")

    low, high = axes.get_xlim()
    if high - low < 2:  # so that equal scores look equal
        middle = (low + high) / 2
        axes.set_xlim(middle - 1, middle + 1)
    axes.set_xlabel("mean paired difference, points of 100; right of 0 the arm named first did better")
    axes.axvline(0, color=INK, linewidth=0.8)
    return _finish_figure("differences", axes, _list_difference_notes(found, styles))


def _draw_difference(axes: "Axes", place: int, row: DifferenceRow) -> None:
    if row.interval:
        axes.plot([row.interval.low, row.interval.high], [place, place], color=INK, linewidth=1.4)
    filling = INK if row.interval else "none"  # a ring has no interval
    axes.plot([row.difference], [place], row.marker, color=INK, markersize=5, markerfacecolor=filling)
    axes.text(1.02, place, row.text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)


def _list_difference_rows(found: Analysis, styles: Mapping[str, ArmStyle]) -> list[DifferenceRow]:
    rows = []
    for pair in found.comparisons:
        if pair.difference is None:
            continue
        second = styles[pair.second].name
        first = styles[pair.first].name
        gap = "\n" if len(first + second) > LONGEST else " "
        name = f"{second}{gap}− {first}"
        rows.append(DifferenceRow(name, pair.difference, pair.interval, pair.pairs, str(pair.verdict)))

    for program, square in found.squares.items():
        name = _name_interaction(program, found)
        effect = square.interaction
        rows.append(DifferenceRow(name, effect.difference, effect.interval, square.pairs, square.reading, marker="D"))
    return rows


def _name_interaction(program: str, found: Analysis) -> str:
    if len(found.squares) > 1:
        return f"interaction ({shorten_name(program)})"
    return "interaction"


def _list_difference_notes(found: Analysis, styles: Mapping[str, ArmStyle]) -> list[str]:
    pairs = [pair for pair in found.comparisons if pair.difference is not None]
    notes = []
    if any(pair.trials < max(pair.may_play) for pair in pairs):
        notes.append("Each the best of as many trials as both arms may play.")
    for program, square in found.squares.items():
        name = _name_interaction(program, found)
        neither, reflections, skills, both = square.corners
        notes.append(f"{name}: {both} − {skills} − {reflections} + {neither}; {square.reading}.")
    for pair in pairs:
        if pair.doses:
            second = styles[pair.second].name
            first = styles[pair.first].name
            notes.append(f"{second} − {first}: {describe_doses(pair.doses)}.")

    squares = list(found.squares.values())
    notes += describe_difference_bars(pairs, squares, found.question.over, found.announced is not None)
    notes += list_notes(found, paired=True)
    return notes


def _draw_efficiency(found: Analysis, styles: Mapping[str, ArmStyle], bars: Bars) -> ReportFigure:
    """Draw success against model calls per task (OmniReflect, Figure 3); the area of a bubble is the turns a task."""
    turns = {row.arm: row.turns or 0.0 for row in found.arms if row.units}
    calls = {row.arm: row.calls_per_unit or 0.0 for row in found.arms}
    most_turns = max(turns.values(), default=0.0) or 1.0
    axes = _open_axes()
    for arm in sorted(turns, key=lambda arm: -turns[arm]):
        success = found.estimates[arm].success[-1]
        style = styles[arm]
        bar = success.find_bar(bars)
        if bar:
            axes.plot([calls[arm]] * 2, bar, color=style.colour, linewidth=1, alpha=0.6)

        dot: dict[str, Any] = {"color": style.colour, "mew": 0, "clip_on": False}
        bubble = LARGEST * (turns[arm] / most_turns) ** 0.5
        axes.plot(calls[arm], success.mean, "o", markersize=bubble, alpha=0.3, **dot)
        axes.plot(calls[arm], success.mean, style.marker, markersize=5, **dot)
    axes.set_xlim(0, 1.12 * max(calls.values()))
    axes.set(ylim=(-8, 108), xlabel="model calls per task, all roles and trials", ylabel="success, % of tasks")
    axes.grid()

    for arm in turns:
        legend_style = replace(styles[arm], name=f"{styles[arm].name}, {turns[arm]:,.3g} turns per task")
        axes.plot([], [], **legend_style.line)
    successes = [estimates.success[-1] for estimates in found.estimates.values()]
    notes = describe_mean_bars(successes, bars)
    return _finish_figure("efficiency", axes, [*notes, *list_notes(found, best=True)])


# Axes, legend and notes.


@contextmanager
def use_figure_style(**more: Any) -> Iterator[None]:
    """Use matplotlib's defaults with `SETTINGS` and more, ignoring the user's configuration, and draw a box for a
    letter that the font lacks without a warning. Raises `NotInstalled` without matplotlib."""
    require_extra("matplotlib.figure", "figures need matplotlib", "figures")
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(SETTINGS | more)
        yield


def _open_axes(height: float = HEIGHT) -> "Axes":
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()


def _draw_curves(
    axes: "Axes", curves: Mapping[str, Sequence[MeanEstimate]], styles: Mapping[str, ArmStyle], bars: Bars
) -> list[str]:
    """Draw the means of every arm from trial to trial, with their bars, and return the note on these."""
    from matplotlib.ticker import MaxNLocator

    step = min(0.05, 0.3 / len(curves))
    for place, (arm, means) in enumerate(curves.items()):
        style = styles[arm]
        aside = (place - (len(curves) - 1) / 2) * step
        for number, mean in enumerate(means, start=1):
            bar = mean.find_bar(bars)
            if bar:  # bars alone stand aside: points would seem to differ
                axes.plot([number + aside] * 2, bar, color=style.colour, linewidth=0.9, alpha=0.55)
        axes.plot(range(1, len(means) + 1), [mean.mean for mean in means], **style.line)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trials")
    axes.grid(axis="y")
    return describe_mean_bars(chain.from_iterable(curves.values()), bars)


def _finish_figure(name: str, axes: "Axes", notes: Sequence[str]) -> ReportFigure:
    """Add legend and notes below the axes, where a file has room for whatever stands, and fix the layout, so that its
    bytes do not depend on earlier drawing."""
    figure: Any = axes.figure
    bottom = -0.01
    figure.draw_without_rendering()
    figure.set_layout_engine("none")

    lines, names = axes.get_legend_handles_labels()
    if names:
        longest = max(map(len, names))
        fitting = int(WIDTH * 13 / (7 + longest))
        columns = max(1, min(len(names), fitting))
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, bottom), "ncols": columns}
        legend = figure.legend(lines, names, borderaxespad=0, **place)
        figure.draw_without_rendering()
        bottom = legend.get_window_extent().y0 / figure.bbox.height

    paragraphs = [fill(note, int(19 * WIDTH), break_on_hyphens=False) for note in notes]
    below = "\n".join(paragraphs)
    figure.text(0.01, bottom - 0.02, below, fontsize=6.25, color=FAINT, va="top", linespacing=1.25)
    texts = load_data("texts.toml")["figures"][name]
    return ReportFigure(name, **texts, figure=figure)


# What is said beside a picture.


def list_notes(found: Analysis, best: bool = False, paired: bool = False) -> list[str]:
    """Return what has to be said beside a picture of these arms; `best` where it shows the best of all trials, `paired`
    where it shows only units that all of them finished."""
    notes = []
    errored = sum(row.errored for row in found.arms)
    if errored:
        units = "units are" if errored > 1 else "unit is"
        notes.append(f"{errored} errored {units} left out: an error is no score.")
    if not paired and not found.alike:
        notes.append(load_data("texts.toml")["notes"]["uneven"])

    allowed = {arm: found.plays[arm] for arm in found.estimates}
    if best and len(set(allowed.values())) > 1:
        largest = max(allowed.values())
        fewer = [f"{shorten_name(arm)} {count}" for arm, count in allowed.items() if count < largest]
        notes.append(f"The best of {largest} trials, but of fewer, and so lower by itself, for: {', '.join(fewer)}.")
    if found.rule_based:
        notes.append(RULE_BASED_NOTE)
    return notes


def describe_mean_bars(means: Iterable[MeanEstimate], bars: Bars) -> list[str]:
    """Say what the bars of means are; nothing where there are none."""
    drawn = list(means)
    kind = ""
    if bars == "interval":
        over = _name_clusters(mean.interval for mean in drawn)
        if over:
            kind = f"{LEVEL:.0%} intervals of each mean by itself, over {over}"
    elif any(mean.standard_error is not None for mean in drawn):
        kind = "one standard error over variants to either side (SEM, as in rSSO's Figure 2), no interval"

    if not kind:
        return []
    return [f"Bars: {kind}. Differences have intervals of their own."]


def describe_difference_bars(
    pairs: Sequence[Comparison], squares: Sequence[Factorial2x2], over: Cluster, is_in_rounds: bool = False
) -> list[str]:
    """Say what the bars of differences are, and a point without one."""
    intervals = [pair.interval for pair in pairs]
    intervals += [square.interaction.interval for square in squares]
    untested = [pair.verdict.word == "not tested" for pair in pairs]
    untested += [square.reading == "not tested" for square in squares]

    notes = []
    clusters = _name_clusters(intervals, over)
    if clusters:
        is_always_valid = any(interval.is_always_valid for interval in intervals if interval)
        always = "always valid " if is_always_valid else ""
        notes.append(f"Bars: {always}{LEVEL:.0%} intervals, over {clusters}.")

    rings = [is_untested for interval, is_untested in zip(intervals, untested, strict=True) if interval is None]
    reasons = []
    if not all(rings):
        reasons.append(NOT_ANNOUNCED if is_in_rounds else NO_INTERVAL)
    if any(rings):
        reasons.append(NOT_TESTED)
    if reasons:
        notes.append(f"A ring has no interval: {', or '.join(reasons)}.")
    return notes


def _name_clusters(intervals: Iterable[MeanInterval | None], over: Cluster = "task types") -> str:
    """Name what intervals are over, which is `over` where there are several task types."""
    which = "one task type" if over == "task types" else "these task types"
    words = {"task types": "task types", "variants": f"variants of {which}, which say nothing about other tasks"}
    drawn = {interval.over for interval in intervals if interval}
    return " and ".join(words[name] for name in words if name in drawn)


# Files.

WRITER = "rsso-dspy"  # creator named in a figure's file
DOTS = 150  # per inch, of a PNG

FORMATS: dict[str, dict[str, Any]] = {  # file ending to the metadata of such a file
    ".svg": {"Date": None, "Creator": WRITER},
    ".pdf": {"CreationDate": None, "Creator": WRITER},
    ".png": {"Software": WRITER},
}
PICTURE_MARKS = (b"<dc:title>%s<", b"Software\0%s", b"/Creator (%s)")
PICTURE = make_kind("figure", *(mark % WRITER.encode() for mark in PICTURE_MARKS))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG, PDF or PNG, by suffix, atomically; letters stay text in SVG and PDF."""
    fonts = {"svg.fonttype": "none", "pdf.fonttype": 42}
    with atomic_path(path) as temporary:
        _draw_into(figure, temporary, path.suffix.lower(), **fonts)


def _draw_into(figure: "Figure", file: Any, ending: str, **settings: Any) -> None:
    look: dict[str, Any] = {"dpi": DOTS, "bbox_inches": "tight", "pad_inches": 0.06}
    with use_figure_style(**settings):
        figure.savefig(file, format=ending[1:], metadata=FORMATS[ending], **look)
