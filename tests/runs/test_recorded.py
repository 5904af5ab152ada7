"""The runs of real models that stand in examples/recorded: read and replayed where no model is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso

__all__ = ["rsso"]

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(file.parent for file in (ROOT / "examples/recorded").glob("*/run.json"))
PLAYED = 3  # variants of each run that are played again, with all its arms: the longest ones


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_run_is_reported_and_replays_byte_for_byte_without_a_model(folder, rsso, tmp_path):
    code, out, _ = rsso("report", folder)
    assert code == 0
    assert "hosted_vllm/qwen2.5-coder-1.5b-instruct" in " ".join(out.split())
    run = json.loads((folder / "run.json").read_bytes())
    if any(name.startswith("programs/") for name in run["given"]):  # a program plays its own command alone
        code, out, _ = rsso("run", "--replay", folder)
        assert (code, "equal: 112 of 112 records" in out) == (0, True)
        return
    recorded = {(unit.arm, unit.key): unit for unit in Store(folder, read_only=True).units()}
    longest = sorted(recorded.values(), key=lambda unit: -sum(len(each.steps) for each in unit.trajectories))
    chosen = list(dict.fromkeys(unit.key for unit in longest))[:PLAYED]
    configs = (folder.with_suffix(".toml"), folder.with_name("babyai-2x2.toml"))
    told = ["--config", next(file for file in configs if file.exists()), "--methods", ",".join(run["arms"])]
    if rules := run["given"].get("constitution/constitution.json"):
        (tmp_path / "constitution.json").write_text(rules, encoding="utf-8")
        told += ["--constitution", tmp_path / "constitution.json"]
    told += ["--variants", ",".join(chosen), "--out", tmp_path / "again"]
    code, _, err = rsso("run", "--replay", folder, *told)
    assert (code, "no model is asked" in err) == (0, True)
    again = Store(tmp_path / "again")
    units = list(again.units())
    assert len(units) == sum(key in chosen for _, key in recorded)
    for unit in units:
        assert unit.trials == recorded[unit.arm, unit.key].trials
        logs = (store.read_log(unit) for store in (Store(folder, read_only=True), again))
        first, second = ([log.decode(lines) for lines in log.by_number.values()] for log in logs)
        assert first == second


@pytest.mark.parametrize("name", ["wordings", "gepa", "bootstrap", "bootstrap-3", "mipro"])
def test_a_recorded_compile_replays_to_the_same_program_without_a_model(rsso, tmp_path, name):
    recorded, again = ROOT / f"examples/recorded/babyai-{name}", tmp_path / f"{name}.json"
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True, ignore=lambda *_: [again.name])
    subprocess.run(["gunzip", "-r", tmp_path], check=True)
    compiled = json.loads((recorded / again.name).read_bytes())
    tasks = list(dict.fromkeys(key.partition("::")[0] for key in compiled["train"]))
    options = ("--calib", f"{len(compiled['train']) // len(tasks)}-per-task", "--tasks", ",".join(tasks))
    optimizer = compiled["optimizer"]
    options += {"wordings": ("--candidates", ROOT / "examples/candidates.toml")}.get(name, ("--optimizer", optimizer))
    options += ("--teacher", compiled["teacher"]) if compiled["teacher"] else ()
    options += ("--set", "backends.llama.roles.proposer.max_tokens=800") if name == "mipro" else ()
    told = ("--config", recorded.with_name("babyai-compile.toml"), "--method", "react", *options, "--yes", "-o", again)
    code, _, err = rsso("compile", *told)
    assert code == 0, err
    made = json.loads(again.read_bytes())
    now = {each["number"]: each for each in made["tried"]}
    for tried in compiled["tried"]:  # the file lists more programs now than at that time, and says more of each
        assert {key: now[tried["number"]][key] for key in tried} == tried
    assert compiled["candidate"] in (made["candidate"], None)
    later = ("tried", "candidate")
    assert {key: made[key] for key in made if key not in later} == {
        key: compiled[key] for key in compiled if key not in later
    }


def test_the_pages_say_what_the_recorded_runs_show():
    command = [sys.executable, ROOT / "scripts/write_recorded.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
