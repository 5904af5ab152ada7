"""Predicts the remaining time of a run from the calls answered so far.

    measured(store)                     # Pace(calls=412, seconds=2970.1) of a folder, or None
    Stopwatch(estimate, jobs).hear()    # told of every answer; .left() once there are a few

`cost_estimate.py` predicts the number of calls; this module measures their speed. Times depend on machine and server,
and are not recorded.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rsso_dspy.experiment.cost_estimate import CostEstimate, ExpectedRange
from rsso_dspy.store.run_folder import Store, get_job_key

FEW = 5
"""Number of answers before a prediction."""

READ_RATE, WRITE_RATES = 2000, (20, 60, 200)
"""Tokens a second that a plan assumes of a server that nobody measured: of a prompt, and of an answer."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Number of sequential calls and their total time, including everything between them."""

    calls: int
    seconds: float

    @property
    def per_call(self) -> float:
        return self.seconds / self.calls

    def take(self, calls: ExpectedRange, jobs: int = 1) -> ExpectedRange:
        """Return the seconds for this many calls with this many parallel units, assuming no slowdown."""
        each = self.per_call / max(1, jobs)
        return ExpectedRange(calls.mean * each, calls.low * each, calls.high * each)


def assume_seconds(estimate: CostEstimate, write_rate: float, jobs: int = 1) -> float:
    """Return the seconds at `READ_RATE` and this many tokens of an answer a second, without a cache of prompts, and
    without slowdown by parallel units."""
    return (estimate.tokens_in.mean / READ_RATE + estimate.tokens_out.mean / write_rate) / max(1, jobs)


def measured(store: Store) -> Pace | None:
    """Measure the pace of a folder's trials; None if there are too few or their times are unknown."""
    if not store.exists:
        return None
    seconds = store.read_seconds()
    calls, total = 0, 0.0
    for record in store.units():
        for trial in record.trials:
            spent = seconds.get((get_job_key(record), trial.trial))
            if spent is not None:
                calls += sum(usage.calls for usage in trial.usage.values())
                total += spent
    return Pace(calls, total) if calls >= FEW else None


class Stopwatch:
    """Predicts the remaining time from the answers so far. Thread-safe."""

    def __init__(self, estimate: CostEstimate, clock: Callable[[], float] = time.monotonic):
        self._estimate = estimate
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self.answers = 0

    def hear(self, calls: int) -> None:
        with self._lock:
            self.answers += calls

    def left(self) -> ExpectedRange | None:
        """Return the remaining seconds at the current pace; None while there are too few answers."""
        if self.answers < FEW:
            return None
        each = (self._clock() - self._begun) / self.answers
        wanted = self._estimate.calls
        return ExpectedRange(
            *(each * max(0.0, calls - self.answers) for calls in (wanted.mean, wanted.low, wanted.high))
        )


def in_words(seconds: float) -> str:
    """Format a rough duration: ``40 s``, ``12 min``, ``3.5 h``, ``4 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


def range_in_words(spread: ExpectedRange) -> str:
    if spread.low == spread.high:  # of the most that a plan can take
        return f"at most {in_words(spread.high)}"
    return f"{in_words(spread.mean)} ({in_words(spread.low)} to {in_words(spread.high)})"
