"""DSPy's optimizers by name, each set up for programs that play episodes. Adding one is a function and a row.

What a compile returns is chosen by `compile_agent` among all candidates that were played; an optimizer only has to try
them.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import ceil
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.exceptions import AdapterParseError, LMError

from rsso_dspy.errors import BackendFailure, UnknownName
from rsso_dspy.optimize.calibration import Calibration, examples
from rsso_dspy.optimize.feedback import steps_of
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.rollouts import Call, Halt, Rollout, Rollouts
from rsso_dspy.optimize.student import Student
from rsso_dspy.programs.agent import ROLLOUTS_PER_SEED, Agent
from rsso_dspy.programs.runtime import Ledger
from rsso_dspy.programs.transcript import transcript

PERFECT = 1.0
"""The metric of a rollout that solved its variant."""

MINIBATCH = 3
"""Rollouts that GEPA looks at before it proposes, and that a proposal has to do better on (gepa's own default)."""

CIRCLES = 2
"""GEPA counts recalled rollouts too; at this many times the budget, a search that goes in circles ends."""

PROPOSAL_CHARACTERS = 6000
"""Longest instruction that may be proposed. It stands in every prompt of its role."""

DEMONSTRATIONS = 4
"""Most demonstrations per predictor (BootstrapFewShot's own default)."""

WORTH_SHOWING = 0.5
"""Lowest metric of a rollout that demonstrations are taken from."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """One row."""

    name: str
    source: str
    least: Callable[[Calibration], int]
    """Rollouts below which not one candidate can be compared with the program to improve."""
    most: Callable[[Calibration], int | None]
    """Rollouts that it can make use of; None for any number."""
    proposals: Callable[[Calibration, int], int]
    """Proposer calls per predictor at most, given the rollouts."""
    run: Callable[[Agent, Calibration, Rollouts, int, int], Agent]
    """(program to improve, calibration, rollouts, seed, jobs) to the optimizer's own choice."""


def optimizer(name: str) -> Optimizer:
    """The optimizer called `name`; raises `UnknownName` with the nearest."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]


def gepa(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Reflective evolution of the instructions of every role that was called."""
    batch = _minibatch(calibration)
    candidate = batch + len(calibration.choose)

    def enough(_: Any) -> bool:
        best = rollouts.best
        return rollouts.left < candidate or (best is not None and best.mean(rollouts.choose) == PERFECT)

    return dspy.GEPA(
        metric=metric,
        max_metric_calls=CIRCLES * rollouts.limits.rollouts,
        reflection_minibatch_size=batch,
        instruction_proposer=Proposer(rollouts, seed),
        component_selector=called,
        use_merge=False,
        num_threads=jobs,
        perfect_score=PERFECT,
        seed=seed,
        gepa_kwargs={"stop_callbacks": [enough]},
    ).compile(
        Student(agent, rollouts),
        trainset=examples(calibration.learn),
        valset=examples(calibration.choose),
    )


def bootstrap(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """Demonstrations from rollouts that went well: of the actor, actions that earned points; of the reflector, plans
    after which the next trial did better."""
    learn = random.Random(seed).sample(calibration.learn, len(calibration.learn))
    few_shot = dspy.BootstrapFewShot(
        metric=metric,
        metric_threshold=WORTH_SHOWING,
        max_bootstrapped_demos=DEMONSTRATIONS,
        max_labeled_demos=0,
    )
    with redirect_stdout(StringIO()):  # it prints
        return few_shot.compile(Student(agent, rollouts, exemplary), trainset=examples(learn))


class Proposer(InstructionProposer):
    """GEPA's own proposer, asking the model of the backend's proposer role, on the compile's account. An answer that
    cannot be read is a proposal less; a model that fails ends the compile."""

    def __init__(self, rollouts: Rollouts, seed: int):
        super().__init__(max_chars=PROPOSAL_CHARACTERS)
        self.rollouts = rollouts
        self.seed = seed
        self.asked = 0

    def __call__(
        self, candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]
    ) -> dict[str, str]:
        """New instructions for the named predictors."""
        proposed: dict[str, str] = {}
        for name in components_to_update:
            self.asked += 1
            lm = self.rollouts.live.runtime.lm("proposer", self.seed * ROLLOUTS_PER_SEED + self.asked)
            ledger = Ledger(self.rollouts.spend)
            try:
                with self.rollouts.counted(), ledger.role("proposer"), dspy.context(lm=lm):
                    proposed |= super().__call__(candidate, reflective_dataset, [name])
            except LMError as error:
                failure = BackendFailure(f"the proposer failed: {type(error).__name__}: {error}")
                self.rollouts.halt("error", failure)
                raise Halt from error
            except (AdapterParseError, ValueError):  # unreadable, empty or too long
                ledger.malformed("proposer")
        return proposed


def called(
    state: Any,  # noqa: ARG001
    trajectories: Sequence[Any],
    subsample_scores: Sequence[float],  # noqa: ARG001
    candidate_idx: int,  # noqa: ARG001
    candidate: dict[str, str],
) -> list[str]:
    """GEPA's component selector: every predictor that was called in these rollouts. Predictors that were not have
    nothing to learn from."""
    said = {call[0].signature.instructions for data in trajectories for call in data["trace"]}
    return [name for name, instruction in candidate.items() if instruction in said]


def exemplary(rollout: Rollout, call: Call) -> bool:
    """Whether a call is worth showing to others: an action that earned points, a plan after which the next trial did
    better, anything else that was said in a rollout that went well."""
    name, given, said = call
    trials = [result.trajectory for result in rollout.trials if result.trajectory]
    if name == "actor":
        return any(step.reward > 0 for step in steps_of(said, rollout.trials))
    if name == "reflector":
        about = [number for number, trial in enumerate(trials) if transcript(trial) == given["transcript"]]
        return any(trials[n + 1].accumulator > trials[n].accumulator for n in about if n + 1 < len(trials))
    return True


def _minibatch(calibration: Calibration) -> int:
    return min(MINIBATCH, len(calibration.learn))


OPTIMIZERS = {
    row.name: row
    for row in (
        Optimizer(
            "gepa",
            "Agrawal et al. 2025, dspy.GEPA",
            least=lambda c: 2 * len(c.choose) + 2 * _minibatch(c),
            most=lambda _: None,
            proposals=lambda c, n: ceil((CIRCLES * n - len(c.choose)) / (2 * _minibatch(c))),
            run=gepa,
        ),
        Optimizer(
            "bootstrap",
            "Khattab et al. 2023, dspy.BootstrapFewShot",
            least=lambda c: 2 * len(c.choose) + len(c.learn),
            most=lambda c: 2 * len(c.choose) + len(c.learn),
            proposals=lambda _, __: 0,
            run=bootstrap,
        ),
    )
}
