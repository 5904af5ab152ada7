"""Solutions of training games: what the package's own players do, without their detours. A player walks at random and
opens every door: a walk is cut where it comes back to a room, and a door is opened where the way leads through it."""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from rsso_dspy.environments.textworld_express.environment import name_place
from rsso_dspy.environments.textworld_express.jvm import Answer, Jvm
from rsso_dspy.errors import GoldUnknown, SimulatorDied
from rsso_dspy.records import Variant

IDLE = ("look around", "inventory", "task", "open door to", "close door to")  # beginnings of actions that are left out
CLOSED = "You can't move there, the door is closed."


@dataclass(frozen=True, slots=True)
class Action:
    """An action with the rooms before and after it."""

    text: str
    before: str
    after: str

    @property
    def is_move(self) -> bool:
        return self.text.startswith("move ")


class SolutionFinder:
    """Finds solutions, one at a time, in a simulator that starts when the first one is asked for. One that died is
    replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._simulator: Jvm | None = None

    def find_solution(self, variant: Variant) -> tuple[str, ...]:
        """Return a short solution, the same every time. Raises ``GoldUnknown``."""
        with self._lock:
            if self._simulator is None or not self._simulator.alive:
                self._simulator = Jvm()
            simulator = self._simulator
            try:
                path = _trace_rooms(simulator, variant, simulator.find_gold_path(variant))
                return _play_with_doors(simulator, variant, cut_detours(path))
            except SimulatorDied as failure:
                raise GoldUnknown(f"no solution of {variant.key} is known: {failure}") from failure

    def close(self) -> None:
        with self._lock:
            if self._simulator is not None:
                self._simulator.close()
            self._simulator = None


@cache
def get_finder() -> SolutionFinder:
    """Return the finder of this process, whose simulator ends with it."""
    finder = SolutionFinder()
    atexit.register(finder.close)
    return finder


def find_solution(variant: Variant) -> tuple[str, ...]:
    """Return a short solution, the same every time. Raises ``GoldUnknown`` where the package's player finds none."""
    return get_finder().find_solution(variant)


def cut_detours(path: Sequence[Action]) -> list[str]:
    """Return the actions of a path without those that are idle, without what is opened and closed at once, and without
    walks in a circle between two others."""
    actions = list[str]()
    walk = list[Action]()  # since the last action that was none
    for action in _drop_glances([action for action in path if not action.text.startswith(IDLE)]):
        if not action.is_move:
            actions += [*(move.text for move in walk), action.text]
            walk = []
            continue

        walk.append(action)
        rooms = [move.before for move in walk]
        if action.after in rooms:
            del walk[rooms.index(action.after) :]
    return actions


def _drop_glances(path: Sequence[Action]) -> list[Action]:
    """Return a path without containers that are opened and closed at once."""
    actions = list[Action]()
    for action in path:
        if actions and action.text == actions[-1].text.replace("open ", "close ", 1) != actions[-1].text:
            actions.pop()
        else:
            actions.append(action)
    return actions


def _trace_rooms(simulator: Jvm, variant: Variant, path: Sequence[str]) -> list[Action]:
    """Play a path and note the rooms."""
    traced = list[Action]()
    answer = simulator.start_game(variant)
    for text in path:
        old_answer = answer
        answer = simulator.take_action(text)
        traced.append(Action(text, name_place(old_answer.state), name_place(answer.state)))
    return traced


def _play_with_doors(simulator: Jvm, variant: Variant, path: Sequence[str]) -> tuple[str, ...]:
    """Play a path and open the doors that it needs; return it with them. Raises ``GoldUnknown`` if it does not win."""
    actions = list[str]()
    answer: Answer = simulator.start_game(variant)
    for text in path:
        answer = simulator.take_action(text)
        if answer.observation == CLOSED:
            opening = text.replace("move ", "open door to ", 1)
            simulator.take_action(opening)
            answer = simulator.take_action(text)
            actions.append(opening)
        actions.append(text)
    if not answer.won:
        raise GoldUnknown(f"no solution of {variant.key} is known: the package's own player finds none")
    return tuple(actions)
