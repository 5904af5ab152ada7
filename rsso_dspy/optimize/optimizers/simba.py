"""SIMBA: rules from the contrast of rollouts that went well and badly, and demonstrations."""

from collections.abc import Callable, Mapping
from functools import wraps
from statistics import fmean
from typing import Any

import dspy
from dspy.teleprompt.simba_utils import append_a_rule

from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.acceptance import race_on_val
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.demonstrations import DEMONSTRATIONS, is_worth_showing
from rsso_dspy.optimize.optimizers.search import (
    CIRCLES,
    NOTHING_LEFT,
    Search,
    SearchDone,
    SearchStudent,
    find_search_end,
)
from rsso_dspy.optimize.rollouts import Rollout, Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program

BATCH = 4
"""Train variants in a batch; each gives one candidate."""

PROGRAMS = 3
"""Programs that a batch samples from: one less than `BATCH`, because SIMBA makes one candidate more."""

SimbaRollout = dict[str, Any]
"""A rollout as SIMBA keeps it, by field: prediction, trace, score, example, output_metadata."""


def run_simba(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """In batches, make a candidate with a new rule or demonstration from each variant of the batch. The best candidate
    of a batch is played on the val variants if it beat the program to improve."""
    search = Search(agent, rollouts, seed)
    batches = SimbaBatches(search, calibration, jobs)

    def compile_student(student: SearchStudent) -> None:
        optimizer = dspy.SIMBA(
            metric=metric,
            bsize=batches.size,
            num_candidates=PROGRAMS,
            max_steps=batches.most + 1,
            max_demos=DEMONSTRATIONS,
            num_threads=jobs,
        )
        optimizer.strategies = [batches.wrap_strategy(strategy) for strategy in optimizer.strategies]
        optimizer.compile(student, trainset=build_examples(calibration.train), seed=seed)

    search.run(SearchStudent(search), compile_student)
    return agent


class SimbaBatches:
    """Wraps SIMBA's strategies, the functions that make a candidate out of a rollout, and replaces the one that makes a
    rule. Only there can its search be observed."""

    def __init__(self, search: Search, calibration: Calibration, jobs: int):
        self.search = search
        self.rollouts = search.rollouts
        self.jobs = jobs
        self.size = compute_batch_size(calibration)
        self.most = count_most_batches(calibration, self.rollouts.limits.rollouts)
        self.cost = compute_batch_cost(calibration)
        self.begun = 0
        self._asked = 0
        self.made: list[Agent] = []
        """Candidates of this batch."""
        self.looked_at: list[str] = []
        """Keys of the variants that they were made from."""

    def wrap_strategy(self, strategy: Callable[..., bool]) -> Callable[..., bool]:
        """The strategy, shown only the parts of a rollout that a prompt or a demonstration may hold."""

        @wraps(strategy)
        def make_candidate(bucket: list[SimbaRollout], system: SearchStudent, **given: Any) -> bool:
            if self._asked % self.size == 0:
                self._begin_batch()
            self._asked += 1
            names = given["predictor2name"]
            if strategy is append_a_rule:
                self._append_lines(bucket, system, names, (given["batch_10p_score"], given["batch_90p_score"]))
            else:
                strategy([build_demonstration_view(output, names) for output in bucket], system, **given)
            self._register_candidate(system.get_program(), bucket[0]["example"].variant)
            return True

        return make_candidate

    def _append_lines(
        self, bucket: list[SimbaRollout], system: SearchStudent, names: Mapping[int, str], bounds: tuple[float, float]
    ) -> None:
        """SIMBA's rule, as edits drawn from the best and the worst rollout on a variant. Nothing changes if the best is
        at or below the batch's 10th percentile or the worst at or above its 90th (SIMBA's own condition)."""
        good, bad = bucket[0], bucket[-1]
        if good["score"] <= bounds[0] or bad["score"] >= bounds[1]:
            return
        told = [good, bad] if good["score"] > bad["score"] else [bad]
        contrast = [self._make_rollout(output, names) for output in told]
        for name, predictor in system.named_predictors():
            if any(call[0] == name for rollout in contrast for call in rollout.calls):
                own = predictor.signature.instructions
                text = self.search.proposer.propose(name, predictor, own, contrast, contrast=True)
                if text is not None:
                    predictor.signature = predictor.signature.with_instructions(text)

    def _make_rollout(self, output: SimbaRollout, names: Mapping[int, str]) -> Rollout:
        """Convert a rollout as SIMBA keeps it back."""
        played = output["prediction"]
        calls = tuple((names[id(call[0])], call[1], call[2]) for call in output["trace"] if id(call[0]) in names)
        variant = self.rollouts.find_variant(output["example"].variant)
        return Rollout(variant, output["score"], tuple(played.trials), tuple(played.progress), calls)

    def _register_candidate(self, program: Agent, variant: str) -> None:
        """Register a candidate before several threads play it, so that the order does not depend on them."""
        self.rollouts.register_candidate(program)
        self.made.append(program)
        self.looked_at.append(variant)

    def _begin_batch(self) -> None:
        """Finish the last batch and begin another. Raises `SearchDone` when nothing is left to gain or to spend."""
        self._try_best()
        self.begun += 1
        why = find_search_end(self.rollouts, self.cost)
        if why or self.begun > self.most:
            self.rollouts.end_search(why or NOTHING_LEFT)
            raise SearchDone

    def _try_best(self) -> None:
        made, variants = self.made, [self.rollouts.find_variant(key) for key in self.looked_at]
        self.made, self.looked_at = [], []
        if not made:
            return
        candidates = self.rollouts.candidates
        original = next(iter(candidates.values())).rollouts
        known = [variant for variant in variants if variant in original]

        def mean_score(program: Agent) -> float:
            played = candidates[fingerprint_program(program)].rollouts
            return fmean(played[variant].score for variant in variants)

        best = max(made, key=mean_score)
        played = candidates[fingerprint_program(best)].rollouts
        if not known or fmean(played[v].score for v in known) > fmean(original[v].score for v in known):
            race_on_val(self.rollouts, best, self.jobs)


def build_demonstration_view(output: SimbaRollout, names: Mapping[int, str]) -> SimbaRollout:
    """A rollout reduced to the calls that are worth showing, from which demonstrations are taken."""
    trials = output["prediction"].trials
    calls = [call for call in output["trace"] if id(call[0]) in names]
    kept = [call for call in calls if is_worth_showing(trials, (names[id(call[0])], call[1], call[2]))]
    return {**output, "trace": kept}


def compute_batch_size(calibration: Calibration) -> int:
    """Variants in a batch."""
    return min(BATCH, len(calibration.train))


def compute_batch_cost(calibration: Calibration) -> int:
    """Maximum rollouts from the candidates of one batch to those of the next: the candidates are played on the batch,
    the best one on the val variants, and programs so far on the next batch."""
    size = compute_batch_size(calibration)
    others = 0 if size == len(calibration.train) else PROGRAMS * size
    return size * size + calibration.val_rollouts + others


def count_most_batches(calibration: Calibration, rollouts: int) -> int:
    """Maximum batches, including those that cost nothing because their rollouts were recalled."""
    cost = compute_batch_size(calibration) ** 2 + calibration.val_rollouts
    return max(1, CIRCLES * (rollouts - calibration.val_rollouts) // cost)


def count_least_rollouts(calibration: Calibration) -> int:
    """Rollouts of zero-shot on the val variants and on a batch, and of that batch's candidates. Raises `UsageError` for
    a single train variant: without contrast there is no candidate."""
    if len(calibration.train) < 2:
        raise UsageError(
            "simba learns from the contrast of variants: it needs 2 train variants at least. Name more tasks or more "
            "variants (--calib), or take another optimizer"
        )
    return calibration.val_rollouts + compute_batch_size(calibration) + compute_batch_cost(calibration)


def count_proposals(calibration: Calibration, rollouts: int) -> int:
    """One proposal for every candidate."""
    return compute_batch_size(calibration) * count_most_batches(calibration, rollouts)
