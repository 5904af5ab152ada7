"""Plays rooms with doors, keys, balls and boxes, seen from inside. The player tries what is offered, as in any world
that it has no way of playing; habits only make it prefer some of it."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from rsso_dspy.explorer.worlds.world import Deed, Fact, Habit, View, Wording, World

_NO_DOOR = re.compile(r"^(?:toggle and )?go through (?!.*door)|^pickup .*door")
_KEY = re.compile(r"you are carrying an? \w+ key")
_THROUGH = "toggle and go through"
_AGAINST, _FOR = -4.0, 3.0


def rate_action(action: str, view: str, last: str, habits: Collection[str]) -> float:
    """Score of an action by the habits, on the scale of the player's scores. ``view``: what is seen, in lower case;
    ``last``: the action before."""
    rate = 0.0
    if "doors" in habits and _NO_DOOR.search(action):
        rate += _AGAINST
    if "keep key" in habits and action == "drop" and _KEY.search(view):
        rate += _AGAINST
    if "step in" in habits and action == "move forward" and last.startswith(_THROUGH):
        rate += _FOR
    return rate


def _update(facts: frozenset[Fact], _action: str, _answer: str) -> frozenset[Fact]:
    return facts


def _propose(_view: View) -> Iterator[tuple[str, str]]:
    return iter(())


def _took_door(deeds: Sequence[Deed]) -> bool:
    return any(_NO_DOOR.search(deed.action) for deed in deeds)


def _dropped_key(deeds: Sequence[Deed]) -> bool:
    return any(after.action == "drop" and _KEY.search(deed.answer) for deed, after in pairwise(deeds))


def _stayed_in_doorway(deeds: Sequence[Deed]) -> bool:
    went = [(deed, after) for deed, after in pairwise(deeds) if deed.action.startswith(_THROUGH)]
    return any("in front of you" in deed.answer and after.action != "move forward" for deed, after in went)


WORLD = World(
    "minigrid",
    re.compile(r"in front of you in this room|you cannot see any objects|toggle and go through"),
    Wording({"none": "nothing is noted of {}"}),
    _update,
    _propose,
    (
        Habit(
            "doors",
            r"only (?:a )?doors? (?:can be|are|is) gone through|never pickup a door",
            "Only doors are gone through, and a door is never picked up.",
            _took_door,
        ),
        Habit(
            "keep key",
            r"keep (?:it|the key) until|never drop a key",
            "Keep the key until its door is open.",
            _dropped_key,
        ),
        Habit(
            "step in",
            r"move forward once|step (?:on )?into the room",
            "After a door, move forward once to see the room behind it.",
            _stayed_in_doorway,
        ),
    ),
)
