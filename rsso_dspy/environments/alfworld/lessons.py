"""What can be learned from an episode of ALFWorld without a model: the conditions of its lessons, see `LessonTable`."""

import re
from collections.abc import Mapping
from functools import cached_property

from rsso_dspy.environments import lessons
from rsso_dspy.environments.alfworld.wording import TaskGoal, parse_goal
from rsso_dspy.environments.lessons import LessonTable, Words, name_all

_SEEN = re.compile(r"\ba (\w+ \d+)")
_AT = re.compile(r"(?:On|In|The|the) (?:the )?(\w+ \d+)(?:, you see| is )")
_PICKED = re.compile(r"You pick up the (\w+ \d+)")
_LEFT = re.compile(r"You (?:put|move) the (\w+ \d+)")
_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


class Episode(lessons.Episode):
    @cached_property
    def goal(self) -> TaskGoal | None:
        return parse_goal(self.task)

    @cached_property
    def held(self) -> str:
        """What is in hand before the newest step."""
        held = ""
        for state in self.states[:-1]:
            held = _hold(held, state.observation)
        return held

    @property
    def holds(self) -> str:
        """What is in hand now."""
        return _hold(self.held, self.answer)

    @cached_property
    def seen(self) -> dict[str, str]:
        """Things to where each was seen last."""
        found: dict[str, str] = {}
        for state in self.states[1:]:
            at = _AT.search(state.observation)
            if at and "you see" in state.observation:
                found |= dict.fromkeys(_SEEN.findall(state.observation), at[1])
        return found

    def find_seen(self, kind: str) -> dict[str, str]:
        """Things of a kind to where each was seen last."""
        return {name: at for name, at in self.seen.items() if name.startswith(f"{kind} ")}

    has_empty_hand = property(lambda self: not self.held)

    @property
    def station(self) -> Words | None:
        verb = self.action.partition(" ")[0]
        return {"verb": verb, "station": _STATIONS[verb]} if verb in _STATIONS else None

    is_repeated = property(lambda self: len(self.steps) > 1 and self.steps[-2].action.lower().strip() == self.action)
    in_hand = property(lambda self: name_all(filter(None, [self.holds])) if self.goal else None)

    @property
    def things_seen(self) -> Words | None:
        there = self.find_seen(self.goal.thing) if self.goal else {}
        return _tell_places({name: at for name, at in there.items() if name != self.holds})

    @property
    def thing_unseen(self) -> Words | None:
        return {"names": self.goal.thing} if self.goal and not self.things_seen and not self.holds else None

    @property
    def lamps_seen(self) -> Words | None:
        return _tell_places(self.find_seen(self.goal.place)) if self.goal and self.goal.verb == "look" else None

    @property
    def places_left(self) -> Words | None:
        visited = {step.action.removeprefix("go to ") for step in self.steps if step.action.startswith("go to ")}
        left = (name for name in _SEEN.findall(self.states[0].observation) if name not in visited)
        return name_all(left) if self.thing_unseen else None


def _hold(held: str, observation: str) -> str:
    if picked := _PICKED.search(observation):
        return picked[1]
    return "" if _LEFT.search(observation) else held


def _tell_places(found: Mapping[str, str]) -> Words | None:
    return name_all(f"{name} at {at}" for name, at in found.items())


LESSONS = LessonTable(__package__, Episode)
