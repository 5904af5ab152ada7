"""The simulator's questions about ambiguous actions, for the interface `complete`.

    0:	pour wood cup (in art studio) in bowl (in table, in art studio)
    1:	pour wood cup (in art studio) in bowl (in table, in art studio)

Options with equal words are distinguished by the content or appearance of the things in the listing: the simulator asks
in the order in which it lists. If no two options differ, the first one is chosen without asking.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rsso_dspy.environments.scienceworld import actions, repairs
from rsso_dspy.environments.scienceworld.grammar import GRAMMAR

_OPTION = re.compile(r"^\s*(\d+):\s*(.+?)\s*$", re.M)
_PLACED = re.compile(r"([a-z0-9][a-z0-9 '%-]*?) \((in [^()]*)\)")
_NUMBER = re.compile(
    r"[\W_]*(?:(?:the|my|i|choose|choice|pick|take|select|option|number|answer|action|next|no|is|enter|type|go|with|nr)"
    r"[\W_]+)*(\d+)(?:[\W_]*|\s*[:.)\-–]\s*\D.*|\s+\(.*\))"
)
_RETRACTS = re.compile(r"\d+\W+(?:no|or|wait|actually|rather|instead|not(?!\W+(?:\w+\W+)?\d))\b")
_CLAUSES = re.compile(r"[,;!?]|\.(?=\s|$)|\b(?:but|because|since|while|whereas|although|though)\b")
_DENIES = re.compile(
    r"n['’]t\b|\b(?:not|cannot|never|neither|nor|without|except|than|instead of|avoid|reject|wrong|incorrect)\b"
)
_CUED = re.compile(
    r"\b(?:choos(?:e|ing)|choice|answer|option|pick(?:ing)?|select(?:ing)?)\b"
    r"(?:[\s:=#*_`\"'(]+(?:is|be|would|will|the|option|number|nr|no))*[\s:=#*_`\"'(.]*(?<![a-z])(\d+)(?![\w%])"
)
_BARE = re.compile(r"(?<![\w.-])\d+(?![\w%])(?!\.\d)")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = rf"\b(?:(?P<count>\d+)(?:st|nd|rd|th)|(?P<word>{'|'.join(_ORDINALS)}|last))\b"
_ORDINAL_ALONE = re.compile(
    rf"[\W_]*(?:(?:i|choose|pick|take|select|answer|with|go|my|choice|is|the)[\W_]+)*{_ORDINAL}[\W_]*"
)
_ORDINAL_OPTION = re.compile(rf"{_ORDINAL}\s+(?:option|one|choice|answer|reading|possibility)\b")
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_COUNT_ALONE = re.compile(rf"[\W_]*(?:option[\W_]+|number[\W_]+)?({'|'.join(_COUNTS)})[\W_]*")
_TAGGED = re.compile(r"(.+?)\s*[(\[](\d+)[)\]]\W*")
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset({"to", "the", "for", "on", "in", "a", "an", "into", "of", "is", "that", "which", "and"})


@dataclass(frozen=True)
class Question:
    """A question, with the state in which it was asked."""

    answer: str
    look: str
    inventory: str

    @cached_property
    def options(self) -> dict[str, str]:
        """Option number to text, in lower case."""
        return {number: text.lower() for number, text in _OPTION.findall(self.answer)}

    @cached_property
    def marks(self) -> dict[str, str]:
        """Option number to its distinguishing mark among options with equal words, where there is one."""
        found: dict[str, str] = {}
        for text in dict.fromkeys(self.options.values()):
            alike = [number for number, other in self.options.items() if other == text]
            if len(alike) > 1:
                found.update(zip(alike, self._differences(text, len(alike)), strict=False))
        return found

    @property
    def idle(self) -> bool:
        """Whether no visible difference exists between the options."""
        return len(set(self.options.values())) == 1 and not self.marks

    def tell(self) -> str:
        """Render the question with the marks of its options and how to answer it."""
        lines = [
            f"{line.rstrip()}: the {mark}"
            if (match := _OPTION.match(line)) and (mark := self.marks.get(match[1]))
            else line
            for line in self.answer.rstrip().splitlines()
        ]
        return "\n".join(lines)

    def choose(self, action: str) -> str | None:
        """Return the option number that an answer means; None if it is another action or matches no option."""
        said = " ".join(action.lower().split())
        if match := _COUNT_ALONE.fullmatch(said):
            said = str(_COUNTS.index(match.group(1)))
        if (match := _TAGGED.fullmatch(said)) and match.group(2) in self._list_described(match.group(1)):
            return match.group(2)
        if (match := _NUMBER.fullmatch(said)) and match.group(1) in self.options and not _RETRACTS.search(said):
            return match.group(1)
        described = self._list_described(said)
        if described:
            return described[0] if len(described) == 1 or self._same(described) else None
        if GRAMMAR.parse_command(repairs.strip(said)) is not None:
            return None
        number = self._read_number(said)
        return number if number in self.options else None

    def find_described(self, action: str) -> str | None:
        """Return the number of the only option whose words an action has; its numbers are parts of names."""
        described = self._list_described(" ".join(action.lower().split()))
        return described[0] if described and (len(described) == 1 or self._same(described)) else None

    def _list_described(self, said: str) -> list[str]:
        """List the options that fit the words best: all words, all but the places, or at least those said."""
        wanted = _words(repairs.strip(said))
        for fits in (
            lambda number: _words(self.options[number]) == wanted,
            lambda number: _words(_PLACED.sub(r"\1", self.options[number])) == wanted,
            lambda number: wanted <= _words(f"{self.options[number]} {self.marks.get(number, '')}"),
        ):
            chosen = [number for number in self.options if wanted and fits(number)]
            if chosen:
                return chosen
        return []

    def _read_number(self, said: str) -> str | None:
        """Read the only number that a sentence chooses: after "choose", "option" and the like, or as an ordinal, which
        is a position; otherwise the only number in it. None where it denies that one or leaves it open."""
        ordinals = [match] if (match := _ORDINAL_ALONE.fullmatch(said)) else []
        meant: set[str] = set()
        for clause in _CLAUSES.split(said):
            if _DENIES.search(clause):
                continue
            ordinals += _ORDINAL_OPTION.finditer(clause)
            if cued := _CUED.search(clause):
                meant.update(_BARE.findall(clause[cued.start(1) :]))  # of "option 0 or 1" both
        meant.update(map(self._number_at, ordinals))
        if not meant and not _DENIES.search(said):
            meant = set(_BARE.findall(said))
        return meant.pop() if len(meant) == 1 else None

    def _number_at(self, ordinal: re.Match[str]) -> str:
        """Return the number of the option at a position such as "2nd" or "last"; empty if there is none."""
        count, word = ordinal["count"], ordinal["word"]
        place = int(count) if count else len(self.options) if word == "last" else _ORDINALS.index(word) + 1
        return dict(enumerate(self.options, start=1)).get(place, "")

    def _same(self, numbers: Sequence[str]) -> bool:
        return len({(self.options[number], self.marks.get(number, "")) for number in numbers}) == 1

    def _differences(self, text: str, count: int) -> list[str]:
        """Return the listed things of that name at the option's place, if their number matches and they differ."""
        for name, place in _PLACED.findall(text):
            listed = self._listed_in(place)
            for start in range(len(name.split())):
                shown = _mentions(" ".join(name.split()[start:]), listed)
                if len(shown) == count and len(set(shown)) > 1:
                    return shown
        return []

    def _listed_in(self, place: str) -> str:
        """Return the part of the listing about a place such as ``in inventory, in agent, in kitchen``."""
        inner, *outer = [each.removeprefix("in ").strip() for each in place.split(", in ")]
        lines = [line.strip().lower() for line in self.look.splitlines() if line.startswith(("\t", " "))]
        if inner == "inventory":
            return self.inventory.lower()
        if not outer:  # in the room itself: the start of each line
            return "\n".join(_head(line) for line in lines)
        holder = re.compile(rf"(?:in|on) the {re.escape(inner)} is: (.*)|{re.escape(inner)} \(containing (.*)\)")
        held = (match for line in lines if (match := holder.search(line)))
        return "\n".join(match.group(1) or match.group(2) for match in held)


def _head(line: str) -> str:
    """Return the subject of a line with its parentheses, without its content."""
    return re.split(r"\.\s+(?:in|on) the [a-z0-9 ]+ is:", line, maxsplit=1)[0]


def _mentions(thing: str, listed: str) -> list[str]:
    """Return how a listing shows each thing of that name: with the parentheses after it, or to the end of the line."""
    name = rf"(?:^|,\s*|\s)(?:an?|some|the)\s+(?:substance called )?({re.escape(thing)})(?=[\s,.(]|$)([^\n]*)"
    return [(match.group(1) + _details(match.group(2))).strip(" .,") for match in _each(name, listed)]


def _each(name: str, listed: str) -> Iterator[re.Match[str]]:
    """Find matches of a pattern that consumes the rest of the line, each search starting after the previous name."""
    place = 0
    pattern = re.compile(name, re.M)
    while match := pattern.search(listed, place):
        yield match
        place = match.end(1)


def _details(rest: str) -> str:
    """Return the text after a name: balanced parentheses, or a clause up to the next sentence."""
    rest = rest.strip()
    if not rest.startswith("("):
        return "" if not rest.startswith(",") else rest.split(".")[0]
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return f" {rest[: place + 1]}"
    return f" {rest}"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _SMALL


def is_question(answer: str) -> bool:
    return answer.startswith(actions.AMBIGUOUS)
