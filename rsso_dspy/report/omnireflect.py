"""The published tables of OmniReflect, and rows of our own runs beside them.

build_published_tables(1)                      # Table 1 as sheets
build_own_table(rows)                           # our rows
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.report import cells
from rsso_dspy.report.cells import Cell
from rsso_dspy.report.paper import load_published_tables
from rsso_dspy.report.table_data import Sheet
from rsso_dspy.report.task_measures import TaskMeasures

TABLES = (1, 2, 3, 4, 5)

OwnRow = tuple[str, str, str, str, TaskMeasures]
"""Benchmark, protocol, acting model, arm, measures."""


def build_published_tables(number: int) -> Sheet:
    """One of the Tables 1 to 5."""
    data = load_published_tables("omnireflect")
    benchmarks = data["benchmarks"]
    rows = data[f"table{number}"]
    if number == 1:
        pairs = [(benchmark, model) for benchmark in benchmarks for model in data["models"]]
        columns = ("method", *(f"{benchmark} {model}" for benchmark, model in pairs))
        made = [[row["method"], *(row["success"][b][m] for b, m in pairs)] for row in rows]
        return _make_sheet(number, "success by method and model", columns, made)
    if number == 5:
        models = ("qwen", "gpt-4")
        columns = ("calibration factor", "calibration set", *(f"{benchmarks[0]} {model}" for model in models))
        made = [[str(row["factor"]), str(row["size"]), *(row["success"][m] for m in models)] for row in rows]
        return _make_sheet(number, "calibration variants per task type, advisor GPT-4", columns, made)
    names = {2: ("r_freq", "s_freq"), 3: ("method",), 4: ("agent", "without")}[number]
    about = {
        2: "OmniReflect-Neural, GPT-4: steps between writings, tasks between summaries",
        3: "agents that start from the constitution of a GPT-4 advisor",
        4: "a category of rules left out, GPT-4",
    }[number]
    made = [[*(str(row[name]) for name in names), *(row["success"][b] for b in benchmarks)] for row in rows]
    return _make_sheet(number, about, (*names, *benchmarks), made)


def _make_sheet(number: int, about: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sheet:
    made = tuple(
        tuple(cells.format_text(cell) if isinstance(cell, str) else cells.format_points(cell, 1) for cell in row)
        for row in rows
    )
    return Sheet(f"omnireflect-table{number}", f"Table {number}: {about}", tuple(columns), made)


def build_own_table(rows: Sequence[OwnRow]) -> Sheet:
    """Arms of our own runs: success in percent, and what OmniReflect reports of cost."""
    columns = ("benchmark", "arm", "model", "tasks", "Success", "turns/task", "calls/task", "most calls", "protocol")
    made = []
    for benchmark, protocol, model, arm, row in rows:
        success = 100 * row.solved / row.units if row.units else None
        cost: tuple[Cell, ...] = (
            cells.format_points(row.turns, 1),
            cells.format_points(row.calls, 1),
            cells.format_count(row.most_calls),
        )
        names = (cells.format_text(benchmark), cells.format_text(arm), cells.format_text(model))
        made.append(
            (*names, cells.format_count(row.units), cells.format_points(success, 1), *cost, cells.format_text(protocol))
        )
    note = "Published rows are other models' on other prompts: beside ours for orientation, not for comparison."
    return Sheet("ours", "Ours", columns, tuple(made), (note,))


def build_rules_table(rows: Sequence[OwnRow]) -> Sheet:
    """Rules by category and malformed rule lists, per writer."""
    columns = ("benchmark", "arm", "model", "abstract", "error", "progress", "rule lists", "malformed", "repaired")
    made = []
    for benchmark, _, model, arm, row in rows:
        if row.rules is None:
            continue
        lists = row.writings.calls
        shares = [count / lists if lists else None for count in (row.writings.malformed, row.writings.repaired)]
        made.append(
            (
                *(cells.format_text(name) for name in (benchmark, arm, model)),
                *(cells.format_points(row.rules[name], 1) for name in ("abstract", "error", "progress")),
                cells.format_count(lists),
                *map(cells.format_percent, shares),
            )
        )
    return Sheet("rules", "Rules per writer", columns, tuple(made))


def describe_published_cost() -> str:
    """What OmniReflect says of calls and rules, in words (section 3.5 and appendix A.2)."""
    said: Mapping[str, Any] = load_published_tables("omnireflect")["calls"]
    low, high = said["abstract_rules"]
    return (
        f"Published: Reflexion up to {said['reflexion_most']} calls of one task, OmniReflect-Neural fewer than "
        f"{said['neural_most']}, Symbolic none for rules; {low} to {high} abstract and fewer than "
        f"{said['error_rules_most']} error rules per benchmark; over half of the smaller models' rule lists malformed."
    )
