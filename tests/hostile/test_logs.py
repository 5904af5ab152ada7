"""Lines of a log that cannot follow from those before it: nothing of such a file is scored, and it is named."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.calls import TextTable
from rsso_dspy.errors import DamagedFile
from rsso_dspy.failures import ERROR_FIELDS
from rsso_dspy.log_lines import ERROR_FIELDS as LOGGED_ERROR_FIELDS
from rsso_dspy.log_lines import WrongLine
from rsso_dspy.report.analysis import analyze
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import UnitLog
from tests.cli.conftest import rsso
from tests.records import record, save

__all__ = ["rsso"]

Entry = dict[str, Any]
RECORDED = Path(__file__).parents[2] / "examples/recorded/babyai-2x2"
VOIDED = "units/react/GoToSeqS5R2/1236-s0.jsonl"  # a trial that failed and was played again
SOLVED = "units/react/OpenDoorsOrderN4Debug/1237-s0.jsonl"  # three trials, the last of which solves the variant
UNREAD = "units/react/PickupAbove/1236-s0.jsonl"  # answers that broke the format


def unpack(name: str) -> list[Entry]:
    lines = gzip.decompress((RECORDED / f"{name}.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def read(entries: list[Entry]) -> UnitLog:
    text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    log = UnitLog(text.encode(), whole=True)
    log.make_record()
    return log


def find(entries: list[Entry], kind: str, number: int = 0) -> Entry:
    return [entry for entry in entries if next(iter(entry)) == kind][number]


def find_answer(entries: list[Entry]) -> Entry:
    return next(entry for entry in entries if "answer" in entry)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run of two units of a real model."""
    shutil.copy(RECORDED / "run.json", tmp_path)
    for name in (SOLVED, UNREAD):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(gzip.decompress((RECORDED / f"{name}.gz").read_bytes()))
    return tmp_path


@pytest.mark.parametrize("name", [VOIDED, SOLVED, UNREAD])
def test_a_log_of_a_real_model_is_read(name):
    assert read(unpack(name)).make_record() is not None


# Values.

WRONG_VALUES: dict[str, Callable[[list[Entry]], object]] = {
    "messages that are no list": lambda lines: find(lines, "call").update(messages="go"),
    "a message that is a text": lambda lines: find(lines, "call")["messages"].append("go"),
    "a message without texts": lambda lines: find(lines, "call")["messages"][0].__setitem__(1, None),
    "texts that are not there": lambda lines: find(lines, "call")["messages"][0].__setitem__(1, "1-999"),
    "texts from last to first": lambda lines: find(lines, "call")["messages"][0].__setitem__(1, "2-1"),
    "text 0": lambda lines: find(lines, "call")["messages"][0].__setitem__(1, "0-1"),
    "texts by name": lambda lines: find(lines, "call")["messages"][0].__setitem__(1, "first"),
    "texts that are numbers": lambda lines: find(lines, "text")["is"].append(5),
    "usage that is a mapping": lambda lines: find_answer(lines).update(usage={"prompt_tokens": 1}),
    "usage of texts": lambda lines: find_answer(lines).update(usage=["many"]),
    "tokens that are a text": lambda lines: find_answer(lines)["usage"][0].update(prompt_tokens="353"),
    "tokens below 0": lambda lines: find_answer(lines)["usage"][0].update(prompt_tokens=-1),
    "other tokens": lambda lines: find_answer(lines)["usage"][0].update(completion_tokens=1),
    "an answer that is a text": lambda lines: find_answer(lines).update(answer="go"),
    "an answer of numbers": lambda lines: find_answer(lines).update(answer=[5]),
    "an answer and an error": lambda lines: find_answer(lines).update(error={"kind": "LMError", "message": ""}),
    "neither": lambda lines: find_answer(lines).pop("answer"),
    "a name that is a number": lambda lines: find_answer(lines).update(served=5),
    "a mark that is a text": lambda lines: find_answer(lines).update(cut="yes"),
    "seconds that are a text": lambda lines: find_answer(lines).update(seconds="1.2"),
    "seconds without end": lambda lines: find_answer(lines).update(seconds=float("inf")),
    "seconds below 0": lambda lines: find_answer(lines).update(seconds=-1.0),
    "parameters that are a list": lambda lines: find(lines, "call").update(parameters=[]),
    "a role that is a number": lambda lines: find(lines, "call").update(role=5),
    "attempt 2": lambda lines: find(lines, "call").update(attempt=2),
    "a step that is a fraction": lambda lines: find(lines, "call").update(step=1.5),
    "a key that no line has": lambda lines: find(lines, "call").update(more=1),
    "a time that is none": lambda lines: find(lines, "trial").update(time="noon"),
    "a trial's seconds that are a text": lambda lines: find(lines, "trial").update(seconds="31"),
    "memories that are a list": lambda lines: find(lines, "trial").update(memories=[]),
    "a memory that is a text": lambda lines: find(lines, "trial").update(memories={"skills": "many"}),
    "a truth that is a number": lambda lines: steps(lines)[0].update(understood=0),
    "a number that is a truth": lambda lines: steps(lines)[0].update(reward=False),
    "a number that is a text": lambda lines: steps(lines)[0].update(reward="0"),
    "counts below 0": lambda lines: find(lines, "trial")["result"].update(failures={"LMServerError": -1}),
    "a limit that is none": lambda lines: find(lines, "unit")["unit"].update(trials_allowed=-1),
    "a limit without end": lambda lines: find(lines, "unit")["unit"].update(trials_allowed=10**30),
    "no limit": lambda lines: find(lines, "unit")["unit"].pop("trials_allowed"),
    "a head that does not say when it stops": lambda lines: find(lines, "unit")["unit"].pop("stops_on_success"),
    "a head that is a list": lambda lines: find(lines, "unit").update(unit=[]),
    "no reason": lambda lines: lines.insert(1, {"void": 1}),
    "a line of no kind": lambda lines: lines.insert(1, {"note": "mine"}),
}


def steps(entries: list[Entry]) -> list[Entry]:
    return find(entries, "trial")["result"]["trajectory"]["steps"]


@pytest.mark.parametrize("change", WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_a_value_of_another_type_or_range_makes_the_log_damaged(change):
    entries = unpack(SOLVED)
    change(entries)
    with pytest.raises(DamagedFile):
        read(entries)


def test_the_fields_of_an_error_are_those_that_are_kept_of_one():
    assert LOGGED_ERROR_FIELDS == ERROR_FIELDS


# Lines.


def repeat(kind: str, number: int = 0) -> Callable[[list[Entry]], object]:
    return lambda lines: lines.insert(lines.index(find(lines, kind, number)), find(lines, kind, number))


def drop(kind: str, number: int = 0) -> Callable[[list[Entry]], object]:
    return lambda lines: lines.remove(find(lines, kind, number))


def swap(kind: str, first: int, second: int) -> Callable[[list[Entry]], object]:
    def change(lines: list[Entry]) -> None:
        places = [lines.index(find(lines, kind, number)) for number in (first, second)]
        lines[places[0]], lines[places[1]] = lines[places[1]], lines[places[0]]

    return change


def take(kind: str, number: int, other: str) -> Callable[[list[Entry]], object]:
    """Put a line of another log in the place of the line of this kind and number."""

    def change(lines: list[Entry]) -> None:
        lines[lines.index(find(lines, kind, number))] = find(unpack(other), kind, number)

    return change


WRONG_LINES: dict[str, tuple[str, Callable[[list[Entry]], object], str]] = {
    "texts twice": (SOLVED, repeat("text"), "line 3 holds the texts from 1 on, where those from 11 on follow"),
    "texts missing": (SOLVED, drop("text"), "names the texts 1-5, of 0 that are there"),
    "later texts missing": (SOLVED, drop("text", 1), "names the texts 11-11, of 10 that are there"),
    "texts moved": (SOLVED, swap("text", 0, 1), "line 2 holds the texts from 11 on, where those from 1 on follow"),
    "a call twice": (SOLVED, repeat("call"), "line 4 begins call 1, where 2 follows"),
    "a call missing": (SOLVED, drop("call"), "took other calls or tokens than its calls before it"),
    "a call between others missing": (UNREAD, drop("call", 3), "how answer 4 was read, where 3 is the last one"),
    "the last call missing": (SOLVED, drop("call", -1), "took other calls or tokens than its calls before it"),
    "calls moved": (SOLVED, swap("call", 2, 3), "begins call 4, where 3 follows"),
    "a second answer": (
        SOLVED,
        lambda lines: lines.insert(3, {"call": 1, "answer": ["go"], "usage": []}),
        "line 4 goes on with call 1, which has ended",
    ),
    "an answer to no call": (
        SOLVED,
        lambda lines: lines.insert(2, {"call": 9, "answer": ["go"], "usage": []}),
        "line 3 goes on with call 9, which has not begun",
    ),
    "a call of a later trial": (SOLVED, lambda lines: find(lines, "call").update(trial=2), "is a call of trial 2"),
    "a call of an earlier trial": (SOLVED, lambda lines: find(lines, "call", -1).update(trial=1), "a call of trial 1"),
    "a reading twice": (UNREAD, repeat("read"), "took other calls or tokens"),
    "a reading missing": (UNREAD, drop("read"), "took other calls or tokens"),
    "a reading of no call": (UNREAD, lambda lines: find(lines, "read").update(read=99), "how answer 99 was read"),
    "a failed attempt missing": (
        VOIDED,
        lambda lines: lines.remove(next(line for line in lines if "failed" in line and "messages" not in line)),
        "took other calls or tokens",
    ),
    "a trial twice": (SOLVED, repeat("trial"), "is trial 1, where trial 2 follows"),
    "a trial missing": (SOLVED, drop("trial"), "is a call of trial 2, where trial 1 is under way"),
    "trials moved": (SOLVED, swap("trial", 0, 1), "is trial 2, where trial 1 follows"),
    "a trial of another log": (SOLVED, take("trial", 0, UNREAD), "took other calls or tokens"),
    "the head of another log": (SOLVED, take("unit", 0, UNREAD), "is of PickupAbove::1236"),
    "a void line missing": (VOIDED, drop("void"), "which ended in an error"),
    "a trial that counts taken back": (
        SOLVED,
        lambda lines: lines.append({"void": 3, "why": "it ended in an error and is played again"}),
        "takes back trial 3, which counts",
    ),
    "a trial taken back that is not there": (
        SOLVED,
        lambda lines: lines.append({"void": 5, "why": "it ended in an error and is played again"}),
        "takes back trial 5, where 3 are finished",
    ),
}


@pytest.mark.parametrize("case", WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_line_that_is_twice_missing_moved_or_of_another_log_makes_the_log_damaged(case):
    name, change, why = case
    entries = unpack(name)
    change(entries)
    with pytest.raises(DamagedFile) as damaged:
        read(entries)
    assert why in str(damaged.value)


# Trials.


def change_head(**values: Any) -> Callable[[list[Entry]], object]:
    return lambda lines: [line["unit"].update(values) for line in lines if "unit" in line]


def change_trial(number: int, **values: Any) -> Callable[[list[Entry]], object]:
    return lambda lines: find(lines, "trial", number)["result"].update(values)


def change_trajectory(**values: Any) -> Callable[[list[Entry]], object]:
    return lambda lines: find(lines, "trial")["result"]["trajectory"].update(values)


OTHER = {"task": "OpenDoorsOrderN4Debug", "index": 1238, "split": "test", "simplification": ""}
WRONG_TRIALS: dict[str, tuple[Callable[[list[Entry]], object], str]] = {
    "a trial of another variant": (change_trajectory(variant=OTHER), "a trial of OpenDoorsOrderN4Debug::1238"),
    "another number inside": (change_trial(0, trial=2), "holds trial 2 in the place of trial 1"),
    "another number of the steps": (change_trajectory(trial=2), "the steps of trial 2 in trial 1"),
    "more trials than allowed": (change_head(trials_allowed=2), "holds 3 trials, of 2 that may be played"),
    "more steps than allowed": (change_head(budget=1), "2 steps in trial 3, of 1 that it may have"),
    "a score and a failure": (change_trial(0, failure={"kind": "LMError"}), "both a score and a failure"),
    "neither": (change_trial(0, trajectory=None), "both a score and a failure, or neither"),
    "a reward": (lambda lines: steps(lines)[0].update(reward=40), "do not add up: step 1 makes 0 of 0"),
    "a score": (lambda lines: steps(lines)[0].update(score=40), "do not add up: step 1 makes 40 of 0"),
    "points at reset": (change_trajectory(points_at_reset=3), "do not add up"),
    "another ending": (change_trajectory(outcome="solved"), "ended solved, at 0 points"),
    "fewer tokens": (change_trial(0, usage={"actor": {"calls": 1, "input": 1, "output": 1}}), "other calls or tokens"),
    "no usage": (change_trial(0, usage={}), "took other calls or tokens than its calls"),
    "a failed request": (change_trial(0, failures={"LMServerError": 1}), "with 0 failed requests"),
}


@pytest.mark.parametrize("case", WRONG_TRIALS.values(), ids=WRONG_TRIALS)
def test_a_number_or_a_name_that_the_rest_of_the_log_contradicts_makes_it_damaged(case):
    change, why = case
    entries = unpack(SOLVED)
    change(entries)
    with pytest.raises(DamagedFile) as damaged:
        read(entries)
    assert why in str(damaged.value)


def test_points_outside_of_a_hundred_make_the_log_damaged(tmp_path):
    store = Store(tmp_path)
    store.open({}, {"rsso": "1"})
    path = save(store, record("rsso", "boil", 22, [[10]]))
    path.write_text(path.read_text().replace('"reward":10,"score":10', '"reward":-101,"score":-101'))
    assert list(store.units()) == []
    assert "-101 points, of 100" in next(iter(store.set_aside.values()))


def test_no_trial_follows_one_that_solved_the_variant_where_the_run_stops_there(tmp_path):
    store = Store(tmp_path)
    store.open({}, {"rsso": "1"})
    unit = record("rsso", "boil", 22, [[100], [30]])
    path = save(store, unit)
    assert list(store.units()) == [unit], "where it goes on, it goes on"
    path.write_text(path.read_text().replace('"stops_on_success": false', '"stops_on_success": true'))
    assert list(store.units()) == []
    assert "goes on after trial 1, which solved the variant" in next(iter(store.set_aside.values()))


def test_texts_that_are_not_there_are_never_left_out():
    texts = TextTable()
    texts.extend(["one", "two"])
    assert texts.decode("1-2 1") == "one\ntwo\none"
    for ranges in ("1-3", "3", "0", "2-1", "x", "1,2", "", "-1", "1--2"):
        with pytest.raises(WrongLine):
            texts.decode(ranges)


# Whole runs.


def test_a_damaged_log_is_named_and_does_not_cost_the_page_of_the_others(rsso, folder):
    damaged = folder / UNREAD
    damaged.write_text(damaged.read_text().replace('"messages": [[', '"messages": [["system", "1-999"], [', 1))
    for words in (("report",), ("export",), ("report", "--html", "page.html")):
        code, _, err = rsso(words[0], folder, *words[1:])
        assert code == 0, words
        assert f"{damaged} cannot be read (line 3 names the texts 1-999" in err, words
    assert "GoToSeqS5R2" not in Path("page.html").read_text()
    for words in (("show", folder, "PickupAbove::1236", "--prompts"), ("run", "--replay", folder, "--dry-run")):
        code, out, err = rsso(*words)
        assert code in (0, 2), words
        assert "Traceback" not in out + err, words
    units = list(Store(folder, read_only=True).units())
    assert [unit.key for unit in units] == ["OpenDoorsOrderN4Debug::1237"]
    assert analyze(units).arms[0].units == 1


def test_a_module_with_a_model_of_its_own_is_billed_and_its_log_is_read(tmp_path):
    """What no line of a call tells of stands beside the trial, so that the sum is one of its parts again."""
    store = Store(tmp_path)
    store.open({}, {"rsso": "1"})
    path = save(store, record("rsso", "boil", 22, [[10]]))
    assert '"unlogged": {"actor": {"calls": 2, "input": 10, "output": 3}}' in path.read_text()
    path.write_text(path.read_text().replace('"unlogged": {"actor": {"calls": 2', '"unlogged": {"actor": {"calls": 1'))
    assert list(store.units()) == []
