"""GEPA: instructions that evolve by reflection on feedback."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import dspy

from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.search import CIRCLES, PERFECT, has_perfect_candidate
from rsso_dspy.optimize.proposing.proposer import EditProposer
from rsso_dspy.optimize.proposing.request import Evidence, select_attempts
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import Student
from rsso_dspy.programs.agent import Agent

MINIBATCH = 3
"""Rollouts that GEPA looks at before it proposes, and that a proposal has to do better on (gepa's own default)."""


def run_gepa(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Reflective evolution of the instructions of every role that was called."""
    batch = compute_minibatch_size(calibration)
    candidate = batch + len(calibration.choose)

    def is_search_done(_: Any) -> bool:
        return rollouts.rollouts_left < candidate or has_perfect_candidate(rollouts)

    student = Student(agent, rollouts)
    return dspy.GEPA(
        metric=metric,
        max_metric_calls=CIRCLES * rollouts.limits.rollouts,
        reflection_minibatch_size=batch,
        instruction_proposer=GepaProposer(student, rollouts, seed),
        component_selector=select_called_predictors,
        use_merge=False,
        num_threads=jobs,
        perfect_score=PERFECT,
        seed=seed,
        gepa_kwargs={"stop_callbacks": [is_search_done]},
    ).compile(
        student,
        trainset=build_examples(calibration.learn),
        valset=build_examples(calibration.choose),
    )


def count_least_rollouts(calibration: Calibration) -> int:
    """Zero-shot on the variants to choose by, and one candidate."""
    return 2 * len(calibration.choose) + 2 * compute_minibatch_size(calibration)


def count_proposals(calibration: Calibration, rollouts: int) -> int:
    """One for every two minibatches, recalled ones counted."""
    return ceil((CIRCLES * rollouts - len(calibration.choose)) / (2 * compute_minibatch_size(calibration)))


def compute_minibatch_size(calibration: Calibration) -> int:
    """Rollouts in a minibatch."""
    return min(MINIBATCH, len(calibration.learn))


class GepaProposer:
    """What GEPA calls for new instructions. Its own samples, one random call a rollout, are not looked at: the request
    tells of whole rollouts of the candidate (`proposing/request.py`). A predictor that nothing unsolved is known of is
    not asked about."""

    def __init__(self, student: Student, rollouts: Rollouts, seed: int):
        self.student = student
        self.proposer = EditProposer(rollouts, seed)

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Any,  # noqa: ARG002
        components_to_update: list[str],
    ) -> dict[str, str]:
        """New instructions for the named predictors."""
        predictors = dict(self.student.named_predictors())
        rollouts = self.proposer.find_rollouts(candidate)
        proposed: dict[str, str] = {}
        for name in components_to_update:
            if select_attempts(name, Evidence(rollouts, {})):
                text = self.proposer.propose(name, predictors[name], candidate[name], rollouts)
                proposed[name] = candidate[name] if text is None else text  # unchanged, it counts as tried
        return proposed


def select_called_predictors(
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
