"""Records made by hand, for tests of what is computed from records."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rsso_dspy.errors import UnknownName
from rsso_dspy.programs.methods import get_method, load_memory
from rsso_dspy.records import Failure, State, Step, TrainingRecord, Trajectory, TrialResult, UnitRecord, Usage, Variant
from rsso_dspy.store.run_folder import Store, find_logs
from rsso_dspy.store.unit_log import UnitLog, dump_record

STATE = State("Nothing happens.", "This room is called the hall. In it, you see: a lamp", "In your inventory, you see:")


def trajectory(variant: Variant, trial: int, scores: Sequence[int], at_reset: int = 0) -> Trajectory:
    """A trial whose environment score went through `scores`."""
    steps, before = [], at_reset
    for score in scores:
        steps.append(Step("look", "look", STATE, score - before, score, understood=True))
        before = score
    outcome = "solved" if before >= 100 else "failed" if before < 0 else "budget"
    return Trajectory(variant, trial, "Your task is to test.", STATE, at_reset, tuple(steps), outcome)


def record(
    arm: str,
    task: str,
    index: int,
    trials: Sequence[Sequence[int] | None],
    at_reset: int = 0,
    seed: int = 0,
    allowed: int = 0,
    shown: Mapping[str, str] | None = None,
) -> UnitRecord:
    """A unit; a trial given as None errored. `allowed` are the trials that it might have played, 0 for not said.
    `shown` are texts by region that stood in every prompt; unless given, one of each memory of the method."""
    variant = Variant(task, index)
    if shown is None:
        shown = {}
        with suppress(UnknownName):  # an arm of a compiled program, or of another method
            shown = {load_memory(name).region: "- Look first." for name in get_method(arm).memories}
    usage = {"actor": Usage(calls=2, input=10, output=3)}
    results = [
        TrialResult(
            number,
            None if scores is None else trajectory(variant, number, scores, at_reset),
            {},
            usage,
            failure=Failure("LMServerError", "500") if scores is None else None,
            shown=dict(shown),
        )
        for number, scores in enumerate(trials, start=1)
    ]
    return UnitRecord(
        protocol="sso-adapt/3",
        arm=arm,
        method=arm,
        program="zero-shot",
        backend="embedded",
        model="embedded/explorer",
        rule_based=True,
        variant=variant,
        seed=seed,
        budget=9,
        trials_allowed=allowed,
        trials=tuple(results),
    )


def save(store: Store, record: UnitRecord | TrainingRecord, begun: bool = False) -> Path:
    """Write the log of a unit or training, in place of one that is there; `begun` as one that is to be played on."""
    path = store.path_of(record)
    path.unlink(missing_ok=True)
    if begun and isinstance(record, UnitRecord):
        record = replace(record, trials_allowed=99)
    log = store.open_log(record)
    goes_on = any(trajectory.solved for trajectory in record.trajectories[:-1])
    log.add_head(record, stops=not begun and not goes_on)
    for trial in record.trials:
        log.add_trial(trial, record.memories, 1.0)
    return path


def describe_logs(folder: Path) -> dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]]:
    """What was played in a run's folder, by log: the record, and every call in order with its request and its answer.
    Without what differs from one time to the next: seconds, and lines of trials that do not count."""
    played = {}
    for path in [*find_logs(folder / "trainings"), *find_logs(folder / "units")]:
        log = UnitLog(path.read_bytes(), path=path, whole=True)
        calls = [log.decode(lines) for lines in log.by_number.values()]
        record = log.make_record()
        asked = [(call.trial, call.step, call.role, call.request, call.answer, call.error) for call in calls]
        played[str(path.relative_to(folder))] = (dump_record(record) if record else {}, asked)
    return played
