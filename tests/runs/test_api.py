"""A run from Python: the same folder, numbers and refusals as `rsso-dspy run`."""

import gzip
import json
import shutil
import subprocess
import sys

import dspy
import pytest

import rsso_dspy
from rsso_dspy.config import Config
from rsso_dspy.errors import ConfigError, NotInstalled, RunMismatch, UnknownName, UsageError
from rsso_dspy.offline import Explorer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import rsso

__all__ = ["rsso"]

SMALL = {"benchmark": "babyai", "tasks": "GoToRedBall", "per_task": 2, "trials": 2, "settings": ["embedder.model=hash"]}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "small"
    return rsso_dspy.run(["react", "reflexion"], out=out, progress=False, **SMALL)


def test_a_run_is_short_as_text_and_its_report_is_what_the_command_prints(played):
    assert played.scores.keys() == {"react", "reflexion"}
    assert repr(played).startswith(f"RunResult({played.folder}: react {played.scores['react']:.1f}, reflexion ")
    assert repr(played).endswith("points on average; 4 units)")
    said = str(played.report())
    assert "reflexion - react" in said
    assert "say nothing about language models" in " ".join(said.split())
    assert repr(played.report()) == said


@pytest.mark.parametrize("jobs", [1, 2])
def test_arms_share_the_answers_to_equal_requests_and_their_records_stay_what_they_were(
    played, tmp_path, monkeypatch, jobs
):
    asked, answer = [], Explorer.complete
    monkeypatch.setattr(Explorer, "complete", lambda self, request: asked.append(request) or answer(self, request))
    options = {**SMALL, "settings": [*SMALL["settings"], "shared_answers=true"], "progress": False}
    shared = rsso_dspy.run(["react", "reflexion"], out=tmp_path / "shared", jobs=jobs, **options)
    units, alone = (list(Store(each.folder).units()) for each in (shared, played))
    assert [(unit.arm, unit.key, unit.trials) for unit in units] == [
        (each.arm, each.key, each.trials) for each in alone
    ]
    logs = [Store(shared.folder).read_log(unit) for unit in units]
    calls = [log.decode(lines) for log in logs for lines in log.by_number.values()]
    firsts = sum(call.trial == 1 and call.role == "actor" for call in calls)
    assert len(asked) <= len(calls) - firsts // 2 < len(calls), "the first trial is asked for once"
    assert "answers shared with the first arm" in " ".join(str(shared.report()).split())
    for log in logs[len(logs) // 2 :]:  # cut off amid a trial
        lines = log.path.read_bytes().splitlines(keepends=True)
        log.path.write_bytes(b"".join(lines[: 2 * len(lines) // 3]))
    again = rsso_dspy.run(["react", "reflexion"], out=shared.folder, jobs=jobs, **options)
    assert [unit.trials for unit in Store(again.folder).units()] == [unit.trials for unit in units]


def test_a_packed_folder_is_read_and_replayed_and_nothing_is_added_to_it(played, tmp_path, monkeypatch, rsso):
    packed = shutil.copytree(played.folder, tmp_path / "packed")
    subprocess.run(["gzip", "-r", packed / "units"], check=True)
    assert rsso_dspy.open_run(packed).scores == played.scores
    assert "equal" in rsso("run", "--replay", packed, "--out", tmp_path / "again")[1]
    assert rsso_dspy.run(["react", "reflexion"], out=packed, progress=False, **SMALL).scores == played.scores
    log = min(packed.glob("units/react/*/*.gz"))
    kept, _ = gzip.decompress(log.read_bytes()).rsplit(b'{"trial"', 1)
    log.write_bytes(gzip.compress(kept))
    with pytest.raises(UsageError, match="is packed, so nothing can be added to it: gunzip -r"):
        rsso_dspy.run(["react", "reflexion"], out=packed, progress=False, **SMALL)
    log.write_bytes(log.read_bytes()[:-9])
    assert "cannot be unpacked" in rsso("report", packed)[2]
    most = (packed / "run.json").stat().st_size  # the bound is that of every file
    monkeypatch.setattr("rsso_dspy.files.MOST_BYTES", most)
    assert f"unpacks to more than {most:,} bytes" in rsso("report", packed)[2]
    monkeypatch.setattr("rsso_dspy.files.MOST_BYTES", most - 1)
    assert f"run.json is damaged (it holds more than {most - 1:,} bytes)" in rsso("report", packed)[2]


def test_more_trials_go_on_in_the_folder_and_come_to_what_a_longer_run_comes_to(tmp_path, monkeypatch, rsso):
    asked, answer = [], Explorer.complete
    monkeypatch.setattr(Explorer, "complete", lambda self, request: asked.append(request) or answer(self, request))
    settings = [*SMALL["settings"], "protocol.stop_on_success=false", "protocol.steps=6"]
    call = {**SMALL, "methods": ["react", "reflexion", "rsso"], "tasks": "GoToDoor,GoToRedBall", "settings": settings}
    whole = rsso_dspy.run(out=tmp_path / "whole", **call | {"trials": 3}).folder
    alone = len(asked)
    part = rsso_dspy.run(out=tmp_path / "part", **call | {"trials": 1}).folder
    with pytest.warns(UserWarning, match="goes on to 2 trials a variant; what was answered is not asked again"):
        rsso_dspy.run(out=part, **call | {"trials": 2})
    with pytest.warns(UserWarning, match="goes on to 3 trials"):
        rsso_dspy.run(out=part, **call | {"trials": 3})
    assert [*map(dump_record, Store(part).units())] == [*map(dump_record, Store(whole).units())]
    assert {len(unit.trials) for unit in Store(part).units()} == {3}
    assert {bool(trial.learnt) for unit in Store(part).units() for trial in unit.trials[:1]} == {False, True}
    assert len(asked) == 2 * alone, "nothing is asked twice"
    assert "equal" in rsso("run", "--replay", part, "--out", tmp_path / "again")[1]
    refused = {
        "holds a run of 3 trials a variant, and none is taken away for 2: ask for 3": {"trials": 2},
        "also holds 9 units that this command does not ask for": {"trials": 4, "tasks": "GoToDoor", "per_task": 1},
        "protocol.preset: there 'adapt/4', now 'agentboard/3'": {"trials": 3, "protocol": "agentboard/3"},
    }
    for said, changed in refused.items():
        with pytest.raises(RunMismatch, match=said):
            rsso_dspy.run(out=part, **call | changed)


def test_its_frame_has_a_row_a_trial(played, monkeypatch):
    frame = played.to_pandas()
    units = list(Store(played.folder).units())
    assert len(frame) == sum(len(unit.trials) for unit in units)
    best = frame.groupby(["arm", "variant"]).accumulator.max().groupby("arm").mean()
    assert best.to_dict() == pytest.approx(played.scores)
    steps = played.to_pandas("steps")
    assert len(steps) == sum(len(trial.trajectory.steps) for unit in units for trial in unit.trials)
    with pytest.raises(UsageError, match="trials, steps"):
        played.to_pandas("units")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NotInstalled, match=r"rsso-dspy\[pandas\]"):
        played.to_pandas()


def test_the_call_again_plays_nothing_and_other_settings_are_refused(played):
    before = {file: file.stat().st_mtime_ns for file in (played.folder / "units").rglob("*.jsonl")}
    again = rsso_dspy.run("react,reflexion", out=played.folder, **SMALL)
    assert again.scores == played.scores == rsso_dspy.open_run(played.folder).scores
    assert before == {file: file.stat().st_mtime_ns for file in before}
    with pytest.raises(RunMismatch, match="lexical"):
        rsso_dspy.run("react", out=played.folder, **{**SMALL, "settings": ["embedder.model=lexical"]})


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"methods": ["reakt"]}, UnknownName, "react"),
        ({"tasks": "GoToNothing"}, UnknownName, "did you mean GoToDoor"),
        ({"config": Config()}, UsageError, "exclude each other"),
        ({"methods": []}, UsageError, "name at least one"),
        ({"programs": "nowhere.json"}, UsageError, "cannot read the compiled program nowhere.json"),
        ({"skills": "nowhere.json", "methods": "sso"}, UsageError, "nowhere.json"),
        ({"constitution": "nowhere.json"}, UsageError, r"no method of this run reads .*METHOD\+constitution"),
        ({"trials": 0}, ConfigError, r"protocol\.trials"),
        ({"seed": -1}, ConfigError, "seed: .* greater than or equal to 0"),
        ({"jobs": 0}, UsageError, "at least 1"),
        ({"max_cost": -1.0}, UsageError, "max_cost=-1.0 limits nothing"),
        ({"out": "/proc/nowhere"}, UsageError, "/proc/nowhere cannot be .* another --out"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_is_written(tmp_path, arguments, error, said):
    with pytest.raises(error, match=said):
        rsso_dspy.run(**{"methods": "react", "out": tmp_path / "run", **SMALL, **arguments})
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_more_than_was_asked_for_says_so(played, tmp_path, rsso):
    shutil.copytree(played.folder, tmp_path / "run")
    fewer = {**SMALL, "per_task": 1}
    with pytest.warns(UserWarning, match=r"also holds units of earlier commands \(3\)"):
        rsso_dspy.run("react", out=tmp_path / "run", progress=False, **fewer)
    words = ["--benchmark", "babyai", "--tasks", "GoToRedBall", "--trials", "2", "--set", "embedder.model=hash"]
    command = ["run", "--methods", "react,reflexion", *words, "--out", tmp_path / "run"]
    for per_task, said in (("1", 1), ("2", 0)):
        code, _, err = rsso(*command, "--per-task", per_task)
        assert (code, " ".join(err.split()).count("also holds units of earlier commands (2)")) == (0, said)


def test_a_compiled_program_is_compared_with_the_zero_shot_one(tmp_path):
    agent = Agent("react")
    agent.actor.signature = agent.actor.signature.with_instructions("Turn left twice.")
    agent.save(tmp_path / "mine.json")
    programs = ["zero-shot", tmp_path / "mine.json"]
    with pytest.warns(UserWarning, match="mine was made elsewhere"):
        played = rsso_dspy.run(programs=programs, out=tmp_path / "run", progress=False, **{**SMALL, "per_task": 1})
    assert played.scores.keys() == {"react", "react+mine"}
    assert "react+mine - react" in str(played.report())
    given = json.loads((tmp_path / "run/run.json").read_text())["given"]
    assert given["programs/mine.json"] == (tmp_path / "mine.json").read_text()


def test_what_a_model_of_dspy_leaves_to_its_provider_is_recorded_so_and_a_folder_is_bound_to_it(tmp_path):
    call = {**SMALL, "trials": 1, "out": tmp_path / "run", "progress": False}
    with dspy.context(lm=dspy.LM("mine/rules", engine=Explorer(), cache=False)):
        folder = rsso_dspy.run("react", **call).folder
    assert {unit.model for unit in Store(folder).units()} == {"mine/rules"}
    settings = json.loads((folder / "run.json").read_text())["identity"]["config"]["backends"]["dspy"]
    assert (settings["temperature"], settings["max_tokens"]) == (None, None)
    hot = dspy.LM("mine/rules", engine=Explorer(), cache=False, temperature=1)
    with dspy.context(lm=hot), pytest.raises(RunMismatch, match=r"temperature: there None, now 1"):
        rsso_dspy.run("react", **call)
