"""What a run cost: billed, and what the same tokens would have cost had the provider cached nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from rsso_dspy.money import Entry, Price, PriceOf, bill, cost, dollars, total
from rsso_dspy.report.sheets import Cell, Sheet, named, whole
from rsso_dspy.trajectory import Record, Usage

Abandoned = tuple[str, str, Usage]
"""Arm, role and usage of what no record tells of: trials cut short, or errored and played again."""


def unpriced(_model: str) -> Price | None:
    """No price is known."""
    return None


@dataclass(frozen=True, slots=True)
class Bill:
    """What everything in a run's folder cost, in US dollars; None where a price is not known."""

    entries: tuple[Entry, ...]
    """By arm, role and model."""
    free: bool
    """Whether every model asked is free."""
    abandoned: tuple[Abandoned, ...]
    abandoned_billed: float | None
    begun: Usage
    """Of units and trainings that are not finished; in the entries as well."""
    under_way: tuple[Abandoned, ...] = ()
    """Of trials that a process plays now: in no record and not abandoned."""
    under_way_billed: float | None = 0.0

    @property
    def billed(self) -> float | None:
        return total(entry.billed for entry in self.entries)

    @property
    def without_cache(self) -> float | None:
        return total(entry.without_cache for entry in self.entries)


def bill_of(
    finished: Sequence[Record],
    begun: Sequence[Record],
    abandoned: Sequence[Abandoned],
    price_of: PriceOf,
    under_way: Sequence[Abandoned] = (),
    models: Mapping[str, str] = MappingProxyType({}),
) -> Bill:
    """The bill of a run. `models` maps role to model, where no record says it."""
    entries = tuple(bill([*finished, *begun], price_of))
    prices = [price_of(entry.model) for entry in entries]
    unfinished = (usage for record in begun for trial in record.trials for usage in trial.usage.values())
    models = dict(models) | {role: model for record in (*finished, *begun) for role, model in record.models.items()}
    return Bill(
        entries,
        all(price is not None and price.free for price in prices),
        tuple(abandoned),
        _lost(abandoned, models, price_of),
        sum(unfinished, Usage()),
        tuple(under_way),
        _lost(under_way, models, price_of),
    )


def bill_table(bill: Bill) -> Sheet:
    """Costs by arm, role and model; no rows when everything is free."""
    rows = []
    if not bill.free:
        for entry in bill.entries:
            usage = entry.usage
            counts = (usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning)
            amounts = (_amount(entry.billed), _amount(entry.without_cache))
            rows.append((named(entry.arm), named(entry.role), named(entry.model), *map(whole, counts), *amounts))
        totals = (_amount(bill.billed), _amount(bill.without_cache))
        rows.append((named("all", "total"), *[named("")] * 2, *[Cell("")] * 5, *totals))
    columns = ("arm", "role", "model", "in", "cached", "written", "out", "reasoning", "billed", "uncached")
    return Sheet("bill", "Cost in US dollars", columns, tuple(rows))


def spent_elsewhere(bill: Bill) -> list[str]:
    """In words, what was spent on what stands in no finished record."""
    lines = []
    if bill.begun.calls:
        lines.append(f"Of units and trainings that are not finished: {_words(bill.begun)}; in costs, not in scores.")
    if bill.abandoned:
        spent = sum((usage for _, _, usage in bill.abandoned), Usage())
        lines.append(
            f"Not in the tables: {_words(spent)}, {dollars(bill.abandoned_billed)}, of trials that were cut short, or "
            "ended in errors and were begun again."
        )
    if bill.under_way:
        spent = sum((usage for _, _, usage in bill.under_way), Usage())
        lines.append(f"Nor are {_words(spent)}, {dollars(bill.under_way_billed)}, of trials that a process plays now.")
    return lines


def bill_json(bill: Bill) -> dict[str, Any]:
    """The same as JSON data; dollars, null where a price is not known."""
    return {
        "currency": "USD",
        "entries": [asdict(entry) for entry in bill.entries],
        "billed": bill.billed,
        "without_cache": bill.without_cache,
        "abandoned": _told(bill.abandoned),
        "abandoned_billed": bill.abandoned_billed,
        "under_way": _told(bill.under_way),
        "under_way_billed": bill.under_way_billed,
    }


def _told(costs: Sequence[Abandoned]) -> list[dict[str, Any]]:
    return [{"arm": arm, "role": role, "usage": asdict(usage)} for arm, role, usage in costs]


def _words(usage: Usage) -> str:
    return f"{usage.calls:,} call{'' if usage.calls == 1 else 's'}, {usage.input:,} tokens in and {usage.output:,} out"


def _amount(amount: float | None) -> Cell:
    return Cell(dollars(amount), amount)


def _lost(abandoned: Sequence[Abandoned], models: dict[str, str], price_of: PriceOf) -> float | None:
    amounts = []
    for _, role, usage in abandoned:
        price = price_of(models.get(role, ""))
        amounts.append(cost(usage, price) if price else None)
    return total(amounts)
