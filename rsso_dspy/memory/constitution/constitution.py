"""The constitution: rules, and the log of all edits. Rules are compared by their words.

    book = Constitution().with_lessons(lessons, task="boil", source="boil::3")
    book.text                               # as shown in a prompt
    book.edits[-1]                          # RuleEdit(what="add", id="A1", ...)

Constitutions are immutable: every edit returns a new one.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from rsso_dspy.records import Category, Lesson

CATEGORIES: tuple[Category, ...] = get_args(Category)
LASTING: tuple[Category, ...] = ("abstract", "error")
"""Categories that outlive the episode."""

_WORDS = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    _WORDS.findall("a an and are as at be by can do for from has in into is it its not of on or that the to was")
)
ALIKE = 0.5
"""Share of a rule's words above which a merged rule counts as containing it."""
NEARLY_ALL = 0.8
"""Share above which two rules say the same."""

SCHEMA = 1

HEADINGS: dict[Category, str] = {
    "abstract": "How this world works:",
    "error": "Mistakes that were made, and what to do instead:",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a constitution."""

    id: str
    """Letter of its category and a number that is never reused, e.g. ``A7``."""
    lesson: Lesson
    task: str = ""
    """Task type it was learned on; empty for initial rules and for rules from several tasks."""
    source: str = ""
    """Key of the variant it was learned on, several joined by `` + ``; or the author of a handwritten rule."""
    count: int = 1
    """How often it was written."""


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """One edit."""

    what: Literal["add", "again", "merge", "drop", "keep"]
    """add: a new rule. again: an existing rule was repeated. merge: several rules became one. drop: a rule was removed.
    keep: a summary left out a category, whose rules stay."""
    id: str
    """The rule that was added, repeated or dropped, or that others were merged into; for keep, the first."""
    source: str
    """Key of the current variant, or another source of the edit."""
    text: str = ""
    """The text of the rule after the edit; for drop, before it."""
    of: tuple[str, ...] = ()
    """Merged or kept rules."""
    why: str = ""
    """For drop: the summary or a bound. For keep: what the summary lacks."""


@dataclass(frozen=True, slots=True)
class Constitution:
    """Rules in the order of their first appearance."""

    rules: tuple[Rule, ...] = ()
    edits: tuple[RuleEdit, ...] = ()
    numbered: int = 0
    """Last number given to a rule."""

    def select_rules(self, *categories: Category) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.lesson.category in categories)

    @property
    def text(self) -> str:
        """The lasting rules as prompt text; empty if there are none."""
        parts = []
        for category in LASTING:
            if rules := self.select_rules(category):
                parts.append("\n".join([HEADINGS[category], *(f"- {rule.lesson.line}" for rule in rules)]))
        return "\n\n".join(parts)

    @property
    def items(self) -> tuple[str, ...]:
        """The lasting rules as a prompt lists them."""
        return tuple(rule.lesson.line for rule in self.select_rules(*LASTING))

    @property
    def progress(self) -> str:
        return "\n".join(f"- {rule.lesson.line}" for rule in self.select_rules("progress"))

    def with_lessons(self, lessons: Sequence[Lesson], task: str, source: str) -> "Constitution":
        """Add lessons; existing rules are counted once more, and new progress rules replace the old ones."""
        book = self
        for lesson in lessons:
            if lesson.category != "progress":
                book = book._add_lesson(lesson, task, source)
        progress = {normalize_lesson(lesson): lesson for lesson in lessons if lesson.category == "progress"}.values()
        if not progress:
            return book
        rules = [Rule(f"P{number}", lesson, task, source) for number, lesson in enumerate(progress, start=1)]
        return replace(book, rules=(*book.select_rules(*LASTING), *rules))

    def _add_lesson(self, lesson: Lesson, task: str, source: str) -> "Constitution":
        known = next((rule for rule in self.rules if normalize_lesson(rule.lesson) == normalize_lesson(lesson)), None)
        if known:
            said = replace(known, count=known.count + 1)
            rules = tuple(said if rule is known else rule for rule in self.rules)
            return replace(self, rules=rules, edits=(*self.edits, RuleEdit("again", known.id, source)))
        rule = Rule(_make_rule_id(lesson, self.numbered + 1), lesson, task, source)
        edits = (*self.edits, RuleEdit("add", rule.id, source, lesson.line))
        return Constitution((*self.rules, rule), edits, self.numbered + 1)

    def drop_categories(self, categories: Collection[Category]) -> "Constitution":
        """Remove categories. Removing progress rules leaves no edit in the log."""
        gone = [rule for rule in self.rules if rule.lesson.category in categories]
        book = replace(self, rules=tuple(rule for rule in self.rules if rule not in gone))
        lasting = [rule for rule in gone if rule.lesson.category != "progress"]
        return replace(book, edits=(*self.edits, *(_make_drop_edit(rule, "", "category") for rule in lasting)))

    def drop_rules(self, rules: Collection[Rule], source: str, why: str) -> "Constitution":
        kept = tuple(rule for rule in self.rules if rule not in rules)
        return replace(self, rules=kept, edits=(*self.edits, *(_make_drop_edit(rule, source, why) for rule in rules)))

    def apply_summary(self, lessons: Sequence[Lesson], source: str) -> "Constitution":
        """Replace the lasting rules by their summary (OmniReflect, Algorithm 1, line 27).

        An unchanged rule keeps its id and count; a rule with words of several is their merge; rules that no new rule
        mostly contains are dropped. A category that the summary leaves out stays as it was.
        """
        told = {lesson.category for lesson in lessons}
        before = [rule for rule in self.select_rules(*LASTING) if rule.lesson.category in told]
        made = list({normalize_lesson(lesson): lesson for lesson in lessons if lesson.category in LASTING}.values())
        homes = {rule.id: _find_successor(rule.lesson, made) for rule in before}
        number, edits, rules = self.numbered, list(self.edits), []
        for lesson in made:
            sources = [rule for rule in before if homes[rule.id] is lesson]
            same = next((rule for rule in sources if normalize_lesson(rule.lesson) == normalize_lesson(lesson)), None)
            count = sum(rule.count for rule in sources) or 1
            if same is None:
                number += 1
            name = same.id if same else _make_rule_id(lesson, number)
            tasks = tuple(dict.fromkeys(rule.task for rule in sources))
            origin = " + ".join(dict.fromkeys(part for rule in sources for part in rule.source.split(" + "))) or source
            rules.append(Rule(name, lesson, tasks[0] if len(tasks) == 1 else "", origin, count))
            others = tuple(rule.id for rule in sources if rule is not same)
            if others:
                edits.append(RuleEdit("merge", name, source, lesson.line, others))
            elif same is None:
                edits.append(RuleEdit("add", name, source, lesson.line, why="summary"))
        edits += [_make_drop_edit(rule, source, "summary") for rule in before if homes[rule.id] is None]
        for category in (category for category in LASTING if category not in told):
            if kept := self.select_rules(category):
                names = tuple(rule.id for rule in kept)
                edits.append(RuleEdit("keep", names[0], source, of=names, why=f"no {category} rules in the summary"))
                rules += kept
        return Constitution((*rules, *self.select_rules("progress")), tuple(edits), number)

    def dump(self) -> dict[str, Any]:
        rules = []
        for rule in self.rules:
            lesson, error = asdict(rule.lesson), rule.lesson.category == "error"
            said = {key: value for key, value in lesson.items() if error or key != "solution"}
            rules.append({"id": rule.id, **said, "task": rule.task, "source": rule.source, "count": rule.count})
        edits = [{key: value for key, value in asdict(edit).items() if value} for edit in self.edits]
        return {"schema": SCHEMA, "rules": rules, "edits": edits, "numbered": self.numbered}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Constitution":
        """Load the data of `dump`. Raises `KeyError`, `TypeError` or `ValueError` for other data."""
        rules = [
            Rule(
                row["id"],
                Lesson(row["category"], row["text"], row.get("solution", "")),
                **{name: row[name] for name in ("task", "source", "count") if name in row},
            )
            for row in data["rules"]
        ]
        edits = [RuleEdit(**{"source": "", **row, "of": tuple(row.get("of", ()))}) for row in data.get("edits", ())]
        return cls(tuple(rules), tuple(edits), int(data.get("numbered", len(rules))))


def _find_successor(lesson: Lesson, made: Sequence[Lesson]) -> Lesson | None:
    """Return the new rule that contains most of an old one, or None."""
    if same := next((other for other in made if normalize_lesson(other) == normalize_lesson(lesson)), None):
        return same
    best = max(made, key=lambda other: compute_word_overlap(lesson, other), default=None)
    return best if best is not None and compute_word_overlap(lesson, best) >= ALIKE else None


def _make_drop_edit(rule: Rule, source: str, why: str) -> RuleEdit:
    return RuleEdit("drop", rule.id, source, rule.lesson.line, why=why)


def condense_rules(book: Constitution) -> list[Lesson]:
    """Drop lasting rules whose words another rule nearly all contains: a summary without a model."""
    lessons = [rule.lesson for rule in book.select_rules(*LASTING)]
    kept: list[Lesson] = []
    for lesson in sorted(lessons, key=lambda each: -len(each.line)):
        if not any(compute_word_overlap(lesson, longer) >= NEARLY_ALL for longer in kept):
            kept.append(lesson)
    return [lesson for lesson in lessons if lesson in kept]


def _make_rule_id(lesson: Lesson, number: int) -> str:
    return f"{lesson.category[0].upper()}{number}"


def normalize_lesson(lesson: Lesson) -> str:
    """Normalize a lesson without case and punctuation, to find duplicates."""
    return f"{lesson.category} {' '.join(_WORDS.findall(lesson.line.lower()))}"


def compute_word_overlap(one: Lesson, other: Lesson) -> float:
    """Return the share of one lesson's words that the other contains; 0 for different categories."""
    ours, theirs = _extract_rule_words(one), _extract_rule_words(other)
    if one.category != other.category or not ours:
        return 0.0
    return len(ours & theirs) / len(ours)


def _extract_rule_words(lesson: Lesson) -> set[str]:
    return {word for word in _WORDS.findall(lesson.line.lower()) if word not in _FILLERS}


def select_category_examples(examples: str, categories: Sequence[Category]) -> str:
    """Remove the rules of other categories from a writer's examples. Empty if no rules are left."""
    left = examples
    for category in (category for category in CATEGORIES if category not in categories):
        left = re.sub(rf"^{category.capitalize()} rules:\n(?:- .*(?:\n|\Z))*", "", left, flags=re.M)
    return left if left == examples or re.search(r"^\w+ rules:$", left, re.M) else ""
