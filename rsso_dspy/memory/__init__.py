"""What survives between trials. Pure data and algorithms: no language model, no DSPy in this room.

A memory receives what it needs as callables (reflect, verbalize, equivalent, embed). The Protocol is the whole
contract; adding a memory is one new file and one line in `programs/methods.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rsso_dspy.trajectory import State, Trajectory

__all__ = ["NOTHING", "Memory", "Recall"]


@dataclass(frozen=True, slots=True)
class Recall:
    """What a memory puts into its region of the prompt. An empty ``text`` means that the region is absent."""

    text: str = ""
    ids: tuple[str, ...] = ()
    """Ids of the items shown, in order."""
    targets: tuple[str, ...] = ()
    """What the actor may name as its subgoal, aligned with ``ids``."""


NOTHING = Recall()


class Memory(Protocol):
    """One memory of one unit. A fresh instance is empty; it is made anew for every unit and never shared.

    - ``region`` names the actor's input field this memory speaks in; no two memories share one.
    - ``preamble()`` is asked once per trial, before the first step (reflections, constitution).
    - ``recall(states)`` is asked before every step with the states of the trial so far, newest last (skills).
    - ``learn(trajectory)`` is told every finished trial and applies its own trigger. It returns counts for the
      record: JSON data, the same bytes for the same inputs.
    - ``snapshot()`` / ``restore(data)`` round-trip the whole memory as JSON data.
    - Language-model failures raised by the callables pass through unchanged; malformed answers are counted and
      skipped, never raised.
    """

    region: str

    def preamble(self) -> Recall: ...

    def recall(self, states: Sequence[State]) -> Recall: ...

    def learn(self, trajectory: Trajectory) -> dict[str, Any]: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, data: dict[str, Any]) -> None: ...
