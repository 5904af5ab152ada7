"""`rsso-dspy run --replay DIR`: a run's folder holds all it takes to play it again, without a model."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.store.commands import CONFIG
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import FAST as QUICK
from tests.cli.conftest import mark_confirmed
from tests.log_lines import edit_lines

FAST = (*QUICK, "--set", "seed=3")
HERE, THERE = "lifespan-longest-lived::98", "lifespan-longest-lived::111"
RULES = [{"category": "abstract", "text": "Teleport to the room that the task names."}]


@dataclass(frozen=True)
class Played:
    """A run, in a folder where nothing of what it was given is left as it was."""

    folder: Path
    records: list[dict[str, Any]]


def read_records(out: Path) -> list[dict[str, Any]]:
    return list(map(dump_record, Store(out, read_only=True).units()))


@pytest.fixture(scope="module")
def played(env: ScienceWorld, tmp_path_factory) -> Iterator[Played]:
    """A run that was given a program, a library, rules and settings, all gone since; two commands made it."""
    at = tmp_path_factory.mktemp("given")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(at)
        patch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)

        def typed(*words: str) -> None:
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output

        Path("rules.json").write_text(json.dumps({"kind": "rsso-dspy constitution", "schema": 1, "rules": RULES}))
        Path("rsso.toml").write_text("[backends.embedded]\ntemperature = 0.25\n")
        calib = ("--tasks", "lifespan-longest-lived", "--optimizer", "none")
        calib += ("--set", "compile.trials=1", "--set", "compile.steps=2")
        typed("compile", *calib, "--max-rollouts", "1", *FAST, "-o", "plain.json")
        mark_confirmed("plain.json")
        typed("run", "--methods", "sso", "--variants", HERE, "--trials", "2", *FAST, "--out", "before")
        typed("skills", "export", "before", HERE, "-o", "library.json")
        run = ("run", "--variants", THERE, "--trials", "1", *FAST, "--skills", "library.json", "--out", "run")
        run += ("--constitution", "rules.json")
        typed(*run, "--methods", "rsso+constitution", "--programs", "zero-shot,plain.json")
        typed(*run, "--methods", "sso+constitution")
        for name in ("rules.json", "plain.json", "library.json"):
            Path(name).unlink()
        Path("rsso.toml").write_text("[backends.embedded]\ntemperature = 0.9\n")
        yield Played(at / "run", read_records(at / "run"))


@pytest.fixture
def copied(played, tmp_path) -> Path:
    return Path(shutil.copytree(played.folder, tmp_path / "run"))


@pytest.mark.usefixtures("at_hand")
def test_a_run_is_played_again_from_its_folder_alone_and_comes_out_equal(rsso, played, tmp_path):
    (tmp_path / "rsso.toml").write_text("seed = 7\n[memory.reflections]\nsize = 1\n")
    before = {path: path.stat().st_mtime_ns for path in played.folder.rglob("*")}
    code, out, err = rsso("run", "--replay", played.folder)
    assert code == 0, err
    assert out == "equal: 3 of 3 records are equal\n"
    assert {path: path.stat().st_mtime_ns for path in played.folder.rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["rsso.toml"], "nothing is left"
    code, out, _ = rsso("run", "--replay", played.folder, "--out", "again it's")
    assert code == 0
    assert read_records(tmp_path / "again it's") == played.records


@pytest.mark.usefixtures("at_hand")
def test_records_that_come_out_otherwise_are_listed_with_the_first_field(rsso, copied):
    (file,) = copied.glob("units/rsso+constitution/*/*.jsonl")
    edit_lines(file, "unit", lambda line: line["unit"]["provenance"].update(commit="another"))
    (file,) = copied.glob("units/sso+constitution/*/*.jsonl")
    edit_lines(file, "trial", lambda line: line["result"]["trajectory"]["steps"][1].update(action="look\x1b[2J"))
    code, out, _ = rsso("run", "--replay", copied)
    assert code == 1
    assert "2 of 3 records are equal\n" in out
    assert f"sso+constitution {THERE}: trials.0.trajectory.steps.1.action is " in out
    assert "\x1b" not in out


def edit_config(text: Callable[[str], str]) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["given"].update({CONFIG: text(data["given"][CONFIG])})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data["identity"].update(prompts="0"), "prompts: there '0', now "),
        (lambda data: data.pop("commands"), "holds no command"),
        (lambda data: data["identity"].update(config=0), "run.json is damaged"),
        (lambda data: data["identity"]["config"]["protocol"].update(trials=5), "protocol.trials: there 5, now 1"),
        (edit_config(lambda _: "garbage"), "config.toml"),
        (lambda data: data["commands"][1].update(methods=["dead-ends"]), "unknown method 'dead-ends'"),
    ],
)
def test_a_folder_that_contradicts_itself_or_would_be_another_run_is_not_played(rsso, copied, tmp_path, change, said):
    data = json.loads((copied / "run.json").read_text())
    change(data)
    (copied / "run.json").write_text(json.dumps(data))
    code, out, err = rsso("run", "--replay", copied, "--out", "again", "--dry-run")
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert not (tmp_path / "again").exists()
