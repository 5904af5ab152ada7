"""A run that is being played, as a table: a row per arm. It takes numbers and reads nothing, whoever watches."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from rsso_dspy.pricing import format_dollars, format_tokens
from rsso_dspy.report.running_totals import RunningTotals, TokenCost
from rsso_dspy.report.terminal import create_named_table, replace_controls


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One arm of a run that is being played."""

    arm: str
    total: int | None
    """Units that it has in all; None when that is not known."""
    tally: RunningTotals
    spent: TokenCost
    """All that was spent, also on what is not finished."""
    trials: Sequence[int] = ()
    """Numbers of the trials under way."""
    training: bool = False
    """Whether they are of trainings."""


def build_live_table(rows: Sequence[LiveRow]) -> Table:
    """The table. Costs have a column when one of them is known and not nothing."""
    priced = any(row.spent.cost for row in rows)
    costs = ["cost"] if priced else []
    table = create_named_table("", "arm", "units", "errors", "Mean", "solved", "trial", "tokens", *costs)
    for row in rows:
        tally = row.tally
        table.add_row(
            Text(replace_controls(row.arm)),  # a folder's name is no markup
            f"{len(tally.units):,}/{'?' if row.total is None else f'{row.total:,}'}",
            f"{len(tally.errored):,}" if tally.errored else "",
            "" if tally.mean is None else f"{tally.mean:.1f}",
            f"{tally.solved:,}" if tally.units else "",
            _format_active_trials(row),
            format_tokens(row.spent.tokens),
            *([format_dollars(row.spent.cost)] if priced else []),
        )
    return table


def _format_active_trials(row: LiveRow) -> str:
    """The numbers of the trials under way, the first and the last of many."""
    numbers = sorted(set(row.trials))
    said = ",".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]}-{numbers[-1]}"
    return f"train {said}" if row.training and numbers else said
