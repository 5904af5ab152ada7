"""Advice: everything in a prompt that tells the player what to do, as preferences between actions.

Plans and skills are sequences, followed step by step; rules, instructions and demonstrations make single actions more
or less attractive.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.backends.embedded.commands import Command, Line, command, lines, words

_ATTEMPT = re.compile(r"^Attempt \d+: ", re.M)
_EARNED = re.compile(r"earned (\d+) point")
_SUBGOAL = re.compile(r"^\s*subgoal(?: \d+)?: *(.+)$", re.M | re.I)
_ABOUT = 0.85
_LIKED, _TOPIC, _DISLIKED, _SHUNNED = 1.6, 0.5, -30.0, -3.0


@dataclass(frozen=True, slots=True)
class Skill:
    """One offered subgoal: its target word for word, and the commands that led to it."""

    target: str
    steps: tuple[Command, ...]


@lru_cache(maxsize=256)
def attempts(text: str) -> tuple[str, ...]:
    """The plans of past attempts, oldest first."""
    return tuple(part.strip() for part in _ATTEMPT.split(text) if part.strip())


def earned(plan: str) -> int:
    """Points a plan says its actions earned; 0 when it does not say."""
    return max((int(points) for points in _EARNED.findall(plan)), default=0)


@lru_cache(maxsize=256)
def plan_steps(text: str) -> tuple[Command, ...]:
    """The steps of the most promising plan, which is the newest of those that earned about as much as the best; less
    what a newer plan forbids."""
    plans = attempts(text)
    most = max(map(earned, plans), default=0)
    index = max((index for index, plan in enumerate(plans) if earned(plan) >= _ABOUT * most), default=-1)
    if index < 0:
        return ()
    forbidden = [
        line.command
        for plan in plans[index + 1 :]
        for line in lines(plan)
        if line.command and line.firm and not line.positive
    ]
    return tuple(
        line.command
        for line in lines(plans[index])
        if line.positive and line.command and not any(covers(each, line.command) for each in forbidden)
    )


@lru_cache(maxsize=256)
def skills(text: str) -> tuple[Skill, ...]:
    """The offered skills in order."""
    heads = list(_SUBGOAL.finditer(text))
    found = []
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        body = text[head.end() : after.start() if after else len(text)]
        steps = tuple(line.command for line in lines(body) if line.positive and line.command is not None)
        found.append(Skill(head.group(1).strip(), steps))
    return tuple(found)


def likes(action: str, advice: Iterable[Line]) -> float:
    """How much a body of advice speaks for (or against) an action."""
    done = command(action)
    if done is None:
        return 0.0
    about = words(f"{done.thing} {done.place}")
    best, worst = 0.0, 0.0
    for line in advice:
        if line.command is None:
            shared = len(about & words(line.text)) / len(about) if about else 0.0
            if line.positive:
                best = max(best, _TOPIC * shared)
            elif about and shared == 1.0:
                worst = min(worst, _SHUNNED)
        elif covers(line.command, done):
            best = max(best, _LIKED) if line.positive else best
            worst = worst if line.positive else min(worst, _DISLIKED if line.firm else _SHUNNED)
    return best + worst


def covers(advised: Command, done: Command) -> bool:
    """The action is one the advice speaks of: same verb, and every named part is meant by it."""
    same = advised.verb == done.verb or {advised.verb, done.verb} == {"go", "teleport"}
    return same and _part(advised.thing, done.thing) and _part(advised.place, done.place)


def _part(advised: str, done: str) -> bool:
    wanted = words(advised)
    return not wanted or wanted <= words(done) or not Command("", advised).concrete
