"""The published tables for the terminal."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rsso_dspy.report.paper import (
    CEILING,
    CEILING_TASK,
    METHODS,
    list_table2_rows,
    load_published_tables,
    recompute_statistics,
)
from rsso_dspy.report.terminal import create_named_table


def build_paper_tables() -> Group:
    """Table 1, Table 2 with the differences of rSSO to SSO, and the statistics."""
    found = recompute_statistics()
    rank, sign, over = found.wilcoxon, found.sign, found.interval
    said = [
        f"rsso - sso over {len(list_table2_rows())} task types: Wilcoxon signed-rank W = {rank.statistic:g}, p = "
        f"{rank.p:.4f} "
        f"(exact, {rank.used} differences, zeros dropped), rank-biserial correlation {rank.effect:+.2f}; sign test "
        f"p = {sign.p:.4f} ({sign.up} up, {sign.down} down, {sign.ties} ties).",
        f"Over variants {over.mean:+.2f} points, 95% interval over task types {over.low:+.1f} to {over.high:+.1f}; the "
        f"smallest difference that such a run would find in four of five cases is {over.detectable_difference:.1f}.",
        "Means over variants are what Table 1 prints. Over task types, as SSO's own table averages, they are lower: "
        f"task types with few variants score lower. On {CEILING_TASK} 8 points are held at reset and are no reward, so "
        f"that {CEILING} is the most an accumulator of rewards can hold: the 91.7 of SSO and rSSO is that ceiling, and "
        "the 100.0 of the flat methods was added up by another rule.",
        load_published_tables()["source"] + ".",
    ]
    return Group(_build_table1(), Text(), _build_table2(), Text(), _build_means_table(), Text(), Text("\n".join(said)))


def _build_table1() -> Table:
    table = create_named_table("Table 1", "method", "Mean", "Solve", "Acc100")
    for row in load_published_tables()["table1"]:
        shares = ("/".join(map(str, row[key])) for key in ("solve", "acc100"))
        table.add_row(row["method"], f"{row['mean']:.2f}", *shares)
    return table


def _build_table2() -> Table:
    table = create_named_table("Table 2", "task", "n", *METHODS, "rsso - sso")
    for row in list_table2_rows():
        difference = row.means["rsso"] - row.means["sso"]
        mark = "+0.0" if abs(difference) < 0.05 else f"{difference:+.1f}"
        table.add_row(row.task, str(row.variants), *(f"{row.means[name]:.1f}" for name in METHODS), mark)
    return table


def _build_means_table() -> Table:
    found = recompute_statistics()
    table = create_named_table("Means, recomputed from Table 2", "over", *METHODS, "rsso - sso")
    for name, means in (("variants (micro)", found.micro), ("task types (macro)", found.macro)):
        cells = [f"{means[method]:.2f}" for method in METHODS]
        table.add_row(name, *cells, f"{means['rsso'] - means['sso']:+.2f}")
    return table
