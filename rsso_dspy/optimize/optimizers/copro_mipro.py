"""Instructions that a model writes: COPRO from the scores of those tried so far, MIPROv2 from demonstrations, in
combination with them. Both play every candidate on the val variants.
"""

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

DEPTH = 3
"""Maximum rounds of COPRO, each proposing from the scores of earlier rounds (its own default)."""

BREADTH = 3
"""Fewest proposals per predictor and round; with less, COPRO does better with fewer rounds."""

PROPOSALS = 12
"""Maximum instructions per predictor that MIPROv2 combines (its "medium" setting)."""


def run_copro(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Coordinate ascent: predictor by predictor, the best of several instructions, in as many rounds as the budget
    covers."""

    def compile_student(student: SearchStudent) -> None:
        depth, breadth = plan_copro_rounds(
            len(student.predictors()), count_affordable_candidates(calibration, rollouts.rollouts_left)
        )
        dspy.COPRO(metric=metric, depth=depth, breadth=breadth).compile(
            student, trainset=build_examples(calibration.val), eval_kwargs={"num_threads": jobs}
        )

    search = Search(agent, rollouts, seed)
    search.run(SearchStudent(search), compile_student)
    return agent


def plan_copro_rounds(predictors: int, candidates: int) -> tuple[int, int]:
    """COPRO's depth and breadth for this many candidates. With several predictors it plays all earlier instructions
    again in every round, because the other predictors have changed."""
    for depth in range(DEPTH, 1, -1):
        played = depth if predictors == 1 else depth * (depth + 1) // 2
        breadth = int((candidates / predictors + 1) / played)
        if breadth >= BREADTH:
            return depth, breadth
    return 1, max(2, candidates // predictors + 1)


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


def count_least_copro_rollouts(calibration: Calibration) -> int:
    """Rollouts of zero-shot and one candidate on the val variants."""
    return 2 * calibration.val_rollouts


def count_copro_proposals(calibration: Calibration, rollouts: int) -> int:
    """One proposal for every candidate."""
    return max(1, count_affordable_candidates(calibration, rollouts) - 1)


def count_mipro_proposals(calibration: Calibration, rollouts: int) -> int:
    """The first of them is replaced by the instruction as it is."""
    return count_combined_instructions(
        count_affordable_candidates(calibration, rollouts - calibration.val_rollouts - len(calibration.train))
    )
