"""Formats play for prompts: the history window, a whole attempt, its outcome, and examples of a skill."""

import re
from collections.abc import Callable, Sequence

from rsso_dspy.environments import Interface
from rsso_dspy.programs.sights import shorten_sights
from rsso_dspy.records import State, Step, Trajectory

HISTORY_STATES = 10
"""States in the history window (SSO reference, max_history)."""

NO_SUBGOAL = "none"
UNREADABLE = "(no action could be read from the answer)"


def render_history(
    states: Sequence[State],
    steps: Sequence[Step],
    render: Callable[[Sequence[State]], list[str]],
    scaffold: str,
    interface: Interface = "sso",
) -> str:
    """Format the last `HISTORY_STATES` states and the answers between them, newest last.

    ``states[i + 1]`` follows ``steps[i]``. Actions are shown as sent, not as written. Under `complete`, steps have
    their numbers of the trial in both scaffolds, and a line says which steps are no longer shown.
    """
    first = max(0, len(states) - HISTORY_STATES)
    complete = interface == "complete"
    parts = [LATEST.format(first=first + 1)] if complete and first else []
    for number, text in enumerate(render(states[first:]), start=1):
        index = first + number - 1
        heading = f"Step {index + 1}:" if complete else f"Step #{number}:" if scaffold == "sso" else ""
        parts.append(f"{heading}\n{text}" if heading else text)
        if index < len(steps):
            parts.append(_format_answer(steps[index], scaffold, complete))
    return "\n\n".join(parts)


LATEST = "Only the last steps are shown, from step {first} on; you took the ones before as well."
"""Said before a history that has lost its beginning."""


def _format_answer(step: Step, scaffold: str, complete: bool = False) -> str:
    action = step.action or UNREADABLE
    if scaffold == "flat":
        return f"Thought: {step.reasoning}\nAction: {action}"
    subgoal = f"\nCurrent subgoal: {step.subgoal or NO_SUBGOAL}" if step.recalled or not complete else ""
    return f"Reasoning: {step.reasoning}{subgoal}\nNext action: {action}"


Render = Callable[[Sequence[State]], list[str]]
"""Returns the text of each state of a stretch, as shown in the actor's history."""


def render_transcript(trajectory: Trajectory, render: Render | None = None) -> str:
    """Format a whole attempt: every action, numbered, with its observation; with `render` also what was in sight."""
    return _format_steps(trajectory.start, trajectory.steps, 0, render)


def is_transcript_of(text: str, trajectory: Trajectory) -> bool:
    """Return whether a text is the whole transcript of an attempt, in any form."""
    wanted = [(str(number), step.action or UNREADABLE) for number, step in enumerate(trajectory.steps, start=1)]
    return _STEPS.findall(text) == wanted


_STEPS = re.compile(r"^Step (\d+)\. > (.*)$", re.M)

LONGEST_STRETCH = 50
"""Maximum number of steps that a rule writer reads, the newest ones: the length of OmniReflect's episodes (section
3.2)."""


def render_recent_steps(states: Sequence[State], steps: Sequence[Step], render: Render | None = None) -> str:
    """Format an unfinished attempt, or the newest part of a long one."""
    first = max(0, len(steps) - LONGEST_STRETCH)
    return _format_steps(states[first], steps[first:], first, render)


def _format_steps(start: State, steps: Sequence[Step], before: int, render: Render | None) -> str:
    """Format steps from a start state on, which has `before` steps before it."""
    states = [start, *(step.state for step in steps)]
    if render is None:
        shown = [f"{start.look}\n{start.inventory}", *(state.observation for state in states[1:])]
    else:
        shown = shorten_sights(states, render(states), before)
    lines = [shown[0]]
    for number, (step, seen) in enumerate(zip(steps, shown[1:], strict=True), start=before + 1):
        lines.append(f"Step {number}. > {step.action or UNREADABLE}\n{seen}")
    return "\n".join(lines)


_ENDINGS = {
    "solved": "Solved: the task was completed",
    "failed": "Failed: the environment ended the attempt",
    "budget": "Failed: the attempt ended with the task undone",
    "stalled": "Failed: the simulator came to a standstill",
    "repeated": "Failed: the same action was repeated too often",
    "exhausted": "Failed: the attempt went in circles",
    "error": "Failed: the attempt was cut short",
}


def describe_outcome(trajectory: Trajectory) -> str:
    """Describe for the reflector how the attempt ended, without naming the step budget. `outcome.py` is the version for
    the interface `complete`."""
    changes = [f"step {i} ({step.reward:+d})" for i, step in enumerate(trajectory.steps, start=1) if step.reward]
    text = f"{_ENDINGS[trajectory.outcome]} at an environment score of {trajectory.environment_score} of 100."
    if changes:
        return f"{text} The score changed at: {', '.join(changes)}."
    return f"{text} The score never changed."


def render_example(states: Sequence[State], actions: Sequence[str]) -> str:
    """Format one excerpt for the verbalizer: first state, each action with its observation, last state."""
    lines = [f"Initial state:\n{states[0].description}"]
    for number, (action, state) in enumerate(zip(actions, states[1:], strict=True), start=1):
        lines.append(f"Action {number}: {action}\nObservation {number}: {state.observation}")
    lines.append(f"Final state:\n{states[-1].description}")
    return "\n".join(lines)
