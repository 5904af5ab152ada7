"""Whatever happens to a line of a log: the file counts as damaged and is named, or no number of the report and no
prompt that is shown has changed.

Two things are no such change. A log that ends earlier is what a kill leaves: its unit is not finished, and the report
says how many are missing. And whoever may write a log can edit it within range (SECURITY.md): other words in a text, or
numbers that still add up; so values are replaced by those of another type or range, and no line of texts by one of
another log that has its number and its length.
"""

import gzip
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsso_dspy.api import collect_played
from rsso_dspy.cli.results import load_calls, open_runs
from rsso_dspy.report.analysis import analyze, serialize_analysis
from rsso_dspy.report.page import PageCalls, build_record_data
from tests.hostile.test_logs import RECORDED, SOLVED, UNREAD, VOIDED, Entry

LOGS = (SOLVED, UNREAD, VOIDED, "units/reflexion/OpenDoorLoc/1234-s0.jsonl", "units/sso/PickupAbove/1235-s0.jsonl")
EXAMPLES = 80  # of each kind; one takes less than 0.1 s

Place = tuple[str | int, ...]  # keys and indices on the way to a value


@dataclass(frozen=True)
class Told:
    """What is told of a run."""

    numbers: dict[str, Any]
    prompts: dict[tuple[str, str], list[Any]]
    left_out: list[str]


def read_run(folder: Path, unchanged: Collection[tuple[str, str]] = ()) -> Told:
    """Read a run as reports, `show`, replays and pages do. The calls of `unchanged` units, by arm and variant, are in
    their own logs alone, and not read again."""
    pool = open_runs([folder])
    played = collect_played(pool)
    numbers = serialize_analysis(analyze(played))
    prompts = {}
    (store,) = pool.stores
    for record in played.records:
        if (record.arm, record.key) in unchanged:
            continue
        calls = load_calls(store, record)
        build_record_data(record, PageCalls(calls))
        prompts[record.arm, record.key] = [
            (trial, call.step, call.role, call.request["messages"]) for trial, of in calls.items() for call in of
        ]
    return Told(numbers, prompts, list(store.set_aside.values()))


class RecordedRun:
    """The folder of a few units of a real model, and what is told of them while nothing is wrong."""

    def __init__(self, folder: Path):
        self.folder = folder
        data = json.loads((RECORDED / "run.json").read_text())
        names = [Path(log).with_suffix("").parts[1:] for log in LOGS]
        data["planned"] = [f"{arm}/{task}::{place.replace('-', '/')}" for arm, task, place in names]
        (folder / "run.json").write_text(json.dumps(data))
        for log, lines in LINES.items():
            (folder / log).parent.mkdir(parents=True, exist_ok=True)
            self.write(log, lines)
        self.told = read_run(folder)

    def write(self, log: str, lines: list[bytes]) -> None:
        (self.folder / log).write_bytes(b"".join(line + b"\n" for line in lines))

    def check(self, log: str, lines: list[bytes]) -> None:
        """Read the run with these lines in the place of a log."""
        self.write(log, lines)
        others = {unit for unit in self.told.prompts if unit != name_unit(log)}
        try:
            told = read_run(self.folder, others)
        finally:
            self.write(log, LINES[log])

        if any(f"{self.folder / log} cannot be read" in why for why in told.left_out):
            return
        if told.numbers["missing"]:  # the unit is not finished, and the report says so
            return
        assert told.numbers == self.told.numbers
        assert told.prompts == {name_unit(log): self.told.prompts[name_unit(log)]}


def name_unit(log: str) -> tuple[str, str]:
    """Arm and variant of a log."""
    _, arm, task, place = Path(log).with_suffix("").parts
    return arm, f"{task}::{place.removesuffix('-s0')}"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RecordedRun:
    run = RecordedRun(tmp_path_factory.mktemp("mutations"))
    assert not run.told.left_out
    assert run.told.numbers["missing"] == 0
    assert run.told.prompts.keys() == {name_unit(log) for log in LOGS}
    return run


LINES = {name: gzip.decompress((RECORDED / f"{name}.gz").read_bytes()).splitlines() for name in LOGS}
OFTEN = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# Lines.


@dataclass(frozen=True)
class LineChange:
    """A line of a log twice, missing, moved, or one of another log in its place or before it."""

    log: str
    line: int
    kind: str
    target: int  # where it goes; of a foreign line which one of its log
    other: str

    def apply(self) -> list[bytes]:
        lines = list(LINES[self.log])
        target = self.target % len(lines)
        foreign = LINES[self.other][self.target % len(LINES[self.other])]
        match self.kind:
            case "missing":
                del lines[self.line]
            case "twice":
                lines.insert(target, lines[self.line])
            case "moved":
                lines.insert(target, lines.pop(self.line))
            case "added":
                lines.insert(self.line, foreign)
            case "replaced" if not is_same_texts(foreign, lines[self.line]):
                lines[self.line] = foreign
        return lines


@st.composite
def change_lines(draw: st.DrawFn) -> LineChange:
    log = draw(st.sampled_from(LOGS))
    return LineChange(
        log,
        line=draw(st.integers(0, len(LINES[log]) - 1)),
        kind=draw(st.sampled_from(["twice", "missing", "moved", "added", "replaced"])),
        target=draw(st.integers(0, 60)),
        other=draw(st.sampled_from([other for other in LOGS if other != log])),
    )


def is_same_texts(one: bytes, other: bytes) -> bool:
    """Whether both are lines of texts with the same numbers."""
    entries = [json.loads(line) for line in (one, other)]
    if not all("text" in entry for entry in entries):
        return False
    first, second = entries
    return (first["text"], len(first["is"])) == (second["text"], len(second["is"]))


@OFTEN
@given(change=change_lines())
def test_a_line_that_is_twice_missing_moved_or_foreign_changes_nothing_without_a_word(run, change):
    run.check(change.log, change.apply())


# Values.

OTHERS = [None, "x", -1, 1.5, 10**30, True, [], {}, ["x"], {"x": 1}]


def list_places(value: Any, before: Place = ()) -> Iterator[Place]:
    yield before
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from list_places(inner, (*before, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from list_places(inner, (*before, index))


def get_value(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def name_type(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def is_other(old: Any, new: Any) -> bool:
    """Whether a value is of another type than the one before, or a number of a range that none has."""
    if name_type(old) != name_type(new):
        return True
    return name_type(old) == "number" and (new in (-1, 10**30) or (new == 1.5 and isinstance(old, int)))


FREE = ("memories", "parameters")  # what is in these, and what a model answered, is its own affair


@dataclass(frozen=True)
class ValueChange:
    """A value of a line, and another one in its place."""

    log: str
    line: int
    place: Place
    new: Any

    def apply(self) -> list[bytes]:
        lines = list(LINES[self.log])
        entry = json.loads(lines[self.line])
        get_value(entry, self.place[:-1])[self.place[-1]] = self.new
        lines[self.line] = json.dumps(entry).encode()
        return lines


@st.composite
def change_values(draw: st.DrawFn) -> ValueChange:
    log = draw(st.sampled_from(LOGS))
    number = draw(st.integers(0, len(LINES[log]) - 1))
    entry: Entry = json.loads(LINES[log][number])
    places = [place for place in list_places(entry) if place and not (place[0] in FREE and len(place) > 1)]
    place = draw(st.sampled_from(places))
    others = [new for new in OTHERS if is_other(get_value(entry, place), new)]
    return ValueChange(log, number, place, draw(st.sampled_from(others)))


@OFTEN
@given(change=change_values())
def test_a_value_of_another_type_or_range_changes_nothing_without_a_word(run, change):
    run.check(change.log, change.apply())


def test_an_edit_within_range_is_seen_by_what_compares(run):
    """What no reader can know, the comparison knows: else it would pass whatever happened."""
    words = [line.replace(b"You", b"I", 1) if line.startswith(b'{"text"') else line for line in LINES[SOLVED]]
    assert words != LINES[SOLVED]
    with pytest.raises(AssertionError):
        run.check(SOLVED, words)
