"""How two texts compare: which words they share, which actions they order and which they forbid.

Actions are read in the grammar of the benchmark that is played, whoever plays it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rsso_dspy.environments.grammar import Grammar, plain, words

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


@dataclass(frozen=True)
class Wording:
    """Texts, read in a grammar."""

    grammar: Grammar

    def says_the_same(self, one: str, other: str) -> bool:
        """Nearly the same words, and nothing that one orders and the other forbids."""
        if plain(one) == plain(other):
            return True
        return share(one, other) >= NEARLY_ALL and not self._denies(one) ^ self._denies(other)

    def contradict(self, one: str, other: str) -> bool:
        """One orders an action that the other forbids, both always or both under the same condition."""
        theirs = set(self.claims(other))
        return any(Claim(claim.action, not claim.orders, claim.condition) in theirs for claim in self.claims(one))

    def claims(self, text: str) -> Iterator[Claim]:
        """The actions that a text orders or forbids, sentence by sentence."""
        for sentence in _SENTENCES.split(text):
            conditional = bool(_CONDITION.search(sentence))
            for line in self.grammar.lines(sentence):
                done = self.grammar.command(line.text)
                if done is not None or not line.positive:
                    condition = words(sentence) - words(line.text) if conditional else frozenset()
                    yield Claim(self.action(line.text), line.positive, condition)

    def action(self, text: str) -> str:
        """An action in the form in which two are compared, less what is said of repeating it."""
        return self.grammar.canonical(_TAIL.sub("", plain(text)))

    def names(self, text: str, doing: str) -> bool:
        """Whether a text names an action, in its own words or in another wording of it."""
        own = f" {plain(doing)} " in f" {plain(text)} "
        return own or any(claim.action == self.action(doing) for claim in self.claims(text))

    def forbids(self, text: str, doing: str) -> bool:
        """Whether a text forbids an action and nowhere orders it."""
        return self._verdicts(text, doing) == {False}

    def orders(self, text: str, doing: str) -> bool:
        """Whether a text orders an action and nowhere forbids it."""
        return self._verdicts(text, doing) == {True}

    def _verdicts(self, text: str, doing: str) -> set[bool]:
        wanted = self.action(doing)
        return {claim.orders for claim in self.claims(text) if claim.action == wanted and not claim.condition}

    def _denies(self, text: str) -> bool:
        return any(not line.positive for line in self.grammar.lines(text))
