"""GEPA: instructions that evolve by reflection on feedback."""

import random
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import Any

import dspy

from rsso_dspy.optimize.acceptance import is_solved
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.search import (
    CIRCLES,
    PERFECT,
    TRAIN_SOLVED,
    SearchDone,
    find_search_end,
)
from rsso_dspy.optimize.proposing.proposer import EditProposer
from rsso_dspy.optimize.proposing.request import Evidence, select_attempts
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import Student
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant

MINIBATCH = 3
"""Rollouts that GEPA studies before it proposes, and on which a proposal must do better (gepa's own default)."""


def run_gepa(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Evolve the instructions of every role that was called, by reflection."""
    candidate = compute_minibatch_size(calibration) + calibration.val_rollouts

    def is_search_done(_: Any) -> bool:
        if why := find_search_end(rollouts, candidate):
            rollouts.end_search(why)
        return why is not None

    student = Student(agent, rollouts)
    with suppress(SearchDone):
        dspy.GEPA(
            metric=metric,
            max_metric_calls=CIRCLES * rollouts.limits.rollouts,
            reflection_minibatch_size=None,
            instruction_proposer=GepaProposer(student, rollouts, seed),
            component_selector=select_called_predictors,
            use_merge=False,
            num_threads=jobs,
            perfect_score=PERFECT,
            seed=seed,
            gepa_kwargs={
                "stop_callbacks": [is_search_done],
                "batch_sampler": UnsolvedBatches(calibration, rollouts, seed),
            },
        ).compile(
            student,
            trainset=build_examples((*calibration.train, *calibration.spare)),
            valset=build_examples(calibration.val),
        )
    return agent


def count_least_rollouts(calibration: Calibration) -> int:
    """Rollouts of zero-shot and one candidate on the val variants and a minibatch each."""
    return 2 * calibration.val_rollouts + 2 * compute_minibatch_size(calibration)


def count_proposals(calibration: Calibration, rollouts: int) -> int:
    """One proposal for every two minibatches, recalled ones included."""
    return ceil((CIRCLES * rollouts - calibration.val_rollouts) / (2 * compute_minibatch_size(calibration)))


def compute_minibatch_size(calibration: Calibration) -> int:
    """Rollouts in a minibatch."""
    return min(MINIBATCH, len(calibration.train))


class UnsolvedBatches:
    """GEPA's batch sampler: train variants in a shuffled order, round by round, without those that the best candidate
    solved at its first trial. When fewer are left than a minibatch holds, fresh ones are drawn from the spare variants.
    When there are none, solved ones fill it up, on which a proposal must not get worse. Raises `SearchDone` when all
    train variants are solved and none is spare."""

    def __init__(self, calibration: Calibration, rollouts: Rollouts, seed: int):
        self.variants = (*calibration.train, *calibration.spare)
        self.size = compute_minibatch_size(calibration)
        self.at_hand = list(range(len(calibration.train)))
        """Indices of the variants drawn so far."""
        self.rollouts = rollouts
        self._dice = random.Random(seed)
        self._round: list[int] = []

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:  # noqa: ARG002
        """Indices of the next minibatch's variants in the trainset."""
        open_ = self._draw_until_open()
        self._round = [place for place in self._round if place in open_]
        taken: list[int] = []
        while len(taken) < min(self.size, len(open_)):
            if not self._round:
                self._round = [place for place in self._dice.sample(open_, len(open_)) if place not in taken]
            taken.append(self._round.pop(0))
        rest = [place for place in self.at_hand if place not in taken]
        return taken + self._dice.sample(rest, min(len(rest), self.size - len(taken)))

    def _draw_until_open(self) -> list[int]:
        """Indices of the drawn variants that are not known to be solved, after drawing fresh ones where needed."""
        while True:
            open_ = [place for place in self.at_hand if not self._is_solved(self.variants[place])]
            if len(open_) >= self.size or len(self.at_hand) == len(self.variants):
                break
            self.at_hand.append(len(self.at_hand))
            self.rollouts.fresh.append(self.variants[self.at_hand[-1]])
        if not open_:
            self.rollouts.end_search(TRAIN_SOLVED)
            raise SearchDone
        return open_

    def _is_solved(self, variant: Variant) -> bool:
        best = self.rollouts.best_candidate
        return best is not None and is_solved(best, [variant])


class GepaProposer:
    """Proposes instructions for GEPA. GEPA's own samples, one random call a rollout, are not used: the request shows
    whole rollouts of the candidate (`proposing/request.py`). No proposal is asked for a predictor without unsolved
    rollouts."""

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
    """GEPA's component selector: every predictor that was called in these rollouts. The others have nothing to learn
    from."""
    said = {call[0].signature.instructions for data in trajectories for call in data["trace"]}
    return [name for name, instruction in candidate.items() if instruction in said]
