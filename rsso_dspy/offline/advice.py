"""Actions in prose, `parse_command("Taking the lamp")`, and advice: what a prompt tells the player to do and not to do.
Plans and skills are sequences, followed step by step; rules, instructions and demonstrations make single actions more
or less attractive. A sentence that states a condition, an order of preference or a time is not read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_ARTICLES = frozenset({"the", "a", "an", "some"})


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed action: verb, thing and, if the verb needs one, place."""

    verb: str
    thing: str = ""
    place: str = ""
    head: str = ""  # first words of the action, if different from the verb
    join: str = ""  # the word before the place

    @property
    def text(self) -> str:
        if self.verb == "choose":
            return self.thing
        tail = f" {self.join} {self.place}" if self.place else ""
        return f"{self.head or self.verb} {self.thing}{tail}".strip()


_TWO_PLACES = r"(?P<thing>.+?) (?:to|in|into|on|onto|inside) (?P<place>.+)"
_VERBS = (  # name; pattern of the whole, in the form of `normalize_words`; first words, if others; word before a place
    ("teleport", r"teleport(?:ing)?(?: to)? (?P<thing>.+)", "teleport to", ""),
    ("go", r"(?:go(?:ing)?|walk(?:ing)?) (?:to )?(?P<thing>.+)", "go to", ""),
    ("open", r"open(?:ing)? (?P<thing>.+)", "", ""),
    ("close", r"clos(?:e|ing) (?P<thing>.+)", "", ""),
    ("pick up", r"(?:pick(?:ing)? up|tak(?:e|ing)|grab(?:bing)?) (?P<thing>.+)", "", ""),
    ("focus", r"focus(?:ing)?(?: on)? (?P<thing>.+)", "focus on", ""),
    ("move", r"(?:mov(?:e|ing)|plac(?:e|ing)|put(?:ting)?) " + _TWO_PLACES, "", "to"),
    ("pour", r"pour(?:ing)? " + _TWO_PLACES, "", "in"),
    ("mix", r"mix(?:ing)? (?P<thing>.+)", "", ""),
    ("read", r"read(?:ing)? (?P<thing>.+)", "", ""),
    ("deactivate", r"(?:deactivat(?:e|ing)|turn(?:ing)? off) (?P<thing>.+)", "", ""),
    ("activate", r"(?:activat(?:e|ing)|turn(?:ing)? on) (?P<thing>.+)", "", ""),
    ("look in", r"look(?:ing)? (?:in|into|inside|at) (?P<thing>.+)", "", ""),
    ("use", r"us(?:e|ing) (?P<thing>.+?) on (?P<place>.+)", "", "on"),
    ("choose", r"(?:choos(?:e|ing)|answer(?:ing)?) (?:option |number )?(?P<thing>\d+)", "", ""),
    ("wait", r"wait(?:ing)?(?:1|\b.*)", "", ""),
)


@lru_cache(maxsize=8192)
def parse_command(text: str) -> Command | None:
    """Parse a clause that consists of a command; None otherwise."""
    clause = normalize_words(re.sub(r"\((?:that|in|from|on)\b[^)]*\)", "", text))
    if clause.isdigit():
        return Command("choose", clause)  # a bare number, which answers an open question
    for verb, pattern, head, join in _VERBS:
        if match := re.fullmatch(pattern, clause):
            parts = match.groupdict()
            thing, place = ((parts.get(name) or "").strip() for name in ("thing", "place"))
            return Command(verb, thing, place, head, join)
    return None


def normalize_words(text: str) -> str:
    """Normalize a name for comparison: lower case, without articles, punctuation and double spaces."""
    words = re.findall(r"[a-z0-9'%.-]+", text.lower())
    return " ".join(word.strip(".'-") for word in words if word not in _ARTICLES and word.strip(".'-"))


TRAVEL = ("teleport", "go")  # verbs that lead to another room; either may stand for the other
LIKED, AVOIDED, FORBIDDEN = 1.6, -3.0, -30.0  # added to a score: "avoid" leaves a way back when nothing is left

_LEAD = re.compile(
    r"^(?:\s*(?:[-*•>#]+|\(?\d+[.):]|step \d+[.:]?|first|second|third|next|then|finally|now|again|also|and|please"
    r"|always|you (?:should|must|can|need to)|should|must|try to|try|remember to|instead|simply|later)[\s,]+)+"
)
_NEGATIVE = re.compile(r"^(do not|don't|never|stop|avoid|no more|without)\s+(?:again\s+)?")
_NUMBERED = re.compile(r"^\s*\(?\d+[.):]\s+", re.M)
_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")
_CLAUSES = re.compile(r"\.(?=\s|$)|[;\n]|!|,? (?:and )?then |, and (?=\w+ )")
_LABEL = re.compile(r"^[^:\"`']{3,70}:\s+")
_MISTAKE = re.compile(r"\bmistake: ([^,.;\n]*)[^.\n]*", re.I)
_CONDITIONAL = re.compile(
    r"\b(?:if|in case|whenever|when|(?<!at )once|as soon as|after(?! that)|unless|until|before|while|as long as"
    r"|otherwise|else|prefer|rather than|instead of|only)\b",
    re.I,
)
_ENDING = re.compile(r"(?<=...)ing$|(?<=....)es$|(?<=..[^s])s$")
_ATTEMPT = re.compile(r"^(?:- )?Attempt \d+(?: at [^:\n]*)?: ", re.M)
_EARNED = re.compile(r"earned (\d+) point")
_SUBGOAL = re.compile(r"^[\s-]*subgoal(?: \d+)?: *(.+)$", re.M | re.I)
_SLOTS = frozenset({"obj", "object", "container", "location", "something", "it", "thing", "substance", "item"})
_STOP = frozenset(
    {"the", "a", "an", "of", "to", "in", "on", "at", "for", "and", "or", "is", "are", "be", "it", "its", "this", "that"}
    | {"which", "with", "from", "by", "as", "your", "you", "will", "has", "have", "can", "not", "do", "if", "then"}
    | {"than", "into", "first", "next", "when", "they", "them", "their", "there", "located", "called", "around", "near"}
    | {"take", "make", "made", "action", "actions", "task"}
)


class Advice(NamedTuple):
    command: Command
    weight: float  # what it adds to the score of such an action


class Skill(NamedTuple):
    target: str  # the subgoal, word for word
    steps: tuple[Command, ...]  # the commands that led to it


@lru_cache(maxsize=512)
def read_advice(text: str) -> tuple[Advice, ...]:
    """What a text says to do and not to do, in order."""
    plain = _NUMBERED.sub("", _MISTAKE.sub(r"avoid \1", re.sub(r"\*\*|`", "", text)))
    unconditional = "\n".join(sentence for sentence in _SENTENCES.split(plain) if not _CONDITIONAL.search(sentence))
    advice = []
    for clause in _CLAUSES.split(unconditional.lower()):
        order = _LEAD.sub("", _LABEL.sub("", clause.strip())).strip()
        negative = _NEGATIVE.match(order)
        if command := parse_command(order[negative.end() if negative else 0 :].strip(" \"'“”,")):
            firm = negative is None or negative[1] not in ("avoid", "no more", "without")
            advice.append(Advice(command, LIKED if negative is None else FORBIDDEN if firm else AVOIDED))
    return tuple(advice)


def split_past_attempts(text: str) -> list[str]:
    """The plans of past attempts, oldest first."""
    return [part.strip() for part in _ATTEMPT.split(text) if part.strip()]


def select_plan_steps(text: str) -> tuple[Command, ...]:
    """The steps of the newest plan of those that earned most, without what newer ones forbid."""
    plans = split_past_attempts(text)
    points = [max(map(int, _EARNED.findall(plan)), default=0) for plan in plans]
    best = max((index for index, earned in enumerate(points) if earned == max(points)), default=0)
    newer = [piece.command for plan in plans[best + 1 :] for piece in read_advice(plan) if piece.weight == FORBIDDEN]
    steps = [piece.command for plan in plans[best : best + 1] for piece in read_advice(plan) if piece.weight > 0]
    return tuple(step for step in steps if not any(is_advice_for(command, step) for command in newer))


def parse_skills(text: str) -> tuple[Skill, ...]:
    """The offered skills in order."""
    parts = _SUBGOAL.split(text)
    return tuple(
        Skill(target.strip(), tuple(piece.command for piece in read_advice(body) if piece.weight > 0))
        for target, body in zip(parts[1::2], parts[2::2], strict=True)
    )


def score_by_advice(action: str, advice: Iterable[Advice]) -> float:
    """How much a body of advice speaks for (or against) an action."""
    command = parse_command(action)
    weights = [0.0, *(piece.weight for piece in advice if command and is_advice_for(piece.command, command))]
    return max(weights) + min(weights)


def is_advice_for(advised: Command, done: Command) -> bool:
    """Whether the advice is about the action: same verb, and every part it names is meant."""
    same = advised.verb == done.verb or {advised.verb, done.verb} <= set(TRAVEL)
    return same and _is_meant(advised.thing, done.thing) and _is_meant(advised.place, done.place)


def is_concrete(done: Command) -> bool:
    """Whether no part of a command is a placeholder such as OBJ or "the substance"."""
    return not any(len(words) == 1 and words <= _SLOTS for words in map(find_words, (done.thing, done.place)))


def _is_meant(advised: str, done: str) -> bool:
    words = find_words(advised)
    return words <= find_words(done) or not is_concrete(Command("", advised))


@lru_cache(maxsize=8192)
def find_words(text: str) -> frozenset[str]:
    """The content words of a text, lightly stemmed (plural and -ing)."""
    return frozenset(_ENDING.sub("", word) for word in normalize_words(text).split() if word not in _STOP)
