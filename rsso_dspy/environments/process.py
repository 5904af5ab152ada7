"""A simulator's own process: it ends when this program does, however that ends, since its stdin closes.

process = Process([sys.executable, "-P", "worker.py"])
process.write(b'{"do": "step"}')
process.read_line(20.0)                     # b"" once it has ended
process.end()
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

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
