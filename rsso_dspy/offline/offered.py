"""Plays a benchmark that lists the possible actions: picks one of them, the words of the task first. It knows no more
of such a benchmark than the prompt says: what can be done, what was done and answered, and what it is told."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rsso_dspy.offline.advice import find_words, normalize_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, Turn, parse_region_list

_QUESTION = re.compile(r"^check .*$", re.M)
_ANSWERED = re.compile(r"\bactions(?: are)?: (.+)", re.S | re.I)
_IN_VAIN = re.compile(r"not valid|not recognized|cannot |can't |no change|no effect|nothing happens", re.I)
_AGAINST = re.compile(r"\b(?:do not|don't|never|avoid|stop|did nothing|mistake)\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")
_ADVICE = ("plans_from_past_attempts", "skills", "constitution")

# What a score is made of.
_IN_TASK = 4.0
_TOLD = 2.0
_NOISE = 0.8
_IN_VAIN_HERE = 40.0
_DONE_HERE = 3.0
_DONE = 0.4


def answer_offered(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str] | None:
    """The fields of either actor; None where no actions are listed and the templates hold no question for them."""
    templates = prompt.get_region("action_templates").partition("Templates:")[2]
    question = _QUESTION.search(templates)
    if question is None and not prompt.get_region("possible_actions"):
        return None

    query = question[0].strip() if question else ""
    offered = [action for action in _list_offered(prompt) if action != query]
    action = _choose(offered, prompt, dice) if offered else query
    why = f"I will {action}: of what can be done it fits the task best, or was tried least."
    return {"thought": why, "subgoal": "none", "action": action}


def _list_offered(prompt: ParsedPrompt) -> Sequence[str]:
    """What can be done, as the prompt lists it or as the last observation answers."""
    possible = prompt.get_region("possible_actions")
    if possible:
        return parse_region_list(possible)
    last = prompt.turns[-1].seen
    answered = _ANSWERED.search(last)
    if answered is None or _IN_VAIN.search(last):
        return []
    texts = [part.strip(" .") for part in answered[1].split(", ")]
    return [text for text in texts if text]


def _choose(offered: Sequence[str], prompt: ParsedPrompt, dice: SeededNoise) -> str:
    views = _list_views(prompt.turns)
    current_view = views[-1]
    attempts = []  # every action so far, with the view in which it was taken
    vain = set()  # those that changed nothing
    for (turn, following), view in zip(pairwise(prompt.turns), views, strict=False):
        attempt = (normalize_words(turn.action), view)
        attempts.append(attempt)
        if _IN_VAIN.search(following.seen):
            vain.add(attempt)

    task = find_words(prompt.get_region("task"))
    advised, warned = _read_advice(prompt)

    def score_action(action: str) -> float:
        name = normalize_words(action)
        words = find_words(action)
        in_task = len(words & task)
        advice = (name in advised) - (name in warned)
        in_vain = (name, current_view) in vain
        times_here = attempts.count((name, current_view))
        times = sum(attempted == name for attempted, _ in attempts)

        value = _IN_TASK * in_task / max(1, len(words)) + _TOLD * advice
        value -= _IN_VAIN_HERE * in_vain + _DONE_HERE * times_here
        value -= _DONE * times
        return value + _NOISE * dice.temperature * dice.draw_noise(name, current_view)

    return max(offered, key=score_action)


def _list_views(turns: Sequence[Turn]) -> list[str]:
    """Of each turn what was last seen anew."""
    views: list[str] = []
    for turn in turns:
        is_no_view = _IN_VAIN.search(turn.seen) or _ANSWERED.search(turn.seen)
        if views and is_no_view:
            views.append(views[-1])
        else:
            views.append(turn.seen)
    return views


def _read_advice(prompt: ParsedPrompt) -> tuple[str, str]:
    """The words of what the prompt advises, and of what it warns of."""
    sentences = _SENTENCES.split("\n".join(map(prompt.get_region, _ADVICE)))
    advised = [sentence for sentence in sentences if not _AGAINST.search(sentence)]
    warned = [sentence for sentence in sentences if _AGAINST.search(sentence)]
    return normalize_words(" . ".join(advised)), normalize_words(" . ".join(warned))
