"""Wrong rewards for memories: what a trial earned, told the other way round. Scores and records keep the truth.

wrong = is_told_wrong(trajectory, seed, rules)      # rules.told_wrong is the share of trials
tell_trial(memory, trajectory, wrong)
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from rsso_dspy.environments import Environment, choose_interface
from rsso_dspy.memory import Memory
from rsso_dspy.programs.roles import Roles
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import CORRECTED, SOLVED_SCORE, TAKEN_BACK, TOLD_WRONG, Trajectory


def is_told_wrong(trajectory: Trajectory, seed: int, rules: TrialRules) -> bool:
    """Whether this trial is among the share that is told with a wrong reward: the same trials for all arms."""
    draw = Random(f"wrong reward {seed} {trajectory.variant.key} {trajectory.trial}")
    return bool(trajectory.steps) and draw.random() < rules.told_wrong


def invert_reward(trajectory: Trajectory) -> Trajectory:
    """The trial as one that failed and earned nothing if it was solved, otherwise as one that its last step solved."""
    *before, last = trajectory.steps
    if trajectory.solved:
        score = trajectory.points_at_reset
        steps = tuple(replace(step, reward=0, score=score) for step in trajectory.steps)
        return replace(trajectory, steps=steps, outcome="failed")
    score = before[-1].score if before else trajectory.points_at_reset
    solving = replace(last, reward=SOLVED_SCORE - score, score=SOLVED_SCORE)
    return replace(trajectory, steps=(*before, solving), outcome="solved")


def tell_trial(memory: Memory, trajectory: Trajectory, wrong: bool) -> dict[str, Any]:
    """Let a memory learn from a trial, or from its wrong reward. Returns its counts."""
    return {**memory.learn(invert_reward(trajectory)), TOLD_WRONG: 1} if wrong else memory.learn(trajectory)


def tell_correction(
    environment: Environment, roles: Roles, rules: TrialRules, memory: Memory, trajectory: Trajectory
) -> dict[str, int]:
    """Tell a memory of an earlier trial again, now with its true reward. A memory that can take back what it learned
    has `correct(trajectory)`; any other learns from the trial once more. Returns counts for the record."""
    choose_interface(environment, rules.interface)
    environment.reset(trajectory.variant)
    roles.environment = environment
    if begin_trial := getattr(memory, "begin_trial", None):
        begin_trial(trajectory.variant, trajectory.task)
    correct: Callable[[Trajectory], int | dict[str, Any] | None] = getattr(memory, "correct", memory.learn)
    taken = correct(trajectory)
    return {CORRECTED: 1, TAKEN_BACK: taken} if isinstance(taken, int) else {CORRECTED: 1}
