"""Instructions that a model writes: COPRO from the scores of those tried so far, MIPROv2 from demonstrations, in
combination with them. Both play every candidate on the variants to choose by.
"""

import warnings

import dspy

from rsso_dspy.optimize.calibration import Calibration, examples
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.demonstrations import DEMONSTRATIONS, WORTH_SHOWING, exemplary
from rsso_dspy.optimize.optimizers.search import CIRCLES, Pupil, Search, affordable, solved
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent

DEPTH = 3
"""Most rounds of COPRO, each proposing from the scores of the rounds before (its own default)."""

BREADTH = 3
"""Proposals per predictor and round below which COPRO does better with fewer rounds."""

PROPOSALS = 12
"""Most instructions per predictor that MIPROv2 combines (its "medium" setting)."""


def copro(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Coordinate ascent: predictor by predictor, the best of several instructions, in as many rounds as the budget
    reaches for."""

    def compile(student: Pupil) -> None:
        depth, breadth = rounds(len(student.predictors()), affordable(calibration, rollouts.left))
        dspy.COPRO(metric=metric, depth=depth, breadth=breadth).compile(
            student, trainset=examples(calibration.choose), eval_kwargs={"num_threads": jobs}
        )

    search = Search(agent, rollouts, seed)
    search.run(Pupil(search), compile)
    return agent


def rounds(predictors: int, candidates: int) -> tuple[int, int]:
    """COPRO's depth and breadth for so many candidates. Of several predictors it plays all earlier instructions again
    in every round, since the others have changed."""
    for depth in range(DEPTH, 1, -1):
        played = depth if predictors == 1 else depth * (depth + 1) // 2
        breadth = int((candidates / predictors + 1) / played)
        if breadth >= BREADTH:
            return depth, breadth
    return 1, max(2, candidates // predictors + 1)


def mipro(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Bayesian search for the best combination of instructions and demonstrations."""
    if solved(rollouts):
        return agent
    rollouts.play_all(agent, calibration.learn, jobs)

    def compile(student: Pupil) -> None:
        trials = affordable(calibration, rollouts.left)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*experimental feature")  # optuna's
            dspy.MIPROv2(
                metric=metric,
                metric_threshold=WORTH_SHOWING,
                max_bootstrapped_demos=DEMONSTRATIONS,
                max_labeled_demos=0,
                auto=None,
                num_candidates=combined(trials),
                num_threads=jobs,
                seed=seed,
                track_stats=False,
            ).compile(
                student,
                trainset=examples(calibration.learn),
                valset=examples(calibration.choose),
                num_trials=CIRCLES * trials,
                minibatch=False,
                program_aware_proposer=False,  # the program is this package's, and no description of the task
                data_aware_proposer=False,  # the data are names of variants
            )

    search = Search(agent, rollouts, seed)
    search.run(Pupil(search, exemplary), compile)
    return agent


def combined(trials: int) -> int:
    """Instructions per predictor, and sets of demonstrations, for so many trials of their combinations."""
    return max(2, min(2 * trials // 3, PROPOSALS))


def least_copro(calibration: Calibration) -> int:
    """Zero-shot on the variants to choose by, and one candidate."""
    return 2 * len(calibration.choose)


def copro_proposals(calibration: Calibration, rollouts: int) -> int:
    """One for every candidate."""
    return max(1, affordable(calibration, rollouts) - 1)


def mipro_proposals(calibration: Calibration, rollouts: int) -> int:
    """The first of them is replaced by the instruction as it is."""
    return combined(affordable(calibration, rollouts - len(calibration.choose) - len(calibration.learn)))
