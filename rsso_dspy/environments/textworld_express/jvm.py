"""The simulator of TextWorldExpress in a Java process: games, steps, and the package's own players of them."""

import json
import re
from dataclasses import dataclass
from typing import Any

from rsso_dspy.environments import jvm
from rsso_dspy.environments.jvm import Simulator
from rsso_dspy.environments.textworld_express.tasks import write_parameters
from rsso_dspy.errors import UsageError
from rsso_dspy.records import State, Variant

GOLD_AGENTS = {
    "cookingworld": "CookingWorld",
    "twc": "TWC",
    "coin": "Coin",
    "mapreader": "MapReader",
    "arithmetic": "Arithmetic",
    "sorting": "Sorting",
    "simonsays": "SimonSays",
    "peckingorder": "PeckingOrder",
}
"""Game to what its player is called in Java."""

ROOM = re.compile(r"You are in the ([^.\n]+)\.")  # how a look begins
MOST_ATTEMPTS = 50  # at a solution: as many as the package itself makes of most games


@dataclass(frozen=True, slots=True)
class Answer:
    """What the simulator says after an action, or at the start."""

    observation: str
    look: str
    inventory: str
    possible: tuple[str, ...]
    score: float  # the share of the game's points; -1 in some games that are lost
    won: bool
    lost: bool

    @property
    def state(self) -> State:
        """The state, in which an observation that is the look names the room alone: the look says the rest."""
        room = ROOM.match(self.look)
        observation = room[0] if room and self.observation == self.look else self.observation
        return State(observation, self.look, self.inventory)


class Jvm(jvm.Jvm):
    @classmethod
    def locate(cls) -> Simulator:
        from textworld_express.constants import JAR_PATH

        return Simulator("TextWorldExpress", JAR_PATH, "textworldexpress.runtime.PythonInterface")

    def start_game(self, variant: Variant) -> Answer:
        """Start the game of a variant. Raises ``SimulatorDied``, and ``UsageError`` for a game that there is not."""
        error = self.call("load", variant.task, write_parameters(variant.task))
        if error:
            raise UsageError(f"TextWorldExpress cannot load {variant.key}: {error}")
        return _read_answer(self.call("generateNewGameJSON", variant.index, variant.split, False))

    def take_action(self, action: str, limit: float | None = None) -> Answer:
        """Take an action. Raises ``SimulatorDied``, and ``TimeoutError`` after `limit` seconds."""
        return _read_answer(self.call("stepJSON", action, limit=limit))

    def describe_task(self) -> str:
        task: str = self.call("getTaskDescription")
        return task

    def list_parameters(self) -> dict[str, int]:
        """Return what the game that is played was made with, its seed among it."""
        return dict(json.loads(self.call("getGenerationPropertiesJSON")))

    def find_gold_path(self, variant: Variant) -> list[str]:
        """Return the actions by which the package's own player wins a game, empty if it does not. It walks at random,
        here by the seed of the game: the package draws another path every time."""
        random = self._make("scala.util.Random", variant.index)
        for _ in range(MOST_ATTEMPTS):
            self.start_game(variant)
            game = self._call_java(self._interface, "game")
            player = self._make(f"textworldexpress.goldagent.{GOLD_AGENTS[variant.task]}GoldAgent", game)
            outcome = self._call_java(player, "mkGoldPath", random)
            if self._call_java(outcome, "_1"):
                self._call_java(self._interface, "goldPath_$eq", self._call_java(outcome, "_2"))
                return [action for action in self.call("getGoldActionSequence") if action]
        return []

    def _make(self, kind: str, argument: Any) -> Any:
        """Make an object of a Java class."""
        return self._send_command(f"i\n{kind}\n{jvm.encode_argument(argument)}e\n")


def _read_answer(text: str) -> Answer:
    values = json.loads(text)
    return Answer(
        observation=_strip_lines(values["observation"]),
        look=_strip_lines(values["look"]),
        inventory=_strip_lines(values["inventory"]),
        possible=tuple(dict.fromkeys(values["validActions"])),
        score=float(values["score"]),
        won=values["tasksuccess"],
        lost=values["taskfailure"],
    )


def _strip_lines(text: str) -> str:
    """Return a text without spaces at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()
