"""What was seen and done, as text for a prompt: the history window, a whole attempt, its outcome, skill examples."""

import re
from collections.abc import Callable, Sequence

from rsso_dspy.environments import Interface
from rsso_dspy.programs.sights import shorten_sights
from rsso_dspy.records import State, Step, Trajectory
from rsso_dspy.signatures.layouts import Layout, find_first_state

NO_SUBGOAL = "none"
UNREADABLE = "(no action could be read from the answer)"


def render_history(
    states: Sequence[State],
    steps: Sequence[Step],
    render: Callable[[Sequence[State]], list[str]],
    scaffold: str,
    layout: Layout = "paper",
    interface: Interface = "sso",
) -> str:
    """The last states (`first_state` says which) with the answers between them, newest last; ``states[i + 1]`` follows
    ``steps[i]``. The action shown is the one that was sent, not the one that was written. Under `complete` steps have
    the numbers that they have in the trial, in both scaffolds, and a line says which are no longer shown."""
    first = find_first_state(len(states), layout)
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
"""Ahead of a history that has lost its beginning."""


def _format_answer(step: Step, scaffold: str, complete: bool = False) -> str:
    action = step.action or UNREADABLE
    if scaffold == "flat":
        return f"Thought: {step.reasoning}\nAction: {action}"
    subgoal = f"\nCurrent subgoal: {step.subgoal or NO_SUBGOAL}" if step.recalled or not complete else ""
    return f"Reasoning: {step.reasoning}{subgoal}\nNext action: {action}"


Render = Callable[[Sequence[State]], list[str]]
"""The text of each state of a stretch, as the actor's history shows it."""


def render_transcript(trajectory: Trajectory, render: Render | None = None) -> str:
    """A whole attempt: every action, numbered, with what was seen after it; with `render` also what was in sight."""
    return _format_steps(trajectory.start, trajectory.steps, 0, render)


def is_transcript_of(text: str, trajectory: Trajectory) -> bool:
    """Whether a text is the whole transcript of an attempt, in any form."""
    wanted = [(str(number), step.action or UNREADABLE) for number, step in enumerate(trajectory.steps, start=1)]
    return _STEPS.findall(text) == wanted


_STEPS = re.compile(r"^Step (\d+)\. > (.*)$", re.M)

LONGEST_STRETCH = 50
"""Steps that a rule writer reads at most, the newest: as many as an episode of OmniReflect has (section 3.2)."""


def render_recent_steps(states: Sequence[State], steps: Sequence[Step], render: Render | None = None) -> str:
    """An attempt as far as it went, or the newest part of a long one."""
    first = max(0, len(steps) - LONGEST_STRETCH)
    return _format_steps(states[first], steps[first:], first, render)


def _format_steps(start: State, steps: Sequence[Step], before: int, render: Render | None) -> str:
    """From a start on, with so many steps of the attempt before it."""
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
    "error": "Failed: the attempt was cut short",
}


def describe_outcome(trajectory: Trajectory) -> str:
    """How the attempt ended, for the reflector. The step budget itself is never named. `outcome.py` says it in plain
    words."""
    changes = [f"step {i} ({step.reward:+d})" for i, step in enumerate(trajectory.steps, start=1) if step.reward]
    text = f"{_ENDINGS[trajectory.outcome]} at an environment score of {trajectory.environment_score} of 100."
    if changes:
        return f"{text} The score changed at: {', '.join(changes)}."
    return f"{text} The score never changed."


def render_example(states: Sequence[State], actions: Sequence[str]) -> str:
    """One excerpt for the verbalizer: first state in full, each action with its observation, last state in full."""
    lines = [f"Initial state:\n{states[0].description}"]
    for number, (action, state) in enumerate(zip(actions, states[1:], strict=True), start=1):
        lines.append(f"Action {number}: {action}\nObservation {number}: {state.observation}")
    lines.append(f"Final state:\n{states[-1].description}")
    return "\n".join(lines)
