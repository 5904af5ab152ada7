"""The actor: scores the actions that its drives and the advice in the prompt propose, and takes the best one."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from rsso_dspy.explorer import advice, scene_parser
from rsso_dspy.explorer.commands import (
    TRAVEL,
    AdviceClause,
    Command,
    command,
    extract_content_words,
    is_concrete,
    normalize_words,
)
from rsso_dspy.explorer.goals import TaskGoals, parse_task_goals
from rsso_dspy.explorer.heuristics import DRIVES, ActionProposal
from rsso_dspy.explorer.notes import Notebook
from rsso_dspy.explorer.offered_actions import answer_offered
from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.relevance import is_noteworthy
from rsso_dspy.explorer.seeded_noise import SeededNoise

_FROM_PLAN = "it is the next step of my plan from an earlier attempt"
# A plan goes before everything; a skill goes before looking around, but not before what the task says outright.
_PLAN, _SKILL, _ADVISED = 20.0, 5.8, 1.0
_ROOM_WORDS = 3
"""Maximum words in the name of a room; "go to a room not seen yet" names none."""
_NOISE = 1.2
"""Spread of the seeded noise at temperature 1."""
_READING = re.compile(r"temperature of (-?\d+(?:\.\d+)?) degrees")
_RECIPE = re.compile(r"you need to mix ([^.\n]+)")


def answer_flat_actor(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """Thought and action."""
    if (offered := answer_offered(prompt, dice)) is not None:
        return offered
    action, reasoning, _ = _choose_action(prompt, dice)
    return {"thought": reasoning, "action": action}


def answer_subgoal_actor(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """Reasoning, subgoal (word for word, or none) and action."""
    if (offered := answer_offered(prompt, dice)) is not None:
        return offered
    action, reasoning, subgoal = _choose_action(prompt, dice)
    return {"reasoning": reasoning, "current_subgoal": subgoal or "none", "next_action": action}


def _choose_action(prompt: ParsedPrompt, dice: SeededNoise) -> tuple[str, str, str]:
    """Action, reasoning with the notes, and the subgoal that the action serves."""
    aims = parse_task_goals(prompt.get_region("task"))
    scene = scene_parser.build_scene(prompt.get_region("history"))
    notes = update_notes(scene, aims, prompt)
    told = [*_read_told(prompt), *_collect_demonstrated(prompt)]
    driven = tuple(each for drive in DRIVES for each in drive(scene, aims))
    plan = advice.select_plan_steps(prompt.get_region("plans_from_past_attempts"))
    proposals = [
        *driven,
        *_propose_plan_step(plan, notes, scene, driven),
        *_propose_skill_steps(prompt.get_region("skills"), scene, driven),
        *_propose_advised(told, scene),
    ]
    context = blake2b(prompt.get_region("history").encode(), digest_size=8).hexdigest()
    # The first of equals wins, so the order of drives decides where weights, advice and chance do not.
    best = max(
        proposals,
        key=lambda each: _score_proposal(each, scene, told, dice, context),
    )
    subgoal = _find_pursued_target(best.action, prompt.get_region("skills"), scene)
    reasoning = f"{_describe_effect(scene)}I will {best.action}: {best.why}."
    return best.action, f"{reasoning} {notes.to_sentence()}".strip(), subgoal


def _propose_advised(told: list[AdviceClause], scene: scene_parser.Scene) -> list[ActionProposal]:
    """Actions that single pieces of advice call for and that are possible now."""
    return [
        ActionProposal(line.command.text, _ADVISED, "I was advised to")
        for line in told
        if line.positive and line.command and is_concrete(line.command) and _is_possible(line.command, scene)
    ]


def _score_proposal(
    proposal: ActionProposal, scene: scene_parser.Scene, told: list[AdviceClause], dice: SeededNoise, context: str
) -> float:
    """The score of an action: weight, advice and noise. An action that failed or is in vain gets almost no chance."""
    action = normalize_words(proposal.action)
    score = proposal.weight + advice.score_by_advice(dict(scene.options).get(action, action), told)
    score += _NOISE * dice.temperature * dice.draw_noise(action, context)
    if scene.options:
        return score
    waiting, lately = action == "wait", scene.done.count(action)
    if action in scene.failed or action in scene.notes.failed:
        score -= 50
    if action == scene.last_action and not waiting:
        score -= 40
    if proposal.weight < _PLAN:
        score -= (0.2 if waiting else 3.0) * lately
        score -= 6 * (action in scene.notes.did)
    return score


def _read_told(prompt: ParsedPrompt) -> list[AdviceClause]:
    """The advice besides plans and skills, which are followed step by step: constitution, instruction and, from past
    attempts, what to avoid."""
    rules, told = map(advice.read_advice, (prompt.get_region("constitution"), prompt.instruction))
    plans = advice.split_past_attempts(prompt.get_region("plans_from_past_attempts"))
    return [*rules, *told, *(line for plan in plans for line in advice.read_plan_cautions(plan))]


def _collect_demonstrated(prompt: ParsedPrompt) -> list[AdviceClause]:
    """The actions of demonstrations of a similar task."""
    told = []
    task = set(normalize_words(prompt.get_region("task")).split())
    for demo in prompt.demos:
        likeness = len(task & set(normalize_words(demo.get("task", "")).split())) / (len(task) or 1)
        done = command(demo.get("next_action") or demo.get("action") or "")
        if done and likeness > 0.5:
            told.append(AdviceClause(done.text, done, True))
    return told


def _is_possible(wanted: Command, scene: scene_parser.Scene) -> bool:
    """Whether an action is worth trying now: its things are here, or it leads to another room."""
    if wanted.verb in TRAVEL:
        room = len(wanted.thing.split()) <= _ROOM_WORDS and bool(extract_content_words(wanted.thing))
        return room and wanted.thing != scene.room and wanted.thing not in scene.notes.searched
    if wanted.verb in ("wait", "choose"):
        return False
    return wanted.thing in scene.things and (not wanted.place or wanted.place in scene.things)


def _propose_plan_step(
    plan: tuple[Command, ...], notes: Notebook, scene: scene_parser.Scene, driven: tuple[ActionProposal, ...]
) -> list[ActionProposal]:
    """The next step of the plan, if one is left. Answers to questions and travel to the present room are skipped. While
    the world asks a question, only an answer that is the plan's next step counts."""
    steps = plan[notes.plan :]
    if not steps:
        return []
    if scene.options:
        return (
            [ActionProposal(steps[0].text, 99.0, "that is how it went well before")]
            if steps[0].verb == "choose"
            else []
        )
    for step in steps[:6]:
        if step.verb == "choose" or (step.verb in TRAVEL and step.thing == scene.room):
            continue
        action = _resolve_step(step, scene, driven)
        if normalize_words(action) not in scene.failed and (
            normalize_words(action) != scene.last_action or step.verb == "wait"
        ):
            return [ActionProposal(action, _PLAN, _FROM_PLAN)]
    return []


def _resolve_step(step: Command, scene: scene_parser.Scene, driven: tuple[ActionProposal, ...]) -> str:
    """The step with the name of a thing that is here: itself, one whose name holds all its words ("plane B" for
    "inclined plane B"), or, for a kind or a placeholder, what the player would do with that verb by itself."""
    if step.verb in (*TRAVEL, "wait", "choose") or step.thing in scene.things:
        return step.text
    if is_concrete(step) and (
        fuller := next((n for n in scene.things if extract_content_words(step.thing) <= extract_content_words(n)), "")
    ):
        return replace(step, thing=fuller).text
    alike = [each for each in driven if (done := command(each.action)) and done.verb == step.verb]
    return max(alike, key=lambda each: each.weight).action if alike else step.text


def _propose_skill_steps(
    region: str, scene: scene_parser.Scene, driven: tuple[ActionProposal, ...]
) -> list[ActionProposal]:
    """The next step of every offered skill."""
    found = []
    for rank, skill in enumerate(advice.parse_offered_skills(region)):
        step = _find_next_step(skill, scene)
        if step is not None and step.verb != "choose":
            action = _resolve_step(step, scene, driven)
            done = command(action)
            if done is not None and is_concrete(done):
                why = f"it leads to a subgoal that was reached before ({skill.target.rstrip('.')})"
                found.append(ActionProposal(action, _SKILL - 0.3 * rank, why))
    return found


def _find_next_step(skill: advice.OfferedSkill, scene: scene_parser.Scene) -> Command | None:
    """The step that comes next when the last actions were the first steps of the skill; None when it is finished."""
    acted = [done for action in scene.done if (done := command(action))]
    for length in range(min(len(skill.steps), len(acted)), 0, -1):
        if all(advice.is_advice_for(step, done) for step, done in zip(skill.steps, acted[-length:], strict=False)):
            return skill.steps[length] if length < len(skill.steps) else None
    if (
        not skill.steps
        or any(advice.is_advice_for(skill.steps[-1], done) for done in acted)
        or _is_skill_finished(skill, scene)
    ):
        return None
    first = skill.steps[0]
    if first.verb in TRAVEL and first.thing == scene.room:
        return skill.steps[1] if len(skill.steps) > 1 else None
    return first


def _is_skill_finished(skill: advice.OfferedSkill, scene: scene_parser.Scene) -> bool:
    """Whether the last step of the skill was taken in this attempt, according to the notes."""
    end, notes = skill.steps[-1], scene.notes
    taken = {"focus": notes.focused, "teleport": notes.searched, "go": notes.searched}
    return end.thing in taken[end.verb] if end.verb in taken else normalize_words(end.text) in notes.did


def _find_pursued_target(action: str, region: str, scene: scene_parser.Scene) -> str:
    """The target of the offered skill whose next step this is."""
    done = command(action)
    for skill in advice.parse_offered_skills(region):
        step = _find_next_step(skill, scene)
        if (
            done
            and step
            and done.verb == step.verb
            and (advice.is_advice_for(step, done) or step.thing not in scene.things)
        ):
            return skill.target
    return ""


def update_notes(scene: scene_parser.Scene, aims: TaskGoals, prompt: ParsedPrompt) -> Notebook:
    """Bring the notebook up to date with what the last action did."""
    notes, last = scene.notes, command(scene.last_action)
    failed = scene.last_action in scene.failed
    if scene.room and scene.room not in notes.searched:
        notes.searched.append(scene.room)
    known = [room for turn in scene.turns[-1:] for room in scene_parser.find_rooms(turn.seen)] + scene.doors
    notes.doors = [room for room in dict.fromkeys([*notes.doors, *known]) if room not in notes.searched]
    for name, thing in scene.things.items():
        if thing.held:
            notes.seen.pop(name, None)
        elif is_noteworthy(name, aims) and scene.room:
            notes.seen[name] = scene.room
    if (match := _READING.search(scene.last_observation)) and last and last.verb == "use":
        notes.facts["reading"] = match.group(1)
    if match := _RECIPE.search(scene.last_observation.lower()):
        notes.facts["recipe"] = " + ".join(
            normalize_words(part) for part in re.split(r",| and ", match.group(1)) if normalize_words(part)
        )
    if focused := re.findall(r"you focus on the (.+?)\.", scene.last_observation.lower()):
        # The world answers "the apple tree" even if the action said which one.
        notes.focused.append(last.thing if last and last.verb == "focus" else normalize_words(focused[-1]))
    if scene.last_action:
        if failed and scene.last_action not in notes.failed:
            notes.failed.append(scene.last_action)
        elif (
            last and last.verb in ("move", "pour", "mix", "read", "open", "use") and scene.last_action not in notes.did
        ):
            notes.did.append(scene.last_action)
        _advance_plan(notes, prompt, scene)
    return notes


def _advance_plan(notes: Notebook, prompt: ParsedPrompt, scene: scene_parser.Scene) -> None:
    """Count the steps of the plan that were taken. A step taken in other words counts by its verb."""
    plan = advice.select_plan_steps(prompt.get_region("plans_from_past_attempts"))
    done = command(scene.last_action)
    followed = len(scene.turns) > 1 and _FROM_PLAN in scene.turns[-2].reasoning
    for offset, step in enumerate(plan[notes.plan : notes.plan + 6]):
        if done and (done == step or (followed and done.verb == step.verb and step.thing not in scene.things)):
            notes.plan += offset + 1
            return


def _describe_effect(scene: scene_parser.Scene) -> str:
    if not scene.last_action:
        return ""
    if scene.options:
        return f"'{scene.last_action}' was ambiguous. "
    return f"'{scene.last_action}' {'did nothing' if scene.last_action in scene.failed else 'worked'}. "
