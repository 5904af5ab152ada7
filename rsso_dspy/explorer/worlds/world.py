"""A world as the player knows it: sentences it can read, a way of playing, and habits that advice starts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

LISTED = re.compile(r"^Actions that can be taken now:\n((?:- .*(?:\n|\Z))+)", re.M)
"""The list that a prompt shows with ``action_choice = listed``."""
IN_VAIN = re.compile(r"takes no effect|nothing happens", re.I)
"""Matches the observation after an action that changed nothing."""

Fact = tuple[str, ...]
"""A predicate and the names it holds of."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One action of a transcript and its observation, in lower case."""

    action: str
    answer: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of doing things that the player lacks until it is told."""

    name: str
    heeded: str
    """Regular expression that matches texts, in lower case, that start the habit."""
    advice: str
    """Sentence for a reflection, a rule or the player's own notes. It matches `heeded`."""
    was_missed: Callable[[Sequence[Deed]], bool]
    """Whether a transcript shows that the habit was missing."""


@dataclass(frozen=True, eq=False)
class Wording:
    """Sentences of a world, ``{}`` for each name; if two match, the first counts."""

    forms: Mapping[str, str]
    name: str = r"[\w-]+"

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = []
        for number, form in enumerate(self.forms.values()):
            said = re.escape(form).replace(r"\{\}", f"({self.name})")
            parts.append(f"(?P<form{number}>{said}(?![\\w-]))")
        return re.compile("|".join(parts))

    def read(self, text: str) -> list[Fact]:
        """Every fact that a text states, in its order."""
        predicates = list(self.forms)
        facts = []
        for match in self._pattern.finditer(text.lower()):
            number = next(n for n in range(len(predicates)) if match[f"form{n}"])
            form = re.escape(self.forms[predicates[number]]).replace(r"\{\}", f"({self.name})")
            named = re.match(form, match[0])
            facts.append((predicates[number], *(named.groups() if named else ())))
        return facts

    def write(self, facts: Iterable[Fact]) -> str:
        """Facts as sentences that `read` reads."""
        return " ".join(f"{self.forms[fact[0]].format(*fact[1:])}." for fact in sorted(facts))


@dataclass(frozen=True, slots=True)
class View:
    """What the player bases its choice on."""

    task: str
    facts: frozenset[Fact]
    habits: frozenset[str]
    told: str
    """All advice, in lower case."""
    aim: str
    """The player's present aim by its notes, in the words of its world; empty without notes."""
    failed: frozenset[str]
    """Actions that were in vain since the last one that had an effect, in lower case."""
    practised: frozenset[str]
    """First words of the actions that skills name; the player is sure of these."""
    draw: Callable[[str], float]
    """Random number for a candidate, scaled by the temperature."""

    def select(self, predicate: str) -> list[Fact]:
        """Facts of a predicate, sorted."""
        return sorted(fact for fact in self.facts if fact[0] == predicate)

    def holds(self, *fact: str) -> bool:
        return fact in self.facts


@dataclass(frozen=True, eq=False)
class World:
    """A world that the player can play."""

    name: str
    sign: re.Pattern[str]
    """Pattern that the prompts of this world match, in lower case."""
    wording: Wording
    update: Callable[[frozenset[Fact], str, str], frozenset[Fact]]
    """Returns the facts after an effective action and its observation, both in lower case; at the start the action is
    empty."""
    propose: Callable[[View], Iterator[tuple[str, str]]]
    """Yields actions, each with its aim, best first."""
    habits: tuple[Habit, ...]
    remember: Callable[[str, Sequence[Deed]], list[str]] = lambda _task, _deeds: []
    """Returns what else of a transcript is worth keeping, as advice."""


def read_whole(wording: Wording) -> Callable[[frozenset[Fact], str, str], frozenset[Fact]]:
    """The `World.update` of a world whose every observation tells all facts."""
    return lambda _facts, _action, answer: frozenset(wording.read(answer))


def find_ended(ends: Iterable[tuple[str, tuple[str, ...]]], action: str) -> set[Fact]:
    """Facts that an action ends although no observation says so. ``ends``: patterns of actions, and facts in the
    pattern's groups."""
    for pattern, forms in ends:
        if match := re.search(pattern, action):
            return {tuple(form.format(*match.groups()).split()) for form in forms}
    return set()


def has_failed(pattern: str) -> Callable[[Sequence[Deed]], bool]:
    """The `Habit.was_missed` of a habit without which actions of this pattern fail."""
    return lambda deeds: any(deed.failed and re.search(pattern, deed.action) for deed in deeds)


def _asked_unprompted(deeds: Sequence[Deed]) -> bool:
    """Whether the player asked for the possible actions twice or more without a failed action."""
    asked = [deed for before, deed in zip([None, *deeds], deeds, strict=False) if not (before and before.failed)]
    return sum(deed.action.startswith("check ") for deed in asked) > 1


ASK_LESS = Habit(
    "ask less",
    r"\bask (?:for [\w ]+ )?(?:only )?(?:when|after)\b|(?:do not|don't|never) (?:ask|check)\b",
    "Do not ask for the valid actions: ask only when an action failed.",
    _asked_unprompted,
)
"""Without this habit the player asks for the possible actions whenever it begins something new, which costs a step."""
