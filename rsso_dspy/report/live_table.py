"""The table of a running run: one row per arm, built from numbers in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from rsso_dspy.pricing import format_dollars, format_tokens
from rsso_dspy.report.running_totals import RunningTotals, TokenCost
from rsso_dspy.report.terminal import create_named_table, replace_controls


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One arm of a running run."""

    arm: str
    total: int
    """Total number of units."""
    tally: RunningTotals
    spent: TokenCost
    """Total usage, including unfinished units."""
    trials: Sequence[int] = ()
    """Numbers of the current trials."""
    training: bool = False
    """Whether these are trials of trainings."""


def build_live_table(rows: Sequence[LiveRow]) -> Table:
    """Build the table, with a cost column if any cost is known and not 0."""
    priced = any(row.spent.cost for row in rows)
    costs = ["cost"] if priced else []
    table = create_named_table("", "arm", "units", "errors", "Mean", "solved", "trial", "tokens", *costs)
    for row in rows:
        tally = row.tally
        table.add_row(
            Text(replace_controls(row.arm)),  # a folder's name is no markup
            f"{len(tally.units):,}/{row.total:,}",
            f"{len(tally.errored):,}" if tally.errored else "",
            "" if tally.mean is None else f"{tally.mean:.1f}",
            f"{tally.solved:,}" if tally.units else "",
            _format_active_trials(row),
            format_tokens(row.spent.tokens),
            *([format_dollars(row.spent.cost)] if priced else []),
        )
    return table


def _format_active_trials(row: LiveRow) -> str:
    """Format the numbers of current trials; of four or more, only the first and the last."""
    numbers = sorted(set(row.trials))
    said = ",".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]}-{numbers[-1]}"
    return f"train {said}" if row.training and numbers else said
