"""A pool of environments, for the threads that play.

    with EnvironmentPool(ScienceWorld, size=4) as pool:
        with pool.lease() as env:
            env.reset(variant)

A simulator is expensive to start and cheap to reset: each starts when first needed, is lent to one thread at a time,
and is reused for any variant. A start is pure computation, so as many start at once as there are cores: if 64 started
at once on two cores, the first would be ready only shortly before the last.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rsso_dspy.environments import Environment
from rsso_dspy.environments.process import TICK
from rsso_dspy.errors import Stopped

CLOSED = "the pool of environments is closed"


class PooledEnvironment(Environment, Protocol):
    @property
    def alive(self) -> bool:
        """Whether another reset can succeed."""
        ...

    def close(self) -> None:
        """End the simulator. Idempotent; may be called from another thread."""
        ...


E = TypeVar("E", bound=PooledEnvironment)


class EnvironmentPool(Generic[E]):
    """Up to ``size`` environments created by ``factory``, ``at_once`` of them at a time, by default one per core.
    ``stopped`` is polled while waiting for a start; once it returns true, ``lease`` raises ``Stopped``. It also raises
    what ``factory`` raises."""

    def __init__(
        self,
        factory: Callable[[], E],
        size: int = 1,
        stopped: Callable[[], bool] = lambda: False,
        at_once: int | None = None,
    ):
        if size < 1:
            raise ValueError(f"the size of a pool must be at least 1, not {size}")
        self._factory = factory
        self._stopped = stopped
        self._starts = threading.BoundedSemaphore(at_once or os.cpu_count() or 1)
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[E] = []
        self._all: set[E] = set()
        self._closed = False
        weakref.finalize(self, _close_all, self._all)  # also at interpreter exit

    @contextmanager
    def lease(self) -> Iterator[E]:
        """Lend an environment for the block, the most recently used first; wait while all are lent. It returns however
        the block ends, including Ctrl-C. One that died, or was interrupted inside a call, is closed and replaced at a
        later lease. Raises ``RuntimeError`` if the pool is closed."""
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
            self._require_open()
            while self._idle:
                environment = self._idle.pop()
                if environment.alive:
                    return environment
                self._drop_environment(environment)
        while not self._starts.acquire(timeout=TICK):
            if self._stopped():
                raise Stopped
        try:
            self._require_open()  # it may have been closed meanwhile
            environment = self._factory()
        finally:
            self._starts.release()
        with self._lock:
            self._all.add(environment)
            if self._closed:
                self._drop_environment(environment)
            self._require_open()
        return environment

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError(CLOSED)

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
