"""The actor: scores the actions that its drives and the advice in the prompt propose, and takes the best one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from rsso_dspy.offline.advice import (
    TRAVEL,
    OfferedSkill,
    command,
    is_advice_for,
    is_concrete,
    parse_offered_skills,
    read_advice,
    read_plan_cautions,
    score_by_advice,
    select_plan_steps,
    split_past_attempts,
)
from rsso_dspy.offline.commands import Command, normalize_words
from rsso_dspy.offline.drives import DRIVES, ActionProposal, TaskGoals, is_noteworthy, parse_task_goals
from rsso_dspy.offline.grammar import AdviceClause, extract_content_words
from rsso_dspy.offline.offered import answer_offered
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.scene import Notebook, Scene, build_scene, find_rooms
from rsso_dspy.offline.writers import draw_lessons

_FROM_PLAN = "it is the next step of my plan from an earlier attempt"
# A plan goes before everything; a skill goes before looking around, but not before what the task says outright.
_PLAN, _SKILL, _ADVISED = 20.0, 5.8, 1.0
_ROOM_WORDS = 3
"""Maximum words in the name of a room; "go to a room not seen yet" names none."""
_NOISE = 1.2
"""Spread of the seeded noise at temperature 1."""
_NOTED = ("move", "pour", "mix", "read", "open", "use")
"""Actions that should not be repeated once they had an effect."""
_READING = re.compile(r"temperature of (-?\d+(?:\.\d+)?) degrees")


def answer_actor(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """The fields of either actor: thought, subgoal (word for word, or none) and action."""
    if (offered := answer_offered(prompt, dice)) is not None:
        return offered
    goals = parse_task_goals(prompt.get_region("task"))
    scene = build_scene(prompt.turns)
    plan = select_plan_steps(prompt.get_region("plans_from_past_attempts"))
    skills = parse_offered_skills(prompt.get_region("skills"))
    _update_notes(scene, goals, plan)
    clauses = [*_read_told(prompt), *_read_demonstrations(prompt)]
    driven = [each for drive in DRIVES for each in drive(scene, goals)]
    proposals = [
        *driven,
        *_propose_plan_step(plan, scene, driven),
        *_propose_skill_steps(skills, scene, driven),
        *_propose_advised(clauses, scene),
    ]
    context = blake2b(repr(prompt.turns).encode(), digest_size=8).hexdigest()

    def score_proposal(proposal: ActionProposal) -> float:
        action = normalize_words(proposal.action)
        noise = _NOISE * dice.temperature * dice.draw_noise(action, context)
        advised = score_by_advice(dict(scene.options).get(action, action), clauses)
        return proposal.weight + advised + noise - _rate_repetition(proposal, action, scene)

    # The first of equals wins, so the order of drives decides where weights, advice and chance do not.
    best = max(proposals, key=score_proposal)
    reasoning = f"{_describe_effect(scene)}I will {best.action}: {best.why}. {scene.notes.to_sentence()}".strip()
    subgoal = _find_pursued_target(best.action, skills, scene) or "none"
    return {"thought": reasoning, "subgoal": subgoal, "action": best.action}


def _rate_repetition(proposal: ActionProposal, action: str, scene: Scene) -> float:
    """What is taken from the score of an action that was taken already: an action that failed or is in vain gets almost
    no chance. A plan's steps may be repeated."""
    if scene.options:
        return 0.0
    malus = 50.0 * (action in scene.failed or action in scene.notes.failed)
    malus += 40.0 * (action == scene.last_action and action != "wait")
    if proposal.weight < _PLAN:
        malus += (0.2 if action == "wait" else 3.0) * scene.done.count(action) + 6.0 * (action in scene.notes.did)
    return malus


def _read_told(prompt: ParsedPrompt) -> Iterator[AdviceClause]:
    """Yield the advice besides plans and skills, which are followed step by step: constitution, lessons of past
    attempts, strategies, instruction and, from plans, what to avoid."""
    attempts = "\n".join(filter(None, map(prompt.get_region, ("past_attempts", "experience"))))
    lessons = draw_lessons(attempts) if attempts else []
    rules = [
        "\n".join(parse_region_list(prompt.get_region("constitution"))),
        *lessons,
        prompt.get_region("past_strategies"),
    ]
    yield from read_advice("\n".join(filter(None, rules)))
    yield from read_advice(prompt.instruction)
    for plan in split_past_attempts(prompt.get_region("plans_from_past_attempts")):
        yield from read_plan_cautions(plan)


def _read_demonstrations(prompt: ParsedPrompt) -> Iterator[AdviceClause]:
    """Yield the actions of demonstrations of a similar task."""
    task = set(normalize_words(prompt.get_region("task")).split())
    for demo in prompt.demos:
        likeness = len(task & set(normalize_words(demo.get("task", "")).split())) / (len(task) or 1)
        done = command(demo.get("action", ""))
        if done and likeness > 0.5:
            yield AdviceClause(done.text, done, True)


def _propose_advised(clauses: Sequence[AdviceClause], scene: Scene) -> Iterator[ActionProposal]:
    """Yield actions that single pieces of advice call for and that are worth trying now: their things are here, or they
    lead to another room."""
    for clause in clauses:
        wanted = clause.command
        if not clause.positive or not wanted or not is_concrete(wanted) or wanted.verb in ("wait", "choose"):
            continue
        if wanted.verb in TRAVEL:
            named = len(wanted.thing.split()) <= _ROOM_WORDS and bool(extract_content_words(wanted.thing))
            possible = named and wanted.thing != scene.room and wanted.thing not in scene.notes.searched
        else:
            possible = wanted.thing in scene.things and (not wanted.place or wanted.place in scene.things)
        if possible:
            yield ActionProposal(wanted.text, _ADVISED, "I was advised to")


def _propose_plan_step(
    plan: tuple[Command, ...], scene: Scene, driven: Sequence[ActionProposal]
) -> list[ActionProposal]:
    """The next step of the plan, if one is left. Answers to questions and travel to the present room are skipped. While
    the world asks a question, only an answer that is the plan's next step counts."""
    steps = plan[scene.notes.plan :][:6]
    if scene.options:
        answers = [step.text for step in steps[:1] if step.verb == "choose"]
        return [ActionProposal(answer, 99.0, "that is how it went well before") for answer in answers]
    for step in steps:
        if step.verb == "choose" or (step.verb in TRAVEL and step.thing == scene.room):
            continue
        action = _resolve_step(step, scene, driven)
        name = normalize_words(action)
        if name not in scene.failed and (name != scene.last_action or step.verb == "wait"):
            return [ActionProposal(action, _PLAN, _FROM_PLAN)]
    return []


def _resolve_step(step: Command, scene: Scene, driven: Sequence[ActionProposal]) -> str:
    """The step with the name of a thing that is here: itself, one whose name holds all its words ("plane B" for
    "inclined plane B"), or, for a kind or a placeholder, what the player would do with that verb by itself."""
    if step.verb in (*TRAVEL, "wait", "choose") or step.thing in scene.things:
        return step.text
    words = extract_content_words(step.thing)
    if is_concrete(step) and (fuller := next((n for n in scene.things if words <= extract_content_words(n)), "")):
        return replace(step, thing=fuller).text
    alike = [each for each in driven if (done := command(each.action)) and done.verb == step.verb]
    return max(alike, key=lambda each: each.weight).action if alike else step.text


def _propose_skill_steps(
    skills: Sequence[OfferedSkill], scene: Scene, driven: Sequence[ActionProposal]
) -> Iterator[ActionProposal]:
    """Yield the next step of every offered skill."""
    for rank, skill in enumerate(skills):
        step = _find_next_step(skill, scene)
        if step is None or step.verb == "choose":
            continue
        action = _resolve_step(step, scene, driven)
        if (done := command(action)) and is_concrete(done):
            why = f"it leads to a subgoal that was reached before ({skill.target.rstrip('.')})"
            yield ActionProposal(action, _SKILL - 0.3 * rank, why)


def _find_next_step(skill: OfferedSkill, scene: Scene) -> Command | None:
    """The step that comes next when the last actions were the first steps of the skill; None when it is finished."""
    acted = [done for action in scene.done if (done := command(action))]
    for length in range(min(len(skill.steps), len(acted)), 0, -1):
        if all(is_advice_for(step, done) for step, done in zip(skill.steps, acted[-length:], strict=False)):
            return skill.steps[length] if length < len(skill.steps) else None
    if not skill.steps or any(is_advice_for(skill.steps[-1], done) for done in acted):
        return None
    end, notes = skill.steps[-1], scene.notes
    taken = {"focus": notes.focused, "teleport": notes.searched, "go": notes.searched}
    if end.thing in taken[end.verb] if end.verb in taken else normalize_words(end.text) in notes.did:
        return None
    first = skill.steps[0]
    if first.verb in TRAVEL and first.thing == scene.room:
        return skill.steps[1] if len(skill.steps) > 1 else None
    return first


def _find_pursued_target(action: str, skills: Sequence[OfferedSkill], scene: Scene) -> str:
    """The target of the offered skill whose next step this is."""
    done = command(action)
    for skill in skills:
        step = _find_next_step(skill, scene)
        if done and step and done.verb == step.verb and (is_advice_for(step, done) or step.thing not in scene.things):
            return skill.target
    return ""


def _update_notes(scene: Scene, goals: TaskGoals, plan: tuple[Command, ...]) -> Notebook:
    """Bring the notebook up to date with what the last action did."""
    notes, last = scene.notes, command(scene.last_action)
    if scene.room and scene.room not in notes.searched:
        notes.searched.append(scene.room)
    known = [room for turn in scene.turns[-1:] for room in find_rooms(turn.seen)] + scene.doors
    notes.doors = [room for room in dict.fromkeys([*notes.doors, *known]) if room not in notes.searched]
    for name, thing in scene.things.items():
        if thing.held:
            notes.seen.pop(name, None)
        elif is_noteworthy(name, goals) and scene.room:
            notes.seen[name] = scene.room
    if (match := _READING.search(scene.last_observation)) and last and last.verb == "use":
        notes.facts["reading"] = match.group(1)
    if focused := re.findall(r"you focus on the (.+?)\.", scene.last_observation.lower()):
        # The world answers "the apple tree" even if the action said which one.
        notes.focused.append(last.thing if last and last.verb == "focus" else normalize_words(focused[-1]))
    if scene.last_action:
        if scene.last_action in scene.failed and scene.last_action not in notes.failed:
            notes.failed.append(scene.last_action)
        elif last and last.verb in _NOTED and scene.last_action not in notes.did:
            notes.did.append(scene.last_action)
        notes.plan += _count_plan_steps(plan[notes.plan :], scene)
    return notes


def _count_plan_steps(left: tuple[Command, ...], scene: Scene) -> int:
    """Steps of the rest of the plan that the last action brought it on. A step taken in other words counts by its
    verb."""
    done = command(scene.last_action)
    followed = len(scene.turns) > 1 and _FROM_PLAN in scene.turns[-2].thought
    for offset, step in enumerate(left[:6], start=1):
        if done and (done == step or (followed and done.verb == step.verb and step.thing not in scene.things)):
            return offset
    return 0


def _describe_effect(scene: Scene) -> str:
    if not scene.last_action:
        return ""
    if scene.options:
        return f"'{scene.last_action}' was ambiguous. "
    return f"'{scene.last_action}' {'did nothing' if scene.last_action in scene.failed else 'worked'}. "
