"""The actor: scores what a sane player of text games would do next and what the prompt advises, and does the best. All
weights are on one scale: 1 passes the time, 3 explores, 6 does what the task says, 20 follows a plan, 90 answers the
world's question."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from rsso_dspy.offline.advice import (
    LIKED,
    TRAVEL,
    Advice,
    Command,
    Skill,
    find_words,
    is_advice_for,
    is_concrete,
    normalize_words,
    parse_command,
    parse_skills,
    read_advice,
    score_by_advice,
    select_plan_steps,
)
from rsso_dspy.offline.offered import answer_offered
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.scene import STAGES, Goals, Scene, Target, build_scene, find_rooms, parse_goals, write_notes
from rsso_dspy.offline.writers import draw_lessons

# Curiosity is high, so that much of a first attempt goes into looking around. A skill goes before looking around, but
# not before what the task says outright.
_PLAN = 20.0
_DELIVER = 7.0
_SKILL = 5.8
_NAMED = 5.6
_UNSEEN = 5.2
_OPEN = 4.6
_SEEN = 4.0
_ADVISED = 1.0
_NOISE = 1.2  # spread of the seeded noise at temperature 1
_NOTED = ("move", "pour", "mix", "read", "open", "use")  # actions that should not be repeated once they had an effect
_FOCUSED = re.compile(r"you focus on the (.+?)\.", re.I)


class Proposal(NamedTuple):
    action: str
    weight: float
    why: str
    subgoal: str = ""
    plan: int = 0  # steps of the plan that are taken with this one


def answer_actor(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """The fields of either actor: thought, subgoal (word for word, or none) and action."""
    offered = answer_offered(prompt, dice)
    if offered is not None:
        return offered

    goals = parse_goals(prompt.get_region("task"))
    scene = build_scene(prompt.turns)
    _update_notes(scene, goals)
    advice = list(_read_told(prompt))
    proposals = _collect_proposals(prompt, scene, goals, advice)
    context = blake2b(repr(prompt.turns).encode(), digest_size=8).hexdigest()

    def score_proposal(proposal: Proposal) -> float:
        action = normalize_words(proposal.action)
        noise = _NOISE * dice.temperature * dice.draw_noise(action, context)
        advised = score_by_advice(scene.options.get(action, action), advice)
        return proposal.weight + advised + noise - _rate_repetition(proposal, action, scene)

    best = max(proposals, key=score_proposal)  # of equals the first
    if best.plan:
        scene.notes["plan step"] = [str(best.plan)]
    return {
        "thought": _write_thought(best, scene),
        "subgoal": _find_subgoal(best.action, proposals),
        "action": best.action,
    }


def _collect_proposals(
    prompt: ParsedPrompt, scene: Scene, goals: Goals, advice: Sequence[Advice]
) -> Sequence[Proposal]:
    """What the player would do by itself, and then what plans, skills and advice propose."""
    unadvised = [
        *_answer_question(scene, goals),
        *_do_task(scene, goals),
        *_look_around(scene, goals),
    ]
    name_step = partial(_name_things, scene=scene, own=unadvised, advice=advice)
    plan = select_plan_steps(prompt.get_region("plans_from_past_attempts"))
    skills = parse_skills(prompt.get_region("skills"))
    return [
        *unadvised,
        *_follow_plan(plan, scene, name_step),
        *_follow_skills(skills, scene, name_step),
        *_follow_advice(advice, scene),
    ]


def _write_thought(best: Proposal, scene: Scene) -> str:
    """What the last action did, what is done next and why, and the notes."""
    effect = ""
    if scene.done:
        outcome = "did nothing" if scene.last_action in scene.failed else "worked"
        effect = f"'{scene.last_action}' {outcome}. "
    return f"{effect}I will {best.action}: {best.why}. {write_notes(scene.notes)}".strip()


def _find_subgoal(action: str, proposals: Sequence[Proposal]) -> str:
    for proposal in proposals:
        if proposal.subgoal and proposal.action == action:
            return proposal.subgoal
    return "none"


def _rate_repetition(proposal: Proposal, action: str, scene: Scene) -> float:
    """What is taken from the score of an action that was taken already: an action that failed or is in vain gets almost
    no chance. A plan's steps may be repeated."""
    if scene.options:
        return 0.0
    malus = 0.0
    if action in scene.failed or action in scene.notes["failed"]:
        malus += 50.0
    if action == scene.last_action and action != "wait":
        malus += 40.0
    if proposal.weight < _PLAN:
        per_time = 0.2 if action == "wait" else 3.0
        noted = 6.0 if action in scene.notes["did"] else 0.0
        malus += per_time * scene.done.count(action) + noted
    return malus


def _update_notes(scene: Scene, goals: Goals) -> None:
    """Bring the notes up to date with what the last action did."""
    _note_rooms(scene)
    _note_sights(scene, goals)
    _note_effect(scene)


def _note_rooms(scene: Scene) -> None:
    """Note the room as searched, and the rooms that are left to search."""
    notes = scene.notes
    if scene.room and scene.room not in notes["searched"]:
        notes["searched"].append(scene.room)
    in_sight = find_rooms(scene.turns[-1].seen)
    rooms = dict.fromkeys([*notes["doors"], *in_sight, *scene.doors])
    notes["doors"] = [room for room in rooms if room not in notes["searched"]]


def _note_sights(scene: Scene, goals: Goals) -> None:
    """Note where things are that the task mentions, unless they are held."""
    places = dict(_list_sights(scene))
    for name, thing in scene.things.items():
        if thing.held:
            places.pop(name, None)
        elif scene.room and find_words(name) & goals.words:
            places[name] = scene.room
    scene.notes["seen"] = [f"{name} in {room}" for name, room in places.items()]


def _list_sights(scene: Scene) -> list[list[str]]:
    """Thing and room of each sight in the notes."""
    return [entry.rsplit(" in ", 1) for entry in scene.notes["seen"]]


def _note_effect(scene: Scene) -> None:
    """Note what was focused on, and the last action if it failed or should not be repeated."""
    notes = scene.notes
    action = scene.last_action
    command = parse_command(action)

    focused = _FOCUSED.findall(scene.turns[-1].seen)
    if focused:
        # The world answers "the apple tree" even if the action said which one.
        if command and command.verb == "focus":
            name = command.thing
        else:
            name = normalize_words(focused[-1])
        notes["focused"].append(name)

    if action in scene.failed:
        kind = "failed"
    elif command and command.verb in _NOTED:
        kind = "did"
    else:
        return
    if action not in notes[kind]:
        notes[kind].append(action)


def _read_told(prompt: ParsedPrompt) -> Iterator[Advice]:
    """Yield the advice besides plans and skills, which are followed step by step: constitution, lessons of past
    attempts, strategies, instruction, what plans say to avoid, and what demonstrations of a similar task do."""
    rules = parse_region_list(prompt.get_region("constitution"))
    for region in ("past_attempts", "experience"):
        attempts = prompt.get_region(region)
        if attempts:
            rules += draw_lessons(attempts)
    texts = [*rules, prompt.get_region("past_strategies"), prompt.instruction]
    yield from read_advice("\n".join(texts))

    for advice in read_advice(prompt.get_region("plans_from_past_attempts")):
        if advice.weight < 0:
            yield advice

    task = find_words(prompt.get_region("task"))
    for demo in prompt.demos:
        shared = task & find_words(demo.get("task", ""))
        command = parse_command(demo.get("action", ""))
        if command and len(shared) > len(task) / 2:
            yield Advice(command, LIKED)


def _answer_question(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Answer which of several actions was meant: prefer one that the task mentions, else the first."""
    for index, (number, text) in enumerate(scene.options.items()):
        shared = find_words(text) & goals.words
        weight = 90 + 0.1 * len(shared) - 0.05 * index
        yield Proposal(number, weight, f"the world asks which one is meant, and I mean {text}")


def _do_task(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Focus on what the task names, in its order; then carry it to where it belongs, or choose an ending by chance."""
    focused = scene.notes["focused"]
    subject = focused[-1] if focused else ""
    target = next(iter(_list_open_targets(scene, goals)), None)
    if target:
        yield from _focus_on_target(target, scene, goals)
    yield from _focus_on_stages(scene, goals)
    yield from _pick_up_subject(subject, scene, goals)
    if target is None:
        yield from _reach_ending(subject, scene, goals)


def _list_open_targets(scene: Scene, goals: Goals) -> list[Target]:
    """What is to be focused on and was not yet."""
    focused = scene.notes["focused"]
    return [target for target in goals.targets if not any(map(target.is_matched_by, focused))]


def _focus_on_target(target: Target, scene: Scene, goals: Goals) -> Iterator[Proposal]:
    if target.last:
        weight = 0.3
    elif goals.compares:
        weight = 4.0
    else:
        weight = 6.0
    for name in scene.things:
        if target.is_matched_by(name):
            yield Proposal(f"focus on {name}", weight, f"the task says to focus on {target.name}")


def _focus_on_stages(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Focus on the stages of the living thing that the task asks for, the earliest first, or wait for the next."""
    if not goals.stages_of:
        return
    alive = [name for name in scene.things if goals.stages_of <= find_words(name)]
    ahead = set(alive) - set(scene.notes["focused"])
    in_order = sorted(ahead, key=lambda name: (_find_stage(name), name))
    for rank, name in enumerate(in_order):
        yield Proposal(f"focus on {name}", 6.0 - 2 * rank, "it is the earliest stage of life not focused on yet")
    if alive and not ahead:
        yield Proposal("wait", _OPEN, "the next stage of life has to come yet")


def _find_stage(name: str) -> int:
    """The place among all stages of the one that a name tells; without any the thing is an adult."""
    words = name.split()
    for place, stage in enumerate(STAGES):
        if stage in words:
            return place
    return STAGES.index("adult")


def _pick_up_subject(subject: str, scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Pick up what was focused on, if the task says to move it and it was not moved yet."""
    has_destination = any(verb == "move" for verb, _ in goals.endings)
    if not has_destination or subject not in scene.things:
        return
    moved = any(action.startswith(f"move {subject} to ") for action in scene.notes["did"])
    if moved or scene.things[subject].held:
        return
    weight = _PLAN + 1 if scene.notes["plan step"] else 6.0  # no plan leads away without it
    yield Proposal(f"pick up {subject}", weight, f"the {subject} has to be carried")


def _reach_ending(subject: str, scene: Scene, goals: Goals) -> Iterator[Proposal]:
    for verb, name in goals.endings:
        if name not in scene.things:
            continue
        if verb == "focus":
            yield Proposal(f"focus on {name}", 6.0, "nothing more can be found out, so I guess")
        elif subject in scene.things:
            yield Proposal(f"move {subject} to {name}", 8.0, f"the task says to move it to the {name}")


def _look_around(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Open what is closed; go where the task points, then where nobody has looked yet; at last wait."""
    for thing in scene.things.values():
        if thing.closed and not thing.held:
            yield Proposal(f"open {thing.name}", _OPEN, f"the {thing.name} is closed")
    yield from _visit_rooms(scene, goals)
    yield Proposal("wait", 0.5, "nothing else offers itself")
    for name in scene.things:
        if find_words(name) & goals.words:
            yield Proposal(f"pick up {name}", 0.9, f"the task mentions {name}")


def _visit_rooms(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Go where something was seen, where the task points, and where nobody has looked yet."""
    notes = scene.notes
    pending = [target for target in _list_open_targets(scene, goals) if not target.last]
    held = [name for name, thing in scene.things.items() if thing.held]
    carried = not pending and any(name in notes["focused"] for name in held)
    sightings = _find_sightings(scene, goals, pending, _DELIVER if carried else _SEEN)

    rooms = dict.fromkeys([*goals.places, *scene.doors, *notes["doors"], *notes["searched"]])
    rooms.pop(scene.room, None)
    for room in rooms:
        if room in sightings:
            sighting = sightings[room]
            yield Proposal(f"teleport to {room}", sighting.weight, f"I saw {sighting.name} in the {room}")
        elif room not in notes["searched"]:
            if room not in goals.places:
                weight = _UNSEEN
            else:
                weight = _DELIVER if carried else _NAMED
            yield Proposal(f"teleport to {room}", weight, f"I have not been in the {room} yet")
        elif room in scene.doors:
            yield Proposal(f"teleport to {room}", 0.6, f"something may have been missed in the {room}")


class Sighting(NamedTuple):
    name: str
    weight: float


def _find_sightings(scene: Scene, goals: Goals, pending: Sequence[Target], destination: float) -> dict[str, Sighting]:
    """Room to what was seen there of what is to be focused on, or else of where the task ends, with that weight."""
    destinations = [thing for _, thing in goals.endings]
    sightings = {}
    for name, room in _list_sights(scene):
        if any(target.is_matched_by(name) for target in pending):
            sightings[room] = Sighting(name, _SEEN)
        elif not pending and name in destinations:
            sightings[room] = Sighting(name, destination)
    return sightings


def _follow_plan(plan: Sequence[Command], scene: Scene, name_step: Callable[[Command], str]) -> Iterator[Proposal]:
    """Yield the next step of the plan that can be taken here, if one is left."""
    noted = scene.notes["plan step"]
    position = int(noted[0]) if noted else 0
    for number, step in enumerate(plan[position:], start=position + 1):
        if scene.options and step.verb != "choose":
            return
        action = name_step(step)
        if _is_done(step, action, scene) or _is_idle(step, scene):
            continue
        weight = 99.0 if scene.options else _PLAN
        yield Proposal(action, weight, "it is the next step of my plan from an earlier attempt", plan=number)
        return


def _is_done(step: Command, action: str, scene: Scene) -> bool:
    """Whether a step was just taken or cannot be taken."""
    normalized = normalize_words(action)
    if not normalized or normalized in scene.failed:
        return True
    return normalized == scene.last_action and step.verb != "wait"


def _is_idle(step: Command, scene: Scene) -> bool:
    """Whether a step leads to where the player is, or answers a question that was not asked."""
    if step.verb in TRAVEL:
        return step.thing == scene.room
    return step.verb == "choose" and not scene.options


def _follow_skills(skills: Sequence[Skill], scene: Scene, name_step: Callable[[Command], str]) -> Iterator[Proposal]:
    """Yield the next step of every offered skill."""
    for rank, skill in enumerate(skills):
        step = _find_next_step(skill, scene)
        if step is None or step.verb == "choose":
            continue
        action = name_step(step)
        command = parse_command(action)
        if command and is_concrete(command):
            target = skill.target.rstrip(".")
            why = f"it leads to a subgoal that was reached before ({target})"
            yield Proposal(action, _SKILL - 0.3 * rank, why, skill.target)


def _find_next_step(skill: Skill, scene: Scene) -> Command | None:
    """The step that comes next when the last actions were the first steps of the skill; None when it is finished."""
    commands = [parse_command(action) for action in scene.done]
    acted = [command for command in commands if command]
    for length in range(min(len(skill.steps), len(acted)), 0, -1):
        pairs = zip(skill.steps, acted[-length:], strict=False)
        if all(is_advice_for(step, command) for step, command in pairs):
            return skill.steps[length] if length < len(skill.steps) else None

    if not skill.steps or any(is_advice_for(skill.steps[-1], command) for command in acted):
        return None
    for step in skill.steps:
        if step.verb not in TRAVEL or step.thing != scene.room:
            return step
    return None


def _name_things(step: Command, scene: Scene, own: Sequence[Proposal], advice: Sequence[Advice]) -> str:
    """The step itself if its thing is here; else with a thing whose name holds all its words ("inclined plane b" for
    "plane b"), or what the player would do with that verb by itself; empty where nothing fits yet."""
    if step.verb in (*TRAVEL, "wait", "choose") or step.thing in scene.things:
        return step.text

    words = find_words(step.thing)
    alike = []
    for proposal in sorted(own, key=lambda proposal: -proposal.weight):
        command = parse_command(proposal.action)
        if command and command.verb == step.verb:
            alike.append(proposal.action)
    if words:
        names = [name for name in scene.things if words <= find_words(name)]
        alike += [replace(step, thing=name).text for name in names]

    def rate_action(action: str) -> tuple[float, bool]:
        return min(0.0, score_by_advice(action, advice)), words <= find_words(action)

    return max(alike, key=rate_action, default="")


def _follow_advice(advice: Sequence[Advice], scene: Scene) -> Iterator[Proposal]:
    """Yield actions that single pieces of advice call for and that are worth trying now: their things are here, or they
    lead to a room not searched yet."""
    for command, weight in advice:
        if weight > 0 and _is_possible(command, scene) and is_concrete(command):
            yield Proposal(command.text, _ADVISED, "I was advised to")


def _is_possible(command: Command, scene: Scene) -> bool:
    """Whether the things of a command are here, or it leads to a room that was not searched yet."""
    if command.verb in TRAVEL:
        words = find_words(command.thing)  # "a room not seen yet" names none
        return len(words) in (1, 2) and command.thing not in scene.notes["searched"]
    if command.place and command.place not in scene.things:
        return False
    return command.thing in scene.things
