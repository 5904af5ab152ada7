"""Ctrl-C in a compile on a terminal, and what the terminal shows until then."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import pytest

from rsso_dspy.optimize.program_file import load
from tests.chaos.process import Simulator, children
from tests.cli.conftest import ONE

COLUMNS = 60
HELD = """
import time
from rsso_dspy.offline import Explorer
from rsso_dspy.cli import main
from rsso_dspy.cli.progress import CompileProgress

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
"""The command, whose model says nothing more after the second rollout until the compile ends: however fast it plays,
the bar shows that rollout, and Ctrl-C finds the next one under way."""


@dataclass(frozen=True)
class Interrupted:
    """A compile on a terminal of 60 columns that got Ctrl-C after its second rollout."""

    code: int
    frames: list[str]
    """Every line as it was drawn, the bar's as often as it was drawn."""
    moved_up: bool
    """Whether the bar ever took more than one line."""
    simulators: list[Simulator]
    file: Path


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Interrupted:
    file = tmp_path_factory.mktemp("interrupted") / "cut.json"
    words = ["--tasks", "find-plant", "--max-rollouts", "40", "-o", str(file)]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-c", HELD, *ONE, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        text, simulators = "", []
        while more := _read(ours):
            text += more
            if not simulators and "2/40 best " in _plain(text):
                simulators = children(process.pid)
                process.send_signal(signal.SIGINT)
        os.close(ours)
    frames = [line for line in re.split(r"[\r\n]+", _plain(text)) if line.strip()]
    return Interrupted(process.returncode, frames, bool(re.search(r"\x1b\[\d+A", text)), simulators, file)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # the other end is closed
        return ""


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_ctrl_c_exits_130_and_the_best_so_far_is_a_program_that_plays(interrupted, live):
    assert interrupted.code == 130
    assert any("repeat the command" in line for line in interrupted.frames)
    there = load(interrupted.file)
    assert there.ended_by == "interrupted"
    assert 2 <= there.rollouts < 40
    with live.activate_for_run():
        assert there.agent()(variant="lifespan-longest-lived::98", trials=1).score >= 0


def test_sigterm_exits_143_and_keeps_the_best_so_far_too(tmp_path):
    file = tmp_path / "cut.json"
    words = ["--tasks", "find-plant", "--max-rollouts", "40", "-o", str(file)]
    with subprocess.Popen([sys.executable, "-c", HELD, *ONE, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("[2/40]") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 143
    assert "repeat the command, no rollout is played twice" in said
    assert load(file).ended_by == "interrupted"


@pytest.mark.skipif(sys.platform != "linux", reason="finds simulators in /proc")
def test_nothing_is_left_running_after_ctrl_c(interrupted):
    assert interrupted.simulators
    assert not any(simulator.alive for simulator in interrupted.simulators)


def test_on_a_narrow_terminal_the_bar_is_one_line_with_everything_in_it(interrupted):
    bars = [line for line in interrupted.frames if re.search(r"\d+/40\b", line)]
    assert bars
    assert max(map(len, bars)) <= COLUMNS
    assert not interrupted.moved_up
    last = bars[-1]
    assert "…" not in last
    assert re.search(r"\d/40 best \d+\.\d  \d+ calls  \d\.\dM tokens eta [\d:-]+", last)
