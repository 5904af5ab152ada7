"""What is seen of the grid, and its text; ways through it; what can be done, as lists of minigrid's moves.

An image is minigrid's: 7 x 7 cells of (type, colour, state), the agent in the middle of the lowest row and looking up.
A place is given by the cells ahead of the agent and the cells to its right; the left counts below 0.

The search for ways goes breadth first over cells and directions, as AgentBoard's does: a place counts as seen when it
is taken from the queue, and until then the way to it is the one that came last. That decides between ways of equal
length.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

CELLS = 7
_MIDDLE, _LOWEST = CELLS // 2, CELLS - 1
_TYPES = {2: "wall", 4: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava"}
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")
FORWARD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""By direction, the cell ahead."""
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
        return self._locate(thing.ahead, thing.right)

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
                x, y = self._locate(ahead, right)
                if x >= 0 and y >= 0:
                    name = _TYPES[kind]
                    yield Thing(name, _COLORS[color], _DOORS[state] if name == "door" else "", ahead, right)

    def _locate(self, ahead: int, right: int) -> tuple[int, int]:
        forward, sideways = FORWARD[self.facing], FORWARD[(self.facing + 1) % 4]
        return self.x + ahead * forward[0] + right * sideways[0], self.y + ahead * forward[1] + right * sideways[1]


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
    """All ways from where the agent stands."""

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
        """Moves that end in the next cell, facing this one; None when there are none."""
        return self._trace(self._facing.get(cell))

    def find_path_into(self, cell: _Cell) -> list[int] | None:
        """Moves that end in the cell itself."""
        return self._trace(self._at.get(cell))

    def _search(self) -> None:
        low_x, high_x, low_y, high_y = self._limits
        blocked, before, facing, at = self._blocked, self._before, self._facing, self._at
        after_of: dict[_Place, tuple[tuple[_Place, int], ...]] = {}
        queue, seen = deque([self._start]), set[_Place]()
        while queue:
            place = queue.popleft()
            afters = after_of.get(place)
            if afters is None:  # taken for the first time
                x, y, direction = place
                step_x, step_y = FORWARD[direction]
                ahead_x, ahead_y = ahead = x + step_x, y + step_y
                at.setdefault((x, y), place)
                facing.setdefault(ahead, place)
                turned = (((x, y, (direction + 3) % 4), LEFT), ((x, y, (direction + 1) % 4), RIGHT))
                if low_x <= ahead_x <= high_x and low_y <= ahead_y <= high_y and ahead not in blocked:
                    afters = (((ahead_x, ahead_y, direction), AHEAD), *turned)
                else:
                    afters = turned
                after_of[place] = afters
                seen.add(place)
            for after, move in afters:
                if after not in seen:
                    before[after] = place, move
                    queue.append(after)

    def _trace(self, place: _Place | None) -> list[int] | None:
        if place is None:
            return None
        moves = []
        while place != self._start:
            place, move = self._before[place]
            moves.append(move)
        return moves[::-1]


ACTION_TEMPLATES = (
    "Each action is one line in the form of a template. NAME is colour and kind as observed, e.g. red ball; that of a "
    "door has its state, e.g. red closed door. N is a number, 1 for the nearest: of doors that to go through as "
    "observed, of other actions among those of that name that can be reached.\n"
    "go to, pickup: walk up to a thing that is seen, and face it or take it. Only one thing is carried at a time.\n"
    "drop: puts what is carried into the empty cell ahead.\n"
    "toggle: opens or closes the door ahead; toggle and go through: walks up to a door, opens it and steps into the "
    "doorway. A locked door needs the key of its colour in hand.\n"
    "Only what is in sight and not behind a closed door is observed: turn, move on and open doors to see more.\n"
    "Templates:\nturn left\nturn right\nmove forward\npickup NAME N\ndrop\ntoggle\ngo through NAME N\n"
    "toggle and go through NAME N\ngo to NAME N\ncheck available actions"
)
"""What prompts say of actions."""

PICKUP, DROP, TOGGLE = 3, 4, 5
CHECK = "check available actions"
NO_CHANGE = "No change in state."
NOT_KNOWN = "The action is not recognized. Please check valid actions."
COMPLETED = "\n The task is completed."
BARRIER = "There is a barrier in front of you, you can't move forward."
_CANNOT = "You cannot"
_NO_PATH = "as there is no path leading to it."
_IN_THE_WAY = ("wall", "box", "lava", "ball", "key")


@dataclass(frozen=True, eq=False)
class Offer:
    """What can be done now."""

    moves: dict[str, list[int]] = field(default_factory=dict)
    """Action to moves, in the order in which they are listed."""
    messages: dict[str, str] = field(default_factory=dict)
    """Action that cannot be done to what is answered."""


def list_actions(view: View) -> Offer:
    """The actions of a view."""
    offer = Offer({"turn left": [LEFT], "turn right": [RIGHT]})
    paths = Paths(view)
    if view.barrier is not None and view.barrier.ahead <= 1:
        offer.messages["move forward"] = BARRIER
    else:
        offer.moves["move forward"] = [AHEAD]
    if not view.carrying:
        _offer_things(offer, view, paths, "pickup", [PICKUP])
    _offer_drop(offer, view)
    counts: Counter[str] = Counter()
    for thing, number in view.listed:
        if thing.kind == "door":
            counts[thing.name] += 1
            _offer_door(offer, view, paths, thing, number, dict(counts))
    for thing, _ in view.listed:
        if thing.kind == "goal":
            path = paths.find_path_into(view.locate(thing))
            if path is not None:
                offer.moves["go to goal"] = path
    _offer_things(offer, view, paths, "go to", [])
    offer.moves[CHECK] = []
    return offer


def _offer_things(offer: Offer, view: View, paths: Paths, verb: str, last: list[int]) -> None:
    """The action for every thing that can be reached; only those are counted."""
    counts: Counter[str] = Counter()
    for thing, number in view.listed:
        if verb == "pickup" and thing.kind not in ("key", "ball", "box"):
            continue
        path = paths.find_path_before(view.locate(thing))
        if path is None:
            action = f"{verb} {thing.name} {number}"
            offer.messages[action] = f"{_CANNOT} {action}, {_NO_PATH}"
        else:
            counts[thing.name] += 1
            offer.moves[f"{verb} {thing.name} {counts[thing.name]}"] = path + last


def _offer_drop(offer: Offer, view: View) -> None:
    ahead = view.facing_thing
    if not view.carrying:
        offer.messages["drop"] = f"{_CANNOT} drop the object, as you are not carrying anything."
    elif ahead is not None and ahead.kind in _IN_THE_WAY:
        offer.messages["drop"] = f"{_CANNOT} drop the object, as there is already an object in front of you."
    else:
        offer.moves["drop"] = [DROP]


def _offer_door(offer: Offer, view: View, paths: Paths, door: Thing, number: int, counts: dict[str, int]) -> None:
    through, toggle = f"go through {door.name} {number}", f"toggle and go through {door.name} {number}"
    cell = view.locate(door)
    if door.state == "open":
        path = paths.find_path_into(cell)
        if path is None:
            offer.messages[through] = f"{_CANNOT} {through}, {_NO_PATH}"
        else:
            offer.moves[through] = path
        return
    if door.state == "closed":
        offer.messages[through] = f"{_CANNOT} {through}, as it is closed. You should toggle it first."
    elif not view.carrying.endswith(" key"):
        offer.messages[toggle] = f"{_CANNOT} {toggle}, as you are not carrying a key."
        return
    elif view.carrying != f"{door.color} key":
        offer.messages[toggle] = (
            f"{_CANNOT} {toggle}, as the color of the key you are carrying does not match the color of door."
        )
        return
    path = paths.find_path_before(cell)
    if path is None:  # the recorded games print the counts in place of the number
        offer.messages[toggle] = f"{_CANNOT} toggle and go through {door.name} {counts}, {_NO_PATH}"
        return
    offer.moves[toggle] = [*path, TOGGLE, AHEAD]
    if not path:
        offer.moves["toggle"] = [TOGGLE]
