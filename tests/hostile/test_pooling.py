"""Folders that look like one experiment and are not: no mean is made of units of different kinds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.errors import RunMismatch
from rsso_dspy.records import Source, UnitRecord
from rsso_dspy.store.run_folder import Store
from tests.records import record, save

ALIKE = {"protocol": "sso-adapt/3", "config": {"seed": 0}}


def folder(place: Path, *records: UnitRecord, fingerprint: str = "1", **identity: Any) -> Path:
    """A run that holds these records."""
    store = Store(place)
    config = {"seed": 0, **identity.pop("config", {})}
    store.open({**ALIKE, **identity, "config": config}, {each.arm: fingerprint for each in records})
    for each in records:
        save(store, each)
    return place


def unit(index: int, score: int = 50, arm: str = "rsso", **fields: object) -> UnitRecord:
    made = record(arm, "boil", index, [[10], [score]])
    program = fields.pop("fingerprint", None)
    return replace(made, **fields, provenance={"program": program} if program else {})


def typed(*words: object) -> tuple[int, str, str]:
    """Exit code, stdout and message of a command."""
    done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})
    if done.exception and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, RunMismatch), done.exception
        return done.exception.exit_code, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["report", "export"])
def test_units_of_one_arm_by_different_programs_are_not_pooled(tmp_path, verb):
    a, b = folder(tmp_path / "a", unit(1)), folder(tmp_path / "b", unit(2), fingerprint="2")
    out = tmp_path / "t.parquet"
    code, said, message = typed(verb, a, b, *(["-o", out] if verb == "export" else []))
    assert (code, said) == (2, "")
    assert not out.exists()
    assert str(b) in message
    assert "program: there '1', now '2'" in message
    assert "cannot be pooled: report each folder alone" in message


ROLES = {"backends": {"x": {"model": "m", "roles": {"actor": {"model": "n"}}}}, "backend": "x"}
LABELLED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a setting": (
        {"config": {"memory": {"constitution": {"r_freq": 5}}}, "protocol": "p r_freq=5"},
        {"config": {"memory": {"constitution": {"r_freq": 10}}}},
        ["rsso r_freq=5", "rsso r_freq=10"],
    ),
    "keys of one last part, and a backend of another name": (
        {"config": ROLES},
        {"config": {"backends": {"y": {"model": "o", "roles": {"actor": {"model": "p"}}}}, "backend": "y"}},
        ["rsso backend.model=m actor.model=n", "rsso backend.model=o actor.model=p"],
    ),
    "a preset of other prompts": (
        {"config": {"protocol": {"preset": "a"}}, "prompts": "1"},
        {"config": {"protocol": {"preset": "b"}}, "prompts": "2"},
        ["rsso preset=a", "rsso preset=b"],
    ),
    "an initial memory": ({}, {"carried": {"skills": "0123456789ab"}}, ["rsso", "rsso skills=012345"]),
    "nothing but the name of a backend": (
        {"config": {"backends": {"x": {"model": "m"}}, "backend": "x"}},
        {"config": {"backends": {"y": {"model": "m"}}, "backend": "y"}},
        ["rsso"],
    ),
}


@pytest.mark.parametrize("case", LABELLED)
def test_what_differs_is_in_the_label_of_an_arm_and_pairs_with_the_first_folder(tmp_path, case):
    ours, theirs, labels = LABELLED[case]
    protocol = ours.get("protocol", ALIKE["protocol"])
    a = folder(tmp_path / "a", unit(1, 40, protocol=protocol), unit(2, 50, protocol=protocol), **ours)
    seeds = {"config": {**ours.get("config", {}), "seed": 1}}
    same = folder(tmp_path / "same", replace(unit(1, 30, protocol=protocol), seed=1), **{**ours, **seeds})
    b = folder(tmp_path / "b", unit(1 if len(labels) > 1 else 3, 70), **theirs)
    code, out, message = typed("report", a, same, b, "--json")
    assert code == 0, message
    data = json.loads(out)
    assert [row["arm"] for row in data["arms"]] == labels
    assert [row["units"] for row in data["arms"]] == ([3, 1] if len(labels) > 1 else [4])
    pairs = [(each["first"], each["second"], each["pairs"], each["difference"]) for each in data["comparisons"]]
    assert pairs == ([(*labels, 1, 30)] if len(labels) > 1 else [])


REFUSED = {
    "benchmark": ({"benchmark": "pddl 1"}, {"benchmark": "babyai 1"}),
    "config.environment.simplification": ({}, {"config": {"environment": {"simplification": "easy"}}}),
    "rsso_dspy": ({"rsso_dspy": "1"}, {"rsso_dspy": "2", "config": {"memory": {"reflections": 1}}}),
    "prompts": ({"prompts": "1"}, {"prompts": "2", "config": {"memory": {"reflections": 1}}}),
}


@pytest.mark.parametrize("key", REFUSED)
def test_runs_that_mean_other_things_are_refused(tmp_path, key):
    ours, theirs = REFUSED[key]
    a, b = folder(tmp_path / "a", unit(1), **ours), folder(tmp_path / "b", unit(2), **theirs)
    code, said, message = typed("report", a, b)
    assert (code, said) == (2, "")
    assert f"cannot be compared:\n  {key}: there" in message


def test_a_record_that_contradicts_its_own_folder_is_named_and_not_pooled(tmp_path):
    a = folder(tmp_path / "a", unit(1, fingerprint="1"), unit(3, 90, fingerprint="2"))
    b = folder(tmp_path / "b", unit(2))
    code, said, message = typed("report", a, b, "--json")
    assert code == 0, message
    why = "the run has no arm rsso with its program"
    assert f"{a}/units/rsso/boil/3-s0.jsonl cannot be read ({why}): left out" in message
    (row,) = json.loads(said)["arms"]
    assert (row["units"], row["mean"]) == (2, 50)


def test_memories_that_an_arm_never_reads_do_not_keep_it_apart(tmp_path):
    a = folder(tmp_path / "a", unit(1, arm="react"))
    b = folder(
        tmp_path / "b",
        unit(2, arm="react"),
        unit(2, sources=(Source("skills", "file", "boil.json", "0123456789ab"),)),
        carried={"skills": "0123456789ab"},
    )
    code, out, message = typed("report", a, b, "--json")
    assert code == 0, message
    assert {row["arm"]: row["units"] for row in json.loads(out)["arms"]} == {"react": 2, "rsso": 1}
