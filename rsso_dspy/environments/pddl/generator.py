"""Problems made from a number: the same number makes the same problem.

    text = make_text("gripper", 7)                     # a problem file
    python -m rsso_dspy.environments.pddl.generator    # choose, prove and grade them anew; writes data/generated.json

Each is kept only if the search solves it. Names are not those of the problems that AgentBoard plays, so that none of
those can come up in training.
"""

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from rsso_dspy.environments.pddl.game import load_domain
from rsso_dspy.environments.pddl.grounding import GroundAction, World
from rsso_dspy.environments.pddl.reader import read_setup
from rsso_dspy.environments.pddl.search import SearchLimit, find_plan, find_plan_by_parts

SIZES = {"train": 40, "dev": 10, "test": 20}
"""Problems of each domain."""

SHORTEST, LONGEST = 4, 33
"""Actions of their plans: with half as many again, the longest are in reach of 50 steps."""

FILE = Path(__file__).parent / "data" / "generated.json"


def make_text(domain: str, seed: int) -> str:
    """A problem file, on few lines."""
    objects, start, goal = _MAKERS[domain](random.Random(f"{domain} {seed}"))
    listed = " ".join(f"{' '.join(names)} - {kind}" if kind else " ".join(names) for kind, names in objects.items())
    begins, wanted = (" ".join(f"({fact})" for fact in facts) for facts in (start, goal))
    name = f"(define (problem {domain}-{seed}) (:domain {domain})"
    return f"{name}\n(:objects {listed})\n(:init {begins})\n(:goal (and {wanted})))"


def find_any_plan(world: World) -> list[GroundAction] | None:
    """The plan whose length is shipped; None when none is found."""
    try:
        return find_plan(world, most_states=1500)
    except SearchLimit:
        try:
            return find_plan_by_parts(world, most_states=5000)
        except SearchLimit:
            return None


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
        if problem.key in known or world.count_reached(world.start) == len(problem.goal):
            continue
        length = len(find_any_plan(world) or ())
        if not SHORTEST <= length <= LONGEST:
            continue
        band = length // 3
        if counts.get(band, 0) > min(counts.values(), default=0) + 6 and seed % 5:
            continue  # enough of this length for now
        known.add(problem.key)
        counts[band] = counts.get(band, 0) + 1
        yield length, seed, text


def _make_split(name: str) -> dict[str, list[Any]]:
    chosen = _choose(name)
    made: dict[str, list[Any]] = {}
    for split in ("test", "train", "dev"):
        rows = sorted(next(chosen) for _ in range(SIZES[split]))
        if split == "test":
            made[split] = [{"length": length, "text": text} for length, _, text in rows]
        else:
            made[split] = [[seed, length] for length, seed, _ in rows]
    return made


def _write() -> None:
    data = {name: _make_split(name) for name in _MAKERS}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(data, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
