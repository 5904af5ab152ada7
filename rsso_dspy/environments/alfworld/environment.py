"""An ALFWorld game as an `Environment`, played in a process of its own: started when first needed, ended when asked to,
replaced after some games. The interface `sso` says `put` and leaves out where one has arrived, as published harnesses
do; `complete` says what recent games say. Either understands both. The score is the share of steps towards the goal,
100 when the game is won."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rsso_dspy.environments import STALLED, Goal, Transition, require_played
from rsso_dspy.environments.alfworld import wording
from rsso_dspy.environments.alfworld.tasks import TABLE, load_game
from rsso_dspy.environments.alfworld.wording import LESSONS
from rsso_dspy.environments.lessons import Progress, TaughtEnvironment
from rsso_dspy.environments.pool import Process
from rsso_dspy.errors import EnvironmentFailure, SimulatorDied, Stopped
from rsso_dspy.records import SOLVED_SCORE, State, Variant

MOST_STEPS = 50  # TextWorld's own limit in ALFWorld's configuration
WORKER = Path(__file__).with_name("worker.py")
LOAD_SECONDS = 120.0  # for a game to be loaded, the start of the process included; usually it takes two
SAID = 20  # words of the engine's own error that a message quotes: some quote lines of the game below
MOST_LOADED = 100  # games that a process loads at most: what it holds grows with each


class AlfWorld(TaughtEnvironment):
    """Plays one game after the other. ``folder``: the user's games; without, tiny ones that come along.
    ``step_seconds``: time limit of a step. ``stopped``: polled while a game is loaded."""

    teaches = LESSONS
    table = TABLE
    name_place = staticmethod(wording.name_place)
    verbs = ("put", "move")

    def __init__(
        self, folder: str | None = None, step_seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
    ):
        self._folder, self._step_seconds, self._stopped = folder, step_seconds, stopped
        self._process: Process | None = None
        self._loaded = 0  # games that the process has loaded
        self._closed = False
        self.task = ""
        self._answer: Mapping[str, Any] | None = None  # the worker's last one

    @property
    def action_templates(self) -> str:
        return wording.PUBLISHED if self._interface == "sso" else wording.RECENT

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return not self._closed and (self._process is None or self._process.alive)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `load_game` raises, ``EnvironmentFailure`` with the name of a game that
        the engine cannot load, ``SimulatorDied`` where that is not the game's fault, and ``Stopped``."""
        self._variant = self._answer = None
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        game, name = load_game(variant, self._folder)
        if self._process is None or not self._process.alive or self._loaded >= MOST_LOADED:
            self._end_process()
            # alfworld makes the folder that the variable names, or one at home
            env = {**os.environ, "ALFWORLD_DATA": tempfile.gettempdir()}
            self._process, self._loaded = Process([sys.executable, "-P", str(WORKER)], env=env), 0
        self._loaded += 1
        try:
            answer = self._ask({"game": game}, f"load {name}", LOAD_SECONDS, self._stopped)
        except TimeoutError:
            raise SimulatorDied(f"loading {name} took over {LOAD_SECONDS:g} s") from None
        first, self.task = wording.split_first(answer["feedback"])
        self._moves = "move {o} to {r}" in game["grammar"]  # whether the game says `move`
        self._progress = Progress(wording.list_steps(wording.parse_goal(self.task)))
        self._progress.read(first)
        self._score = self._steps = 0
        self._variant, self._answer = variant, answer
        return State(self._tell(first), "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it: in either wording, letter case and final full stop are overlooked."""
        require_played(self._answer)
        before, self._steps = self._score, self._steps + 1
        sent = " ".join(action.split()).rstrip(".").lower()
        if sent == wording.CHECK:
            told = f"Choose an action from these valid actions: {', '.join(self.admissible_actions())}"
            return self._describe(sent, told, before)
        try:
            asked = {"action": wording.to_engine(sent, self._moves)}
            self._answer = answer = self._ask(asked, f"carry out {sent!r}", self._step_seconds)
        except TimeoutError:
            return Transition(State(STALLED, "", ""), sent, 0, before, understood=True, done=False, stalled=True)
        feedback = answer["feedback"].strip()
        self._progress.read(feedback)
        if self._score != SOLVED_SCORE:
            met = self._progress.is_met  # with winning as one more
            self._score = SOLVED_SCORE if answer["won"] else int(SOLVED_SCORE * (sum(met) / (len(met) + 1)))
        return self._describe(sent, feedback, before)

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as the game lists it, in the wording of the interface."""
        commands = require_played(self._answer)["commands"]
        return [wording.to_engine(each, self._interface != "sso") for each in commands]

    def close(self) -> None:
        self._closed = True
        self._end_process()

    def _list_goals(self) -> Sequence[Goal]:
        met = zip(self._progress.kinds, self._progress.is_met, strict=True)
        return [*(Goal(kind, done, False) for kind, done in met), Goal("task", self._score == SOLVED_SCORE, True)]

    def _describe(self, sent: str, feedback: str, before: int) -> Transition:
        return Transition(
            state=State(self._tell(feedback), "", ""),
            action=sent,
            reward=self._score - before,
            score=self._score,
            understood=feedback != wording.NOTHING,
            done=self._score == SOLVED_SCORE or self._steps >= MOST_STEPS,
        )

    def _tell(self, text: str) -> str:
        return wording.to_published(text) if self._interface == "sso" else wording.to_recent(text)

    def _ask(
        self, request: Mapping[str, Any], what: str, seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> Mapping[str, Any]:
        """The worker's answer. Raises ``TimeoutError``, ``Stopped``, ``SimulatorDied``, and ``EnvironmentFailure`` for
        a game that cannot be loaded; each ends the process."""
        process = require_played(self._process)
        line = b""
        try:
            process.write(json.dumps(request).encode())
            line = process.read_line(seconds, stopped)
        except (TimeoutError, Stopped):
            self._end_process()
            raise
        except OSError:  # it has ended, and said nothing
            pass
        if not line.endswith(b"\n"):
            status, errors = process.wait(), process.read_errors()
            self.close()
            said = "".join(f": {each}" for each in errors[-1:])
            raise SimulatorDied(f"the engine's process ended (exit code {status}){said}")
        told: Mapping[str, Any] = json.loads(line)
        if why := told.get("error"):
            self._end_process()  # what it left behind is not known
            kind = EnvironmentFailure if told["of_game"] and "game" in request else SimulatorDied
            raise kind(f"the engine cannot {what}: {' '.join(why.split()[:SAID])}")
        return told

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
