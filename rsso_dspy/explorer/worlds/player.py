"""The actor in a world that it knows how to play: it takes facts from the prompt and habits from advice, and answers
with one action.

What the history no longer shows, the player keeps in its own thoughts: "I know: ...". What went wrong in this trial and
brought a habit about is kept there too: "Learned: ...".
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rsso_dspy.explorer import scene_parser
from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.worlds import find_world, minigrid
from rsso_dspy.explorer.worlds.world import ASK_LESS, IN_VAIN, LISTED, Deed, Fact, View, World

_ANSWERED = re.compile(r"valid actions(?: are)?: ", re.I)
_KNOWS, _AIM, _LEARNED = "I know:", "Working on:", "Learned:"
_ADVICE = ("plans_from_past_attempts", "skills", "constitution")


def answer_known(prompt: ParsedPrompt, question: str, dice: SeededNoise) -> Mapping[str, str] | None:
    """The fields of either actor. None where the world is not known or nothing comes to mind."""
    templates = prompt.get_region("action_templates")
    world = find_world(templates)
    if world is None or world.name == minigrid.WORLD.name:
        return None
    history = prompt.get_region("history")
    turns = scene_parser.build_scene(LISTED.sub("", history)).turns
    facts = _follow(world, turns)
    notes = next((turn.reasoning for turn in reversed(turns) if turn.reasoning), "")
    deeds = [
        Deed(_normalize(turn.action), after.seen.lower(), bool(IN_VAIN.search(after.seen)))
        for turn, after in pairwise(turns)
        if turn.action
    ]
    habits = (*world.habits, ASK_LESS)
    learned = _learn(world, notes, deeds)
    advice = "\n".join([prompt.instruction, *(prompt.get_region(name) for name in _ADVICE)]).lower()
    view = View(
        prompt.get_region("task"),
        facts,
        frozenset(habit.name for habit in habits if habit.name in learned or re.search(habit.heeded, advice)),
        advice,
        _read_note(notes, _AIM),
        _list_failed(deeds, question),
        frozenset(re.findall(r"^\W*(?:\d+\W+)?(\w[\w-]*) \w", prompt.get_region("skills").lower(), re.M)),
        lambda candidate: dice.temperature * dice.draw_noise(candidate, prompt.get_region("task")),
    )
    action, aim = _choose(world, view, deeds, question, _list_offered(history))
    if not action:
        return None
    why = _write_thought(world, view, action, aim, learned)
    return {"thought": why, "action": action, "reasoning": why, "current_subgoal": "none", "next_action": action}


def _follow(world: World, turns: Sequence[scene_parser.HistoryTurn]) -> frozenset[Fact]:
    """The present facts: the newest notes, updated by the observations since then."""
    start = max((n for n, turn in enumerate(turns) if _KNOWS in turn.reasoning), default=0)
    if turns and _KNOWS in turns[start].reasoning:
        facts = frozenset(world.wording.read(_read_note(turns[start].reasoning, _KNOWS)))
    else:
        facts = world.update(frozenset(), "", turns[0].seen.lower() if turns else "")
    for turn, after in pairwise(turns[start:]):
        if not IN_VAIN.search(after.seen) and not _ANSWERED.search(after.seen):
            facts = world.update(facts, _normalize(turn.action), after.seen.lower())
    return facts


def _learn(world: World, notes: str, deeds: Sequence[Deed]) -> frozenset[str]:
    """Habits that this trial has taught: noted before, or by a failure of the last action."""
    noted = _read_note(notes, _LEARNED)
    lately = [deed for deed in deeds[-2:] if deed.failed]
    return frozenset(
        habit.name for habit in world.habits if habit.advice in noted or (lately and habit.was_missed(lately))
    )


def _list_failed(deeds: Sequence[Deed], question: str) -> frozenset[str]:
    failed: set[str] = set()
    for deed in deeds:
        if deed.failed:
            failed.add(deed.action)
        elif deed.action != question and not _ANSWERED.search(deed.answer):
            failed.clear()
    return frozenset(failed)


def _choose(
    world: World, view: View, deeds: Sequence[Deed], question: str, offered: Mapping[str, str] | None
) -> tuple[str, str]:
    """The first proposal that has not just failed and, where the prompt lists what can be done, is listed. After a
    failure the player asks what can be done."""
    if deeds and deeds[-1].failed and offered is None:
        return question, view.aim
    for action, aim in world.propose(view):
        said = _normalize(action)
        if said in view.failed:
            continue
        if offered is None:
            asks = aim != view.aim and not (deeds and deeds[-1].action == question)
            sure = "ask less" in view.habits or said.split()[0] in view.practised
            return (question if asks and not sure else action), aim
        if said in offered:
            return offered[said], aim
    return "", ""


def _list_offered(history: str) -> Mapping[str, str] | None:
    listed = LISTED.search(history)
    if listed is None:
        return None
    lines = [line.removeprefix("- ").strip() for line in listed[1].splitlines()]
    return {_normalize(line): line for line in lines}


def _write_thought(world: World, view: View, action: str, aim: str, learned: frozenset[str]) -> str:
    parts = [f"I will {action}."]
    if aim:
        parts.append(f"{_AIM} {aim}.")
    if lessons := [habit.advice for habit in world.habits if habit.name in learned]:
        parts.append(f"{_LEARNED} {' '.join(lessons)}")
    parts.append(f"{_KNOWS} {world.wording.write(view.facts)}")
    return " ".join(parts)


def _read_note(thought: str, label: str) -> str:
    """The text after a label in a thought, up to the next label."""
    text = thought.partition(label)[2]
    for other in (_KNOWS, _AIM, _LEARNED):
        text = text.partition(other)[0]
    return text.strip().removesuffix(".") if label == _AIM else text.strip()


def _normalize(action: str) -> str:
    return " ".join(action.lower().rstrip(". ").split())
