"""Costs of tokens in US dollars; an unknown price is None, never 0.

compute_cost(usage, Price(input=3e-6, output=15e-6, cached=0.3e-6, cache_write=3.75e-6))
itemize_costs(records, price_of)         # costs so far, by arm and role
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rsso_dspy.records import TrialsRecord, Usage

PriceOf = Callable[[str], "Price | None"]
"""Returns the price of a model ``provider/model``, or None if unknown."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per token by class."""

    input: float
    output: float
    cached: float
    """Input tokens read from the provider's cache."""
    cache_write: float
    """Input tokens written to the provider's cache."""

    @property
    def is_free(self) -> bool:
        return not (self.input or self.output or self.cached or self.cache_write)


FREE = Price(0.0, 0.0, 0.0, 0.0)


def compute_cost(usage: Usage, price: Price) -> float:
    """Return the cost of the tokens."""
    plain = max(0, usage.input - usage.cached - usage.cache_write)
    return (
        plain * price.input
        + usage.cached * price.cached
        + usage.cache_write * price.cache_write
        + usage.output * price.output
    )


def compute_uncached_cost(usage: Usage, price: Price) -> float:
    """Return the cost of the same tokens without the provider's cache."""
    return usage.input * price.input + usage.output * price.output


@dataclass(frozen=True, slots=True)
class CostEntry:
    """The cost of one role of one arm."""

    arm: str
    role: str
    model: str
    usage: Usage
    billed: float | None
    """None if the model's price is unknown or the server did not report all tokens."""
    without_cache: float | None


def itemize_costs(records: Iterable[TrialsRecord], price_of: PriceOf) -> list[CostEntry]:
    """Return costs by arm, role and model, in order of first appearance."""
    totals: dict[tuple[str, str, str], Usage] = defaultdict(Usage)
    for record in records:
        for trial in record.trials:
            for role, usage in trial.usage.items():
                totals[record.arm, role, record.models.get(role, record.model)] += usage
    return [price_usage(arm, role, model, usage, price_of) for (arm, role, model), usage in totals.items()]


def price_usage(arm: str, role: str, model: str, usage: Usage, price_of: PriceOf) -> CostEntry:
    """Return the cost of what one role of an arm used."""
    price = price_of(model)
    known = price is not None and (price.is_free or not usage.unmetered)
    amounts = (compute_cost(usage, price), compute_uncached_cost(usage, price)) if price and known else (None, None)
    return CostEntry(arm, role, model, usage, amounts[0], amounts[1])


def sum_amounts(amounts: Iterable[float | None]) -> float | None:
    """Return the sum, or None if any value is unknown."""
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def format_dollars(amount: float | None) -> str:
    """Format dollars; small amounts with more digits."""
    if amount is None:
        return "unpriced"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def format_tokens(number: float) -> str:
    """Format a number of tokens with at least three digits, in thousands below a tenth of a million."""
    return f"{number / 1e6:,.2f}M" if number >= 1e5 else f"{number / 1e3:,.1f}k"
