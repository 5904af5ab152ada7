"""What is seen of the grid, and its text.

An image is minigrid's: 7 x 7 cells of (type, colour, state), the agent in the middle of the lowest row and looking up.
A place is given by the cells ahead of the agent and the cells to its right; the left counts below 0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

CELLS = 7
_MIDDLE, _LOWEST = CELLS // 2, CELLS - 1
_TYPES = {2: "wall", 4: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava"}
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")
_FIRST = "In front of you in this room, you can see several objects: "
_NOTHING = "You cannot see any objects within sight."


class Thing(NamedTuple):
    """What stands in a cell of view."""

    kind: str
    color: str
    state: str
    """Of a door: open, closed or locked."""
    ahead: int
    right: int

    @property
    def name(self) -> str:
        return f"{self.color} {self.state} {self.kind}" if self.state else f"{self.color} {self.kind}"


@dataclass(frozen=True, eq=False)
class View:
    """What the agent sees from where it stands."""

    image: Sequence[Sequence[Sequence[int]]]
    x: int
    y: int
    facing: int
    """0 right, 1 down, 2 left, 3 up."""
    carrying: str
    """Colour and type of what is carried; empty for nothing."""

    @cached_property
    def things(self) -> list[Thing]:
        """Everything in sight, walls too, in the order in which it is listed: what is nearest first; of equal distance
        what is further ahead, then from left to right."""
        return sorted(self._read_cells(), key=lambda each: (each.ahead + abs(each.right), -each.ahead, each.right))

    @cached_property
    def listed(self) -> list[tuple[Thing, int]]:
        """The things that the text lists, each with its number among those of the same name."""
        counts: Counter[str] = Counter()
        found = []
        for thing in self.things:
            if thing.kind != "wall":
                counts[thing.name] += 1
                found.append((thing, counts[thing.name]))
        return found

    @cached_property
    def barrier(self) -> Thing | None:
        """The nearest wall or box straight ahead."""
        return next((thing for thing in self.things if not thing.right and thing.kind in ("wall", "box")), None)

    @property
    def facing_thing(self) -> Thing | None:
        """What is seen in the cell ahead."""
        return next((thing for thing in self.things if not thing.right and thing.ahead == 1), None)

    def locate(self, thing: Thing) -> tuple[int, int]:
        """The cell of the grid that a thing stands in."""
        return self._locate_cell(thing.ahead, thing.right)

    def describe(self) -> str:
        """The observation."""
        told = "".join(f"There is a {thing.name} {number} {_tell_place(thing)}.  " for thing, number in self.listed)
        facing = self.barrier
        wall = f"You are facing a {facing.kind} {facing.ahead} steps away. " if facing else ""
        carried = f"You are carrying a {self.carrying}." if self.carrying else "You are not carrying anything."
        return f"{_FIRST + told if self.things else _NOTHING}The room has walls around you. {wall}{carried}"

    def _read_cells(self) -> Iterator[Thing]:
        for column, cells in enumerate(self.image):
            right = column - _MIDDLE
            for row, (kind, color, state) in enumerate(cells):
                ahead = _LOWEST - row
                if kind not in _TYPES or not (ahead or right):
                    continue
                x, y = self._locate_cell(ahead, right)
                if x >= 0 and y >= 0:
                    name = _TYPES[kind]
                    yield Thing(name, _COLORS[color], _DOORS[state] if name == "door" else "", ahead, right)

    def _locate_cell(self, ahead: int, right: int) -> tuple[int, int]:
        forward, sideways = FORWARD[self.facing], FORWARD[(self.facing + 1) % 4]
        return (
            self.x + ahead * forward[0] + right * sideways[0],
            self.y + ahead * forward[1] + right * sideways[1],
        )


FORWARD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""By direction, the cell ahead."""


def _tell_place(thing: Thing) -> str:
    if not thing.right:
        return f"right in front of you {thing.ahead} steps away"
    side = "right" if thing.right > 0 else "left"
    return f"{thing.ahead} steps in front of you and {abs(thing.right)} steps to your {side}"
