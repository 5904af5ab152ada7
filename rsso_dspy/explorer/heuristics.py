"""What a sane player of text games would do next: one function per drive, each yields proposals with a weight.

All weights are on one scale: 1 passes the time, 3 explores, 6 does what the task says, 9 answers the world's question.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rsso_dspy.explorer.commands import command, extract_content_words
from rsso_dspy.explorer.goals import TaskGoals
from rsso_dspy.explorer.relevance import (
    find_named_things,
    find_target_things,
    is_delivered,
    is_every_target_done,
    is_still_wanted,
    list_ingredients,
    rank_option_stage,
    rank_thing_stage,
)
from rsso_dspy.explorer.scene_parser import Scene
from rsso_dspy.explorer.vocabulary import CRAFTS, SCENERY, VESSELS


@dataclass(frozen=True, slots=True)
class ActionProposal:
    action: str
    weight: float
    why: str


_OPEN, _NAMED, _UNSEEN = 4.6, 5.6, 5.2
"""Weights of curiosity, high so that much of a first attempt goes into looking around."""

Drive = Callable[[Scene, TaskGoals], Iterator[ActionProposal]]


def answer_question(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Answer which of several actions was meant: prefer one that the task mentions, else the first."""
    for index, (number, text) in enumerate(scene.options):
        stage = rank_option_stage(scene, text)
        fitting = len(extract_content_words(text) & goals.vocabulary)
        yield ActionProposal(
            number,
            90 + 0.1 * fitting - 0.05 * index - (5 * stage if goals.stages_of else 0),
            f"the world asks which one is meant, and I mean {text}",
        )


def focus_next_target(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Focus on what the task names, in its order; on an ending only when nothing else is left."""
    pending = [
        target for target in goals.targets if not any(target.is_matched_by(name) for name in scene.notes.focused)
    ]
    if not pending:
        return
    target = pending[0]
    for thing in find_target_things(scene, target):
        weight = 6.0
        if target.last:
            weight = 6.0 if goals.product else 0.8 if goals.growing else 0.3
        elif "with the" in goals.text and target.any_of:
            weight = 4.0
        yield ActionProposal(f"focus on {thing.name}", weight, f"the task says to focus on {target.name}")


def focus_life_stages(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Focus on the stages of one life, earliest first; if the next is not there yet, wait where the last one was."""
    if not goals.stages_of:
        return
    species = extract_content_words(goals.stages_of)
    stages = [
        (rank_thing_stage(thing), thing)
        for thing in scene.things.values()
        if species <= extract_content_words(thing.name)
        and "dead" not in extract_content_words(thing.name)
        and not thing.held
    ]
    ahead = [pair for pair in stages if pair[1].name not in scene.notes.focused]
    for rank, (_, thing) in enumerate(sorted(ahead, key=lambda pair: (pair[0], pair[1].name))[:2]):
        yield ActionProposal(
            f"focus on {thing.name}", 6.0 - 2 * rank, "it is the earliest stage of life not focused on yet"
        )
    if scene.notes.focused and not ahead:
        if stages:
            yield ActionProposal("wait", 4.5, "the next stage of life has to come yet")
        for name, room in scene.notes.seen.items():
            if species <= extract_content_words(name) and room != scene.room:
                yield ActionProposal(f"teleport to {room}", 4.0, f"the {goals.stages_of} is in the {room}")


def pick_up_needed(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Pick up tools and things that must be carried."""
    wanted: list[tuple[frozenset[str], float]] = [(extract_content_words(tool), 6.5) for tool in goals.tools]
    if goals.growing:
        wanted.append((extract_content_words(f"{goals.growing} seed"), 5.0))
    if goals.box and scene.notes.focused:
        wanted += [(extract_content_words(name), 6.0) for name in scene.notes.focused[-1:]]
    for thing in scene.things.values():
        for need, weight in wanted:
            if need <= extract_content_words(thing.name) and not thing.held and not is_delivered(goals, thing):
                yield ActionProposal(f"pick up {thing.name}", weight, f"the {thing.name} will be needed")


def deliver_to_box(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Bring what was focused on to the box."""
    if not goals.box or not scene.notes.focused:
        return
    subject = scene.notes.focused[-1]
    thing = scene.get_thing(subject)
    if thing and is_delivered(goals, thing):
        yield ActionProposal("wait", 1.0, "it lies where it belongs")
    elif scene.get_thing(goals.box) and thing:
        yield ActionProposal(f"move {subject} to {goals.box}", 8.0, f"the task says to move it to the {goals.box}")
    elif thing and thing.held and goals.box_room and scene.room != goals.box_room:
        yield ActionProposal(f"teleport to {goals.box_room}", 7.0, f"the {goals.box} is in the {goals.box_room}")


def measure_temperature(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Use the thermometer on what is to be measured."""
    if not goals.measured or "thermometer" not in scene.held or ("reading" in scene.notes.facts and not goals.crafts):
        return
    for thing in find_named_things(scene, goals.measured):
        yield ActionProposal(f"use thermometer on {thing.name}", 5.5, f"the task says to measure the {thing.name}")


def choose_conditional_ending(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Choose between conditional endings: by the reading if there is one, else late and by chance."""
    if not goals.choices or not is_every_target_done(scene, goals):
        return
    reading = scene.notes.facts.get("reading")
    for choice in goals.choices:
        box = scene.get_thing(choice.container)
        if box is None:
            continue
        verdict = choice.is_met_by(float(reading)) if reading and not goals.crafts else None
        weight = 7.0 if verdict else 0.3 if verdict is None else -9.0
        why = f"the reading of {reading} degrees decides it" if verdict else "nothing more can be found out, so I guess"
        if not choice.deliver:
            yield ActionProposal(f"focus on {box.name}", weight, why)
        else:
            for thing in find_named_things(scene, goals.measured):
                if thing.inside != box.name:
                    yield ActionProposal(f"move {thing.name} to {box.name}", weight, why)


def change_substance_state(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Heat or cool the substance: bring it (or what holds it) to a tool of the craft, switch that on, wait; after a
    while of waiting, try another tool."""
    if not goals.crafts or not is_every_target_done(scene, goals):
        return
    tools = [tool for craft in goals.crafts for tool in CRAFTS[craft]]
    here = [scene.things[tool] for tool in tools if tool in scene.things]
    patience = 4.0 - 0.5 * scene.done.count("wait")
    for thing in find_named_things(scene, goals.substance):
        load = scene.get_thing(thing.inside) if thing.inside in VESSELS else thing
        load = load or thing
        if load.inside in tools:
            tool = scene.things.get(load.inside)
            if tool and tool.off:
                yield ActionProposal(
                    f"activate {tool.name}", 7.0, f"the {load.name} is on the {tool.name}, which is off"
                )
            elif "thermometer" in scene.held and scene.last_action.startswith("wait"):
                yield ActionProposal(f"use thermometer on {thing.name}", 5.0, "to see how far it has got")
            yield ActionProposal("wait", patience, f"the {load.name} needs time in the {load.inside}")
        for rank, tool in enumerate(here):
            eager = (6.2 if load.inside not in tools else 3.0) - 0.3 * rank
            if tool.closed:
                yield ActionProposal(f"open {tool.name}", eager + 0.2, f"the {tool.name} could do it")
            elif tool.name != load.inside:
                yield ActionProposal(f"move {load.name} to {tool.name}", eager, f"the {tool.name} could do it")
        if not here and not load.held:
            yield ActionProposal(f"pick up {load.name}", 5.0, f"the {load.name} has to be brought to a {tools[0]}")


def make_mixture(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Read the recipe, bring the ingredients together in one vessel, mix."""
    if not goals.product:
        return
    if "recipe" in scene.things and "recipe" not in scene.notes.facts:
        yield ActionProposal("read recipe", 6.0, "a recipe names the ingredients")
    parts = list_ingredients(scene, goals)
    found = [(part, things[0]) for part in parts if (things := find_named_things(scene, part, exact=True))]
    if not found:
        return
    empty = [thing.name for thing in scene.things.values() if thing.empty and thing.name in VESSELS]
    begun = [done.place for text in scene.notes.did if (done := command(text)) and done.verb in ("move", "pour")]
    holders = [thing.inside for _, thing in found if thing.inside in VESSELS and not goals.product.endswith("paint")]
    vessel = next((name for name in (*begun, *holders, *empty) if name in scene.things), "")
    if not vessel:
        return
    together = [part for part in parts if part in scene.things[vessel].line]
    if len(together) > 1:
        yield ActionProposal(f"mix {vessel}", 7.0 if together == parts else 5.2, "the ingredients are together")
    for part, thing in found:
        if part not in together:
            yield ActionProposal(f"move {thing.name} to {vessel}", 5.0, f"the {thing.name} is an ingredient")
            yield ActionProposal(f"pour {thing.name} in {vessel}", 4.6, f"the {thing.name} is an ingredient")


def grow_plant(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Bring seed, soil and water into a pot, then wait."""
    if not goals.growing:
        return
    seeds = [thing for thing in scene.things.values() if thing.held and "seed" in extract_content_words(thing.name)]
    pots = [thing for thing in scene.things.values() if "flower pot" in thing.name and not thing.inside]
    for rank, pot in enumerate(pots):
        planted = " seed" in pot.line or "tree" in pot.line or "plant" in pot.line
        for seed in seeds[:1]:
            if not planted:
                yield ActionProposal(f"move {seed.name} to {pot.name}", 6.0 - 0.1 * rank, "a seed wants a pot")
        if "soil" in scene.things and "soil" not in pot.line and planted:
            yield ActionProposal(f"move soil to {pot.name}", 6.2 - 0.1 * rank, "a seed wants soil")
        if planted and "soil" in pot.line:
            yield ActionProposal("wait", 3.4, "plants need time")
    if "soil" not in scene.things and pots and "shovel" in scene.things and not any("soil" in pot.line for pot in pots):
        yield ActionProposal("pick up shovel", 3.0, "soil can be dug")
    if seeds and not pots:
        for name, room in scene.notes.seen.items():
            if "flower pot" in name and room != scene.room:
                yield ActionProposal(f"teleport to {room}", 5.5, f"I saw a {name} in the {room}")


def compare_rivals(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Compare rivals by letting the same thing happen to each; then choose."""
    if not goals.rivals:
        return
    kind = next((target for target in goals.targets if target.last), None)
    rivals = [thing for thing in scene.things.values() if kind and kind.is_matched_by(thing.name) and not thing.held]
    block = next((thing for thing in scene.things.values() if "block" in extract_content_words(thing.name)), None)
    for thing in rivals:
        move = f"move {block.name} to {thing.name}" if block else ""
        if block and block.inside != thing.name and move not in scene.notes.did:
            yield ActionProposal(move, 5.0, f"to see what the {thing.name} does to it")
    if "stopwatch" in scene.things and scene.things["stopwatch"].off and rivals:
        yield ActionProposal("activate stopwatch", 5.5, "to time the experiment")
    if rivals and scene.last_action.startswith("move"):
        yield ActionProposal("wait", 2.0, "to see how far it gets")


def fetch_water(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Fetch water from a tap."""
    if "water" not in extract_content_words(goals.substance) and "water" not in scene.notes.facts.get("recipe", ""):
        return
    sink = scene.get_thing("sink")
    if sink and sink.off:
        yield ActionProposal("activate sink", 4.0, "a sink gives water")


def search_rooms(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Open what is closed; go where the task points, then where nobody has looked yet."""
    for thing in scene.things.values():
        if thing.closed and not thing.held:
            yield ActionProposal(f"open {thing.name}", _OPEN, f"the {thing.name} is closed")
    for room in dict.fromkeys([*goals.places, *scene.doors, *scene.notes.doors, *scene.notes.searched]):
        wanted = [
            name for name, where in scene.notes.seen.items() if where == room and is_still_wanted(name, scene, goals)
        ]
        if room == scene.room:
            continue
        if wanted:
            yield ActionProposal(f"teleport to {room}", 4.0, f"I saw {wanted[0]} in the {room}")
        elif room not in scene.notes.searched:
            weight = _NAMED if room in goals.places else _UNSEEN
            yield ActionProposal(f"teleport to {room}", weight, f"I have not been in the {room} yet")
        elif room in scene.doors:
            yield ActionProposal(f"teleport to {room}", 0.6, f"something may have been missed in the {room}")


def pass_time(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Wait, for when nothing else is proposed."""
    yield ActionProposal("wait", 0.5, "nothing else offers itself")
    for name in list(scene.things)[:12]:
        if not extract_content_words(name) & SCENERY and extract_content_words(name) & goals.vocabulary:
            yield ActionProposal(f"look in {name}", 0.7, f"the {name} may hold something")
            yield ActionProposal(f"pick up {name}", 0.9, f"the task mentions {name}")


DRIVES: tuple[Drive, ...] = (
    answer_question,
    focus_next_target,
    focus_life_stages,
    pick_up_needed,
    deliver_to_box,
    measure_temperature,
    choose_conditional_ending,
    change_substance_state,
    make_mixture,
    grow_plant,
    compare_rivals,
    fetch_water,
    search_rooms,
    pass_time,
)
