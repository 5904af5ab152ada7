"""Parses the text of a task: its focus targets and the things it names."""

import re
from functools import lru_cache
from typing import NamedTuple

TARGET = re.compile(r"focus on (?:the |an? |a\(n\) )?(.+?)(?=[.,]| with | from |$)", re.I)
GOAL = re.compile(
    r"(?:boil|freeze|melt|grow|find|state of matter of|point of|temperature of|life stages of|create(?: the substance)?"
    r"|trait in) (?:the |an? |a\(n\) )?'?([^'.,]+?)'?(?=[.,]| with | from | which |$)",
    re.I,
)
CLASSES = frozenset({"thing", "substance", "animal"})
"""Targets that refer to something else."""
NEVER = frozenset({"air", "agent", "door", "outside", "ground", "inventory", "nothing", "soil"})
"""Names that fit things in every room, or none."""
ROOMS = frozenset(
    {"hallway", "kitchen", "bathroom", "living room", "bedroom", "workshop", "art studio", "greenhouse", "foundry"}
)


class FocusTargets(NamedTuple):
    """The focus targets of a task."""

    given: tuple[str, ...]
    """Required targets, in the task's order."""
    verdicts: tuple[str, ...]
    """Alternatives, of which the agent must find the right one."""


@lru_cache(maxsize=64)
def parse_focus_targets(task: str) -> FocusTargets:
    given: dict[str, None] = {}
    verdicts: dict[str, None] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", task):
        for match in TARGET.finditer(sentence):
            (verdicts if re.match(r"if\b", sentence, re.I) else given)[match.group(1).strip().lower()] = None
    return FocusTargets(tuple(given), tuple(verdicts))


@lru_cache(maxsize=64)
def parse_goal_things(task: str) -> tuple[str, ...]:
    """Return the things that the task is about."""
    found = (match.group(1).strip().lower() for match in GOAL.finditer(task))
    return tuple(dict.fromkeys(name for name in found if name not in CLASSES and len(name.split()) <= 4))


def is_open_ended(target: str) -> bool:
    """Return whether a target refers to things that it does not name."""
    return target in CLASSES or "life stage" in target or "living" in target


def is_name_match(name: str, target: str) -> bool:
    """Return whether an object may be a target: the words of one name are among those of the other."""
    ours, theirs = set(name.split()), set(target.split())
    return ours <= theirs or theirs <= ours


def is_wrong_focus(task: str, name: str, substances: frozenset[str]) -> bool:
    """Return whether the task certainly does not ask for a focus on an object of this name.

    A referring target may be anything; `the substance` may be any visible one, because a substance changes its name
    with its state.
    """
    given, verdicts = parse_focus_targets(task)
    asked = [target for target in (*given, *verdicts) if target != "substance"]
    if not (given or verdicts) or any(map(is_open_ended, asked)):
        return False
    if "substance" in given:
        asked += parse_goal_things(task)
        if name in substances:
            return False
    return not any(is_name_match(name, target) for target in asked)


@lru_cache(maxsize=4096)
def is_mentioned(task: str, name: str) -> bool:
    """Return whether the task mentions a thing: it contains the thing's name, or the name contains its subject."""
    if name in NEVER or name in ROOMS or not name:
        return False
    about = [
        target for target in (*parse_focus_targets(task).given, *parse_goal_things(task)) if not is_open_ended(target)
    ]
    return _has_words(name, task.lower()) or any(_has_words(one, name) for one in about)


def _has_words(words: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None
