"""What can be learned from an episode without a model, and rules about these worlds that hold whatever the mission.

They go by the mission, the actions and the observations: no scores, and nothing behind a closed door.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from rsso_dspy.environments.babyai.view import BARRIER, COMPLETED, NO_CHANGE, NOT_KNOWN
from rsso_dspy.environments.benchmark import NO_ACTION, Episode, LessonPattern, LessonTable
from rsso_dspy.records import Lesson

RULES_OF_THUMB: tuple[Lesson, ...] = tuple(
    Lesson("abstract", text)
    for text in (
        "Look for what the mission names first: turn around once in a room, then open its doors one after the other.",
        "When the thing is in sight, go to it, or pickup it when the mission says to pick it up. Both walk there.",
        "A thing that is not in sight cannot be named in an action.",
        "A locked door opens only with the key of its colour in hand: find that key, pickup it, and keep it until the "
        "door is open.",
        "Only one thing can be carried: drop what is in hand, in an empty cell that is not in the way, before taking "
        "another. Never drop a key that is still needed.",
        "toggle and go through ends in the doorway: move forward once to see the room behind it.",
        "When a barrier is ahead, moving forward does nothing: turn, or go to something else.",
        "A ball or box that stands in a passage has to be picked up and dropped elsewhere.",
        "Where two things are to be done, do first what the mission says first; after you means that the second part "
        "comes first.",
    )
)
"""Rules about these worlds."""

_THING = re.compile(r"There is an? ((?:[a-z]+ )+)\d+ ")
_CARRIED = re.compile(r"You are carrying a ((?:\w+ )*\w+)\.")
_NAMED = re.compile(r"(go to|pick up|open) (?:the|an|a) ((?:(?:red|green|blue|purple|yellow|grey) )?\w+)")


class _Episode(Episode):
    @cached_property
    def views(self) -> list[str]:
        """Observations that show a view."""
        return [text for state in self.states if (text := state.observation).startswith(("In front", "You cannot see"))]

    @cached_property
    def named(self) -> list[str]:
        """The things that the mission is about, in its order."""
        return [name.removesuffix(" object") for _, name in _NAMED.findall(self.task)]

    @property
    def carried(self) -> str:
        found = _CARRIED.search(self.views[-1]) if self.views else None
        return found[1] if found else ""

    @cached_property
    def seen(self) -> list[str]:
        """Names of all things seen so far, in their order."""
        return list(dict.fromkeys(name.strip() for view in self.views for name in _THING.findall(view)))


def _is_circling(episode: _Episode) -> bool:
    """Nothing but turns for more than a full one."""
    last = [step.action.lower() for step in episode.steps[-5:]]
    return len(last) == 5 and all(action.startswith("turn") for action in last)


def _sees_nothing_new(episode: _Episode) -> bool:
    """The same views again, although the thing that is wanted is not in sight."""
    return len(episode.views) >= 8 and len(set(episode.views[-6:])) <= 2


_MISTAKES: tuple[LessonPattern[_Episode], ...] = (
    NO_ACTION,
    LessonPattern(lambda e: e.answer == BARRIER, "Moved forward into a barrier.",
        "Turn to one side, or go to a thing or a door in sight."),
    LessonPattern(lambda e: "not carrying a key" in e.answer or "does not match the color" in e.answer,
        "Tried a locked door without the key of its colour.",
        "Find the key of that colour first, pickup it, and come back with it in hand."),
    LessonPattern(lambda e: "as it is closed" in e.answer, "Tried to go through a closed door.",
        "Use 'toggle and go through' with that door."),
    LessonPattern(lambda e: "no path leading to it" in e.answer, "Asked for something that no free way leads to.",
        "Move what stands in the way, or look for it from another side."),
    LessonPattern(lambda e: e.answer == NOT_KNOWN and e.action.startswith("pick up"),
        "Wrote 'pick up', which is not understood.", "Write 'pickup', name and number."),
    LessonPattern(lambda e: e.answer == NOT_KNOWN and e.action.startswith("pickup") and bool(e.carried),
        "Wanted to take a thing with another in hand.", "Drop what is carried first."),
    LessonPattern(lambda e: e.answer == NOT_KNOWN, "Wrote an action that is not offered.",
        "Use a template with the full name and number of something that is in sight now."),
    LessonPattern(lambda e: e.answer == NO_CHANGE, "Went to what was faced already.",
        "It is right ahead: take it, toggle it, or go on with the mission."),
    LessonPattern(_is_circling, "Turned around and around in one place.",
        "Four turns show all there is to see from here: go to a door or move on."),
    LessonPattern(_sees_nothing_new, "Went back and forth between the same views.",
        "Open a door that was not opened yet."),
)  # fmt: skip


def _tell_progress(episode: _Episode) -> Iterator[Lesson]:
    if COMPLETED.strip() in episode.answer:
        yield Lesson("progress", "The mission has ended.")
        return
    found = [name for name in episode.named if any(_is_of_name(thing, name) for thing in episode.seen)]
    missing = [name for name in episode.named if name not in found]
    if found:
        yield Lesson("progress", f"Of what the mission names, seen so far: {', '.join(dict.fromkeys(found))}.")
    if missing:
        yield Lesson("progress", f"Not seen yet: {', '.join(dict.fromkeys(missing))}.")
    if episode.carried:
        yield Lesson("progress", f"In hand: {episode.carried}.")
    locked = [name for name in episode.seen if " locked " in name]
    if locked:
        yield Lesson("progress", f"Locked: {', '.join(locked)}. The key of that colour opens it.")
    doors = [name for name in episode.seen if name.endswith("closed door")]
    if missing and doors:
        yield Lesson("progress", f"Closed doors seen: {', '.join(doors)}.")


def _is_of_name(thing: str, name: str) -> bool:
    return set(name.split()) <= set(thing.split())


draw_lessons = LessonTable(_Episode, _MISTAKES, _tell_progress)
