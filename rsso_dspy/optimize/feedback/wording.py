"""Compares two texts: the words they share, the actions they order and the actions they forbid.

Actions are parsed with the grammar of the benchmark that is played, whichever model plays it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rsso_dspy.environments.grammar import Grammar, extract_content_words, normalize_words

NEARLY_ALL = 0.8
"""Two texts with at least this share of common words say the same."""
FEW = 1 / 3
"""Two texts with less than this share of common words are about different things."""

_SENTENCES = re.compile(r"(?<=[.!?])\s+|[\n;]")
_CONDITION = re.compile(r"\b(?:if|when|whenever|once|after|before|while|unless|until|where)\b", re.I)
_TAIL = re.compile(r" (?:again|any more|anymore|this time|next time)$")


class Claim(NamedTuple):
    """An action that a text orders or forbids."""

    action: str
    orders: bool
    condition: frozenset[str]
    """The words of its condition; empty when it always holds."""


def measure_overlap(one: str, other: str) -> float:
    """Share of common content words among all content words of two texts, 0 to 1; 0 without any."""
    ours, theirs = extract_content_words(one), extract_content_words(other)
    return len(ours & theirs) / len(ours | theirs) if ours | theirs else 0.0


def measure_coverage(one: str, other: str) -> float:
    """Share of the first text's content words that are in the other, 0 to 1; 1 without any."""
    ours = extract_content_words(one)
    return len(ours & extract_content_words(other)) / len(ours) if ours else 1.0


@dataclass(frozen=True)
class WordingComparer:
    """Compares texts in a grammar."""

    grammar: Grammar

    def is_same_text(self, one: str, other: str) -> bool:
        """Whether two texts have nearly the same words, and not only one of them forbids something."""
        if normalize_words(one) == normalize_words(other):
            return True
        return measure_overlap(one, other) >= NEARLY_ALL and not self._has_prohibition(one) ^ self._has_prohibition(
            other
        )

    def is_contradiction(self, one: str, other: str) -> bool:
        """Whether one text orders an action that the other forbids, both always or both under the same condition."""
        theirs = set(self.extract_claims(other))
        return any(
            Claim(claim.action, not claim.orders, claim.condition) in theirs for claim in self.extract_claims(one)
        )

    def extract_claims(self, text: str) -> Iterator[Claim]:
        """Yield the actions that a text orders or forbids, sentence by sentence."""
        for sentence in _SENTENCES.split(text):
            conditional = bool(_CONDITION.search(sentence))
            for line in self.grammar.parse_advice(sentence):
                done = self.grammar.parse_command(line.text)
                if done is not None or not line.positive:
                    condition = (
                        extract_content_words(sentence) - extract_content_words(line.text)
                        if conditional
                        else frozenset()
                    )
                    yield Claim(self.normalize_action(line.text), line.positive, condition)

    def normalize_action(self, text: str) -> str:
        """An action in the form used for comparison, without words about repeating it."""
        return self.grammar.canonicalize(_TAIL.sub("", normalize_words(text)))

    def names_action(self, text: str, doing: str) -> bool:
        """Whether a text names an action, in its own words or in another wording of it."""
        own = f" {normalize_words(doing)} " in f" {normalize_words(text)} "
        return own or any(claim.action == self.normalize_action(doing) for claim in self.extract_claims(text))

    def forbids_action(self, text: str, doing: str) -> bool:
        """Whether a text forbids an action and nowhere orders it."""
        return self._collect_verdicts(text, doing) == {False}

    def orders_action(self, text: str, doing: str) -> bool:
        """Whether a text orders an action and nowhere forbids it."""
        return self._collect_verdicts(text, doing) == {True}

    def _collect_verdicts(self, text: str, doing: str) -> set[bool]:
        wanted = self.normalize_action(doing)
        return {claim.orders for claim in self.extract_claims(text) if claim.action == wanted and not claim.condition}

    def _has_prohibition(self, text: str) -> bool:
        return any(not line.positive for line in self.grammar.parse_advice(text))
