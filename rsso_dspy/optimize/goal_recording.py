"""Records the goals that trials on calibration variants reached, for feedback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rsso_dspy.environments import Environments, Goal


class GoalRecordingEnvironments:
    """Environments that record the goals at the end of each trial, if they know them. The program does not see the
    goals, and an environment refuses to give those of a held-out variant."""

    def __init__(self, environments: Environments):
        self.environments = environments
        self.progress: list[tuple[Goal, ...]] = []

    @contextmanager
    def lease(self) -> Iterator[Any]:
        with self.environments.lease() as environment:
            yield environment
            # No isinstance here: from Python 3.12 on, a protocol does not see what a wrapper forwards.
            tell_progress = getattr(environment, "goal_progress", None)
            self.progress.append(tell_progress() if tell_progress else ())

    def close(self) -> None:
        self.environments.close()
