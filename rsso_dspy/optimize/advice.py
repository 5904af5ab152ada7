"""Advice to the actor: which actions to take again, which to leave, and how to reach the goals that were missed.

Sentences are imperative and stand alone, so that a proposer can pick among them. None names the variant or the step
budget. Of the simulator's goals only the class is used, never the description: that names the answer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rsso_dspy.environments.scienceworld.progress import Goal
from rsso_dspy.trajectory import Step, Trajectory

MOST = 4
"""Bound on each list."""
_LOOP = 3
"""From this often on, the same action is called a loop."""
_LONGEST = 80
"""Longer texts that were not understood are no actions and not worth quoting."""
_TRAVEL = re.compile(r"(?:teleport|go)(?: to)? (.+)")
_LOOK = re.compile(r"(?:teleport|go|open) .+")


def advice(trials: Sequence[Trajectory], progress: Sequence[Sequence[Goal]] = ()) -> list[str]:
    """Advice from all trials of one variant, and from the goals of each of them where they are known."""
    best = earned(trials)
    paid = set(best)
    return [
        *_repeat(best),
        *_never(trials, paid),
        *_in_vain(trials, paid),
        *_loops(trials, paid),
        *_missed(progress),
    ]


def earned(trials: Iterable[Trajectory]) -> Counter[str]:
    """Actions that raised the score, with the most that one of them brought."""
    best: Counter[str] = Counter()
    for step in (step for trial in trials for step in trial.steps):
        if step.reward > 0 and step.action and not step.action.isdigit():
            best[step.action] = max(best[step.action], step.reward)
    return best


def _repeat(paid: Counter[str]) -> Iterator[str]:
    for action, points in paid.most_common(MOST):
        yield f"The action {action} brought {points} points."
        if action.startswith("wait"):
            yield "Keep waiting where something is under way."
        else:
            yield f"{'First' if _TRAVEL.fullmatch(action) else 'When you can'}, {action}."


def _never(trials: Iterable[Trajectory], paid: set[str]) -> Iterator[str]:
    """Actions that cost points, and texts that were never understood."""
    steps = [step for trial in trials for step in trial.steps if step.action and not step.action.isdigit()]
    costly = Counter({step.action: -step.reward for step in steps if step.reward < 0 and step.action not in paid})
    for action, points in costly.most_common(MOST):
        yield f"The action {action} cost {points} points."
        yield f"Unless the task names it, avoid {_gerund(action)}."
    if costly:
        yield "Before you focus on anything, make sure that the task asks for it."
    known = {step.action for step in steps if step.understood}
    unknown = Counter(step.action for step in steps if step.action not in known)
    for action in [action for action, _ in unknown.most_common() if len(action) <= _LONGEST][:MOST]:
        yield f"Do not {action}."


def _in_vain(trials: Sequence[Trajectory], paid: set[str]) -> Iterator[str]:
    """Rooms entered and things opened where no trial earned a point by more than arriving."""
    acts = [act for trial in trials for act in _located(trial)]
    useful = {room for room, step in acts if step.reward > 0 and not _place(step.action)}
    tried = Counter(step.action for room, step in acts if step.understood and room and room not in useful)
    looks = [action for action, _ in tried.most_common() if action not in paid and _LOOK.fullmatch(action)]
    for action in looks[:MOST]:
        yield f"Avoid {_gerund(action)}."


def _loops(trials: Sequence[Trajectory], paid: set[str]) -> Iterator[str]:
    """What was done over and over and never earned a point."""
    tried = Counter(step.action for trial in trials for step in trial.steps if step.action not in paid)
    loops = [
        (action, times) for action, times in tried.most_common() if action and times >= _LOOP and not action.isdigit()
    ]
    for action, times in loops[:MOST]:
        yield f"The action {action} was taken {times} times and earned nothing."
    if loops:
        yield "Do not repeat an action that changed nothing."


def _located(trial: Trajectory) -> Iterator[tuple[str, Step]]:
    """Every step with the room it was taken in, for travel the one it led to; empty before the first travel."""
    room = ""
    for step in trial.steps:
        if step.understood:
            room = _place(step.action) or room
        yield room, step


def _gerund(action: str) -> str:
    verb, _, rest = action.partition(" ")
    return f"{verb.removesuffix('e')}ing {rest}".strip()


def _place(action: str) -> str:
    match = _TRAVEL.fullmatch(action)
    return match.group(1) if match else ""


def _missed(progress: Sequence[Sequence[Goal]]) -> Iterator[str]:
    """Advice for the kinds of goals that no trial reached, or that the task requires more of; required ones first."""
    goals = [list(trial) for trial in zip(*progress, strict=False)]
    reached = {each[0].kind for each in goals if any(goal.done for goal in each)}
    undone = [each[0] for each in goals if not any(goal.done for goal in each)]
    for goal in sorted(undone, key=lambda each: not each.required):
        if goal.required or goal.kind not in reached:
            yield from BY_KIND.get(goal.kind, ())


_FIND = ("First search for what the task asks for, and focus on it as soon as you see it.",)
_FOCUS = ("When the task names it, focus on the thing.",)
_STAGE = ("Focus on the stages of life in their order, earliest first.", "When the next stage is still to come, wait.")
_PLANE = ("Before you focus on one of the planes, try each of them in the same way.",)
_HOLD = ("When it will be needed elsewhere, pick up the object.",)
_PUT = ("When you have reached the place for it, move the object to the container.",)
_TOGETHER = ("Always bring what belongs together into one container that holds nothing else.",)
_START = ("When a device is needed, activate it.",)
_STOP = ("After it has done its work, deactivate it.",)
_CHANGE = ("Keep at heating or cooling until the substance has changed its state.",)
_HEAT = ("Try another heater when one of them does not do.",)
_COOL = ("Try a colder place when one of them does not do.",)
_GROW = ("Always give a seed both soil and water.", "When everything that grows has what it needs, wait.")
_WIRES = ("Always check that each wire joins both of the parts it is meant to connect.",)

BY_KIND: dict[str, tuple[str, ...]] = {
    "GoalMoveToLocation": ("First go to the place that the task names.",),
    "GoalMoveToNewLocation": ("First leave the room in which you start.",),
    "GoalInRoomWithObject": ("Search one room after the other for what the task needs.",),
    "GoalInRoomWithOpenDoor": ("Before you leave a room, open the doors that are closed.",),
    "GoalStayInLocation": ("Only leave the place that the task names when you are done.",),
    "GoalFind": _FIND,
    "GoalFocusOnLivingThing": _FOCUS,
    "GoalFocusOnNonlivingThing": _FOCUS,
    "GoalFocusOnPlant": _FOCUS,
    "GoalFocusOnAnimal": _FOCUS,
    "GoalFindLivingThingStage": _STAGE,
    "GoalFindInclinedPlane": _PLANE,
    "GoalFindInclinedPlaneNamed": _PLANE,
    "GoalFindAnswerBox": ("Before you focus on a box, find out what decides between the boxes.",),
    "GoalContainerByTemperature": ("Before you choose a container, measure the temperature.",),
    "GoalObjectInContainer": (*_HOLD, *_PUT),
    "GoalObjectInContainerByName": _PUT,
    "GoalObjectInDirectContainer": _PUT,
    "GoalSpecificObjectInDirectContainer": (*_HOLD, *_PUT),
    "GoalObjectsInSingleContainer": _TOGETHER,
    "GoalContainerOpen": ("When it may hold what you need, open the container.",),
    "GoalPastActionReadObject": ("Always read recipes and notes that you find.",),
    "GoalPastActionExamineObject": ("After each measurement, look at the object that shows its value.",),
    "GoalPastActionUseObjectOnObject": ("When you hold an instrument, use it on the substance.",),
    "GoalActivateDevice": _START,
    "GoalActivateDeviceWithName": _START,
    "GoalDeactivateDevice": _STOP,
    "GoalDeactivateDeviceWithName": _STOP,
    "GoalChangeStateOfMatter": _CHANGE,
    "GoalIsStateOfMatter": _CHANGE,
    "GoalIsNotStateOfMatter": _CHANGE,
    "GoalIsDifferentStateOfMatter": _CHANGE,
    "GoalTemperatureIncrease": _HEAT,
    "GoalTemperatureDecrease": _COOL,
    "GoalTemperatureOnFire": ("Try fire where no other heater does.",),
    "GoalLifeStage": _GROW,
    "GoalLifeStageAnywhere": _GROW,
    "GoalElectricallyConnected": _WIRES,
    "GoalObjectConnectedToWire": _WIRES,
    "GoalWireConnectsObjectAndAnyLightBulb": _WIRES,
    "GoalWireConnectsObjectAndAnyPowerSource": _WIRES,
    "GoalWireConnectsPowerSourceAndAnyLightBulb": _WIRES,
}
"""Class of goals (ScienceWorld 1.2.3, package ``scienceworld.goals.specificgoals``) to sentences; other classes give
no advice. Those that name no thing ("focus on it") hold for whatever a task is about."""
