"""The command line in a process of its own, the simulators below it, and a disk on which nothing can be written."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Java without its second compiler: a simulator that plays a few steps starts in half the time."""
FULL = "File too large"
"""What the system says when nothing can be written."""


@dataclass(frozen=True)
class Simulator:
    """A Java process. Numbers of processes are used again, a number with its time of birth is not."""

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        return _java(self.pid)[1] == self.born


def _java(pid: int) -> tuple[str, str]:
    """Parent and time of birth of a Java process that is alive; empty when the number stands for none."""
    with suppress(OSError):
        _, name, said = re.split(r"\((.*)\)", Path(f"/proc/{pid}/stat").read_text())
        state, parent, *more = said.split()
        if name == "java" and state != "Z":
            return parent, more[17]
    return "", ""


class Process:
    """One start of the command, in a process group of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]):
        self._process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env={**os.environ, **QUICK_JAVA, **environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.said = ""
        """What it wrote on stderr, once it has ended."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            self.said = pipe.read()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None when it goes on after that time."""
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(seconds)
            self._reader.join(seconds)
            return code
        return None

    def kill(self) -> None:
        """Kill the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def simulators(self) -> list[Simulator]:
        """Those alive."""
        return children(self.pid)


def children(parent: int) -> list[Simulator]:
    """The simulators alive of a process; none where there is no /proc to find them in."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()] if os.path.isdir("/proc") else []
    return [Simulator(pid, born) for pid in pids for above, born in [_java(pid)] if above == str(parent)]


def kill(simulator: Simulator) -> bool:
    """Whether there was something to kill."""
    if not simulator.alive:
        return False
    os.kill(simulator.pid, signal.SIGKILL)
    return True


def limit_files(process: Process, size: int = resource.RLIM_INFINITY) -> None:
    """From now on the process can write so many bytes to a file: with 0, as where the disk is full."""
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until it holds, so long at most; whether it does."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]
