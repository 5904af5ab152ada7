"""Ways through what is seen: the moves of an action such as `go to red ball 1`.

The search goes breadth first over cells and directions, as AgentBoard's does: a place counts as seen when it is taken
from the queue, and until then the way to it is the one that came last. That decides between ways of equal length.
"""

from collections import deque

from rsso_dspy.environments.babyai.view import FORWARD, View

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
