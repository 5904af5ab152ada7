"""A pool of environments, for the threads that play, and a simulator's own process. A simulator is expensive to start
and cheap to reset: each starts when first needed, is lent to one thread at a time, and is reused for any variant. A
start is pure computation, so as many start at once as there are cores. A process ends when this program does, however
that ends, since its stdin closes."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from rsso_dspy.environments import Environment
from rsso_dspy.errors import Stopped

TICK = 0.2  # interval in seconds at which a waiting thread checks whether it should stop
ENDING = 5.0  # time limit in seconds for a killed process, or one that failed, to disappear


class Process:
    """A process whose lines can be waited for. Ctrl-C in a terminal does not reach it: a step is finished. Raises
    `OSError` where it cannot be started."""

    def __init__(self, command: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None):
        self._owner = os.getpid()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self.files: list[Any] = [self._errors]  # what is closed at its end
        try:
            self._popen = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except BaseException:
            self._errors.close()
            raise
        self.pid = self._popen.pid
        self.files.append(self._popen.stdin)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        try:
            threading.Thread(target=_pass_on, args=(self._popen, self._lines), name="simulator", daemon=True).start()
        except BaseException:  # no further thread can be started
            self.files.append(self._popen.stdout)
            self.end()
            raise

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def write(self, line: bytes) -> None:
        """Send a line. Raises `OSError` where the process has ended."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line + b"\n")
            self._popen.stdin.flush()
        except ValueError as error:  # closed by another thread
            raise OSError(str(error)) from None

    def read_line(self, seconds: float, stopped: Callable[[], bool] = lambda: False) -> bytes:
        """Return its next line, and an empty one once it has ended. Raises `TimeoutError` after so many seconds, and
        `Stopped` once `stopped` returns true."""
        latest = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=TICK)
            except Empty:
                if stopped():
                    raise Stopped from None
                if time.monotonic() > latest:
                    raise TimeoutError from None
                continue
            if not line:
                self._lines.put(line)  # for whoever asks again
            return line

    def wait(self) -> int | None:
        """Return the exit status of a process that is about to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(ENDING)
        return self._popen.returncode

    def read_errors(self) -> list[str]:
        """Return the lines of its stderr; none after its end."""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            return self._errors.read().decode(errors="replace").strip().splitlines()
        return []

    def end(self) -> None:
        """Kill it and its children. Idempotent; does nothing in a forked child, whose parent's the process is."""
        if os.getpid() != self._owner:
            return
        if self._popen.returncode is None:
            with contextlib.suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self.pid, signal.SIGKILL)  # the command may be a script that starts the simulator
        self._popen.kill()
        self.wait()
        for file in self.files:
            with contextlib.suppress(OSError):  # a pipe without a reader
                file.close()


def _pass_on(process: "subprocess.Popen[bytes]", lines: "SimpleQueue[bytes]") -> None:
    """Pass on every line of a process, and an empty one at its end."""
    assert process.stdout is not None
    with process.stdout as out, contextlib.suppress(OSError, ValueError):
        for line in out:
            lines.put(line)
    lines.put(b"")


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
    ``stopped`` is polled while waiting for a start; once it returns true, ``lease`` raises ``Stopped``."""

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
        """Lend an environment for the block, the most recently used first; wait while all are lent. One that died, or
        was interrupted inside a call, is closed and replaced at a later lease."""
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
