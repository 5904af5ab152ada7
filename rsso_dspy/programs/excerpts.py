"""Formats the examples of a skill for the verbalizer under the interface `complete`, without repetition.

    render_excerpts(windows, "whole")       # for the summary
    render_excerpts(windows, "actions")     # for the instructions: actions and their observations
    render_excerpts(windows, "ends")        # for the target: changes by the last action

A final state shows only differences from the first one, and an excerpt only differences from the previous one. Actions
are always shown.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from rsso_dspy.memory.skills.skill import Window
from rsso_dspy.records import State

Part = Literal["whole", "actions", "ends"]

FINAL = "Final state:"
NEW = "Final state, where it is not as the initial state:"
GONE = "No longer there:"
AS_BEFORE = "(What is as in excerpt {number} is left out.)"


def render_excerpts(examples: Sequence[Window], part: Part = "whole") -> str:
    """Format the excerpts, numbered from 1."""
    texts = []
    for number, window in enumerate(examples, start=1):
        before = examples[number - 2] if number > 1 else None
        lines = [f"Excerpt {number}"]
        if before is not None:
            lines.append(AS_BEFORE.format(number=number - 1))
        if part == "whole":
            lines += _render_beginning(window, before)
        lines += _render_actions(window, before, len(window.actions) - 1 if part == "ends" else 0)
        changes = _list_changes(window) if part != "actions" else []
        lines += [] if before is not None and changes == _list_changes(before) else changes
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _render_beginning(window: Window, before: Window | None) -> list[str]:
    if before is None:
        return ["Initial state:", window.states[0].description]
    new = _subtract(_lines(window.states[0]), _lines(before.states[0]))
    return ["Initial state:", *new] if new else []


def _render_actions(window: Window, before: Window | None, first: int) -> list[str]:
    """Format the actions from index `first` on, with observations that differ from those of the previous excerpt."""
    known = dict(enumerate(zip(before.actions, before.states[1:], strict=True))) if before else {}
    lines = []
    for index, (action, state) in enumerate(zip(window.actions, window.states[1:], strict=True)):
        if index < first:
            continue
        lines.append(f"Action {index + 1}: {action}")
        if index not in known or known[index][1].observation != state.observation:
            lines.append(f"Observation {index + 1}: {state.observation}")
    return lines


def _list_changes(window: Window) -> list[str]:
    """List the lines added and removed between the initial and the final state; all lines if the room differs."""
    first, last = window.states[0], window.states[-1]
    if _get_place(first) != _get_place(last):
        return [FINAL, *_lines(last)]
    new, gone = _subtract(_lines(last), _lines(first)), _subtract(_lines(first), _lines(last))
    return [*([NEW, *new] if new else []), *([GONE, *gone] if gone else [])]


def _lines(state: State) -> list[str]:
    """Return the lines of surroundings and inventory, without the observation."""
    return [line.rstrip() for line in f"{state.look}\n{state.inventory}".splitlines() if line.strip()]


def _get_place(state: State) -> str:
    return state.look.split("\n", 1)[0]


def _subtract(lines: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the lines that are not known, or occur more often than known."""
    left = Counter(known)
    new = []
    for line in lines:
        if left[line]:
            left[line] -= 1
        else:
            new.append(line)
    return new
