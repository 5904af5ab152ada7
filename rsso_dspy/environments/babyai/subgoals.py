"""How far an episode has come, by patterns over what is seen.

    progress = PatternProgress([["There is a red ball **", "You are carrying a red ball."]])
    progress.read(observation)
    progress.share                     # 0.0, 0.5 or 1.0

A pattern is met by a sentence in which all its pieces occur; ``**`` stands between pieces. An observation meets one
pattern at most, the first that is left.
"""

import re
from collections.abc import Sequence


class PatternProgress:
    """Lists of patterns that stand for each other: a position that is met in one is done in all."""

    def __init__(self, lists: Sequence[Sequence[str]]):
        self.total = len(lists[0])
        self._left = [tuple(_split_pattern(each[place]) for each in lists) for place in range(self.total)]
        self._found = list(range(self.total))
        self.share = 0.0

    @property
    def is_met(self) -> tuple[bool, ...]:
        """Which patterns are done, in their order."""
        return tuple(place not in self._found for place in range(self.total))

    def read(self, observation: str) -> None:
        """Take an observation into account."""
        sentences = observation.split(".")
        for number, ways in enumerate(self._left):
            if any(all(piece in sentence for piece in way) for way in ways for sentence in sentences):
                del self._left[number], self._found[number]
                break
        self.share = max(self.share, (self.total - len(self._left)) / self.total)


def _split_pattern(pattern: str) -> tuple[str, ...]:
    bare = pattern.strip()
    return tuple(piece.strip(".") for piece in bare.split("**" if "**" in bare else "*"))


_CLAUSE = re.compile(r"(go to|pick up|open) (?:the|an|a) ((?:red|green|blue|purple|yellow|grey) )?(\w+)")


def make_patterns(mission: str, locked: Sequence[str] = (), on_the_way: bool = False) -> list[str]:
    """Patterns of one's own for a mission: see each thing that it names, then face, carry or open it. ``locked``:
    colours of the locked doors; ``on_the_way``: whether the mission leads through them, whatever it is about. Clauses
    stand in the order in which they are to be done."""
    patterns: list[str] = []
    if on_the_way:
        for color in locked:
            patterns += [f"You are carrying a {color} key.", f"There is a {color} open door **"]
    for sentence in _order_clauses(mission):
        for verb, color, kind in _CLAUSE.findall(sentence):
            patterns += _make_clause(verb, color.strip(), "" if kind == "object" else kind, locked)
    return patterns


def _order_clauses(mission: str) -> list[str]:
    after, turned, before = mission.partition(" after you ")
    return [before, after] if turned else [mission]


def _make_clause(verb: str, color: str, kind: str, locked: Sequence[str]) -> list[str]:
    named = " ".join(word for word in (color or "**", kind or "**") if word)
    seen = f"There is a {named} **"
    if kind == "door" or verb == "open":
        seen = f"There is a {color or '**'} ** door **"
    if verb == "go to":
        return [seen, f"{seen} right in front of you 1 steps away."]
    if verb == "pick up":
        return [seen, f"You are carrying a {named}."]
    keys = [f"You are carrying a {each} key." for each in locked if not color or each == color]
    return [*keys, seen, f"There is a {color or '**'} open door **"]
