"""Cost of a run as billed, and as it would be without the provider's cache."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from rsso_dspy.pricing import CostEntry, Price, PriceOf, compute_cost, format_dollars, itemize_costs, sum_amounts
from rsso_dspy.records import RoleUsage, TrialsRecord, Usage


def return_no_price(_model: str) -> Price | None:
    """Return None: the price of no model is known."""
    return None


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Tokens and their cost in US dollars, None if a price or the number of tokens is unknown."""

    input: int = 0
    output: int = 0
    cost: float | None = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def __add__(self, other: "TokenCost") -> "TokenCost":
        return TokenCost(self.input + other.input, self.output + other.output, sum_amounts([self.cost, other.cost]))


def sum_usage_cost(usage: Mapping[str, Usage], models: Mapping[str, str], price_of: PriceOf) -> TokenCost:
    """Return the cost of usage by role. `models` maps role to model."""
    found = TokenCost()
    for role, used in usage.items():
        price = price_of(models.get(role, ""))
        known = price is not None and (price.is_free or not used.unmetered)
        found += TokenCost(used.input, used.output, compute_cost(used, price) if price and known else None)
    return found


def sum_record_cost(record: TrialsRecord, price_of: PriceOf) -> TokenCost:
    """Return the cost of a record's trials."""
    found = TokenCost()
    for trial in record.trials:
        models = {role: record.models.get(role, record.model) for role in trial.usage}
        found += sum_usage_cost(trial.usage, models, price_of)
    return found


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost of everything in a run's folder in US dollars; None if a price is unknown."""

    entries: tuple[CostEntry, ...]
    """By arm, role and model."""
    free: bool
    """Whether all models are free."""
    abandoned: tuple[RoleUsage, ...]
    abandoned_billed: float | None
    begun: Usage
    """Usage of unfinished units and trainings, also included in the entries."""
    under_way: tuple[RoleUsage, ...] = ()
    """Usage of the trials being played now, which are neither in a record nor abandoned."""
    under_way_billed: float | None = 0.0

    @property
    def billed(self) -> float | None:
        return sum_amounts(entry.billed for entry in self.entries)

    @property
    def without_cache(self) -> float | None:
        return sum_amounts(entry.without_cache for entry in self.entries)

    @property
    def answered(self) -> Usage:
        """Usage of all answers that this run received, also of interrupted trials and those being played now."""
        unrecorded = (usage for _, _, usage in (*self.abandoned, *self.under_way))
        return sum((*(entry.usage for entry in self.entries), *unrecorded), Usage())

    @property
    def spent(self) -> float | None:
        """Dollars for `answered`."""
        return sum_amounts([self.billed, self.abandoned_billed, self.under_way_billed])

    def sum_arm(self, arm: str) -> float | None:
        """Return the dollars that this run paid for an arm: its units, finished or not, and its trainings."""
        return sum_amounts(entry.billed for entry in self.entries if entry.arm == arm)


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
    unfinished = (usage for record in begun for trial in record.trials for usage in trial.usage.values())
    by_arm = {arm: dict(roles) for arm, roles in models.items()}
    for record in (*finished, *begun):
        by_arm.setdefault(record.arm, {}).update(record.models)
    return CostReport(
        entries,
        all(price is not None and price.is_free for price in prices),
        tuple(abandoned),
        _price_role_usages(abandoned, by_arm, price_of),
        sum(unfinished, Usage()),
        tuple(under_way),
        _price_role_usages(under_way, by_arm, price_of),
    )


def describe_unreported_costs(bill: CostReport) -> list[str]:
    """Describe costs that are in no finished record."""
    lines = []
    if bill.begun.calls:
        lines.append(
            f"Unfinished units and trainings took {_describe_usage(bill.begun)}; costs include them, scores do not."
        )
    for unrecorded, billed, kind in (
        (bill.abandoned, bill.abandoned_billed, "that were interrupted, or ended in an error and were played again"),
        (bill.under_way, bill.under_way_billed, "being played now"),
    ):
        spent = sum((usage for _, _, usage in unrecorded), Usage())
        if spent.calls:
            paid = format_dollars(billed)
            lines.append(f"The tables leave out {_describe_usage(spent)}, {paid}, of trials {kind}.")
    return lines


def serialize_cost_report(bill: CostReport) -> dict[str, Any]:
    """Return the bill as JSON data; dollars, null for an unknown price."""
    return {
        "currency": "USD",
        "entries": [asdict(entry) for entry in bill.entries],
        "billed": bill.billed,
        "without_cache": bill.without_cache,
        "abandoned": _serialize_role_usages(bill.abandoned),
        "abandoned_billed": bill.abandoned_billed,
        "under_way": _serialize_role_usages(bill.under_way),
        "under_way_billed": bill.under_way_billed,
    }


def _serialize_role_usages(costs: Sequence[RoleUsage]) -> list[dict[str, Any]]:
    return [{"arm": arm, "role": role, "usage": asdict(usage)} for arm, role, usage in costs]


def _describe_usage(usage: Usage) -> str:
    return f"{usage.calls:,} call{'' if usage.calls == 1 else 's'}, {usage.input:,} tokens in and {usage.output:,} out"


def _price_role_usages(
    abandoned: Sequence[RoleUsage], models: Mapping[str, Mapping[str, str]], price_of: PriceOf
) -> float | None:
    amounts = []
    for arm, role, usage in abandoned:
        price = price_of(models.get(arm, {}).get(role, ""))
        amounts.append(compute_cost(usage, price) if price else None)
    return sum_amounts(amounts)
