"""Advice: everything in a prompt that tells the player what to do, as preferences between actions.

Plans and skills are sequences, followed step by step; rules, instructions and demonstrations make single actions more
or less attractive. A sentence that states a condition, an order of preference or a time is not read.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.explorer.commands import (
    AdviceClause,
    Command,
    command,
    extract_content_words,
    is_concrete,
    is_same_verb,
    lines,
)

_ATTEMPT = re.compile(r"^Attempt \d+: ", re.M)
_EARNED = re.compile(r"earned (\d+) point")
_SUBGOAL = re.compile(r"^\s*subgoal(?: \d+)?: *(.+)$", re.M | re.I)
_STEPS = re.compile(r"(?<=[.!;])\s+|\n")
_DEPENDS = re.compile(r"^\W*(?:otherwise|else|(?:only )?(?:if|unless|in case|until))\b|\b(?:unless|only if) ", re.I)
"""Matches a step of a plan that may be skipped."""
_CONDITIONAL = re.compile(
    r"\b(?:if|in case|whenever|when|(?<!at )once|as soon as|after(?! that)|unless|until|before|while|as long as"
    r"|otherwise|else|prefer|rather than|instead of|only|repeat)\b",
    re.I,
)
"""Matches a sentence of advice that is not read."""
_MISTAKE = re.compile(r"^\W*mistake:", re.I)
_ABOUT = 0.85
LIKED, TOPIC, DISLIKED, SHUNNED = 1.6, 0.5, -30.0, -3.0
"""What advice adds to the score of an action: called for, about a mentioned thing, forbidden, or better avoided."""


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
    """The steps of the most promising plan, the newest of those that earned about as much as the best, without steps
    that a newer plan forbids."""
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
    """A plan without the sentences that hold only under a condition; those are advice, not steps."""
    return "\n".join(step for step in _STEPS.split(plan) if not _DEPENDS.search(step))


@lru_cache(maxsize=512)
def read_advice(text: str) -> tuple[AdviceClause, ...]:
    """What a text says to do and not to do, line by line."""
    rows = text.replace("**", "").replace("`", "").splitlines()
    return tuple(clause for row in rows for clause in lines(row if _MISTAKE.match(row) else _drop_conditions(row)))


def _drop_conditions(line: str) -> str:
    return " ".join(sentence for sentence in _STEPS.split(line) if not _CONDITIONAL.search(sentence))


@lru_cache(maxsize=256)
def read_plan_cautions(plan: str) -> tuple[AdviceClause, ...]:
    """What a plan says besides its steps: what to avoid, and topics."""
    told = lines("\n".join(step for step in _STEPS.split(plan) if not _CONDITIONAL.search(step)))
    return tuple(line for line in told if not line.positive or line.command is None)


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
    says = [0.0]
    for line in advice:
        if line.command is None:
            says.append(weigh_topic(line.text, line.positive, done))
        elif is_advice_for(line.command, done):
            says.append(LIKED if line.positive else DISLIKED if line.firm else SHUNNED)
    return max(says) + min(says)


def weigh_topic(text: str, positive: bool, done: Command) -> float:
    """How much advice without a command says about an action, by the share of the action's words that it contains."""
    about = extract_content_words(f"{done.thing} {done.place}")
    shared = len(about & extract_content_words(text)) / len(about) if about else 0.0
    if positive:
        return TOPIC * shared
    return SHUNNED if about and shared == 1.0 else 0.0


def is_advice_for(advised: Command, done: Command) -> bool:
    """Whether the advice is about the action: same verb, and every part it names is meant."""
    parts = ((advised.thing, done.thing), (advised.place, done.place))
    return is_same_verb(advised, done) and all(_is_part_meant(wanted, named) for wanted, named in parts)


def _is_part_meant(advised: str, done: str) -> bool:
    wanted = extract_content_words(advised)
    return not wanted or wanted <= extract_content_words(done) or not is_concrete(Command("", advised))
