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
            if rules := self.select_rules(category):
                parts.append("\n".join([HEADINGS[category], *(f"- {rule.lesson.line}" for rule in rules)]))
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
        rules = [Rule(f"P{number}", lesson, task, source) for number, lesson in enumerate(progress, start=1)]
        return replace(book, rules=(*book.select_rules(*LASTING), *rules))

    def _add_lesson(self, lesson: Lesson, task: str, source: str) -> "Constitution":
        if existing := next((rule for rule in self.rules if _is_same(rule.lesson, lesson)), None):
            counted = replace(existing, count=existing.count + 1)
            rules = tuple(counted if rule is existing else rule for rule in self.rules)
            return replace(self, rules=rules, edits=(*self.edits, "again"))
        number = self.numbered + 1
        rule = Rule(f"{lesson.category[0].upper()}{number}", lesson, task, source)
        return Constitution((*self.rules, rule), number, edits=(*self.edits, "written"))

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
        old_rules = [rule for rule in self.select_rules(*LASTING) if rule.lesson.category in categories]
        summary = _remove_doubles(lesson for lesson in lessons if lesson.category in LASTING)
        homes = {rule.id: _find_successor(rule.lesson, summary) for rule in old_rules}

        number = self.numbered
        rules: list[Rule] = []
        edits: list[Edit] = list(self.edits)
        for lesson in summary:
            sources = [rule for rule in old_rules if homes[rule.id] is lesson]
            same = next((rule for rule in sources if _is_same(rule.lesson, lesson)), None)
            count = sum(rule.count for rule in sources) or 1
            number += same is None
            name = same.id if same else f"{lesson.category[0].upper()}{number}"
            tasks = tuple(dict.fromkeys(rule.task for rule in sources))
            origin = " + ".join(dict.fromkeys(part for rule in sources for part in rule.source.split(" + "))) or source
            rules.append(Rule(name, lesson, tasks[0] if len(tasks) == 1 else "", origin, count))
            if sources != [same]:
                edits.append("merged" if sources else "written")
        edits += ["dropped" for rule in old_rules if homes[rule.id] is None]
        untouched = (rule for rule in self.rules if rule.lesson.category not in categories)
        return Constitution((*rules, *untouched), number, edits=tuple(edits))

    def dump(self) -> dict[str, Any]:
        rules = [{**asdict(rule), **asdict(rule.lesson), "lesson": ""} for rule in self.rules]
        document = {"document": self.document} if self.document else {}
        rows = [{k: v for k, v in row.items() if v} for row in rules]
        return {"rules": rows, "numbered": self.numbered, **document}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Constitution":
        rules = []
        for row in data["rules"]:
            lesson = Lesson(row["category"], row["text"], row.get("solution", ""))
            rules.append(Rule(row["id"], lesson, row.get("task", ""), row.get("source", ""), row["count"]))
        return cls(tuple(rules), data["numbered"], data.get("document", ""))


def _normalize_lesson(lesson: Lesson) -> str:
    return f"{lesson.category} {' '.join(_WORDS.findall(lesson.line.lower()))}"


def _is_same(one: Lesson, other: Lesson) -> bool:
    return _normalize_lesson(one) == _normalize_lesson(other)


def _remove_doubles(lessons: Iterable[Lesson]) -> list[Lesson]:
    return list({_normalize_lesson(lesson): lesson for lesson in lessons}.values())


def _find_successor(lesson: Lesson, made: Sequence[Lesson]) -> Lesson | None:
    if same := next((candidate for candidate in made if _is_same(candidate, lesson)), None):
        return same
    best = max(made, key=lambda candidate: compute_word_overlap(lesson, candidate), default=None)
    return best if best is not None and compute_word_overlap(lesson, best) >= ALIKE else None


def compute_word_overlap(one: Lesson, other: Lesson) -> float:
    """The share of one lesson's words that the other contains; 0 for different categories."""
    ours = set(_WORDS.findall(one.line.lower())) - _FILLERS
    theirs = set(_WORDS.findall(other.line.lower())) - _FILLERS
    return len(ours & theirs) / len(ours) if ours and one.category == other.category else 0.0


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
        shares = [sum(_compute_agreement(sample, peer) for peer in samples) for sample in samples]
        return list(samples[shares.index(max(shares))])
    agreed: list[Lesson] = []
    for lesson in chain.from_iterable(samples):
        votes = sum(_find_successor(lesson, sample) is not None for sample in samples)
        if votes > asked / 2 and _find_successor(lesson, agreed) is None:
            agreed.append(lesson)
    return agreed


def _compute_agreement(one: Sequence[Lesson], other: Sequence[Lesson]) -> float:
    """The share of the lessons of two answers that both hold."""
    pairs = [*((lesson, other) for lesson in one), *((lesson, one) for lesson in other)]
    return sum(_find_successor(*pair) is not None for pair in pairs) / len(pairs) if pairs else 1.0


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
        last = steps > 0 and self.at_end
        parts = len(_split_calls(self.categories, self.prompts))
        last_parts = len(_split_calls(self.lasting, self.prompts))
        replaced = last and rest == 0 and last_parts > 0
        return self.samples * ((rounds - replaced) * parts + last * last_parts)

    def count_summaries(self, tasks: int) -> int:
        """Calls of the summarizer over so many tasks, without those that the bounds bring."""
        return -(-tasks // self.s_freq) * len(_split_calls(self.lasting, self.summaries))


def _split_calls(categories: tuple[Category, ...], form: Calls) -> list[tuple[Category, ...]]:
    return [(category,) for category in categories] if form == "separate" else [categories] if categories else []


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
    for category in (category for category in CATEGORIES if category not in categories):
        pruned = re.sub(rf"^{category.capitalize()} rules:\n(?:- .*(?:\n|\Z))*", "", pruned, flags=re.M)
    return pruned if pruned == examples or re.search(r"^\w+ rules:$", pruned, re.M) else ""


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
    lacking = [part for part in _split_calls(kept, prompts) if not select_category_examples(examples, part)]
    if prompts == "separate" and 0 < len(lacking) < len(kept):
        names = " or ".join(category for part in lacking for category in part)
        raise UsageError(
            f"{method}: its writer is asked for each category in a call of its own (memory.constitution.prompts = "
            f"separate), and its examples hold no {names} rules: these calls would be those of a neural writer. "
            "Name a constitution file that holds some, --set memory.constitution.examples=FILE, leave the category out "
            "(memory.constitution.categories), or ask for all in one call (memory.constitution.prompts=joint)"
        )
    if lacking or not kept:
        raise UsageError(
            f"{method}: its writer is shown rules that patterns drew from play, and there are no such examples with "
            f"{' or '.join(kept) or 'any'} rules. Name a constitution file that holds some, --set "
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
        method, settings = services.method, self.settings
        self._writes: bool = method.writing is not None
        self._by_patterns: bool = method.writing == "symbolic"
        self._examples = require_examples(
            method.name, method.writing, services.runtime.examples, settings.categories, settings.prompts
        )
        self._kept = self.constitution = Constitution()
        self._variant, self._task = Variant("", 0), ""
        self._asked = {"priorities": True} if self.settings.priorities else {}
        self._tasks, self._met = 0, ""  # tasks played, and the variant of the last one
        self._counts: dict[str, int] = {}

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant, self._task = variant, task
        self.constitution = self._kept
        self._counts = dict.fromkeys(("calls", "written", "again", "malformed", "merged", "dropped", "summaries"), 0)
        if self._by_patterns and not self.constitution.rules:
            self._add_lessons(self.services.environment.rules_of_thumb, "", "written by hand")

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        if self.constitution.document:
            return Recall(items=(Document(self.constitution.document),))
        limit = self.settings.relevant
        rules = sorted(self.constitution.select_rules(*LASTING), key=self._get_priority)
        lines = [rule.lesson.line for rule in rules]
        if limit is not None and len(lines) > limit:
            nearest = find_nearest(self.services.runtime.embed, self._task, lines)[:limit]
            lines = [lines[place] for place in sorted(place for place, _ in nearest)]
        progress = (f"- {rule.lesson.line}" for rule in self.constitution.select_rules("progress"))
        return Recall(items=tuple(lines), progress="\n".join(progress))

    def observe(self, states: Sequence[State], steps: Sequence[Step]) -> None:
        if self._is_write_due(len(steps)):
            self._write_rules(states, steps)

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Write the lessons of the last step, with `at_end` of the whole episode; drop progress rules; summarize every
        `s_freq` tasks, where several trials of one variant in a row are one."""
        if self._writes:
            ended = trajectory if self.settings.at_end and not self._by_patterns else None
            due = ended is not None or self._is_write_due(len(trajectory.steps))
            if trajectory.steps and self.settings.lasting and due:
                self._write_rules(trajectory.states, trajectory.steps, ended)
            self.constitution = self.constitution.keep_categories(LASTING)
            new = trajectory.variant.key != self._met
            self._met = trajectory.variant.key
            self._tasks += new
            if new and self._tasks % self.settings.s_freq == 0:
                self._summarize(trajectory.variant.key)
        self._kept = self.constitution
        return {**self._counts, "held": len(self._kept.entries)}

    def snapshot(self) -> dict[str, Any]:
        return {**self._kept.dump(), "tasks": self._tasks, "met": self._met}

    def restore(self, data: dict[str, Any]) -> None:
        self._kept = self.constitution = Constitution.load(data).keep_categories(self.settings.lasting)
        self._tasks, self._met = data.get("tasks", 0), data.get("met", "")

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Any]:
        return Constitution.load(snapshot).entries

    def _is_write_due(self, steps: int) -> bool:
        due = self._by_patterns or steps % self.settings.r_freq == 0
        return due and self._writes and bool(self.settings.categories)

    def _write_rules(self, states: Sequence[State], steps: Sequence[Step], ended: Trajectory | None = None) -> None:
        variant, services = self._variant, self.services
        if self._by_patterns:
            answers = [services.environment.lessons(states, steps)]
        else:
            play = PartialEpisode(self._task, states, steps, ended, services.environment.render)
            due = self.settings.categories if ended is None else self.settings.lasting
            answers = [self._ask_for_rules(play, part) for part in _split_calls(due, self.settings.prompts)]
        if any(lessons is not None for lessons in answers):
            self._add_lessons([lesson for lessons in answers for lesson in lessons or ()], variant.task, variant.key)
            if self._exceeds_bounds():
                self._summarize(variant.key)

    def _ask_for_rules(self, play: PartialEpisode, categories: Sequence[Category]) -> Sequence[Lesson] | None:
        """The lessons of an answer, or those that several samples agree on; None if none of them can be read."""
        inputs = {"play": play, "known": self.constitution, "examples": self._examples, "categories": categories}
        count = self.settings.samples
        drawn: list[dict[str, int]] = [{"sample": number} for number in range(count)] if count > 1 else [{}]
        answers = [self.services.ask(WRITER, **inputs, **self._asked, **sampling) for sampling in drawn]
        readable = [answer.lessons for answer in answers if answer is not None]
        self._counts["calls"] += count
        self._counts["malformed"] += count - len(readable)
        return select_agreed(readable, count, self.settings.agreement) if readable else None

    def _add_lessons(self, lessons: Sequence[Lesson], task: str, source: str) -> None:
        self._take_over(self.constitution.with_lessons(self._filter_lessons(lessons), task, source))

    def _filter_lessons(self, lessons: Sequence[Lesson]) -> list[Lesson]:
        return [lesson for lesson in lessons if lesson.category in self.settings.categories and lesson.text.strip()]

    def _get_priority(self, rule: Rule) -> int:
        """What a rule's words begin with, if priorities are asked for: ``Priority 2: open doors``. 1 comes first."""
        match = _PRIORITY.match(rule.lesson.text) if self.settings.priorities else None
        return int(match[1]) if match else UNRANKED

    def _take_over(self, book: Constitution) -> None:
        for edit in book.edits[len(self.constitution.edits) :]:
            self._counts[edit] += 1
        self.constitution = book

    def _list_crowded(self) -> list[Category]:
        return [
            category for category in LASTING if len(self.constitution.select_rules(category)) > self.settings.max_rules
        ]

    def _exceeds_bounds(self) -> bool:
        return bool(self._list_crowded()) or len(self.constitution.text) > self.settings.max_chars

    def _summarize(self, source: str) -> None:
        """Summarize the lasting rules. Drop any surplus: the last by priority, of these the least repeated, then the
        oldest."""
        book = self.constitution
        if not book.select_rules(*LASTING):
            return
        if self._by_patterns:
            answers = [condense_rules(book)]
        else:
            parts = _split_calls(self.settings.lasting, self.settings.summaries)
            requests = [
                {"known": book, "categories": part, **self._asked} for part in parts if book.select_rules(*part)
            ]
            replies = [self.services.ask(WRITER, "shorten", **request) for request in requests]
            answers = [answer.lessons if answer else [] for answer in replies]
        answers = [self._filter_lessons(lessons) for lessons in answers]
        for lessons in answers:
            self._counts["summaries" if lessons else "malformed"] += 1
        if any(answers):
            self._take_over(book.apply_summary([*chain.from_iterable(answers)], source))
        while self._exceeds_bounds():
            crowded = self.constitution.select_rules(*(self._list_crowded() or LASTING))
            weakest = min(crowded, key=lambda rule: (-self._get_priority(rule), rule.count))
            self._take_over(self.constitution.drop_rule(weakest))
