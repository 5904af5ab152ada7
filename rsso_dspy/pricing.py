"""Costs of tokens in US dollars; an unknown price is None, never 0. Prices come from the configuration, else from
LiteLLM's installed table: nothing is downloaded, and LiteLLM itself is not imported, which would take seconds."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rsso_dspy.config import EMBEDDED, PriceConfig
from rsso_dspy.files import read_json
from rsso_dspy.records import TrialsRecord, Usage

PriceOf = Callable[[str], "Price | None"]  # returns the price of a model ``provider/model``, or None if unknown


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per token by class."""

    input: float
    output: float
    cached: float  # input tokens read from the provider's cache
    cache_write: float  # input tokens written to the provider's cache

    @property
    def is_free(self) -> bool:
        return not (self.input or self.output or self.cached or self.cache_write)


FREE = Price(0.0, 0.0, 0.0, 0.0)


def compute_cost(usage: Usage, price: Price) -> float:
    plain = max(0, usage.input - usage.cached - usage.cache_write)
    input_cost = plain * price.input + usage.cached * price.cached + usage.cache_write * price.cache_write
    return input_cost + usage.output * price.output


@dataclass(frozen=True, slots=True)
class CostEntry:
    arm: str
    role: str
    model: str
    usage: Usage
    billed: float | None  # None if the model's price is unknown or the server did not report all tokens
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
    price = price_of(model)
    if price is None or (usage.unmetered and not price.is_free):
        return CostEntry(arm, role, model, usage, None, None)
    without_cache = usage.input * price.input + usage.output * price.output
    return CostEntry(arm, role, model, usage, compute_cost(usage, price), without_cache)


def sum_amounts(amounts: Iterable[float | None]) -> float | None:
    """Return the sum, or None if any value is unknown."""
    values = list(amounts)
    return None if None in values else sum(amount for amount in values if amount is not None)


def format_dollars(amount: float | None) -> str:
    """Format dollars; small amounts with more digits."""
    if amount is None:
        return "unpriced"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def format_tokens(number: float) -> str:
    """Format a number of tokens with at least three digits, in thousands below a tenth of a million."""
    return f"{number / 1e6:,.2f}M" if number >= 1e5 else f"{number / 1e3:,.1f}k"


_ALIASES = {"ollama_chat": "ollama"}  # providers that LiteLLM lists under another name


def make_price_lookup(own: Mapping[str, PriceConfig]) -> PriceOf:
    """Return a function from model name to price; prices in `own`, of a million tokens, take precedence."""

    def price_of(model: str) -> Price | None:
        if (price := own.get(model)) is None:
            return FREE if model == EMBEDDED else _look_up_litellm_price(model)
        cached = (price.input if rate is None else rate for rate in (price.cached, price.cache_write))
        return Price(*(rate / 1_000_000 for rate in (price.input, price.output, *cached)))

    return price_of


def _look_up_litellm_price(model: str) -> Price | None:
    """Find a model in LiteLLM's table, listed as ``provider/name`` or as ``name`` with a provider field."""
    provider, _, name = model.partition("/")
    provider = _ALIASES.get(provider, provider)
    entry = _read_litellm_table().get(f"{provider}/{name}")
    if entry is None:
        candidate = _read_litellm_table().get(name)
        if candidate and candidate.get("litellm_provider") == provider:
            entry = candidate
    if entry is None or not {"input_cost_per_token", "output_cost_per_token"} <= entry.keys():
        return None
    input_price = float(entry["input_cost_per_token"])
    return Price(
        input=input_price,
        output=float(entry["output_cost_per_token"]),
        cached=float(entry.get("cache_read_input_token_cost") or input_price),
        cache_write=float(entry.get("cache_creation_input_token_cost") or input_price),
    )


@cache
def _read_litellm_table() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table: dict[str, dict[str, Any]] = read_json(
        Path(spec.origin).parent / "model_prices_and_context_window_backup.json"
    )
    return table
