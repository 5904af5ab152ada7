"""The published tables, and statistics recomputed from them."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any, cast

from rsso_dspy.report import intervals, statistics
from rsso_dspy.report.sheets import Cell, Sheet, Tone, build_sheet, format_difference, format_number, mark_best

METHODS = ("react", "reflexion", "sso", "rsso")
DELTAS = {"rsso - sso": ("rsso", "sso"), "reflexion - react": ("reflexion", "react")}  # of Table 2, both scaffolds
MEANS = (*METHODS, *DELTAS)  # columns of Table 2
DERIVED = "*"  # marks a mean of Figure 2 that follows from printed ones


@dataclass(frozen=True, slots=True)
class RecomputedStatistics:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: statistics.WilcoxonResult
    sign: statistics.SignTestResult
    interval: intervals.MeanInterval  # of the mean over variants, clustered by task type
    micro: Mapping[str, float]  # method to the mean over variants
    macro: Mapping[str, float]  # method to the mean over task types


@dataclass(frozen=True, slots=True)
class DerivedPoint:
    """A mean of Figure 2 that the paper prints nowhere, but that follows from means and gains that it prints."""

    method: str
    trial: int
    value: float
    origin: str  # how it follows


@cache
def load_data(name: str) -> dict[str, Any]:
    """Load a file of `data`, JSON or TOML."""
    text = resources.files(__package__).joinpath(f"data/{name}").read_text(encoding="utf-8")
    if name.endswith(".toml"):
        return tomllib.loads(text)
    return dict(json.loads(text))


def load_published_tables(paper: str = "rsso") -> dict[str, Any]:
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), or with `title`, `columns` and
    `rows` those of omnireflect (success rates in percent) and reflexion (texts)."""
    return load_data(f"{paper}.json")


def list_derived_points() -> list[DerivedPoint]:
    return [DerivedPoint(**point) for point in load_published_tables()["derived_best_of_t"]]


def load_published_curves() -> dict[str, list[float | None]]:
    """Load the means of Figure 2 by method, of 1 to 5 trials, with those that follow from others; None: unknown."""
    published = load_published_tables()["cumulative_best_of_t"]
    curves = {method: list(means) for method, means in published.items()}
    for point in list_derived_points():
        curves[point.method][point.trial - 1] = point.value
    return curves


def describe_derived_points(mark: str = DERIVED) -> str:
    points = []
    for point in list_derived_points():
        points.append(f"{point.value} ({point.method}, t = {point.trial}) is {point.origin}")
    return f"{mark} follows from printed values, and is not printed itself: {'; '.join(points)}."


def build_curve_cells(method: str) -> list[Cell]:
    """Build the cells of a method's means of Figure 2, those marked that follow from others."""
    means = load_published_curves()[method]
    derived_trials = {point.trial for point in list_derived_points() if point.method == method}
    cells = []
    for trial, mean in enumerate(means, start=1):
        cell = format_number(mean, ".2f")
        if trial in derived_trials:
            cell = replace(cell, text=f"{cell.text}{DERIVED}")
        cells.append(cell)
    return cells


def build_published_tables(paper: str) -> list[Sheet]:
    if paper == "rsso":
        return _build_rsso_tables()
    tables = load_published_tables(paper)["tables"]
    return [_build_published_table(**table) for table in tables]


def _build_published_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sheet:
    name = title.partition(":")[0]
    cells = []
    for first, *values in rows:
        cells.append([first, *map(_make_published_cell, values)])
    return build_sheet(name, title, columns, cells)


def _make_published_cell(value: float | str | None) -> Cell:
    if isinstance(value, str):
        return Cell(value)
    return format_number(value, ".1f")


def describe_published_tables(paper: str) -> list[str]:
    data = load_published_tables(paper)
    notes = [*data["notes"], f"{data['source']}."]
    if paper == "rsso":
        return [*_describe_statistics(recompute_statistics()), describe_derived_points(), *notes]
    instruction = (
        f"The files in examples/{paper}/ of the repository play them: rsso-dspy run --config FILE --out DIR, then"
    )
    return [*notes, f"{instruction} rsso-dspy report DIR"]


def recompute_statistics() -> RecomputedStatistics:
    rows = load_published_tables()["table2"]
    by_task = {row["task"]: row["rsso - sso"] for row in rows}
    differences = [round(value, 6) for value in by_task.values()]

    units = []
    for row in rows:
        for variant in range(row["n"]):
            units.append(intervals.UnitValue(row["task"], variant, by_task[row["task"]]))

    return RecomputedStatistics(
        wilcoxon=statistics.run_wilcoxon_test(differences),
        sign=statistics.run_sign_test(differences),
        interval=cast(intervals.MeanInterval, intervals.estimate_interval(units)),
        micro={method: _average_over_variants(rows, method) for method in METHODS},
        macro={method: fmean(row[method] for row in rows) for method in METHODS},
    )


def _average_over_variants(rows: Sequence[Mapping[str, Any]], method: str) -> float:
    """Return the mean of a column of Table 2, in which a task type counts as often as it has variants."""
    variants: int = sum(row["n"] for row in rows)
    points: float = sum(row[method] * row["n"] for row in rows)
    return points / variants


def _build_rsso_tables() -> list[Sheet]:
    """Build Table 1, Figure 2 as a table, and Table 2 with the means recomputed from its rows."""
    scores = _list_score_rows()
    curves = _list_curve_rows()
    means = _list_mean_rows()
    trials = [f"best_of_{number}" for number in range(1, 6)]
    return [
        build_sheet("table1", "Table 1", ("method", "scaffold", "model", "Mean", "Solve", "Acc100"), scores),
        build_sheet("figure2", "Figure 2", ("method", *trials, "gain of trial 2"), curves),
        build_sheet("table2", "Table 2", ("task", "n", *MEANS), means),
    ]


def _list_score_rows() -> list[Sequence[Any]]:
    """Return the rows of Table 1: those of its model, then the means of GPT-4."""
    published = load_published_tables()
    table1 = published["table1"]
    scores = [(row["mean"], tuple(row["solve"]), tuple(row["acc100"])) for row in table1]

    rows: list[Sequence[Any]] = []
    for row, marked_scores in zip(table1, mark_best(scores), strict=True):
        rows.append((row["method"], row["scaffold"], "Claude Sonnet 4.6", *marked_scores))

    scaffolds = {row["method"]: row["scaffold"] for row in table1}
    for row in published["gpt4"]:
        mean = format_number(row["mean"], ".1f")
        rows.append((row["method"], scaffolds[row["method"]], "GPT-4", mean, None, None))
    return rows


def _list_curve_rows() -> list[Sequence[Any]]:
    published = load_published_tables()
    gains = published["trial_1_to_2_gain"]
    rows: list[Sequence[Any]] = []
    for method in published["cumulative_best_of_t"]:
        gain = format_difference(gains.get(method))
        rows.append((method, *build_curve_cells(method), gain))
    return rows


def _list_mean_rows() -> list[Sequence[Any]]:
    published = load_published_tables()
    recomputed = recompute_statistics()
    means = {
        "Overall": published["table2_overall"],
        "recomputed over variants": recomputed.micro,
        "recomputed over task types": recomputed.macro,
    }

    rows: list[Sequence[Any]] = []
    for row in published["table2"]:
        rows.append((row["task"], row["n"], *build_mean_cells(row, 1)))
    for name, values in means.items():
        rows.append((name, "", *build_mean_cells(values, 2)))
    return rows


def build_mean_cells(means: Mapping[str, float], digits: int, tone: Tone = "") -> list[Cell]:
    """Build the cells of the columns `MEANS` from means by method; n/a without them.

    Differences that a paper prints stand among the means: it computed them from more digits than its means show.
    """
    cells = [format_number(means.get(method), f".{digits}f", tone) for method in METHODS]
    for name, (first, second) in DELTAS.items():
        computed = means[first] - means[second] if means else None
        difference = means.get(name, computed)
        cells.append(format_difference(difference, digits, tone))
    return cells


def _describe_statistics(found: RecomputedStatistics) -> Iterator[str]:
    rank = found.wilcoxon
    sign = found.sign
    over = found.interval
    yield (
        f"rsso - sso over {over.clusters} task types: Wilcoxon signed-rank W = {rank.statistic:g}, p = "
        f"{rank.p:.4f} (exact, {rank.used} differences, without zeros), rank-biserial correlation {rank.effect:+.2f}; "
        f"sign test p = {sign.p:.4f} ({sign.up} up, {sign.down} down, {sign.ties} ties)."
    )
    yield (
        f"Over variants {over.mean:+.2f} points, 95% interval over task types {over.low:+.1f} to {over.high:+.1f}; the "
        "smallest difference that a run of this size would find in four of five cases is "
        f"{over.detectable_difference:.1f}."
    )
