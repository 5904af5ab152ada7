"""Demonstrations from rollouts that went well, once or in several random sets. No instruction is changed and no
proposer asked."""

import random
from collections.abc import Sequence

import dspy

from rsso_dspy.optimize.calibration import Calibration, examples
from rsso_dspy.optimize.feedback import steps_of
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.search import PERFECT, Pupil, Search, solved
from rsso_dspy.optimize.rollouts import Call, Rollout, Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.transcript import transcript
from rsso_dspy.trajectory import TrialResult, Variant

DEMONSTRATIONS = 4
"""Most demonstrations per predictor (BootstrapFewShot's own default)."""

WORTH_SHOWING = 0.5
"""Lowest metric of a rollout that demonstrations are taken from."""

SETS = 16
"""Most random sets that are compared (BootstrapFewShotWithRandomSearch's own default)."""


def bootstrap(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """One set of demonstrations: of the actor, actions that earned points; of the reflector, plans after which the next
    trial did better."""
    few_shot = dspy.BootstrapFewShot(
        metric=metric,
        metric_threshold=WORTH_SHOWING,
        max_bootstrapped_demos=DEMONSTRATIONS,
        max_labeled_demos=0,
    )
    found = [agent]

    def compile(student: Pupil) -> None:
        found.append(few_shot.compile(student, trainset=examples(_shuffled(calibration, seed))).program())

    search = Search(agent, rollouts, seed, narrow=False)
    search.run(Pupil(search, exemplary), compile)
    return found[-1]


def bootstrap_random(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Random sets of such demonstrations, as many as the budget reaches for, each played on the variants to choose
    by."""
    if solved(rollouts):
        return agent
    rollouts.play_all(agent, calibration.learn, jobs)

    def compile(student: Pupil) -> None:
        dspy.BootstrapFewShotWithRandomSearch(
            metric=metric,
            metric_threshold=WORTH_SHOWING,
            max_bootstrapped_demos=DEMONSTRATIONS,
            max_labeled_demos=0,
            num_candidate_programs=SETS - 1,
            num_threads=jobs,
            stop_at_score=100 * PERFECT,
        ).compile(
            student,
            trainset=examples(_shuffled(calibration, seed)),
            valset=examples(calibration.choose),
            restrict=range(-1, SETS - 1),  # less the program without demonstrations and the one with labels, of none
        )

    search = Search(agent, rollouts, seed, narrow=False)
    search.run(Pupil(search, exemplary), compile)
    return agent


def one_set(calibration: Calibration) -> int:
    """Rollouts for a look at the variants to learn from, and one set of demonstrations."""
    return 2 * len(calibration.choose) + len(calibration.learn)


def all_sets(calibration: Calibration) -> int:
    """Rollouts for a look at the variants to learn from, and all random sets."""
    return (1 + SETS) * len(calibration.choose) + len(calibration.learn)


def exemplary(rollout: Rollout, call: Call) -> bool:
    """Whether a call is worth showing to others: an action that earned points, a plan after which the next trial did
    better, anything else that was said in a rollout that went well."""
    return worth_showing(rollout.trials, call)


def worth_showing(results: Sequence[TrialResult], call: Call) -> bool:
    """`exemplary`, of a call in these trials."""
    name, given, said = call
    trials = [result.trajectory for result in results if result.trajectory]
    if name == "actor":
        return any(step.reward > 0 for step in steps_of(said, results))
    if name == "reflector":
        about = [number for number, trial in enumerate(trials) if transcript(trial) == given["transcript"]]
        return any(trials[n + 1].accumulator > trials[n].accumulator for n in about if n + 1 < len(trials))
    return True


def _shuffled(calibration: Calibration, seed: int) -> list[Variant]:
    return random.Random(seed).sample(calibration.learn, len(calibration.learn))
