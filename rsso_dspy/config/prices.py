"""Prices of models: from the configuration, else from LiteLLM's installed table.

Nothing is downloaded, and LiteLLM itself is not imported, which would take seconds.

    price_of = make_price_lookup(config.prices)
    price_of("anthropic/claude-sonnet-4-6")      # Price(input=3e-06, ...); None if unknown
"""

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rsso_dspy.config.models import EMBEDDED, PriceConfig
from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import read_json
from rsso_dspy.pricing import FREE, Price, PriceOf

MILLION = 1_000_000

_ALIASES = {"ollama_chat": "ollama"}
"""Providers that LiteLLM lists under another name."""


def make_price_lookup(own: Mapping[str, PriceConfig]) -> PriceOf:
    """Return a function from model name to price; prices in `own` take precedence."""

    def price_of(model: str) -> Price | None:
        if model in own:
            return _convert_price(own[model])
        return FREE if model == EMBEDDED else _look_up_litellm_price(model)

    return price_of


def _convert_price(given: PriceConfig) -> Price:
    cached = given.input if given.cached is None else given.cached
    written = given.input if given.cache_write is None else given.cache_write
    return Price(given.input / MILLION, given.output / MILLION, cached / MILLION, written / MILLION)


def _look_up_litellm_price(model: str) -> Price | None:
    """Find a model in LiteLLM's table, listed as ``provider/name`` or as ``name`` with a provider field."""
    provider, _, name = model.partition("/")
    provider = _ALIASES.get(provider, provider)
    entry = _read_litellm_table().get(f"{provider}/{name}")
    if entry is None and (other := _read_litellm_table().get(name)) and other.get("litellm_provider") == provider:
        entry = other
    if entry is None or not {"input_cost_per_token", "output_cost_per_token"} <= entry.keys():
        return None
    sent = float(entry["input_cost_per_token"])
    return Price(
        input=sent,
        output=float(entry["output_cost_per_token"]),
        cached=float(entry.get("cache_read_input_token_cost") or sent),
        cache_write=float(entry.get("cache_creation_input_token_cost") or sent),
    )


@cache
def _read_litellm_table() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    file = Path(spec.origin).parent / "model_prices_and_context_window_backup.json"
    try:
        table = read_json(file)
    except (OSError, DamagedFile):
        return {}
    rows = table.items() if isinstance(table, dict) else ()
    return {model: entry for model, entry in rows if isinstance(entry, dict)}
