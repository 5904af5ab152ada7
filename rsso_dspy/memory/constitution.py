"""A constitution: rules distilled from experience, carried from task to task (OmniReflect). A `Constitution` is
immutable: every edit returns a new one. Rules are compared by their words. `ConstitutionMemory` writes them during a
trial and keeps them afterwards."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal, get_args

from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Memory, Recall, Services
from rsso_dspy.memory.texts import find_nearest
from rsso_dspy.records import Category, Lesson, State, Step, Trajectory, Variant
from rsso_dspy.regions import Document

CATEGORIES: tuple[Category, ...] = get_args(Category)
LASTING: tuple[Category, ...] = ("abstract", "error")  # categories that outlive the episode

HEADINGS: dict[Category, str] = {
    "abstract": "How this world works:",
    "error": "Mistakes that were made, and what to do instead:",
}

_WORDS = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    _WORDS.findall("a an and are as at be by can do for from has in into is it its not of on or that the to was")
)
ALIKE = 0.5  # share of a rule's words above which a merged rule counts as containing it
NEARLY_ALL = 0.8  # share above which two rules say the same
_PRIORITY = re.compile(r"\W*priority\W*(\d)\b", re.I)
UNRANKED = 10  # stands for the priority of a rule that names none: after all others


@dataclass(frozen=True, slots=True)
class Rule:
    id: str  # letter of its category and a number that is never reused, e.g. `A7`.
    lesson: Lesson
    task: str = ""  # task type it was learned on; empty for initial rules and for rules from several tasks
    source: str = ""  # key of the variant it was learned on, or several joined by ` + `; or an author
    count: int = 1  # how often it was written


Edit = Literal["written", "again", "merged", "dropped"]
Agreement = Literal["majority", "consistent"]
Calls = Literal["joint", "separate"]  # one call for all categories, or one for each


@dataclass(frozen=True, slots=True)
class Constitution:
    rules: tuple[Rule, ...] = ()
    numbered: int = 0  # last number given to a rule
    document: str = ""  # text that is read as it is, in place of rules
    edits: tuple[Edit, ...] = field(default=(), compare=False)  # what was done to it since it was loaded

    def select_rules(self, *categories: Category) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.lesson.category in categories)

    @property
    def text(self) -> str:
        """The document or the lasting rules as prompt text; empty if there are none."""
        if self.document:
            return self.document
        parts = []
        for category in LASTING:
            rules = self.select_rules(category)
            if rules:
                lines = [f"- {rule.lesson.line}" for rule in rules]
                parts.append("\n".join([HEADINGS[category], *lines]))
        return "\n\n".join(parts)

    @property
    def entries(self) -> Sequence[Any]:
        """The rules; of a document the whole, once."""
        return (self.document,) if self.document else self.rules

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(rule.lesson.line for rule in self.select_rules(*LASTING))

    def with_lessons(self, lessons: Sequence[Lesson], task: str, source: str) -> "Constitution":
        """Add lessons; existing rules are counted once more, and new progress rules replace the old ones."""
        book = self
        for lesson in lessons:
            if lesson.category != "progress":
                book = book._add_lesson(lesson, task, source)

        progress = _remove_doubles(lesson for lesson in lessons if lesson.category == "progress")
        if not progress:
            return book
        rules = list(book.select_rules(*LASTING))
        for number, lesson in enumerate(progress, start=1):
            rules.append(Rule(f"P{number}", lesson, task, source))
        return replace(book, rules=tuple(rules))

    def _add_lesson(self, lesson: Lesson, task: str, source: str) -> "Constitution":
        existing = _find_same_rule(lesson, self.rules)
        if existing is None:
            number = self.numbered + 1
            rule = Rule(_make_id(lesson, number), lesson, task, source)
            return Constitution((*self.rules, rule), number, edits=(*self.edits, "written"))

        counted = replace(existing, count=existing.count + 1)
        rules = tuple(counted if rule is existing else rule for rule in self.rules)
        return replace(self, rules=rules, edits=(*self.edits, "again"))

    def keep_categories(self, categories: Sequence[Category]) -> "Constitution":
        return replace(self, rules=self.select_rules(*categories))

    def drop_rule(self, rule: Rule) -> "Constitution":
        rules = tuple(existing for existing in self.rules if existing != rule)
        return replace(self, rules=rules, edits=(*self.edits, "dropped"))

    def apply_summary(self, lessons: Sequence[Lesson], source: str) -> "Constitution":
        """Replace the lasting rules by their summary (OmniReflect, Algorithm 1, line 27): an unchanged rule keeps its
        id and count, one with words of several is their merge, and one that no new rule mostly contains is dropped. A
        category that the summary leaves out stays as it was."""
        categories = {lesson.category for lesson in lessons}
        lasting = self.select_rules(*LASTING)
        old_rules = [rule for rule in lasting if rule.lesson.category in categories]
        summary = _remove_doubles(lesson for lesson in lessons if lesson.category in LASTING)
        homes = {rule.id: _find_successor(rule.lesson, summary) for rule in old_rules}

        number = self.numbered
        rules: list[Rule] = []
        edits: list[Edit] = list(self.edits)
        for lesson in summary:
            sources = [rule for rule in old_rules if homes[rule.id] is lesson]
            same = _find_same_rule(lesson, sources)
            if same is None:
                number += 1
                name = _make_id(lesson, number)
            else:
                name = same.id
            rules.append(_merge_rules(sources, name, lesson, source))
            if sources != [same]:
                edits.append("merged" if sources else "written")

        edits += ["dropped" for rule in old_rules if homes[rule.id] is None]
        untouched = [rule for rule in self.rules if rule.lesson.category not in categories]
        return Constitution((*rules, *untouched), number, edits=tuple(edits))

    def dump(self) -> dict[str, Any]:
        rows = []
        for rule in self.rules:
            row = {**asdict(rule), **asdict(rule.lesson), "lesson": ""}
            rows.append({name: value for name, value in row.items() if value})
        data: dict[str, Any] = {"rules": rows, "numbered": self.numbered}
        if self.document:
            data["document"] = self.document
        return data

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Constitution":
        rules = []
        for row in data["rules"]:
            lesson = Lesson(row["category"], row["text"], row.get("solution", ""))
            rule = Rule(
                id=row["id"],
                lesson=lesson,
                task=row.get("task", ""),
                source=row.get("source", ""),
                count=row["count"],
            )
            rules.append(rule)
        return cls(tuple(rules), data["numbered"], data.get("document", ""))


def _make_id(lesson: Lesson, number: int) -> str:
    letter = lesson.category[0].upper()
    return f"{letter}{number}"


def _merge_rules(sources: Sequence[Rule], name: str, lesson: Lesson, author: str) -> Rule:
    """A lesson as the rule that takes the place of others; where there are none, the author's own."""
    tasks = list(dict.fromkeys(rule.task for rule in sources))
    task = tasks[0] if len(tasks) == 1 else ""
    origins: list[str] = []
    for rule in sources:
        origins += rule.source.split(" + ")
    source = " + ".join(dict.fromkeys(origins)) or author
    count = sum(rule.count for rule in sources) or 1
    return Rule(name, lesson, task, source, count)


def _normalize_lesson(lesson: Lesson) -> str:
    words = " ".join(_WORDS.findall(lesson.line.lower()))
    return f"{lesson.category} {words}"


def _is_same(one: Lesson, other: Lesson) -> bool:
    return _normalize_lesson(one) == _normalize_lesson(other)


def _find_same_rule(lesson: Lesson, rules: Iterable[Rule]) -> Rule | None:
    return next((rule for rule in rules if _is_same(rule.lesson, lesson)), None)


def _remove_doubles(lessons: Iterable[Lesson]) -> list[Lesson]:
    return list({_normalize_lesson(lesson): lesson for lesson in lessons}.values())


def _find_successor(lesson: Lesson, candidates: Sequence[Lesson]) -> Lesson | None:
    """The candidate that says the same, or else the one with most of the lesson's words, if they are enough."""
    for candidate in candidates:
        if _is_same(candidate, lesson):
            return candidate
    best = max(candidates, key=lambda candidate: compute_word_overlap(lesson, candidate), default=None)
    if best is None or compute_word_overlap(lesson, best) < ALIKE:
        return None
    return best


def compute_word_overlap(one: Lesson, other: Lesson) -> float:
    """The share of one lesson's words that the other contains; 0 for different categories."""
    ours = _find_content_words(one)
    theirs = _find_content_words(other)
    if not ours or one.category != other.category:
        return 0.0
    return len(ours & theirs) / len(ours)


def _find_content_words(lesson: Lesson) -> set[str]:
    return set(_WORDS.findall(lesson.line.lower())) - _FILLERS


def condense_rules(book: Constitution) -> list[Lesson]:
    """Drop lasting rules whose words another rule nearly all contains: a summary without a model."""
    lessons = [rule.lesson for rule in book.select_rules(*LASTING)]
    condensed: list[Lesson] = []
    for lesson in sorted(lessons, key=lambda lesson: -len(lesson.line)):
        if not any(compute_word_overlap(lesson, longer) >= NEARLY_ALL for longer in condensed):
            condensed.append(lesson)
    return [lesson for lesson in lessons if lesson in condensed]


def select_agreed(samples: Sequence[Sequence[Lesson]], asked: int, by: Agreement) -> list[Lesson]:
    """What several answers to one question agree on, of which so many were asked for: the lessons that more than half
    of these hold, as they were said first (`majority`), or the answer that shares the most with the others
    (`consistent`)."""
    if asked == 1:
        return list(samples[0])
    if by == "consistent":
        return list(_find_most_consistent(samples))
    agreed: list[Lesson] = []
    for lesson in chain.from_iterable(samples):
        votes = sum(_find_successor(lesson, sample) is not None for sample in samples)
        if votes > asked / 2 and _find_successor(lesson, agreed) is None:
            agreed.append(lesson)
    return agreed


def _find_most_consistent(samples: Sequence[Sequence[Lesson]]) -> Sequence[Lesson]:
    """The answer that shares the most with all, the first of equals."""
    shares = []
    for sample in samples:
        agreements = [_compute_agreement(sample, peer) for peer in samples]
        shares.append(sum(agreements))
    return samples[shares.index(max(shares))]


def _compute_agreement(one: Sequence[Lesson], other: Sequence[Lesson]) -> float:
    """The share of the lessons of two answers that both hold."""
    total = len(one) + len(other)
    if not total:
        return 1.0
    shared = sum(_find_successor(lesson, other) is not None for lesson in one)
    shared += sum(_find_successor(lesson, one) is not None for lesson in other)
    return shared / total


# The memory: who writes, writing during an episode, keeping, summarizing.


@dataclass(frozen=True, slots=True)
class ConstitutionSettings:
    """When rules are written, and how many are kept. Defaults follow the paper (section 3.2); bounds are ours."""

    r_freq: int = 10  # steps of an episode between two writings
    s_freq: int = 10  # tasks between two summaries
    at_end: bool = False  # A model is asked at the end of an episode too, whatever its length, and told its outcome
    max_rules: int = 50  # maximum number of rules in a category
    max_chars: int = 12_000  # maximum length of the whole text in characters
    prompts: Calls = "joint"  # of the writer
    summaries: Calls = "joint"  # of the summarizer (Table 18)
    samples: int = 1  # answers that a model gives to each question for rules
    agreement: Agreement = "majority"  # what is taken of several samples, see `select_agreed`
    priorities: bool = False  # whether a model is asked to begin every lasting rule by its priority
    relevant: int | None = None  # most rules in a prompt, those nearest to the task; None for all
    categories: tuple[Category, ...] = CATEGORIES  # to keep (Table 4); a model is not asked for others

    @property
    def lasting(self) -> tuple[Category, ...]:
        return tuple(category for category in self.categories if category in LASTING)

    def count_writings(self, steps: int) -> int:
        """Calls of a writer that is asked every `r_freq` steps, at most, in an episode of so many steps."""
        rounds, rest = divmod(steps, self.r_freq)
        parts = len(_split_calls(self.categories, self.prompts))
        last_parts = len(_split_calls(self.lasting, self.prompts))

        writings = rounds * parts
        if steps > 0 and self.at_end:
            if rest == 0 and last_parts > 0:
                writings -= parts  # the writing at the end takes the place of this one
            writings += last_parts
        return self.samples * writings

    def count_summaries(self, tasks: int) -> int:
        """Calls of the summarizer over so many tasks, without those that the bounds bring."""
        summaries = -(-tasks // self.s_freq)  # rounded up
        return summaries * len(_split_calls(self.lasting, self.summaries))


def _split_calls(categories: tuple[Category, ...], form: Calls) -> list[tuple[Category, ...]]:
    """The categories that each call is for."""
    if form == "separate":
        return [(category,) for category in categories]
    if not categories:
        return []
    return [categories]


@dataclass(frozen=True, slots=True)
class PartialEpisode:
    task: str
    states: Sequence[State]
    steps: Sequence[Step]
    ended: Trajectory | None = None  # the whole of it, once it is over and its outcome is to be learned from
    render: Callable[[Sequence[State]], list[str]] | None = None  # None where a writer reads answers alone


def select_category_examples(examples: str, categories: Sequence[Category]) -> str:
    """Remove the rules of other categories from a writer's examples. Empty if no rules are left."""
    pruned = examples
    for category in CATEGORIES:
        if category not in categories:
            section = rf"^{category.capitalize()} rules:\n(?:- .*(?:\n|\Z))*"
            pruned = re.sub(section, "", pruned, flags=re.M)
    if pruned == examples or re.search(r"^\w+ rules:$", pruned, re.M):
        return pruned
    return ""


def require_examples(
    method: str,
    writing: str | None,
    examples: str,
    kept: tuple[Category, ...] = CATEGORIES,
    prompts: Calls = "joint",
) -> str:
    """Return the examples that a writer of a kind is shown, empty unless it is neuro-symbolic. Raises `UsageError` if
    one of such a writer's calls, for the categories kept, has none with rules: it would be the neural one under another
    name."""
    if writing != "neuro-symbolic":
        return ""
    parts = _split_calls(kept, prompts)
    lacking = [part for part in parts if not select_category_examples(examples, part)]
    if prompts == "separate" and 0 < len(lacking) < len(kept):
        names = " or ".join(chain.from_iterable(lacking))
        raise UsageError(
            f"{method}: its writer is asked for each category in a call of its own (memory.constitution.prompts = "
            f"separate), and its examples hold no {names} rules: these calls would be those of a neural writer. "
            "Name a constitution file that holds some, --set memory.constitution.examples=FILE, leave the category out "
            "(memory.constitution.categories), or ask for all in one call (memory.constitution.prompts=joint)"
        )
    if lacking or not kept:
        names = " or ".join(kept) or "any"
        raise UsageError(
            f"{method}: its writer is shown rules that patterns drew from play, and there are no such examples with "
            f"{names} rules. Name a constitution file that holds some, --set "
            "memory.constitution.examples=FILE (`rsso-dspy constitution build --writer symbolic -o FILE` writes one if "
            "the benchmark has `lessons`), or take a neural writer"
        )
    return examples


WRITER = "constitution_writer"


class ConstitutionMemory(Memory):
    """Rules of three categories, written while the agent plays and read from the next step on: by a model every
    `r_freq` steps, by patterns (``symbolic``) after every step, or by nobody. Rules written in an interrupted episode,
    which is replayed, are discarded."""

    region = "constitution"

    def __init__(self, services: Services):
        super().__init__(services)
        self.settings: ConstitutionSettings = services.runtime.constitution or ConstitutionSettings()
        method = services.method
        self._writes: bool = method.writing is not None
        self._by_patterns: bool = method.writing == "symbolic"
        self._examples = require_examples(
            method.name,
            method.writing,
            services.runtime.examples,
            self.settings.categories,
            self.settings.prompts,
        )
        self._asked = {"priorities": True} if self.settings.priorities else {}
        self._kept = self.constitution = Constitution()
        self._variant = Variant("", 0)
        self._task = ""
        self._tasks = 0  # that were played
        self._met = ""  # the variant of the last one
        self._counts: dict[str, int] = {}

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant = variant
        self._task = task
        self.constitution = self._kept
        self._counts = dict.fromkeys(("calls", "written", "again", "malformed", "merged", "dropped", "summaries"), 0)
        if self._by_patterns and not self.constitution.rules:
            self._add_lessons(self.services.environment.rules_of_thumb, "", "written by hand")

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        if self.constitution.document:
            return Recall(items=(Document(self.constitution.document),))

        rules = sorted(self.constitution.select_rules(*LASTING), key=self._get_priority)
        lines = [rule.lesson.line for rule in rules]
        limit = self.settings.relevant
        if limit is not None and len(lines) > limit:
            nearest = find_nearest(self.services.runtime.embed, self._task, lines)
            places = [place for place, _ in nearest[:limit]]
            lines = [lines[place] for place in sorted(places)]

        progress = [f"- {rule.lesson.line}" for rule in self.constitution.select_rules("progress")]
        return Recall(items=tuple(lines), progress="\n".join(progress))

    def observe(self, states: Sequence[State], steps: Sequence[Step]) -> None:
        if self._is_write_due(len(steps)):
            self._write_rules(states, steps)

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Write the lessons of the last step, with `at_end` of the whole episode; drop progress rules; summarize every
        `s_freq` tasks, where several trials of one variant in a row are one."""
        if self._writes:
            self._write_at_end(trajectory)
            self.constitution = self.constitution.keep_categories(LASTING)
            self._count_task(trajectory.variant.key)
        self._kept = self.constitution
        return {**self._counts, "held": len(self._kept.entries)}

    def _write_at_end(self, trajectory: Trajectory) -> None:
        ended = trajectory if self.settings.at_end and not self._by_patterns else None
        due = ended is not None or self._is_write_due(len(trajectory.steps))
        if trajectory.steps and self.settings.lasting and due:
            self._write_rules(trajectory.states, trajectory.steps, ended)

    def _count_task(self, variant: str) -> None:
        """Count the variant if it is another than in the last trial, and summarize if it is time."""
        if variant == self._met:
            return
        self._met = variant
        self._tasks += 1
        if self._tasks % self.settings.s_freq == 0:
            self._summarize(variant)

    def snapshot(self) -> dict[str, Any]:
        return {**self._kept.dump(), "tasks": self._tasks, "met": self._met}

    def restore(self, data: dict[str, Any]) -> None:
        self._kept = self.constitution = Constitution.load(data).keep_categories(self.settings.lasting)
        self._tasks = data.get("tasks", 0)
        self._met = data.get("met", "")

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Any]:
        return Constitution.load(snapshot).entries

    def _is_write_due(self, steps: int) -> bool:
        due = self._by_patterns or steps % self.settings.r_freq == 0
        return due and self._writes and bool(self.settings.categories)

    def _write_rules(self, states: Sequence[State], steps: Sequence[Step], ended: Trajectory | None = None) -> None:
        environment = self.services.environment
        if self._by_patterns:
            answers = [environment.lessons(states, steps)]
        else:
            play = PartialEpisode(self._task, states, steps, ended, environment.render)
            categories = self.settings.categories if ended is None else self.settings.lasting
            parts = _split_calls(categories, self.settings.prompts)
            answers = [self._ask_for_rules(play, part) for part in parts]

        readable = [answer for answer in answers if answer is not None]
        if not readable:
            return
        lessons = list(chain.from_iterable(readable))
        self._add_lessons(lessons, self._variant.task, self._variant.key)
        if self._exceeds_bounds():
            self._summarize(self._variant.key)

    def _ask_for_rules(self, play: PartialEpisode, categories: Sequence[Category]) -> Sequence[Lesson] | None:
        """The lessons of an answer, or those that several samples agree on; None if none of them can be read."""
        inputs = {"play": play, "known": self.constitution, "examples": self._examples, "categories": categories}
        count = self.settings.samples
        samples: list[dict[str, int]] = [{}]
        if count > 1:
            samples = [{"sample": number} for number in range(count)]
        answers = [self.services.ask(WRITER, **inputs, **self._asked, **sample) for sample in samples]

        readable = [answer.lessons for answer in answers if answer is not None]
        self._counts["calls"] += count
        self._counts["malformed"] += count - len(readable)
        if not readable:
            return None
        return select_agreed(readable, count, self.settings.agreement)

    def _add_lessons(self, lessons: Sequence[Lesson], task: str, source: str) -> None:
        allowed = self._filter_lessons(lessons)
        self._take_over(self.constitution.with_lessons(allowed, task, source))

    def _filter_lessons(self, lessons: Sequence[Lesson]) -> list[Lesson]:
        """The lessons of the categories to keep that say something."""
        of_category = [lesson for lesson in lessons if lesson.category in self.settings.categories]
        return [lesson for lesson in of_category if lesson.text.strip()]

    def _get_priority(self, rule: Rule) -> int:
        """What a rule's words begin with, if priorities are asked for: ``Priority 2: open doors``. 1 comes first."""
        if not self.settings.priorities:
            return UNRANKED
        match = _PRIORITY.match(rule.lesson.text)
        return int(match[1]) if match else UNRANKED

    def _take_over(self, book: Constitution) -> None:
        for edit in book.edits[len(self.constitution.edits) :]:
            self._counts[edit] += 1
        self.constitution = book

    def _list_crowded(self) -> list[Category]:
        most = self.settings.max_rules
        return [category for category in LASTING if len(self.constitution.select_rules(category)) > most]

    def _exceeds_bounds(self) -> bool:
        if self._list_crowded():
            return True
        return len(self.constitution.text) > self.settings.max_chars

    def _summarize(self, source: str) -> None:
        """Summarize the lasting rules, and drop any surplus."""
        book = self.constitution
        if not book.select_rules(*LASTING):
            return
        if self._by_patterns:
            answers: list[Sequence[Lesson]] = [condense_rules(book)]
        else:
            answers = self._ask_for_summaries(book)

        summaries = [self._filter_lessons(lessons) for lessons in answers]
        for summary in summaries:
            self._counts["summaries" if summary else "malformed"] += 1
        if any(summaries):
            self._take_over(book.apply_summary(list(chain.from_iterable(summaries)), source))
        self._drop_surplus()

    def _ask_for_summaries(self, book: Constitution) -> list[Sequence[Lesson]]:
        """The lessons of each answer; none where it cannot be read."""
        answers: list[Sequence[Lesson]] = []
        for part in _split_calls(self.settings.lasting, self.settings.summaries):
            if book.select_rules(*part):
                answer = self.services.ask(WRITER, "shorten", known=book, categories=part, **self._asked)
                answers.append(answer.lessons if answer else [])
        return answers

    def _drop_surplus(self) -> None:
        """Drop the rules beyond the bounds: the last by priority, of these the least repeated, then the oldest."""
        while self._exceeds_bounds():
            crowded = self.constitution.select_rules(*(self._list_crowded() or LASTING))
            weakest = min(crowded, key=lambda rule: (-self._get_priority(rule), rule.count))
            self._take_over(self.constitution.drop_rule(weakest))
