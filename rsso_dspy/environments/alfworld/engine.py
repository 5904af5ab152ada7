"""A process that plays games: started when first needed, ended when asked to, replaced after some games."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.environments import NOTHING_PLAYED
from rsso_dspy.environments.pool import Process
from rsso_dspy.errors import EnvironmentFailure, SimulatorDied, Stopped

WORKER = Path(__file__).with_name("worker.py")
LOAD_SECONDS = 120.0  # for a game to be loaded, the start of the process included; usually it takes two

SAID = 20  # words of the engine's own error that a message quotes: some quote lines of the game below
MOST_LOADED = 100  # games that a process loads at most: what it holds grows with each


@dataclass(frozen=True, slots=True)
class Answer:
    feedback: str
    won: bool
    done: bool
    commands: tuple[str, ...]  # what can be done now, sorted


class Engine:
    """One process, used by one thread at a time. ``step_seconds``: time limit of a step. ``stopped``: polled while a
    game is loaded."""

    def __init__(self, step_seconds: float, stopped: Callable[[], bool] = lambda: False):
        self._step_seconds = step_seconds
        self._stopped = stopped
        self._closed = False
        self._process: Process | None = None
        self._loaded = 0  # games that the process has loaded
        self.started = 0  # how many processes were started

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether another game can be loaded."""
        return not self._closed and (self._process is None or self._process.alive)

    def load(self, path: Path | None, game: Mapping[str, Any] | None = None) -> Answer:
        """Start a game afresh: a file, or one that was made. Raises ``EnvironmentFailure`` with the game's name when
        the engine cannot load it, ``SimulatorDied`` where that is not the game's fault, and ``Stopped``."""
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        if self._process is None or not self._process.alive or self._loaded >= MOST_LOADED:
            self._start_process()
        self._loaded += 1
        named = path or "a made game"
        asked = {"do": "load", "path": str(path)} if path else {"do": "load", "game": game}
        try:
            told = self._ask(asked, LOAD_SECONDS, self._stopped)
        except TimeoutError:
            raise SimulatorDied(f"loading {named} took over {LOAD_SECONDS:g} s") from None
        if why := told.get("error"):
            self._end_process()  # what it left behind is not known
            kind = EnvironmentFailure if told["of_game"] else SimulatorDied
            raise kind(f"the engine cannot load {named}: {' '.join(why.split()[:SAID])}")
        return _read_answer(told)

    def step(self, action: str) -> Answer:
        """Raises ``TimeoutError`` after ``step_seconds``, and ``SimulatorDied``. Either ends the process."""
        told = self._ask({"do": "step", "action": action}, self._step_seconds)
        if why := told.get("error"):
            self._end_process()
            raise SimulatorDied(f"the engine failed inside the action {action!r}: {why}")
        return _read_answer(told)

    def close(self) -> None:
        """End the process. Idempotent; may be called from another thread."""
        self._closed = True
        self._end_process()

    def _start_process(self) -> None:
        self._end_process()
        # alfworld makes the folder that the variable names, or one at home
        env = {**os.environ, "ALFWORLD_DATA": tempfile.gettempdir()}
        self._process = Process([sys.executable, "-P", str(WORKER)], env=env)
        self.started += 1
        self._loaded = 0

    def _ask(
        self, request: Mapping[str, Any], seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        process = self._process
        if process is None:
            raise SimulatorDied(NOTHING_PLAYED)
        line = b""
        try:
            process.write(json.dumps(request).encode())
            line = process.read_line(seconds, stopped)
        except (TimeoutError, Stopped):
            self._end_process()
            raise
        except OSError:  # it has ended, and said nothing
            pass
        if line.endswith(b"\n"):
            return dict(json.loads(line))
        status, errors = process.wait(), process.read_errors()
        self.close()
        raise SimulatorDied(f"the engine's process ended (exit code {status}){''.join(f': {e}' for e in errors[-1:])}")

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _read_answer(told: Mapping[str, Any]) -> Answer:
    return Answer(told["feedback"], told["won"], told["done"], tuple(told["commands"]))
