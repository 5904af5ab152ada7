"""Logs that a run's folder must not believe: of another run or unit, misplaced, or with a damaged line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.records import TrainingRecord
from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER
from tests.records import record, save


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
    "another configuration": put("unit", "provenance", "config_hash", "0" * 12),
    "another protocol": put("unit", "protocol", "release"),
    "other prompts": put("unit", "provenance", "prompts", "0" * 12),
    "another version": put("unit", "provenance", "rsso_dspy", "9.9"),
    "another program": put("unit", "provenance", "program", "0" * 12),
    "another arm": put("unit", "arm", "sso"),
    "another variant": put("unit", "variant", "index", 3),
    "another seed": put("unit", "seed", 7),
    "a newer schema": put("unit", "schema", 99),
}
DAMAGED = {
    "NaN": step("reward", float("nan")),
    "a text for a number": step("reward", "many"),
    "a number for a result": put("trial", "result", 5),
    "a text for seconds of a trial's number": put("trial", "trial", "one"),
    "a list for a line": lambda lines: lines.insert(1, []),
    "a number for a head": lambda lines: lines.__setitem__(0, {"unit": 5}),
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


@pytest.mark.parametrize("change", [step("reward", "many"), put("unit", "protocol", "release")])
def test_a_begun_log_is_doubted_alike(run, unit, change):
    store, lines = Store(run), unit.read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith('{"trial"'))
    unit.write_text("".join(lines[:last]))
    assert len(store.load_begun()) == 1
    spoil(unit, change)
    assert store.load_begun() == []
    assert store.set_aside == [unit.with_name(f"{unit.name}.damaged")]


@pytest.mark.parametrize("change", [{}, {"task": "melt"}, {"protocol": "release"}])
def test_trainings_are_doubted_alike(tmp_path, change):
    made = record("sso", "boil", 3, [[10, 20], [10, 20]])
    shared = {name: getattr(made, name) for name in ("protocol", "arm", "method", "program", "backend", "model")}
    training = TrainingRecord(**shared, rule_based=True, seed=0, trials=made.trials, task="boil", budgets=(9, 9))
    store = Store(tmp_path)
    store.open({"protocol": "sso-adapt/1"}, {"sso": "1"})
    home = store.path_of(training)
    save(store, training)
    shutil.move(save(store, replace(training, **change)), home)
    assert len(list(store.trainings())) == (not change)
    assert [file.name for file in store.set_aside] == ([f"{home.name}.damaged"] if change else [])


def test_a_log_of_an_arm_that_the_run_has_not_is_of_another_run(tmp_path):
    store = Store(tmp_path)
    store.open({}, {"sso": "1"})
    save(store, record("react", "boil", 22, [[10]]))
    assert list(store.units()) == []
    assert store.set_aside[0].suffix == ".damaged"
