"""GEPA: instructions that evolve by reflection on feedback."""

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer

from rsso_dspy.optimize.calibration import Calibration, examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.prompting import PROPOSAL_CHARACTERS, Asker
from rsso_dspy.optimize.optimizers.search import CIRCLES, PERFECT, solved
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import Student
from rsso_dspy.programs.agent import Agent

MINIBATCH = 3
"""Rollouts that GEPA looks at before it proposes, and that a proposal has to do better on (gepa's own default)."""


def gepa(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Reflective evolution of the instructions of every role that was called."""
    batch = minibatch(calibration)
    candidate = batch + len(calibration.choose)

    def enough(_: Any) -> bool:
        return rollouts.left < candidate or solved(rollouts)

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


def least(calibration: Calibration) -> int:
    """Zero-shot on the variants to choose by, and one candidate."""
    return 2 * len(calibration.choose) + 2 * minibatch(calibration)


def proposals(calibration: Calibration, rollouts: int) -> int:
    """One for every two minibatches, recalled ones counted."""
    return ceil((CIRCLES * rollouts - len(calibration.choose)) / (2 * minibatch(calibration)))


def minibatch(calibration: Calibration) -> int:
    """Rollouts in a minibatch."""
    return min(MINIBATCH, len(calibration.learn))


class Proposer(InstructionProposer):
    """GEPA's own proposer, asking the model of the backend's proposer role, on the compile's account. An answer that
    cannot be read is a proposal less; a model that fails ends the compile."""

    def __init__(self, rollouts: Rollouts, seed: int):
        super().__init__(max_chars=PROPOSAL_CHARACTERS)
        self.asker = Asker(rollouts, seed)

    def __call__(
        self, candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]
    ) -> dict[str, str]:
        """New instructions for the named predictors."""
        proposed: dict[str, str] = {}
        for name in components_to_update:
            proposed |= self.asker.ask(partial(self._one, candidate, reflective_dataset, name)) or {}
        return proposed

    def _one(self, candidate: dict[str, str], samples: Any, name: str, _lm: dspy.LM) -> dict[str, str]:
        return super().__call__(candidate, samples, [name])


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
