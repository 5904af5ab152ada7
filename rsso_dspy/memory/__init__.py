"""What survives between trials. Pure data and algorithms: no language model, no DSPy in this room.

A memory receives what it needs as callables (reflect, verbalize, equivalent, embed, a writer of rules). The Protocol is
the whole contract; adding a memory is one new file and one line in `programs/methods.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rsso_dspy.records import State, Step, Trajectory, Variant

__all__ = ["NOTHING", "Memory", "Recall"]


@dataclass(frozen=True, slots=True)
class Recall:
    """What a memory puts into its region of the prompt. An empty ``text`` means that the region is absent."""

    text: str = ""
    ids: tuple[str, ...] = ()
    """Ids of the items shown, in order."""
    targets: tuple[str, ...] = ()
    """What the actor may name as its subgoal, aligned with ``ids``."""
    progress: str = ""
    """What is done and left in the present task; it stands with the task, not in the memory's own region."""


NOTHING = Recall()


class Memory(Protocol):
    """One memory of one unit. A fresh instance is empty; it is made anew for every unit and never shared.

    - ``region`` names the actor's input field this memory speaks in; no two memories share one.
    - ``preamble()`` is asked once per trial, before the first step (reflections). A trial that is played again, since
      its simulator died, begins with it again: what was noticed in between is to be forgotten.
    - ``recall(states)`` is asked before every step with the states of the trial so far, newest last (skills,
      constitution).
    - ``observe(variant, task, states, steps)`` is told after every step after which the trial goes on, unless memories
      are frozen (constitution). ``states[i + 1]`` follows ``steps[i]``.
    - ``learn(trajectory)`` is told every finished trial and applies its own trigger. It returns counts for the
      record: JSON data, the same bytes for the same inputs.
    - ``snapshot()`` / ``restore(data)`` round-trip the whole memory as JSON data.
    - Language-model failures raised by the callables pass through unchanged; malformed answers are counted and
      skipped, never raised.

    A class that names it as its base need not write ``preamble``, ``recall`` and ``observe``: they say and do nothing.
    """

    region: str

    def preamble(self) -> Recall:
        return NOTHING

    def recall(self, states: Sequence[State]) -> Recall:  # noqa: ARG002
        return NOTHING

    def observe(self, variant: Variant, task: str, states: Sequence[State], steps: Sequence[Step]) -> None:  # noqa: ARG002
        return None

    def learn(self, trajectory: Trajectory) -> dict[str, Any]: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, data: dict[str, Any]) -> None: ...
