"""The published tables, and statistics recomputed from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from importlib import resources
from operator import getitem
from statistics import fmean
from typing import Any

from rsso_dspy.report.sheets import (
    Cell,
    Sheet,
    build_sheet,
    format_difference,
    format_points,
)
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
OMNIREFLECT_TABLES = (1, 2, 3, 4, 5)


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
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), omnireflect (success rates in
    percent), or reflexion (`tables` with `title`, `columns` and `rows` of texts)."""
    text = resources.files(__package__).joinpath(f"data/{paper}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


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
        (row["method"], scaffolds[row["method"]], "GPT-4", format_points(row["mean"], 1), None, None)
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
    return [*(format_points(means[method], digits) for method in METHODS), *differences]


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


def build_example_tables(found: Mapping[str, Any]) -> list[Sheet]:
    """Build the tables of example figures in what `load_published_tables` returns for reflexion."""
    return [
        build_sheet(
            f"table{number}",
            table["title"],
            table["columns"],
            [(first, *map(Cell, cells)) for first, *cells in table["rows"]],
        )
        for number, table in enumerate(found["tables"], start=1)
    ]


def build_omnireflect_table(number: int) -> Sheet:
    data = load_published_tables("omnireflect")
    benchmarks, rows = data["benchmarks"], data[f"table{number}"]
    names, about = {
        1: (("method",), "success by method and model"),
        2: (("r_freq", "s_freq"), "OmniReflect-Neural, GPT-4: steps between writings, tasks between summaries"),
        3: (("method",), "agents that start from the constitution of a GPT-4 advisor"),
        4: (("agent", "without"), "a category of rules left out, GPT-4"),
        5: (("factor", "size"), "calibration variants per task type, advisor GPT-4"),
    }[number]
    heads: tuple[str, ...] = names
    columns: dict[str, tuple[str, ...]] = {name: (name,) for name in benchmarks}
    if number == 1:
        columns = {f"{benchmark} {model}": (benchmark, model) for benchmark in benchmarks for model in data["models"]}
    elif number == 5:
        heads = ("calibration factor", "calibration set")
        columns = {f"{benchmarks[0]} {model}": (model,) for model in ("qwen", "gpt-4")}
    made = [
        (
            *(str(row[name]) for name in names),
            *(format_points(reduce(getitem, each, row["success"]), 1) for each in columns.values()),
        )
        for row in rows
    ]
    return build_sheet(f"omnireflect-table{number}", f"Table {number}: {about}", (*heads, *columns), made)


def describe_omnireflect_cost() -> str:
    """What OmniReflect says of calls and rules, in words (section 3.5 and appendix A.2)."""
    said: Mapping[str, Any] = load_published_tables("omnireflect")["calls"]
    low, high = said["abstract_rules"]
    return (
        f"Published: Reflexion up to {said['reflexion_most']} calls of one task, OmniReflect-Neural fewer than "
        f"{said['neural_most']}, Symbolic none for rules; {low} to {high} abstract and fewer than "
        f"{said['error_rules_most']} error rules per benchmark; over half of the smaller models' rule lists malformed."
    )
