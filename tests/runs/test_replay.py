"""The same command leaves the same bytes: another process, another hash seed, another number of jobs, a used
simulator or a fresh one."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.cli.process import TOGETHER
from rsso_dspy.config import load_config
from rsso_dspy.embed import Embedder
from rsso_dspy.executor import Executor, UnitRunner, fingerprint_programs, make_zero_shot_programs
from rsso_dspy.memory_files import export_library, load_skill_source
from rsso_dspy.plan import plan_held_out
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.store.run_folder import Store
from tests.chaos.process import children, until
from tests.records import describe_logs

VARIANTS = "find-plant::229,find-living-thing::228"
"""The shortest trials in which a skill is recalled: on the second variant, in the third."""
METHODS = "reflexion,rsso"
SETTINGS = [
    "embedder.model=numpy/all-MiniLM-L6-v2",  # torch takes four times as long to load as the rest
    "protocol.preset=sso-adapt/2-cap60",
    "protocol.trials=3",
    "protocol.stop_on_success=false",
]
COMMON = ["--methods", METHODS, "--variants", VARIANTS, *(w for s in SETTINGS for w in ("--set", s))]

MAIN = "from rsso_dspy.cli import main; main()"
HELD = """
import sys, time
from pathlib import Path
from rsso_dspy.offline import Explorer
from rsso_dspy.cli import main
from rsso_dspy.cli.progress import RunProgress

trials, out = int(sys.argv.pop()), Path(sys.argv.pop())
answer, stopping, heard = Explorer.complete, RunProgress.on_interrupt, []

def complete(self, request):
    while not heard and sum(path.read_text().count('\\n{"trial"') for path in out.glob("units/*/*/*.jsonl")) >= trials:
        out.with_name(f"{out.name}.held").touch()
        time.sleep(0.01)
    return answer(self, request)

def hear(self, event):
    heard.append(True)
    stopping(self, event)

Explorer.complete, RunProgress.on_interrupt = complete, hear
main()
"""
"""The command, whose model says nothing more once so many trials are finished, until the run is being stopped: however
fast it plays, what comes from outside finds it in the middle of a trial."""


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "run", *COMMON, "--out", str(out), *more]


def held(out: Path, trials: int) -> list[str]:
    """The command with one job, held once so many trials are finished."""
    return [sys.executable, "-c", HELD, *command(out)[3:], str(out), str(trials)]


def seeded(hash_seed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": hash_seed}


def files(out: Path) -> dict[str, Any]:
    found = describe_logs(out)
    assert len(found) == 4
    return found


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("replay") / "first"
    subprocess.run(command(out, "--jobs", "1"), env=seeded("1"), check=True, capture_output=True)
    return out, files(out)


def test_the_same_command_again_plays_nothing(first):
    out, before = first
    changed = {path: path.stat().st_mtime_ns for path in out.rglob("*.json*")}
    done = subprocess.run(command(out), check=True, capture_output=True, text=True)
    assert "4 units finished, 0 to play" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.json*")} == changed
    assert files(out) == before


def test_another_configuration_is_refused_with_the_difference(first):
    out, _ = first
    done = subprocess.run(command(out, "--seed", "5"), check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "seed: there 0, now 5" in done.stderr


def test_interrupted_and_killed_and_with_other_hash_seeds_and_jobs_a_run_ends_in_the_same_bytes(first, tmp_path):
    records = [record for record in Store(first[0]).units() if record.method == "rsso"]
    steps = [step for record in records for trajectory in record.trajectories for step in trajectory.steps]
    assert any(step.recalled for step in steps), "without a recalled skill this would hold nothing of the skill memory"
    with subprocess.Popen(held(tmp_path, 7), env=seeded("2"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("[2/4]") for line in process.stderr), "it came to its end before it was interrupted"
        assert until(lambda: len(list_trials(tmp_path)) == 7, 120)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "repeat the command" in said
    assert len(list(Store(tmp_path).units())) == 2
    assert len(list_trials(tmp_path)) == 7, "one trial of the third unit is finished too"
    with subprocess.Popen(held(tmp_path, 10), stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert until(lambda: process.poll() is not None or len(list_trials(tmp_path)) == 10, 120)
        assert process.poll() is None, "it came to its end before it was killed"
        process.kill()
    kept = {path: path.read_bytes() for path in tmp_path.glob("units/*/*/*.jsonl")}
    assert [record.arm for record in Store(tmp_path).load_begun()] == ["rsso"], "it had begun to learn skills"
    subprocess.run(command(tmp_path, "--jobs", "2"), env=seeded("3"), check=True, capture_output=True)
    assert files(tmp_path) == first[1]
    assert all(path.read_bytes().startswith(content) for path, content in kept.items())
    noted = list_trials(tmp_path)
    assert len(noted) == len(set(noted)), "a trial was played twice"
    for key in (record.key for record in records):
        library, again = (export_library(load_skill_source(out, key, "rsso")).to_json() for out in (first[0], tmp_path))
        assert library == again


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_sigterm_ends_a_run_as_ctrl_c_does_and_a_second_one_at_once(tmp_path, again):
    script = HELD.replace("not heard and ", "") if again else HELD
    arguments = [sys.executable, "-c", script, *held(tmp_path, 1)[3:]]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        held_still = tmp_path.with_name(f"{tmp_path.name}.held")
        assert until(lambda: process.poll() is not None or held_still.exists(), 120)
        simulators = children(process.pid)
        for _ in range(2):  # as `timeout` sends it, to the command and to its group: they are one
            process.send_signal(signal.SIGTERM)
            time.sleep(0.005)
        if again:
            assert any(line.startswith("stopping") for line in process.stderr)
            assert process.poll() is None
            time.sleep(TOGETHER)
            process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == (-signal.SIGTERM if again else 143)
    assert ("repeat the command" in said) is not again
    assert len(list_trials(tmp_path)) == 1
    assert simulators or sys.platform != "linux"
    assert until(lambda: not any(simulator.alive for simulator in simulators), 60), "a simulator is left"


def list_trials(out: Path) -> list[tuple[str, int]]:
    """Every trial that was finished, with the log that it stands in."""
    lines = ((str(path), line) for path in out.glob("units/*/*/*.jsonl") for line in path.read_text().splitlines())
    return [(name, json.loads(line)["trial"]) for name, line in lines if line.startswith('{"trial"')]
