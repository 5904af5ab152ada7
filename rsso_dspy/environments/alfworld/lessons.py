"""What can be learned from an episode without a model, and rules about these houses that hold whatever the task.

They go by the task, the actions and the observations.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from rsso_dspy.environments.alfworld.wording import NOTHING, TaskGoal, parse_goal
from rsso_dspy.environments.benchmark import NO_ACTION, Episode, LessonPattern, LessonTable, Words
from rsso_dspy.records import Lesson

RULES_OF_THUMB: tuple[Lesson, ...] = tuple(
    Lesson("abstract", text)
    for text in (
        "Look for the thing of the task place by place, the likely ones first; open what is closed.",
        "Go to a place before doing anything there.",
        "Only one thing can be carried: leave what is in hand before taking another.",
        "Names come with their numbers: take mug 1, not take mug.",
        "Clean at a sinkbasin, heat at a microwave, cool at a fridge, with the thing in hand. None of them has to be "
        "opened, and the thing is not put into it.",
        "To look at a thing in light, carry it to where a desklamp is and use the desklamp there.",
        "Where two things are wanted, bring the first, then fetch the second: both go to the same place.",
        "A closed place has to be opened before a thing is put into it.",
    )
)
"""Rules about these houses."""

_SEEN = re.compile(r"\ba (\w+ \d+)")
_AT = re.compile(r"(?:On|In|The|the) (?:the )?(\w+ \d+)(?:, you see| is )")
_PICKED = re.compile(r"You pick up the (\w+ \d+)")
_LEFT = re.compile(r"You (?:put|move) the (\w+ \d+)")
_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


class _Episode(Episode):
    @property
    def failed(self) -> bool:
        return self.answer == NOTHING

    @cached_property
    def goal(self) -> TaskGoal | None:
        return parse_goal(self.task)

    @cached_property
    def held(self) -> str:
        """What is in hand before the newest step."""
        held = ""
        for state in self.states[:-1]:
            if found := _PICKED.search(state.observation):
                held = found[1]
            elif _LEFT.search(state.observation):
                held = ""
        return held

    @cached_property
    def place(self) -> str:
        """Where one is, by the last action that led somewhere."""
        for step, state in zip(reversed(self.steps), reversed(self.states), strict=False):
            if step.action.startswith("go to ") and state.observation != NOTHING:
                return step.action.removeprefix("go to ")
        return ""

    @cached_property
    def seen(self) -> dict[str, str]:
        """Things to where each was seen last."""
        found: dict[str, str] = {}
        for state in self.states[1:]:
            at = _AT.search(state.observation)
            if at and "you see" in state.observation:
                found |= dict.fromkeys(_SEEN.findall(state.observation), at[1])
        return found

    @cached_property
    def visited(self) -> set[str]:
        return {step.action.removeprefix("go to ") for step in self.steps if step.action.startswith("go to ")}


_TAKEN_UP = re.compile(r"(go to|open|close|take|use|put|move|clean|heat|cool)\b")


def _find_empty_hand(episode: _Episode) -> Words | None:
    verb = episode.action.partition(" ")[0]
    wanted = episode.failed and verb in {"put", "move", "clean", "heat", "cool"}
    return {"verb": verb} if wanted and not episode.held else None


def _find_wrong_station(episode: _Episode) -> Words | None:
    verb = episode.action.partition(" ")[0]
    return {"verb": verb, "station": _STATIONS[verb]} if episode.failed and verb in _STATIONS else None


def _is_repeated(episode: _Episode) -> bool:
    return len(episode.steps) > 1 and episode.steps[-2].action.lower().strip() == episode.action


_MISTAKES: tuple[LessonPattern[_Episode], ...] = (
    NO_ACTION,
    LessonPattern(lambda e: e.failed and bool(_TAKEN_UP.match(e.action)) and not re.search(r"\d", e.action),
        "Named a thing or a place without its number.", "Write each name with its number, as observed."),
    LessonPattern(lambda e: e.failed and e.action.startswith("take ") and bool(e.held),
        "Wanted to take a thing with another in hand.", "Leave what is carried first."),
    LessonPattern(_find_empty_hand, "Tried to {verb} a thing that was not in hand.", "Take it first, where it is."),
    LessonPattern(_find_wrong_station, "Tried to {verb} where that cannot be done.",
        "Go to the {station} first and name it."),
    LessonPattern(lambda e: e.failed and e.action.partition(" ")[0] in {"put", "move"},
        "Wanted to leave the thing somewhere that is closed, far away, or does not take it.",
        "Go there first, open it if it is closed, or choose another place of that kind."),
    LessonPattern(lambda e: e.failed and e.action.startswith("use "), "Used a thing that is not here.",
        "Go to where the lamp was seen, and use it there."),
    LessonPattern(lambda e: e.failed and e.action.startswith("go to "),
        "Went to where one is already, or to a place that is not there.", "Examine it, or go to another place."),
    LessonPattern(_is_repeated, "Did the same twice in a row.", "The answer stays the same: do something else."),
    LessonPattern(lambda e: e.failed, "Nothing happened.",
        "Use a template, at a place that one has gone to, with names as observed."),
)  # fmt: skip


def _tell_progress(episode: _Episode) -> Iterator[Lesson]:
    goal = episode.goal
    if goal is None:
        return
    picked, left = _PICKED.search(episode.answer), _LEFT.search(episode.answer)
    held = picked[1] if picked else "" if left else episode.held
    there = {name: at for name, at in episode.seen.items() if name.startswith(f"{goal.thing} ") and name != held}
    if held:
        yield Lesson("progress", f"In hand: {held}.")
    if there:
        told = ", ".join(f"{name} at {at}" for name, at in there.items())
        yield Lesson("progress", f"Seen of what the task names: {told}.")
    elif not held:
        yield Lesson("progress", f"No {goal.thing} seen yet.")
    lamps = {name: at for name, at in episode.seen.items() if goal.verb == "look" and name.startswith(f"{goal.place} ")}
    if lamps:
        yield Lesson("progress", f"Lamps seen: {', '.join(f'{name} at {at}' for name, at in lamps.items())}.")
    places = [name for name in _SEEN.findall(episode.states[0].observation) if name not in episode.visited]
    if places and not held and not there:
        yield Lesson("progress", f"Not visited yet: {', '.join(places)}.")


draw_lessons = LessonTable(_Episode, _MISTAKES, _tell_progress)
