"""What was recorded is played again, answered from the recordings: every request, step, result and memory is equal.

The guards decide whether behaviour stayed equal while the package changes. A prompt that is meant to change needs new
recordings (`record.py`), whose difference is looked at.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards import house
from tests.guards.recordings import Differs, Replayer, list_recordings, read_lines

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KILLED = "killed"
KILLED_AT = 4
"""The process is killed at the fourth call of the second trial."""


@pytest.mark.parametrize("name", list_recordings())
def test_what_was_recorded_is_played_again(name, tmp_path):
    lines = read_lines(name)
    job = lines[0]["job"]
    if not house.is_playable(job):
        pytest.skip("its benchmark is not installed")
    replay(Replayer(lines), job, tmp_path)


def replay(replayer: Replayer, job: dict, folder: Path) -> None:
    """Play a job; a difference fails the test in few words, whatever error it led to."""
    failure: BaseException | None = None
    try:
        house.play(job, folder, replayer.answer, replayer.tell)
        replayer.finish()
    except BaseException as error:
        if not (replayer.difference or isinstance(error, Exception)):
            raise
        failure = error
    if replayer.difference:
        pytest.fail(replayer.difference, pytrace=False)
    if failure is not None:
        raise failure


def test_after_a_kill_in_its_second_trial_a_run_ends_as_if_there_had_been_none(tmp_path):
    lines = read_lines(KILLED)
    cut = find_cut(lines)
    command = [sys.executable, "-m", "tests.guards.test_replay_guard", str(tmp_path), str(cut)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    replay(Replayer(lines, cut), lines[0]["job"], tmp_path)


def find_cut(lines: list[dict]) -> int:
    first = next(n for n, line in enumerate(lines) if "trial" in line)
    return int(lines[first + KILLED_AT]["call"])


def play_until_killed(folder: Path, cut: int) -> None:
    lines = read_lines(KILLED)
    replayer = Replayer(lines)

    def answer(call: dict) -> dict:
        said = replayer.answer(call)
        if said["call"] == cut:
            os.kill(os.getpid(), signal.SIGKILL)
        return said

    house.play(lines[0]["job"], folder, answer, replayer.tell)


def test_the_recordings_hold_what_they_are_to_guard():
    """Otherwise a shorter recording would guard less, and nothing would say so."""
    lines = [line for name in list_recordings() for line in read_lines(name)]
    trials = [line for line in lines if "trial" in line]
    steps = [step for trial in trials for step in trial.get("steps", ())]
    units = {(trial["unit"]["arm"], str(trial["unit"].get("variant")), trial["unit"]["protocol"]) for trial in trials}
    assert len(units) >= 120
    assert {line["role"] for line in lines if "call" in line} == set(house.ROLES)
    assert {step.get("status", "done") for step in steps} == {
        "done",
        "no-effect",
        "asked-back",
        "refused",
        "unreadable",
    }
    assert {trial["outcome"] for trial in trials} >= {"solved", "failed", "budget", "exhausted"}
    memories = [trial.get("memories", {}) for trial in trials]
    assert sum(bool(memory.get("skills", {}).get("library")) for memory in memories) > 10
    assert sum(bool(step.get("recalled")) for step in steps) > 50
    assert {name for memory in memories for name, held in memory.items() if held} >= {
        "reflections", "skills", "constitution", "ace", "awm", "cheatsheet", "expel", "exprag", "reasoningbank",
        "last-trajectory", "long-context",
    }  # fmt: skip


def test_a_difference_is_named_by_unit_call_role_and_line():
    call = {"role": "actor", "messages": [{"role": "user", "content": "one\ntwo"}], "settings": {}}
    job = {"job": {}}
    result = {"unit": {"arm": "sso", "variant": "boil::1"}, "trial": 2, "points": 7}
    replayer = Replayer([job, {"call": 5, **call, "answer": "go", "usage": [1, 1]}, result])
    with pytest.raises(Differs) as caught:
        replayer.answer(call | {"messages": [{"role": "user", "content": "one\ntoo"}]})
    said = "sso boil::1 trial 2: call 5 of the actor differs\n  at messages[0].content, line 2\n  - two\n  + too"
    assert str(caught.value) == said
    replayer = Replayer([job, {"call": 5, **call, "answer": "go", "usage": [1, 1]}, result])
    assert replayer.answer(call)["answer"] == "go"
    with pytest.raises(Differs, match=r"sso boil::1 trial 2: the result differs\n  at points\n  - 7\n  \+ 8"):
        replayer.tell(result | {"points": 8})
    with pytest.raises(Differs):
        replayer.finish()


if __name__ == "__main__":
    play_until_killed(Path(sys.argv[1]), int(sys.argv[2]))
