"""Plays a world of balls that a robot with two arms carries between rooms."""

import re
from collections.abc import Iterator, Sequence

from rsso_dspy.explorer.worlds.world import Deed, Habit, View, Wording, World, read_whole

_WORDING = Wording(
    {
        "ball": "{} is a ball",
        "arm": "{} is a gripper",
        "at": "{} is at {}",
        "free": "{} is free",
        "carry": "{} is carrying {}",
        "room": "room {}",
    }
)


def _propose(view: View) -> Iterator[tuple[str, str]]:
    wanted = {fact[1]: fact[2] for fact in _WORDING.read(view.task) if fact[0] == "at"}
    at = {fact[1]: fact[2] for fact in view.select("at")}
    here = at.pop("robby", "")
    carried = {fact[1]: fact[2] for fact in view.select("carry")}
    left = sorted((ball for ball in at if wanted.get(ball, at[ball]) != at[ball]), key=view.draw)
    free = [fact[1] for fact in view.select("free")]
    for ball, arm in carried.items():
        if wanted.get(ball, here) == here:
            yield f"drop {ball} {here} {arm}", ball
    if free and (not carried or "both arms" in view.habits):
        for ball in (each for each in left if at[each] == here):
            yield f"pick up {ball} at {here} with arm {free[0]}", ball
    for ball in carried:
        yield f"move from {here} to {wanted[ball]}", ball
    rooms = [at[ball] for ball in left]
    if "both arms" in view.habits:
        rooms.sort(key=lambda room: -min(2, rooms.count(room)))
    for room in rooms:
        yield f"move from {here} to {room}", room


def _moved_with_one(deeds: Sequence[Deed]) -> bool:
    verbs = "".join(deed.action[0] for deed in deeds if not deed.failed and deed.action)
    return re.search(r"(?:^|[^p])pm", verbs) is not None


WORLD = World(
    "gripper",
    re.compile(r"(?m)is a gripper\.|pick up \w+ at \w+ with arm|move from room|drop \w+ room\w* \w+$"),
    _WORDING,
    read_whole(_WORDING),
    _propose,
    (
        Habit(
            "both arms",
            r"(?:fill|use|load) (?:both|two) (?:arms|grippers|hands)|pick up [^\n]{3,60}\n\W*(?:\d+\W+)?pick up ",
            "Fill both arms before changing rooms.",
            _moved_with_one,
        ),
    ),
)
