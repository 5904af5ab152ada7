"""How far a variant has been brought, goal by goal, where an environment can tell: what feedback in a compile goes by.

Only calibration reads it. A goal says what sort it is and whether it was reached, never what it is about: no goal,
feedback or prompt made of it can name an answer.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Goal", "GoalProgress"]


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal of a variant: what sort it is and whether it was reached, never what it is about."""

    kind: str
    """The environment's class of goals, e.g. ``GoalMoveToLocation``."""
    done: bool
    required: bool
    """One of the goals that solve the variant, to be reached in their order; False for one that helps on the way."""


@runtime_checkable
class GoalProgress(Protocol):
    """What an `Environment` may offer besides."""

    def goal_progress(self) -> tuple[Goal, ...]:
        """Goals of the variant being played and which of them are reached, as of the last action, always in the same
        order; none when they are not known. Raises ``SplitError`` for a variant of the test split."""
        ...
