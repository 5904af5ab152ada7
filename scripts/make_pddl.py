"""PDDL's problems and plans, made from numbers: the same number makes the same problem.

    python scripts/make_pddl.py            # choose, prove and grade them; writes rsso_dspy/environments/pddl/data
    python scripts/make_pddl.py --check    # make them anew and compare with what is shipped, byte for byte

Each problem is kept only if the search solves it. Names are not those of the problems that AgentBoard plays, so that
none of those can come up in training. The search is best first, led by the length of a plan that forgets what actions
undo; it knows nothing of any domain.
"""

import argparse
import gzip
import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import rsso_dspy.environments.pddl
from rsso_dspy.environments.pddl.environment import Game
from rsso_dspy.environments.pddl.strips import Fact, GroundAction, World, read_setup
from rsso_dspy.environments.pddl.tasks import SIZES, load_domain

SHORTEST, LONGEST = 4, 33
"""Actions of their plans: with half as many again, the longest are in reach of 50 steps."""

FOLDER = Path(rsso_dspy.environments.pddl.__file__).parent / "data"


def make_text(domain: str, seed: int) -> str:
    """A problem file, on few lines."""
    objects, start, goal = _MAKERS[domain](random.Random(f"{domain} {seed}"))
    listed = " ".join(f"{' '.join(names)} - {kind}" if kind else " ".join(names) for kind, names in objects.items())
    begins, wanted = (" ".join(f"({fact})" for fact in facts) for facts in (start, goal))
    name = f"(define (problem {domain}-{seed}) (:domain {domain})"
    return f"{name}\n(:objects {listed})\n(:init {begins})\n(:goal (and {wanted})))"


def find_any_plan(world: World) -> list[GroundAction] | None:
    """The plan whose length is shipped; None when none is found."""
    masks = Masks(world)
    for search, most_states in ((find_plan, 1500), (find_plan_by_parts, 5000)):
        with suppress(SearchLimit):
            plan = search(masks, most_states)
            return None if plan is None else [each.action for each in plan]
    return None


@dataclass(frozen=True, eq=False, slots=True)
class Masked:
    """An action with its facts as bits."""

    action: GroundAction
    needs: int
    adds: int
    removes: int

    def apply(self, state: int) -> int:
        return (state & ~self.removes) | self.adds


class Masks:
    """A world with its facts as bits: a search in it is fast."""

    def __init__(self, world: World):
        self.facts: dict[Fact, int] = {}
        self.start = self._gather(sorted(world.start))
        self.actions = [
            Masked(each, *map(self._gather, (each.needs, each.adds, each.removes))) for each in world.actions
        ]
        self.goal_bits = tuple(0 if fact in world.fixed else self.facts.get(fact, -1) for fact in world.problem.goal)
        """A bit for each fact of the goal, 0 for one that holds for ever, -1 for one that never does."""

    def list_applicable(self, state: int) -> list[Masked]:
        return [each for each in self.actions if state & each.needs == each.needs]

    def _gather(self, facts: Iterable[Fact]) -> int:
        mask = 0
        for fact in facts:
            mask |= self.facts.setdefault(fact, 1 << len(self.facts))
        return mask


_Made = tuple[dict[str, list[str]], list[str], list[str]]
"""Type to objects, start and goal."""


def _number(word: str, count: int) -> list[str]:
    return [f"{word}{n}" for n in range(1, count + 1)]


def _make_gripper(draw: random.Random) -> _Made:
    rooms = [f"room{letter}" for letter in "abcd"[: draw.randint(3, 4)]]
    balls = _number("ball", draw.randint(1, 8))
    start = [f"room {room}" for room in rooms] + [f"ball {ball}" for ball in balls]
    start += [f"{what} {hand}" for hand in ("left", "right") for what in ("gripper", "free")]
    start.append(f"at-robby {draw.choice(rooms)}")
    goal = []
    for ball in balls:
        here = draw.choice(rooms)
        start.append(f"at {ball} {here}")
        goal.append(f"at {ball} {draw.choice([room for room in rooms if room != here])}")
    return {"": [*rooms, *balls, "left", "right"]}, start, goal


def _make_blockworld(draw: random.Random) -> _Made:
    blocks = _number("c", draw.randint(3, 8))
    start, goal = ["arm-empty"], []
    for tower in _build_towers(draw, blocks):
        start += [f"on-table {tower[0]}", f"clear {tower[-1]}"]
        start += [f"on {above} {below}" for below, above in pairwise(tower)]
    for tower in _build_towers(draw, blocks):
        goal += [f"on {above} {below}" for below, above in pairwise(tower)]
    if not goal:
        goal = [f"on {blocks[0]} {blocks[1]}"]
    return {"": blocks}, start, goal


def _build_towers(draw: random.Random, blocks: list[str]) -> list[list[str]]:
    left = draw.sample(blocks, len(blocks))
    towers = []
    while left:
        height = draw.randint(1, len(left))
        towers.append(left[:height])
        left = left[height:]
    return towers


def _make_barman(draw: random.Random) -> _Made:
    parts = draw.sample(["gin", "lime", "mint", "rum", "soda", "syrup"], draw.randint(2, 4))
    cocktails = _number("cocktail", draw.randint(1, 4))
    served = draw.randint(1, 3)
    shots = _number("shot", served + draw.randint(1, 2))
    taps, levels = _number("dispenser", len(parts)), ["l0", "l1", "l2"]
    start = [f"{what} {each}" for each in ("shaker1", *shots) for what in ("ontable", "clean", "empty")]
    start += [f"dispenses {tap} {part}" for tap, part in zip(taps, parts, strict=True)]
    start += ["handempty left", "handempty right", "shaker-level shaker1 l0", "shaker-empty-level shaker1 l0"]
    start += ["next l0 l1", "next l1 l2"]
    for cocktail in cocktails:
        first, second = draw.sample(parts, 2)
        start += [f"cocktail-part1 {cocktail} {first}", f"cocktail-part2 {cocktail} {second}"]
    drinks = [draw.choice(cocktails if draw.random() < 0.6 else parts) for _ in range(served)]
    goal = [f"contains {shot} {drink}" for shot, drink in zip(shots, drinks, strict=False)]
    objects = {
        "shaker": ["shaker1"],
        "hand": ["left", "right"],
        "shot": shots,
        "ingredient": parts,
        "cocktail": cocktails,
        "dispenser": taps,
        "level": levels,
    }
    return objects, start, goal


_TYRE_STAGES = ("tight", "loose", "raised", "bare")
"""How far the change of a wheel has come when the game begins."""


def _make_tyreworld(draw: random.Random) -> _Made:
    count = draw.randint(1, 3)
    open_boot = draw.random() < 0.3
    start = ["unlocked trunk", "isopen trunk" if open_boot else "closed trunk"]
    goal = []
    raised = draw.randint(1, count) if draw.random() < 0.4 else 0
    tools = {"wrench": draw.random() < 0.2, "pump": draw.random() < 0.2, "jack": False}
    for number in range(1, count + 1):
        hub, nut, flat, spare = f"hub{number}", f"bolt{number}", f"flat{number}", f"spare{number}"
        stage = draw.choice(_TYRE_STAGES[2:] if number == raised else _TYRE_STAGES[:2])
        start += [f"in {spare} trunk", f"intact {spare}"]
        pumped = draw.random() < 0.3
        start.append(f"{'inflated' if pumped else 'not-inflated'} {spare}")
        if stage == "bare":
            start += [f"not-on-ground {hub}", f"unfastened {hub}", f"free {hub}", f"have {flat}", f"have {nut}"]
        else:
            start += [f"on {flat} {hub}", f"fastened {hub}"]
            start.append(f"{'not-on-ground' if stage == 'raised' else 'on-ground'} {hub}")
            start.append(f"{'tight' if stage == 'tight' else 'loose'} {nut} {hub}")
        goal += [f"on {spare} {hub}"]
        goal += [f"inflated {spare}"] if not pumped or draw.random() < 0.5 else []
        goal += [f"tight {nut} {hub}"] if draw.random() < 0.5 else []
        goal += [f"in {flat} trunk"] if draw.random() < 0.4 else []
    for tool, at_hand in tools.items():
        if tool != "jack" or not raised:
            start.append(f"have {tool}" if at_hand else f"in {tool} trunk")
    if draw.random() < 0.3:
        goal.append("in wrench trunk")
    numbers = range(1, count + 1)
    objects = {
        "container": ["trunk"],
        "hub": [f"hub{n}" for n in numbers],
        "nut": [f"bolt{n}" for n in numbers],
        "wheel": [f"{what}{n}" for n in numbers for what in ("flat", "spare")],
    }
    return objects, start, goal


_MAKERS: dict[str, Callable[[random.Random], _Made]] = {
    "gripper": _make_gripper,
    "blockworld": _make_blockworld,
    "barman": _make_barman,
    "tyreworld": _make_tyreworld,
}


def _choose(name: str) -> Iterator[tuple[int, int, str]]:
    """Length, number and text of problems that can be solved, no two the same, their lengths spread as evenly as the
    domain has them."""
    domain, known, counts = load_domain(name), set(), dict[int, int]()
    seed = 0
    while True:
        seed += 1
        text = make_text(name, seed)
        problem = read_setup(text, domain, f"{name} {seed}")
        world = World(domain, problem)
        key = problem.start, frozenset(problem.goal)
        if key in known or all(world.list_reached(world.start)):
            continue
        length = len(find_any_plan(world) or ())
        if not SHORTEST <= length <= LONGEST:
            continue
        band = length // 3
        if counts.get(band, 0) > min(counts.values(), default=0) + 6 and seed % 5:
            continue  # enough of this length for now
        known.add(key)
        counts[band] = counts.get(band, 0) + 1
        yield length, seed, text


MOST_STATES = 60_000
"""States that are looked at, at most."""
_WEIGHT = 2
"""How much more the estimate counts than the actions so far."""


class SearchLimit(Exception):
    """The search was given up."""


def find_plan(world: Masks, most_states: int = MOST_STATES) -> list[Masked] | None:
    """A plan, short but not always the shortest; None when there is none. Raises ``SearchLimit`` after `most_states`
    states."""
    if any(bit < 0 for bit in world.goal_bits):
        return None
    return _search(world, world.start, sum(set(world.goal_bits)), most_states)


def find_plan_by_parts(world: Masks, most_states: int = MOST_STATES) -> list[Masked] | None:
    """A plan that reaches the literals of the goal in their order, each without giving up those before it in the end.
    None where it finds none that way, which proves nothing. Raises ``SearchLimit`` as `find_plan`."""
    plan: list[Masked] = []
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


def _search(world: Masks, start: int, goal: int, most_states: int) -> list[Masked] | None:
    relaxed = _RelaxedPlans(world, goal)
    ways: dict[int, tuple[int, Masked | None]] = {start: (0, None)}
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


def _trace_plan(ways: dict[int, tuple[int, Masked | None]], state: int) -> list[Masked]:
    plan = []
    while (way := ways[state])[1] is not None:
        state, action = way
        assert action is not None
        plan.append(action)
    return plan[::-1]


class _RelaxedPlans:
    """Plans that forget what actions undo."""

    def __init__(self, world: Masks, goal: int):
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


def _make_rows(name: str) -> list[tuple[str, list[str]]]:
    """Text and plan of each problem of a domain: train, dev and test, short plans first in each."""
    chosen = _choose(name)
    rows = {split: sorted(next(chosen) for _ in range(SIZES[split])) for split in ("test", "train", "dev")}
    return [(text, find_worded_plan(name, text)) for split in SIZES for _, _, text in rows[split]]


def find_worded_plan(domain: str, text: str) -> list[str]:
    """The plan that is shipped with a problem that was chosen, as the game offers its actions."""
    rules = load_domain(domain)
    game = Game(rules, read_setup(text, rules, domain))
    plan = find_any_plan(game.world) or []
    return [game.phrases.say_action(each.name, each.arguments).rstrip(". ") for each in plan]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the files differ")
    check, different = parser.parse_args().check, []
    for name in _MAKERS:
        text, file = json.dumps(_make_rows(name)).encode(), FOLDER / f"{name}.json.gz"
        if not check:
            file.write_bytes(gzip.compress(text, mtime=0))
        elif gzip.decompress(file.read_bytes()) != text:
            different.append(name)
    if different:
        raise SystemExit(f"other problems or plans than are shipped: {', '.join(different)}")


if __name__ == "__main__":
    main()
