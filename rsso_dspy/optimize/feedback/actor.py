"""The actor: what its action did, whether it went in circles, and whether a plan had warned it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rsso_dspy.optimize.action_advice import (
    MOST,
    ON_CIRCLES,
    ON_REPEATING,
    ON_TEMPLATES,
    Circle,
    find_circles,
    list_earning_actions,
    report_actions,
    suggest_lines,
)
from rsso_dspy.optimize.feedback.goals import report_goal_progress
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, list_mistakes, report_results
from rsso_dspy.optimize.feedback.remarks import Advice, Guess
from rsso_dspy.records import Step, Trajectory, TrialResult

_LED = 3
"""How many steps before a gain are named with it."""
_ANSWERED = re.compile(r"^(?:Next action|Action): (.*)$", re.M)


def judge_actor(call: PredictorCall) -> Iterator[str]:
    """Report on this answer first, then on the trials; further suggestions from the variant are guesses."""
    yield from _judge_answer(call)
    yield from report_results(call.trials)
    yield from report_goal_progress(call.goals, call.benchmark)
    yield from report_actions(call.trials, call.benchmark.grammar)
    yield from map(Guess, suggest_lines(call.trials, call.benchmark.grammar))


def find_answer_steps(outputs: Any, trials: Sequence[TrialResult]) -> list[Step]:
    """The steps that an actor's answer became: those with its reasoning and its action."""
    found = _match_steps(outputs, [result.trajectory for result in trials if result.trajectory is not None])
    return [trial.steps[index] for trial, index in found]


def _judge_answer(call: PredictorCall) -> Iterator[str]:
    if not call.get_output("next_action", "action").strip():
        yield "This answer held no action."
        yield Advice("Always give one action in the form of a template.")
        return
    found = _find_taken_step(call)
    if found is None:
        return
    trial, index = found
    yield from _report_effect(trial, index)
    yield from _check_against_plan(call, trial, index)
    if index + 1 == len(trial.steps):
        yield "It was the last action of its trial."


def _report_effect(trial: Trajectory, index: int) -> Iterator[str]:
    """Yield what the action gained, or why it gained nothing."""
    step = trial.steps[index]
    if step.reward:
        yield f"The score {'rose' if step.reward > 0 else 'fell'} by {abs(step.reward)} points at this action."
    before = [each.action for each in trial.steps[max(0, index - _LED) : index] if each.action]
    if step.reward > 0 and before:
        yield f"It came after: {', '.join(before)}; they may have brought the points."
    circle = _find_continued_circle(trial, index)
    if not step.understood:
        yield "This action was not understood."
        yield Advice(ON_TEMPLATES)
    elif circle:
        yield f"This action went on with a circle: the same {len(circle.actions)} actions again, with the same answers."
        yield Advice(ON_CIRCLES)
    elif any(_has_same_result(step, earlier) for earlier in trial.steps[:index]) and step.reward == 0:
        yield "This action repeated an earlier one, with the same answer and to no effect."
        yield Advice(ON_REPEATING)


def _find_continued_circle(trial: Trajectory, index: int) -> Circle | None:
    """The circle that this step continues; None in its first round, which may have been worth a try."""
    return next((each for each in find_circles(trial) if each.start + len(each.actions) <= index < each.end), None)


def _check_against_plan(call: PredictorCall, trial: Trajectory, index: int) -> Iterator[str]:
    """Report a right plan that was read and not followed: the actor's fault, not the reflector's."""
    plans = call.get_input("plans_from_past_attempts")
    step = trial.steps[index]
    if not plans:
        return
    if step in list_mistakes(trial) and call.wording.forbids_action(plans, step.action):
        yield "A plan from a past attempt forbids this very action, and it was taken all the same."
        yield Advice("Never do what a plan from past attempts forbids.")
    if index + 1 == len(trial.steps) and not trial.solved:
        done = {each.action for each in trial.steps}
        before = [each for each in call.trials if each.trial < trial.trial]
        left = [
            paid
            for paid in list_earning_actions(before)
            if paid not in done and call.wording.orders_action(plans, paid)
        ]
        if left:
            yield f"A plan orders {', '.join(left[:MOST])}, as that had earned points, and this trial never did it."
            yield Advice("First carry out what the plans from past attempts order.")


def _find_taken_step(call: PredictorCall) -> tuple[Trajectory, int] | None:
    """The step that this call's answer became; of several, the first that comes after the last answer in the history
    that the call read."""
    matches = _match_steps(call.outputs, call.trials)
    answers = _ANSWERED.findall(call.get_input("history"))
    last = answers[-1] if answers else None
    follows = [(trial, i) for trial, i in matches if (trial.steps[i - 1].action if i else None) == last]
    return next(iter(follows or matches), None)


def _match_steps(outputs: Any, trials: Iterable[Trajectory]) -> list[tuple[Trajectory, int]]:
    """Steps with the reasoning and the action of an answer."""
    thought = outputs.get("reasoning") or outputs.get("thought") or ""
    action = str(outputs.get("next_action") or outputs.get("action") or "")
    return [
        (trial, index)
        for trial in trials
        for index, step in enumerate(trial.steps)
        if not step.malformed and step.reasoning == thought and step.proposed in action
    ]


def _has_same_result(one: Step, other: Step) -> bool:
    return one.action == other.action and one.state.observation == other.state.observation
