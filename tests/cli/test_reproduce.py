"""`rsso-dspy reproduce`: a run's folder holds all it takes to play it again."""

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.reproduce import compare_runs
from rsso_dspy.store.commands import extract_given, load_invocations, read_given
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import mark_confirmed
from tests.log_lines import edit_lines

FAST = ("--protocol", "sso-adapt/1-cap60", "--set", "embedder.model=hash", "--seed", "3")
HERE, THERE = "lifespan-longest-lived::98", "lifespan-longest-lived::111"
RULES = {
    "kind": "rsso-dspy constitution",
    "schema": 1,
    "rules": [{"category": "abstract", "text": "Teleport to the room that the task names."}],
}


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
        patch.setattr(env, "close", lambda: None)
        patch.setattr("rsso_dspy.environments.scienceworld.benchmark.ScienceWorld", lambda **_: env)

        def typed(*words: str) -> None:
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output

        Path("rules.json").write_text(json.dumps(RULES))
        Path("rsso.toml").write_text("[backends.embedded]\ntemperature = 0.25\n")
        calib = (
            "--tasks",
            "lifespan-longest-lived",
            "--optimizer",
            "none",
            "--compile-trials",
            "1",
            "--compile-steps",
            "2",
        )
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


def test_the_printed_commands_play_the_same_bytes(rsso, played, tmp_path):
    (tmp_path / "rsso.toml").write_text("seed = 7\n[memory]\nreflections = 1\n")
    code, out, err = rsso("reproduce", played.folder, "--out", "again it's")
    commands = [shlex.split(line) for line in out.splitlines()]
    assert code == 0
    assert len(commands) == 2
    assert "will differ" not in err
    for words in commands:
        assert words[0] == "rsso-dspy"
        assert rsso(*words[1:])[0] == 0
    assert len(played.records) == 3
    assert read_records(tmp_path / "again it's") == played.records
    before = {path: path.stat().st_mtime_ns for path in played.folder.rglob("*")}
    code, out, _ = rsso("reproduce", played.folder, "--out", "again it's", "--run")
    assert code == 0
    assert out.endswith("\n3 of 3 records are equal\n")
    assert {path: path.stat().st_mtime_ns for path in played.folder.rglob("*")} == before


def test_records_that_came_out_otherwise_are_listed_with_the_first_field(rsso, played, tmp_path):
    again = Path(shutil.copytree(played.folder, tmp_path / "again"))
    (rsso_file,) = again.glob("units/rsso+constitution/*/*.jsonl")
    edit_lines(rsso_file, "unit", lambda line: line["unit"]["provenance"].update(commit="another"))
    (sso_file,) = again.glob("units/sso+constitution/*/*.jsonl")
    edit_lines(sso_file, "trial", lambda line: line["result"]["trajectory"]["steps"][1].update(action="look\x1b[2J"))
    code, out, _ = rsso("reproduce", played.folder, "--out", again, "--run")
    assert code == 1
    assert "2 of 3 records are equal, except for provenance.commit" in out
    assert f"sso+constitution {THERE}: trials.0.trajectory.steps.1.action is " in out
    assert "\x1b" not in out


def test_a_record_that_is_missing_is_no_reproduction(played, tmp_path):
    ours = Store(played.folder)
    found = compare_runs(ours, Store(tmp_path / "none"))
    assert (found.equal, found.total, len(found.missing)) == (0, 3, 3)


def test_what_the_first_run_lacks_is_counted_and_nothing_is_equal_to_nothing(rsso, played, tmp_path):
    bare = Path(shutil.copytree(played.folder, tmp_path / "bare"))
    shutil.rmtree(bare / "units")
    found = compare_runs(Store(bare), Store(played.folder))
    assert (found.total, found.new) == (0, len(played.records))
    code, _, err = rsso("reproduce", bare)
    assert code == 0
    assert "no record is left" in err
    assert "byte for byte" not in err


def test_a_method_of_a_script_is_told(rsso, played, tmp_path):
    mine = Path(shutil.copytree(played.folder, tmp_path / "mine"))
    file, commands = mine / "run.json", json.loads((mine / "run.json").read_text())
    commands["commands"][1]["methods"] = ["dead-ends"]
    file.write_text(json.dumps(commands))
    assert "dead-ends: unknown method" in rsso("reproduce", mine)[2]


def test_the_same_command_again_keeps_one_order_and_dates_nothing(played):
    store = Store(played.folder, read_only=True)
    (first, second) = load_invocations(store)
    assert (first.methods, second.methods) == (("rsso+constitution",), ("sso+constitution",))
    assert first.programs == ("zero-shot", "programs/plain.json")
    assert (first.skills, second.constitution) == ("skills/library.json", "constitution/rules.json")
    assert {Path(name).name for name in read_given(store)} == {
        "config.toml",
        "plain.json",
        "library.json",
        "rules.json",
    }


def test_a_file_says_how_it_was_made(rsso, played, tmp_path):
    (plain,) = extract_given(Store(played.folder, read_only=True), tmp_path / "given", "programs")
    code, out, err = rsso("reproduce", plain)
    words = shlex.split(out)
    assert code == 0
    assert words[:2] == ["rsso-dspy", "compile"]
    assert words[words.index("--calib") + 1] == "1-per-task"
    assert "backends.embedded.temperature=0.25" in words
    code, _, err = rsso(*words[1:], "--dry-run")
    assert code == 0
    assert "none compiles rsso on 1 train, 1 val and 3 confirm variants" in err
    Path("rules.json").write_text(json.dumps(RULES))
    Path("notes.json").write_text("[]")
    for name, said in (("rules.json", "does not store its arguments"), ("notes.json", "neither a run's folder")):
        code, _, err = rsso("reproduce", name)
        assert code == 2
        assert said in err
    assert rsso("reproduce", "nowhere")[0] == 2


def test_a_folder_of_runs_is_all_its_runs(rsso, played, tmp_path):
    (tmp_path / "grid").mkdir()
    for name in ("a", "b"):
        (tmp_path / "grid" / name).symlink_to(played.folder)
    code, out, err = rsso("reproduce", "grid")
    assert code == 0
    assert "grid holds 2 runs" in err
    assert [shlex.split(line)[-1] for line in out.splitlines()] == ["grid-again/a"] * 2 + ["grid-again/b"] * 2


@pytest.mark.usefixtures("at_hand")
def test_a_constitution_that_was_built_says_how(rsso, tmp_path):
    words = ["constitution", "build", "--writer", "symbolic", "--explore", "0", "--tasks", "lifespan-longest-lived"]
    assert rsso(*words, *FAST, "-o", "book.json")[0] == 0
    code, out, _ = rsso("reproduce", "book.json")
    again = shlex.split(out)
    assert code == 0
    assert rsso(*again[1:])[0] == 0
    assert (tmp_path / "book-again.json").read_bytes() == (tmp_path / "book.json").read_bytes()
