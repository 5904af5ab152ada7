"""How long what is left of a run takes, judged by the calls that were answered.

    measured(store)                     # Pace(calls=412, seconds=2970.1), of what was played into a folder; or None
    Stopwatch(estimate, jobs).hear()    # told of every answer; .left() once there are a few

The calls that are expected come from `cost_estimate.py`; here is how fast they come. Times are of this machine and this
server, and stand in no record.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rsso_dspy.experiment.cost_estimate import CostEstimate, ExpectedRange
from rsso_dspy.safe_read import parse_entry
from rsso_dspy.store.journals import TIMINGS
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.usage_ledger import get_job_key

FEW = 5
"""Answers before a time is said."""


@dataclass(frozen=True, slots=True)
class Pace:
    """So many calls took so long, one after the other, with all that lies between them."""

    calls: int
    seconds: float

    @property
    def per_call(self) -> float:
        return self.seconds / self.calls

    def take(self, calls: ExpectedRange, jobs: int = 1) -> ExpectedRange:
        """Seconds that so many calls take when so many units are played at once, if that slows nothing down."""
        each = self.per_call / max(1, jobs)
        return ExpectedRange(calls.mean * each, calls.low * each, calls.high * each)


def measured(store: Store) -> Pace | None:
    """The pace of the trials that were played into a folder; None where too little was, or nothing is known of it."""
    if not (store.folder / "run.json").exists():
        return None
    seconds: dict[tuple[str, int], float] = {}
    for line in store.read_journal(store.folder / TIMINGS):
        match parse_entry(line):
            case {"unit": str(unit), "trial": int(number), "seconds": float(took)} if took > 0:
                seconds[unit, number] = took  # the last time that it was played
    calls, total = 0, 0.0
    for record in store.units():
        for trial in record.trials:
            spent = seconds.get((get_job_key(record), trial.trial))
            if spent is not None:
                calls += sum(usage.calls for usage in trial.usage.values())
                total += spent
    return Pace(calls, total) if calls >= FEW else None


class Stopwatch:
    """Tells from the answers so far when the rest will be there. Thread-safe."""

    def __init__(self, estimate: CostEstimate, clock: Callable[[], float] = time.monotonic):
        self._estimate = estimate
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self.answers = 0

    def hear(self, calls: int) -> None:
        """So many more answers came."""
        with self._lock:
            self.answers += calls

    def left(self) -> ExpectedRange | None:
        """Seconds until all expected calls are answered, at the pace so far; None while there were too few."""
        if self.answers < FEW:
            return None
        each = (self._clock() - self._begun) / self.answers
        wanted = self._estimate.calls
        return ExpectedRange(
            *(each * max(0.0, calls - self.answers) for calls in (wanted.mean, wanted.low, wanted.high))
        )


def in_words(seconds: float) -> str:
    """A duration, as coarse as it is known: ``40 s``, ``12 min``, ``3.5 h``, ``4 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


def range_in_words(spread: ExpectedRange) -> str:
    """A duration with its interval."""
    return f"{in_words(spread.mean)} ({in_words(spread.low)} to {in_words(spread.high)})"
