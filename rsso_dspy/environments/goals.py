"""Goal progress of a variant, for the feedback of a compile, where an environment offers it.

Only calibration reads it. A goal has a kind and a status but no content, so no goal, feedback or prompt derived from it
can reveal an answer.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of a variant: its kind and status, without its content."""

    kind: str
    """The environment's class of goals, e.g. ``GoalMoveToLocation``."""
    done: bool
    required: bool
    """Whether the goal is required, in order, to solve the variant; False for an optional one."""


@runtime_checkable
class GoalProgress(Protocol):
    """Optional member of an `Environment`."""

    def goal_progress(self) -> tuple[Goal, ...]:
        """Return the goals of the current variant with their status after the last action, in a fixed order.

        Empty if unknown. Raises ``SplitError`` for a variant of the test split.
        """
        ...
