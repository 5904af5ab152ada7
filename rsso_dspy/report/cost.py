"""Cost of a run as billed, and as it would be without the provider's cache."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from rsso_dspy.pricing import CostEntry, Price, PriceOf, format_dollars, itemize_costs, price_usage, sum_amounts
from rsso_dspy.records import RoleUsage, TrialsRecord, Usage


def return_no_price(_model: str) -> Price | None:
    """Return None: the price of no model is known."""
    return None


def total_usage(entries: Iterable[CostEntry]) -> Usage:
    return sum((entry.usage for entry in entries), Usage())


def total_billed(entries: Iterable[CostEntry]) -> float | None:
    return sum_amounts(entry.billed for entry in entries)


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost of everything in a run's folder in US dollars; None if a price is unknown."""

    entries: tuple[CostEntry, ...]  # by arm, role and model
    free: bool  # whether all models are free
    abandoned: tuple[CostEntry, ...]  # of trials in no record
    begun: Usage  # usage of unfinished units and trainings, also included in the entries
    under_way: tuple[CostEntry, ...] = ()  # of trials being played now, which are neither in a record nor abandoned

    @property
    def billed(self) -> float | None:
        return total_billed(self.entries)

    @property
    def without_cache(self) -> float | None:
        return sum_amounts(entry.without_cache for entry in self.entries)

    @property
    def answered(self) -> Usage:
        """Usage of all answers that this run received, also of interrupted trials and those being played now."""
        return total_usage((*self.entries, *self.abandoned, *self.under_way))

    @property
    def spent(self) -> float | None:
        return total_billed((*self.entries, *self.abandoned, *self.under_way))

    def sum_arm(self, arm: str) -> float | None:
        return total_billed(entry for entry in self.entries if entry.arm == arm)


def build_cost_report(
    finished: Sequence[TrialsRecord],
    begun: Sequence[TrialsRecord],
    abandoned: Sequence[RoleUsage],
    price_of: PriceOf,
    under_way: Sequence[RoleUsage] = (),
    models: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> CostReport:
    """Compute the bill of a run. `models` maps arm to role to model where records do not name it."""
    entries = tuple(itemize_costs([*finished, *begun], price_of))
    prices = [price_of(entry.model) for entry in entries]
    by_arm = {arm: dict(roles) for arm, roles in models.items()}
    for record in (*finished, *begun):
        by_arm.setdefault(record.arm, {}).update(record.models)

    def price(spent: Sequence[RoleUsage]) -> tuple[CostEntry, ...]:
        return tuple(
            price_usage(arm, role, by_arm.get(arm, {}).get(role, ""), each, price_of) for arm, role, each in spent
        )

    free = all(price is not None and price.is_free for price in prices)
    return CostReport(entries, free, price(abandoned), total_usage(itemize_costs(begun, price_of)), price(under_way))


def describe_unreported_costs(bill: CostReport) -> list[str]:
    lines = []
    if bill.begun.calls:
        lines.append(
            f"Unfinished units and trainings took {_describe_usage(bill.begun)}; costs include them, scores do not."
        )
    for entries, kind in (
        (bill.abandoned, "that were interrupted, or ended in an error and were played again"),
        (bill.under_way, "being played now"),
    ):
        if (spent := total_usage(entries)).calls:
            paid = format_dollars(total_billed(entries))
            lines.append(f"The tables leave out {_describe_usage(spent)}, {paid}, of trials {kind}.")
    return lines


def _describe_usage(usage: Usage) -> str:
    return f"{usage.calls:,} call{'' if usage.calls == 1 else 's'}, {usage.input:,} tokens in and {usage.output:,} out"


def serialize_cost_report(bill: CostReport) -> dict[str, Any]:
    data: dict[str, Any] = {"currency": "USD", "entries": [asdict(entry) for entry in bill.entries]}
    data |= {"billed": bill.billed, "without_cache": bill.without_cache}
    for name, entries in (("abandoned", bill.abandoned), ("under_way", bill.under_way)):
        data[name] = [{"arm": each.arm, "role": each.role, "usage": asdict(each.usage)} for each in entries]
        data[f"{name}_billed"] = total_billed(entries)
    return data
