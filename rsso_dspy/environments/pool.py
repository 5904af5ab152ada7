"""A pool of environments, for the threads that play.

    with EnvironmentPool(ScienceWorld, size=4) as pool:
        with pool.lease() as env:
            env.reset(variant)

A simulator is expensive to start and cheap to reset: each starts when first needed, is lent to one thread at a time,
and is reused for any variant. A start is pure computation, so as many start at once as there are cores, first come
first served: if 64 started at once on two cores, the first would be ready only shortly before the last.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rsso_dspy.environments import Environment
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


class PooledEnvironment(Environment, Protocol):
    """An environment that a pool can manage."""

    @property
    def alive(self) -> bool:
        """Whether another reset can succeed."""
        ...

    def close(self) -> None:
        """End the simulator. Idempotent; may be called from another thread."""
        ...


CLOSED = "the pool of environments is closed"

E = TypeVar("E", bound=PooledEnvironment)


class EnvironmentPool(Generic[E]):
    """Up to ``size`` environments created by ``factory``, which waits for its turn in ``starts``.

    ``lease`` raises what either of them raises.
    """

    def __init__(self, factory: Callable[[], E], size: int = 1, starts: StartQueue | None = None):
        if size < 1:
            raise ValueError(f"the size of a pool must be at least 1, not {size}")
        self._factory = factory
        self._starts = starts or StartQueue()
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[E] = []
        self._all: set[E] = set()
        self._closed = False
        weakref.finalize(self, _close_all, self._all)  # also at interpreter exit

    @contextmanager
    def lease(self) -> Iterator[E]:
        """Lend an environment for the block, the most recently used first; wait while all are lent.

        It returns however the block ends, including Ctrl-C. One that died, or was interrupted inside a call, is closed
        and replaced at a later lease. Raises ``RuntimeError`` if the pool is closed.
        """
        with self._slots:
            environment = self._take_environment()
            try:
                yield environment
            finally:
                self._return_environment(environment)

    def close(self) -> None:
        """Close every environment, including lent ones, whose next call raises ``SimulatorDied``. Idempotent."""
        with self._lock:
            self._closed = True
            self._idle.clear()
            _close_all(self._all)

    def __enter__(self) -> "EnvironmentPool[E]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_environment(self) -> E:
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            while self._idle:
                environment = self._idle.pop()
                if environment.alive:
                    return environment
                self._drop_environment(environment)
        with self._starts.take_turn():
            if self._closed:  # while waiting for a turn
                raise RuntimeError(CLOSED)
            environment = self._factory()
            with self._lock:
                if self._closed:  # while creating the environment
                    environment.close()
                    raise RuntimeError(CLOSED)
                self._all.add(environment)
            return environment

    def _return_environment(self, environment: E) -> None:
        with self._lock:
            if environment.alive and not self._closed:
                self._idle.append(environment)
            else:
                self._drop_environment(environment)

    def _drop_environment(self, environment: E) -> None:
        environment.close()
        self._all.discard(environment)


def _close_all(environments: set[E]) -> None:
    while environments:
        environments.pop().close()
