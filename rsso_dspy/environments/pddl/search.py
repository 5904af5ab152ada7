"""A small search for plans: best first, led by the length of a plan that forgets what actions undo.

    plan = find_plan(world)           # a list of ground actions; None when nothing solves it
    plan = find_plan_by_parts(world)  # where that takes too long: one literal of the goal after the other
    find_unreachable(world)           # a literal of the goal that nothing can ever make true

It proves that a problem can be solved and how many actions are enough. It knows nothing of any domain.
"""

import heapq
from itertools import count

from rsso_dspy.environments.pddl.grounding import GroundAction, World
from rsso_dspy.environments.pddl.strips import Literal

MOST_STATES = 60_000
"""States that are looked at, at most."""
_WEIGHT = 2
"""How much more the estimate counts than the actions so far."""


class SearchLimit(Exception):
    """The search was given up."""


def find_plan(world: World, most_states: int = MOST_STATES) -> list[GroundAction] | None:
    """A plan, short but not always the shortest; None when there is none. Raises ``SearchLimit`` after `most_states`
    states."""
    if any(bit < 0 for bit in world.goal_bits):
        return None
    return _search(world, world.start, sum(set(world.goal_bits)), most_states)


def find_plan_by_parts(world: World, most_states: int = MOST_STATES) -> list[GroundAction] | None:
    """A plan that reaches the literals of the goal in their order, each without giving up those before it in the end.
    None where it finds none that way, which proves nothing. Raises ``SearchLimit`` as `find_plan`."""
    plan: list[GroundAction] = []
    state, goal = world.start, 0
    for bit in world.goal_bits:
        goal |= max(bit, 0)
        part = _search(world, state, goal, most_states) if bit >= 0 else None
        if part is None:
            return None
        plan += part
        for action in part:
            state = action.apply(state)
    return plan


def _search(world: World, start: int, goal: int, most_states: int) -> list[GroundAction] | None:
    relaxed = _RelaxedPlans(world, goal)
    ways: dict[int, tuple[int, GroundAction | None]] = {start: (0, None)}
    steps = {start: 0}
    order = count()
    estimate = relaxed.estimate(start)
    queue = [] if estimate is None else [(_WEIGHT * estimate, next(order), start)]
    closed: set[int] = set()
    while queue:
        _, _, state = heapq.heappop(queue)
        if state in closed:
            continue
        closed.add(state)
        if state & goal == goal:
            return _trace_plan(ways, state)
        if len(closed) > most_states:
            raise SearchLimit(f"{most_states:,} states were looked at")
        for action in world.list_applicable(state):
            after = action.apply(state)
            taken = steps[state] + 1
            if taken < steps.get(after, taken + 1):
                left = relaxed.estimate(after)
                if left is not None:
                    steps[after], ways[after] = taken, (state, action)
                    closed.discard(after)
                    heapq.heappush(queue, (taken + _WEIGHT * left, next(order), after))
    return None


def is_unsolvable(world: World, most_states: int) -> bool:
    """Whether it is certain that nothing solves it: all states were seen, and there were not too many."""
    try:
        return find_plan(world, most_states=most_states) is None
    except SearchLimit:
        return False


def find_unreachable(world: World) -> Literal | None:
    """A literal of the goal that no actions whatever make true, if there is one."""
    reached, before = world.start, -1
    while reached != before:
        before = reached
        for action in world.actions:
            if reached & action.needs == action.needs:
                reached |= action.adds
    for literal, bit in zip(world.problem.goal, world.goal_bits, strict=True):
        if bit < 0 or (bit and not reached & bit):
            return literal
    return None


def _trace_plan(ways: dict[int, tuple[int, GroundAction | None]], state: int) -> list[GroundAction]:
    plan = []
    while (way := ways[state])[1] is not None:
        state, action = way
        assert action is not None
        plan.append(action)
    return plan[::-1]


class _RelaxedPlans:
    """Plans that forget what actions undo."""

    def __init__(self, world: World, goal: int):
        self._goal = _split_bits(goal)
        self._actions = [(_split_bits(each.needs), each.adds) for each in world.actions]
        self._added = [_split_bits(adds) for _, adds in self._actions]
        size = len(world.facts)
        self._wanted_by: list[list[int]] = [[] for _ in range(size)]
        self._free = []
        for number, (needs, _) in enumerate(self._actions):
            for bit in needs:
                self._wanted_by[bit].append(number)
            if not needs:
                self._free.append(number)
        self._size = size
        self._seen: dict[int, int | None] = {}

    def estimate(self, state: int) -> int | None:
        """Actions of such a plan from a state; None when there is none."""
        if state not in self._seen:
            self._seen[state] = self._find_length(state)
        return self._seen[state]

    def _find_length(self, state: int) -> int | None:
        cost: list[int] = [-1] * self._size
        way = [-1] * self._size
        missing = [len(needs) for needs, _ in self._actions]
        totals = [0] * len(self._actions)
        queue = [(0, bit) for bit in _split_bits(state)]
        for _, bit in queue:
            cost[bit] = 0
        for number in self._free:
            self._reach(number, 1, cost, way, queue)
        heapq.heapify(queue)
        while queue:
            spent, bit = heapq.heappop(queue)
            if spent > cost[bit]:
                continue
            for number in self._wanted_by[bit]:
                missing[number] -= 1
                totals[number] += spent
                if not missing[number]:
                    self._reach(number, totals[number] + 1, cost, way, queue)
        if any(cost[bit] < 0 for bit in self._goal):
            return None
        return self._count_actions(cost, way)

    def _reach(self, number: int, spent: int, cost: list[int], way: list[int], queue: list[tuple[int, int]]) -> None:
        for bit in self._added[number]:
            if cost[bit] < 0 or spent < cost[bit]:
                cost[bit], way[bit] = spent, number
                heapq.heappush(queue, (spent, bit))

    def _count_actions(self, cost: list[int], way: list[int]) -> int:
        chosen: set[int] = set()
        left = [bit for bit in self._goal if cost[bit]]
        done = set(left)
        while left:
            number = way[left.pop()]
            if number in chosen:
                continue
            chosen.add(number)
            for bit in self._actions[number][0]:
                if cost[bit] and bit not in done:
                    done.add(bit)
                    left.append(bit)
        return len(chosen)


def _split_bits(mask: int) -> list[int]:
    """Positions of the bits."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
