"""What a compile has spent of its budget, and what ended it.

account.record_usage("actor", usage)      # calls, tokens and money by role; a spent budget ends the compile
with account.count_requests(): ...        # every request to a model is counted before it is sent
account.stop_compile("interrupted")       # nothing more is begun, and what is under way stops before its next step
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from rsso_dspy.errors import FolderGone, Stopped
from rsso_dspy.forecast import SpendLimit
from rsso_dspy.optimize.candidates import CompileEnding, CompileLimits
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.records import Usage
from rsso_dspy.sessions import Session


class CompileStopped(BaseException):
    """The compile ends here. Not an `Exception`, because optimizers swallow those."""


class CompileAccount:
    """Counts rollouts, requests, tokens and money of one compile against its limits. Thread-safe."""

    def __init__(
        self,
        live: Session,
        limits: CompileLimits,
        reserved: int,
        logs: RolloutLogs,
        teacher_models: Mapping[str, str],
    ):
        self.limits = limits
        self.reserved = reserved
        """Rollouts that are kept back for confirming: the search may not begin them."""
        self.spent = 0
        """Rollouts begun."""
        self.recalled = 0
        """Rollouts of `spent` that were found in the cache instead of played."""
        self.lm_calls = 0
        """Requests sent, answered or not."""
        self.usage: dict[str, Usage] = {}
        """Usage of all answers by role, the proposer's included."""
        self.abandoned: dict[str, Usage] = logs.sum_abandoned_usage()
        """Cost of earlier attempts at this compile that is in no rollout, by role: rollouts that were cut short, and
        proposals."""
        self.search_end: str | None = None
        """Why the search ended early; None when it finished. The first reason stays."""
        self.ended_by: CompileEnding | None = None
        self.error: BaseException | None = None
        """What went wrong, when `ended_by` is "error"."""
        self.logs = logs
        self._halted = threading.Event()
        self._lock = threading.Condition(threading.RLock())
        models: dict[str, str] = {**dict(live.backend.models.items()), **teacher_models}
        self.purse = SpendLimit(limits.cost, None, models, make_price_lookup(live.config.prices))
        self.purse.add_earlier_usage(self.abandoned.items())
        self._halt_at_limit()

    @property
    def rollouts_left(self) -> int:
        """Rollouts that may still be begun."""
        return self.limits.rollouts - self.spent - self.reserved

    def is_stopping(self) -> bool:
        """Whether running rollouts should stop before their next step."""
        return self._halted.is_set()

    @property
    def is_halted(self) -> bool:
        """Whether no further rollout will begin."""
        return self._halted.is_set()

    @property
    def has_spent_search_share(self) -> bool:
        """Whether the search has used its share of calls or money; the rest is for the rollouts that are kept back."""
        share = 1 - self.reserved / self.limits.rollouts
        calls, cost = self.limits.lm_calls, self.limits.cost
        if not self.reserved:
            return False
        return (calls is not None and self.lm_calls >= share * calls) or (
            cost is not None and self.purse.cost >= share * cost
        )

    def end_search(self, why: str) -> None:
        """Note why the search ends; the first reason stays."""
        self.search_end = self.search_end or why

    def stop_compile(self, why: CompileEnding, error: BaseException | None = None) -> None:
        """End the compile; the first reason stays. Running rollouts stop before their next step."""
        with self._lock:
            if self.ended_by is None:
                self.ended_by, self.error = why, error
            self._halted.set()
            self._lock.notify_all()

    def _stop_on_error(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.stop_compile("interrupted")
        elif isinstance(error, Stopped) and error.__cause__:
            self.stop_compile("error", error.__cause__)
        elif not isinstance(error, CompileStopped | Stopped):
            self.stop_compile("error", error)

    def check_folder(self) -> None:
        """End the compile when the folder of its rollouts is gone."""
        if self.logs.store:
            try:
                self.logs.store.check_exists()
            except FolderGone as error:
                self.stop_compile("error", error)

    def record_usage(self, role: str, usage: Usage) -> None:
        """Add what an answer cost to the compile's account."""
        self._add_usage(role, usage)

    def recall_usage(self, role: str, usage: Usage) -> None:
        """Move what an answer cost from the earlier attempts that paid for it to the compile's account."""
        with self._lock:
            self.usage[role] = self.usage.get(role, Usage()) + usage
            left = self.abandoned.pop(role, Usage()).subtract(usage)
            self.abandoned = dict(sorted((self.abandoned | ({role: left} if left != Usage() else {})).items()))

    def _add_usage(self, role: str, usage: Usage) -> None:
        with self._lock:
            self.usage[role] = self.usage.get(role, Usage()) + usage
        self.purse.add_usage(role, usage)
        self._halt_at_limit()

    def _halt_at_limit(self) -> None:
        if self.purse.exceeded_limit:
            self.stop_compile("cost")

    @contextmanager
    def count_requests(self, also: list[int] | None = None) -> Iterator[None]:
        """Count every request to a model inside the block, repeated ones after an unreadable answer included, also in
        ``also[0]``. Raises `CompileStopped` instead of sending one too many."""

        def count_each() -> None:
            self._count_request()
            if also is not None:
                also[0] += 1

        with dspy.context(callbacks=[*dspy.settings.callbacks, _RequestCounter(count_each)]):
            yield

    def _count_request(self) -> None:
        with self._lock:
            if self.limits.lm_calls is not None and self.lm_calls >= self.limits.lm_calls:
                self.stop_compile("lm-calls")
            if self._halted.is_set():
                raise CompileStopped
            self.lm_calls += 1


class _RequestCounter(BaseCallback):
    """DSPy calls it before every request."""

    def __init__(self, ask: Callable[[], None]):
        self.ask = ask

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        self.ask()
