"""The log of a unit, a training or a rollout: one append-only file of JSON lines with one writer.

    {"unit": {...}}                             who plays and what from; the last such line holds
    {"text": ...}, {"call": ...}, {"read": ...}     calls of models as they come, see `calls.py`
    {"trial": 2, "time": "...", "seconds": 31.2, "memories": {...}, "result": {...}}       a finished trial
    {"void": 2, "why": "..."}                   trial 2 and later ones do not count, nor does what came after trial 1

A kill may leave half a line at the end, which is left out. The cost is the sum over all calls, void ones too. Whatever
reads a log reads it here: a line that cannot follow from those before it makes the file damaged."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.calls import CallLines, RecordedCalls, Write
from rsso_dspy.errors import DamagedFile, RssoError, Stopped
from rsso_dspy.files import BYTE_ORDER_MARK
from rsso_dspy.log_lines import EMBEDDER, Entry, WrongLine, describe_flaw, name_kind, parse_line
from rsso_dspy.records import TrainingRecord, TrialResult, UnitRecord, Usage, add_usage, sum_usage
from rsso_dspy.redact import redact_json
from rsso_dspy.store.trial_checks import check_job, check_result, check_trials

JobRecord = UnitRecord | TrainingRecord
_JOB: TypeAdapter[JobRecord] = TypeAdapter(JobRecord)
_TRIAL = TypeAdapter(TrialResult)
STOPS = "stops_on_success"  # key of the head: whether no trial follows one that solved the variant
TEACHER = {"teacher": True}  # head of a rollout that a compile's teacher plays
LIMITS = ("trials_allowed", "budgets")  # keys of the head, of which a unit has the first and a training the second


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A line of a trial that counts."""

    result: TrialResult
    memories: dict[str, Any]  # after it
    seconds: float


class UnitLog(CallLines):
    def __init__(self, content: bytes = b"", write: Write = lambda _: None, path: Path = Path(), whole: bool = False):
        """`whole` also keeps the calls, for playing, replaying and showing them. Raises `DamagedFile` that names `path`
        for a line, but the last one, that is no line of a log or does not follow from those before it."""
        super().__init__(write, keep=whole)
        self.path = path
        self.head: dict[str, Any] = {}
        self.job: JobRecord | None = None  # the unit or training that the head names, without trials
        self.times: list[str] = []  # when trials ended, in UTC; of void ones too
        self.rollout: dict[str, Any] | None = None  # what a finished rollout came to
        self.abandoned: dict[str, Usage] = {}  # usage of void trials by role
        self._trials: list[FinishedTrial] = []  # those that count

        self.complete = content.rfind(b"\n") + 1  # bytes of the complete lines
        self.is_torn = self.complete < len(content)
        lines = content[: self.complete].removeprefix(BYTE_ORDER_MARK).split(b"\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                self._take_line(parse_line(line))
            except WrongLine as error:
                raise DamagedFile(path, f"line {number} {error}") from None

    # Reading. Each of these raises `WrongLine`.

    def _take_line(self, entry: Entry) -> None:
        match name_kind(entry):
            case "unit":
                self._take_head(entry["unit"])
            case "trial":
                self._take_trial(entry)
            case "void":
                self._take_void(entry["void"])
            case "rollout":
                self.rollout = entry["rollout"]
            case "call":
                self._check_place(entry)
                self.take_call_line(entry)
            case _:
                self.take_call_line(entry)

    def _take_head(self, head: dict[str, Any]) -> None:
        self.head = head
        if head == TEACHER:
            return
        if not isinstance(head.get(STOPS), bool) or not any(name in head for name in LIMITS):
            raise WrongLine("is the head of no unit: it does not say how many trials may be played")
        fields_of_record = {name: value for name, value in head.items() if name != STOPS}
        try:
            text = json.dumps({**fields_of_record, "trials": [], "memories": {}})
            self.job = _JOB.validate_json(text, strict=True)
        except ValidationError as error:
            raise WrongLine(f"is the head of no unit ({describe_flaw(error)})") from None
        check_job(self.job)

    def _check_place(self, entry: Entry) -> None:
        """Check that a call is of the trial under way, or of none. In rollouts only the last line says how many trials
        there were."""
        if self.job is None or "trial" not in entry:
            return
        if self.has_error:
            raise WrongLine(f"is a call after trial {len(self._trials)}, which ended in an error")
        current = len(self._trials) + 1
        if entry["trial"] not in (0, current):
            raise WrongLine(f"is a call of trial {entry['trial']}, where trial {current} is under way")

    def _take_trial(self, entry: Entry) -> None:
        current = len(self._trials) + 1
        if entry["trial"] != current:
            raise WrongLine(f"is trial {entry['trial']}, where trial {current} follows")
        if self.has_error:
            raise WrongLine(f"is a trial after trial {current - 1}, which ended in an error")

        result = _read_result(entry)
        check_result(result)
        logged = add_usage(self.current, _read_unlogged(entry))
        if _drop_zeros(logged) != _drop_zeros(result.usage):
            raise WrongLine(f"says that trial {current} took other calls or tokens than its calls before it")

        self._trials.append(FinishedTrial(result, entry["memories"], entry["seconds"]))
        self.times.append(entry["time"])
        self.current = {}
        self._open.clear()

    def _take_void(self, first: int) -> None:
        self._check_void(first)
        start = max(first - 1, 0)
        void = sum_usage(trial.result for trial in self._trials[start:])
        self.abandoned = _drop_zeros(add_usage(self.abandoned, void, self.current))
        del self._trials[start:]
        self.current = {}
        self.rollout = None
        self._open.clear()

        for number, lines in list(self.by_number.items()):
            if lines[0]["trial"] >= first and lines[0]["role"] != EMBEDDER:
                del self.by_number[number]

    def _check_void(self, first: int) -> None:
        """What is taken back is a trial that ended in an error, a whole unit of a stream, or a whole unit of which no
        answer could be read."""
        if self.job is None:
            return
        if not 1 <= first <= len(self._trials) + 1:
            raise WrongLine(f"takes back trial {first}, where {len(self._trials)} are finished")
        is_failed = first == len(self._trials) and self.has_error
        is_streamed = first == 1 and self.job.stream is not None
        is_unreadable = first == 1 and all(_is_unreadable(trial.result) for trial in self._trials)
        if first <= len(self._trials) and not (is_failed or is_streamed or is_unreadable):
            raise WrongLine(f"takes back trial {first}, which counts")

    # What it holds.

    @property
    def results(self) -> tuple[TrialResult, ...]:
        """The trials that count, in order."""
        return tuple(trial.result for trial in self._trials)

    @property
    def memories(self) -> dict[str, Any]:
        return self._trials[-1].memories if self._trials else {}

    @property
    def seconds(self) -> dict[int, float]:
        """How long each trial took, by its number."""
        return {number: trial.seconds for number, trial in enumerate(self._trials, start=1)}

    @property
    def has_error(self) -> bool:
        return bool(self._trials) and self._trials[-1].result.trajectory is None

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to play, or only a trial that ended in an error."""
        if not self._trials:
            return False
        allowed = self.head.get("trials_allowed") or len(self.head.get("budgets", ()))
        trajectory = self._trials[-1].result.trajectory
        if trajectory is None or (trajectory.solved and self.head.get(STOPS)):
            return True
        return len(self._trials) >= allowed

    def make_record(self) -> JobRecord | None:
        """The unit or training with the trials that count; None without one. Raises `DamagedFile` for trials that
        cannot be its own."""
        if not self._trials:
            return None
        if self.job is None:
            raise DamagedFile(self.path, "no line says which unit it is of")
        record = replace(self.job, trials=self.results, memories=self.memories)
        try:
            check_trials(record, bool(self.head.get(STOPS)))
        except WrongLine as error:
            raise DamagedFile(self.path, f"it {error}") from None
        return record

    def sum_current(self) -> dict[str, Usage]:
        """Usage by role of a trial that is under way, or was cut off and not played again."""
        return _drop_zeros(self.current)

    def sum_usage(self) -> dict[str, Usage]:
        return add_usage(self.abandoned, sum_usage(self.results), self.sum_current())

    def make_answers(self, name: str) -> RecordedCalls:
        attempts = {result.trial: result.replayed for result in self.results}
        return RecordedCalls(name, self, attempts=attempts)

    # Writing.

    def add_head(self, record: JobRecord, stops: bool) -> None:
        """Write who plays and what from, unless the last such line says the same."""
        head = {**_JOB.dump_python(record, mode="json", exclude={"trials", "memories"}), STOPS: stops}
        self.write_entry({"unit": json.loads(redact_json(json.dumps(head)))}, unless=self.head)

    def write_entry(self, entry: dict[str, Any], unless: Any = None) -> None:
        """Write a line that is no call, unless it says what is known."""
        if next(iter(entry.values())) != unless:
            self._write_whole(json.dumps(entry))

    def add_trial(self, result: TrialResult, memories: Mapping[str, Any], seconds: float) -> TrialResult:
        """Write a finished trial; return it with the cost of its calls before it was cut off that it made no more."""
        unused = self.count_unused(result.trial)
        if unused:
            failures = Counter(result.failures)
            failures.update(self.count_unused_failures(result.trial))
            usage = add_usage(result.usage, unused)
            result = replace(result, usage=dict(sorted(usage.items())), failures=dict(sorted(failures.items())))
        entry: dict[str, Any] = {
            "trial": result.trial,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": round(seconds, 3),
            "memories": memories,
        }
        if unlogged := _subtract_usage(result.usage, self.current):
            entry["unlogged"] = unlogged
        data = _TRIAL.dump_json(result, exclude_defaults=True).decode()
        self._write_whole(f'{json.dumps(entry)[:-1]}, "result": {data}}}')
        return result

    def _write_whole(self, line: str) -> None:
        text = redact_json(line)
        self._write(f"{text}\n")
        self._take_line(parse_line(text.encode()))

    @contextmanager
    def stop_on_error(self, stop: threading.Event) -> Iterator[None]:
        """Raise the error of a failed write as itself. In between it is `Stopped`, and sets `stop`: callers may take
        any other error for the model's and ask again."""
        write = self._write

        def write_or_stop(text: str) -> None:
            try:
                write(text)
            except (OSError, RssoError) as error:
                stop.set()
                raise Stopped from error

        self._write = write_or_stop
        try:
            yield
        except Stopped as stopped:
            if stopped.__cause__:
                raise stopped.__cause__ from None
            raise
        finally:
            self._write = write

    def void(self, first: int, why: str) -> None:
        self.write_entry({"void": first, "why": why})


def dump_record(record: JobRecord) -> dict[str, Any]:
    data: dict[str, Any] = _JOB.dump_python(record, mode="json")
    return data


def _read_result(entry: Entry) -> TrialResult:
    try:
        result: TrialResult = _TRIAL.validate_json(json.dumps(entry["result"]), strict=True)
    except ValidationError as error:
        raise WrongLine(f"has trial {entry['trial']}, which is no record of one ({describe_flaw(error)})") from None
    return result


def _is_unreadable(result: TrialResult) -> bool:
    """Whether no answer of a trial could be read."""
    steps = result.trajectory.steps if result.trajectory else ()
    return bool(steps) and all(step.malformed for step in steps)


def _read_unlogged(entry: Entry) -> dict[str, Usage]:
    """Return the usage of a trial that its calls in the log do not explain, such as that of a module which brings a
    model of its own. Counts may be negative."""
    unlogged = {}
    for role, counts in entry.get("unlogged", {}).items():
        if unknown := counts.keys() - {count.name for count in fields(Usage)}:
            raise WrongLine(f"has counts that are none of a usage: {', '.join(sorted(unknown))}")
        unlogged[role] = Usage(**counts)
    return unlogged


def _subtract_usage(total: Mapping[str, Usage], part: Mapping[str, Usage]) -> dict[str, dict[str, int]]:
    """Return by role the counts that differ, each as what is left of the total."""
    remainder = {}
    for role in sorted(total.keys() | part.keys()):
        total_counts = asdict(total.get(role, Usage()))
        part_counts = asdict(part.get(role, Usage()))
        counts = {name: count - part_counts[name] for name, count in total_counts.items() if count != part_counts[name]}
        if counts:
            remainder[role] = counts
    return remainder


def _drop_zeros(usage: Mapping[str, Usage]) -> dict[str, Usage]:
    return {role: role_usage for role, role_usage in usage.items() if role_usage != Usage()}
