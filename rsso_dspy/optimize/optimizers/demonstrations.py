"""Demonstrations from rollouts that went well, in one set or in several random ones. No instruction is changed and no
proposer asked."""

import random
from collections.abc import Sequence

import dspy

from rsso_dspy.optimize.acceptance import Rollout, TracedCall
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.feedback.actor import find_answer_steps
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers.search import Search, SearchStudent, has_perfect_candidate
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.transcript import is_transcript_of
from rsso_dspy.records import TrialResult, Variant

DEMONSTRATIONS = 4
"""Maximum demonstrations per predictor (BootstrapFewShot's own default)."""

WORTH_SHOWING = 0.5
"""Lowest metric of a rollout that demonstrations are taken from."""

SETS = 16
"""Maximum random sets that are compared (BootstrapFewShotWithRandomSearch's own default)."""


def run_bootstrap(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """Try one set of demonstrations: of the actor, actions that earned points; of the reflector, plans after which the
    next trial did better."""
    few_shot = dspy.BootstrapFewShot(
        metric=metric,
        metric_threshold=WORTH_SHOWING,
        max_bootstrapped_demos=DEMONSTRATIONS,
        max_labeled_demos=0,
    )
    found = [agent]

    def compile_student(student: SearchStudent) -> None:
        found.append(
            few_shot.compile(student, trainset=build_examples(_shuffle_trainset(calibration, seed))).get_program()
        )

    search = Search(agent, rollouts, seed, narrow=False)
    search.run(SearchStudent(search, is_exemplary), compile_student)
    return found[-1]


def run_bootstrap_random(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Try random sets of such demonstrations, as many as the budget covers, each played on the val variants."""
    if has_perfect_candidate(rollouts):
        return agent
    rollouts.play_all(agent, calibration.train, jobs)

    def compile_student(student: SearchStudent) -> None:
        dspy.BootstrapFewShotWithRandomSearch(
            metric=metric,
            metric_threshold=WORTH_SHOWING,
            max_bootstrapped_demos=DEMONSTRATIONS,
            max_labeled_demos=0,
            num_candidate_programs=SETS - 1,
            num_threads=jobs,
        ).compile(
            student,
            trainset=build_examples(_shuffle_trainset(calibration, seed)),
            valset=build_examples(calibration.val),
            # Not the program without demonstrations, nor the one with labels: there are none.
            restrict=range(-1, SETS - 1),
        )

    search = Search(agent, rollouts, seed, narrow=False)
    search.run(SearchStudent(search, is_exemplary), compile_student)
    return agent


def count_one_set_rollouts(calibration: Calibration) -> int:
    """Rollouts to play the train variants and one set of demonstrations."""
    return 2 * calibration.val_rollouts + len(calibration.train)


def count_all_sets_rollouts(calibration: Calibration) -> int:
    """Rollouts to play the train variants and all random sets."""
    return (1 + SETS) * calibration.val_rollouts + len(calibration.train)


def is_exemplary(rollout: Rollout, call: TracedCall) -> bool:
    """Whether a call is worth showing: an action that earned points, a plan after which the next trial did better, or
    any other predictor's answer in a rollout that went well."""
    return is_worth_showing(rollout.trials, call)


def is_worth_showing(results: Sequence[TrialResult], call: TracedCall) -> bool:
    """`is_exemplary`, of a call in these trials."""
    name, given, said = call
    trials = [result.trajectory for result in results if result.trajectory]
    if name == "actor":
        return any(step.reward > 0 for step in find_answer_steps(said, results))
    if name == "reflector":
        about = [number for number, trial in enumerate(trials) if is_transcript_of(given["transcript"], trial)]
        return any(trials[n + 1].accumulator > trials[n].accumulator for n in about if n + 1 < len(trials))
    return True


def _shuffle_trainset(calibration: Calibration, seed: int) -> list[Variant]:
    return random.Random(seed).sample(calibration.train, len(calibration.train))
