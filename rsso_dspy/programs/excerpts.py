"""Examples of a skill as the calls of its verbalizer read them under the interface `complete`: each thing once.

    render_excerpts(windows, "whole")       # for the summary
    render_excerpts(windows, "actions")     # for the instructions: what was done and what came of it
    render_excerpts(windows, "ends")        # for the target: what the last action changed

A final state is told by what the first one lacks, and an excerpt by what the one before it lacks. Actions always stand.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from rsso_dspy.memory.skills import Window
from rsso_dspy.records import State

Part = Literal["whole", "actions", "ends"]

FINAL = "Final state:"
NEW = "Final state, where it is not as the initial state:"
GONE = "No longer there:"
AS_BEFORE = "(What is as in excerpt {number} is left out.)"


def render_excerpts(examples: Sequence[Window], part: Part = "whole") -> str:
    """The excerpts, numbered from 1."""
    texts = []
    for number, window in enumerate(examples, start=1):
        before = examples[number - 2] if number > 1 else None
        lines = [f"Excerpt {number}"]
        if before is not None:
            lines.append(AS_BEFORE.format(number=number - 1))
        if part == "whole":
            lines += _render_beginning(window, before)
        lines += _render_actions(window, before, len(window.actions) - 1 if part == "ends" else 0)
        if part != "actions":
            lines += _render_end(window, before)
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _render_beginning(window: Window, before: Window | None) -> list[str]:
    if before is None:
        return ["Initial state:", window.states[0].description]
    new = _subtract(_lines(window.states[0]), _lines(before.states[0]))
    return ["Initial state:", *new] if new else []


def _render_actions(window: Window, before: Window | None, first: int) -> list[str]:
    """Every action from the first that is wanted on, and what came of it unless the same came of the same before."""
    known = dict(enumerate(zip(before.actions, before.states[1:], strict=True))) if before else {}
    lines = []
    for index, (action, state) in enumerate(zip(window.actions, window.states[1:], strict=True)):
        if index < first:
            continue
        lines.append(f"Action {index + 1}: {action}")
        if index not in known or known[index][1].observation != state.observation:
            lines.append(f"Observation {index + 1}: {state.observation}")
    return lines


def _render_end(window: Window, before: Window | None) -> list[str]:
    changes = _list_changes(window)
    return [] if before is not None and changes == _list_changes(before) else changes


def _list_changes(window: Window) -> list[str]:
    """What the final state has and the initial one has not, and the other way round; of another room all of it."""
    first, last = window.states[0], window.states[-1]
    if _get_place(first) != _get_place(last):
        return [FINAL, *_lines(last)]
    new, gone = _subtract(_lines(last), _lines(first)), _subtract(_lines(first), _lines(last))
    return [*([NEW, *new] if new else []), *([GONE, *gone] if gone else [])]


def _lines(state: State) -> list[str]:
    """What can be seen and what is carried, a line each, less what an action was answered."""
    return [line.rstrip() for line in f"{state.look}\n{state.inventory}".splitlines() if line.strip()]


def _get_place(state: State) -> str:
    return state.look.split("\n", 1)[0]


def _subtract(lines: Sequence[str], known: Sequence[str]) -> list[str]:
    """The lines that are not known, or stand there more often."""
    left = Counter(known)
    new = []
    for line in lines:
        if left[line]:
            left[line] -= 1
        else:
            new.append(line)
    return new
