"""What the trials of one log have to agree on: with the unit or training that they are of, and with each other. A line
of another log, or a number that was changed, would else move means without a word."""

from dataclasses import astuple

from rsso_dspy.bounds import MOST_COUNT, MOST_TRIALS
from rsso_dspy.log_lines import WrongLine
from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, Trajectory, TrialResult, UnitRecord

REPORTED = ("written", "held")  # counts of what a memory learned that reports read


def check_result(result: TrialResult) -> None:
    """Raise `WrongLine` for a trial whose numbers contradict each other."""
    has_score = result.trajectory is not None
    has_failure = result.failure is not None
    if has_score == has_failure:
        raise WrongLine("has a trial with both a score and a failure, or neither")

    _check_counts(result)
    if result.trajectory is not None:
        _check_points(result.trajectory)


def _check_counts(result: TrialResult) -> None:
    usages = result.usage.values()
    failures = result.failures.values()
    negative = [usage for usage in usages if min(astuple(usage)) < 0]
    if negative or min(failures, default=0) < 0 or result.replayed not in (0, 1):
        raise WrongLine("has a trial with a count that is none")

    for counts in result.learnt.values():
        for name in REPORTED:
            count = counts.get(name, 0)
            if not isinstance(count, int) or not 0 <= count <= MOST_COUNT:
                raise WrongLine(f"has a trial after which {count} entries were {name}")

    failed = sum(usage.failed for usage in usages)
    if sum(failures) != failed:
        raise WrongLine(f"has a trial with {failed} failed requests, and kinds of error of another number")


def _check_points(trajectory: Trajectory) -> None:
    """Rewards are the changes of the environment's score, from the points held at reset on."""
    score = trajectory.points_at_reset
    if abs(score) > SOLVED_SCORE:
        raise WrongLine(f"has a trial that begins at {score} points, of 100")

    for number, step in enumerate(trajectory.steps, start=1):
        if step.score != score + step.reward:
            raise WrongLine(f"has a trial whose points do not add up: step {number} makes {step.score} of {score}")
        if abs(step.score) > SOLVED_SCORE:
            raise WrongLine(f"has a trial with {step.score} points, of 100")
        score = step.score

    if (trajectory.outcome == "solved") != trajectory.solved:
        raise WrongLine(f"has a trial that ended {trajectory.outcome}, at {score} points")


def check_job(job: UnitRecord | TrainingRecord) -> None:
    """Raise `WrongLine` for a head with limits that no unit or training has."""
    if isinstance(job, UnitRecord):
        if not 0 <= job.trials_allowed <= MOST_TRIALS or not _may_be_budget(job.budget):
            raise WrongLine(f"is of a unit with {job.trials_allowed} trials of {job.budget} steps")
        return

    if not job.budgets or not all(map(_may_be_budget, job.budgets)):
        raise WrongLine("is of a training with other numbers of steps than there may be")


def _may_be_budget(steps: int) -> bool:
    return 1 <= steps <= MOST_COUNT


def check_trials(record: UnitRecord | TrainingRecord, stops: bool) -> None:
    """Raise `WrongLine` if these cannot be the trials of this unit or training. `stops`: none follows a solved one."""
    budgets = _list_budgets(record)
    if len(record.trials) > len(budgets):
        raise WrongLine(f"holds {len(record.trials)} trials, of {len(budgets)} that may be played")

    for number, (result, budget) in enumerate(zip(record.trials, budgets, strict=False), start=1):
        is_last = number == len(record.trials)
        if result.trial != number:
            raise WrongLine(f"holds trial {result.trial} in the place of trial {number}")

        trajectory = result.trajectory
        if trajectory is None:
            if not is_last:
                raise WrongLine(f"goes on after trial {number}, which ended in an error")
            continue

        if trajectory.trial != number:
            raise WrongLine(f"holds the steps of trial {trajectory.trial} in trial {number}")
        if len(trajectory.steps) > budget:
            raise WrongLine(f"holds {len(trajectory.steps)} steps in trial {number}, of {budget} that it may have")
        if trajectory.solved and stops and not is_last:
            raise WrongLine(f"goes on after trial {number}, which solved the variant")
        _check_variant(record, trajectory)


def _list_budgets(record: UnitRecord | TrainingRecord) -> tuple[int, ...]:
    """Steps that each trial may have, as many as there may be trials."""
    if isinstance(record, TrainingRecord):
        return record.budgets
    allowed = record.trials_allowed or len(record.trials)  # 0: nobody said
    return (record.budget,) * allowed


def _check_variant(record: UnitRecord | TrainingRecord, trajectory: Trajectory) -> None:
    if isinstance(record, UnitRecord):
        if trajectory.variant != record.variant:
            raise WrongLine(f"holds a trial of {trajectory.variant.key}, and is of {record.variant.key}")
        return

    if trajectory.variant.task != record.task:
        raise WrongLine(f"holds a trial of {trajectory.variant.key}, and is of {record.task}")
