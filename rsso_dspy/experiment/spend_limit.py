"""The spend limit of a run: counts every answer and stops the run between two steps once a limit is exceeded.

    purse = SpendLimit(max_cost=5.0, max_tokens=None, models={"actor": "openai/gpt-4.1-mini"}, price_of=price_of)
    purse.follow(events)            # hears UsageSpent, tells RunLimited

Answers in flight at that moment are still paid for; nothing after them is.
"""

import threading
from collections.abc import Collection, Iterable, Mapping

from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.events import EventStream, RunLimited, UsageSpent
from rsso_dspy.pricing import PriceOf, compute_cost, format_dollars
from rsso_dspy.records import Usage


class SpendLimit:
    """Limits of a run in dollars and in tokens (in and out); None means no limit. Thread-safe.

    `models` maps role to model; `asked` names the roles in use (default: all). Raises `UsageError` for a
    negative limit, and if dollars are limited and the price of a model is unknown.
    """

    def __init__(
        self,
        max_cost: float | None,
        max_tokens: int | None,
        models: Mapping[str, str],
        price_of: PriceOf,
        asked: Collection[str] | None = None,
    ):
        for name, limit in (("max_cost", max_cost), ("max_tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{name}={limit} limits nothing; give a number of at least 0, or leave it out")
        wanted = models.keys() if asked is None else asked
        unpriced = sorted({models[role] for role in wanted if price_of(models[role]) is None})
        if max_cost is not None and unpriced:
            raise UsageError(
                f"the price of {', '.join(unpriced)} is unknown, so --max-cost cannot work: set "
                f'[prices."{unpriced[0]}"] input = ..., output = ... (dollars per million tokens)'
            )
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.cost = 0.0
        """Dollars spent so far, at known prices."""
        self.tokens = 0
        self.unmetered = 0
        """Number of answers without a token count from the server."""
        self._models = models
        self._price_of = price_of
        self._lock = threading.Lock()

    def add_usage(self, role: str, usage: Usage) -> None:
        price = self._price_of(self._models[role]) if role in self._models else None
        with self._lock:
            self.cost += compute_cost(usage, price) if price else 0.0
            self.tokens += usage.input + usage.output
            self.unmetered += usage.unmetered

    def follow(self, events: EventStream) -> None:
        """Subscribe to `UsageSpent`, and send `RunLimited` once a limit is exceeded."""

        def count(event: UsageSpent) -> None:
            self.add_usage(event.role, event.usage)
            if why := self.exceeded_limit:
                events.emit(RunLimited(why))

        events.subscribe(UsageSpent, count, required=True)

    def add_earlier_usage(self, spent: Iterable[tuple[str, Usage]]) -> None:
        """Count earlier costs of the run, by role."""
        for role, usage in spent:
            self.add_usage(role, usage)

    @property
    def exceeded_limit(self) -> str:
        """The limit that is exceeded or cannot be kept, in words; otherwise empty."""
        if self.unmetered and not (self.max_cost is None and self.max_tokens is None):
            return "the server does not report token counts, so no limit can be kept"
        if self.max_cost is not None and self.cost > self.max_cost:
            return f"{format_dollars(self.cost)} of {format_dollars(self.max_cost)} are spent (--max-cost)"
        if self.max_tokens is not None and self.tokens > self.max_tokens:
            return f"{self.tokens:,} of {self.max_tokens:,} tokens are spent (max_tokens)"
        return ""
