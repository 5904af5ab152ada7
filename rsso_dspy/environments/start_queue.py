"""How simulators start: so many at once as there are cores, first come first served.

    starts = StartQueue()
    starts.told = lambda starting: print(f"{starting.ready} of {starting.wanted}")
    with starts.take_turn():
        simulator = Simulator()

A start is nothing but computing. Of 64 that start at once on two cores the first is there when nearly the last is; of
64 that take turns it is there at once, and its thread plays meanwhile.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rsso_dspy.errors import Stopped

TICK = 0.2
"""Seconds after which a thread that waits looks whether it is being stopped."""


@dataclass(frozen=True, slots=True)
class StartProgress:
    """How far the simulators have come that were asked for since nobody last waited for one."""

    ready: int
    wanted: int
    """Those that are there, those that are starting and those that wait for their turn."""

    @property
    def has_all_started(self) -> bool:
        """Whether nobody waits any more."""
        return self.ready == self.wanted


class StartQueue:
    """The turns of one pool. `at_once` is how many may start together, by default one a core; `stopped` is asked while
    waiting, and when it says yes `Stopped` is raised. ``told`` hears, from any thread, one call at a time, of every
    start that ended where some had to wait for their turn."""

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
        """Wait for a turn, and have it for the time of the block, which starts a simulator."""
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
                self._turn.notify_all()  # the next may have a turn too

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
