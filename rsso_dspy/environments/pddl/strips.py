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
    tokens = _TOKEN.findall(re.sub(";.*", "", text.lower()))
    try:
        items = (brackets.get(token) or f"{token!r}," for token in tokens)
        forms = literal_eval(f"[{''.join(items)}]")
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
        yield from ((symbol, kind) for symbol in waiting)
        waiting = []
    yield from ((symbol, OBJECT) for symbol in waiting)


def write_form(form: Any) -> str:
    """Write a form as PDDL has it: ``(on a b)``."""
    return f"({' '.join(map(write_form, form))})" if isinstance(form, list) else str(form)


def _split_conjunction(form: list[Any]) -> list[Any]:
    """The parts of ``(and ...)``, of those inside it too, or the one part that stands alone."""
    if form[:1] != ["and"]:
        return [form]
    parts: list[Any] = []
    for part in form[1:]:
        parts += _split_conjunction(part) if isinstance(part, list) else [part]
    return parts


def read_domain(text: str, name: str) -> Domain:
    """A domain. `name` is what complaints call the text."""
    called, sections = _read_definition(text, "domain", name)
    by_head = {head: body for head, *body in sections}
    types, constants = (dict(_read_typed(by_head.get(head, ()), name)) for head in (":types", ":constants"))
    predicates: dict[str, tuple[str, ...]] = {}
    for predicate, *arguments in by_head[":predicates"]:
        predicates[predicate] = tuple(kind for _, kind in _read_typed(arguments, name))
    actions: dict[str, Action] = {}
    for _, action, *body in (section for section in sections if section[0] == ":action"):
        parts = dict(zip(body[::2], body[1::2], strict=True))
        effects = _split_conjunction(parts[":effect"])
        actions[action] = Action(
            action,
            dict(_read_typed(parts[":parameters"], name)),
            conditions=tuple(map(tuple, _split_conjunction(parts[":precondition"]))),
            adds=tuple(tuple(effect) for effect in effects if effect[0] != "not"),
            removes=tuple(tuple(effect[1]) for effect in effects if effect[0] == "not"),
        )
    return Domain(called, types, predicates, actions, constants)


def read_setup(text: str, domain: Domain, name: str) -> Problem:
    """A problem of the domain; what its file calls the domain does not matter."""
    _, sections = _read_definition(text, "problem", name)
    by_head = {str(head): body for head, *body in sections}
    if missing := [needed for needed in (":objects", ":init", ":goal") if needed not in by_head]:
        raise DamagedFile(name, f"it has no {missing[0]}")
    if unplayed := [head for head in by_head if head not in SECTIONS]:
        raise DamagedFile(name, f"it has a section {unplayed[0]}, which is not played: only a start and a goal are")
    objects = {**domain.constants, **dict(_read_typed(by_head[":objects"], name))}
    if unknown := [kind for kind in objects.values() if kind != OBJECT and str(kind) not in domain.types]:
        raise DamagedFile(name, f"unknown type {unknown[0]}")
    if unsayable := [thing for thing in objects if not _NAME.fullmatch(thing)]:
        raise DamagedFile(name, f"no action can name {unsayable[0]}: names have letters, digits, - and _")
    goal = [part for form in by_head[":goal"] if isinstance(form, list) for part in _split_conjunction(form)]
    if not goal:
        raise DamagedFile(name, "the goal is empty")
    for fact in (*by_head[":init"], *goal):
        _check_fact(fact, domain, objects, name)
    return Problem(objects, frozenset(map(tuple, by_head[":init"])), tuple(map(tuple, goal)))


def _check_fact(fact: Any, domain: Domain, objects: Mapping[str, str], name: str) -> None:
    """Raise ``DamagedFile`` for what is no fact of the domain about these objects, with the reason."""
    predicate, *arguments = fact if isinstance(fact, list) and fact else [""]
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
        self.domain, self.problem = domain, problem
        self._changing = {fact[0] for action in domain.actions.values() for fact in (*action.adds, *action.removes)}
        self.fixed = frozenset(fact for fact in problem.start if fact[0] not in self._changing)
        self.start: State = problem.start - self.fixed
        self.actions = [ground for action in domain.actions.values() for ground in self._ground_action(action)]
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
            needs, adds, removes = (_fill_facts(facts, choice) for facts in (changing, action.adds, action.removes))
            yield GroundAction(action.name, tuple(choice.values()), needs, adds, removes)

    def _choose_objects(self, action: Action) -> list[dict[str, str]]:
        """Every choice of objects for the parameters. A fact that no action changes is asked as soon as all that it is
        about is chosen."""
        choices: list[dict[str, str]] = [{}]
        pending = [fact for fact in action.conditions if fact[0] not in self._changing]
        for parameter, kind in action.parameters.items():
            things = [
                thing for thing, own_kind in self.problem.objects.items() if self.domain.is_of_type(own_kind, kind)
            ]
            choices = [{**choice, parameter: thing} for choice in choices for thing in things]

            ready = [fact for fact in pending if not choices or is_ground(fact, choices[0])]
            pending = [fact for fact in pending if fact not in ready]
            if ready:
                choices = [choice for choice in choices if self.fixed.issuperset(_fill_facts(ready, choice))]
        return choices


def is_ground(fact: Fact, chosen: Mapping[str, str]) -> bool:
    """Whether everything that a fact is about is chosen."""
    return not any(part.startswith("?") and part not in chosen for part in fact[1:])


def _fill_facts(facts: Sequence[Fact], chosen: Mapping[str, str]) -> tuple[Fact, ...]:
    return tuple((fact[0], *(chosen.get(part, part) for part in fact[1:])) for fact in facts)
