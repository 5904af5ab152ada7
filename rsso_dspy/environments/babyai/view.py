"""What is seen of the grid, and its text; ways through it; what can be done, as lists of minigrid's moves. An image is
minigrid's: 7 x 7 cells of (type, colour, state), the agent in the middle of the lowest row and looking up. A place is
given by the cells ahead of the agent and the cells to its right; the left counts below 0. The search for ways goes
breadth first over cells and directions, as AgentBoard's does: a place counts as seen when it is taken from the queue,
and until then the way to it is the one that came last. That decides between ways of equal length."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rsso_dspy.environments.lessons import read_texts

CELLS = 7
_MIDDLE, _LOWEST = CELLS // 2, CELLS - 1
_TYPES = {2: "wall", 4: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava"}
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")
FORWARD = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction, the cell ahead
_FIRST = "In front of you in this room, you can see several objects: "
_NOTHING = "You cannot see any objects within sight."


class Thing(NamedTuple):
    kind: str
    color: str
    state: str  # of a door: open, closed or locked
    ahead: int
    right: int

    @property
    def name(self) -> str:
        return f"{self.color} {self.state} {self.kind}" if self.state else f"{self.color} {self.kind}"


@dataclass(frozen=True, eq=False)
class View:
    image: Sequence[Sequence[Sequence[int]]]
    x: int
    y: int
    facing: int  # 0 right, 1 down, 2 left, 3 up
    carrying: str  # colour and type of what is carried; empty for nothing

    @cached_property
    def things(self) -> list[Thing]:
        """Everything in sight, walls too, in the order in which it is listed: what is nearest first; of equal distance
        what is further ahead, then from left to right."""
        return sorted(self._read_cells(), key=lambda thing: (thing.ahead + abs(thing.right), -thing.ahead, thing.right))

    @cached_property
    def listed(self) -> list[tuple[Thing, int]]:
        """The things that the text lists, each with its number among those of the same name."""
        counts: Counter[str] = Counter()
        numbered = []
        for thing in self.things:
            if thing.kind != "wall":
                counts[thing.name] += 1
                numbered.append((thing, counts[thing.name]))
        return numbered

    @cached_property
    def barrier(self) -> Thing | None:
        """The nearest wall or box straight ahead."""
        return next((thing for thing in self.things if not thing.right and thing.kind in ("wall", "box")), None)

    @cached_property
    def offer(self) -> "Offer":
        return Offer(self)

    def locate(self, thing: Thing) -> tuple[int, int]:
        forward, sideways = FORWARD[self.facing], FORWARD[(self.facing + 1) % 4]
        return (
            self.x + thing.ahead * forward[0] + thing.right * sideways[0],
            self.y + thing.ahead * forward[1] + thing.right * sideways[1],
        )

    def describe(self) -> str:
        sights = "".join(f"There is a {thing.name} {number} {_tell_place(thing)}.  " for thing, number in self.listed)
        facing = self.barrier
        wall = f"You are facing a {facing.kind} {facing.ahead} steps away. " if facing else ""
        carried = f"You are carrying a {self.carrying}." if self.carrying else "You are not carrying anything."
        return f"{_FIRST + sights if self.things else _NOTHING}The room has walls around you. {wall}{carried}"

    def _read_cells(self) -> Iterator[Thing]:
        for column, cells in enumerate(self.image):
            for row, (kind, color, state) in enumerate(cells):
                ahead = _LOWEST - row
                right = column - _MIDDLE
                name = _TYPES.get(kind)
                if name and (ahead or right):
                    thing = Thing(name, _COLORS[color], _DOORS[state] if name == "door" else "", ahead, right)
                    if min(self.locate(thing)) >= 0:
                        yield thing


def _tell_place(thing: Thing) -> str:
    if not thing.right:
        return f"right in front of you {thing.ahead} steps away"
    side = "right" if thing.right > 0 else "left"
    return f"{thing.ahead} steps in front of you and {abs(thing.right)} steps to your {side}"


LEFT, RIGHT, AHEAD = 0, 1, 2
_Cell = tuple[int, int]
_Place = tuple[int, int, int]
_WINDOWS = ((-1, 6, -3, 3), (-4, 3, -1, 6), (-6, 0, -4, 3), (-3, 3, -6, 0))
"""By direction, how far ways may lead: smallest and largest x, then y, from where the agent stands."""


class Paths:
    def __init__(self, view: View):
        self._start: _Place = (view.x, view.y, view.facing)
        self._blocked = {view.locate(thing) for thing in view.things if thing.kind not in ("door", "goal")}
        left, right, top, bottom = _WINDOWS[view.facing]
        self._limits = view.x + left, view.x + right, view.y + top, view.y + bottom
        self._before: dict[_Place, tuple[_Place, int]] = {}
        self._facing: dict[_Cell, _Place] = {}
        self._at: dict[_Cell, _Place] = {}
        self._search()

    def find_path_before(self, cell: _Cell) -> list[int] | None:
        return self._trace(self._facing.get(cell))

    def find_path_into(self, cell: _Cell) -> list[int] | None:
        """Moves that end in the cell itself."""
        return self._trace(self._at.get(cell))

    def _search(self) -> None:
        previous = self._before
        successors = dict[_Place, list[tuple[_Place, int]]]()
        queue = deque([self._start])
        while queue:
            place = queue.popleft()
            if place not in successors:  # taken for the first time
                successors[place] = self._list_afters(*place)
            for successor, move in successors[place]:
                if successor not in successors:
                    previous[successor] = place, move
                    queue.append(successor)

    def _list_afters(self, x: int, y: int, direction: int) -> list[tuple[_Place, int]]:
        """Places that one move leads to, with the move; notes the cells at this place and ahead of it."""
        low_x, high_x, low_y, high_y = self._limits
        step_x, step_y = FORWARD[direction]
        ahead = x + step_x, y + step_y
        self._at.setdefault((x, y), (x, y, direction))
        self._facing.setdefault(ahead, (x, y, direction))
        turned = [((x, y, (direction + 3) % 4), LEFT), ((x, y, (direction + 1) % 4), RIGHT)]
        free = low_x <= ahead[0] <= high_x and low_y <= ahead[1] <= high_y and ahead not in self._blocked
        return [((*ahead, direction), AHEAD), *turned] if free else turned

    def _trace(self, place: _Place | None) -> list[int] | None:
        if place is None:
            return None
        moves = []
        while place != self._start:
            place, move = self._before[place]
            moves.append(move)
        return moves[::-1]


ACTION_TEMPLATES: str = read_texts(__package__)["templates"]["sso"]
PICKUP, DROP, TOGGLE = 3, 4, 5
CHECK = "check available actions"
NO_CHANGE = "No change in state."
NOT_KNOWN = "The action is not recognized. Please check valid actions."
COMPLETED = "\n The task is completed."
BARRIER = "There is a barrier in front of you, you can't move forward."
_NO_PATH = "as there is no path leading to it."
_IN_THE_WAY = ("wall", "box", "lava", "ball", "key")


class Offer:
    def __init__(self, view: View):
        self.moves: dict[str, list[int]] = {"turn left": [LEFT], "turn right": [RIGHT]}
        self.messages: dict[str, str] = {}  # action that cannot be done to what is answered
        self._view, self._paths = view, Paths(view)
        if view.barrier is not None and view.barrier.ahead <= 1:
            self.messages["move forward"] = BARRIER
        else:
            self.moves["move forward"] = [AHEAD]
        if not view.carrying:
            self._add_things("pickup", [PICKUP], ("key", "ball", "box"))
        self._add_drop()
        doors: dict[str, int] = {}
        for thing, number in view.listed:
            if thing.kind == "door":
                doors[thing.name] = number
                self._add_door(thing, number, doors)
        for thing, _ in view.listed:
            if thing.kind == "goal" and (path := self._paths.find_path_into(view.locate(thing))) is not None:
                self.moves["go to goal"] = path
        self._add_things("go to", [])
        self.moves[CHECK] = []

    def _refuse(self, action: str, why: str) -> None:
        self.messages[action] = f"You cannot {action}, {why}"

    def _add_things(self, verb: str, last: list[int], kinds: Sequence[str] = ()) -> None:
        """The action for every thing that can be reached; only those are counted."""
        counts: Counter[str] = Counter()
        for thing, number in self._view.listed:
            if kinds and thing.kind not in kinds:
                continue
            path = self._paths.find_path_before(self._view.locate(thing))
            if path is None:
                self._refuse(f"{verb} {thing.name} {number}", _NO_PATH)
            else:
                counts[thing.name] += 1
                self.moves[f"{verb} {thing.name} {counts[thing.name]}"] = path + last

    def _add_drop(self) -> None:
        ahead = next((thing for thing in self._view.things if not thing.right and thing.ahead == 1), None)
        if not self._view.carrying:
            self.messages["drop"] = "You cannot drop the object, as you are not carrying anything."
        elif ahead is not None and ahead.kind in _IN_THE_WAY:
            self.messages["drop"] = "You cannot drop the object, as there is already an object in front of you."
        else:
            self.moves["drop"] = [DROP]

    def _add_door(self, door: Thing, number: int, counts: dict[str, int]) -> None:
        through = f"go through {door.name} {number}"
        toggle = f"toggle and {through}"

        cell = self._view.locate(door)
        carrying = self._view.carrying
        path = self._paths.find_path_into(cell) if door.state == "open" else self._paths.find_path_before(cell)
        if door.state == "closed":
            self._refuse(through, "as it is closed. You should toggle it first.")
        if door.state == "locked" and not carrying.endswith(" key"):
            self._refuse(toggle, "as you are not carrying a key.")
        elif door.state == "locked" and carrying != f"{door.color} key":
            self._refuse(toggle, "as the color of the key you are carrying does not match the color of door.")
        elif door.state == "open" and path is not None:
            self.moves[through] = path
        elif door.state == "open":
            self._refuse(through, _NO_PATH)
        elif path is None:  # the recorded games print the counts in place of the number
            self.messages[toggle] = f"You cannot toggle and go through {door.name} {counts}, {_NO_PATH}"
        else:
            self.moves[toggle] = [*path, TOGGLE, AHEAD]
            if not path:
                self.moves["toggle"] = [TOGGLE]
