"""Describes how an attempt ended and what its steps earned, in plain words.

    tell_outcome(trajectory)
    # Step 9, focus on wood cup, ended the attempt for good: it was the wrong choice (-150 points, to -100 of 100).
    # Until then it had 50 of 100 points: +30 at step 1, +10 at step 5, +10 at step 8.

The step budget is never named.
"""

import re
from collections.abc import Sequence

from rsso_dspy.programs.transcript import UNREADABLE
from rsso_dspy.records import SOLVED_SCORE, Step, Trajectory

FEW = 3
"""Minimum number of final steps without points that a sentence mentions."""


def tell_outcome(trajectory: Trajectory) -> str:
    """Describe the end of an attempt and the points of every step that changed them."""
    steps = trajectory.steps
    if not steps:
        return "The attempt was over before its first step."
    last, score = len(steps), trajectory.environment_score
    step = f"step {last}, {name_action(steps, last - 1)},"
    points = _list_points(trajectory, last)
    if trajectory.outcome == "failed" and steps[-1].reward < 0:
        lost = steps[-1].reward
        return (
            f"{step.capitalize()} ended the attempt for good: it was the wrong choice ({lost:+d} points, to {score} of "
            f"{SOLVED_SCORE}). Until then it had {score - lost} of {SOLVED_SCORE} points: "
            f"{_list_points(trajectory, last - 1)}."
        )
    if trajectory.outcome == "solved":
        return f"Solved: {step} completed the task. Points: {points}."
    ending = {
        "failed": f"{step.capitalize()} ended the attempt for good",
        "stalled": f"{step.capitalize()} took the game too long, which ended the attempt",
        "repeated": f"The attempt was ended because the same action, {name_action(steps, last - 1)}, was repeated "
        "too often",
        "exhausted": "The attempt was ended because it went in circles",
        "budget": "The attempt ended with the task undone",
    }.get(trajectory.outcome, "The attempt was cut short")
    return f"{ending}, at {score} of {SOLVED_SCORE} points: {points}.{_describe_idle_end(steps)}"


def name_action(steps: Sequence[Step], index: int) -> str:
    """Return the action of a step; for the number of an option also the option's text."""
    action = steps[index].action or UNREADABLE
    if not index or not action.isdigit():
        return action
    option = re.search(rf"^\s*{action}:\s*(.+)$", steps[index - 1].state.observation, re.M)
    return f"{action} ({option[1].strip()})" if option else action


def _list_points(trajectory: Trajectory, last: int) -> str:
    held = [f"{trajectory.points_at_reset} held at the beginning"] if trajectory.points_at_reset else []
    changes = [
        f"{step.reward:+d} at step {number}"
        for number, step in enumerate(trajectory.steps[:last], start=1)
        if step.reward
    ]
    return ", ".join([*held, *changes]) if changes else ", ".join([*held, "no step earned any"])


def _describe_idle_end(steps: Sequence[Step]) -> str:
    """Describe final steps that earned nothing, if earlier ones did."""
    gains = [number for number, step in enumerate(steps, start=1) if step.reward > 0]
    idle = len(steps) - gains[-1] if gains else 0
    return f" The last {idle} steps earned nothing." if idle >= FEW else ""
