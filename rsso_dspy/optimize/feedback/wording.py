"""How two texts compare: which words they share, which actions they order and which they forbid.

The grammar of actions is the one that reads advice elsewhere, so that feedback blames no text for an order that a
reader of it would find.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rsso_dspy.backends.embedded.commands import command, lines, plain, words

NEARLY_ALL = 0.8
"""Share of common words from which on two texts say the same."""
FEW = 1 / 3
"""Share of common words below which they are about different things."""

_SENTENCES = re.compile(r"(?<=[.!?])\s+|[\n;]")
_CONDITION = re.compile(r"\b(?:if|when|whenever|once|after|before|while|unless|until|where)\b", re.I)
_TAIL = re.compile(r" (?:again|any more|anymore|this time|next time)$")


class Claim(NamedTuple):
    """An action that a text orders or forbids."""

    action: str
    orders: bool
    condition: frozenset[str]
    """The words of the condition it stands under; empty when it holds always."""


def share(one: str, other: str) -> float:
    """Common content words of two texts, as a share of all of theirs; 0 when there are none."""
    ours, theirs = words(one), words(other)
    return len(ours & theirs) / len(ours | theirs) if ours | theirs else 0.0


def covered(one: str, other: str) -> float:
    """Content words of one text that stand in the other, as a share of its own."""
    ours = words(one)
    return len(ours & words(other)) / len(ours) if ours else 1.0


def says_the_same(one: str, other: str) -> bool:
    """Nearly the same words, and nothing that one orders and the other forbids."""
    if plain(one) == plain(other):
        return True
    return share(one, other) >= NEARLY_ALL and not _denies(one) ^ _denies(other)


def contradict(one: str, other: str) -> bool:
    """One orders an action that the other forbids, both always or both under the same condition."""
    theirs = set(claims(other))
    return any(Claim(claim.action, not claim.orders, claim.condition) in theirs for claim in claims(one))


def claims(text: str) -> Iterator[Claim]:
    """The actions that a text orders or forbids, sentence by sentence."""
    for sentence in _SENTENCES.split(text):
        conditional = bool(_CONDITION.search(sentence))
        for line in lines(sentence):
            done = command(line.text)
            if done is not None or not line.positive:
                condition = words(sentence) - words(line.text) if conditional else frozenset()
                yield Claim(action(line.text), line.positive, condition)


def action(text: str) -> str:
    """An action in the form in which two are compared: "go to the hall" and "teleport to hall" are the same."""
    said = _TAIL.sub("", plain(text))
    done = command(said)
    return done.text.replace("go to ", "teleport to ", 1) if done else said


def names(text: str, doing: str) -> bool:
    """Whether a text names an action, in its own words or in another wording of it."""
    return f" {plain(doing)} " in f" {plain(text)} " or any(claim.action == action(doing) for claim in claims(text))


def forbids(text: str, doing: str) -> bool:
    """Whether a text forbids an action and nowhere orders it."""
    verdicts = {claim.orders for claim in claims(text) if claim.action == action(doing) and not claim.condition}
    return verdicts == {False}


def orders(text: str, doing: str) -> bool:
    """Whether a text orders an action and nowhere forbids it."""
    verdicts = {claim.orders for claim in claims(text) if claim.action == action(doing) and not claim.condition}
    return verdicts == {True}


def _denies(text: str) -> bool:
    return any(not line.positive for line in lines(text))
