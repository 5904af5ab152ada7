"""Verbal reflection: after a failed trial, one plan for the next (Reflexion, Shinn et al. 2023, section 3).

    memory = ReflectionMemory(reflect)      # (trajectory, earlier plans) -> plan, or None for a malformed answer
    memory.learn(failed)                    # {"written": 1, ...}
    memory.preamble().text                  # "Attempt 1: ..."

Plans are kept first in, first out, and read at the start of a trial.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rsso_dspy.memory import NOTHING, Recall
from rsso_dspy.records import State, Step, Trajectory, Variant

__all__ = ["Reflect", "ReflectionMemory"]

Reflect = Callable[[Trajectory, tuple[str, ...]], str | None]
"""Writes a plan from a failed trial and the plans held, oldest first; None for a malformed answer. Errors pass
through."""


class ReflectionMemory:
    """The last ``size`` plans, written after trials below 100 points and read once per trial.

    ``size`` is 3 in the release of Reflexion and in the paper. A plan keeps the number of the trial
    that it was written after.
    """

    region = "plans_from_past_attempts"

    def __init__(self, reflect: Reflect, size: int = 3):
        if size < 1:
            raise ValueError(
                f"the size of a reflection memory must be at least 1, not {size}; to disable it, remove the memory"
            )
        self._reflect = reflect
        self._plans: deque[tuple[int, str]] = deque(maxlen=size)

    @property
    def plans(self) -> tuple[tuple[int, str], ...]:
        """(trial, plan), oldest first."""
        return tuple(self._plans)

    def preamble(self) -> Recall:
        """Return every plan under the number of its trial, oldest first; absent if there is none."""
        return Recall(
            text="\n\n".join(f"Attempt {trial}: {plan}" for trial, plan in self._plans),
            ids=tuple(f"attempt-{trial}" for trial, _ in self._plans),
        )

    def recall(self, states: Sequence[State]) -> Recall:  # noqa: ARG002 - this memory speaks once per trial
        return NOTHING

    def observe(self, variant: Variant, task: str, states: Sequence[State], steps: Sequence[Step]) -> None:
        """Do nothing: plans are written after a trial."""

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts of this trial: ``calls`` made, plans ``written``, answers ``malformed``; plans ``held`` now."""
        counts = {"calls": 0, "written": 0, "malformed": 0}
        if not trajectory.solved:
            counts["calls"] = 1
            plan = self._reflect(trajectory, tuple(text for _, text in self._plans))
            if plan is None or not plan.strip():
                counts["malformed"] = 1
            else:
                counts["written"] = 1
                self._plans.append((trajectory.trial, plan.strip()))
        return {**counts, "held": len(self._plans)}

    def snapshot(self) -> dict[str, Any]:
        return {"plans": [{"trial": trial, "plan": plan} for trial, plan in self._plans]}

    def restore(self, data: dict[str, Any]) -> None:
        self._plans.clear()
        self._plans.extend((entry["trial"], entry["plan"]) for entry in data["plans"])
