"""What a domain file and a problem file say, as data. Everything is in lower case.

A fact is a tuple, the predicate first: ``("at", "ball1", "rooma")``. In an action's conditions and effects an argument
that begins with ``?`` is one of its parameters. ``=`` is a predicate like any other, and holds of equal objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

OBJECT = "object"
"""The type of all types."""

Fact = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A fact, perhaps with parameters in it, or its denial."""

    fact: Fact
    positive: bool = True
    line: int = 0
    """Where it stands, from 1; 0 where it was read off no file."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action scheme."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """Name, with its ``?``, and type."""
    conditions: tuple[Literal, ...]
    effects: tuple[Literal, ...]


@dataclass(frozen=True, eq=False)
class Domain:
    """Types, predicates, constants and actions."""

    name: str
    types: Mapping[str, str]
    """Type to the one above it; `OBJECT` is above all."""
    argument_types: Mapping[str, tuple[str, ...]]
    """Predicate to the types of its arguments."""
    actions: Mapping[str, Action]
    constants: Mapping[str, str] = field(default_factory=dict)
    """Object to type."""

    def is_of_type(self, own: str, wanted: str) -> bool:
        """Whether what is of the type `own` is of the type `wanted` too."""
        while own not in (wanted, OBJECT):
            own = self.types.get(own, OBJECT)
        return wanted in (own, OBJECT)


@dataclass(frozen=True, eq=False)
class Problem:
    """Objects, where they begin and what is wanted of them."""

    name: str
    objects: Mapping[str, str]
    """Object to type, constants of the domain among them."""
    start: frozenset[Fact]
    goal: tuple[Literal, ...]

    @property
    def key(self) -> tuple[frozenset[Fact], frozenset[Fact]]:
        """What two problems have in common that are the same."""
        return self.start, frozenset(each.fact for each in self.goal)
