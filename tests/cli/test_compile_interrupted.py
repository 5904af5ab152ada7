"""Ctrl-C and SIGTERM in a compile."""

import os
import signal
import subprocess
import sys

import pytest

from rsso_dspy.optimize.program_file import load
from tests.chaos.process import QUICK_JAVA, children, until
from tests.cli.conftest import ONE

HELD = """
import time
from rsso_dspy.offline import Explorer
from rsso_dspy.cli import main
from rsso_dspy.cli.play import CompileProgress

answer, told, after = Explorer.complete, CompileProgress.on_rollout, []

def rollout(self, event):
    told(self, event)
    if self.done == 2:
        after.append(event.rollouts)

def complete(self, request):
    while after and after[0].ended_by is None:
        time.sleep(0.01)
    return answer(self, request)

CompileProgress.on_rollout, Explorer.complete = rollout, complete
main()
"""
"""The command, whose model says nothing more after the second rollout until the compile ends."""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_compile_keeps_the_best_so_far_as_a_program_that_plays(tmp_path, live, sent, code):
    file = tmp_path / "cut.json"
    words = ["--tasks", "lifespan-longest-lived", "--max-rollouts", "40", "-o", str(file)]
    words += ["--set", "compile.trials=1", "--set", "compile.steps=3"]
    command = [sys.executable, "-c", HELD, *ONE, *words]
    with subprocess.Popen(command, env=os.environ | QUICK_JAVA, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("[2/40] ") for line in process.stderr)
        simulators = children(process.pid)
        process.send_signal(sent)
        said = process.stderr.read()
    assert process.returncode == code
    assert "repeat the command, no rollout is played twice" in said
    assert simulators or sys.platform != "linux"
    assert until(lambda: not any(each.alive for each in simulators), 60), "a simulator is left"
    there = load(file)
    assert (there.ended_by, 2 <= there.rollouts < 40) == ("interrupted", True)
    with live.activate_for_run():
        assert there.agent()(variant="lifespan-longest-lived::98", trials=1).score >= 0
