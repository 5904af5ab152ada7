"""Plays a benchmark that lists the possible actions when asked: picks one of them, the words of the task first.

This is the player for prompts whose templates hold a question for the actions that can be taken ("check ..."). It knows
no more of such a benchmark than the prompt says: what can be done, what was done and answered, and what it is told.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from rsso_dspy.offline.grammar import extract_content_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list

_QUESTION = re.compile(r"^check .*$", re.M)
_ANSWERED = re.compile(r"\bactions(?: are)?: (.+)", re.S | re.I)
_IN_VAIN = re.compile(r"not valid|not recognized|cannot |can't |no change|no effect|nothing happens", re.I)
_AGAINST = re.compile(r"\b(?:do not|don't|never|avoid|stop|did nothing|mistake)\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")
_ADVICE = ("plans_from_past_attempts", "skills", "constitution")
_IN_TASK, _TOLD, _NOISE, _IN_VAIN_HERE, _DONE_HERE, _DONE = 4.0, 2.0, 0.8, 40.0, 3.0, 0.4
"""Parts of an action's score."""


def answer_offered(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str] | None:
    """The fields of either actor; None where no actions are listed and the templates hold no such question."""
    question = _QUESTION.search(prompt.get_region("action_templates").partition("Templates:")[2])
    if question is None and not prompt.get_region("possible_actions"):
        return None
    action = _choose_offered(prompt, question[0].strip() if question else "", dice)
    why = f"I will {action}: of what can be done it fits the task best, or was tried least."
    return {"thought": why, "subgoal": "none", "action": action}


def _choose_offered(prompt: ParsedPrompt, question: str, dice: SeededNoise) -> str:
    """The best of what is offered, or the question where nothing is."""
    turns = prompt.turns
    views = _follow_views([turn.seen for turn in turns])
    offered = [each for each in _list_offered(prompt, turns[-1].seen) if each != question]
    if not offered:
        return question
    view, task = views[-1] if views else "", extract_content_words(prompt.get_region("task"))
    done = [(_normalize(turn.action), seen) for turn, seen in zip(turns, views, strict=True) if turn.action]
    vain = {
        (_normalize(turn.action), seen)
        for (turn, after), seen in zip(pairwise(turns), views, strict=False)
        if _IN_VAIN.search(after.seen)
    }
    advised, warned = _split_told("\n".join(map(prompt.get_region, _ADVICE)))

    def score_action(action: str) -> float:
        name, words = _normalize(action), extract_content_words(action)
        value = _IN_TASK * len(words & task) / max(1, len(words))
        value += _TOLD * ((name in advised) - (name in warned))
        value -= _IN_VAIN_HERE * ((name, view) in vain) + _DONE_HERE * done.count((name, view))
        value -= _DONE * sum(each == name for each, _ in done)
        return value + _NOISE * dice.temperature * dice.draw_noise(name, view)

    return max(offered, key=score_action)


def _list_offered(prompt: ParsedPrompt, last: str) -> Sequence[str]:
    """What can be done, as the prompt lists it or as the last observation answers."""
    if listed := prompt.get_region("possible_actions"):
        return parse_region_list(listed)
    if (answered := _ANSWERED.search(last)) and not _IN_VAIN.search(last):
        return [text for part in answered[1].split(", ") if (text := part.strip(" ."))]
    return []


def _follow_views(seen: Sequence[str]) -> list[str]:
    """For each observation the view after it: itself, or the one before if it shows nothing new."""
    views: list[str] = []
    for text in seen:
        only_answer = bool(views) and bool(_IN_VAIN.search(text) or _ANSWERED.search(text))
        views.append(views[-1] if only_answer else text)
    return views


@lru_cache(maxsize=256)
def _split_told(text: str) -> tuple[str, str]:
    """What is advised and what is warned of, each as one normalized text."""
    sentences = _SENTENCES.split(text)
    against = [each for each in sentences if _AGAINST.search(each)]
    advised = [each for each in sentences if each not in against]
    return _normalize(" . ".join(advised)), _normalize(" . ".join(against))


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9-]+", text.lower()))
