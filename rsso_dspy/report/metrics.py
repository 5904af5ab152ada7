"""Metrics of one arm: scores (rSSO, section 4), learning from trial to trial, and what AgentBoard, OmniReflect and
Reflexion report of a task. Scores are points of 100; errored units have none and are left out."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import TypeVar

from rsso_dspy.loops import find_action_loop
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import (
    SOLVED_SCORE,
    TrainingRecord,
    Trajectory,
    TrialsRecord,
    UnitRecord,
    Usage,
    sum_usage,
)
from rsso_dspy.report.doses import ShownMemory, count_shown_memories
from rsso_dspy.report.intervals import MeanEstimate, UnitValue, estimate_mean, group_values
from rsso_dspy.report.repeats import RepeatSuccess, estimate_repeat_success

R = TypeVar("R", bound=TrialsRecord)
UnitKey = tuple[str, int, int]  # identity of a unit across arms: task type, variant, seed
REFLECTIONS, CONSTITUTION = "plans_from_past_attempts", "constitution"  # regions of two memories

LEVELS = (50, 75)  # percentages of variants whose number of trials is reported
FAILURES = ("loops", "not found", "wrong answer", "out of steps", "other")  # see `classify_failure`

CATEGORIES = ("abstract", "error", "progress")  # categories of rules


@dataclass(frozen=True, slots=True)
class TrialSuccess:
    trial: int
    solved: int  # variants solved in it or before
    additional: int  # variants solved in it for the first time
    accuracy: float  # solved so far, as a share of all variants, 0 to 1


@dataclass(frozen=True, slots=True)
class RepeatedReflections:
    """How often a reflection says word for word what an earlier one of the same unit says."""

    repeated: int
    reflections: int  # all whose text is known


@dataclass(frozen=True, slots=True)
class Learning:
    """Learning and failures of one arm over its scored units."""

    success: tuple[TrialSuccess, ...]
    trials_to: dict[int, int | None]  # percentage to the trials after which that share was solved; None: never
    held: Mapping[int, tuple[int, int]]  # reflections held to solved trials that began so, and to all; see the table
    written: float | None  # reflections written per unit; None without a memory of them
    repeats: RepeatedReflections
    by_task: Mapping[str, tuple[int, int]]  # task type to variants solved and variants
    failures: Mapping[str, int]  # one of `FAILURES` to the trials that failed so


@dataclass(frozen=True, slots=True)
class ArmMetrics:
    arm: str
    scaffold: str | None  # flat or sso; None for an unknown method
    units: int
    errored: int
    mean: float | None  # the paper's Mean: best accumulator over the trials, averaged over variants
    mean_with_reset: float | None  # Mean plus the points already held after reset
    macro_mean: float | None  # Mean over task types of their means
    environment_score: float | None  # best over the trials; includes the penalty of a wrong final focus
    solve: int  # number of variants that reached environment score 100 in any trial
    acc100: int  # number of variants whose best accumulator reached 100
    trial_1: float | None  # Mean accumulator of first trials
    mean_over_trials: float | None  # each unit's mean accumulator over the trials that it played, averaged over units
    trials_played: int
    later_trials: int  # of these, those after the first trial of their unit
    stalled: int  # number of these trials that stalled; they count with the score they had
    best_of_t: tuple[float, ...]  # after 1, 2, ... trials; a variant that stopped early keeps its best
    gain: MeanEstimate | None  # best of two trials minus trial 1, in points (rSSO, section 5)
    invalid_rate: float | None  # share of steps that were malformed or not understood
    asked_rate: float | None  # share of steps answered with a question
    idle_rate: float | None  # share of steps whose action was understood, and had no effect, as the environment said
    steps: int
    calls_per_unit: float | None  # model calls of all roles per scored unit (OmniReflect, Figure 3)
    tokens: dict[str, Usage]  # calls and tokens by role, including those of errored units
    progress: float | None  # AgentBoard's progress rate, 0 to 1: the highest score of a unit, averaged over units
    grounding: float | None  # AgentBoard's accuracy, 0 to 1: share of a trial's steps that were understood
    turns: float | None  # steps of all trials of a unit, averaged (OmniReflect, Figure 3)
    most_calls: int  # model calls of the unit with the most
    rules: Mapping[str, float] | None
    """Category to rules: lasting ones in the constitution after the last unit of a stream, averaged over streams,
    progress ones shown per unit; None without a constitution."""
    writings: Usage  # of the advisor, who writes and summarizes rules
    learning: Learning
    shown: tuple[ShownMemory, ...]  # of each memory of the method
    repeat_success: tuple[RepeatSuccess, ...]  # pass^k, of trials and of whole units, where these are repeats


def compute_arm_metrics(arm: str, records: Sequence[UnitRecord]) -> ArmMetrics:
    scored = select_scored_units(records)
    tasks = [record.variant.task for record in scored]
    calls = [_count_calls(record) for record in scored]

    points = [get_best_accumulator(record) for record in scored]
    points_by_task = group_values(zip(tasks, points, strict=True))
    means_by_task = [fmean(task_points) for task_points in points_by_task.values()]

    plays = [record.trajectories for record in scored]
    longest = max(map(len, plays), default=0)
    environment_scores = [_get_best_environment_score(trials) for trials in plays]
    gains = _list_gains(scored) if longest > 1 else []

    trajectories = list(chain.from_iterable(plays))
    steps = _count_steps(trajectories)
    invalid_steps = sum(trajectory.invalid_actions for trajectory in trajectories)
    asked_steps = sum(trajectory.asked_back for trajectory in trajectories)
    idle_steps = sum(trajectory.no_effect for trajectory in trajectories)

    return ArmMetrics(
        arm=arm,
        scaffold=find_scaffold(records[0].method),
        units=len(scored),
        errored=len(records) - len(scored),
        mean=_average(points),
        mean_with_reset=_average([_get_best_with_reset(trials) for trials in plays]),
        macro_mean=_average(means_by_task),
        environment_score=_average(environment_scores),
        solve=sum(score >= SOLVED_SCORE for score in environment_scores),
        acc100=sum(score >= SOLVED_SCORE for score in points),
        trial_1=_average([trials[0].accumulator for trials in plays]),
        mean_over_trials=_average([_average_accumulators(trials) for trials in plays]),
        trials_played=len(trajectories),
        later_trials=len(trajectories) - len(plays),
        stalled=sum(record.stalled_trials for record in scored),
        best_of_t=tuple(_average_best(scored, number) for number in range(1, longest + 1)),
        gain=estimate_mean(gains) if gains else None,
        invalid_rate=_compute_share(invalid_steps, steps),
        asked_rate=_compute_share(asked_steps, steps),
        idle_rate=_compute_share(idle_steps, steps),
        steps=steps,
        calls_per_unit=_average(calls),
        tokens=_sum_usage_by_role(records),
        progress=_average([_get_best_progress(trials) for trials in plays]),
        grounding=_compute_grounding(trajectories),
        turns=_average([_count_steps(trials) for trials in plays]),
        most_calls=max(calls, default=0),
        rules=_count_rules(scored),
        writings=_sum_usage_by_role(scored).get("advisor", Usage()),
        learning=compute_learning(scored),
        shown=tuple(count_shown_memories(scored)),
        repeat_success=tuple(estimate_repeat_success(scored)),
    )


def _count_calls(record: UnitRecord) -> int:
    usage_by_role = sum_usage(record.trials)
    return sum(usage.calls for usage in usage_by_role.values())


def _count_steps(trials: Sequence[Trajectory]) -> int:
    return sum(len(trajectory.steps) for trajectory in trials)


def _get_best_environment_score(trials: Sequence[Trajectory]) -> int:
    return max(trajectory.environment_score for trajectory in trials)


def _get_best_with_reset(trials: Sequence[Trajectory]) -> int:
    return max(trajectory.accumulator + trajectory.points_at_reset for trajectory in trials)


def _get_best_progress(trials: Sequence[Trajectory]) -> float:
    return max(_get_progress(trajectory) for trajectory in trials)


def _get_progress(trajectory: Trajectory) -> float:
    best_score = max((step.score for step in trajectory.steps), default=trajectory.points_at_reset)
    return best_score / SOLVED_SCORE


def _average_accumulators(trials: Sequence[Trajectory]) -> float:
    return fmean(trajectory.accumulator for trajectory in trials)


def _average_best(records: Sequence[UnitRecord], trials: int) -> float:
    return fmean(get_best_accumulator(record, trials) for record in records)


def _list_gains(records: Sequence[UnitRecord]) -> list[UnitValue]:
    """Return of each unit the best of two trials minus the first."""
    gains = []
    for record in records:
        gain = get_best_accumulator(record, 2) - get_best_accumulator(record, 1)
        gains.append(UnitValue(record.variant.task, record.variant.index, gain))
    return gains


def _compute_grounding(trajectories: Sequence[Trajectory]) -> float | None:
    shares = []
    for trajectory in trajectories:
        if trajectory.steps:
            shares.append(1 - trajectory.invalid_actions / len(trajectory.steps))
    return _average(shares)


def _compute_share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def find_scaffold(method: str) -> str | None:
    """Return the scaffold of a method, flat or sso; None for an unknown one."""
    row = METHODS.get(method.partition("+")[0])
    return row.scaffold if row else None


@dataclass(frozen=True, slots=True)
class TrainingMetrics:
    arm: str
    tasks: int  # trainings, one per task
    errored: int
    episodes: int  # trials played
    stalled: int  # number of these trials that stalled
    rounds: tuple[float, ...]  # Mean accumulator of the first, second, ... trials on the training variants.
    tokens: dict[str, Usage]  # calls and tokens by role


def compute_training_metrics(trainings: Sequence[TrainingRecord]) -> Iterator[TrainingMetrics]:
    for arm, records in group_by_arm(trainings).items():
        points_by_round = _group_points_by_round(records)
        yield TrainingMetrics(
            arm=arm,
            tasks=len(records),
            errored=sum(record.has_errors for record in records),
            episodes=sum(map(len, points_by_round.values())),
            stalled=sum(record.stalled_trials for record in records),
            rounds=tuple(fmean(points_by_round[number]) for number in sorted(points_by_round)),
            tokens=_sum_usage_by_role(records),
        )


def _group_points_by_round(records: Sequence[TrainingRecord]) -> dict[int, list[int]]:
    """Return the points of each round, from 0: a variant's first trial of a training, its second, and so on."""
    points_by_round: dict[int, list[int]] = {}
    for record in records:
        points_by_variant = group_values(
            (trajectory.variant.key, trajectory.accumulator) for trajectory in record.trajectories
        )
        for variant_points in points_by_variant.values():
            for number, points in enumerate(variant_points):
                points_by_round.setdefault(number, []).append(points)
    return points_by_round


def compute_learning(scored: Sequence[UnitRecord]) -> Learning:
    solved = [_list_successes(record) for record in scored]
    success = _count_successes(scored, solved)

    trials_to: dict[int, int | None] = {}
    for level in LEVELS:
        needed = len(scored) * level / 100
        trials_to[level] = next((row.trial for row in success if row.solved >= needed), None)

    by_task = group_values(
        (record.variant.task, True in successes) for record, successes in zip(scored, solved, strict=True)
    )
    by_held = _group_successes_by_held(scored, solved)

    unsolved = [trajectory for record in scored for trajectory in record.trajectories if not trajectory.solved]
    failed = Counter(classify_failure(trajectory) for trajectory in unsolved)

    return Learning(
        success=tuple(success),
        trials_to=trials_to,
        held={count: (sum(outcomes), len(outcomes)) for count, outcomes in sorted(by_held.items())},
        written=_average_written_reflections(scored),
        repeats=count_repeated_reflections(scored),
        by_task={task: (sum(outcomes), len(outcomes)) for task, outcomes in sorted(by_task.items())},
        failures={reason: failed[reason] for reason in FAILURES},
    )


def _list_successes(record: UnitRecord) -> list[bool]:
    """Return whether each trial of a unit solved its variant."""
    return [trajectory.solved for trajectory in record.trajectories]


def _count_successes(scored: Sequence[UnitRecord], solved: Sequence[Sequence[bool]]) -> list[TrialSuccess]:
    longest = max((len(record.trials) for record in scored), default=0)
    first_places = Counter(successes.index(True) for successes in solved if True in successes)
    newly_solved = [first_places[place] for place in range(longest)]

    rows = []
    so_far = 0
    for number, additional in enumerate(newly_solved, start=1):
        so_far += additional
        rows.append(TrialSuccess(number, so_far, additional, so_far / len(scored)))
    return rows


def _group_successes_by_held(scored: Sequence[UnitRecord], solved: Sequence[Sequence[bool]]) -> dict[int, list[bool]]:
    """Return the number of reflections held at the start of a trial, with whether each such trial was solved."""
    by_held: dict[int, list[bool]] = {}
    for record, successes in zip(scored, solved, strict=True):
        for count, success in zip(_list_held_reflections(record), successes, strict=False):
            by_held.setdefault(count, []).append(success)
    return by_held


def _average_written_reflections(scored: Sequence[UnitRecord]) -> float | None:
    counts = []
    for record in scored:
        for trial in record.trials:
            if REFLECTIONS in trial.learnt:
                counts.append(trial.learnt[REFLECTIONS].get("written", 0))
    return sum(counts) / len(scored) if counts else None


def _list_held_reflections(record: UnitRecord) -> list[int]:
    """Return the number of reflections held at the start of each trial; nothing if the unit began with reflections that
    were learned elsewhere."""
    if record.start:
        regions = [re.split("[:@]", region)[0] for region in record.trials[0].shown]
        if REFLECTIONS in regions:
            return []

    counts = [0]
    for result in record.trials[:-1]:
        reflections = result.learnt.get(REFLECTIONS, {})
        counts.append(int(reflections.get("held", counts[-1])))
    return counts


_ATTEMPT = re.compile(r"^(?:- )?Attempt (\d+)( at another task[^:\n]*)?(?: at this task)?: ", re.M)


def split_reflections(text: str) -> dict[int, str]:
    """Return a unit's own reflections in a text of their region, by the number of the trial that each was written
    after."""
    _, *parts = _ATTEMPT.split(text)
    plans = {}
    for trial, elsewhere, plan in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if not elsewhere:
            plans[int(trial)] = plan.replace("\n  ", "\n").strip()
    return plans


def list_own_reflections(record: TrialsRecord) -> list[str]:
    """Return the reflections that a unit wrote and whose text is known, in the order of trials: those that it holds at
    its end, and those that stood in a prompt."""
    texts: dict[int, str] = {}
    for result in record.trials:
        for region, text in result.shown.items():
            if region.partition("@")[0] != REFLECTIONS:
                continue
            for trial, plan in split_reflections(text).items():
                if trial < result.trial:
                    texts[trial] = plan

    with suppress(KeyError, TypeError, AttributeError):  # another version's snapshot
        plans = record.memories.get("reflections", {}).get("plans", ())
        texts |= {plan["trial"]: plan["plan"] for plan in plans}

    writing_trials = {result.trial for result in record.trials if result.learnt.get(REFLECTIONS, {}).get("written")}
    return [text for trial, text in sorted(texts.items()) if trial in writing_trials]


def count_repeated_reflections(records: Sequence[UnitRecord]) -> RepeatedReflections:
    """Count reflections of whole units; white space makes no difference."""
    repeated = reflections = 0
    for record in records:
        texts = [" ".join(text.split()) for text in list_own_reflections(record)]
        repeated += len(texts) - len(set(texts))
        reflections += len(texts)
    return RepeatedReflections(repeated, reflections)


def classify_failure(trajectory: Trajectory) -> str:
    """Return why a trial was not solved: the first of these reasons that fits."""
    steps = trajectory.steps
    if trajectory.outcome == "failed" and steps:
        return "wrong answer"
    if trajectory.outcome in ("repeated", "exhausted") or find_action_loop(steps):
        return "loops"
    if trajectory.outcome == "budget":
        return "out of steps" if trajectory.accumulator else "not found"
    return "other"


def _count_rules(records: Sequence[UnitRecord]) -> dict[str, float] | None:
    holders = [record for record in records if _holds_rules(record)]
    if not holders:
        return None

    last: dict[tuple[str, int], UnitRecord] = {}
    for record in sorted(holders, key=_get_stream_place):
        last[_name_stream(record), record.seed] = record
    categories = [_count_categories(record) for record in last.values()]
    progress_rules = [_list_progress_rules(record) for record in holders]

    return {
        "abstract": fmean(counts["abstract"] for counts in categories),
        "error": fmean(counts["error"] for counts in categories),
        "progress": fmean(map(len, progress_rules)),
    }


def _holds_rules(record: UnitRecord) -> bool:
    constitution = record.memories.get("constitution", {})
    return "rules" in constitution and "document" not in constitution


def _get_stream_place(record: UnitRecord) -> int:
    return record.stream.place if record.stream else 0


def _name_stream(record: UnitRecord) -> str:
    if record.stream is None:
        return record.key
    return record.stream.name.rpartition(" of ")[2]  # "3/36 of 1f0c9a"


def _count_categories(record: UnitRecord) -> Counter[str | None]:
    rules = record.memories["constitution"].get("rules", ())
    return Counter(rule.get("category") for rule in rules)


def _list_progress_rules(record: UnitRecord) -> set[str]:
    rules: set[str] = set()
    for trial in record.trials:
        for region, text in trial.shown.items():
            if region.startswith("progress@"):
                rules.update(text.splitlines())
    return rules


def count_repeated_units(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, tuple[int, int]]:
    """Count per arm the units whose trials are all equal action by action, and the units of two trials or more. Leaves
    out arms without such units, and units of the rule-based model."""
    repeated: dict[str, tuple[int, int]] = {}
    for arm, records in arms.items():
        units = [record.trajectories for record in records if not record.rule_based]
        again = [trials for trials in units if len(trials) > 1 and trials[0].steps]
        equal = sum(_are_alike(trials) for trials in again)
        if equal:
            repeated[arm] = (equal, len(again))
    return repeated


def _are_alike(trials: Sequence[Trajectory]) -> bool:
    """Whether these trials took the same actions."""
    ways = {_list_actions(trajectory) for trajectory in trials}
    return len(ways) == 1


def _list_actions(trajectory: Trajectory) -> tuple[str, ...]:
    return tuple(step.action for step in trajectory.steps)


def describe_repeated_units(found: Mapping[str, tuple[int, int]]) -> list[str]:
    if not found:
        return []

    counts = ", ".join(f"{arm} {equal} of {units}" for arm, (equal, units) in found.items())
    return [
        f"Units of several trials in which every trial took the same actions: {counts}. Such trials cannot raise the "
        "best score and are no control for retries; see protocol.retry_temperature."
    ]


def get_best_accumulator(record: UnitRecord, trials: int | None = None) -> float:
    return max(trajectory.accumulator for trajectory in record.trajectories[:trials])


def is_solved(record: UnitRecord, trials: int | None = None) -> bool:
    return any(trajectory.solved for trajectory in record.trajectories[:trials])


def get_unit_key(record: UnitRecord) -> UnitKey:
    return record.variant.task, record.variant.index, record.seed


def select_scored_units(records: Iterable[UnitRecord]) -> list[UnitRecord]:
    return [record for record in records if not record.has_errors]


def list_allowed_trials(arms: Sequence[Sequence[UnitRecord]]) -> list[int]:
    """Return the number of trials that units of each arm may play. For records without this number: the most that an
    unsolved unit of the arm played, or any unit if all of the arm were solved."""
    longest = max((len(record.trials) for records in arms for record in records), default=0)

    def count(record: UnitRecord) -> int:
        if record.trials_allowed:
            return record.trials_allowed
        return 0 if record.trajectories[-1].solved else len(record.trials)

    allowed = []
    for records in arms:
        most = max(map(count, select_scored_units(records)), default=0)
        allowed.append(most or longest)
    return allowed


def group_by_arm(records: Iterable[R]) -> dict[str, list[R]]:
    """Group records by arm, in order of first appearance."""
    return group_values((record.arm, record) for record in records)


def _average(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _sum_usage_by_role(records: Sequence[TrialsRecord]) -> dict[str, Usage]:
    usage_by_role = sum_usage(trial for record in records for trial in record.trials)
    return dict(sorted(usage_by_role.items()))
