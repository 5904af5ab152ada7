"""What of a state is shown in a history window.

A state lists everything in the room, mostly what the state before listed already. The first state of a window is shown
with all its features, each later one with its new features only:

    You move to the kitchen.
    You also observe:
        a lighter
        ...

A feature is one line of the surroundings or of the inventory. (The SSO reference also makes features of the contents of
containers, by splitting lines at commas. They never show, being part of a line that does, but they hide an object that
is taken out of its container; so here lines are the features.)
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from rsso_dspy.records import State

LISTING = re.compile(r"(In it, you|Here you) see:")
"""What announces the objects of a room, or of the outside."""

CARRIED = " in your inventory"

_EDGES = " \n\t.,"


@lru_cache(maxsize=8192)
def list_features(state: State) -> tuple[str, ...]:
    """The lines of what is seen and carried, in lower case, without headers; carried ones end in ``CARRIED``."""
    seen = (_normalize_feature(LISTING.sub("", line)) for line in state.look.splitlines())
    carried = (_normalize_feature(line) for line in state.inventory.splitlines()[1:])
    return tuple(
        dict.fromkeys(
            [line for line in seen if line and line != "you also see:"] + [line + CARRIED for line in carried if line]
        )
    )


def render_states(states: Sequence[State], focus: str = "") -> list[str]:
    """Text of each state of a window. ``focus`` is what the simulator said at the last focus action: as long as a task
    runs it matters which object was chosen, so the first state repeats it when that action is no longer in the
    window."""
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
    """The observation, then the features that are neither shown already nor part of a longer one, longest first."""
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
