"""What a page's figures are drawn from: the numbers of an analysis as plain data, which assets/figures.js and charts.js
draw. Their texts are those of the tables, so that both say the same. (`figures.py` draws files for papers.)

    build_drawings(analysis, records).forests[""].rows[0].text       # "+3.55 (-5.3 to +13.3)"
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rsso_dspy.records import UnitRecord
from rsso_dspy.report import compare, metrics
from rsso_dspy.report.analysis import Analysis, compare_played
from rsso_dspy.report.doses import describe_doses
from rsso_dspy.report.figures import (
    FAINT,
    ArmStyle,
    assign_arm_styles,
    describe_difference_bars,
    describe_mean_bars,
    list_notes,
)
from rsso_dspy.report.intervals import Bars, MeanEstimate, MeanInterval
from rsso_dspy.report.published import describe_derived_points, load_data, load_published_curves, load_published_tables
from rsso_dspy.report.sheets import format_difference

DESIGNED = ""
"""Name of the comparisons that the run's methods are designed for; others have the name of the arm that is compared
with."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One difference, in points."""

    second: str  # what the difference is of, less `first`
    first: str
    asks: str
    units: int
    difference: float
    text: str
    low: float | None = None
    high: float | None = None
    is_decided: bool = False  # whether one of the arms is said to be better
    is_interaction: bool = False
    dose: str = ""  # in how many trials a memory stood in prompts
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Forest:
    rows: tuple[ForestRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    low: float | None = None  # ends of its bar
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    colour: str
    points: tuple[Point, ...]
    is_published: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over trials, or shares of units over scores."""

    title: str
    alt: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...] = ()
    is_stepped: bool = False  # whether a curve stays level up to its next point
    low: float | None = None  # ends of the vertical axis; None for those that the points have
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Drawings:
    """The figures of a page. Titles, and words for who does not see them, stand in data/texts.toml."""

    forests: Mapping[str, Forest] = field(default_factory=dict)  # by the arm that is compared with, and `DESIGNED`
    charts: Mapping[str, Chart] = field(default_factory=dict)  # by name
    has_grid: bool = False  # whether several arms played; the list of units has their scores
    titles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of forest and grid

    @property
    def names(self) -> set[str]:
        names = set(self.charts)
        if self.forests:
            names.add("differences")
        if self.has_grid:
            names.add("grid")
        return names


def build_drawings(
    found: Analysis, records: Sequence[UnitRecord], with_paper: bool = False, bars: Bars = "interval"
) -> Drawings:
    """Build the figures that the run has data for; with the paper's curves if `with_paper`."""
    titles = load_data("texts.toml")["figures"]
    return Drawings(
        _build_forests(found, records),
        dict(_build_charts(found, with_paper, bars)),
        len(found.arms) > 1,
        {name: titles[name] for name in ("differences", "grid")},
    )


# The forests.


def _build_forests(found: Analysis, records: Sequence[UnitRecord]) -> dict[str, Forest]:
    """Build a forest of the comparisons of the report, and one against each arm."""
    forests = {DESIGNED: _build_forest(found, found.comparisons, found.squares)}
    arms = metrics.group_by_arm(records)
    for arm in arms:
        question = replace(found.question, against=arm)
        compared = compare_played(arms, question, found)
        forests[arm] = _build_forest(found, compared.comparisons, squares={})
    return {name: forest for name, forest in forests.items() if forest.rows}


def _build_forest(
    found: Analysis, pairs: Iterable[compare.Comparison], squares: Mapping[str, compare.Factorial2x2]
) -> Forest:
    compared = [pair for pair in pairs if pair.difference is not None]
    interactions = [_build_interaction_row(found, program) for program in squares]
    notes = []
    if any(pair.trials < max(pair.may_play) for pair in compared):
        notes.append("Each the best of as many trials as both arms may play.")
    notes += [
        *describe_difference_bars(compared, list(squares.values()), found.question.over, found.announced is not None),
        *list_notes(found, paired=True),
    ]
    return Forest((*map(_build_row, compared), *interactions), tuple(notes))


def _build_row(pair: compare.Comparison) -> ForestRow:
    assert pair.difference is not None
    return ForestRow(
        pair.second,
        pair.first,
        pair.asks,
        pair.pairs,
        pair.difference,
        _write_difference(pair.difference, pair.interval),
        pair.interval.low if pair.interval else None,
        pair.interval.high if pair.interval else None,
        pair.has_winner,
        dose=describe_doses(pair.doses),
        verdict=str(pair.verdict),
    )


def _build_interaction_row(found: Analysis, program: str) -> ForestRow:
    square = found.squares[program]
    difference = square.interaction.difference
    interval = square.interaction.interval
    neither, reflections, skills, both = square.corners
    name = f"interaction of {program}" if len(found.squares) > 1 else "interaction"
    return ForestRow(
        name,
        "",
        f"{both} − {skills} − {reflections} + {neither}: {square.reading}",
        square.pairs,
        difference,
        _write_difference(difference, interval),
        interval.low if interval else None,
        interval.high if interval else None,
        is_interaction=True,
    )


def _write_difference(difference: float, interval: MeanInterval | None) -> str:
    """The numbers as the table of differences prints them."""
    mean = format_difference(difference).text
    if interval is None:
        return f"{mean} (no interval)"
    return f"{mean} ({format_difference(interval.low, 1).text} to {format_difference(interval.high, 1).text})"


# Curves.


def _build_charts(found: Analysis, with_paper: bool, bars: Bars) -> Iterator[tuple[str, Chart]]:
    styles = assign_arm_styles(row.arm for row in found.arms)
    several = any(found.plays[arm] > 1 for arm in found.estimates)
    if found.estimates and (with_paper or several):
        means = {arm: estimates.best_of_t for arm, estimates in found.estimates.items()}
        chart = _build_means(found, means, styles, bars, "best-of-t", "points of 100")
        yield "best-of-t", _add_published(chart, styles) if with_paper else chart
    if several:
        shares = {arm: estimates.success for arm, estimates in found.estimates.items()}
        yield "success", _build_means(found, shares, styles, bars, "success", "units solved, %", 0, 100)
    if any(len(estimates.scores) > 1 for estimates in found.estimates.values()):
        yield "survival", _build_survival(found, styles)


def _build_means(
    found: Analysis,
    means: Mapping[str, Sequence[MeanEstimate]],
    styles: Mapping[str, ArmStyle],
    bars: Bars,
    name: str,
    y_label: str,
    low: float | None = None,
    high: float | None = None,
) -> Chart:
    curves = []
    for arm, estimates in means.items():
        points = []
        for trial, estimate in enumerate(estimates, start=1):
            ends = estimate.find_bar(bars) or (None, None)
            points.append(Point(trial, estimate.mean, *ends))
        curves.append(Curve(arm, styles[arm].colour, tuple(points)))
    everything = [estimate for estimates in means.values() for estimate in estimates]
    return Chart(
        **_get_titles(name),
        x_label="trials",
        y_label=y_label,
        curves=tuple(curves),
        notes=(*describe_mean_bars(everything, bars), *list_notes(found)),
        low=low,
        high=high,
    )


def _add_published(chart: Chart, styles: Mapping[str, ArmStyle]) -> Chart:
    """The chart with the curves of rSSO's Figure 2; its ReAct is one trial."""
    published = load_published_tables()
    curves = list(chart.curves)
    for method, values in load_published_curves().items():
        points = [Point(trial, value) for trial, value in enumerate(values, start=1) if value is not None]
        curve_points = points[:1] if method in published["single_trial"] else points
        colour = styles[method].colour if method in styles else FAINT
        curves.append(Curve(f"{method}, published", colour, tuple(curve_points), is_published=True))
    source = f"Dashed: published, another model. {published['source']}."
    notes = (source, describe_derived_points("Each of these means"), *chart.notes)
    return replace(chart, curves=tuple(curves), notes=notes)


def _build_survival(found: Analysis, styles: Mapping[str, ArmStyle]) -> Chart:
    """The share of units whose best accumulator is at least x (rSSO, Figure 3)."""
    curves = []
    for arm, estimates in found.estimates.items():
        scores = estimates.scores
        places = sorted({0.0, 100.0, *(score for score in scores if 0 < score < 100)})
        points = [Point(x, 100 * sum(score >= x for score in scores) / len(scores)) for x in places]
        curves.append(Curve(arm, styles[arm].colour, tuple(points)))
    return Chart(
        **_get_titles("survival"),
        x_label="x: best accumulator of the unit, points of 100",
        y_label="units that reach x, %",
        curves=tuple(curves),
        notes=tuple(list_notes(found, best=True)),
        is_stepped=True,
        low=0,
        high=100,
    )


def _get_titles(name: str) -> dict[str, Any]:
    return dict(load_data("texts.toml")["figures"][name])
