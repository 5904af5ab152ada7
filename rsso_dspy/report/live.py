"""A run that is being played, as a table: a row per arm. It takes numbers and reads nothing, whoever watches."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from rsso_dspy.money import dollars, tokens
from rsso_dspy.report.tally import Spent, Tally
from rsso_dspy.report.terminal import named_table, visible


@dataclass(frozen=True, slots=True)
class Row:
    """One arm of a run that is being played."""

    arm: str
    total: int | None
    """Units that it has in all; None when that is not known."""
    tally: Tally
    spent: Spent
    """All that was spent, also on what is not finished."""
    trials: Sequence[int] = ()
    """Numbers of the trials under way."""
    training: bool = False
    """Whether they are of trainings."""


def live_table(rows: Sequence[Row]) -> Table:
    """The table. Costs have a column when one of them is known and not nothing."""
    priced = any(row.spent.cost for row in rows)
    costs = ["cost"] if priced else []
    table = named_table("", "arm", "units", "errors", "Mean", "solved", "trial", "tokens", *costs)
    for row in rows:
        tally = row.tally
        table.add_row(
            Text(visible(row.arm)),  # a folder's name is no markup
            f"{len(tally.units):,}/{'?' if row.total is None else f'{row.total:,}'}",
            f"{len(tally.errored):,}" if tally.errored else "",
            "" if tally.mean is None else f"{tally.mean:.1f}",
            f"{tally.solved:,}" if tally.units else "",
            _trials(row),
            tokens(row.spent.tokens),
            *([dollars(row.spent.cost)] if priced else []),
        )
    return table


def _trials(row: Row) -> str:
    """The numbers of the trials under way, the first and the last of many."""
    numbers = sorted(set(row.trials))
    said = ",".join(map(str, numbers)) if len(numbers) < 4 else f"{numbers[0]}-{numbers[-1]}"
    return f"train {said}" if row.training and numbers else said
