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
    return dict(tomllib.loads(text) if name.endswith(".toml") else json.loads(text))


def load_published_tables(paper: str = "rsso") -> dict[str, Any]:
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), or with `title`, `columns` and
    `rows` those of omnireflect (success rates in percent) and reflexion (texts)."""
    return load_data(f"{paper}.json")


def list_derived_points() -> list[DerivedPoint]:
    return [DerivedPoint(**point) for point in load_published_tables()["derived_best_of_t"]]


def load_published_curves() -> dict[str, list[float | None]]:
    """Load the means of Figure 2 by method, of 1 to 5 trials, with those that follow from others; None: unknown."""
    curves = {method: list(means) for method, means in load_published_tables()["cumulative_best_of_t"].items()}
    for point in list_derived_points():
        curves[point.method][point.trial - 1] = point.value
    return curves


def describe_derived_points(mark: str = DERIVED) -> str:
    points = [f"{point.value} ({point.method}, t = {point.trial}) is {point.origin}" for point in list_derived_points()]
    return f"{mark} follows from printed values, and is not printed itself: {'; '.join(points)}."


def build_curve_cells(method: str) -> list[Cell]:
    """Build the cells of a method's means of Figure 2, those marked that follow from others."""
    derived = {point.trial for point in list_derived_points() if point.method == method}
    cells = []
    for trial, mean in enumerate(load_published_curves()[method], start=1):
        cell = format_number(mean, ".2f")
        cells.append(replace(cell, text=f"{cell.text}{DERIVED}") if trial in derived else cell)
    return cells


def build_published_tables(paper: str) -> list[Sheet]:
    if paper == "rsso":
        return _build_rsso_tables()

    def build(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sheet:
        cells = (
            [first, *(Cell(x) if isinstance(x, str) else format_number(x, ".1f") for x in row)] for first, *row in rows
        )
        return build_sheet(title.partition(":")[0], title, columns, cells)

    return [build(**table) for table in load_published_tables(paper)["tables"]]


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
    units = [
        intervals.UnitValue(row["task"], variant, by_task[row["task"]]) for row in rows for variant in range(row["n"])
    ]
    total = sum(row["n"] for row in rows)
    return RecomputedStatistics(
        statistics.run_wilcoxon_test(differences),
        statistics.run_sign_test(differences),
        cast(intervals.MeanInterval, intervals.estimate_interval(units)),
        {method: sum(row[method] * row["n"] for row in rows) / total for method in METHODS},
        {method: fmean(row[method] for row in rows) for method in METHODS},
    )


def _build_rsso_tables() -> list[Sheet]:
    """Build Table 1, Figure 2 as a table, and Table 2 with the means recomputed from its rows."""
    published = load_published_tables()
    recomputed = recompute_statistics()
    table1 = published["table1"]
    gains = published["trial_1_to_2_gain"]
    marked = mark_best([(row["mean"], tuple(row["solve"]), tuple(row["acc100"])) for row in table1])
    first: list[Sequence[Any]] = [
        (row["method"], row["scaffold"], "Claude Sonnet 4.6", *scores)
        for row, scores in zip(table1, marked, strict=True)
    ]
    scaffolds = {row["method"]: row["scaffold"] for row in table1}
    first += [
        (row["method"], scaffolds[row["method"]], "GPT-4", format_number(row["mean"], ".1f"), None, None)
        for row in published["gpt4"]
    ]
    curves = [
        (method, *build_curve_cells(method), format_difference(gains.get(method)))
        for method in published["cumulative_best_of_t"]
    ]
    second = [(row["task"], row["n"], *build_mean_cells(row, 1)) for row in published["table2"]]
    means = {
        "Overall": published["table2_overall"],
        "recomputed over variants": recomputed.micro,
        "recomputed over task types": recomputed.macro,
    }
    second += [(name, "", *build_mean_cells(values, 2)) for name, values in means.items()]
    trials = [f"best_of_{number}" for number in range(1, 6)]
    return [
        build_sheet("table1", "Table 1", ("method", "scaffold", "model", "Mean", "Solve", "Acc100"), first),
        build_sheet("figure2", "Figure 2", ("method", *trials, "gain of trial 2"), curves),
        build_sheet("table2", "Table 2", ("task", "n", *MEANS), second),
    ]


def build_mean_cells(means: Mapping[str, float], digits: int, tone: Tone = "") -> list[Cell]:
    """Build the cells of the columns `MEANS` from means by method; n/a without them.

    Differences that a paper prints stand among the means: it computed them from more digits than its means show.
    """
    differences = []
    for name, (first, second) in DELTAS.items():
        computed = means[first] - means[second] if means else None
        differences.append(means.get(name, computed))
    return [
        *(format_number(means.get(method), f".{digits}f", tone) for method in METHODS),
        *(format_difference(difference, digits, tone) for difference in differences),
    ]


def _describe_statistics(found: RecomputedStatistics) -> Iterator[str]:
    rank, sign, over = found.wilcoxon, found.sign, found.interval
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
