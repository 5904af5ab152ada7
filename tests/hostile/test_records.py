"""Logs that a run's folder must not believe: of another run or unit, misplaced, or with a damaged line."""

import json
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER


def begins(line: Any, first: str) -> bool:
    return isinstance(line, dict) and next(iter(line)) == first


def put(first: str, *path: Any):
    """A change of one place in each line that begins with this key; the last of `path` is the value put there."""

    def change(lines: list[Any]) -> None:
        *places, last, value = path
        for line in [each for each in lines if begins(each, first)]:
            for place in (first, *places) if first == "unit" else places:
                line = line[place]
            line[last] = value

    return change


def step(name: str, value: Any):
    return put("trial", "result", "trajectory", "steps", 0, name, value)


def drop(first: str):
    return lambda lines: lines.remove(next(line for line in lines if begins(line, first)))


FOREIGN = {
    "another protocol": put("unit", "protocol", "release"),
    "other prompts": put("unit", "provenance", "prompts", "0" * 12),
    "another program": put("unit", "provenance", "program", "0" * 12),
    "another arm": put("unit", "arm", "sso"),
    "a newer schema": put("unit", "schema", 99),
}
DAMAGED = {
    "NaN": step("reward", float("nan")),
    "a text for a number": step("reward", "many"),
    "a number for a result": put("trial", "result", 5),
    "no head": drop("unit"),
    "a trial that is missing first": drop("trial"),
    "a trial of another number": put("trial", "result", "trial", 7),
}


def spoil(path: Path, change: Any) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.parametrize("change", (FOREIGN | DAMAGED).values(), ids=FOREIGN | DAMAGED)
def test_a_log_that_cannot_be_of_this_run_is_set_aside_and_played_again(rsso, run, unit, change):
    assert len(list(Store(run).units())) == 1
    spoil(unit, change)
    code, _, err = rsso("report", run)
    assert code == 2, "nothing else is there"
    assert f"{unit} " in err, "a report names what it left out"
    assert unit.exists(), "and changes nothing"
    code, _, err = rsso(*ORDER, "--out", run, "--dry-run")
    assert code == 0
    assert f"to be quarantined as {unit.name}.damaged" in err
    store = Store(run)
    assert list(store.units()) == []
    assert store.set_aside == [unit.with_name(f"{unit.name}.damaged")]
    assert store.set_aside[0].exists()
