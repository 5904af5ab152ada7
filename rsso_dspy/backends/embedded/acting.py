"""The actor: proposals of the drives and of the advice in the prompt, scored; the best one is the next action."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from rsso_dspy.backends.embedded import advice, world
from rsso_dspy.backends.embedded.bearings import matters
from rsso_dspy.backends.embedded.commands import Command, Line, command, lines, plain, words
from rsso_dspy.backends.embedded.dice import Dice
from rsso_dspy.backends.embedded.drives import DRIVES, Proposal
from rsso_dspy.backends.embedded.goals import Goals, goals
from rsso_dspy.backends.embedded.notes import Notes
from rsso_dspy.backends.embedded.reading import Prompt

_FROM_PLAN = "it is the next step of my plan from an earlier attempt"
# A plan goes before everything; a skill goes before looking around, but not before what the task says outright.
_PLAN, _SKILL, _ADVISED = 20.0, 5.8, 1.0
_ROOM_WORDS = 3
"""Words in the name of a room at most; "go to a room not seen yet" names none."""
_NOISE = 1.2
"""Spread of the seeded noise at temperature 1."""
_READING = re.compile(r"temperature of (-?\d+(?:\.\d+)?) degrees")
_RECIPE = re.compile(r"you need to mix ([^.\n]+)")


def flat_actor(prompt: Prompt, dice: Dice) -> Mapping[str, str]:
    """Thought and action."""
    action, reasoning, _ = _act(prompt, dice)
    return {"thought": reasoning, "action": action}


def subgoal_actor(prompt: Prompt, dice: Dice) -> Mapping[str, str]:
    """Reasoning, subgoal (word for word, or none) and action."""
    action, reasoning, subgoal = _act(prompt, dice)
    return {"reasoning": reasoning, "current_subgoal": subgoal or "none", "next_action": action}


def _act(prompt: Prompt, dice: Dice) -> tuple[str, str, str]:
    """Action, reasoning with the notes, and the subgoal that the action serves."""
    aims = goals(prompt.region("task"))
    scene = world.scene(prompt.region("history"))
    notes = take_notes(scene, aims, prompt)
    told = _advice(prompt)
    driven = tuple(each for drive in DRIVES for each in drive(scene, aims))
    plan = advice.plan_steps(prompt.region("plans_from_past_attempts"))
    proposals = [
        *driven,
        *_planned(plan, notes, scene, driven),
        *_skilled(prompt.region("skills"), scene, driven),
        *_advised(told, scene),
    ]
    context = blake2b(prompt.region("history").encode(), digest_size=8).hexdigest()
    # The first of equals wins, so the order of drives decides where neither weights nor advice nor chance do.
    best = max(proposals, key=lambda each: _score(each, scene, told, dice, context))
    subgoal = _pursued(best.action, prompt.region("skills"), scene)
    reasoning = f"{_effect(scene)}I will {best.action}: {best.why}."
    return best.action, f"{reasoning} {notes.text()}".strip(), subgoal


def _advised(told: list[Line], scene: world.Scene) -> list[Proposal]:
    """What single pieces of advice call for and is possible now."""
    return [
        Proposal(line.command.text, _ADVISED, "I was advised to")
        for line in told
        if line.positive and line.command and line.command.concrete and _possible(line.command, scene)
    ]


def _score(proposal: Proposal, scene: world.Scene, told: list[Line], dice: Dice, context: str) -> float:
    """Weight, advice and noise; what failed or is in vain is as good as out of the question."""
    action = plain(proposal.action)
    score = proposal.weight + advice.likes(dict(scene.options).get(action, action), told)
    score += _NOISE * dice.temperature * dice.throw(action, context)
    if scene.options:
        return score
    waiting, lately = action == "wait", scene.done.count(action)
    if action in scene.failed or action in scene.notes.failed:
        score -= 50
    if action == scene.last and not waiting:
        score -= 40
    if proposal.weight < _PLAN:
        score -= (0.2 if waiting else 3.0) * lately
        score -= 6 * (action in scene.notes.did)
    return score


def _advice(prompt: Prompt) -> list[Line]:
    """All single pieces of advice: constitution, what to avoid from past attempts, the instruction, demonstrations."""
    told = [*lines(prompt.region("constitution")), *lines(prompt.instruction)]
    for plan in advice.attempts(prompt.region("plans_from_past_attempts")):
        told += [line for line in lines(plan) if not line.positive or line.command is None]
    task = set(plain(prompt.region("task")).split())
    for demo in prompt.demos:
        likeness = len(task & set(plain(demo.get("task", "")).split())) / (len(task) or 1)
        done = command(demo.get("next_action") or demo.get("action") or "")
        if done and likeness > 0.5:
            told.append(Line(done.text, done, True))
    return told


def _possible(wanted: Command, scene: world.Scene) -> bool:
    """Worth trying now: the things it names are here, or it is a way to another room."""
    if wanted.verb in ("teleport", "go"):
        room = len(wanted.thing.split()) <= _ROOM_WORDS and bool(words(wanted.thing))
        return room and wanted.thing != scene.room and wanted.thing not in scene.notes.searched
    if wanted.verb in ("wait", "choose"):
        return False
    return wanted.thing in scene.things and (not wanted.place or wanted.place in scene.things)


def _planned(
    plan: tuple[Command, ...], notes: Notes, scene: world.Scene, driven: tuple[Proposal, ...]
) -> list[Proposal]:
    """The next step of the plan, if one is left. What a step asks that the world does not is skipped, and an answer
    that the world wants is looked for in the plan."""
    steps = plan[notes.plan :]
    if not steps:
        return []
    if scene.options:
        return [Proposal(steps[0].text, 99.0, "that is how it went well before")] if steps[0].verb == "choose" else []
    for step in steps[:6]:
        if step.verb == "choose" or (step.verb in ("teleport", "go") and step.thing == scene.room):
            continue
        action = _resolved(step, scene, driven)
        if plain(action) not in scene.failed and (plain(action) != scene.last or step.verb == "wait"):
            return [Proposal(action, _PLAN, _FROM_PLAN)]
    return []


def _resolved(step: Command, scene: world.Scene, driven: tuple[Proposal, ...]) -> str:
    """The step with the name of a thing that is here: itself, one whose name holds all its words ("plane B" for
    "inclined plane B"), or, for a kind or a placeholder, what the player would do with that verb by itself."""
    if step.verb in ("teleport", "go", "wait", "choose") or step.thing in scene.things:
        return step.text
    if step.concrete and (fuller := next((n for n in scene.things if words(step.thing) <= words(n)), "")):
        return replace(step, thing=fuller).text
    alike = [each for each in driven if (done := command(each.action)) and done.verb == step.verb]
    return max(alike, key=lambda each: each.weight).action if alike else step.text


def _skilled(region: str, scene: world.Scene, driven: tuple[Proposal, ...]) -> list[Proposal]:
    """The next step of every offered skill."""
    found = []
    for rank, skill in enumerate(advice.skills(region)):
        step = _next(skill, scene)
        if step is not None and step.verb != "choose":
            action = _resolved(step, scene, driven)
            done = command(action)
            if done is not None and done.concrete:
                why = f"it leads to a subgoal that was reached before ({skill.target.rstrip('.')})"
                found.append(Proposal(action, _SKILL - 0.3 * rank, why))
    return found


def _next(skill: advice.Skill, scene: world.Scene) -> Command | None:
    """The step that comes next when the last actions were the first steps of the skill; None when it is finished."""
    acted = [done for action in scene.done if (done := command(action))]
    for length in range(min(len(skill.steps), len(acted)), 0, -1):
        if all(advice.covers(step, done) for step, done in zip(skill.steps, acted[-length:], strict=False)):
            return skill.steps[length] if length < len(skill.steps) else None
    if not skill.steps or any(advice.covers(skill.steps[-1], done) for done in acted) or _reached(skill, scene):
        return None
    first = skill.steps[0]
    if first.verb in ("teleport", "go") and first.thing == scene.room:
        return skill.steps[1] if len(skill.steps) > 1 else None
    return first


def _reached(skill: advice.Skill, scene: world.Scene) -> bool:
    """By the notes, the last step of the skill was taken in this attempt."""
    end, notes = skill.steps[-1], scene.notes
    taken = {"focus": notes.focused, "teleport": notes.searched, "go": notes.searched}
    return end.thing in taken[end.verb] if end.verb in taken else plain(end.text) in notes.did


def _pursued(action: str, region: str, scene: world.Scene) -> str:
    """The target of the offered skill whose next step this is."""
    done = command(action)
    for skill in advice.skills(region):
        step = _next(skill, scene)
        if done and step and done.verb == step.verb and (advice.covers(step, done) or step.thing not in scene.things):
            return skill.target
    return ""


def take_notes(scene: world.Scene, aims: Goals, prompt: Prompt) -> Notes:
    """Bring the notebook up to date with what the last action did."""
    notes, last = scene.notes, command(scene.last)
    failed = scene.last in scene.failed
    if scene.room and scene.room not in notes.searched:
        notes.searched.append(scene.room)
    known = [room for turn in scene.turns[-1:] for room in world.rooms_named(turn.seen)] + scene.doors
    notes.doors = [room for room in dict.fromkeys([*notes.doors, *known]) if room not in notes.searched]
    for name, thing in scene.things.items():
        if thing.held:
            notes.seen.pop(name, None)
        elif matters(name, aims) and scene.room:
            notes.seen[name] = scene.room
    if (match := _READING.search(scene.now)) and last and last.verb == "use":
        notes.facts["reading"] = match.group(1)
    if match := _RECIPE.search(scene.now.lower()):
        notes.facts["recipe"] = " + ".join(plain(part) for part in re.split(r",| and ", match.group(1)) if plain(part))
    if focused := re.findall(r"you focus on the (.+?)\.", scene.now.lower()):
        # The answer says "the apple tree" where the action said which of the apple trees.
        notes.focused.append(last.thing if last and last.verb == "focus" else plain(focused[-1]))
    if scene.last:
        if failed and scene.last not in notes.failed:
            notes.failed.append(scene.last)
        elif last and last.verb in ("move", "pour", "mix", "read", "open", "use") and scene.last not in notes.did:
            notes.did.append(scene.last)
        _advance(notes, prompt, scene)
    return notes


def _advance(notes: Notes, prompt: Prompt, scene: world.Scene) -> None:
    """Count the plan's steps that have been taken. A step that was taken in other words counts by its verb."""
    plan = advice.plan_steps(prompt.region("plans_from_past_attempts"))
    done = command(scene.last)
    followed = len(scene.turns) > 1 and _FROM_PLAN in scene.turns[-2].reasoning
    for offset, step in enumerate(plan[notes.plan : notes.plan + 6]):
        if done and (done == step or (followed and done.verb == step.verb and step.thing not in scene.things)):
            notes.plan += offset + 1
            return


def _effect(scene: world.Scene) -> str:
    if not scene.last:
        return ""
    if scene.options:
        return f"'{scene.last}' was ambiguous. "
    return f"'{scene.last}' {'did nothing' if scene.last in scene.failed else 'worked'}. "
