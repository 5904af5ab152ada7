"""The display of states in a history window.

A state lists everything in the room, most of which the previous state listed already. The first state of a window shows
all its features, each later one only new features:

    You move to the kitchen.
    You also observe:
        a lighter
        ...

A feature is one line of the surroundings or of the inventory. (The SSO reference also makes features of the contents of
containers, by splitting lines at commas. They never show, because the whole line does, but they hide an object that is
taken out of its container; so here lines are the features.)
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from rsso_dspy.records import State

LISTING = re.compile(r"(In it, you|Here you) see:")
"""Headers before the objects of a room or of the outside."""

CARRIED = " in your inventory"

_EDGES = " \n\t.,"


@lru_cache(maxsize=8192)
def list_features(state: State) -> tuple[str, ...]:
    """Return the lines of surroundings and inventory in lower case, without headers; the latter end in ``CARRIED``."""
    seen = (_normalize_feature(LISTING.sub("", line)) for line in state.look.splitlines())
    carried = (_normalize_feature(line) for line in state.inventory.splitlines()[1:])
    return tuple(
        dict.fromkeys(
            [line for line in seen if line and line != "you also see:"] + [line + CARRIED for line in carried if line]
        )
    )


def render_states(states: Sequence[State], focus: str = "") -> list[str]:
    """Render each state of a window.

    ``focus`` is the simulator's answer to the last focus action. The first state repeats it if that action is no longer
    in the window, because the chosen object matters until the task ends.
    """
    texts = []
    shown: tuple[str, ...] = ()
    for number, state in enumerate(states):
        repeat = number == 0 and focus and all(focus != other.observation for other in states)
        extra = (_normalize_feature(focus),) if repeat else ()
        texts.append(_render_state(state.observation, extra + list_features(state), shown))
        shown = list_features(state)
    return texts


@lru_cache(maxsize=8192)
def _render_state(observation: str, now: tuple[str, ...], shown: tuple[str, ...]) -> str:
    """Render the observation, then new features that are not part of a longer one, longest first."""
    known = {*shown, _normalize_feature(observation)}
    listed: list[str] = []
    for feature in sorted((one for one in now if one not in known), key=len, reverse=True):
        if not any(feature.removesuffix(CARRIED) in other for other in listed):
            listed.append(feature)
    if not listed:
        return observation
    return "\n\t".join([f"{observation}\nYou also observe:", *listed])


def _normalize_feature(line: str) -> str:
    return line.strip(_EDGES).lower()
