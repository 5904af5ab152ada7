"""The class behind `to_gymnasium`. It needs gymnasium."""

import string
from typing import Any

import gymnasium
from gymnasium import spaces

from rsso_dspy.environments import Interface, choose_interface
from rsso_dspy.environments.benchmark import Benchmark, Settings
from rsso_dspy.environments.pool import PooledEnvironment
from rsso_dspy.errors import UsageError
from rsso_dspy.records import SOLVED_SCORE, Split, Variant

LONGEST_TEXT = 100_000
"""Characters of an observation; longer ones are cut."""

LONGEST_ACTION = 1_000
"""Characters of an action that the action space holds."""


class BenchmarkEnv(gymnasium.Env[str, str]):
    """One simulator of a benchmark, started by the first reset."""

    metadata = {"render_modes": []}  # noqa: RUF012 - as the base class has it

    def __init__(
        self,
        benchmark: Benchmark,
        tasks: tuple[str, ...],
        split: Split,
        steps: int | None,
        interface: Interface,
        settings: Settings,
    ):
        self.observation_space = spaces.Text(LONGEST_TEXT, min_length=0, charset=string.printable)
        self.action_space = spaces.Text(LONGEST_ACTION, min_length=0, charset=string.printable)
        self._benchmark = benchmark
        table = benchmark.table
        self._variants = [
            (task, index) for task in tasks for index in table.indices(task, split)[: table.count_held(task, split)]
        ]
        if not self._variants:
            raise UsageError(f"{settings.data} holds no {split} variant of {', '.join(tasks)}")
        self._split = split
        self._steps = steps
        self._interface = interface
        self._settings = settings
        self._environment: PooledEnvironment | None = None
        self._variant: Variant | None = None
        self._left: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the variant that `options` names under ``variant``, else one drawn with the seed."""
        super().reset(seed=seed)
        variant = self._choose_variant((options or {}).get("variant"))
        environment = self._environment
        if environment is None or not environment.alive:
            environment = self._environment = self._benchmark.environment(self._settings, lambda: False)
        choose_interface(environment, self._interface)
        self._variant = variant
        self._left = self._find_budget(variant)
        state = environment.reset(variant)
        info = self._describe(environment, understood=True, score=environment.points_at_reset)
        return _clean(f"{environment.task}\n\n{state.description}"), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action. An action that is not understood is a step without effect."""
        environment = self._environment
        if environment is None:
            raise UsageError("reset the environment before its first step")
        move = environment.step(str(action))
        if self._left is not None:
            self._left -= 1
        ended = move.done or move.score >= SOLVED_SCORE
        stopped = not ended and (move.stalled or self._left == 0)
        info = self._describe(environment, move.understood, move.score)
        return _clean(move.state.description), move.reward / SOLVED_SCORE, ended, stopped, info

    def close(self) -> None:
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _choose_variant(self, key: str | None) -> Variant:
        if key is not None:
            found = self._benchmark.table.parse(key, self._split)
        else:
            task, index = self._variants[int(self.np_random.integers(len(self._variants)))]
            found = self._benchmark.table.variant(task, index, self._split)
        return self._benchmark.simplify(found, self._settings.simplification)

    def _find_budget(self, variant: Variant) -> int | None:
        if self._steps is not None:
            return self._steps
        known = self._benchmark.is_length_known(variant)
        return int(1.5 * self._benchmark.gold_length(variant)) if known else None

    def _describe(self, environment: PooledEnvironment, understood: bool, score: int) -> dict[str, Any]:
        assert self._variant is not None
        info: dict[str, Any] = {
            "variant": self._variant.key,
            "task": environment.task,
            "action_templates": environment.action_templates,
            "understood": understood,
            "score": score,
        }
        list_actions = getattr(environment, "admissible_actions", None)
        if self._benchmark.admissible == "short" and list_actions is not None:
            info["admissible_actions"] = list(list_actions())
        return info


def _clean(text: str) -> str:
    """The text in the characters of the observation space."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(letter if letter in string.printable else "?" for letter in ascii_only)[:LONGEST_TEXT]
