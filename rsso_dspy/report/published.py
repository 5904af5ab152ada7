"""The published tables, statistics recomputed from them, and rows of our own runs beside them.

load_published_tables("rsso")["table2"][0]      # boil: means of the four methods over its variants
recompute_statistics()                          # the paper's statistics, from its Table 2
build_omnireflect_table(1), build_own_omnireflect_tables([measure_own_arm(benchmark, records)])
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from rsso_dspy.errors import UnknownName
from rsso_dspy.records import UnitRecord
from rsso_dspy.report.metrics import CATEGORIES, Learning, TaskMeasures, compute_learning, measure_tasks
from rsso_dspy.report.sheets import (
    NOTHING,
    Cell,
    Sheet,
    format_count,
    format_difference,
    format_percent,
    format_points,
    format_text,
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

COMPARED = ("reflexion", "sso")
"""Methods that Table 2 compares rSSO with."""

PAPERS = ("rsso", "omnireflect", "reflexion")
"""Papers whose tables are here, each a file in ``data``."""

OMNIREFLECT_TABLES = (1, 2, 3, 4, 5)

SHARE = 75
"""Percentage of variants whose number of trials is printed, one of `metrics.LEVELS`."""

ORIENTATION = "Published rows are other models' on other prompts: beside ours for orientation, not for comparison."


@dataclass(frozen=True, slots=True)
class RecomputedStatistics:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: WilcoxonResult
    sign: SignTestResult
    interval: BootstrapInterval
    """Interval of the mean difference over variants, clustered by task type. It needs only the sums and sizes of task
    types, which Table 2 gives."""
    micro: Mapping[str, float]
    """Method to the mean over variants."""
    macro: Mapping[str, float]
    """Method to the mean over task types."""


@cache
def load_published_tables(paper: str = "rsso") -> dict[str, Any]:
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), omnireflect (success rates in
    percent), or reflexion (`tables` with `title`, `columns` and `rows` of texts). Raises `UnknownName`."""
    if paper not in PAPERS:
        raise UnknownName("paper", paper, PAPERS)
    text = resources.files(__package__).joinpath(f"data/{paper}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def recompute_statistics() -> RecomputedStatistics:
    """Recompute the statistics of rSSO against SSO from Table 2."""
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
    first = [
        (
            *map(format_text, (row["method"], row["scaffold"], "Claude Sonnet 4.6")),
            format_points(row["mean"]),
            *(Cell("/".join(map(str, row[key]))) for key in ("solve", "acc100")),
        )
        for row in published["table1"]
    ]
    first += [
        (
            *map(format_text, (row["method"], scaffolds[row["method"]], "GPT-4")),
            format_points(row["mean"], 1),
            Cell(NOTHING),
            Cell(NOTHING),
        )
        for row in published["gpt4"]
    ]
    gains = published["trial_1_to_2_gain"]
    gained = [(format_text(method), format_difference(gains[method])) for method in METHODS if method in gains]
    second = [
        (format_text(row["task"]), format_count(row["n"]), *_build_mean_cells(row, 1)) for row in published["table2"]
    ]
    means = [
        (format_text(name), *_build_mean_cells(each, 2))
        for name, each in (("variants (micro)", found.micro), ("task types (macro)", found.macro))
    ]
    columns = (*METHODS, *(f"rsso - {name}" for name in COMPARED))
    return [
        Sheet("table1", "Table 1", ("method", "scaffold", "model", "Mean", "Solve", "Acc100"), tuple(first)),
        Sheet("gains", "Gain of trial 2", ("method", "gain"), tuple(gained)),
        Sheet("table2", "Table 2", ("task", "n", *columns), tuple(second)),
        Sheet("means", "Means, recomputed from Table 2", ("over", *columns), tuple(means)),
    ]


def _build_mean_cells(means: Mapping[str, float], digits: int) -> list[Cell]:
    differences = (format_difference(means["rsso"] - means[name], digits) for name in COMPARED)
    return [*(format_points(means[method], digits) for method in METHODS), *differences]


def describe_rsso_statistics() -> list[str]:
    """Describe what follows from rSSO's tables, and how to read them."""
    found = recompute_statistics()
    task, points = load_published_tables()["ceiling"].values()
    rank, sign, over = found.wilcoxon, found.sign, found.interval
    return [
        f"rsso - sso over {over.clusters} task types: Wilcoxon signed-rank W = {rank.statistic:g}, p = "
        f"{rank.p:.4f} (exact, {rank.used} differences, without zeros), rank-biserial correlation {rank.effect:+.2f}; "
        f"sign test p = {sign.p:.4f} ({sign.up} up, {sign.down} down, {sign.ties} ties).",
        f"Over variants {over.mean:+.2f} points, 95% interval over task types {over.low:+.1f} to {over.high:+.1f}; the "
        "smallest difference that a run of this size would find in four of five cases is "
        f"{over.detectable_difference:.1f}.",
        "Table 1 prints means over variants. Means over task types, as in SSO's own table, are lower because task "
        f"types with few variants score lower. On {task} {100 - points} points are held at reset and are never a "
        f"reward, so the sum of rewards cannot exceed {points}: the 91.7 of SSO and rSSO is that ceiling, and the "
        "100.0 of the flat methods follows another rule.",
        "The rows of GPT-4 are for orientation, not for comparison with those of Claude: they are quoted from SSO's "
        "own table, which averages over task types under another protocol, and ReAct's 29.6 and Reflexion's 39.4 in it "
        "come from runs of other authors (SwiftSage, CLIN).",
        load_published_tables()["source"] + ".",
    ]


def build_example_tables(found: Mapping[str, Any]) -> list[Sheet]:
    """Build the tables of example figures in what `load_published_tables` returns for reflexion."""
    return [
        Sheet(
            f"table{number}",
            table["title"],
            tuple(table["columns"]),
            tuple((format_text(first), *map(Cell, cells)) for first, *cells in table["rows"]),
        )
        for number, table in enumerate(found["tables"], start=1)
    ]


@dataclass(frozen=True, slots=True)
class OwnArm:
    """One arm of our own runs."""

    benchmark: str
    protocol: str
    model: str
    arm: str
    measures: TaskMeasures
    learning: Learning


def measure_own_arm(benchmark: str, records: Sequence[UnitRecord]) -> OwnArm:
    """Measure the records of one arm on this benchmark, which must not be empty."""
    first = records[0]
    learning = compute_learning(first.arm, records)
    return OwnArm(benchmark, first.protocol, first.model, first.arm, measure_tasks(records), learning)


def serialize_own_arm(paper: str, row: OwnArm) -> dict[str, Any]:
    """Return an arm as JSON data, with what the tables of the paper say of it."""
    names = {name: getattr(row, name) for name in ("benchmark", "protocol", "model", "arm")}
    if paper == "omnireflect":
        return {**names, **asdict(row.measures)}
    accuracy = [trial.accuracy for trial in row.learning.success]
    return {**names, "units": row.learning.units, "accuracy": accuracy, "trials_to_75": row.learning.trials_to[SHARE]}


def build_omnireflect_table(number: int) -> Sheet:
    """One of the Tables 1 to 5."""
    data = load_published_tables("omnireflect")
    benchmarks = data["benchmarks"]
    rows = data[f"table{number}"]
    if number == 1:
        pairs = [(benchmark, model) for benchmark in benchmarks for model in data["models"]]
        columns = ("method", *(f"{benchmark} {model}" for benchmark, model in pairs))
        made = [[row["method"], *(row["success"][b][m] for b, m in pairs)] for row in rows]
        return _build_omnireflect_sheet(number, "success by method and model", columns, made)
    if number == 5:
        models = ("qwen", "gpt-4")
        columns = ("calibration factor", "calibration set", *(f"{benchmarks[0]} {model}" for model in models))
        made = [[str(row["factor"]), str(row["size"]), *(row["success"][m] for m in models)] for row in rows]
        return _build_omnireflect_sheet(number, "calibration variants per task type, advisor GPT-4", columns, made)
    names = {2: ("r_freq", "s_freq"), 3: ("method",), 4: ("agent", "without")}[number]
    about = {
        2: "OmniReflect-Neural, GPT-4: steps between writings, tasks between summaries",
        3: "agents that start from the constitution of a GPT-4 advisor",
        4: "a category of rules left out, GPT-4",
    }[number]
    made = [[*(str(row[name]) for name in names), *(row["success"][b] for b in benchmarks)] for row in rows]
    return _build_omnireflect_sheet(number, about, (*names, *benchmarks), made)


def _build_omnireflect_sheet(number: int, about: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sheet:
    made = tuple(
        tuple(format_text(cell) if isinstance(cell, str) else format_points(cell, 1) for cell in row) for row in rows
    )
    return Sheet(f"omnireflect-table{number}", f"Table {number}: {about}", tuple(columns), made)


def build_own_omnireflect_tables(rows: Sequence[OwnArm]) -> list[Sheet]:
    """Build the tables of our own arms: success in percent and what OmniReflect reports of cost, and rules by category
    with malformed rule lists, per writer."""
    made, ruled = [], []
    for row in rows:
        found = row.measures
        names = tuple(map(format_text, (row.benchmark, row.arm, row.model)))
        success = 100 * found.solved / found.units if found.units else None
        cost = (format_points(found.turns, 1), format_points(found.calls, 1), format_count(found.most_calls))
        made.append((*names, format_count(found.units), format_points(success, 1), *cost, format_text(row.protocol)))
        if found.rules is not None:
            lists = found.writings.calls
            shares = [count / lists if lists else None for count in (found.writings.malformed, found.writings.repaired)]
            rules = (format_points(found.rules[name], 1) for name in CATEGORIES)
            ruled.append((*names, *rules, format_count(lists), *map(format_percent, shares)))
    columns = ("benchmark", "arm", "model", "tasks", "Success", "turns/task", "calls/task", "most calls", "protocol")
    writers = ("benchmark", "arm", "model", *CATEGORIES, "rule lists", "malformed", "repaired")
    return [
        Sheet("ours", "Ours", columns, tuple(made), (ORIENTATION,)),
        Sheet("rules", "Rules per writer", writers, tuple(ruled)),
    ]


def describe_omnireflect_cost() -> str:
    """What OmniReflect says of calls and rules, in words (section 3.5 and appendix A.2)."""
    said: Mapping[str, Any] = load_published_tables("omnireflect")["calls"]
    low, high = said["abstract_rules"]
    return (
        f"Published: Reflexion up to {said['reflexion_most']} calls of one task, OmniReflect-Neural fewer than "
        f"{said['neural_most']}, Symbolic none for rules; {low} to {high} abstract and fewer than "
        f"{said['error_rules_most']} error rules per benchmark; over half of the smaller models' rule lists malformed."
    )


def build_own_reflexion_tables(rows: Sequence[OwnArm]) -> list[Sheet]:
    """Build final success, and accuracy trial by trial, of our own arms, with the columns of the published tables."""
    final, by_trial = [], []
    most = max((len(row.learning.success) for row in rows), default=0)
    for row in rows:
        accuracy = [trial.accuracy for trial in row.learning.success]
        names = tuple(map(format_text, (row.benchmark, row.arm, row.model)))
        last = format_percent(accuracy[-1] if accuracy else None)
        taken = row.learning.trials_to[SHARE]
        trials = Cell("never") if taken is None else format_count(taken)
        final.append((*names, format_count(row.learning.units), last, trials, format_text(row.protocol)))
        shares = [Cell(f"{share:.2f}", share) for share in accuracy]
        by_trial.append((names[1], *shares, *[Cell("")] * (most - len(shares))))
    columns = ("benchmark", "method", "model", "variants", "success", f"trials to {SHARE}%", "protocol")
    note = (
        "Ours count a variant as solved from its first success on, and do not play it again. The react row above falls "
        "from one trial to the next, so it counts each trial by itself."
    )
    trials_played = ("method", *map(str, range(1, most + 1)))
    return [
        Sheet("ours_final", "Ours: final success", columns, tuple(final), (ORIENTATION,)),
        Sheet("ours_by_trial", "Ours: accuracy, trial by trial", trials_played, tuple(by_trial), (note,)),
    ]
