"""The constitution memory: writing rules during a trial, and keeping them afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Memory, Recall, Services
from rsso_dspy.memory.constitution.constitution import (
    CATEGORIES,
    LASTING,
    SCHEMA,
    Constitution,
    Rule,
    condense_rules,
    select_category_examples,
)
from rsso_dspy.records import Category, Lesson, State, Step, Trajectory, Variant


@dataclass(frozen=True, slots=True)
class ConstitutionSettings:
    """When rules are written, and how many are kept. Defaults follow the paper (section 3.2); bounds are ours."""

    r_freq: int = 10
    """Steps of an episode between two writings."""
    s_freq: int = 10
    """Tasks between two summaries."""
    at_end: bool = False
    """A model is asked at the end of an episode too, whatever its length, and told its outcome."""
    max_rules: int = 50
    """Maximum number of rules in a category."""
    max_chars: int = 12_000
    """Maximum length of the whole text in characters."""
    prompts: Literal["joint", "separate"] = "joint"
    """Whether a model is asked for all categories in one call, or for each in a call of its own."""
    categories: tuple[Category, ...] = CATEGORIES
    """Categories to keep (Table 4). A model is not asked for others; patterns' rules of others are discarded."""

    def count_writings(self, steps: int) -> int:
        """Calls of a writer that is asked every `r_freq` steps, at most, in an episode of so many steps."""
        whole, rest = divmod(steps, self.r_freq)
        ends = self.at_end and self.keeps_lasting_rules
        if self.prompts == "joint":
            return whole + (rest > 0 and ends)
        last = len(self.select_categories(ended=True)) if ends else 0
        during = whole - (rest == 0 and whole > 0 and ends)
        return during * len(self.categories) + (last if steps else 0)

    def select_categories(self, ended: bool) -> tuple[Category, ...]:
        """The categories that a model is asked for: of an episode that is over, the lasting ones alone."""
        return tuple(category for category in self.categories if category in LASTING or not ended)

    @property
    def keeps_lasting_rules(self) -> bool:
        """Whether any kept category outlives the episode."""
        return any(category in LASTING for category in self.categories)


@dataclass(frozen=True, slots=True)
class PartialEpisode:
    """An episode so far, as input of a writer."""

    variant: Variant
    task: str
    states: Sequence[State]
    steps: Sequence[Step]
    ended: Trajectory | None = None
    """The whole of it, once it is over and its outcome is to be learned from."""
    render: Callable[[Sequence[State]], list[str]] | None = None
    """Shows states as the actor's history does; None where a writer reads what actions were answered, and no more."""


@dataclass(frozen=True, slots=True)
class RuleWriter:
    """A rule writer. Errors of its callables pass through; None is a malformed answer."""

    write: Callable[[PartialEpisode, Constitution, Sequence[Category]], Sequence[Lesson] | None]
    """Returns lessons of these categories from the newest part of an episode, which a constitution lacks."""
    summarize: Callable[[Constitution], Sequence[Lesson] | None]
    """Returns the lasting rules in fewer words."""
    conditional: bool = False
    """If true, called after every step, for all categories, and free to write nothing; otherwise every `r_freq`
    steps."""
    given: Callable[[], Sequence[Lesson]] = tuple
    """Initial rules; requested when an episode begins without rules."""


WRITER = "constitution_writer"


def require_examples(method: str, writing: str | None, examples: str, kept: Sequence[Category] = CATEGORIES) -> str:
    """Return the examples that a writer of a kind is shown, empty unless it is neuro-symbolic. Raises `UsageError` if
    such a writer has none with rules of the categories kept: it would be the neural one under another name."""
    if writing != "neuro-symbolic":
        return ""
    if not select_category_examples(examples, kept):
        raise UsageError(
            f"{method}: its writer is shown rules that patterns drew from play, and there are no such examples with "
            f"{' or '.join(kept) or 'any'} rules. Name a constitution file that holds some, --set "
            "memory.constitution.examples=FILE (`rsso-dspy constitution build --writer symbolic -o FILE` writes one if "
            "the benchmark has `lessons`), or take a neural writer"
        )
    return examples


def make_rule_writer(services: Services, settings: ConstitutionSettings) -> RuleWriter | None:
    """Who writes the constitution of the method; None when it only reads one."""
    method, kept = services.method, settings.categories
    if method.writing is None:
        return None
    if method.writing == "symbolic":
        return RuleWriter(
            lambda play, _known, _categories: services.environment.lessons(play.states, play.steps),
            condense_rules,
            conditional=True,
            given=lambda: services.environment.rules_of_thumb,
        )
    examples = require_examples(method.name, method.writing, services.runtime.examples, kept)

    def write(play: PartialEpisode, known: Constitution, categories: Sequence[Category]) -> Sequence[Lesson] | None:
        seen = replace(play, render=services.environment.render)
        said = services.ask(WRITER, play=seen, known=known, examples=examples, categories=tuple(categories))
        lessons: Sequence[Lesson] | None = said and said.lessons
        return lessons

    def summarize(known: Constitution) -> Sequence[Lesson] | None:
        said = services.ask(WRITER, "shorten", known=known, categories=kept)
        return (said and said.lessons) or None

    return RuleWriter(write, summarize)


class ConstitutionMemory(Memory):
    """Rules of three categories, written while the agent plays and read from the next step on (OmniReflect).

        memory = ConstitutionMemory(writer)
        memory.begin_trial(variant, task)                   # an episode begins
        memory.observe(states, steps)                       # after every step; maybe writes
        memory.recall(states, steps).text                   # the rules
        memory.learn(trajectory)                            # lasting rules stay, progress rules go

    Without a writer the constitution is read-only. Rules written in an interrupted episode, which is replayed, are
    discarded.
    """

    region = "constitution"

    @classmethod
    def make(cls, services: Services) -> "ConstitutionMemory":
        settings: ConstitutionSettings = services.runtime.constitution or ConstitutionSettings()
        return cls(make_rule_writer(services, settings), settings)

    def __init__(self, writer: RuleWriter | None = None, settings: ConstitutionSettings | None = None):
        self.settings = settings or ConstitutionSettings()
        self._writer = writer
        self._kept = Constitution()
        self._book = Constitution()
        self._variant, self._task = Variant("", 0), ""
        self._tasks = 0
        self._met = ""
        self._counts: dict[str, int] = {}

    @property
    def constitution(self) -> Constitution:
        """The current rules, including those of the current episode."""
        return self._book

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant, self._task = variant, task
        self._book = self._kept
        self._counts = dict.fromkeys(("calls", "written", "again", "malformed", "merged", "dropped", "summaries"), 0)
        if self._writer and not self._book.rules:
            self._add_lessons(self._writer.given(), "", "written by hand")

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        return Recall(items=self._book.items, progress=self._book.progress)

    def observe(self, states: Sequence[State], steps: Sequence[Step]) -> None:
        if self._is_write_due(len(steps)):
            self._write_rules(states, steps)

    def _is_write_due(self, steps: int) -> bool:
        writer = self._writer
        if writer is None or not self.settings.categories:
            return False
        return writer.conditional or steps % self.settings.r_freq == 0

    def _write_rules(self, states: Sequence[State], steps: Sequence[Step], ended: Trajectory | None = None) -> None:
        writer, variant = self._writer, self._variant
        assert writer is not None
        play = PartialEpisode(variant, self._task, states, steps, ended)
        due = self.settings.select_categories(ended=ended is not None)
        parts = [due] if self.settings.prompts == "joint" or writer.conditional else [(category,) for category in due]
        book = self._book
        answers = [writer.write(play, book, part) for part in parts]
        self._counts["calls"] += 0 if writer.conditional else len(answers)
        self._counts["malformed"] += sum(said is None for said in answers)
        if all(said is None for said in answers):
            return
        self._add_lessons([lesson for said in answers for lesson in said or ()], variant.task, variant.key)
        if self._exceeds_bounds():
            self._summarize(variant.key)

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Write the lessons of the last step, drop progress rules, and summarize every `s_freq` tasks.

        With `at_end`, write those of the whole episode instead. Several trials of one variant in a row count as one
        task.

        Counts: ``calls`` of the rule writer and ``malformed`` answers, rules ``written`` and said ``again``;
        ``summaries`` made, rules ``merged`` and ``dropped`` by them; ``held`` now.
        """
        if self._writer:
            tells_outcome = self.settings.at_end and not self._writer.conditional
            due = tells_outcome or self._is_write_due(len(trajectory.steps))
            if trajectory.steps and self.settings.keeps_lasting_rules and due:
                ended = trajectory if tells_outcome else None
                self._write_rules(trajectory.states, trajectory.steps, ended)
            self._book = self._book.drop_categories(["progress"])
            new, self._met = trajectory.variant.key != self._met, trajectory.variant.key
            self._tasks += new
            if new and self._tasks % self.settings.s_freq == 0:
                self._summarize(trajectory.variant.key)
        self._kept = self._book
        return {**self._counts, "held": len(self._kept.rules)}

    def snapshot(self) -> dict[str, Any]:
        """Return JSON data: the constitution as in its file, and the number of tasks."""
        return {**self._kept.dump(), "tasks": self._tasks, "met": self._met}

    def restore(self, data: dict[str, Any]) -> None:
        if data["schema"] != SCHEMA:
            raise ValueError(f"a constitution of schema {data['schema']}, not {SCHEMA}")
        kept = {category for category in self.settings.categories if category != "progress"}
        self._kept = self._book = Constitution.load(data).drop_categories([c for c in CATEGORIES if c not in kept])
        self._tasks, self._met = data.get("tasks", 0), data.get("met", "")

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Rule]:
        return Constitution.load(snapshot).rules

    def _add_lessons(self, lessons: Sequence[Lesson], task: str, source: str) -> None:
        before = len(self._book.edits)
        self._book = self._book.with_lessons(self._filter_lessons(lessons), task, source)
        self._count_edits(before)

    def _filter_lessons(self, lessons: Sequence[Lesson]) -> list[Lesson]:
        return [lesson for lesson in lessons if lesson.category in self.settings.categories and lesson.text.strip()]

    def _count_edits(self, before: int) -> None:
        names = {"add": "written", "again": "again", "merge": "merged", "drop": "dropped"}
        for edit in self._book.edits[before:]:
            if edit.what in names:
                self._counts[names[edit.what]] += 1

    def _exceeds_bounds(self) -> bool:
        many = any(len(self._book.select_rules(category)) > self.settings.max_rules for category in LASTING)
        return many or len(self._book.text) > self.settings.max_chars

    def _summarize(self, source: str) -> None:
        """Summarize the lasting rules. Drop any surplus: the least repeated rules first, the oldest of equals."""
        if not self._writer or not self._book.select_rules(*LASTING):
            return
        before = len(self._book.edits)
        said = self._filter_lessons(self._writer.summarize(self._book) or ())
        if said:
            self._book = self._book.apply_summary(said, source)
            self._counts["summaries"] += 1
        else:
            self._counts["malformed"] += 1
        while self._exceeds_bounds():
            self._book = self._book.drop_rules([self._find_weakest_rule()], source, "bound")
        self._count_edits(before)

    def _find_weakest_rule(self) -> Rule:
        crowded = [c for c in LASTING if len(self._book.select_rules(c)) > self.settings.max_rules] or LASTING
        return min(self._book.select_rules(*crowded), key=lambda rule: rule.count)
