"""Queue for starting simulators: as many at once as there are cores, first come first served.

    starts = StartQueue()
    starts.told = lambda starting: print(f"{starting.ready} of {starting.wanted}")
    with starts.take_turn():
        simulator = Simulator()

A start is pure computation. If 64 start at once on two cores, the first is ready only shortly before the last; if they
take turns, the first is ready at once, and its thread can play meanwhile.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rsso_dspy.errors import Stopped

TICK = 0.2
"""Interval in seconds at which a waiting thread checks whether it should stop."""


@dataclass(frozen=True, slots=True)
class StartProgress:
    """Progress of the simulators requested since the queue was last empty."""

    ready: int
    wanted: int
    """Number of simulators that are ready, starting or waiting."""

    @property
    def has_all_started(self) -> bool:
        """Whether no thread waits any more."""
        return self.ready == self.wanted


class StartQueue:
    """The turns of one pool.

    `at_once`: number of simultaneous starts, by default one per core. `stopped` is polled while waiting; once it
    returns true, `Stopped` is raised. ``told`` is called from any thread, one call at a time, after every start during
    which others had to wait.
    """

    def __init__(self, at_once: int | None = None, stopped: Callable[[], bool] = lambda: False):
        self.at_once = at_once or os.cpu_count() or 1
        self.told: Callable[[StartProgress], object] = lambda _starting: None
        self._stopped = stopped
        self._turn = threading.Condition(threading.RLock())
        self._waiting: deque[object] = deque()
        self._under_way = 0
        self._ready = 0
        self._crowded = False

    @contextmanager
    def take_turn(self) -> Iterator[None]:
        """Wait for a turn and hold it during the block, which starts a simulator."""
        self._wait_for_turn()
        ready = False
        try:
            yield
            ready = True
        finally:
            self._end_turn(ready)

    def _wait_for_turn(self) -> None:
        ticket = object()
        with self._turn:
            self._waiting.append(ticket)
            self._crowded |= self._under_way + len(self._waiting) > self.at_once
            try:
                while self._waiting[0] is not ticket or self._under_way >= self.at_once:
                    self._turn.wait(TICK)
                    if self._stopped():
                        raise Stopped
                self._under_way += 1
            finally:
                self._waiting.remove(ticket)
                self._turn.notify_all()  # the next may take a turn too

    def _end_turn(self, ready: bool) -> None:
        with self._turn:
            self._under_way -= 1
            self._ready += ready
            pending = self._under_way + len(self._waiting)
            starting, crowded = StartProgress(self._ready, self._ready + pending), self._crowded
            if not pending:
                self._ready, self._crowded = 0, False
            self._turn.notify_all()
            if crowded:
                self.told(starting)
