"""A process that plays games: started when first needed, ended when asked to, replaced when it has grown.

    engine = Engine(step_seconds=20.0, most_bytes=512 << 20)
    engine.load(path)                      # Answer
    engine.step("go to desk 1")
    engine.close()

The process ends when this program does, however that ends: its stdin closes.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from rsso_dspy.errors import EnvironmentFailure, SimulatorDied, Stopped

WORKER = Path(__file__).with_name("worker.py")

LOAD_SECONDS = 120.0
"""Time limit for a game to be loaded, the start of the process included; usually it takes two seconds."""

SAID = 20
"""Words of the engine's own error that a message quotes: some quote lines of the game below."""

TICK = 0.2
"""Interval in seconds at which a waiting thread checks whether it should stop."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine says."""

    feedback: str
    won: bool
    done: bool
    commands: tuple[str, ...]
    """What can be done now, sorted."""


class Engine:
    """One process, used by one thread at a time. ``step_seconds``: time limit of a step. ``most_bytes``: a process that
    holds more is replaced before the next game. ``stopped``: polled while a game is loaded."""

    def __init__(self, step_seconds: float, most_bytes: int, stopped: Callable[[], bool] = lambda: False):
        self._step_seconds = step_seconds
        self._most_bytes = most_bytes
        self._stopped = stopped
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._errors: Any = None
        self._bytes = 0
        self.started = 0
        """How many processes were started."""

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether another game can be loaded."""
        return not self._closed and (self._process is None or self._process.poll() is None)

    def load(self, path: Path | None, game: Mapping[str, Any] | None = None) -> Answer:
        """Start a game afresh: a file, or one that was made. Raises ``EnvironmentFailure`` with the game's name when
        the engine cannot load it, ``SimulatorDied`` where that is not the game's fault, and ``Stopped``."""
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        if self._bytes > self._most_bytes:
            self._end_process()
        self._start_process()
        asked = {"do": "load", "path": str(path)} if path else {"do": "load", "game": game}
        try:
            told = self._ask(asked, LOAD_SECONDS, self._stopped)
        except TimeoutError:
            raise SimulatorDied(f"loading {path or 'a made game'} took over {LOAD_SECONDS:g} s") from None
        if why := told.get("error"):
            self._end_process()  # what it left behind is not known
            kind = EnvironmentFailure if told["of_game"] else SimulatorDied
            raise kind(f"the engine cannot load {path or 'a made game'}: {' '.join(why.split()[:SAID])}")
        return self._read(told)

    def step(self, action: str) -> Answer:
        """Raises ``TimeoutError`` after ``step_seconds``, and ``SimulatorDied``. Either ends the process."""
        if self._process is None:
            raise SimulatorDied("no variant is being played: reset the environment first.")
        told = self._ask({"do": "step", "action": action}, self._step_seconds)
        if why := told.get("error"):
            self._end_process()
            raise SimulatorDied(f"the engine failed inside the action {action!r}: {why}")
        return self._read(told)

    def close(self) -> None:
        """End the process. Idempotent; may be called from another thread."""
        self._closed = True
        self._end_process()

    def _read(self, told: Mapping[str, Any]) -> Answer:
        self._bytes = told["bytes"]
        return Answer(told["feedback"], told["won"], told["done"], tuple(told["commands"]))

    def _start_process(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._end_process()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._answers = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # alfworld makes the folder that this names, or one at home
            env={**os.environ, "ALFWORLD_DATA": tempfile.gettempdir()},
            start_new_session=True,  # Ctrl-C ends the program, which ends this
        )
        self.started += 1
        self._bytes = 0
        threading.Thread(target=_pass_on, args=(self._process, self._answers), daemon=True).start()

    def _ask(
        self, request: Mapping[str, Any], seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        latest = time.monotonic() + seconds
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except (OSError, ValueError):
            raise self._report_death(process) from None
        while True:
            try:
                line = self._answers.get(timeout=TICK)
            except Empty:
                if stopped():
                    self._end_process()
                    raise Stopped from None
                if time.monotonic() > latest:
                    self._end_process()
                    raise TimeoutError from None
                continue
            if not line.endswith(b"\n"):
                raise self._report_death(process)
            return dict(json.loads(line))

    def _report_death(self, process: "subprocess.Popen[bytes]") -> SimulatorDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code, last = process.returncode, self._read_last_error()
        self._closed = True
        self._end_process()
        return SimulatorDied(f"the engine's process ended (exit code {code}){last}")

    def _read_last_error(self) -> str:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            return f": {lines[-1]}" if lines else ""
        return ""

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        for file in (process.stdin, self._errors):
            with contextlib.suppress(OSError, ValueError):
                if file is not None:
                    file.close()


def _pass_on(process: "subprocess.Popen[bytes]", answers: "SimpleQueue[bytes]") -> None:
    """Every line of a process, and an empty one at its end."""
    assert process.stdout is not None
    with process.stdout as lines, contextlib.suppress(OSError, ValueError):
        for line in lines:
            answers.put(line)
    answers.put(b"")
