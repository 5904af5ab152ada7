"""Feedback on one predictor's call, for an optimizer that proposes instructions: facts, then advice.

Everything is computed from the trajectories, the score changes, which actions were understood, and the kinds of the
simulator's goals. Advice is imperative sentences about play in general or about actions that were seen to pay or to
cost; the variant, the step budget and the wording of the simulator's goals are never in it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.environments.scienceworld.progress import Goal
from rsso_dspy.optimize.advice import MOST, advice, earned
from rsso_dspy.programs.transcript import transcript
from rsso_dspy.trajectory import Step, Trajectory, TrialResult

_ANSWERED = re.compile(r"^(?:Next action|Action): (.*)$", re.M)
_ENTRY = re.compile(r"^(\d+)\. ", re.M)
_SUBGOAL = re.compile(r"^Subgoal \d+: (.+)\n((?: +\d+\. .+\n?)*)", re.M)
_ENDINGS = {
    "solved": "solved the task",
    "failed": "was ended by the environment",
    "budget": "ended with the task undone",
    "stalled": "brought the simulator to a standstill",
    "repeated": "was ended because one action was repeated over and over",
    "error": "was cut short",
}


@dataclass(frozen=True)
class Call:
    """One answer of one predictor, and the trials it was given in."""

    inputs: Mapping[str, Any]
    outputs: Any
    results: tuple[TrialResult, ...]
    goals: Sequence[Sequence[Goal]]
    """Per trial; empty when unknown."""

    @property
    def trials(self) -> tuple[Trajectory, ...]:
        return tuple(result.trajectory for result in self.results if result.trajectory is not None)

    def said(self, *names: str) -> str:
        """The first of these output fields that holds a text."""
        return next((str(text) for name in names if (text := self.outputs.get(name))), "")


def feedback(
    name: str,
    inputs: Mapping[str, Any],
    outputs: Any,
    trials: Sequence[TrialResult],
    progress: Sequence[Sequence[Goal]] = (),
) -> str:
    """What one call of the predictor ``name`` had to do with how the trials went, and what to do better.

    ``inputs`` and ``outputs`` are the call's fields by name; ``progress`` is the goals of every trial, empty when
    unknown. A predictor without a rule of its own gets the result of the trials alone.
    """
    call = Call(inputs, outputs, tuple(trials), progress)
    parts = [*_RULES.get(name, _nothing)(call), *_results(call.trials)]
    if name == "actor":
        parts += advice(call.trials, call.goals)
    return "\n".join(dict.fromkeys(parts))


def steps_of(outputs: Any, trials: Sequence[TrialResult]) -> list[Step]:
    """The steps that an actor's answer became: those with its reasoning and its action."""
    found = _matches(outputs, [result.trajectory for result in trials if result.trajectory is not None])
    return [trial.steps[index] for trial, index in found]


def _nothing(_call: Call) -> Iterator[str]:
    yield from ()


def _results(trials: Sequence[Trajectory]) -> Iterator[str]:
    for each in trials:
        yield f"Trial {each.trial} {_ENDINGS[each.outcome]}, at {each.environment_score} of 100 points."


# The actor: what its action did.


def _actor(call: Call) -> Iterator[str]:
    if not call.said("next_action", "action").strip():
        yield "This answer held no action. Always give one action in the form of a template."
        return
    found = _taken(call)
    if found is None:
        return
    trial, index = found
    step = trial.steps[index]
    if step.reward:
        yield f"This action {'earned' if step.reward > 0 else 'cost'} {abs(step.reward)} points."
    if not step.understood:
        yield "This action was not understood. Always use a template, with names as the observations give them."
    elif any(_same(step, earlier) for earlier in trial.steps[:index]) and step.reward == 0:
        yield "This action repeated an earlier one, with the same answer and to no effect."
    if index + 1 == len(trial.steps):
        yield "It was the last action of its trial."


def _taken(call: Call) -> tuple[Trajectory, int] | None:
    """The step that this call's answer became; of several, the first that comes after the last answer in the history
    that the call read."""
    matches = _matches(call.outputs, call.trials)
    answers = _ANSWERED.findall(str(call.inputs.get("history", "")))
    last = answers[-1] if answers else None
    follows = [(trial, i) for trial, i in matches if (trial.steps[i - 1].action if i else None) == last]
    return next(iter(follows or matches), None)


def _matches(outputs: Any, trials: Iterable[Trajectory]) -> list[tuple[Trajectory, int]]:
    """Steps with the reasoning and the action of an answer."""
    thought = outputs.get("reasoning") or outputs.get("thought") or ""
    action = str(outputs.get("next_action") or outputs.get("action") or "")
    return [
        (trial, index)
        for trial in trials
        for index, step in enumerate(trial.steps)
        if not step.malformed and step.reasoning == thought and step.proposed in action
    ]


def _same(one: Step, other: Step) -> bool:
    return one.action == other.action and one.state.observation == other.state.observation


# The reflector.


def _reflector(call: Call) -> Iterator[str]:
    read = str(call.inputs.get("transcript", ""))
    position = next((i for i, trial in enumerate(call.trials) if transcript(trial) == read), None)
    if position is None:
        return
    before = call.trials[position]
    after = call.trials[position + 1] if position + 1 < len(call.trials) else None
    if after is not None:
        yield _compared(before, after)
    plan = call.said("plan").lower()
    yield from _mistakes(before, after, f"{call.said('what_went_wrong').lower()}\n{plan}")
    forgotten = [action for action in earned([before]) if action not in plan]
    if forgotten:
        yield f"The plan leaves out actions that earned points, such as {', '.join(forgotten[:MOST])}."
        yield "Always list, in their order, the actions that earned points, word for word."


def _compared(before: Trajectory, after: Trajectory) -> str:
    old, new = before.accumulator, after.accumulator
    verdict = "the plan helped" if new > old else "the plan did harm" if new < old else "the plan did not help"
    return f"The trial reflected on earned {old} points, the next one {new}: {verdict}."


def _mistakes(before: Trajectory, after: Trajectory | None, named: str) -> Iterator[str]:
    """Actions that cost points or were not understood: whether the answer names them, and whether they were done
    again."""
    again = {step.action for step in _wrong(after)} if after else set()
    for action in list(dict.fromkeys(step.action for step in _wrong(before)))[:MOST]:
        if action not in named:
            yield f"The action {action} was a mistake, and the answer does not name it."
            yield "Always name every action that cost points or was not understood."
        elif action in again:
            yield f"The answer names the mistake {action}, and yet it was made again."
            yield "Always forbid a mistake in the plan itself, as a sentence of its own that begins with Do not."


def _wrong(trial: Trajectory) -> list[Step]:
    actions = [step for step in trial.steps if step.action and not step.action.isdigit()]
    return [step for step in actions if step.reward < 0 or not step.understood]


# The verbalizer.


def _skill(call: Call) -> Iterator[str]:
    """Use of the skill whose target or steps this call wrote: shown, pursued, followed by points."""
    target, steps = call.said("target").strip(), [str(step) for step in call.outputs.get("steps") or ()]
    ids = {skill for skill, shown in _shown(call.results) if _is(shown, target, steps)}
    targets = {shown[0] for _, shown in _shown(call.results) if _is(shown, target, steps)}
    seen = sum(bool(ids & set(step.recalled)) for trial in call.trials for step in trial.steps)
    pursued = [
        any(later.reward > 0 for later in trial.steps[index:])
        for trial in call.trials
        for index, step in enumerate(trial.steps)
        if step.subgoal in targets
    ]
    yield f"The skill was offered at {seen} steps and pursued at {len(pursued)}; points followed on {sum(pursued)}."
    if seen and not pursued:
        yield "Always word a skill by what the player wants to reach, so that it is chosen."
    elif pursued and not any(pursued):
        yield "Only keep the steps that the points depended on, and end with the one that earned them."
    elif any(pursued):
        yield "Keep skills as short and concrete as this one."


def _shown(results: Iterable[TrialResult]) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Id, target and steps of every skill that stood in a prompt."""
    for result in results:
        for region, text in result.shown.items():
            name, _, ids = region.partition(":")
            if name == "skills":
                for skill, (target, body) in zip(ids.split(","), _SUBGOAL.findall(text), strict=False):
                    yield skill, (target, re.findall(r"^ +\d+\. (.+)$", body, re.M))


def _is(shown: tuple[str, list[str]], target: str, steps: Sequence[str]) -> bool:
    return " ".join(target.split()) == shown[0] if target else bool(steps) and list(steps) == shown[1]


def _equivalence(call: Call) -> Iterator[str]:
    known = len(_ENTRY.findall(str(call.inputs.get("library", ""))))
    given = list(call.outputs.get("equivalent") or ())
    outside = [number for number in given if not 1 <= number <= known]
    inside = [number for number in given if 1 <= number <= known]
    yield f"The new skill was called {f'the same as number {inside[0]}' if inside else 'new'}."
    if outside:
        yield f"There is no skill number {outside[0]}. Only give numbers that stand in the library."


_RULES: dict[str, Callable[[Call], Iterator[str]]] = {
    "actor": _actor,
    "reflector": _reflector,
    "skill_instructions": _skill,
    "skill_target": _skill,
    "skill_equivalence": _equivalence,
}
"""Predictor to the rule that knows what its answers are for."""
