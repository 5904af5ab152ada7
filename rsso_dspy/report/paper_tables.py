"""The paper's tables for the terminal."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rsso_dspy.report import cells
from rsso_dspy.report.paper import (
    METHODS,
    list_table2_rows,
    load_published_tables,
    recompute_statistics,
)
from rsso_dspy.report.terminal import create_named_table

COMPARED = ("reflexion", "sso")
"""Methods that Table 2 compares rSSO with."""

WORDS = ("scaffold", "model")
"""Columns of Table 1 that hold words."""


def build_paper_tables() -> Group:
    """Build Table 1, the gain of trial 2, Table 2 with both differences of rSSO, and the recomputed statistics."""
    found = recompute_statistics()
    task, points = load_published_tables()["ceiling"].values()
    rank, sign, over = found.wilcoxon, found.sign, found.interval
    said = [
        f"rsso - sso over {len(list_table2_rows())} task types: Wilcoxon signed-rank W = {rank.statistic:g}, p = "
        f"{rank.p:.4f} "
        f"(exact, {rank.used} differences, without zeros), rank-biserial correlation {rank.effect:+.2f}; sign test "
        f"p = {sign.p:.4f} ({sign.up} up, {sign.down} down, {sign.ties} ties).",
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
    tables = (_build_table1(), _build_gains_table(), _build_table2(), _build_means_table())
    return Group(*(part for table in tables for part in (table, Text())), Text("\n".join(said)))


def build_example_tables(found: dict[str, Any]) -> Group:
    """Tables of `load_example_tables`, with their source."""
    parts: list[RenderableType] = []
    for table in found["tables"]:
        shown = create_named_table(table["title"], *table["columns"])
        for row in table["rows"]:
            shown.add_row(*row)
        parts += [shown, Text()]
    return Group(*parts, Text(f"{found['source']}."))


def _build_table1() -> Table:
    """Table 1, and the figures of another model that it quotes for the methods before rSSO."""
    published = load_published_tables()
    table = create_named_table("Table 1", "method", "scaffold", "model", "Mean", "Solve", "Acc100", words=WORDS)
    for row in published["table1"]:
        shares = ("/".join(map(str, row[key])) for key in ("solve", "acc100"))
        table.add_row(row["method"], row["scaffold"], "Claude Sonnet 4.6", f"{row['mean']:.2f}", *shares)
    scaffolds = {row["method"]: row["scaffold"] for row in published["table1"]}
    for row in published["gpt4"]:
        table.add_row(row["method"], scaffolds[row["method"]], "GPT-4", f"{row['mean']:.1f}", "n/a", "n/a")
    return table


def _build_gains_table() -> Table:
    gains = load_published_tables()["trial_1_to_2_gain"]
    table = create_named_table("Gain of trial 2", "method", "gain")
    for method in METHODS:
        if method in gains:
            table.add_row(method, f"{gains[method]:+.2f}")
    return table


def _build_table2() -> Table:
    table = create_named_table("Table 2", "task", "n", *METHODS, *(f"rsso - {name}" for name in COMPARED))
    for row in list_table2_rows():
        differences = (cells.format_difference(row.means["rsso"] - row.means[name], 1).text for name in COMPARED)
        means = (f"{row.means[name]:.1f}" for name in METHODS)
        table.add_row(row.task, str(row.variants), *means, *differences)
    return table


def _build_means_table() -> Table:
    found = recompute_statistics()
    table = create_named_table(
        "Means, recomputed from Table 2", "over", *METHODS, *(f"rsso - {name}" for name in COMPARED)
    )
    for name, means in (("variants (micro)", found.micro), ("task types (macro)", found.macro)):
        made = [f"{means[method]:.2f}" for method in METHODS]
        table.add_row(name, *made, *(f"{means['rsso'] - means[other]:+.2f}" for other in COMPARED))
    return table
