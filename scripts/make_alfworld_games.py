"""ALFWorld's tiny games of all six types, made from numbers: a few places, a few things, one goal.

    python scripts/make_alfworld_games.py            # writes rsso_dspy/environments/alfworld/data/games
    python scripts/make_alfworld_games.py --check    # make them anew and compare with what is shipped

Rooms, things and goals are this project's own. What a game file also holds, domain and grammar, is the installed
package's and is added when a game is played (`load_made_game`), and so are the facts that say which place can hold
which thing: every one of them can.
"""

import argparse
import bz2
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rsso_dspy
from rsso_dspy.environments.alfworld.tasks import COUNTS

FOLDER = Path(rsso_dspy.__file__).parent / "environments/alfworld/data/games"

_OPENED = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave"})
"""Places that have to be opened."""

_KITCHEN = ("CounterTop", "Fridge", "Microwave", "Sink", "DiningTable", "Cabinet", "Cabinet", "Drawer", "GarbageCan")
_BEDROOM = ("Bed", "Desk", "Drawer", "Drawer", "SideTable", "Shelf", "Dresser", "GarbageCan")

_FOOD = ("Apple", "Bread", "Egg", "Lettuce", "Potato", "Tomato")
_DISHES = ("Bowl", "Cup", "Mug", "Plate")
_TOOLS = ("Fork", "Ladle", "Spatula", "Spoon")
_PANS = ("Pan", "Pot")
_SMALL = ("AlarmClock", "Book", "CD", "CellPhone", "CreditCard", "KeyChain", "Pen", "Pencil", "RemoteControl", "Watch")

_CLEANED = (*_FOOD, *_DISHES, *_TOOLS, *_PANS)
_HEATED = (*(each for each in _FOOD if each != "Lettuce"), "Cup", "Mug", "Plate")
_COOLED = (*_FOOD, *_DISHES, *_PANS)

_GOALS = {
    "pick_and_place_simple": (("put a {0} in {1}", "put some {0} on {1}"), _SMALL, _BEDROOM),
    "look_at_obj_in_light": (("look at {0} under the desklamp", "examine the {0} with the desklamp"), _SMALL, _BEDROOM),
    "pick_clean_then_place_in_recep": (
        ("put a clean {0} in {1}", "clean some {0} and put it in {1}"), _CLEANED, _KITCHEN,
    ),
    "pick_heat_then_place_in_recep": (("put a hot {0} in {1}", "heat some {0} and put it in {1}"), _HEATED, _KITCHEN),
    "pick_cool_then_place_in_recep": (("put a cool {0} in {1}", "cool some {0} and put it in {1}"), _COOLED, _KITCHEN),
    "pick_two_obj_and_place": (("put two {0} in {1}", "find two {0} and put them in {1}"), _SMALL, _BEDROOM),
}  # fmt: skip
"""Type to the wordings of its goal, the things it is about, and its room."""

_TREATED = {
    "pick_clean_then_place_in_recep": ("clean", "Sink", "(cleanable ?o) (isClean ?o)"),
    "pick_heat_then_place_in_recep": ("heat", "Microwave", "(heatable ?o) (isHot ?o)"),
    "pick_cool_then_place_in_recep": ("cool", "Fridge", "(coolable ?o) (isCool ?o)"),
}
"""Type to what is done with the thing, where, and the goal that says so."""

_LAMP = "DeskLamp_bar_98"

_OTHERS = 6
"""Things that the goal is not about."""


@dataclass(frozen=True, slots=True)
class _Thing:
    kind: str
    number: int
    place: int
    """Number of the place in the list of places."""

    @property
    def name(self) -> str:
        return _write_id(self.kind, self.number)


def make_game(task: str, index: int) -> tuple[str, str, list[str]]:
    """Goal, problem and walkthrough. The same type and index make the same game everywhere."""
    draw = random.Random(f"{task}::{index}")
    wordings, kinds, room = _GOALS[task]
    places = _name_places(room)
    kind = draw.choice(kinds)
    light = task == "look_at_obj_in_light"
    target = _draw_target(draw, task, room)
    things = _scatter_things(draw, task, kind, room, target)
    goal = draw.choice(wordings).format(kind.lower(), _say_kind(target))
    lamp = room.index(draw.choice(("Desk", "SideTable"))) if light else None
    problem = _write_pddl(task, kind, target, room, places, things, lamp)
    return goal, problem, _walk(task, kind, target, room, things, lamp)


def _name_places(room: Sequence[str]) -> list[str]:
    """Ids as ALFRED's: what stands after ``_bar_`` tells those of a kind apart."""
    seen: Counter[str] = Counter()
    names = []
    for kind in room:
        seen[kind] += 1
        names.append(_write_id(kind, seen[kind]) + ("_bar_SinkBasin" if kind == "Sink" else ""))
    return names


def _write_id(kind: str, number: int) -> str:
    """The package numbers those of a kind against the order of their ids."""
    return f"{kind}_bar_{99 - number}"


def _say_kind(kind: str) -> str:
    return "sinkbasin" if kind == "Sink" else kind.lower()


def _draw_target(draw: random.Random, task: str, room: Sequence[str]) -> str:
    treated_at = _TREATED[task][1] if task in _TREATED else ""
    return draw.choice([each for each in dict.fromkeys(room) if each not in (treated_at, "Sink")])


def _scatter_things(draw: random.Random, task: str, kind: str, room: Sequence[str], target: str) -> list[_Thing]:
    light = task == "look_at_obj_in_light"
    free = [i for i, each in enumerate(room) if light or each != target]
    count = {"pick_two_obj_and_place": 2}.get(task, 1)
    wanted = [kind] * (count + draw.choice((0, 1)))
    pool = [each for each in (_SMALL if room is _BEDROOM else _CLEANED) if each != kind]
    seen: Counter[str] = Counter()
    things = []
    for each in [*wanted, *draw.choices(pool, k=_OTHERS)]:
        seen[each] += 1
        things.append(_Thing(each, seen[each], draw.choice(free if each == kind else range(len(room)))))
    return things


def _list_facts(things: Sequence[_Thing], room: Sequence[str], places: Sequence[str], lamp: int | None) -> list[str]:
    facts = ["atLocation agent1 loc_bar_0"]
    for number, (kind, place) in enumerate(zip(room, places, strict=True), 1):
        facts += [f"receptacleType {place} {_name_type(kind)}", f"receptacleAtLocation {place} loc_bar_{number}"]
        if kind in _OPENED:
            facts.append(f"openable {place}")
    for each in things:
        facts += [f"objectType {each.name} {each.kind}Type", f"pickupable {each.name}"]
        facts += [f"inReceptacle {each.name} {places[each.place]}"]
        facts += [f"objectAtLocation {each.name} loc_bar_{each.place + 1}"]
        for can, those in (("cleanable", _CLEANED), ("heatable", _HEATED), ("coolable", _COOLED)):
            if each.kind in those:
                facts.append(f"{can} {each.name}")
    if lamp is not None:
        facts += [f"objectType {_LAMP} DeskLampType", f"toggleable {_LAMP}"]
        facts += [f"inReceptacle {_LAMP} {places[lamp]}", f"objectAtLocation {_LAMP} loc_bar_{lamp + 1}"]
    return facts


def _name_type(kind: str) -> str:
    return "SinkBasinType" if kind == "Sink" else f"{kind}Type"


def _write_pddl(
    task: str,
    kind: str,
    target: str,
    room: Sequence[str],
    places: Sequence[str],
    things: Sequence[_Thing],
    lamp: int | None,
) -> str:
    lamps = [] if lamp is None else ["DeskLamp"]
    objects = ["agent1 - agent"]
    objects += [f"{each.name} - object" for each in things] + [f"{_LAMP} - object" for _ in lamps]
    objects += [f"{each}Type - otype" for each in sorted({each.kind for each in things} | set(lamps))]
    objects += [f"{place} - receptacle" for place in places]
    objects += [f"{_name_type(each)} - rtype" for each in sorted(set(room))]
    objects += [f"loc_bar_{number} - location" for number in range(len(room) + 1)]
    facts = "\n".join(f"({each})" for each in _list_facts(things, room, places, lamp))
    return (
        f"(define (problem tiny)\n(:domain alfred)\n(:objects\n{chr(10).join(objects)}\n)\n"
        f"(:init\n(= (total-cost) 0)\n{facts}\n)\n(:goal {_write_goal(task, kind, target)})\n)\n"
    )


def _write_goal(task: str, kind: str, target: str) -> str:
    is_kind, in_target = f"(objectType ?o {kind}Type)", f"(receptacleType ?r {_name_type(target)}) (inReceptacle ?o ?r)"
    if task == "look_at_obj_in_light":
        lit = (
            "(exists (?t - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?t DeskLampType) "
            "(toggleable ?t) (isToggled ?t) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?t ?r)))"
        )
        return f"(and {lit} (exists (?o - object ?a - agent) (and {is_kind} (holds ?a ?o))))"
    more = _TREATED[task][2] if task in _TREATED else ""
    if task == "pick_two_obj_and_place":
        second = f"(and (not (= ?o ?p)) (objectType ?p {kind}Type) (inReceptacle ?p ?r))"
        more = f"(exists (?p - object) {second})"
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {is_kind} {in_target} {more}))))"


def _walk(
    task: str, kind: str, target: str, room: Sequence[str], things: Sequence[_Thing], lamp: int | None
) -> list[str]:
    """Actions that win."""
    numbers = [_say_kind(each) + f" {list(room[: i + 1]).count(each)}" for i, each in enumerate(room)]
    steps: list[str] = []
    for each in [each for each in things if each.kind == kind][: 2 if task == "pick_two_obj_and_place" else 1]:
        name, there = f"{kind.lower()} {each.number}", numbers[each.place]
        steps += [f"go to {there}", *([f"open {there}"] if room[each.place] in _OPENED else [])]
        steps.append(f"take {name} from {there}")
        if lamp is not None:
            return [*steps, f"go to {numbers[lamp]}", "use desklamp 1"]
        if task in _TREATED:
            verb, where, _ = _TREATED[task]
            steps += [f"go to {_say_kind(where)} 1", f"{verb} {name} with {_say_kind(where)} 1"]
        end = f"{_say_kind(target)} 1"
        steps += [f"go to {end}", *([f"open {end}"] if target in _OPENED and f"open {end}" not in steps else [])]
        steps.append(f"move {name} to {end}")
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the files differ")
    check, different = parser.parse_args().check, []
    for task, counts in COUNTS.items():
        file, text = FOLDER / f"{task}.json.bz2", json.dumps([make_game(task, i) for i in range(sum(counts))]).encode()
        if not check:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(bz2.compress(text))
        elif bz2.decompress(file.read_bytes()) != text:
            different.append(task)
    if different:
        raise SystemExit(f"other games than are shipped: {', '.join(different)}")


if __name__ == "__main__":
    main()
