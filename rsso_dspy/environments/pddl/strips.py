"""PDDL read from text and made ready to be played: STRIPS with types, constants, equality and negative conditions.

    domain = read_domain(text, "gripper.pddl")
    world = World(domain, read_setup(text, domain, "prob01.pddl"))
    world.start                                   # int: bit i stands for world.facts[i]
    world.apply(world.start, "move", ("rooma", "roomb"))

Everything is in lower case. A fact is a tuple, the predicate first: ``("at", "ball1", "rooma")``. In an action's
conditions and effects an argument that begins with ``?`` is one of its parameters; ``=`` holds of equal objects. A `?`
begins a word wherever it stands, as in ``- level?l1``. What cannot be read raises `DamagedFile`, with line and reason.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from rsso_dspy.errors import DamagedFile, UsageError

OBJECT = "object"
"""The type of all types."""
MOST_ACTIONS = 200_000
"""Ground actions of one problem at most."""
MOST_DEPTH = 50
"""Parentheses in one another at most."""

Fact = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A fact, perhaps with parameters in it, or its denial. ``line``: where it stands, from 1; 0 if in no file."""

    fact: Fact
    positive: bool = True
    line: int = 0


@dataclass(frozen=True, slots=True)
class Action:
    """An action scheme. ``parameters``: names, with their ``?``, and types."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    conditions: tuple[Literal, ...]
    effects: tuple[Literal, ...]


@dataclass(frozen=True, eq=False)
class Domain:
    """Types, predicates, constants and actions."""

    name: str
    types: Mapping[str, str]
    """Type to the one above it; `OBJECT` is above all."""
    argument_types: Mapping[str, tuple[str, ...]]
    """Predicate to the types of its arguments."""
    actions: Mapping[str, Action]
    constants: Mapping[str, str] = field(default_factory=dict)
    """Object to type."""

    def is_of_type(self, own: str, wanted: str) -> bool:
        """Whether what is of the type `own` is of the type `wanted` too."""
        while own not in (wanted, OBJECT):
            own = self.types.get(own, OBJECT)
        return wanted in (own, OBJECT)


@dataclass(frozen=True, eq=False)
class Problem:
    """Objects with their types (constants of the domain among them), what holds at the start, and what is wanted."""

    name: str
    objects: Mapping[str, str]
    start: frozenset[Fact]
    goal: tuple[Literal, ...]

    @property
    def key(self) -> tuple[frozenset[Fact], frozenset[Fact]]:
        """What two problems have in common that are the same."""
        return self.start, frozenset(each.fact for each in self.goal)


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
_TOKEN = re.compile(r"[()]|\?[^\s()?;]+|[^\s()?;]+")


class _Reader:
    """One text, called ``name`` in complaints. Every complaint names its line."""

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
        if not self._tokens:
            raise self.fail(1, "it is empty")
        whole = self.expect_form(self._read_part(0))
        if self._at < len(self._tokens):
            raise self.fail(self._tokens[self._at].line, "something stands after the last )")
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
    given: dict[str, _Part | None] = {}
    for key, value in zip(rest[:-1:2], rest[1:-1:2], strict=False):
        if not isinstance(key, _Word) or key.text not in (":parameters", ":precondition", ":effect"):
            raise reader.fail(section.line, f"{name.text} has :parameters, :precondition and :effect only")
        given[key.text] = value
    if ":parameters" not in given or ":effect" not in given:
        raise reader.fail(section.line, f"{name.text} lacks :parameters or :effect")
    words = reader.list_words(reader.expect_form(given[":parameters"]))
    parameters = tuple(reader.read_typed(words, types))
    conditions = tuple(reader.read_literals(given.get(":precondition", _Form((), section.line)), predicates))
    effects = tuple(reader.read_literals(given[":effect"], predicates))
    reader.check_names((*conditions, *effects), {**constants, **dict(parameters)})
    return Action(name.text, parameters, conditions, effects)


def read_setup(text: str, domain: Domain, name: str) -> Problem:
    """A problem of the domain; what its file calls the domain does not matter."""
    reader = _Reader(text, name)
    called, sections = reader.read_definition("problem")
    by_head = {section.head: section for section in sections}
    for section in sections:
        if section.head not in (":domain", ":objects", ":init", ":goal", ":requirements"):
            raise reader.fail(section.line, f"unknown section {section.head or '()'}")
    for needed in (":objects", ":init", ":goal"):
        if needed not in by_head:
            raise reader.fail(1, f"it has no {needed}")
    listed = reader.list_words(by_head[":objects"])[1:]
    objects = {**domain.constants, **dict(reader.read_typed(listed, domain.types))}
    start = [
        literal for part in by_head[":init"].parts[1:] for literal in reader.read_literals(part, domain.argument_types)
    ]
    goals = by_head[":goal"].parts[1:]
    if len(goals) != 1:
        raise reader.fail(by_head[":goal"].line, ":goal takes one fact, or one (and ...)")
    goal = tuple(reader.read_literals(goals[0], domain.argument_types))
    if not goal:
        raise reader.fail(by_head[":goal"].line, "the goal is empty")
    reader.check_names((*start, *goal), objects)
    if denied := next((literal for literal in (*start, *goal) if not literal.positive), None):
        raise reader.fail(denied.line, "start and goal say what holds, not what does not")
    return Problem(called, objects, frozenset(literal.fact for literal in start), goal)


@dataclass(frozen=True, slots=True)
class GroundAction:
    """An action with its objects. The masks are of facts. ``distinct``: no object stands in it twice."""

    name: str
    arguments: tuple[str, ...]
    needs: int
    forbids: int
    adds: int
    removes: int
    distinct: bool

    def apply(self, state: int) -> int:
        return (state & ~self.removes) | self.adds


class World:
    """The ground actions of a problem. Facts that no action changes are checked once, and are not among the bits."""

    def __init__(self, domain: Domain, problem: Problem):
        self.domain, self.problem = domain, problem
        self._changing = {literal.fact[0] for action in domain.actions.values() for literal in action.effects}
        self.facts: list[Fact] = []
        self._bits: dict[Fact, int] = {}
        self.fixed = frozenset(fact for fact in problem.start if fact[0] not in self._changing)
        """Facts of the start that hold for ever."""
        self.start = sum(self._make_bit(fact) for fact in sorted(problem.start - self.fixed))
        self.actions: list[GroundAction] = []
        for action in domain.actions.values():
            for ground in self._ground_action(action):
                self.actions.append(ground)
                if len(self.actions) > MOST_ACTIONS:
                    raise UsageError(f"{problem.name} has more than {MOST_ACTIONS:,} actions: leave objects out")
        self._by_words = {(each.name, each.arguments): each for each in self.actions}
        self.goal_bits = tuple(0 if each.fact in self.fixed else self._bits.get(each.fact, -1) for each in problem.goal)
        """A bit for each literal of the goal, 0 for one that holds for ever, -1 for one that never does."""

    def count_reached(self, state: int) -> int:
        """How many literals of the goal hold."""
        return sum(bit == 0 or (bit > 0 and bool(state & bit)) for bit in self.goal_bits)

    def list_bits(self, state: int) -> list[Fact]:
        """The facts that these bits stand for, in no order that means anything."""
        facts = []
        while state:
            low = state & -state
            facts.append(self.facts[low.bit_length() - 1])
            state ^= low
        return facts

    def list_applicable(self, state: int) -> list[GroundAction]:
        return [each for each in self.actions if state & each.needs == each.needs and not state & each.forbids]

    def apply(self, state: int, name: str, arguments: tuple[str, ...]) -> int:
        """The state after an action; the same one when it cannot be taken, or when no such action is there."""
        ground = self._by_words.get((name, arguments))
        if ground is None or state & ground.needs != ground.needs or state & ground.forbids:
            return state
        return ground.apply(state)

    def find_unreachable(self) -> Literal | None:
        """A literal of the goal that no actions whatever make true, if there is one."""
        reached, before = self.start, -1
        while reached != before:
            before = reached
            for action in self.actions:
                if reached & action.needs == action.needs:
                    reached |= action.adds
        for literal, bit in zip(self.problem.goal, self.goal_bits, strict=True):
            if bit < 0 or (bit and not reached & bit):
                return literal
        return None

    def is_unsolvable(self, most_states: int) -> bool:
        """Whether it is certain that nothing solves it: all states were seen, and there were not too many."""
        seen, left = {self.start}, [self.start]
        while left:
            state = left.pop()
            if self.count_reached(state) == len(self.goal_bits):
                return False
            after = {action.apply(state) for action in self.list_applicable(state)} - seen
            seen |= after
            left += after
            if len(seen) > most_states:
                return False
        return True

    def _make_bit(self, fact: Fact) -> int:
        if fact not in self._bits:
            self._bits[fact] = 1 << len(self.facts)
            self.facts.append(fact)
        return self._bits[fact]

    def _ground_action(self, action: Action) -> Iterator[GroundAction]:
        names = [name for name, _ in action.parameters]
        candidates = [
            [name for name, own in self.problem.objects.items() if self.domain.is_of_type(own, wanted)]
            for _, wanted in action.parameters
        ]
        due: list[list[Literal]] = [[] for _ in range(len(names) + 1)]  # by the last parameter that each names
        for literal in action.conditions:
            if literal.fact[0] not in self._changing:
                places = [names.index(part) + 1 for part in literal.fact[1:] if part.startswith("?")]
                due[max(places, default=0)].append(literal)
        chosen: dict[str, str] = {}

        def extend(depth: int) -> Iterator[GroundAction]:
            if not all(self._holds_for_ever(literal, chosen) for literal in due[depth]):
                return
            if depth == len(names):
                yield self._fill_action(action, chosen)
                return
            for candidate in candidates[depth]:
                chosen[names[depth]] = candidate
                yield from extend(depth + 1)
            chosen.pop(names[depth], None)

        yield from extend(0)

    def _holds_for_ever(self, literal: Literal, chosen: dict[str, str]) -> bool:
        predicate, *arguments = fact = _fill_fact(literal.fact, chosen)
        holds = arguments[0] == arguments[1] if predicate == "=" else fact in self.fixed
        return holds == literal.positive

    def _fill_action(self, action: Action, chosen: dict[str, str]) -> GroundAction:
        def gather(literals: tuple[Literal, ...], positive: bool) -> int:
            mask = 0
            for literal in literals:
                if literal.positive == positive and literal.fact[0] in self._changing:
                    mask |= self._make_bit(_fill_fact(literal.fact, chosen))
            return mask

        arguments = tuple(chosen[name] for name, _ in action.parameters)
        return GroundAction(
            action.name,
            arguments,
            needs=gather(action.conditions, True),
            forbids=gather(action.conditions, False),
            adds=gather(action.effects, True),
            removes=gather(action.effects, False),
            distinct=len(set(arguments)) == len(arguments),
        )


def _fill_fact(fact: Fact, chosen: dict[str, str]) -> Fact:
    return (fact[0], *(chosen.get(part, part) for part in fact[1:]))
