"""Judges the reflector: whether the trial after its plan did better and, if not, whether the plan or the player was
wrong."""

from collections.abc import Iterator

from rsso_dspy.optimize.action_advice import MOST, list_earning_actions
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, list_mistakes, report_results
from rsso_dspy.optimize.feedback.remarks import Advice
from rsso_dspy.optimize.feedback.wording import WordingComparer
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.records import Trajectory


def judge_reflector(call: PredictorCall) -> Iterator[str]:
    """Judge a plan by the trial whose transcript was read and the next one, which read the plan."""
    yield from _judge_plan(call)
    yield from report_results(call.trials)


def _judge_plan(call: PredictorCall) -> Iterator[str]:
    read = call.get_input("transcript")
    position = next((i for i, trial in enumerate(call.trials) if is_transcript_of(read, trial)), None)
    if position is None:
        return
    before = call.trials[position]
    after = call.trials[position + 1] if position + 1 < len(call.trials) else None
    plan = call.get_output("plan")
    if after is not None:
        yield _compare_trials(before, after, plan, call.wording)
        yield from _report_costly_orders(after, plan, call.wording)
    yield from _report_mistakes(before, after, call.get_output("what_went_wrong"), plan, call.wording)
    forgotten = [action for action in list_earning_actions([before]) if not call.wording.names_action(plan, action)]
    if forgotten:
        yield f"The plan leaves out actions that earned points, such as {', '.join(forgotten[:MOST])}."
        yield Advice("Always list, in their order, the actions that earned points, word for word.")


def _compare_trials(before: Trajectory, after: Trajectory, plan: str, wording: WordingComparer) -> str:
    """The verdict, by points earned and by final score: points that are lost again are no gain. A plan that was not
    followed neither helped nor harmed."""
    old, new = (before.accumulator, before.environment_score), (after.accumulator, after.environment_score)
    if new[0] >= old[0] and new[1] >= old[1] and new != old:
        verdict = "the plan helped"
    elif _is_plan_ignored(before, after, plan, wording):
        verdict = "the player did not follow the plan"
    elif new == old:
        verdict = "the plan did not help"
    elif new[0] > old[0]:
        verdict = "the plan helped on the way and did harm in the end"
    elif new[1] > old[1]:
        verdict = "less was earned and less was lost"
    else:
        verdict = "the plan did harm"
    return (
        f"The trial reflected on earned {old[0]} points and ended at {old[1]}, the next one earned {new[0]} and ended "
        f"at {new[1]}: {verdict}."
    )


def _report_costly_orders(after: Trajectory, plan: str, wording: WordingComparer) -> Iterator[str]:
    """Report actions that the plan orders and that then cost points."""
    costly = {step.action: -step.reward for step in after.steps if step.reward < 0 and step.action}
    for action, points in list(costly.items())[:MOST]:
        if wording.orders_action(plan, action):
            yield f"The plan orders {action}, and that cost {points} points."
            yield Advice("Only order a final action after what the task asks to do before it.")


def _is_plan_ignored(before: Trajectory, after: Trajectory, plan: str, wording: WordingComparer) -> bool:
    """Whether the next trial made a mistake that the plan forbids, or left out an ordered action that had earned
    points."""
    done = {step.action for step in after.steps}
    again = any(
        step.action in _list_mistaken_actions(before) and wording.forbids_action(plan, step.action)
        for step in list_mistakes(after)
    )
    return again or any(
        action not in done and wording.orders_action(plan, action) for action in list_earning_actions([before])
    )


def _report_mistakes(
    before: Trajectory, after: Trajectory | None, wrong: str, plan: str, wording: WordingComparer
) -> Iterator[str]:
    """Report every mistake of the attempt as not named, named but not forbidden, or forbidden. Repeating a forbidden
    one is the player's fault."""
    again = {step.action for step in list_mistakes(after)} if after else set()
    for action in _list_mistaken_actions(before)[:MOST]:
        if not wording.names_action(f"{wrong}\n{plan}", action):
            yield f"The action {action} was a mistake, and the answer does not name it."
            yield Advice("Always name every action that cost points or was not understood.")
        elif action in again and wording.forbids_action(plan, action):
            yield f"The plan forbids the mistake {action}; that it was made again is the player's fault."
        elif action in again:
            yield f"The answer names the mistake {action}, its plan does not forbid it, and it was made again."
            yield Advice(
                "Always forbid a mistake in the plan itself, as a sentence of its own that begins with Do not."
            )


def _list_mistaken_actions(trial: Trajectory) -> list[str]:
    return list(dict.fromkeys(step.action for step in list_mistakes(trial)))
