"""PDDL read from text: STRIPS with types, constants, equality and negative conditions.

    domain = read_domain(text, "gripper.pddl")
    problem = read_setup(text, domain, "prob01.pddl")

What cannot be read raises `DamagedFile`, with the line and the reason. A ``?`` begins a word wherever it stands, as in
``- level?l1``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from rsso_dspy.environments.pddl.strips import OBJECT, Action, Domain, Literal, Problem
from rsso_dspy.errors import DamagedFile

_TOKEN = re.compile(r"[()]|\?[^\s()?;]+|[^\s()?;]+")
MOST_DEPTH = 50
"""Parentheses in one another at most."""


class _Word(NamedTuple):
    text: str
    line: int


class _Form(NamedTuple):
    """What stands between two parentheses."""

    parts: "tuple[_Word | _Form, ...]"
    line: int

    @property
    def head(self) -> str:
        first = self.parts[0] if self.parts else None
        return first.text if isinstance(first, _Word) else ""


_Part: TypeAlias = _Word | _Form


class _Reader:
    """One text. Every complaint names its line."""

    def __init__(self, text: str, name: str):
        self.name = name
        self._tokens = [
            _Word(token, number)
            for number, line in enumerate(text.lower().splitlines(), 1)
            for token in _TOKEN.findall(line.partition(";")[0])
        ]
        self._at = 0

    def fail(self, line: int, why: str) -> DamagedFile:
        return DamagedFile(self.name, f"line {line}: {why}")

    def read_definition(self, kind: str) -> tuple[str, list[_Form]]:
        """Name and sections of ``(define (KIND NAME) SECTION...)``."""
        whole = self._read_whole()
        first, *sections = whole.parts[1:] or (None,)
        if whole.head != "define" or not isinstance(first, _Form) or first.head != kind:
            raise self.fail(whole.line, f"expected (define ({kind} NAME) ...)")
        _, *names = self.list_words(first)
        if len(names) != 1:
            raise self.fail(first.line, f"a {kind} has one name")
        return names[0].text, [self.expect_form(section) for section in sections]

    def expect_form(self, part: _Part | None) -> _Form:
        if not isinstance(part, _Form):
            raise self.fail(part.line if part else 1, f"expected ( in place of {part.text if part else 'nothing'}")
        return part

    def list_words(self, form: _Form) -> list[_Word]:
        """The parts of a form that holds words only."""
        for part in form.parts:
            if isinstance(part, _Form):
                raise self.fail(part.line, f"a ( where {form.head or 'a list'} takes words only")
        return [part for part in form.parts if isinstance(part, _Word)]

    def read_typed(self, words: Sequence[_Word], types: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Names with their types: ``a b - ball c`` is two balls and one object."""
        waiting: list[str] = []
        left = iter(words)
        for word in left:
            if word.text != "-":
                waiting.append(word.text)
                continue
            kind = next(left, None)
            if kind is None or not waiting:
                raise self.fail(word.line, "a - stands between names and their type")
            if kind.text != OBJECT and kind.text not in types:
                raise self.fail(kind.line, f"unknown type {kind.text}")
            yield from ((name, kind.text) for name in waiting)
            waiting = []
        yield from ((name, OBJECT) for name in waiting)

    def read_literals(self, part: _Part | None, predicates: Mapping[str, tuple[str, ...]]) -> Iterator[Literal]:
        """The literals of a conjunction, of one literal, or of nothing at all."""
        form = self.expect_form(part)
        if not form.parts:
            return
        if form.head == "and":
            for inner in form.parts[1:]:
                yield from self.read_literals(inner, predicates)
            return
        positive = form.head != "not"
        if not positive:
            if len(form.parts) != 2:
                raise self.fail(form.line, "not takes one fact")
            form = self.expect_form(form.parts[1])
        words = tuple(word.text for word in self.list_words(form))
        if not words or words[0] not in predicates:
            raise self.fail(form.line, f"unknown predicate {form.head or '()'}")
        if len(words) - 1 != (takes := len(predicates[words[0]])):
            raise self.fail(form.line, f"{words[0]} takes {takes} arguments, not {len(words) - 1}")
        yield Literal(words, positive, form.line)

    def check_names(self, literals: Sequence[Literal], known: Mapping[str, str]) -> None:
        for literal in literals:
            for name in literal.fact[1:]:
                if name not in known:
                    raise self.fail(literal.line, f"unknown {'parameter' if name[0] == '?' else 'object'} {name}")

    def _read_whole(self) -> _Form:
        if not self._tokens:
            raise self.fail(1, "it is empty")
        whole = self._read_part(0)
        if not isinstance(whole, _Form):
            raise self.fail(whole.line, f"expected ( in place of {whole.text}")
        if self._at < len(self._tokens):
            raise self.fail(self._tokens[self._at].line, "something stands after the last )")
        return whole

    def _read_part(self, depth: int, within: int = 1) -> _Part:
        """``within``: the line of the group that the part stands in."""
        word = self._tokens[self._at]
        self._at += 1
        if word.text == ")":
            raise self.fail(word.line, "a ) without its (")
        if word.text != "(":
            return word
        if depth >= MOST_DEPTH:
            raise self.fail(word.line, f"more than {MOST_DEPTH} ( in one another")
        if depth > 1 and self._at < len(self._tokens) and (first := self._tokens[self._at]).text.startswith(":"):
            raise self.fail(within, f"a ( without its ) before {first.text} in line {first.line}")
        parts: list[_Part] = []
        while True:
            if self._at >= len(self._tokens):
                latest = parts[-1].line if parts and not depth else word.line
                raise self.fail(latest, f"a ( without its ){', here or below' if latest != word.line else ''}")
            if self._tokens[self._at].text == ")":
                self._at += 1
                return _Form(tuple(parts), word.line)
            parts.append(self._read_part(depth + 1, word.line))


def read_domain(text: str, name: str) -> Domain:
    """A domain. `name` is what complaints call the text."""
    reader = _Reader(text, name)
    called, sections = reader.read_definition("domain")
    types: dict[str, str] = {}
    constants: dict[str, str] = {}
    predicates: dict[str, tuple[str, ...]] = {}
    actions: dict[str, Action] = {}
    for section in sections:
        if section.head == ":types":
            words = reader.list_words(section)[1:]
            listed = dict(reader.read_typed(words, {word.text: OBJECT for word in words}))
            types = {**{above: OBJECT for above in listed.values() if above != OBJECT}, **listed}
        elif section.head == ":constants":
            constants = dict(reader.read_typed(reader.list_words(section)[1:], types))
        elif section.head == ":predicates":
            for each in section.parts[1:]:
                first, *rest = reader.list_words(reader.expect_form(each)) or [_Word("", section.line)]
                predicates[first.text] = tuple(kind for _, kind in reader.read_typed(rest, types))
        elif section.head == ":action":
            action = _read_action(reader, section, types, {"=": (OBJECT, OBJECT), **predicates}, constants)
            actions[action.name] = action
        elif section.head != ":requirements":
            raise reader.fail(section.line, f"unknown section {section.head or '()'}")
    return Domain(called, types, predicates, actions, constants)


def _read_action(
    reader: _Reader,
    section: _Form,
    types: Mapping[str, str],
    predicates: Mapping[str, tuple[str, ...]],
    constants: Mapping[str, str],
) -> Action:
    _, name, *rest = (*section.parts, None)
    if not isinstance(name, _Word):
        raise reader.fail(section.line, "an action has a name")
    given: dict[str, _Part] = {}
    fields = rest[:-1]
    for key, value in zip(fields[::2], fields[1::2], strict=False):
        if not isinstance(key, _Word) or key.text not in (":parameters", ":precondition", ":effect"):
            raise reader.fail(section.line, f"{name.text} has :parameters, :precondition and :effect only")
        assert value is not None
        given[key.text] = value
    if ":parameters" not in given or ":effect" not in given:
        raise reader.fail(section.line, f"{name.text} lacks :parameters or :effect")
    words = reader.list_words(reader.expect_form(given[":parameters"]))
    parameters = tuple(reader.read_typed(words, types))
    nothing = _Form((), section.line)
    conditions = tuple(reader.read_literals(given.get(":precondition", nothing), predicates))
    effects = tuple(reader.read_literals(given[":effect"], predicates))
    reader.check_names((*conditions, *effects), {**constants, **dict(parameters)})
    return Action(name.text, parameters, conditions, effects)


def read_setup(text: str, domain: Domain, name: str) -> Problem:
    """A problem of the domain; what its file calls the domain does not matter."""
    reader = _Reader(text, name)
    called, sections = reader.read_definition("problem")
    found = {section.head: section for section in sections}
    for section in sections:
        if section.head not in (":domain", ":objects", ":init", ":goal", ":requirements"):
            raise reader.fail(section.line, f"unknown section {section.head or '()'}")
    for needed in (":objects", ":init", ":goal"):
        if needed not in found:
            raise reader.fail(1, f"it has no {needed}")
    listed = reader.list_words(found[":objects"])[1:]
    objects = {**domain.constants, **dict(reader.read_typed(listed, domain.types))}
    start = [
        literal for part in found[":init"].parts[1:] for literal in reader.read_literals(part, domain.argument_types)
    ]
    goals = found[":goal"].parts[1:]
    if len(goals) != 1:
        raise reader.fail(found[":goal"].line, ":goal takes one fact, or one (and ...)")
    goal = tuple(reader.read_literals(goals[0], domain.argument_types))
    if not goal:
        raise reader.fail(found[":goal"].line, "the goal is empty")
    reader.check_names((*start, *goal), objects)
    if denied := next((literal for literal in (*start, *goal) if not literal.positive), None):
        raise reader.fail(denied.line, "start and goal say what holds, not what does not")
    return Problem(called, objects, frozenset(literal.fact for literal in start), goal)
