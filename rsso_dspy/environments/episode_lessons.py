"""What benchmarks share that learn from an episode without a model: its newest step, and lessons by a list of checks.

class _Episode(Episode):
    ...                                              # what a benchmark reads from its own texts
draw_lessons(_Episode(task, states, steps), MISTAKES, tell_progress)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rsso_dspy.records import Lesson, State, Step


@dataclass(eq=False)
class Episode:
    """An episode so far; ``states[i + 1]`` follows ``steps[i]``."""

    task: str
    states: Sequence[State]
    steps: Sequence[Step]

    @property
    def newest(self) -> Step:
        return self.steps[-1]

    @property
    def action(self) -> str:
        """The newest action, in lower case."""
        return self.newest.action.lower().strip()

    @property
    def answer(self) -> str:
        """What the newest action was answered."""
        return self.states[-1].observation


Kind = TypeVar("Kind", bound=Episode)


def draw_lessons(
    episode: Kind,
    mistakes: Sequence[Callable[[Kind], Lesson | None]],
    tell_progress: Callable[[Kind], Iterable[Lesson]],
) -> list[Lesson]:
    """What the newest step teaches, one mistake at most (of several that fit, the first), and how far the episode has
    come; nothing before the first step."""
    if not episode.steps:
        return []
    mistake = next((lesson for find in mistakes if (lesson := find(episode))), None)
    return [*([mistake] if mistake else []), *tell_progress(episode)]


def find_missing_action(episode: Episode) -> Lesson | None:
    """An answer that held no action."""
    if not episode.newest.malformed:
        return None
    return Lesson(
        "error", "Gave an answer that held no action.", "End every answer with one action in the form of a template."
    )
