"""What benchmarks share that learn from an episode without a model: its newest step, and lessons by tables.

class _Episode(Episode):
    ...                                              # what a benchmark reads from its own texts
draw_lessons(_Episode(task, states, steps), MISTAKES, tell_progress)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rsso_dspy.records import Category, Lesson, State, Step


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


Kind = TypeVar("Kind", bound=Episode, contravariant=True)
Words = Mapping[str, str]
"""What fills the texts of a lesson."""


@dataclass(frozen=True, slots=True)
class LessonPattern(Generic[Kind]):
    """A lesson, and when an episode teaches it: where the condition is true, or finds words for the texts."""

    condition: Callable[[Kind], Words | bool | None]
    text: str
    solution: str = ""
    category: Category = "error"

    def make_lesson(self, episode: Kind) -> Lesson | None:
        found = self.condition(episode)
        if found is None or found is False:
            return None
        words = {} if found is True else found
        return Lesson(self.category, self.text.format(**words), self.solution.format(**words))


NO_ACTION: LessonPattern[Episode] = LessonPattern(
    lambda episode: episode.newest.malformed,
    "Gave an answer that held no action.",
    "End every answer with one action in the form of a template.",
)


def draw_lessons(
    episode: Kind, mistakes: Sequence[LessonPattern[Kind]], tell_progress: Callable[[Kind], Iterable[Lesson]]
) -> list[Lesson]:
    """What the newest step teaches, one mistake at most (of several that fit, the first, as further ones would have the
    same cause), and how far the episode has come; nothing before the first step."""
    if not episode.steps:
        return []
    mistake = next((lesson for each in mistakes if (lesson := each.make_lesson(episode))), None)
    return [*([mistake] if mistake else []), *tell_progress(episode)]
