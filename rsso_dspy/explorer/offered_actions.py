"""Plays a world that lists the possible actions when asked: try what is offered, the task's words first.

This is the player for prompts whose templates hold a question for the actions that can be taken ("check ..."). It knows
no more of such a world than the prompt says: what can be done, what was done and answered, and what it is told.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from rsso_dspy.explorer import scene_parser
from rsso_dspy.explorer.commands import extract_content_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.worlds import minigrid
from rsso_dspy.explorer.worlds.player import answer_known
from rsso_dspy.explorer.worlds.world import LISTED

_QUESTION = re.compile(r"^check .*$", re.M)
_ANSWERED = re.compile(r"\bactions(?: are)?: (.+)", re.S | re.I)
_COUNTED = re.compile(r"\bthere is an? ((?:[a-z]+ )+\d+)\b", re.I)
_SLOTS = re.compile(r"\b[A-Z][A-Z0-9_]*\b(?: \b[A-Z][A-Z0-9_]*\b)*")
_IN_VAIN = re.compile(r"not valid|not recognized|cannot |can't |no change|no effect|nothing happens", re.I)
_AGAINST = re.compile(r"\b(?:do not|don't|never|avoid|stop|did nothing|mistake)\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")
_PARTS = re.compile(r", | and |: ")
_GOAL, _VERB, _WORDS, _TOLD, _NOISE = 4.0, 0.8, 1.5, 2.0, 0.8
_IN_VAIN_HERE, _IN_VAIN_ALIKE, _DONE_HERE, _DONE, _HOLDS = 40.0, 1.5, 3.0, 0.4, 5.0
_ADVICE = ("plans_from_past_attempts", "skills", "constitution")


def answer_offered(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str] | None:
    """The fields of either actor; None where the templates hold no such question."""
    templates = prompt.get_region("action_templates").partition("Templates:")[2]
    question = _QUESTION.search(templates)
    if question is None:
        return None
    if (known := answer_known(prompt, question[0].strip(), dice)) is not None:
        return known
    action = _choose_offered(prompt, templates, question[0].strip(), dice)
    why = f"I will {action}: of what can be done it fits the task best, or was tried least."
    return {"thought": why, "action": action, "reasoning": why, "current_subgoal": "none", "next_action": action}


def _choose_offered(prompt: ParsedPrompt, templates: str, question: str, dice: SeededNoise) -> str:
    history = prompt.get_region("history")
    turns = scene_parser.build_scene(LISTED.sub("", history)).turns
    views = _follow_views([turn.seen for turn in turns])
    last = turns[-1].seen if turns else ""
    offered = [each for each in _list_offered(history, last, templates, views[-1] if views else "") if each != question]
    if not offered:
        return question
    done = [(_normalize(turn.action), view) for turn, view in zip(turns, views, strict=True) if turn.action]
    vain = {
        (_normalize(turn.action), view)
        for turn, after, view in zip(turns, turns[1:], views, strict=False)
        if _IN_VAIN.search(after.seen)
    }
    told = "\n".join(prompt.get_region(name) for name in _ADVICE)
    advised, warned = _split_told(told)
    lowered = f"{prompt.instruction}\n{told}".lower()
    habits = {habit.name for habit in minigrid.WORLD.habits if re.search(habit.heeded, lowered)}
    shapes = [_shape(action) for action, _ in vain]
    task, here = prompt.get_region("task"), views[-1] if views else ""

    def score(action: str) -> float:
        said = _normalize(action)
        value = _score_by_task(said, task.lower(), here.lower()) + _TOLD * ((said in advised) - (said in warned))
        value += minigrid.rate_action(said, here.lower(), done[-1][0] if done else "", habits)
        value -= _IN_VAIN_HERE * ((said, here) in vain) + _DONE_HERE * done.count((said, here))
        value -= _IN_VAIN_ALIKE * min(3, shapes.count(_shape(said)))
        value -= _DONE * sum(each == said for each, _ in done)
        return value + _NOISE * dice.temperature * dice.draw_noise(said, here)

    return max(offered, key=score)


def _list_offered(history: str, last: str, templates: str, view: str) -> Sequence[str]:
    """What can be done: as listed, as just answered, or what the templates make of the things that are counted."""
    if listed := LISTED.search(history):
        return [line.removeprefix("- ").strip() for line in listed[1].splitlines()]
    if (answered := _ANSWERED.search(last)) and not _IN_VAIN.search(last):
        return [text for part in answered[1].split(", ") if (text := part.strip(" ."))]
    things = _COUNTED.findall(view)
    forms = [line.strip() for line in templates.splitlines() if line.strip()]
    if not things and any(_SLOTS.search(form) for form in forms if not form.startswith("check")):
        return [] if "There is" not in view and "cannot see" not in view.lower() else _keep_plain_forms(forms)
    filled = [_SLOTS.sub(thing, form) for form in forms for thing in things if len(_SLOTS.findall(form)) == 1]
    return [*filled, *_keep_plain_forms(forms)]


def _keep_plain_forms(forms: Sequence[str]) -> list[str]:
    return [form for form in forms if not _SLOTS.search(form)]


def _follow_views(seen: Sequence[str]) -> list[str]:
    """For each observation the view after it: itself, or the one before if it shows nothing new."""
    views: list[str] = []
    for text in seen:
        only_answer = bool(views) and bool(_IN_VAIN.search(text) or _ANSWERED.search(text))
        views.append(views[-1] if only_answer else text)
    return views


@lru_cache(maxsize=256)
def _split_told(text: str) -> tuple[str, str]:
    """Positive and negative advice from sentences that name a thing by its number, each as one normalized text."""
    sentences = _SENTENCES.split(text)
    against = [each for each in sentences if _AGAINST.search(each)]
    advised = [each for each in sentences if each not in against and re.search(r"\d", each)]
    return _normalize(" . ".join(advised)), _normalize(" . ".join(against))


def _shape(action: str) -> str:
    """How an action begins, and the kind of thing it is about: its last word that is no number."""
    words = [word for word in action.split() if not word[-1].isdigit()]
    return " ".join([*words[:2], *words[-1:]])


@lru_cache(maxsize=4096)
def _score_by_task(action: str, task: str, view: str) -> float:
    """The largest share of a part of the task that the action mentions, lowered for what holds already."""
    words = extract_content_words(action)
    best = worst = 0.0
    for part in _PARTS.split(task):
        wanted = extract_content_words(part)
        shared = len(wanted & words) / len(wanted) if wanted else 0.0
        if part.strip(" .") and part.strip(" .") in view:
            worst = max(worst, shared)
        else:
            best = max(best, shared)
    named = action.split()[0] in task.replace(" ", "")  # "pickup" where the task says "pick up"
    return (
        _GOAL * best
        + _VERB * named
        + _WORDS * len(words & extract_content_words(task)) / max(1, len(words))
        - _HOLDS * (worst == 1)
    )


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9-]+", text.lower()))
