"""Goals that calibration variants reached, noted for feedback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rsso_dspy.environments import Environments
from rsso_dspy.environments.goals import Goal, GoalProgress


class GoalRecordingEnvironments:
    """Environments that note the goals at the end of each trial, where they can tell. The program does not see them,
    and an environment refuses to tell those of a held-out variant."""

    def __init__(self, environments: Environments):
        self.environments = environments
        self.progress: list[tuple[Goal, ...]] = []

    @contextmanager
    def lease(self) -> Iterator[Any]:
        with self.environments.lease() as environment:
            yield environment
            lent: object = environment
            self.progress.append(lent.goal_progress() if isinstance(lent, GoalProgress) else ())

    def close(self) -> None:
        self.environments.close()
