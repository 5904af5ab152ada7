"""The log of a unit, a training or a rollout: one append-only file of JSON lines with one writer.

    {"unit": {...}}                             who plays and what from; the last such line holds
    {"text": ...}, {"call": ...}, {"read": ...}     calls of models as they come, see `calls.py`
    {"trial": 2, "time": "...", "seconds": 31.2, "memories": {...}, "result": {...}}       a finished trial
    {"void": 2, "why": "..."}                   trial 2 and later ones do not count, nor does what came after trial 1

A kill may leave half a line at the end, which is left out. The cost is the sum over all calls, void ones too."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.calls import EMBEDDER, CallLines, RecordedCalls, Write, read_cost
from rsso_dspy.errors import DamagedFile, RssoError, Stopped
from rsso_dspy.files import parse_entry
from rsso_dspy.records import TrainingRecord, TrialResult, UnitRecord, Usage, add_usage, sum_usage
from rsso_dspy.redact import redact_json

JobRecord = UnitRecord | TrainingRecord
_JOB: TypeAdapter[JobRecord] = TypeAdapter(JobRecord)
_TRIAL = TypeAdapter(TrialResult)
STOPS = "stops_on_success"  # key of the head: whether no trial follows one that solved the variant
CALLS = (b'{"text"', b'{"call"', b'{"read"')  # how lines of calls begin


class UnitLog(CallLines):
    def __init__(self, content: bytes = b"", write: Write = lambda _: None, path: Path = Path(), whole: bool = False):
        """`whole` also takes in the calls, for playing, replaying and showing them. Raises `DamagedFile` that names
        `path` for a line, but the last one, that is no line of a log."""
        super().__init__(write)
        self.path = path
        self.head: dict[str, Any] = {}
        self.times: list[str] = []  # when trials ended, in UTC; of void ones too
        self.rollout: dict[str, Any] | None = None  # what a finished rollout came to
        self.abandoned: dict[str, Usage] = {}  # usage of void trials by role
        self._lines: list[dict[str, Any]] = []  # of the trials that count
        self._tail: list[bytes] = []  # of calls since the last of them
        self.complete = content.rfind(b"\n") + 1  # bytes of the complete lines
        for number, line in enumerate(content[: self.complete].split(b"\n")[:-1], start=1):
            self._parse(line, number, whole)
        self.is_torn = self.complete < len(content)

    def _parse(self, line: bytes, number: int, whole: bool) -> None:
        if line.startswith(CALLS):
            if whole:
                self.parse_line(self._load(line, number))
            self._tail.append(line)
            return
        entry = self._load(line, number)
        if "unit" in entry:
            self.head = entry["unit"]
        elif "trial" in entry:
            self._lines.append(entry | {"result": self._read_result(entry)})
            self.times.append(entry["time"])
            self._tail = []
        elif "void" in entry:
            self._take_void(entry["void"])
        elif "rollout" in entry:
            self.rollout = entry["rollout"]

    def _load(self, line: bytes, number: int) -> dict[str, Any]:
        entry = parse_entry(line)
        if not isinstance(entry, dict):
            raise DamagedFile(self.path, f"line {number} is no JSON object")
        return entry

    def _read_result(self, entry: Mapping[str, Any]) -> TrialResult:
        try:
            return _TRIAL.validate_python(entry["result"])
        except ValidationError as error:
            why = f"its trial {entry['trial']} is no record of one ({describe_flaw(error)})"
            raise DamagedFile(self.path, why) from None

    def _take_void(self, first: int) -> None:
        void = [each["result"].usage for each in self._lines if each["trial"] >= first]
        self.abandoned = _sum_calls(self._tail, add_usage(self.abandoned, *void))
        self.rollout = None
        self._lines, self._tail = [each for each in self._lines if each["trial"] < first], []
        calls = self.by_number.items()
        self.by_number = {n: c for n, c in calls if c[0]["trial"] < first or c[0]["role"] == EMBEDDER}

    # What it holds.

    @property
    def results(self) -> tuple[TrialResult, ...]:
        """The trials that count, in order."""
        return tuple(each["result"] for each in self._lines)

    @property
    def memories(self) -> dict[str, Any]:
        return self._lines[-1]["memories"] if self._lines else {}

    @property
    def seconds(self) -> dict[int, float]:
        return {each["trial"]: each["seconds"] for each in self._lines}

    @property
    def has_error(self) -> bool:
        return bool(self._lines) and self._lines[-1]["result"].trajectory is None

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to play, or only a trial that ended in an error."""
        if not self._lines:
            return False
        allowed = self.head.get("trials_allowed") or len(self.head.get("budgets", ()))
        played = self._lines[-1]["result"].trajectory
        return played is None or (played.solved and bool(self.head.get(STOPS))) or len(self._lines) >= allowed

    def make_record(self) -> JobRecord | None:
        """The unit or training with the trials that count; None without one. Raises `DamagedFile`."""
        if not self._lines:
            return None
        head = {name: value for name, value in self.head.items() if name != STOPS}
        try:
            record = _JOB.validate_python({**head, "trials": self.results, "memories": self.memories})
        except ValidationError as error:
            raise DamagedFile(self.path, f"it is no record of a unit ({describe_flaw(error)})") from None
        numbers = list(range(1, len(self._lines) + 1))
        if [result.trial for result in record.trials] != numbers or [each["trial"] for each in self._lines] != numbers:
            raise DamagedFile(self.path, "its trials are not numbered one by one")
        return record

    def sum_current(self) -> dict[str, Usage]:
        """Usage by role of a trial that is under way, or was cut off and not played again."""
        return _sum_calls(self._tail, {})

    def sum_usage(self) -> dict[str, Usage]:
        return add_usage(self.abandoned, sum_usage(self.results), self.sum_current())

    def make_answers(self, name: str) -> RecordedCalls:
        attempts = {line["trial"]: line["result"].replayed for line in self._lines}
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
        if unused := self.count_unused(result.trial):
            result = replace(result, usage=dict(sorted(add_usage(result.usage, unused).items())))
        data = _TRIAL.dump_json(result, exclude_defaults=True).decode()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        about = json.dumps({"trial": result.trial, "time": now, "seconds": round(seconds, 3), "memories": memories})
        self._write_whole(f'{about[:-1]}, "result": {data}}}')
        return result

    def _write_whole(self, line: str) -> None:
        text = redact_json(line)
        self._write(f"{text}\n")
        self._parse(text.encode(), 0, False)

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


def _sum_calls(lines: Sequence[bytes], total: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the usage by role with that of these lines of calls added; lines that tell of none are read past."""
    found, roles = dict(total), dict[int, str]()
    for line in lines:
        entry = {} if line.startswith(b'{"text"') else parse_entry(line)
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            if "call" in entry:
                role = roles.setdefault(entry["call"], str(entry.get("role", "")))
                found[role] = found.get(role, Usage()) + read_cost([entry])
            elif "read" in entry:
                told = Usage(malformed=int("malformed" in entry), repaired=int("repaired" in entry))
                found[roles[entry["read"]]] += told
    return {role: usage for role, usage in found.items() if usage != Usage()}


def describe_flaw(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
