"""The memory itself: what is written during a trial, and what becomes of it afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.memory import NOTHING, Recall
from rsso_dspy.memory.constitution.constitution import SCHEMA, Constitution
from rsso_dspy.memory.constitution.rules import CATEGORIES, LASTING, Rule
from rsso_dspy.records import Category, Lesson, State, Step, Trajectory, Variant

__all__ = ["ConstitutionMemory", "ConstitutionSettings", "PartialEpisode", "RuleWriter", "Summarize", "Write"]


@dataclass(frozen=True, slots=True)
class ConstitutionSettings:
    """When rules are written, and how many are kept. Defaults are those of the paper (section 3.2), bounds are ours."""

    r_freq: int = 10
    """Steps between two writings inside an episode."""
    s_freq: int = 10
    """Tasks between two summaries."""
    at_end: bool = False
    """A model is asked at the end of an episode too, whatever its length, and told its outcome."""
    max_rules: int = 50
    """Rules of one category at most."""
    max_chars: int = 12_000
    """Characters of the whole text at most."""
    categories: tuple[Category, ...] = CATEGORIES
    """Categories that are kept (Table 4). A model is not asked for the others; what patterns say of them is thrown
    away."""

    def count_writings(self, steps: int) -> int:
        """Calls of a writer that is asked every `r_freq` steps, at most, in an episode of so many steps."""
        whole, rest = divmod(steps, self.r_freq)
        return whole + (rest > 0 and self.at_end and self.keeps_lasting_rules)

    @property
    def keeps_lasting_rules(self) -> bool:
        """Whether anything that is kept outlives the episode."""
        return any(category in LASTING for category in self.categories)


@dataclass(frozen=True, slots=True)
class PartialEpisode:
    """An episode as far as it went, for a writer to learn from."""

    variant: Variant
    task: str
    states: Sequence[State]
    steps: Sequence[Step]
    ended: Trajectory | None = None
    """The whole of it, once it is over and its outcome is to be learnt from."""
    render: Callable[[Sequence[State]], list[str]] | None = None
    """Shows states as the actor's history does; None where a writer reads what actions were answered, and no more."""


Write = Callable[[PartialEpisode, Constitution], Sequence[Lesson] | None]
"""What the newest stretch of an episode teaches beyond a constitution; None when the answer was malformed. Its own
errors pass through."""

Summarize = Callable[[Constitution], Sequence[Lesson] | None]
"""The lasting rules in fewer words; None when the answer was malformed. Its own errors pass through."""


@dataclass(frozen=True, slots=True)
class RuleWriter:
    """Who writes rules."""

    name: str
    write: Write
    summarize: Summarize
    conditional: bool = False
    """Asked after every step, and writes when it sees occasion to; else asked every `r_freq` steps."""
    given: Callable[[], Sequence[Lesson]] = tuple
    """Rules that stand before anything was seen; asked when an episode begins without any."""


class ConstitutionMemory:
    """Rules of three categories, written while the agent plays and read from the next step on (OmniReflect).

        memory = ConstitutionMemory(writer)
        memory.preamble()                                   # an episode begins
        memory.observe(variant, task, states, steps)         # after every step; maybe writes
        memory.recall(states).text                          # the rules
        memory.learn(trajectory)                            # lasting rules stay, progress rules go

    Without a writer it is a constitution to be read and nothing else. What was written in an episode that nobody
    learnt from, because it was cut short and is played again, is forgotten.
    """

    region = "constitution"

    def __init__(self, writer: RuleWriter | None = None, settings: ConstitutionSettings | None = None):
        self.settings = settings or ConstitutionSettings()
        self._writer = writer
        self._kept = Constitution()
        self._book = Constitution()
        self._tasks = 0
        self._met = ""
        self._counts: dict[str, int] = {}

    @property
    def constitution(self) -> Constitution:
        """The rules as they stand now, those of the episode under way among them."""
        return self._book

    def preamble(self) -> Recall:
        self._book = self._kept
        self._counts = dict.fromkeys(("calls", "written", "again", "malformed", "merged", "dropped", "summaries"), 0)
        if self._writer and not self._book.rules:
            self._add_lessons(self._writer.given(), "", "written by hand")
        return NOTHING

    def recall(self, states: Sequence[State]) -> Recall:  # noqa: ARG002 - rules hold in every state
        return Recall(text=self._book.text, progress=self._book.progress)

    def observe(self, variant: Variant, task: str, states: Sequence[State], steps: Sequence[Step]) -> None:
        """Have rules written when it is time."""
        if self._is_write_due(len(steps)):
            self._write_rules(variant, task, states, steps)

    def _is_write_due(self, steps: int) -> bool:
        writer = self._writer
        if writer is None or not self.settings.categories:
            return False
        return writer.conditional or steps % self.settings.r_freq == 0

    def _write_rules(
        self,
        variant: Variant,
        task: str,
        states: Sequence[State],
        steps: Sequence[Step],
        ended: Trajectory | None = None,
    ) -> None:
        writer = self._writer
        assert writer is not None
        said = writer.write(PartialEpisode(variant, task, states, steps, ended), self._book)
        self._counts["calls"] += not writer.conditional
        if said is None:
            self._counts["malformed"] += 1
            return
        self._add_lessons(said, variant.task, variant.key)
        if self._exceeds_bounds():
            self._summarize(variant.key)

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Have what the last step taught written, or with `at_end` what the whole episode did, keep all that was, less
        the progress rules, and have it summarized every `s_freq` tasks; several trials of one variant in a row are one
        task.

        Counts: ``calls`` of the rule writer and ``malformed`` answers, rules ``written`` and said ``again``;
        ``summaries`` made, rules ``merged`` and ``dropped`` by them; ``held`` now.
        """
        if self._writer:
            tells_outcome = self.settings.at_end and not self._writer.conditional
            due = tells_outcome or self._is_write_due(len(trajectory.steps))
            if trajectory.steps and self.settings.keeps_lasting_rules and due:
                ended = trajectory if tells_outcome else None
                self._write_rules(trajectory.variant, trajectory.task, trajectory.states, trajectory.steps, ended)
            self._book = self._book.drop_categories(["progress"])
            new, self._met = trajectory.variant.key != self._met, trajectory.variant.key
            self._tasks += new
            if new and self._tasks % self.settings.s_freq == 0:
                self._summarize(trajectory.variant.key)
        self._kept = self._book
        return {**self._counts, "held": len(self._kept.rules)}

    def snapshot(self) -> dict[str, Any]:
        """JSON data: the constitution as its file holds it, and the tasks met."""
        return {**self._kept.dump(), "tasks": self._tasks, "met": self._met}

    def restore(self, data: dict[str, Any]) -> None:
        if data["schema"] != SCHEMA:
            raise ValueError(f"a constitution of schema {data['schema']}, not {SCHEMA}")
        kept = {category for category in self.settings.categories if category != "progress"}
        self._kept = self._book = Constitution.load(data).drop_categories([c for c in CATEGORIES if c not in kept])
        self._tasks, self._met = data.get("tasks", 0), data.get("met", "")

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
        """A bound is passed."""
        many = any(len(self._book.select_rules(category)) > self.settings.max_rules for category in LASTING)
        return many or len(self._book.text) > self.settings.max_chars

    def _summarize(self, source: str) -> None:
        """Have the lasting rules summarized. What is too much even so is dropped: the rules said least, the oldest of
        equals."""
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
