"""Reflector, rule writer and verbalizer of the worlds that the player knows how to play.

A transcript teaches the habits that it lacks, and where things were seen. What the player writes names the habit in
words that it heeds itself, so that a memory changes what it does next.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.reflector import RecordedAction, parse_transcript
from rsso_dspy.explorer.worlds import find_world
from rsso_dspy.explorer.worlds.world import ASK_LESS, IN_VAIN, Deed, Habit, World

_ANY = "SOMETHING"


def reflect_on_world(prompt: ParsedPrompt) -> Mapping[str, str] | None:
    """``what_went_wrong`` and ``plan``; None for a world that is not known."""
    world, task, acts = _read(prompt)
    if world is None:
        return None
    deeds = _list_deeds(acts)
    missed = _list_missed(world, deeds)
    failed = [deed.action for deed in deeds if deed.failed]
    wrong = [f"{len(failed)} of {len(deeds)} actions did nothing, such as {failed[0]}."] if failed else []
    wrong += [f"It would have taken this: {habit.advice}" for habit in missed]
    plan = [habit.advice for habit in missed] + world.remember(task, deeds)
    return {
        "what_went_wrong": " ".join(wrong) or "The attempt went the right way but came to its end too early.",
        "plan": " ".join(plan) or "Work on the parts of the task in another order.",
    }


def write_world_rules(prompt: ParsedPrompt) -> Mapping[str, Any] | None:
    """``abstract_rules``, ``error_rules`` and ``progress_rules`` that are not known already; None for a world that is
    not known."""
    world, task, acts = _read(prompt)
    if world is None:
        return None
    deeds = _list_deeds(acts)
    known = prompt.get_region("known_rules")
    missed = [habit for habit in _list_missed(world, deeds) if habit.advice not in known]
    failed = {habit.name: next((deed.action for deed in deeds if deed.failed), "") for habit in missed}
    return {
        "abstract_rules": [habit.advice for habit in missed],
        "error_rules": [
            {"mistake": f"{failed[habit.name]}, without effect", "solution": habit.advice}
            for habit in missed
            if failed[habit.name]
        ],
        "progress_rules": world.remember(task, deeds),
    }


def align_steps(found: Sequence[Sequence[str]]) -> list[str] | None:
    """The actions that excerpts have in common, a placeholder where their words differ; None for a world that is not
    known. Without any in common, the actions of the first."""
    if not found or find_world("\n".join(found[0])) is None:
        return None
    first, *others = found
    steps = []
    for position, action in enumerate(first):
        words = action.split()
        rows = [other[position].split() for other in others if position < len(other)]
        if words[:1] != ["check"] and all(row[:1] == words[:1] and len(row) == len(words) for row in rows):
            same = [all(row[number] == word for row in rows) for number, word in enumerate(words)]
            steps.append(" ".join(word if kept else _ANY for word, kept in zip(words, same, strict=True)))
    return steps or list(first)


def _read(prompt: ParsedPrompt) -> tuple[World | None, str, list[RecordedAction]]:
    transcript, task = prompt.get_region("transcript"), prompt.get_region("task")
    world = find_world(task, transcript)
    return world, task, parse_transcript(transcript, prompt.get_region("outcome")) if world else []


def _list_deeds(acts: Sequence[RecordedAction]) -> list[Deed]:
    return [Deed(act.text, act.seen.lower(), IN_VAIN.search(act.seen) is not None) for act in acts]


def _list_missed(world: World, deeds: Sequence[Deed]) -> list[Habit]:
    return [habit for habit in (*world.habits, ASK_LESS) if habit.was_missed(deeds)]
