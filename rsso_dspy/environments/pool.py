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
from contextlib import AbstractContextManager, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, cast

from rsso_dspy.environments import Environment
from rsso_dspy.environments.contract import Moment, blame_code_of, require_environment
from rsso_dspy.errors import Stopped

TICK = 0.2  # interval in seconds at which a waiting thread checks whether it should stop
ENDING = 5.0  # time limit in seconds for a killed process, or one that failed, to disappear


class Process:
    """A process whose lines can be waited for. Ctrl-C in a terminal does not reach it: a step is finished. Raises
    `OSError` where it cannot be started."""

    def __init__(self, command: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None):
        self._owner = os.getpid()
        with contextlib.ExitStack() as undo:
            self._errors = undo.enter_context(tempfile.TemporaryFile())
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
            self.files: list[Any] = [self._errors, self._popen.stdin]  # what is closed at its end
            undo.callback(self.end)  # no further thread can be started
            self.pid = self._popen.pid
            self._lines = SimpleQueue[bytes]()
            threading.Thread(target=_pass_on, args=(self._popen, self._lines), name="simulator", daemon=True).start()
            undo.pop_all()

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
            with contextlib.suppress(Empty):
                line = self._lines.get(timeout=TICK)
                if not line:
                    self._lines.put(line)  # for whoever asks again
                return line
            if stopped():
                raise Stopped
            if time.monotonic() > latest:
                raise TimeoutError

    def wait(self) -> int | None:
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
        if self._popen.returncode is None and hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
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


class EnvironmentPool(AbstractContextManager["EnvironmentPool"]):
    """Up to ``size`` environments created by ``factory``, at a time one per core, and each behind a check of its
    contract. ``stopped`` is polled while waiting for a start; once it returns true, ``lease`` raises ``Stopped``."""

    def __init__(self, factory: Callable[[], Environment], size: int = 1, stopped: Callable[[], bool] = lambda: False):
        self._factory, self._stopped = factory, stopped
        self._starts = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Environment] = []
        self._all: set[Environment] = set()
        self._closed = False
        weakref.finalize(self, _close_all, self._all)  # also at interpreter exit

    @contextmanager
    def lease(self) -> Iterator[Environment]:
        """Lend an environment for the block, the most recently used first; wait while all are lent. One that died, or
        was interrupted inside a call, is closed and replaced at a later lease."""
        with self._slots:
            environment = self._take_idle() or self._start()
            try:
                yield environment
            finally:
                with self._lock:
                    self._idle.append(environment)
                    self._drop_dead()

    def close(self) -> None:
        """Close every environment, including lent ones, whose next call raises ``SimulatorDied``. Idempotent."""
        with self._lock:
            self._closed = True
            self._idle.clear()
            _close_all(self._all)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_idle(self) -> Environment | None:
        with self._lock:
            self._drop_dead()
            self._require_open()
            return self._idle.pop() if self._idle else None

    def _start(self) -> Environment:
        while not self._starts.acquire(timeout=TICK):
            if self._stopped():
                raise Stopped
        try:
            self._require_open()  # it may have been closed meanwhile
            with blame_code_of(self._factory, Moment()):
                environment = cast(Environment, require_environment(self._factory()))
        finally:
            self._starts.release()
        with self._lock:
            self._all.add(environment)
            if self._closed:
                _close_all(self._all)
            self._require_open()
        return environment

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the pool of environments is closed")

    def _drop_dead(self) -> None:
        """Close the idle environments that died, all of them once the pool is closed."""
        dead = [environment for environment in self._idle if self._closed or not environment.alive]
        for environment in dead:
            environment.close()
            self._idle.remove(environment)
            self._all.discard(environment)


def _close_all(environments: set[Environment]) -> None:
    while environments:
        environments.pop().close()
