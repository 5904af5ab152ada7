"""Advice: everything in a prompt that tells the player what to do and what not, with the benchmark's own grammar.

Plans and skills are sequences, followed step by step; rules, instructions and demonstrations make single actions more
or less attractive. A sentence that states a condition, an order of preference or a time is not read.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.offline.commands import Command
from rsso_dspy.offline.commands import parse_command as command
from rsso_dspy.offline.grammar import AdviceClause, extract_content_words
from rsso_dspy.offline.grammar import parse_advice as read_clauses

TRAVEL = ("teleport", "go")
"""Verbs that lead to another room; either may stand for the other."""
LIKED, TOPIC, DISLIKED, SHUNNED = 1.6, 0.5, -30.0, -3.0
"""What advice adds to the score of an action: called for, about a mentioned thing, forbidden, or better avoided."""
_SLOTS = frozenset({"obj", "object", "container", "location", "something", "it", "thing", "substance", "item"})
_ATTEMPT = re.compile(r"^(?:- )?Attempt \d+: ", re.M)
_EARNED = re.compile(r"earned (\d+) point")
_SUBGOAL = re.compile(r"^[\s-]*subgoal(?: \d+)?: *(.+)$", re.M | re.I)
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
    that a newer plan forbids and sentences that hold only under a condition."""
    plans = split_past_attempts(text)
    most = max(map(parse_earned_points, plans), default=0)
    index = max((index for index, plan in enumerate(plans) if parse_earned_points(plan) >= _ABOUT * most), default=-1)
    if index < 0:
        return ()
    clauses = [read_clauses(_drop_sentences(plan, _DEPENDS)) for plan in plans[index:]]
    newer = [each for plan in clauses[1:] for each in plan]
    forbidden = [each.command for each in newer if each.command and each.firm and not each.positive]
    steps = [each.command for each in clauses[0] if each.positive and each.command]
    return tuple(step for step in steps if not any(is_advice_for(each, step) for each in forbidden))


@lru_cache(maxsize=512)
def read_advice(text: str) -> tuple[AdviceClause, ...]:
    """What a text says to do and not to do, line by line."""
    rows = text.replace("**", "").replace("`", "").splitlines()
    return tuple(
        clause
        for row in rows
        for clause in read_clauses(row if _MISTAKE.match(row) else _drop_sentences(row, _CONDITIONAL))
    )


@lru_cache(maxsize=256)
def read_plan_cautions(plan: str) -> tuple[AdviceClause, ...]:
    """What a plan says besides its steps: what to avoid, and topics."""
    clauses = read_clauses(_drop_sentences(plan, _CONDITIONAL))
    return tuple(clause for clause in clauses if not clause.positive or clause.command is None)


@lru_cache(maxsize=256)
def parse_offered_skills(text: str) -> tuple[OfferedSkill, ...]:
    """The offered skills in order."""
    heads = list(_SUBGOAL.finditer(text))
    found = []
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        body = read_clauses(text[head.end() : after.start() if after else len(text)])
        steps = tuple(clause.command for clause in body if clause.positive and clause.command is not None)
        found.append(OfferedSkill(head.group(1).strip(), steps))
    return tuple(found)


def score_by_advice(action: str, advice: Iterable[AdviceClause]) -> float:
    """How much a body of advice speaks for (or against) an action."""
    done = command(action)
    if done is None:
        return 0.0
    scores = [0.0]
    for clause in advice:
        if clause.command is None:
            scores.append(_weigh_topic(clause, done))
        elif is_advice_for(clause.command, done):
            scores.append(LIKED if clause.positive else DISLIKED if clause.firm else SHUNNED)
    return max(scores) + min(scores)


def _weigh_topic(clause: AdviceClause, done: Command) -> float:
    """How much advice without a command says about an action, by the share of the action's words that it contains."""
    about = extract_content_words(f"{done.thing} {done.place}")
    shared = len(about & extract_content_words(clause.text)) / len(about) if about else 0.0
    if clause.positive:
        return TOPIC * shared
    return SHUNNED if about and shared == 1.0 else 0.0


def is_advice_for(advised: Command, done: Command) -> bool:
    """Whether the advice is about the action: same verb, and every part it names is meant."""
    same = advised.verb == done.verb or (advised.verb in TRAVEL and done.verb in TRAVEL)
    return same and _is_part_meant(advised.thing, done.thing) and _is_part_meant(advised.place, done.place)


def is_concrete(done: Command) -> bool:
    """Whether no part of a command is a placeholder such as OBJ or "the substance"."""
    return not any(
        len(words) == 1 and words <= _SLOTS for words in map(extract_content_words, (done.thing, done.place))
    )


def _is_part_meant(advised: str, done: str) -> bool:
    wanted = extract_content_words(advised)
    return not wanted or wanted <= extract_content_words(done) or not is_concrete(Command("", advised))


def _drop_sentences(text: str, unwanted: re.Pattern[str]) -> str:
    return "\n".join(sentence for sentence in _STEPS.split(text) if not unwanted.search(sentence))
