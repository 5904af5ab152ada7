"""The reflector: whether the trial after its plan did better, and, if not, whether the plan or the player was wrong."""

from collections.abc import Iterator

from rsso_dspy.optimize.advice import MOST, earned
from rsso_dspy.optimize.feedback.call import Call, mistakes, results
from rsso_dspy.optimize.feedback.wording import Wording
from rsso_dspy.programs.transcript import transcript
from rsso_dspy.trajectory import Trajectory


def reflector(call: Call) -> Iterator[str]:
    """The attempt reflected on is the one whose transcript was read; the trial after it read the plan."""
    yield from _judged(call)
    yield from results(call.trials)


def _judged(call: Call) -> Iterator[str]:
    read = call.read("transcript")
    position = next((i for i, trial in enumerate(call.trials) if transcript(trial) == read), None)
    if position is None:
        return
    before = call.trials[position]
    after = call.trials[position + 1] if position + 1 < len(call.trials) else None
    plan = call.said("plan")
    if after is not None:
        yield _compared(before, after, plan, call.wording)
    yield from _blamed(before, after, call.said("what_went_wrong"), plan, call.wording)
    forgotten = [action for action in earned([before]) if not call.wording.names(plan, action)]
    if forgotten:
        yield f"The plan leaves out actions that earned points, such as {', '.join(forgotten[:MOST])}."
        yield "Always list, in their order, the actions that earned points, word for word."


def _compared(before: Trajectory, after: Trajectory, plan: str, wording: Wording) -> str:
    """The verdict. A plan that was not followed neither helped nor did harm."""
    old, new = before.accumulator, after.accumulator
    if new > old:
        verdict = "the plan helped"
    elif _ignored(before, after, plan, wording):
        verdict = "the player did not follow the plan"
    else:
        verdict = "the plan did harm" if new < old else "the plan did not help"
    return f"The trial reflected on earned {old} points, the next one {new}: {verdict}."


def _ignored(before: Trajectory, after: Trajectory, plan: str, wording: Wording) -> bool:
    """The next trial made a mistake that the plan forbids, or did not do what the plan orders and what had paid."""
    done = {step.action for step in after.steps}
    again = any(step.action in _actions(before) and wording.forbids(plan, step.action) for step in mistakes(after))
    return again or any(action not in done and wording.orders(plan, action) for action in earned([before]))


def _blamed(before: Trajectory, after: Trajectory | None, wrong: str, plan: str, wording: Wording) -> Iterator[str]:
    """Every mistake of the attempt: not named, named and not forbidden, or forbidden. The last is the player's own."""
    again = {step.action for step in mistakes(after)} if after else set()
    for action in _actions(before)[:MOST]:
        if not wording.names(f"{wrong}\n{plan}", action):
            yield f"The action {action} was a mistake, and the answer does not name it."
            yield "Always name every action that cost points or was not understood."
        elif action in again and wording.forbids(plan, action):
            yield f"The plan forbids the mistake {action}; that it was made again is the player's fault."
        elif action in again:
            yield f"The answer names the mistake {action}, its plan does not forbid it, and it was made again."
            yield "Always forbid a mistake in the plan itself, as a sentence of its own that begins with Do not."


def _actions(trial: Trajectory) -> list[str]:
    return list(dict.fromkeys(step.action for step in mistakes(trial)))
