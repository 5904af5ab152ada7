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
_MIDDLE = CELLS // 2
_LOWEST = CELLS - 1
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
        if self.state:
            return f"{self.color} {self.state} {self.kind}"
        return f"{self.color} {self.kind}"


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
        return sorted(self._read_cells(), key=_rank_place)

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
        for thing in self.things:
            if thing.right == 0 and thing.kind in ("wall", "box"):
                return thing
        return None

    @cached_property
    def offer(self) -> "Offer":
        return Offer(self)

    def locate(self, thing: Thing) -> tuple[int, int]:
        forward_x, forward_y = FORWARD[self.facing]
        right_x, right_y = FORWARD[(self.facing + 1) % 4]
        x = self.x + thing.ahead * forward_x + thing.right * right_x
        y = self.y + thing.ahead * forward_y + thing.right * right_y
        return x, y

    def describe(self) -> str:
        sights = _NOTHING
        if self.things:
            sentences = [f"There is a {thing.name} {number} {_tell_place(thing)}.  " for thing, number in self.listed]
            sights = _FIRST + "".join(sentences)

        barrier = ""
        if self.barrier is not None:
            barrier = f"You are facing a {self.barrier.kind} {self.barrier.ahead} steps away. "

        carried = "You are not carrying anything."
        if self.carrying:
            carried = f"You are carrying a {self.carrying}."
        return f"{sights}The room has walls around you. {barrier}{carried}"

    def _read_cells(self) -> Iterator[Thing]:
        for column, cells in enumerate(self.image):
            for row, (kind, color, state) in enumerate(cells):
                ahead = _LOWEST - row
                right = column - _MIDDLE
                name = _TYPES.get(kind)
                is_agent = ahead == 0 and right == 0
                if name is None or is_agent:
                    continue

                door_state = _DOORS[state] if name == "door" else ""
                thing = Thing(name, _COLORS[color], door_state, ahead, right)
                if min(self.locate(thing)) >= 0:
                    yield thing


def _rank_place(thing: Thing) -> tuple[int, int, int]:
    distance = thing.ahead + abs(thing.right)
    return distance, -thing.ahead, thing.right


def _tell_place(thing: Thing) -> str:
    if not thing.right:
        return f"right in front of you {thing.ahead} steps away"
    side = "right" if thing.right > 0 else "left"
    return f"{thing.ahead} steps in front of you and {abs(thing.right)} steps to your {side}"


LEFT, RIGHT, AHEAD = 0, 1, 2
_Cell = tuple[int, int]
_Place = tuple[int, int, int]  # a cell, and the direction


@dataclass(frozen=True)
class _Window:
    """How far ways may lead."""

    low_x: int
    high_x: int
    low_y: int
    high_y: int

    def shift(self, x: int, y: int) -> "_Window":
        return _Window(self.low_x + x, self.high_x + x, self.low_y + y, self.high_y + y)

    def holds(self, x: int, y: int) -> bool:
        return self.low_x <= x <= self.high_x and self.low_y <= y <= self.high_y


_WINDOWS = (_Window(-1, 6, -3, 3), _Window(-4, 3, -1, 6), _Window(-6, 0, -4, 3), _Window(-3, 3, -6, 0))
"""By direction, from where the agent stands."""


class Paths:
    def __init__(self, view: View):
        self._start: _Place = (view.x, view.y, view.facing)
        self._blocked = {view.locate(thing) for thing in view.things if thing.kind not in ("door", "goal")}
        self._window = _WINDOWS[view.facing].shift(view.x, view.y)
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
        successors: dict[_Place, list[tuple[_Place, int]]] = {}
        queue = deque([self._start])
        while queue:
            place = queue.popleft()
            if place not in successors:  # taken for the first time
                successors[place] = self._list_afters(*place)
            for successor, move in successors[place]:
                if successor not in successors:
                    self._before[successor] = (place, move)
                    queue.append(successor)

    def _list_afters(self, x: int, y: int, direction: int) -> list[tuple[_Place, int]]:
        """Places that one move leads to, with the move; notes the cells at this place and ahead of it."""
        step_x, step_y = FORWARD[direction]
        ahead = (x + step_x, y + step_y)
        self._at.setdefault((x, y), (x, y, direction))
        self._facing.setdefault(ahead, (x, y, direction))

        afters: list[tuple[_Place, int]] = []
        if self._window.holds(*ahead) and ahead not in self._blocked:
            afters.append(((*ahead, direction), AHEAD))
        afters.append(((x, y, (direction + 3) % 4), LEFT))
        afters.append(((x, y, (direction + 1) % 4), RIGHT))
        return afters

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
        self._view = view
        self._paths = Paths(view)

        self._add_forward()
        if not view.carrying:
            self._add_things("pickup", [PICKUP], ("key", "ball", "box"))
        self._add_drop()
        self._add_doors()
        self._add_goals()
        self._add_things("go to", [])
        self.moves[CHECK] = []

    def _refuse(self, action: str, why: str) -> None:
        self.messages[action] = f"You cannot {action}, {why}"

    def _add_forward(self) -> None:
        barrier = self._view.barrier
        if barrier is not None and barrier.ahead <= 1:
            self.messages["move forward"] = BARRIER
        else:
            self.moves["move forward"] = [AHEAD]

    def _add_things(self, verb: str, last: list[int], kinds: Sequence[str] = ()) -> None:
        """The action for every thing that can be reached; only those are counted."""
        counts: Counter[str] = Counter()
        for thing, number in self._view.listed:
            if kinds and thing.kind not in kinds:
                continue
            path = self._paths.find_path_before(self._view.locate(thing))
            if path is None:
                self._refuse(f"{verb} {thing.name} {number}", _NO_PATH)
                continue
            counts[thing.name] += 1
            self.moves[f"{verb} {thing.name} {counts[thing.name]}"] = path + last

    def _add_drop(self) -> None:
        if not self._view.carrying:
            self.messages["drop"] = "You cannot drop the object, as you are not carrying anything."
        elif self._is_cell_ahead_taken():
            self.messages["drop"] = "You cannot drop the object, as there is already an object in front of you."
        else:
            self.moves["drop"] = [DROP]

    def _is_cell_ahead_taken(self) -> bool:
        for thing in self._view.things:
            if thing.right == 0 and thing.ahead == 1:
                return thing.kind in _IN_THE_WAY
        return False

    def _add_doors(self) -> None:
        counts: dict[str, int] = {}
        for thing, number in self._view.listed:
            if thing.kind != "door":
                continue
            counts[thing.name] = number
            if thing.state == "open":
                self._add_open_door(thing, number)
            else:
                self._add_shut_door(thing, number, counts)

    def _add_open_door(self, door: Thing, number: int) -> None:
        through = f"go through {door.name} {number}"
        path = self._paths.find_path_into(self._view.locate(door))
        if path is None:
            self._refuse(through, _NO_PATH)
        else:
            self.moves[through] = path

    def _add_shut_door(self, door: Thing, number: int, counts: dict[str, int]) -> None:
        through = f"go through {door.name} {number}"
        toggle = f"toggle and {through}"
        if door.state == "closed":
            self._refuse(through, "as it is closed. You should toggle it first.")

        carrying = self._view.carrying
        if door.state == "locked" and not carrying.endswith(" key"):
            self._refuse(toggle, "as you are not carrying a key.")
            return
        if door.state == "locked" and carrying != f"{door.color} key":
            self._refuse(toggle, "as the color of the key you are carrying does not match the color of door.")
            return

        path = self._paths.find_path_before(self._view.locate(door))
        if path is None:  # the recorded games print the counts in place of the number
            self.messages[toggle] = f"You cannot toggle and go through {door.name} {counts}, {_NO_PATH}"
            return
        self.moves[toggle] = [*path, TOGGLE, AHEAD]
        if not path:
            self.moves["toggle"] = [TOGGLE]

    def _add_goals(self) -> None:
        for thing, _ in self._view.listed:
            if thing.kind != "goal":
                continue
            path = self._paths.find_path_into(self._view.locate(thing))
            if path is not None:
                self.moves["go to goal"] = path
