"""Demonstrations: training variants played by their solutions, shown to the actor with the action templates.

    DemonstratingEnvironment(environment, benchmark, wanted=2)

OmniReflect and Reflexion give ReAct one or two games that were won. Here they are the first training variants of the
played task type whose solutions the benchmark knows; their texts are the environment's own, in the chosen interface.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rsso_dspy.environments import Interface, choose_interface
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.pool import PooledEnvironment
from rsso_dspy.errors import DamagedFile, EnvironmentFailure, GoldUnknown, SimulatorDied
from rsso_dspy.records import State, Variant

LONGEST = 50
"""Most actions of a solution that is shown."""

CANDIDATES = 200
"""Training variants of a task type that are asked for a solution, at most."""

HEADING = "Templates:"

DemonstrationKey = tuple[str, str, str, int | None]


class DemonstratingEnvironment:
    """An environment whose action templates begin with `wanted` demonstrations. All else is the environment's.

    Demonstrations are played once for each task type and interface, before the first reset of a variant of that type,
    and shared by all environments that share `played`. A benchmark without solutions has no demonstrations. A training
    variant that cannot be read or loaded is left out, and so is the variant that is played itself.
    """

    def __init__(
        self,
        environment: PooledEnvironment,
        benchmark: Benchmark,
        wanted: int,
        played: "PlayedDemonstrations",
        data: str | None = None,
    ):
        self._environment = environment
        self._benchmark = benchmark
        self._wanted = wanted
        self._played = played
        self._data = data
        self._interface: Interface = "sso"
        self._text = ""

    def __getattr__(self, name: str) -> Any:
        if name == "_environment":  # asked before __init__, as when an object is copied
            raise AttributeError(name)
        return getattr(self._environment, name)

    @property
    def action_templates(self) -> str:
        """The environment's templates after the demonstrations of the task type that was reset last."""
        templates = self._environment.action_templates
        if not self._text:
            return templates
        return f"{self._text}\n\n{templates}" if HEADING in templates else f"{self._text}\n\n{HEADING}\n{templates}"

    def choose_interface(self, name: Interface) -> None:
        self._interface = name
        choose_interface(self._environment, name)

    def reset(self, variant: Variant) -> State:
        """Play the demonstrations of the task type if nobody has, then start the variant."""
        own = variant.index if variant.split == "train" else None
        key = (variant.task, self._interface, variant.simplification, own)
        self._text = self._played.find_or_play(key, lambda: self._play_all(variant))
        return self._environment.reset(variant)

    def _play_all(self, variant: Variant) -> str:
        if self._benchmark.gold_path is None:
            return ""
        shown: list[str] = []
        for example, path in self._find_solutions(variant):
            if len(shown) == self._wanted:
                break
            if text := self._play(example, path):
                shown.append(f"Example {len(shown) + 1}\n{text}")
        heading = "Below are tasks of this kind that were solved, action by action."
        return "\n\n".join([heading, *shown]) if shown else ""

    def _find_solutions(self, variant: Variant) -> Iterator[tuple[Variant, tuple[str, ...]]]:
        table, budget = self._benchmark.table, self._benchmark.budget
        held = table.count_held(variant.task, "train")
        for index in table.indices(variant.task, "train")[: min(held, CANDIDATES)]:
            if index == variant.index:  # a calibration variant would see its own solution
                continue
            example = table.variant(variant.task, index, "train", variant.simplification)
            if not budget.is_known(example) or budget.gold_length(example) > LONGEST:
                continue
            try:
                path = self._benchmark.find_gold_path(example, self._data, self._interface)
            except (GoldUnknown, DamagedFile):
                continue
            if 0 < len(path) <= LONGEST:
                yield example, path

    def _play(self, example: Variant, path: Sequence[str]) -> str:
        """The text of one solution; empty if the variant cannot be loaded or its actions do not solve it."""
        try:
            states = [self._environment.reset(example)]
        except SimulatorDied:
            raise
        except EnvironmentFailure:
            return ""
        task, done = self._environment.task, list[str]()
        for action in path:
            move = self._environment.step(action)
            states.append(move.state)
            done.append(move.action)
            if move.done:
                break
        else:
            return ""
        if move.score < 100:
            return ""
        first, *seen = self._environment.render(states)
        answered = (f"> {action}\n{text}" for action, text in zip(done, seen, strict=True))
        return "\n".join([f"Task: {task}", first, *answered])


class PlayedDemonstrations:
    """Texts of demonstrations by task type, interface, simplification and, for a training variant, its index; played
    once, whichever thread comes first."""

    def __init__(self) -> None:
        self._texts: dict[DemonstrationKey, str] = {}
        self._lock = threading.Lock()

    def find_or_play(self, key: DemonstrationKey, play: Callable[[], str]) -> str:
        """The text of this key, played by `play` when it is asked for first."""
        with self._lock:
            if key not in self._texts:
                self._texts[key] = play()
            return self._texts[key]
