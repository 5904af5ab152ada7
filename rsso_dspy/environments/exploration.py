"""Environments without a task, for exploration (OmniReflect, section 2.2.1, task-agnostic rules)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from rsso_dspy.environments import Environment, Environments
from rsso_dspy.records import Lesson, State, Step

TASK = (
    "Explore this world. There is nothing to achieve: visit its rooms, find out what is in them, what can be opened, "
    "switched on, measured or mixed, and which actions are understood."
)


class ExplorationPool:
    """A pool that lends the environments of another pool with exploration as their task."""

    def __init__(self, environments: Environments):
        self.environments = environments

    @contextmanager
    def lease(self) -> Iterator[Environment]:
        with self.environments.lease() as environment:
            yield cast(Environment, _TasklessEnvironment(environment))

    def close(self) -> None:
        self.environments.close()


class _TasklessEnvironment:
    """An environment whose task is to explore."""

    task = TASK

    def __init__(self, environment: Environment):
        self._environment = environment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        """Return the lessons except those on the progress of the real task, which the agent does not know."""
        return [each for each in self._environment.lessons(states, steps) if each.category != "progress"]
