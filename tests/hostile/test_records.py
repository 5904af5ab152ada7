"""Records that a run's folder must not believe: of another run, or of what cannot have been."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rsso_dspy.records import TrainingRecord
from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER
from tests.records import record, save


def at(*path):
    """A change of one place in a record's data: the last of `path` is the value that is put there."""

    def change(data):
        *places, last, value = path
        for place in places:
            data = data[place]
        data[last] = value

    return change


def without_trial(number):
    return lambda data: data["trials"].pop(number)


def step(name, value, number=0):
    return at("trials", 0, "trajectory", "steps", number, name, value)


def trial(name, value):
    return at("trials", 0, name, value)


def longer(data):
    steps = data["trials"][1]["trajectory"]["steps"]
    quiet = {**steps[-1], "reward": 0}
    steps += [quiet] * (data["budget"] + 1 - len(steps))


IMPOSSIBLE = {
    "a reward that is no change of the score": step("reward", 999),
    "a score out of bounds": step("score", 999),
    "a score below all": step("score", -101),
    "a malformed answer that was understood": step("malformed", True),
    "steps beyond the budget": longer,
    "a smaller budget than was used": at("budget", 1),
    "no step": at("trials", 0, "trajectory", "steps", []),
    "points at reset out of bounds": at("trials", 0, "trajectory", "points_at_reset", 4000),
    "solved without the points": at("trials", 0, "trajectory", "outcome", "solved"),
    "an error that has a score": trial("failure", {"kind": "LMServerError", "message": "500"}),
    "a trial that is missing first": without_trial(0),
    "fewer trials than allowed and unsolved": without_trial(1),
    "more trials than allowed": at("trials_allowed", 1),
    "a trial of another number": trial("trial", 7),
    "a trajectory of another number": at("trials", 0, "trajectory", "trial", 2),
    "a trajectory of another variant": at("trials", 0, "trajectory", "variant", "index", 3),
    "an error in the middle": lambda data: data["trials"][0].update(
        trajectory=None, failure={"kind": "x", "message": ""}
    ),
    "negative tokens": at("trials", 0, "usage", "actor", "input", -5),
    "negative calls": at("trials", 0, "usage", "actor", "calls", -1),
    "tokens without end": at("trials", 0, "usage", "actor", "output", 10**40),
    "negative failures": trial("failures", {"Timeout": -1}),
    "less than no replay": trial("replayed", -1),
    "a memory of countless entries": at(
        "sources", [{"memory": "skills", "kind": "file", "name": "a.json", "size": 10**40}]
    ),
    "a count that is a text": at("trials", 0, "learnt", "plans_from_past_attempts", {"held": "many"}),
}
FOREIGN = {
    "another configuration": at("provenance", "config_hash", "0" * 12),
    "another protocol": at("protocol", "release"),
    "other prompts": at("provenance", "prompts", "0" * 12),
    "another version": at("provenance", "rsso_dspy", "9.9"),
    "another program": at("provenance", "program", "0" * 12),
}
DAMAGED = {
    "NaN": step("reward", float("nan")),
    "a text for a number": step("reward", "many"),
    "a number for trials": at("trials", 5),
    "a list for a record": None,
    "no trial": at("trials", []),
}
CASES = [
    pytest.param(kind, change, id=f"{kind}: {name}")
    for kind, table in (("impossible", IMPOSSIBLE), ("foreign", FOREIGN), ("damaged", DAMAGED))
    for name, change in table.items()
]


def spoil(path: Path, change) -> None:
    data = json.loads(path.read_text())
    if change is None:
        data = [data]
    else:
        change(data)
    path.write_text(json.dumps(data))


def test_what_was_played_is_believed(run):
    store = Store(run)
    assert len(list(store.units())) == 1
    assert store.set_aside == []


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_a_record_that_cannot_be_is_set_aside_and_played_again(rsso, run, unit, kind, change):
    spoil(unit, change)
    code, _, err = rsso("report", run)
    assert code == 2, "nothing else is there"
    assert f"{unit} " in err, "a report names what it left out"
    assert unit.exists(), "and changes nothing"
    code, _, err = rsso(*ORDER, "--out", run, "--dry-run")
    assert code == 0
    assert f"to be quarantined as {unit.name}.{kind}" in err
    store = Store(run)
    assert list(store.units()) == []
    assert store.set_aside == [unit.with_name(f"{unit.name}.{kind}")]
    assert store.set_aside[0].exists()


def test_a_begun_record_is_doubted_alike(run, unit):
    store, began = Store(run), Store(run).started_path(unit)
    began.parent.mkdir(parents=True, exist_ok=True)
    unit.rename(began)
    spoil(began, without_trial(1))
    assert len(store.load_begun()) == 1, "it may be continued"
    for change in (step("reward", 999), at("protocol", "release"), at("memories", "skills", {"pool": 5})):
        copy = began.read_text()
        spoil(began, change)
        assert store.load_begun() == []
        began.write_text(copy)
    assert len({file.suffix.rstrip("0123456789") for file in store.set_aside}) == 3


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, None),
        ({"budgets": (9,)}, "impossible"),
        ({"budgets": (9, 9, 9)}, "impossible"),
        ({"budgets": (9, 1)}, "impossible"),
        ({"task": "melt"}, "misplaced"),
        ({"protocol": "release"}, "foreign"),
    ],
)
def test_trainings_are_doubted_alike(tmp_path, change, kind):
    made = record("sso", "boil", 3, [[10, 20], [10, 20]])
    shared = {name: getattr(made, name) for name in ("protocol", "arm", "method", "program", "backend", "model")}
    training = TrainingRecord(**shared, rule_based=True, seed=0, trials=made.trials, task="boil", budgets=(9, 9))
    store = Store(tmp_path)
    store.open({"protocol": "sso-adapt/1"}, {"sso": "1"})
    home = store.path_of(training)
    save(store, training)
    shutil.move(save(store, replace(training, **change)), home)
    assert len(list(store.trainings())) == (kind is None)
    assert [file.suffix for file in store.set_aside] == ([f".{kind}"] if kind else [])


def test_a_record_of_an_arm_that_the_run_has_not_is_of_another_run(tmp_path):
    store = Store(tmp_path)
    store.open({}, {"sso": "1"})
    save(store, record("react", "boil", 22, [[10]]))
    assert list(store.units()) == []
    assert store.set_aside[0].suffix == ".foreign"
