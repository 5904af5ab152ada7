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
        text = f"{self.head or self.verb} {self.thing}"
        if self.place:
            text += f" {self.join} {self.place}"
        return text.strip()


_TWO_PLACES = r"(?P<thing>.+?) (?:to|in|into|on|onto|inside) (?P<place>.+)"


class _Verb(NamedTuple):
    name: str
    pattern: str  # of the whole action, in the form of `normalize_words`
    head: str = ""  # first words of the action, if different from the name
    join: str = ""  # the word before the place


_VERBS = (
    _Verb("teleport", r"teleport(?:ing)?(?: to)? (?P<thing>.+)", head="teleport to"),
    _Verb("go", r"(?:go(?:ing)?|walk(?:ing)?) (?:to )?(?P<thing>.+)", head="go to"),
    _Verb("open", r"open(?:ing)? (?P<thing>.+)"),
    _Verb("close", r"clos(?:e|ing) (?P<thing>.+)"),
    _Verb("pick up", r"(?:pick(?:ing)? up|tak(?:e|ing)|grab(?:bing)?) (?P<thing>.+)"),
    _Verb("focus", r"focus(?:ing)?(?: on)? (?P<thing>.+)", head="focus on"),
    _Verb("move", r"(?:mov(?:e|ing)|plac(?:e|ing)|put(?:ting)?) " + _TWO_PLACES, join="to"),
    _Verb("pour", r"pour(?:ing)? " + _TWO_PLACES, join="in"),
    _Verb("mix", r"mix(?:ing)? (?P<thing>.+)"),
    _Verb("read", r"read(?:ing)? (?P<thing>.+)"),
    _Verb("deactivate", r"(?:deactivat(?:e|ing)|turn(?:ing)? off) (?P<thing>.+)"),
    _Verb("activate", r"(?:activat(?:e|ing)|turn(?:ing)? on) (?P<thing>.+)"),
    _Verb("look in", r"look(?:ing)? (?:in|into|inside|at) (?P<thing>.+)"),
    _Verb("use", r"us(?:e|ing) (?P<thing>.+?) on (?P<place>.+)", join="on"),
    _Verb("choose", r"(?:choos(?:e|ing)|answer(?:ing)?) (?:option |number )?(?P<thing>\d+)"),
    _Verb("wait", r"wait(?:ing)?(?:1|\b.*)"),
)


@lru_cache(maxsize=8192)
def parse_command(text: str) -> Command | None:
    """Parse a clause that consists of a command; None otherwise."""
    without_notes = re.sub(r"\((?:that|in|from|on)\b[^)]*\)", "", text)
    clause = normalize_words(without_notes)
    if clause.isdigit():
        return Command("choose", clause)  # a bare number, which answers an open question

    for verb in _VERBS:
        match = re.fullmatch(verb.pattern, clause)
        if match:
            parts = match.groupdict(default="")
            thing = parts.get("thing", "").strip()
            place = parts.get("place", "").strip()
            return Command(verb.name, thing, place, verb.head, verb.join)
    return None


def normalize_words(text: str) -> str:
    """Normalize a name for comparison: lower case, without articles, punctuation and double spaces."""
    words = []
    for token in re.findall(r"[a-z0-9'%.-]+", text.lower()):
        word = token.strip(".'-")
        if word and token not in _ARTICLES:
            words.append(word)
    return " ".join(words)


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
    plain = re.sub(r"\*\*|`", "", text)
    plain = _MISTAKE.sub(r"avoid \1", plain)
    plain = _NUMBERED.sub("", plain)
    unconditional = [sentence for sentence in _SENTENCES.split(plain) if not _CONDITIONAL.search(sentence)]

    advice = []
    for clause in _CLAUSES.split("\n".join(unconditional).lower()):
        unlabelled = _LABEL.sub("", clause.strip())
        order = _LEAD.sub("", unlabelled).strip()
        negation = _NEGATIVE.match(order)
        if negation:
            order = order[negation.end() :]
        command = parse_command(order.strip(" \"'“”,"))
        if command:
            advice.append(Advice(command, _weigh(negation)))
    return tuple(advice)


def _weigh(negation: re.Match[str] | None) -> float:
    if negation is None:
        return LIKED
    if negation[1] in ("avoid", "no more", "without"):
        return AVOIDED
    return FORBIDDEN


def split_past_attempts(text: str) -> list[str]:
    """The plans of past attempts, oldest first."""
    return [part.strip() for part in _ATTEMPT.split(text) if part.strip()]


def select_plan_steps(text: str) -> tuple[Command, ...]:
    """The steps of the newest plan of those that earned most, without what newer ones forbid."""
    plans = split_past_attempts(text)
    if not plans:
        return ()

    points = [_count_points(plan) for plan in plans]
    most = max(points)
    best = max(index for index, earned in enumerate(points) if earned == most)

    forbidden = []
    for plan in plans[best + 1 :]:
        forbidden += [piece.command for piece in read_advice(plan) if piece.weight == FORBIDDEN]

    steps = []
    for step in _list_advised(plans[best]):
        if not any(is_advice_for(command, step) for command in forbidden):
            steps.append(step)
    return tuple(steps)


def _count_points(plan: str) -> int:
    """The most points that a plan says were earned."""
    earned = [int(points) for points in _EARNED.findall(plan)]
    return max(earned, default=0)


def _list_advised(text: str) -> tuple[Command, ...]:
    """The commands that a text says to carry out."""
    return tuple(piece.command for piece in read_advice(text) if piece.weight > 0)


def parse_skills(text: str) -> tuple[Skill, ...]:
    """The offered skills in order."""
    parts = _SUBGOAL.split(text)
    skills = []
    for target, body in zip(parts[1::2], parts[2::2], strict=True):
        skills.append(Skill(target.strip(), _list_advised(body)))
    return tuple(skills)


def score_by_advice(action: str, advice: Iterable[Advice]) -> float:
    """How much a body of advice speaks for (or against) an action."""
    command = parse_command(action)
    if command is None:
        return 0.0
    weights = [0.0]
    weights += [piece.weight for piece in advice if is_advice_for(piece.command, command)]
    return max(weights) + min(weights)


def is_advice_for(advised: Command, done: Command) -> bool:
    """Whether the advice is about the action: same verb, and every part it names is meant."""
    are_both_travel = advised.verb in TRAVEL and done.verb in TRAVEL
    if advised.verb != done.verb and not are_both_travel:
        return False
    return _is_meant(advised.thing, done.thing) and _is_meant(advised.place, done.place)


def is_concrete(done: Command) -> bool:
    """Whether no part of a command is a placeholder such as OBJ or "the substance"."""
    return not (_is_placeholder(done.thing) or _is_placeholder(done.place))


def _is_placeholder(name: str) -> bool:
    words = find_words(name)
    return len(words) == 1 and words <= _SLOTS


def _is_meant(advised: str, done: str) -> bool:
    words = find_words(advised)
    return words <= find_words(done) or not is_concrete(Command("", advised))


@lru_cache(maxsize=8192)
def find_words(text: str) -> frozenset[str]:
    """The content words of a text, lightly stemmed (plural and -ing)."""
    content = [word for word in normalize_words(text).split() if word not in _STOP]
    return frozenset(_ENDING.sub("", word) for word in content)
