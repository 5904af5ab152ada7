"""MIPROv2: instructions that a model writes from demonstrations, in combination with them. Every candidate is played on
the val variants."""

import warnings

import dspy

from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.demonstrations import DEMONSTRATIONS, WORTH_SHOWING, is_exemplary
from rsso_dspy.optimize.optimizers.search import (
    CIRCLES,
    Search,
    SearchStudent,
    count_affordable_candidates,
    has_perfect_candidate,
)
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent

PROPOSALS = 12
"""Maximum instructions per predictor that are combined (MIPROv2's "medium" setting)."""


def run_mipro(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Bayesian search for the best combination of instructions and demonstrations."""
    if has_perfect_candidate(rollouts):
        return agent
    rollouts.play_all(agent, calibration.train, jobs)

    def compile_student(student: SearchStudent) -> None:
        trials = count_affordable_candidates(calibration, rollouts.rollouts_left)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*experimental feature")  # optuna's
            dspy.MIPROv2(
                metric=metric,
                metric_threshold=WORTH_SHOWING,
                max_bootstrapped_demos=DEMONSTRATIONS,
                max_labeled_demos=0,
                auto=None,
                num_candidates=count_combined_instructions(trials),
                num_threads=jobs,
                seed=seed,
                track_stats=False,
            ).compile(
                student,
                trainset=build_examples(calibration.train),
                valset=build_examples(calibration.val),
                num_trials=CIRCLES * trials,
                minibatch=False,
                program_aware_proposer=False,  # the program's code says nothing of the task
                data_aware_proposer=False,  # the data are only keys of variants
            )

    search = Search(agent, rollouts, seed)
    search.run(SearchStudent(search, is_exemplary), compile_student)
    return agent


def count_combined_instructions(trials: int) -> int:
    """How many instructions per predictor, and sets of demonstrations, to combine in this many trials."""
    return max(2, min(2 * trials // 3, PROPOSALS))


def count_proposals(calibration: Calibration, rollouts: int) -> int:
    """The first of them is replaced by the instruction as it is."""
    return count_combined_instructions(
        count_affordable_candidates(calibration, rollouts - calibration.val_rollouts - len(calibration.train))
    )
