"""The published tables, and statistics recomputed from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from rsso_dspy.report.sheets import Cell, Sheet, build_sheet, format_difference, format_number
from rsso_dspy.report.statistics import (
    BootstrapInterval,
    SignTestResult,
    WilcoxonResult,
    bootstrap_mean,
    run_sign_test,
    run_wilcoxon_test,
)

METHODS = ("react", "reflexion", "sso", "rsso")
COMPARED = ("reflexion", "sso")  # methods that Table 2 compares rSSO with


@dataclass(frozen=True, slots=True)
class RecomputedStatistics:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: WilcoxonResult
    sign: SignTestResult
    interval: BootstrapInterval  # of the mean over variants, clustered by task type
    micro: Mapping[str, float]  # method to the mean over variants
    macro: Mapping[str, float]  # method to the mean over task types


@cache
def load_published_tables(paper: str = "rsso") -> dict[str, Any]:
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), or with `title`, `columns` and
    `rows` those of omnireflect (success rates in percent) and reflexion (texts)."""
    text = resources.files(__package__).joinpath(f"data/{paper}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def build_published_tables(paper: str) -> list[Sheet]:
    if paper == "rsso":
        return build_rsso_tables()
    return [
        build_sheet(
            table["title"].partition(":")[0],
            table["title"],
            table["columns"],
            [
                [first, *(Cell(each) if isinstance(each, str) else format_number(each, ".1f") for each in cells)]
                for first, *cells in table["rows"]
            ],
        )
        for table in load_published_tables(paper)["tables"]
    ]


def describe_published_tables(paper: str) -> list[str]:
    if paper == "rsso":
        return describe_rsso_statistics()
    data = load_published_tables(paper)
    return [
        *data["notes"],
        f"{data['source']}.",
        f"The files in examples/{paper}/ of the repository play them: rsso-dspy run --config FILE --out DIR, then "
        "rsso-dspy report DIR",
    ]


def recompute_statistics() -> RecomputedStatistics:
    rows = load_published_tables()["table2"]
    by_task = {row["task"]: [row["rsso"] - row["sso"]] * row["n"] for row in rows}
    differences = [round(values[0], 6) for values in by_task.values()]
    interval = bootstrap_mean(by_task)
    assert interval is not None
    total = sum(row["n"] for row in rows)
    return RecomputedStatistics(
        run_wilcoxon_test(differences),
        run_sign_test(differences),
        interval,
        {method: sum(row[method] * row["n"] for row in rows) / total for method in METHODS},
        {method: fmean(row[method] for row in rows) for method in METHODS},
    )


def build_rsso_tables() -> list[Sheet]:
    """Build Table 1, the gain of trial 2, Table 2 with both differences of rSSO, and its means, recomputed."""
    published, found = load_published_tables(), recompute_statistics()
    scaffolds = {row["method"]: row["scaffold"] for row in published["table1"]}
    first: list[Sequence[Any]] = [
        (
            *(row["method"], row["scaffold"], "Claude Sonnet 4.6", row["mean"]),
            *(Cell("/".join(map(str, row[key]))) for key in ("solve", "acc100")),
        )
        for row in published["table1"]
    ]
    first += [
        (row["method"], scaffolds[row["method"]], "GPT-4", format_number(row["mean"], ".1f"), None, None)
        for row in published["gpt4"]
    ]
    gains = published["trial_1_to_2_gain"]
    gained = [(method, format_difference(gains[method])) for method in METHODS if method in gains]
    second = [(row["task"], row["n"], *_build_mean_cells(row, 1)) for row in published["table2"]]
    names = {"variants (micro)": found.micro, "task types (macro)": found.macro}
    means = [(name, *_build_mean_cells(each, 2)) for name, each in names.items()]
    columns = (*METHODS, *(f"rsso - {name}" for name in COMPARED))
    return [
        build_sheet("table1", "Table 1", ("method", "scaffold", "model", "Mean", "Solve", "Acc100"), first),
        build_sheet("gains", "Gain of trial 2", ("method", "gain"), gained),
        build_sheet("table2", "Table 2", ("task", "n", *columns), second),
        build_sheet("means", "Means, recomputed from Table 2", ("over", *columns), means),
    ]


def _build_mean_cells(means: Mapping[str, float], digits: int) -> list[Cell]:
    differences = (format_difference(means["rsso"] - means[name], digits) for name in COMPARED)
    return [*(format_number(means[method], f".{digits}f") for method in METHODS), *differences]


def describe_rsso_statistics() -> list[str]:
    found = recompute_statistics()
    rank, sign, over = found.wilcoxon, found.sign, found.interval
    return [
        f"rsso - sso over {over.clusters} task types: Wilcoxon signed-rank W = {rank.statistic:g}, p = "
        f"{rank.p:.4f} (exact, {rank.used} differences, without zeros), rank-biserial correlation {rank.effect:+.2f}; "
        f"sign test p = {sign.p:.4f} ({sign.up} up, {sign.down} down, {sign.ties} ties).",
        f"Over variants {over.mean:+.2f} points, 95% interval over task types {over.low:+.1f} to {over.high:+.1f}; the "
        "smallest difference that a run of this size would find in four of five cases is "
        f"{over.detectable_difference:.1f}.",
        "Rows of GPT-4 are quoted from SSO's own table, under another protocol: for orientation, not for comparison.",
        load_published_tables()["source"] + ".",
    ]
