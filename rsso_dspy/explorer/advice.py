"""Advice: everything in a prompt that tells the player what to do, as preferences between actions.

Plans and skills are sequences, followed step by step; rules, instructions and demonstrations make single actions more
or less attractive.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.explorer.clauses import DEPENDING, ReadAdvice, ScopedClause, is_plain, read_advice
from rsso_dspy.explorer.commands import AdviceClause, Command, command, extract_content_words, lines

_ATTEMPT = re.compile(r"^Attempt \d+: ", re.M)
_EARNED = re.compile(r"earned (\d+) point")
_SUBGOAL = re.compile(r"^\s*subgoal(?: \d+)?: *(.+)$", re.M | re.I)
_STEPS = re.compile(r"(?<=[.!;])\s+|\n")
_DEPENDS = re.compile(r"^\W*(?:otherwise|else|(?:only )?(?:if|unless|in case|until))\b|\b(?:unless|only if) ", re.I)
"""Begins, or is in, a step of a plan that may be skipped."""
_ABOUT = 0.85
_LIKED, _TOPIC, _DISLIKED, _SHUNNED = 1.6, 0.5, -30.0, -3.0


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """One offered subgoal: its target word for word, and the commands that led to it."""

    target: str
    steps: tuple[Command, ...]


@lru_cache(maxsize=256)
def split_past_attempts(text: str) -> tuple[str, ...]:
    """The plans of past attempts, oldest first."""
    return tuple(part.strip() for part in _ATTEMPT.split(text) if part.strip())


def parse_earned_points(plan: str) -> int:
    """Points a plan says its actions earned; 0 when it does not say."""
    return max((int(points) for points in _EARNED.findall(plan)), default=0)


@lru_cache(maxsize=256)
def select_plan_steps(text: str) -> tuple[Command, ...]:
    """The steps of the most promising plan, which is the newest of those that earned about as much as the best; less
    what a newer plan forbids."""
    plans = split_past_attempts(text)
    most = max(map(parse_earned_points, plans), default=0)
    index = max((index for index, plan in enumerate(plans) if parse_earned_points(plan) >= _ABOUT * most), default=-1)
    if index < 0:
        return ()
    forbidden = [
        line.command
        for plan in plans[index + 1 :]
        for line in lines(_drop_conditional_steps(plan))
        if line.command and line.firm and not line.positive
    ]
    return tuple(
        line.command
        for line in lines(_drop_conditional_steps(plans[index]))
        if line.positive and line.command and not any(is_advice_for(each, line.command) for each in forbidden)
    )


def _drop_conditional_steps(plan: str) -> str:
    """A plan less the sentences that hold under a condition only; they are advice, not steps."""
    return "\n".join(step for step in _STEPS.split(plan) if not _DEPENDS.search(step))


@lru_cache(maxsize=256)
def read_plan_cautions(plan: str) -> ReadAdvice:
    """What a plan says besides its steps: what to avoid, topics, and what holds under a condition."""
    steps = [step for step in _STEPS.split(plan) if step]
    plain = [step for step in steps if is_plain(step.lower(), DEPENDING)]
    rest = read_advice("\n".join(step for step in steps if step not in plain))
    told = (*lines("\n".join(plain)), *rest.plain)
    clauses = (each for each in rest.clauses if not _is_step(each))
    return ReadAdvice(tuple(line for line in told if not line.positive or line.command is None), tuple(clauses))


def _is_step(clause: ScopedClause) -> bool:
    """A step of the plan, which the order of steps says the time of."""
    depends = any(each.kind in ("if", "unless", "in case", "task") for each in clause.conditions)
    return clause.command is not None and clause.positive and not depends


@lru_cache(maxsize=256)
def parse_offered_skills(text: str) -> tuple[OfferedSkill, ...]:
    """The offered skills in order."""
    heads = list(_SUBGOAL.finditer(text))
    found = []
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        body = text[head.end() : after.start() if after else len(text)]
        steps = tuple(line.command for line in lines(body) if line.positive and line.command is not None)
        found.append(OfferedSkill(head.group(1).strip(), steps))
    return tuple(found)


def score_by_advice(action: str, advice: Iterable[AdviceClause]) -> float:
    """How much a body of advice speaks for (or against) an action."""
    done = command(action)
    if done is None:
        return 0.0
    about = extract_content_words(f"{done.thing} {done.place}")
    best, worst = 0.0, 0.0
    for line in advice:
        if line.command is None:
            shared = len(about & extract_content_words(line.text)) / len(about) if about else 0.0
            if line.positive:
                best = max(best, _TOPIC * shared)
            elif about and shared == 1.0:
                worst = min(worst, _SHUNNED)
        elif is_advice_for(line.command, done):
            best = max(best, _LIKED) if line.positive else best
            worst = worst if line.positive else min(worst, _DISLIKED if line.firm else _SHUNNED)
    return best + worst


def is_advice_for(advised: Command, done: Command) -> bool:
    """The action is one the advice speaks of: same verb, and every named part is meant by it."""
    same = advised.verb == done.verb or {advised.verb, done.verb} == {"go", "teleport"}
    return same and _is_part_meant(advised.thing, done.thing) and _is_part_meant(advised.place, done.place)


def _is_part_meant(advised: str, done: str) -> bool:
    wanted = extract_content_words(advised)
    return not wanted or wanted <= extract_content_words(done) or not Command("", advised).is_concrete
