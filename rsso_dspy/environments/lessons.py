"""What a benchmark says in prose, ``data/texts.toml`` of its package, and what an episode teaches without a model.

    about = "What the environment is, what one sees, how an action is worded and when it is solved."
    rules_of_thumb = ["A rule by hand.", ...]
    [templates]                              # texts of the action_templates region
    [[goals]]                                # advice where goals of these kinds were missed
    [[mistakes]]                             # of the newest step: the first one that fits is taught
    when = "is_repeated"                     # names of members of the benchmark's `Episode`
    action = 'use (?P<thing>.+)'             # pattern of the beginning of the action; `answer` likewise
    text = "Used {thing} again."
    solution = "Use something else."
    [[progress]]                             # how far the episode has come: all that fit
    [[facts]]                                # how the world works, as the newest step shows: in examples of rules alone

Lessons go by the task, the actions and the observations: no scores, and nothing that was not said.
"""

import bz2
import gzip
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from pathlib import PurePath
from typing import Any

from rsso_dspy.environments import Environment, Goal, Interface, require_played
from rsso_dspy.environments.benchmark import Hints
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import SplitError
from rsso_dspy.records import Category, Lesson, State, Step, Variant

Words = Mapping[str, str]  # what fills the texts of a lesson


@cache
def read_data(package: str, name: str) -> Any:
    """What a file of a benchmark's package holds: TOML, or JSON that may be packed. Not to be changed."""
    raw = (files(package) / name).read_bytes()
    unpacked = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(PurePath(name).suffix, bytes)(raw).decode()
    return tomllib.loads(unpacked) if name.endswith(".toml") else json.loads(unpacked)


def read_texts(package: str) -> Mapping[str, Any]:
    return dict(read_data(package, "data/texts.toml"))


def read_examples(package: str) -> tuple[str, ...]:
    """The examples of play with rules; none where the package has no such file."""
    if not (files(package) / EXAMPLES).is_file():
        return ()
    return tuple(read_data(package, EXAMPLES)["examples"])


def read_reflections(package: str) -> tuple[Mapping[str, Any], ...]:
    """The examples for the reflector; none where the package has no such file."""
    if not (files(package) / REFLECTIONS).is_file():
        return ()
    return tuple(read_data(package, REFLECTIONS)["example"])


EXAMPLES = "data/examples.json"
REFLECTIONS = "data/reflections.toml"


def name_all(names: Iterable[str]) -> Words | None:
    """The words ``{names}`` of a lesson, each name once; None without any."""
    text = ", ".join(dict.fromkeys(names))
    return {"names": text} if text else None


@dataclass(eq=False)
class Episode:
    """An episode so far; ``states[i + 1]`` follows ``steps[i]``. Members of subclasses are conditions of lessons: true,
    or the words of the texts."""

    task: str
    states: Sequence[State]
    steps: Sequence[Step]

    @property
    def newest(self) -> Step:
        return self.steps[-1]

    @property
    def action(self) -> str:
        return self.newest.action.lower().strip()

    @property
    def answer(self) -> str:
        return self.states[-1].observation

    @property
    def no_action(self) -> bool:
        return self.newest.malformed


@dataclass(frozen=True)
class _Row:
    """A lesson, and when an episode teaches it: where all that is named here holds."""

    text: str
    solution: str = ""
    category: Category = "error"
    when: str = ""
    answer: str = ""
    action: str = ""

    def teach(self, episode: Episode) -> Lesson | None:
        words: dict[str, str] = {}
        for name in self.when.split():
            condition = getattr(episode, name)
            if not condition:
                return None
            words |= condition if isinstance(condition, Mapping) else {}
        for pattern, text in ((self.answer, episode.answer), (self.action, episode.action)):
            match = re.match(pattern, text)
            if match is None:
                return None
            words |= match.groupdict()
        return Lesson(self.category, self.text.format(**words), self.solution.format(**words))


def _draw_lessons(rows: Iterable[_Row], episode: Episode) -> Iterator[Lesson]:
    for row in rows:
        lesson = row.teach(episode)
        if lesson is not None:
            yield lesson


class LessonTable:
    """The rules and lessons of a benchmark's texts, and its `hints`. Called with a task, states and steps, it gives
    what the newest step teaches, one mistake at most, and how far the episode has come. Examples of rules show what
    `draw_facts` gives besides."""

    def __init__(self, package: str, episode: type[Episode]):
        texts = read_texts(package)
        goals: dict[str, tuple[str, tuple[str, ...]]] = {}
        for row in texts["goals"]:
            for kind in row["kinds"]:
                goals[kind] = row["phrase"], tuple(row["advice"])
        self.episode = episode
        self.hints = Hints(
            texts["about"],
            goals,
            lessons=self,
            examples=partial(read_examples, package),
            reflections=partial(read_reflections, package),
            facts=self.draw_facts,
        )
        self.rules_of_thumb = tuple(Lesson("abstract", text) for text in texts["rules_of_thumb"])
        self.mistakes = tuple(_Row(**row) for row in texts["mistakes"])
        self.progress = tuple(_Row(**{"category": "progress", **row}) for row in texts["progress"])
        self.facts = tuple(_Row(**{"category": "abstract", **row}) for row in texts.get("facts", ()))

    def __call__(self, task: str, states: Sequence[State], steps: Sequence[Step]) -> list[Lesson]:
        if not steps:
            return []
        episode = self.episode(task, states, steps)
        mistakes = _draw_lessons(self.mistakes, episode)
        return [*islice(mistakes, 1), *_draw_lessons(self.progress, episode)]

    def draw_facts(self, task: str, states: Sequence[State], steps: Sequence[Step]) -> list[Lesson]:
        """Abstract rules that the newest step shows to hold."""
        if not steps:
            return []
        episode = self.episode(task, states, steps)
        return [*_draw_lessons(self.facts, episode)]


class Progress:
    """Steps towards a goal, by what is observed: each is met once, in any order, and of a kind one at most by an
    observation. ``steps``: kinds, and whether an observation meets the step."""

    def __init__(self, steps: Iterable[tuple[str, Callable[[str], object]]] = ()):
        self._steps = tuple(steps)
        self.kinds = tuple(kind for kind, _ in self._steps)
        self.is_met = [False] * len(self._steps)

    def read(self, observation: str) -> None:
        kinds = set()
        for number, (kind, is_seen) in enumerate(self._steps):
            if not self.is_met[number] and kind not in kinds and is_seen(observation):
                self.is_met[number] = True
                kinds.add(kind)


class TaughtEnvironment(Environment):
    """An environment that `teaches` the lessons of its benchmark's texts, and may have several interfaces. It notes the
    variant that is played as `_variant`."""

    teaches: LessonTable
    table: TaskTable
    knows_all_verbs = True
    _interface: Interface = "sso"
    _variant: Variant | None = None

    @property
    def rules_of_thumb(self) -> Sequence[Lesson]:  # type: ignore[override]
        return self.teaches.rules_of_thumb

    def choose_interface(self, name: Interface) -> None:
        self._interface = name

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        return self.teaches(self.task, states, steps)

    def goal_progress(self) -> tuple[Goal, ...]:
        """Return the goals of the current variant with their status after the last action. Raises ``SplitError`` for a
        variant of the test split, whatever split it was reset with."""
        variant = require_played(self._variant)
        if self.table.split_of(variant.task, variant.index) == "test":
            raise SplitError(f"{variant.key} is a test variant: its goal progress is shown to nobody")
        return tuple(self._list_goals())

    def _list_goals(self) -> Sequence[Goal]:
        raise NotImplementedError
