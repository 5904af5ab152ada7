"""Loops in a trajectory: the same action again, few kinds of actions, few places.

    find_loop(steps)            # "10 actions were of only 2 kinds: ..."; empty without a loop

`name_place` of an environment says where a state is; without it, texts are read as plain English.
"""

import re
from collections.abc import Callable, Sequence
from itertools import groupby

from rsso_dspy.records import State, Step

ACTIONS = 10  # so many actions of at most so many kinds are a loop
KINDS = 3
STEPS = 8  # so many steps in at most so many places are a loop
PLACES = 2
MOST_SENTENCES = 6

_PLACE = re.compile(
    r"\bYou (?:arrive (?:at|in)|enter|go to|walk to|move to|are (?:now )?in(?= the )) (?:the )?([a-z0-9 ]+)", re.I
)


def name_place(state: State) -> str:
    """The place that a state's texts name last, in plain English; empty if they name none."""
    places = _PLACE.findall(f"{state.observation}\n{state.look}")
    return places[-1].strip().lower() if places else ""


def is_repeated(steps: Sequence[Step]) -> bool:
    """Whether the last action is the one before it. An answer without an action repeats nothing."""
    if len(steps) < 2 or not steps[-1].action:
        return False
    return steps[-1].action == steps[-2].action


def find_loop(steps: Sequence[Step], name_place: Callable[[State], str] = name_place) -> str:
    """The semantic loop that the trial is in after its last step, as a clause; empty when it is in none. The rule on
    places needs eight steps whose place is known."""
    if loop := find_action_loop(steps):
        return loop

    places = list_places(steps, name_place)[-STEPS:]
    if len(places) < STEPS or not all(places):
        return ""
    distinct = list(dict.fromkeys(places))
    if len(distinct) <= PLACES:
        return f"{STEPS} steps were spent in only {len(distinct)} places: {', '.join(distinct)}"
    return ""


def find_action_loop(steps: Sequence[Step]) -> str:
    """The first rule of `find_loop` alone."""
    recent = [step.action for step in steps[-ACTIONS:]]
    kinds = [kind or "none" for kind in dict.fromkeys(recent)]
    if len(recent) == ACTIONS and len(kinds) <= KINDS:
        return f"{ACTIONS} actions were of only {len(kinds)} kinds: {', '.join(kinds)}"
    return ""


def list_places(steps: Sequence[Step], name_place: Callable[[State], str] = name_place) -> list[str]:
    """The place after each step: the one its state names, else the last one that was named; empty before the first."""
    places = []
    place = ""
    for step in steps:
        place = name_place(step.state) or place
        places.append(place)
    return places


def describe_loops(steps: Sequence[Step], name_place: Callable[[State], str] = name_place) -> str:
    """The loops of a trial, a line each, every one once where it began; empty when there is none."""
    lines: list[str] = []
    start = 0
    for end in range(1, len(steps) + 1):
        loop = find_loop(steps[start:end], name_place)
        if loop:
            length = ACTIONS if "actions" in loop else STEPS
            lines.append(f"Steps {end - length + 1} to {end}: {loop}.")
            start = end

    for action, run in groupby(enumerate(steps, start=1), key=lambda numbered: numbered[1].action):
        numbers = [number for number, _ in run]
        if action and len(numbers) > 1:
            lines.append(f"Steps {numbers[0]} to {numbers[-1]}: the same action, {action}, {len(numbers)} times.")
    return "\n".join(lines[:MOST_SENTENCES])
