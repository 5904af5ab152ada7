"""What tokens cost. US dollars throughout; a price that is not known is None and never 0.

compute_cost(usage, Price(input=3e-6, output=15e-6, cached=0.3e-6, cache_write=3.75e-6))
itemize_costs(records, price_of)         # billed so far, by arm and role
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rsso_dspy.records import TrialsRecord, Usage

PriceOf = Callable[[str], "Price | None"]
"""The price of a model, ``provider/model``; None when it is not known."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per token of each class."""

    input: float
    output: float
    cached: float
    """Input that the provider reads from its cache."""
    cache_write: float
    """Input that it writes to its cache."""

    @property
    def is_free(self) -> bool:
        return not (self.input or self.output or self.cached or self.cache_write)


FREE = Price(0.0, 0.0, 0.0, 0.0)


def compute_cost(usage: Usage, price: Price) -> float:
    """What the tokens cost."""
    plain = max(0, usage.input - usage.cached - usage.cache_write)
    return (
        plain * price.input
        + usage.cached * price.cached
        + usage.cache_write * price.cache_write
        + usage.output * price.output
    )


def compute_uncached_cost(usage: Usage, price: Price) -> float:
    """What the same tokens would have cost had the provider cached nothing."""
    return usage.input * price.input + usage.output * price.output


@dataclass(frozen=True, slots=True)
class CostEntry:
    """What one role of one arm came to."""

    arm: str
    role: str
    model: str
    usage: Usage
    billed: float | None
    """None when the model's price is not known, or the server did not tell all tokens."""
    without_cache: float | None


def itemize_costs(records: Iterable[TrialsRecord], price_of: PriceOf) -> list[CostEntry]:
    """Entries by arm, role and model, in the order in which they first appear."""
    totals: dict[tuple[str, str, str], Usage] = defaultdict(Usage)
    for record in records:
        arm = record.arm + (" (taken over)" if "forked_from" in record.provenance else "")
        for trial in record.trials:
            for role, usage in trial.usage.items():
                totals[arm, role, record.models.get(role, record.model)] += usage
    entries = []
    for (arm, role, model), usage in totals.items():
        price = price_of(model)
        known = price is not None and (price.is_free or not usage.unmetered)
        amounts = (compute_cost(usage, price), compute_uncached_cost(usage, price)) if price and known else (None, None)
        entries.append(CostEntry(arm, role, model, usage, *amounts))
    return entries


def sum_amounts(amounts: Iterable[float | None]) -> float | None:
    """The sum; None when one of them is not known."""
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def format_dollars(amount: float | None) -> str:
    """In words; small amounts with more digits."""
    if amount is None:
        return "unpriced"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def format_tokens(number: float) -> str:
    """In words, three or more digits of it: thousands below a tenth of a million."""
    return f"{number / 1e6:,.2f}M" if number >= 1e5 else f"{number / 1e3:,.1f}k"
