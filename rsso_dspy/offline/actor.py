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
from rsso_dspy.offline.scene import STAGES, Goals, Scene, build_scene, find_rooms, parse_goals, write_notes
from rsso_dspy.offline.writers import draw_lessons

# Curiosity is high, so that much of a first attempt goes into looking around. A skill goes before looking around, but
# not before what the task says outright.
_PLAN, _DELIVER, _SKILL, _NAMED, _UNSEEN, _OPEN, _SEEN, _ADVISED = 20.0, 7.0, 5.8, 5.6, 5.2, 4.6, 4.0, 1.0
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
    if (offered := answer_offered(prompt, dice)) is not None:
        return offered
    goals = parse_goals(prompt.get_region("task"))
    scene = build_scene(prompt.turns)
    _update_notes(scene, goals)
    advice = list(_read_told(prompt))
    unadvised = [*_answer_question(scene, goals), *_do_task(scene, goals), *_look_around(scene, goals)]
    name = partial(_name_things, scene=scene, own=unadvised, advice=advice)
    proposals = [
        *unadvised,
        *_follow_plan(select_plan_steps(prompt.get_region("plans_from_past_attempts")), scene, name),
        *_follow_skills(parse_skills(prompt.get_region("skills")), scene, name),
        *_follow_advice(advice, scene),
    ]
    context = blake2b(repr(prompt.turns).encode(), digest_size=8).hexdigest()

    def score_proposal(proposal: Proposal) -> float:
        action = normalize_words(proposal.action)
        noise = _NOISE * dice.temperature * dice.draw_noise(action, context)
        advised = score_by_advice(scene.options.get(action, action), advice)
        return proposal.weight + advised + noise - _rate_repetition(proposal, action, scene)

    best = max(proposals, key=score_proposal)  # of equals the first
    if best.plan:
        scene.notes["plan step"] = [str(best.plan)]
    effect = f"'{scene.last_action}' {'did nothing' if scene.last_action in scene.failed else 'worked'}. "
    thought = f"{effect if scene.done else ''}I will {best.action}: {best.why}. {write_notes(scene.notes)}".strip()
    subgoal = next(
        (proposal.subgoal for proposal in proposals if proposal.subgoal and proposal.action == best.action), "none"
    )
    return {"thought": thought, "subgoal": subgoal, "action": best.action}


def _rate_repetition(proposal: Proposal, action: str, scene: Scene) -> float:
    """What is taken from the score of an action that was taken already: an action that failed or is in vain gets almost
    no chance. A plan's steps may be repeated."""
    if scene.options:
        return 0.0
    malus = 50.0 * (action in scene.failed or action in scene.notes["failed"])
    malus += 40.0 * (action == scene.last_action and action != "wait")
    if proposal.weight < _PLAN:
        malus += (0.2 if action == "wait" else 3.0) * scene.done.count(action) + 6.0 * (action in scene.notes["did"])
    return malus


def _update_notes(scene: Scene, goals: Goals) -> None:
    """Bring the notes up to date with what the last action did."""
    notes = scene.notes
    action = scene.last_action
    last = parse_command(action)
    observation = scene.turns[-1].seen
    if scene.room and scene.room not in notes["searched"]:
        notes["searched"].append(scene.room)
    rooms = dict.fromkeys([*notes["doors"], *find_rooms(observation), *scene.doors])
    notes["doors"] = [room for room in rooms if room not in notes["searched"]]
    where = dict(entry.rsplit(" in ", 1) for entry in notes["seen"])
    for name, thing in scene.things.items():
        if thing.held:
            where.pop(name, None)
        elif scene.room and find_words(name) & goals.words:
            where[name] = scene.room
    notes["seen"] = [f"{name} in {room}" for name, room in where.items()]
    if focused := _FOCUSED.findall(observation):
        # The world answers "the apple tree" even if the action said which one.
        notes["focused"].append(last.thing if last and last.verb == "focus" else normalize_words(focused[-1]))
    kind = "failed" if action in scene.failed else "did" if last and last.verb in _NOTED else ""
    if kind and action not in notes[kind]:
        notes[kind].append(action)


def _read_told(prompt: ParsedPrompt) -> Iterator[Advice]:
    """Yield the advice besides plans and skills, which are followed step by step: constitution, lessons of past
    attempts, strategies, instruction, what plans say to avoid, and what demonstrations of a similar task do."""
    rules = parse_region_list(prompt.get_region("constitution"))
    for attempts in filter(None, map(prompt.get_region, ("past_attempts", "experience"))):
        rules += draw_lessons(attempts)
    yield from read_advice("\n".join([*rules, prompt.get_region("past_strategies"), prompt.instruction]))
    yield from (advice for advice in read_advice(prompt.get_region("plans_from_past_attempts")) if advice.weight < 0)
    task = find_words(prompt.get_region("task"))
    for demo in prompt.demos:
        shared = task & find_words(demo.get("task", ""))
        if (command := parse_command(demo.get("action", ""))) and len(shared) > len(task) / 2:
            yield Advice(command, LIKED)


def _answer_question(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Answer which of several actions was meant: prefer one that the task mentions, else the first."""
    for index, (number, text) in enumerate(scene.options.items()):
        weight = 90 + 0.1 * len(find_words(text) & goals.words) - 0.05 * index
        yield Proposal(number, weight, f"the world asks which one is meant, and I mean {text}")


def _do_task(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Focus on what the task names, in its order; then carry it to where it belongs, or choose an ending by chance."""
    focused = scene.notes["focused"]
    target = next((candidate for candidate in goals.targets if not any(map(candidate.is_matched_by, focused))), None)
    for name in scene.things:
        if target and target.is_matched_by(name):
            weight = 0.3 if target.last else 4.0 if goals.compares else 6.0
            yield Proposal(f"focus on {name}", weight, f"the task says to focus on {target.name}")
    alive = [name for name in scene.things if goals.stages_of and goals.stages_of <= find_words(name)]
    ages = {name: next((stage for stage in STAGES if stage in name.split()), "adult") for name in alive}
    ahead = sorted(set(alive) - set(focused), key=lambda name: (STAGES.index(ages[name]), name))
    for rank, name in enumerate(ahead):
        yield Proposal(f"focus on {name}", 6.0 - 2 * rank, "it is the earliest stage of life not focused on yet")
    if alive and not ahead:
        yield Proposal("wait", _OPEN, "the next stage of life has to come yet")
    subject = focused[-1] if focused else ""
    if any(verb == "move" for verb, _ in goals.endings) and subject in scene.things:
        moved = any(action.startswith(f"move {subject} to ") for action in scene.notes["did"])
        if not moved and not scene.things[subject].held:
            weight = _PLAN + 1 if scene.notes["plan step"] else 6.0  # no plan leads away without it
            yield Proposal(f"pick up {subject}", weight, f"the {subject} has to be carried")
    if target is None:
        for verb, name in goals.endings:
            if name in scene.things and verb == "focus":
                yield Proposal(f"focus on {name}", 6.0, "nothing more can be found out, so I guess")
            elif name in scene.things and subject in scene.things:
                yield Proposal(f"move {subject} to {name}", 8.0, f"the task says to move it to the {name}")


def _look_around(scene: Scene, goals: Goals) -> Iterator[Proposal]:
    """Open what is closed; go where the task points, then where nobody has looked yet; at last wait."""
    for thing in scene.things.values():
        if thing.closed and not thing.held:
            yield Proposal(f"open {thing.name}", _OPEN, f"the {thing.name} is closed")
    focused = scene.notes["focused"]
    pending = [target for target in goals.targets if not target.last and not any(map(target.is_matched_by, focused))]
    carried = not pending and any(thing.held and name in focused for name, thing in scene.things.items())
    sightings = {}
    for name, room in (entry.rsplit(" in ", 1) for entry in scene.notes["seen"]):
        if any(target.is_matched_by(name) for target in pending):
            sightings[room] = name, _SEEN
        elif not pending and name in [thing for _, thing in goals.endings]:
            sightings[room] = name, _DELIVER if carried else _SEEN
    rooms = dict.fromkeys([*goals.places, *scene.doors, *scene.notes["doors"], *scene.notes["searched"]])
    rooms.pop(scene.room, None)
    for room in rooms:
        if room in sightings:
            yield Proposal(f"teleport to {room}", sightings[room][1], f"I saw {sightings[room][0]} in the {room}")
        elif room not in scene.notes["searched"]:
            weight = _UNSEEN if room not in goals.places else _DELIVER if carried else _NAMED
            yield Proposal(f"teleport to {room}", weight, f"I have not been in the {room} yet")
        elif room in scene.doors:
            yield Proposal(f"teleport to {room}", 0.6, f"something may have been missed in the {room}")
    yield Proposal("wait", 0.5, "nothing else offers itself")
    for name in scene.things:
        if find_words(name) & goals.words:
            yield Proposal(f"pick up {name}", 0.9, f"the task mentions {name}")


def _follow_plan(plan: Sequence[Command], scene: Scene, name: Callable[[Command], str]) -> Iterator[Proposal]:
    """Yield the next step of the plan that can be taken here, if one is left."""
    position = int(next(iter(scene.notes["plan step"]), 0))
    for number, step in enumerate(plan[position:], start=position + 1):
        if scene.options and step.verb != "choose":
            return
        action = name(step)
        normalized = normalize_words(action)
        is_done = normalized in ("", *scene.failed) or (normalized == scene.last_action and step.verb != "wait")
        idle = step.thing == scene.room if step.verb in TRAVEL else step.verb == "choose" and not scene.options
        if not is_done and not idle:
            weight = 99.0 if scene.options else _PLAN
            yield Proposal(action, weight, "it is the next step of my plan from an earlier attempt", plan=number)
            return


def _follow_skills(skills: Sequence[Skill], scene: Scene, name: Callable[[Command], str]) -> Iterator[Proposal]:
    """Yield the next step of every offered skill."""
    for rank, skill in enumerate(skills):
        step = _find_next_step(skill, scene)
        action = name(step) if step and step.verb != "choose" else ""
        if (command := parse_command(action)) and is_concrete(command):
            why = f"it leads to a subgoal that was reached before ({skill.target.rstrip('.')})"
            yield Proposal(action, _SKILL - 0.3 * rank, why, skill.target)


def _find_next_step(skill: Skill, scene: Scene) -> Command | None:
    """The step that comes next when the last actions were the first steps of the skill; None when it is finished."""
    commands = [parse_command(action) for action in scene.done]
    acted = [command for command in commands if command]
    for length in range(min(len(skill.steps), len(acted)), 0, -1):
        if all(is_advice_for(step, command) for step, command in zip(skill.steps, acted[-length:], strict=False)):
            return skill.steps[length] if length < len(skill.steps) else None
    if not skill.steps or any(is_advice_for(skill.steps[-1], command) for command in acted):
        return None
    return next((step for step in skill.steps if step.verb not in TRAVEL or step.thing != scene.room), None)


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
    alike += [replace(step, thing=name).text for name in scene.things if words and words <= find_words(name)]

    def rate_action(action: str) -> tuple[float, bool]:
        return min(0.0, score_by_advice(action, advice)), words <= find_words(action)

    return max(alike, key=rate_action, default="")


def _follow_advice(advice: Sequence[Advice], scene: Scene) -> Iterator[Proposal]:
    """Yield actions that single pieces of advice call for and that are worth trying now: their things are here, or they
    lead to a room not searched yet."""
    for command, weight in advice:
        possible = command.thing in scene.things and (not command.place or command.place in scene.things)
        if command.verb in TRAVEL:  # "a room not seen yet" names none
            possible = len(find_words(command.thing)) in (1, 2) and command.thing not in scene.notes["searched"]
        if weight > 0 and possible and is_concrete(command):
            yield Proposal(command.text, _ADVISED, "I was advised to")
