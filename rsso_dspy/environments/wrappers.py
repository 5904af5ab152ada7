"""Environments that stand before another: with solved examples, or without a task. Solved examples are training
variants played by their solutions, in the environment's own texts and in the form of the answers. OmniReflect and
Reflexion give ReAct one or two games that were won; here they are the first variants of the task type whose solutions
the benchmark knows."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import cast

from rsso_dspy.environments import (
    Environment,
    Environments,
    EnvironmentWrapper,
    Interface,
    Transition,
    choose_interface,
)
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.contract import CheckedEnvironment
from rsso_dspy.errors import DamagedFile, EnvironmentFailure, SimulatorDied
from rsso_dspy.records import SOLVED_SCORE, Lesson, State, Step, Variant

LONGEST = 50  # most actions of a solution that is shown
CANDIDATES = 200  # training variants of a task type that are asked for a solution, at most
DemonstrationKey = tuple[str, str, str, frozenset[str]]  # task type, interface, simplification, variants left out

_playing = threading.Lock()


@dataclass(eq=False)
class DemonstratingEnvironment(EnvironmentWrapper):
    """An environment with `wanted` solved examples of the task type that was reset last, played once for each task type
    and interface, and shared by all environments that share `texts`. A training variant that cannot be read or loaded
    is left out, and so is the variant that is played itself. One that `thinks` shows a thought ahead of each action."""

    benchmark: Benchmark
    wanted: int
    texts: dict[DemonstrationKey, tuple[str, ...]]
    data: str | None = None
    thinks: bool = False
    solved_examples: tuple[str, ...] = ()
    _interface: Interface = "sso"
    _hidden: frozenset[str] = frozenset()

    @contextmanager
    def hide(self, keys: frozenset[str]) -> Iterator[None]:
        """Show no solution of these training variants inside the block."""
        self._hidden = keys
        try:
            yield
        finally:
            self._hidden = frozenset()

    def choose_interface(self, name: Interface) -> None:
        self._interface = name
        choose_interface(self.environment, name)

    def reset(self, variant: Variant) -> State:
        """Play the examples of the task type if nobody has, then start the variant."""
        # A calibration variant would see its own solution.
        own_keys = {variant.key} if variant.split == "train" else set()
        key = (variant.task, self._interface, variant.simplification, self._hidden | own_keys)
        with _playing:
            if key not in self.texts:
                self.texts[key] = self._play_all(variant, key[-1])
        self.solved_examples = self.texts[key]
        return self.environment.reset(variant)

    def _play_all(self, variant: Variant, left_out: frozenset[str]) -> tuple[str, ...]:
        if self.benchmark.gold_path is None:
            return ()
        table = self.benchmark.tasks
        indices = table.list_held(variant.task, "train")[:CANDIDATES]
        examples = [table.variant(variant.task, index, "train", variant.simplification) for index in indices]
        solutions = (self._play(example) for example in examples if example.key not in left_out)
        return tuple(islice(filter(None, solutions), self.wanted))

    def _play(self, example: Variant) -> str:
        """The text of one solution; empty if no short one is known, or it cannot be loaded and solved."""
        budget = self.benchmark.budget
        if not budget.is_known(example) or budget.gold_length(example) > LONGEST:
            return ""
        environment = CheckedEnvironment(self.environment)
        try:
            path = self.benchmark.find_gold_path(example, self.data, self._interface)
            if not 0 < len(path) <= LONGEST:
                return ""
            start = environment.reset(example)
        except SimulatorDied:
            raise
        except (EnvironmentFailure, DamagedFile):
            return ""
        moves = list[Transition]()
        for action in path:
            moves.append(environment.step(action))
            if moves[-1].done:
                break
        if not moves[-1].done or moves[-1].score < SOLVED_SCORE:
            return ""
        observations = environment.render([start, *(move.state for move in moves)])
        return tell_solution(environment.task, observations, moves, self.thinks)


def tell_solution(task: str, observations: Sequence[str], moves: Sequence[Transition], thinks: bool) -> str:
    """Return a solution in the form in which an actor is asked for its answers; ``observations[i + 1]`` follows
    ``moves[i]``."""
    thoughts = think_aloud(moves) if thinks else [""] * len(moves)
    lines = [f"Task: {task}", f"Observation: {observations[0]}"]
    for thought, move, observation in zip(thoughts, moves, observations[1:], strict=True):
        lines += [f"Thought: {thought}"] if thought else []
        lines += [f"Action: {move.action}", f"Observation: {observation}"]
    return "\n".join(lines)


def think_aloud(moves: Sequence[Transition]) -> list[str]:
    """Return a thought ahead of each action of a solution: at first all actions that will earn points, then the next
    of them."""
    earning = [place for place, move in enumerate(moves) if move.reward > 0]
    thoughts = []
    for place in range(len(moves)):
        ahead = [moves[later].action for later in earning if later >= place]
        if place == 0:
            thoughts.append(f"To do this I have to {', then '.join(ahead)}.")
        else:
            thoughts.append(f"Next I have to {ahead[0]}." if ahead else "")
    return thoughts


TASK = (
    "Explore this world. There is nothing to achieve: see its places, find out what is there and what can be done with "
    "it, and which actions are understood."
)


class ExplorationPool:
    """A pool that lends the environments of another pool with exploration as their task (OmniReflect, section 2.2.1,
    task-agnostic rules)."""

    def __init__(self, environments: Environments):
        self.environments = environments
        self.close = environments.close

    @contextmanager
    def lease(self) -> Iterator[Environment]:
        with self.environments.lease() as environment:
            yield cast(Environment, _TasklessEnvironment(environment))


class _TasklessEnvironment(EnvironmentWrapper):
    task = TASK

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        """Return the lessons except those on the progress of the real task, which the agent does not know."""
        return [lesson for lesson in self.environment.lessons(states, steps) if lesson.category != "progress"]
