"""What a run cost: billed, and what the same tokens would have cost had the provider cached nothing."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rsso_dspy.money import Entry, Price, PriceOf, bill, cost, dollars, total
from rsso_dspy.report.terminal import named_table
from rsso_dspy.trajectory import Record, Usage

Abandoned = tuple[str, str, Usage]
"""Arm, role and usage of what no record tells of: trials cut short, or errored and played again."""


def unpriced(_model: str) -> Price | None:
    """No price is known."""
    return None


def bill_tables(
    records: Sequence[Record], price_of: PriceOf, abandoned: Sequence[Abandoned], begun: int = 0
) -> list[RenderableType]:
    """A table of costs by arm, role and model, unless everything is free; and a line on what stands in no record. The
    last `begun` records are of units and trainings that are not finished."""
    parts: list[RenderableType] = []
    entries = bill(records, price_of)
    if any(price is None or not price.free for price in (price_of(entry.model) for entry in entries)):
        parts.append(_table(entries))
    if begun:
        spent = sum((usage for each in records[-begun:] for t in each.trials for usage in t.usage.values()), Usage())
        said = f"{spent.calls:,} calls, {spent.input:,} tokens in and {spent.output:,} out"
        parts.append(
            Text(f"Of units and trainings that are not finished: {said}; in costs, not in scores.", style="dim")
        )
    if abandoned:
        spent = sum((usage for _, _, usage in abandoned), Usage())
        more = _lost(abandoned, _models(records), price_of)
        parts.append(
            Text(
                f"Not in the tables: {spent.calls:,} calls, {spent.input:,} tokens in and {spent.output:,} out, "
                f"{dollars(more)}, of trials that were cut short or ended in errors and were played again.",
                style="dim",
            )
        )
    return parts


def bill_json(records: Sequence[Record], price_of: PriceOf, abandoned: Sequence[Abandoned]) -> dict[str, Any]:
    """The same as JSON data; dollars, null where a price is not known."""
    entries = bill(records, price_of)
    return {
        "currency": "USD",
        "entries": [asdict(entry) for entry in entries],
        "billed": total(entry.billed for entry in entries),
        "without_cache": total(entry.without_cache for entry in entries),
        "abandoned": [{"arm": arm, "role": role, "usage": asdict(usage)} for arm, role, usage in abandoned],
        "abandoned_billed": _lost(abandoned, _models(records), price_of),
    }


def _table(entries: Sequence[Entry]) -> Table:
    table = named_table(
        "Cost in US dollars",
        "arm",
        "role",
        "model",
        "in",
        "cached",
        "written",
        "out",
        "reasoning",
        "billed",
        "uncached",
    )
    for entry in entries:
        usage = entry.usage
        counts = (usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning)
        amounts = (dollars(entry.billed), dollars(entry.without_cache))
        table.add_row(entry.arm, entry.role, entry.model, *(f"{count:,}" for count in counts), *amounts)
    billed, without = (total(amounts) for amounts in zip(*((e.billed, e.without_cache) for e in entries), strict=True))
    table.add_row("all", "", "", "", "", "", "", "", dollars(billed), dollars(without), style="bold")
    return table


def _models(records: Sequence[Record]) -> dict[str, str]:
    return {role: model for record in records for role, model in record.models.items()}


def _lost(abandoned: Sequence[Abandoned], models: dict[str, str], price_of: PriceOf) -> float | None:
    amounts = []
    for _, role, usage in abandoned:
        price = price_of(models.get(role, ""))
        amounts.append(cost(usage, price) if price else None)
    return total(amounts)
