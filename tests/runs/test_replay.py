"""The same command leaves the same bytes: another process, another hash seed, another number of jobs, a used
simulator or a fresh one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.cli.process import TOGETHER
from rsso_dspy.memory_files import export_library
from rsso_dspy.store.run_folder import Store
from tests.chaos.process import QUICK_JAVA, children, until
from tests.records import describe_logs

SETTINGS = [
    "embedder.model=numpy/all-MiniLM-L6-v2",  # torch takes four times as long to load as the rest
    "protocol.preset=sso-adapt/3-cap60", "protocol.trials=3", "protocol.stop_on_success=false",
]  # fmt: skip
COMMON = ["--methods", "rsso", *(word for setting in SETTINGS for word in ("--set", setting))]
QUICK = ["--benchmark", "babyai", "--variants", "GoToRedBall::1234,PickupDistDebug::1234"]  # trial 3 reads a skill
MAIN = "from rsso_dspy.cli import main; main()"
HELD = """
import sys, time
from pathlib import Path
from rsso_dspy.offline import Explorer
from rsso_dspy.cli import main
from rsso_dspy.cli.play import RunProgress

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
    return [sys.executable, "-c", MAIN, "run", *COMMON, *(more or QUICK), "--out", str(out)]


def hold(out: Path, trials: int, script: str = HELD, played: Sequence[str] = QUICK) -> list[str]:
    """The command with one job, held once so many trials are finished."""
    return [sys.executable, "-c", script, *command(out, *played)[3:], str(out), str(trials)]


def seed(number: int) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": str(number)}


def files(out: Path) -> dict[str, Any]:
    found = describe_logs(out)
    assert len(found) == 2
    return found


def list_trials(out: Path) -> list[tuple[str, int]]:
    """Every trial that was finished, with the log that it stands in."""
    lines = ((str(path), line) for path in out.glob("units/*/*/*.jsonl") for line in path.read_text().splitlines())
    return [(name, json.loads(line)["trial"]) for name, line in lines if line.startswith('{"trial"')]


def test_interrupted_and_killed_and_with_other_hash_seeds_and_jobs_a_run_ends_in_the_same_bytes(tmp_path):
    first, cut = tmp_path / "first", tmp_path / "cut"
    subprocess.run(command(first, *QUICK, "--jobs", "1"), env=seed(1), check=True, capture_output=True)
    whole, changed = files(first), {path: path.stat().st_mtime_ns for path in first.rglob("*.json*")}
    done = subprocess.run(command(first), check=True, capture_output=True, text=True)
    assert "2 units finished, 0 to play" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*.json*")} == changed
    records = list(Store(first).units())
    steps = [step for record in records for trajectory in record.trajectories for step in trajectory.steps]
    assert any(step.recalled for step in steps), "without a recalled skill this would hold nothing of the skill memory"
    with subprocess.Popen(hold(cut, 4), env=seed(2), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("[1/2]") for line in process.stderr), "it came to its end before it was interrupted"
        assert until(lambda: len(list_trials(cut)) == 4, 120)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, "repeat the command" in said) == (130, True)
    assert (len(list(Store(cut).units())), len(list_trials(cut))) == (1, 4), "one trial of the second unit is too"
    with subprocess.Popen(hold(cut, 5), stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert until(lambda: process.poll() is not None or len(list_trials(cut)) == 5, 120)
        assert process.poll() is None, "it came to its end before it was killed"
        process.kill()
    kept = {path: path.read_bytes() for path in cut.glob("units/*/*/*.jsonl")}
    assert [record.arm for record in Store(cut).load_begun()] == ["rsso"], "it had begun to learn skills"
    subprocess.run(command(cut, *QUICK, "--jobs", "2"), env=seed(3), check=True, capture_output=True)
    assert files(cut) == whole
    assert all(path.read_bytes().startswith(content) for path, content in kept.items())
    noted = list_trials(cut)
    assert len(noted) == len(set(noted)), "a trial was played twice"
    for record in records:
        library, again = (export_library(out, record.key, "rsso")[0].to_json() for out in (first, cut))
        assert library == again


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_sigterm_ends_a_run_as_ctrl_c_does_and_a_second_one_at_once(tmp_path, again):
    words = hold(tmp_path, 1, HELD.replace("not heard and ", "") if again else HELD, ["--variants", "find-plant::229"])
    with subprocess.Popen(words, env=os.environ | QUICK_JAVA, stderr=subprocess.PIPE, text=True) as process:
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
