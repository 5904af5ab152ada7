"""Environments that stand before another: with demonstrations in the action templates, or without a task.
Demonstrations are training variants played by their solutions, in the environment's own texts. OmniReflect and
Reflexion give ReAct one or two games that were won; here they are the first variants of the task type whose solutions
the benchmark knows."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, cast

from rsso_dspy.environments import Environment, Environments, Interface, Transition, choose_interface
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.errors import DamagedFile, EnvironmentFailure, SimulatorDied
from rsso_dspy.records import SOLVED_SCORE, Lesson, State, Step, Variant

LONGEST = 50  # most actions of a solution that is shown
CANDIDATES = 200  # training variants of a task type that are asked for a solution, at most
HEADING = "Templates:"
DemonstrationKey = tuple[str, str, str, frozenset[str]]  # task type, interface, simplification, variants left out

_playing = threading.Lock()


@dataclass(eq=False)
class _Wrapper:
    """An environment before another, which does all that this one does not."""

    environment: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["environment"], name)


@dataclass(eq=False)
class DemonstratingEnvironment(_Wrapper):
    """An environment whose action templates begin with `wanted` demonstrations, played once for each task type and
    interface, and shared by all environments that share `texts`. A training variant that cannot be read or loaded is
    left out, and so is the variant that is played itself. One that `thinks` shows thoughts between the actions."""

    benchmark: Benchmark
    wanted: int
    texts: dict[DemonstrationKey, str]
    data: str | None = None
    thinks: bool = False
    _interface: Interface = "sso"
    _text: str = ""
    _hidden: frozenset[str] = frozenset()

    @contextmanager
    def hide(self, keys: frozenset[str]) -> Iterator[None]:
        """Show no solution of these training variants inside the block."""
        self._hidden = keys
        try:
            yield
        finally:
            self._hidden = frozenset()

    @property
    def action_templates(self) -> str:
        """The environment's templates after the demonstrations of the task type that was reset last."""
        templates = self.environment.action_templates
        if not self._text:
            return templates
        return f"{self._text}\n\n{templates}" if HEADING in templates else f"{self._text}\n\n{HEADING}\n{templates}"

    def choose_interface(self, name: Interface) -> None:
        self._interface = name
        choose_interface(self.environment, name)

    def reset(self, variant: Variant) -> State:
        """Play the demonstrations of the task type if nobody has, then start the variant."""
        own = {variant.key} if variant.split == "train" else set()  # a calibration variant would see its own solution
        key = (variant.task, self._interface, variant.simplification, self._hidden | own)
        with _playing:
            if key not in self.texts:
                self.texts[key] = self._play_all(variant, key[-1])
        self._text = self.texts[key]
        return self.environment.reset(variant)

    def _play_all(self, variant: Variant, left_out: frozenset[str]) -> str:
        if self.benchmark.gold_path is None:
            return ""
        table = self.benchmark.tasks
        indices = table.list_held(variant.task, "train")[:CANDIDATES]
        known = [table.variant(variant.task, index, "train", variant.simplification) for index in indices]
        played = (self._play(each) for each in known if each.key not in left_out)
        shown = [f"Example {count}\n{text}" for count, text in enumerate(islice(filter(None, played), self.wanted), 1)]
        heading = "Below are tasks of this kind that were solved, action by action."
        return "\n\n".join([heading, *shown]) if shown else ""

    def _play(self, example: Variant) -> str:
        """The text of one solution; empty if no short one is known, or it cannot be loaded and solved."""
        budget = self.benchmark.budget
        if not budget.is_known(example) or budget.gold_length(example) > LONGEST:
            return ""
        try:
            path = self.benchmark.find_gold_path(example, self.data, self._interface)
            if not 0 < len(path) <= LONGEST:
                return ""
            start = self.environment.reset(example)
        except SimulatorDied:
            raise
        except (EnvironmentFailure, DamagedFile):
            return ""
        moves = list[Transition]()
        for action in path:
            moves.append(self.environment.step(action))
            if moves[-1].done:
                break
        if not moves[-1].done or moves[-1].score < SOLVED_SCORE:
            return ""
        first, *seen = self.environment.render([start, *(move.state for move in moves)])
        thoughts = think_aloud(moves) if self.thinks else [""] * len(moves)
        answered = (f"{said}> {move.action}\n{text}" for said, move, text in zip(thoughts, moves, seen, strict=True))
        return "\n".join([f"Task: {self.environment.task}", first, *answered])


def think_aloud(moves: Sequence[Transition]) -> list[str]:
    """Return a line ahead of each action of a solution: where points are earned, a thought on what they are earned
    with; elsewhere nothing."""
    lines, earning = [""] * len(moves), [place for place, move in enumerate(moves) if move.reward > 0]
    lines[0] = f"Thought: To do this I have to {', then '.join(moves[place].action for place in earning)}.\n"
    for before, after in pairwise(earning):
        lines[before + 1] = f"Thought: That is done. Now I have to {moves[after].action}.\n"
    return lines


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


class _TasklessEnvironment(_Wrapper):
    task = TASK

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        """Return the lessons except those on the progress of the real task, which the agent does not know."""
        return [each for each in self.environment.lessons(states, steps) if each.category != "progress"]
