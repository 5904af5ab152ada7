"""A problem made ready to be played: every action with its objects, and states as bits.

world = World(domain, problem)
world.start                                   # int: bit i stands for world.facts[i]
[step.arguments for step in world.list_applicable(world.start)]
world.apply(world.start, "move", ("rooma", "roomb"))
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rsso_dspy.environments.pddl.strips import Action, Domain, Fact, Literal, Problem
from rsso_dspy.errors import UsageError

MOST_ACTIONS = 200_000
"""Ground actions of one problem at most."""


@dataclass(frozen=True, slots=True)
class GroundAction:
    """An action with its objects. The masks are of facts."""

    name: str
    arguments: tuple[str, ...]
    needs: int
    forbids: int
    adds: int
    removes: int
    distinct: bool
    """No object stands in it twice."""

    def is_applicable(self, state: int) -> bool:
        return state & self.needs == self.needs and not state & self.forbids

    def apply(self, state: int) -> int:
        return (state & ~self.removes) | self.adds


class World:
    """The ground actions of a problem. Facts that no action changes are checked once, and are not among the bits."""

    def __init__(self, domain: Domain, problem: Problem):
        self.domain, self.problem = domain, problem
        changing = {literal.fact[0] for action in domain.actions.values() for literal in action.effects}
        self._changing = changing
        self.facts: list[Fact] = []
        self._bits: dict[Fact, int] = {}
        self.fixed = frozenset(fact for fact in problem.start if fact[0] not in changing)
        """Facts of the start that hold for ever."""
        self.start = sum(self._make_bit(fact) for fact in sorted(problem.start - self.fixed))
        self.actions: list[GroundAction] = []
        for action in domain.actions.values():
            for ground in self._ground_action(action):
                self.actions.append(ground)
                if len(self.actions) > MOST_ACTIONS:
                    raise UsageError(f"{problem.name} has more than {MOST_ACTIONS:,} actions: leave objects out")
        self._by_words = {(each.name, each.arguments): each for each in self.actions}

    @cached_property
    def goal_bits(self) -> tuple[int, ...]:
        """A bit for each literal of the goal, 0 for one that holds for ever, -1 for one that never does."""
        return tuple(self._find_goal_bit(literal.fact) for literal in self.problem.goal)

    def count_reached(self, state: int) -> int:
        """How many literals of the goal hold."""
        return sum(bit == 0 or (bit > 0 and bool(state & bit)) for bit in self.goal_bits)

    def list_facts(self, state: int) -> list[Fact]:
        """All facts that hold, those that hold for ever among them, in no order that means anything."""
        return [*self.list_bits(state), *self.fixed]

    def list_bits(self, state: int) -> list[Fact]:
        """The facts that these bits stand for."""
        found = []
        while state:
            low = state & -state
            found.append(self.facts[low.bit_length() - 1])
            state ^= low
        return found

    def list_applicable(self, state: int) -> list[GroundAction]:
        return [
            each for each in self.actions if state & each.needs == each.needs and not state & each.forbids
        ]  # as `is_applicable`, without a call for each

    def apply(self, state: int, name: str, arguments: tuple[str, ...]) -> int:
        """The state after an action; the same one when it cannot be taken, or when no such action is there."""
        ground = self.find_action(name, arguments)
        return ground.apply(state) if ground is not None and ground.is_applicable(state) else state

    def find_action(self, name: str, arguments: tuple[str, ...]) -> GroundAction | None:
        """The action with these objects, if objects, types and what holds for ever allow it."""
        return self._by_words.get((name, arguments))

    def _find_goal_bit(self, fact: Fact) -> int:
        if fact in self.fixed:
            return 0
        return self._bits.get(fact, -1)

    def _make_bit(self, fact: Fact) -> int:
        if fact not in self._bits:
            self._bits[fact] = 1 << len(self.facts)
            self.facts.append(fact)
        return self._bits[fact]

    def _ground_action(self, action: Action) -> Iterator[GroundAction]:
        candidates = [
            [name for name, own in self.problem.objects.items() if self.domain.is_of_type(own, wanted)]
            for _, wanted in action.parameters
        ]
        names = [name for name, _ in action.parameters]
        fixed = [each for each in action.conditions if each.fact[0] not in self._changing]
        due: list[list[Literal]] = [[] for _ in range(len(names) + 1)]
        for literal in fixed:
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
        predicate, *arguments = _fill_fact(literal.fact, chosen)
        if predicate == "=":
            return (arguments[0] == arguments[1]) == literal.positive
        return ((predicate, *arguments) in self.fixed) == literal.positive

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


def find_unreachable(world: World) -> Literal | None:
    """A literal of the goal that no actions whatever make true, if there is one."""
    reached, before = world.start, -1
    while reached != before:
        before = reached
        for action in world.actions:
            if reached & action.needs == action.needs:
                reached |= action.adds
    for literal, bit in zip(world.problem.goal, world.goal_bits, strict=True):
        if bit < 0 or (bit and not reached & bit):
            return literal
    return None


def is_unsolvable(world: World, most_states: int) -> bool:
    """Whether it is certain that nothing solves it: all states were seen, and there were not too many."""
    seen, left = {world.start}, [world.start]
    while left:
        state = left.pop()
        if world.count_reached(state) == len(world.goal_bits):
            return False
        after = {action.apply(state) for action in world.list_applicable(state)} - seen
        seen |= after
        left += after
        if len(seen) > most_states:
            return False
    return True
