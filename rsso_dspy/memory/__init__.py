"""Memories: what survives between trials, as pure data and algorithms without a language model or DSPy.

A memory receives models as callables (reflect, verbalize, equivalent, embed, a rule writer). The Protocol is the whole
contract; to add a memory, see docs/ADD_MEMORY.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rsso_dspy.records import State, Step, Trajectory, Variant

__all__ = ["NOTHING", "Memory", "Recall"]


@dataclass(frozen=True, slots=True)
class Recall:
    """A memory's contribution to the prompt. With an empty ``text`` the region is absent."""

    text: str = ""
    ids: tuple[str, ...] = ()
    """Ids of the shown items, in order."""
    targets: tuple[str, ...] = ()
    """Subgoals that the actor may name, aligned with ``ids``."""
    progress: str = ""
    """What is done and left in the current task; shown with the task, not in the memory's region."""


NOTHING = Recall()


class Memory(Protocol):
    """One memory of one unit. Each unit creates a new, empty instance, which is never shared.

    - ``region`` names the actor's input field that this memory fills; no two memories share one.
    - ``begin_trial(variant, task)``, where a memory has it, is called when a trial begins, before everything else, and
      again when it is replayed: what a memory of a stream may show depends on the variant that is played.
    - ``preamble()`` is called once per trial, before the first step (reflections). A trial that is replayed because its
      simulator died calls it again; discard then what was observed in between.
    - ``recall(states)`` is called before every step with the states of the trial so far, newest last (skills,
      constitution).
    - ``observe(variant, task, states, steps)`` is called after every step except the last, unless memories are frozen
      (constitution). ``states[i + 1]`` follows ``steps[i]``.
    - ``learn(trajectory)`` is called after every finished trial and decides itself whether to learn. It returns counts
      for the record: JSON data, the same bytes for the same inputs.
    - ``snapshot()`` / ``restore(data)`` round-trip the whole memory as JSON data.
    - Errors raised by the callables pass through unchanged; malformed answers are counted and skipped, never raised.

    Subclasses inherit ``preamble``, ``recall`` and ``observe``, which do nothing.
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
