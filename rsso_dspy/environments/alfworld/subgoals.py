"""How far an episode has come, by what was observed: the kind of patterns that OmniReflect and AgentBoard go by.

    goal = parse_goal("Your task is to: clean some mug and put it in shelf.")   # Goal('mug', 'shelf', 'clean', 1)
    progress = Progress(goal)
    progress.read("On the desk 1, you see a mug 2.")
    progress.is_met                                                             # (True, False, False, False)

A step is met in any order, and counts once it was met.
"""

import re
from dataclasses import dataclass

_VERBS = {"clean": "clean", "hot": "heat", "heat": "heat", "cool": "cool"}
_LOOK = re.compile(r"(?:look at|examine)(?: the| an?)? (\w+) (?:under|with) the (\w+)")
_TWO = re.compile(r"(?:put|find) two (\w+) (?:and put them )?(?:in|on) (\w+)")
_TREAT = re.compile(r"(clean|heat|cool) some (\w+) and put it (?:in|on) (\w+)")
_PUT = re.compile(r"put (?:an?|some) (?:(clean|hot|cool) )?(\w+) (?:in|on) (\w+)")


@dataclass(frozen=True, slots=True)
class TaskGoal:
    """What a task asks for."""

    thing: str
    place: str
    """Where to, or the lamp."""
    verb: str = "put"
    """``put``, ``clean``, ``heat``, ``cool`` or ``look``."""
    count: int = 1


def parse_goal(task: str) -> TaskGoal | None:
    """The goal that the text of a task names; None for another wording, as of people."""
    if found := _LOOK.search(task):
        return TaskGoal(found[1], found[2], "look")
    if found := _TWO.search(task):
        return TaskGoal(found[1], found[2], "put", 2)
    if found := _TREAT.search(task):
        return TaskGoal(found[2], found[3], found[1])
    if found := _PUT.search(task):
        return TaskGoal(found[2], found[3], _VERBS.get(found[1] or "", "put"))
    return None


class Progress:
    """Steps towards a goal."""

    def __init__(self, goal: TaskGoal | None):
        self._steps = _list_steps(goal) if goal else []
        self._met = [False] * len(self._steps)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each step is: ``see``, ``take``, ``clean``, ``heat``, ``cool``, ``light`` or ``put``."""
        return tuple(kind for kind, _ in self._steps)

    @property
    def is_met(self) -> tuple[bool, ...]:
        return tuple(self._met)

    @property
    def share(self) -> float:
        """Of the steps, with winning as one more."""
        return sum(self._met) / (len(self._met) + 1)

    def read(self, observation: str) -> None:
        """Take an observation into account; one step of a kind at most."""
        kinds = set()
        for number, (kind, pattern) in enumerate(self._steps):
            if not self._met[number] and kind not in kinds and pattern.search(observation):
                self._met[number] = True
                kinds.add(kind)


def _list_steps(goal: TaskGoal) -> list[tuple[str, re.Pattern[str]]]:
    thing = re.escape(goal.thing)
    see = ("see", re.compile(rf"you see .*\ba {thing} \d"))
    take = ("take", re.compile(rf"You pick up the {thing} \d"))
    if goal.verb == "look":
        return [see, take, ("light", re.compile(rf"You turn on the {re.escape(goal.place)} \d"))]
    put = ("put", re.compile(rf"You (?:put|move) the {thing} \d+ (?:in/on|to) the {re.escape(goal.place)} \d"))
    treated = [(goal.verb, re.compile(rf"You {goal.verb} the {thing} \d"))] if goal.verb != "put" else []
    return [see, *([take, *treated, put] * goal.count)]
