"""Plays a benchmark that lists the possible actions: picks one of them, the words of the task first. It knows no more
of such a benchmark than the prompt says: what can be done, what was done and answered, and what it is told."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rsso_dspy.offline.advice import find_words, normalize_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list

_QUESTION = re.compile(r"^check .*$", re.M)
_ANSWERED = re.compile(r"\bactions(?: are)?: (.+)", re.S | re.I)
_IN_VAIN = re.compile(r"not valid|not recognized|cannot |can't |no change|no effect|nothing happens", re.I)
_AGAINST = re.compile(r"\b(?:do not|don't|never|avoid|stop|did nothing|mistake)\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")
_ADVICE = ("plans_from_past_attempts", "skills", "constitution")
_IN_TASK, _TOLD, _NOISE, _IN_VAIN_HERE, _DONE_HERE, _DONE = 4.0, 2.0, 0.8, 40.0, 3.0, 0.4  # of a score


def answer_offered(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str] | None:
    """The fields of either actor; None where no actions are listed and the templates hold no question for them."""
    question = _QUESTION.search(prompt.get_region("action_templates").partition("Templates:")[2])
    if question is None and not prompt.get_region("possible_actions"):
        return None
    query = question[0].strip() if question else ""
    offered = [action for action in _list_offered(prompt) if action != query]
    action = _choose(offered, prompt, dice) if offered else query
    why = f"I will {action}: of what can be done it fits the task best, or was tried least."
    return {"thought": why, "subgoal": "none", "action": action}


def _list_offered(prompt: ParsedPrompt) -> Sequence[str]:
    """What can be done, as the prompt lists it or as the last observation answers."""
    if possible := prompt.get_region("possible_actions"):
        return parse_region_list(possible)
    last = prompt.turns[-1].seen
    answered = None if _IN_VAIN.search(last) else _ANSWERED.search(last)
    if answered is None:
        return []
    texts = [part.strip(" .") for part in answered[1].split(", ")]
    return [text for text in texts if text]


def _choose(offered: Sequence[str], prompt: ParsedPrompt, dice: SeededNoise) -> str:
    views: list[str] = []  # of each turn what was last seen anew
    for turn in prompt.turns:
        views.append(views[-1] if views and (_IN_VAIN.search(turn.seen) or _ANSWERED.search(turn.seen)) else turn.seen)
    steps = list(zip(pairwise(prompt.turns), views, strict=False))
    attempts = [(normalize_words(turn.action), view) for (turn, _), view in steps]
    vain = {
        (normalize_words(turn.action), view) for (turn, following), view in steps if _IN_VAIN.search(following.seen)
    }
    task = find_words(prompt.get_region("task"))
    sentences = _SENTENCES.split("\n".join(map(prompt.get_region, _ADVICE)))
    advised = normalize_words(" . ".join(sentence for sentence in sentences if not _AGAINST.search(sentence)))
    warned = normalize_words(" . ".join(filter(_AGAINST.search, sentences)))

    def score_action(action: str) -> float:
        name = normalize_words(action)
        words = find_words(action)
        current_view = views[-1]
        value = _IN_TASK * len(words & task) / max(1, len(words)) + _TOLD * ((name in advised) - (name in warned))
        value -= _IN_VAIN_HERE * ((name, current_view) in vain) + _DONE_HERE * attempts.count((name, current_view))
        value -= _DONE * sum(attempted == name for attempted, _ in attempts)
        return value + _NOISE * dice.temperature * dice.draw_noise(name, current_view)

    return max(offered, key=score_action)
