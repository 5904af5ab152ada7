"""PDDL read from text and made ready to be played: STRIPS with types and constants. Everything is in lower case. A fact
is a tuple, the predicate first: ``("at", "ball1", "rooma")``. In an action's conditions and effects an argument that
begins with ``?`` is one of its parameters. Domains come with the package; a problem that cannot be read raises
`DamagedFile`."""

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.errors import DamagedFile

OBJECT = "object"  # the type of all types
Fact = tuple[str, ...]
State = frozenset[Fact]
_TOKEN = re.compile(r"[()]|\?[^\s()?;]+|[^\s()?;]+")
_NAME = re.compile(r"[\w-]+")  # of an object that an action in words can name

SECTIONS = (":domain", ":requirements", ":objects", ":init", ":goal")  # of a problem that can be played
NOT_PLAYED = {
    "not": "a negation",
    "or": "a choice of conditions",
    "imply": "a choice of conditions",
    "forall": "a condition on all objects",
    "exists": "a condition on some object",
    "when": "a conditional effect",
    "=": "a cost, or an equation",
    "<": "a comparison",
    ">": "a comparison",
    "at-end": "a timed condition",
    "preference": "a preference",
}
"""Words that begin a form of PDDL that is not played, and what such a form is."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action scheme. ``parameters``: names, with their ``?``, to types."""

    name: str
    parameters: Mapping[str, str]
    conditions: tuple[Fact, ...]
    adds: tuple[Fact, ...]
    removes: tuple[Fact, ...]


@dataclass(frozen=True, eq=False)
class Domain:
    name: str
    types: Mapping[str, str]  # type to the one above it; `OBJECT` is above all
    argument_types: Mapping[str, tuple[str, ...]]  # predicate to the types of its arguments
    actions: Mapping[str, Action]
    constants: Mapping[str, str]  # object to type

    def is_of_type(self, own: str, wanted: str) -> bool:
        """Whether what is of the type `own` is of the type `wanted` too."""
        while own not in (wanted, OBJECT):
            own = self.types.get(own, OBJECT)
        return wanted in (own, OBJECT)


@dataclass(frozen=True, eq=False)
class Problem:
    """Objects with their types (constants of the domain among them), what holds at the start, and what is wanted."""

    objects: Mapping[str, str]
    start: frozenset[Fact]
    goal: tuple[Fact, ...]


def _read_definition(text: str, kind: str, name: str) -> tuple[str, list[list[Any]]]:
    """Name and sections of ``(define (KIND NAME) (SECTION ...) ...)``, as lists of words and lists."""
    brackets = {"(": "[", ")": "],"}
    without_comments = re.sub(";.*", "", text.lower())
    tokens = _TOKEN.findall(without_comments)
    literals = [brackets.get(token, f"{token!r},") for token in tokens]
    try:
        forms = literal_eval(f"[{''.join(literals)}]")
    except (SyntaxError, MemoryError, RecursionError):
        raise DamagedFile(name, "a ( without its ), or the other way round") from None
    match forms:
        case [["define", [head, str(called)], *sections]] if head == kind:
            if all(isinstance(section, list) and section for section in sections):
                return called, sections
    raise DamagedFile(name, f"expected (define ({kind} NAME) (SECTION ...) ...)")


def _read_typed(words: Sequence[Any], name: str) -> Iterator[tuple[str, str]]:
    """Names with their types: ``a b - ball c`` is two balls and one object."""
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        if not isinstance(word, str):
            raise DamagedFile(name, f"expected a name in place of {write_form(word)}")
        if word != "-":
            waiting.append(word)
            continue
        kind = next(rest, "")
        for symbol in waiting:
            yield symbol, kind
        waiting = []

    for symbol in waiting:
        yield symbol, OBJECT


def write_form(form: Any) -> str:
    """Write a form as PDDL has it: ``(on a b)``."""
    if not isinstance(form, list):
        return str(form)
    parts = " ".join(map(write_form, form))
    return f"({parts})"


def _split_conjunction(form: list[Any]) -> list[Any]:
    """The parts of ``(and ...)``, of those inside it too, or the one part that stands alone."""
    if form[:1] != ["and"]:
        return [form]
    parts: list[Any] = []
    for part in form[1:]:
        if isinstance(part, list):
            parts += _split_conjunction(part)
        else:
            parts.append(part)
    return parts


def read_domain(text: str, name: str) -> Domain:
    """A domain. `name` is what complaints call the text."""
    called, sections = _read_definition(text, "domain", name)
    by_head = {head: body for head, *body in sections}
    types = dict(_read_typed(by_head.get(":types", ()), name))
    constants = dict(_read_typed(by_head.get(":constants", ()), name))

    argument_types: dict[str, tuple[str, ...]] = {}
    for predicate, *arguments in by_head[":predicates"]:
        argument_types[predicate] = tuple(kind for _, kind in _read_typed(arguments, name))

    actions: dict[str, Action] = {}
    for section in sections:
        if section[0] == ":action":
            _, action, *body = section
            actions[action] = _read_action(action, body, name)
    return Domain(called, types, argument_types, actions, constants)


def _read_action(action: str, body: Sequence[Any], name: str) -> Action:
    """An action, from words such as ``:effect``, each with the form that it is about."""
    parts = dict(zip(body[::2], body[1::2], strict=True))
    effects = _split_conjunction(parts[":effect"])
    parameters = dict(_read_typed(parts[":parameters"], name))
    conditions = _split_conjunction(parts[":precondition"])
    return Action(
        action,
        parameters,
        conditions=tuple(tuple(condition) for condition in conditions),
        adds=tuple(tuple(effect) for effect in effects if effect[0] != "not"),
        removes=tuple(tuple(effect[1]) for effect in effects if effect[0] == "not"),
    )


def read_setup(text: str, domain: Domain, name: str) -> Problem:
    """A problem of the domain; what its file calls the domain does not matter."""
    _, sections = _read_definition(text, "problem", name)
    by_head = {str(head): body for head, *body in sections}
    for head in (":objects", ":init", ":goal"):
        if head not in by_head:
            raise DamagedFile(name, f"it has no {head}")
    for head in by_head:
        if head not in SECTIONS:
            raise DamagedFile(name, f"it has a section {head}, which is not played: only a start and a goal are")

    objects = {**domain.constants, **dict(_read_typed(by_head[":objects"], name))}
    _check_objects(objects, domain, name)

    goal: list[Any] = []
    for form in by_head[":goal"]:
        if isinstance(form, list):
            goal += _split_conjunction(form)
    if not goal:
        raise DamagedFile(name, "the goal is empty")

    start = by_head[":init"]
    for fact in (*start, *goal):
        _check_fact(fact, domain, objects, name)
    return Problem(objects, frozenset(map(tuple, start)), tuple(map(tuple, goal)))


def _check_objects(objects: Mapping[str, str], domain: Domain, name: str) -> None:
    for kind in objects.values():
        if kind != OBJECT and str(kind) not in domain.types:
            raise DamagedFile(name, f"unknown type {kind}")
    for thing in objects:
        if not _NAME.fullmatch(thing):
            raise DamagedFile(name, f"no action can name {thing}: names have letters, digits, - and _")


def _check_fact(fact: Any, domain: Domain, objects: Mapping[str, str], name: str) -> None:
    """Raise ``DamagedFile`` for what is no fact of the domain about these objects, with the reason."""
    predicate: Any = ""
    arguments: list[Any] = []
    if isinstance(fact, list) and fact:
        predicate, *arguments = fact
    takes = domain.argument_types.get(str(predicate))
    unknown = [argument for argument in arguments if str(argument) not in objects]

    if takes is None and str(predicate) in NOT_PLAYED:
        why = f"it is {NOT_PLAYED[str(predicate)]}, and only facts are played"
    elif takes is None:
        why = f"its predicates are {', '.join(sorted(domain.argument_types))}"
    elif len(takes) != len(arguments):
        why = f"{predicate} is of {len(takes)} objects"
    elif unknown:
        why = f"no object is called {write_form(unknown[0])}"
    else:
        return
    raise DamagedFile(name, f"{write_form(fact)} is no fact of {domain.name}: {why}")


@dataclass(frozen=True, slots=True)
class GroundAction:
    """An action with its objects, and of its conditions those that actions can change."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[Fact, ...]
    adds: tuple[Fact, ...]
    removes: tuple[Fact, ...]


class World:
    """The ground actions of a problem. A state is the facts that hold and that actions can change; `fixed` ones hold
    for ever."""

    def __init__(self, domain: Domain, problem: Problem):
        self.domain = domain
        self.problem = problem

        self._changing: set[str] = set()  # predicates of the facts that actions can change
        for action in domain.actions.values():
            self._changing.update(fact[0] for fact in (*action.adds, *action.removes))
        self.fixed = frozenset(fact for fact in problem.start if fact[0] not in self._changing)
        self.start: State = problem.start - self.fixed

        self.actions: list[GroundAction] = []
        for action in domain.actions.values():
            self.actions += self._ground_action(action)
        self._by_words = {(action.name, action.arguments): action for action in self.actions}

    def list_reached(self, state: State) -> list[bool]:
        return [fact in state or fact in self.fixed for fact in self.problem.goal]

    def list_applicable(self, state: State) -> list[GroundAction]:
        return [action for action in self.actions if state.issuperset(action.needs)]

    def apply(self, state: State, name: str, arguments: tuple[str, ...]) -> State:
        """The state after an action; the same one when it cannot be taken, or when no such action is there."""
        ground = self._by_words.get((name, arguments))
        if ground is None or not state.issuperset(ground.needs):
            return state
        return state.difference(ground.removes).union(ground.adds)

    def _ground_action(self, action: Action) -> Iterator[GroundAction]:
        """The action with all objects that the facts which hold for ever allow it."""
        changing = [fact for fact in action.conditions if fact[0] in self._changing]
        for choice in self._choose_objects(action):
            yield GroundAction(
                name=action.name,
                arguments=tuple(choice.values()),
                needs=_fill_facts(changing, choice),
                adds=_fill_facts(action.adds, choice),
                removes=_fill_facts(action.removes, choice),
            )

    def _choose_objects(self, action: Action) -> list[dict[str, str]]:
        """Every choice of objects for the parameters. A fact that no action changes is asked as soon as all that it is
        about is chosen."""
        choices: list[dict[str, str]] = [{}]
        pending = [fact for fact in action.conditions if fact[0] not in self._changing]
        for parameter, kind in action.parameters.items():
            things = self._list_objects(kind)
            choices = [{**choice, parameter: thing} for choice in choices for thing in things]

            ready = [fact for fact in pending if not choices or is_ground(fact, choices[0])]
            pending = [fact for fact in pending if fact not in ready]
            if ready:
                choices = [choice for choice in choices if self.fixed.issuperset(_fill_facts(ready, choice))]
        return choices

    def _list_objects(self, kind: str) -> list[str]:
        """The objects of a type, and of those below it."""
        return [thing for thing, own_kind in self.problem.objects.items() if self.domain.is_of_type(own_kind, kind)]


def is_ground(fact: Fact, chosen: Mapping[str, str]) -> bool:
    """Whether everything that a fact is about is chosen."""
    parameters = [part for part in fact[1:] if part.startswith("?")]
    return all(parameter in chosen for parameter in parameters)


def _fill_facts(facts: Sequence[Fact], chosen: Mapping[str, str]) -> tuple[Fact, ...]:
    return tuple(_fill_fact(fact, chosen) for fact in facts)


def _fill_fact(fact: Fact, chosen: Mapping[str, str]) -> Fact:
    arguments = [chosen.get(part, part) for part in fact[1:]]
    return (fact[0], *arguments)
