"""The command line in a process of its own, the simulators below it, and a disk on which nothing can be written."""

import os
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
FULL = "File too large"
"""What the system says when nothing can be written."""


@dataclass(frozen=True)
class Simulator:
    """A Java process. Numbers of processes are used again, a number with its time of birth is not."""

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        return _java(self.pid) == self.born


def _stat(pid: int) -> list[str]:
    """What the system says of a process after its name: state, parent, ...; nothing when there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _java(pid: int) -> str | None:
    """Time of birth of a Java process that is alive; None when the number stands for none."""
    with suppress(OSError):
        stat = _stat(pid)
        if stat and stat[0] != "Z" and Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return stat[19]
    return None


class Process:
    """One start of the command, in a process group of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]):
        self._process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
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

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def simulators(self) -> list[Simulator]:
        """Those alive."""
        return children(self.pid)


def children(parent: int) -> list[Simulator]:
    """The simulators alive of a process; none where there is no /proc to find them in."""
    if not os.path.isdir("/proc"):
        return []
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _stat(int(entry))[1:2] == [str(parent)]]
    return [Simulator(pid, born) for pid in pids if (born := _java(pid))]


def kill(simulator: Simulator) -> bool:
    """Whether there was something to kill."""
    if not simulator.alive:
        return False
    os.kill(simulator.pid, signal.SIGKILL)
    return True


def fill_disk(process: Process) -> None:
    """From now on the process can write to no file."""
    limit_files(process, 0)


def free_disk(process: Process) -> None:
    limit_files(process, resource.RLIM_INFINITY)


def limit_files(process: Process, size: int) -> None:
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
