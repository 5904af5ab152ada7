"""What was recorded is played again, answered from the recordings: every request, step, result and memory is equal.

The guards decide whether behaviour stayed equal while the package changes. A prompt that is meant to change needs new
recordings (`record.py`), whose difference is looked at.
"""

from pathlib import Path

import pytest

from tests.guards import house
from tests.guards.recordings import Replayer, list_recordings, read_lines

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


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


def test_the_recordings_hold_what_they_are_to_guard():
    """Otherwise a shorter recording would guard less, and nothing would say so."""
    lines = [line for name in list_recordings() for line in read_lines(name)]
    trials = [line for line in lines if "trial" in line]
    steps = [step for trial in trials for step in trial.get("steps", ())]
    units = {(trial["unit"]["arm"], str(trial["unit"].get("variant")), trial["unit"]["protocol"]) for trial in trials}
    assert len(units) >= 110
    assert {line["role"] for line in lines if "call" in line} == {*house.ROLES}
    statuses = {step.get("status", "done") for step in steps}
    assert statuses == {"done", "no-effect", "asked-back", "refused", "unreadable"}
    assert {trial["outcome"] for trial in trials} >= {"solved", "failed", "budget", "exhausted"}
    memories = [trial.get("memories", {}) for trial in trials]
    assert sum(bool(memory.get("skills", {}).get("library")) for memory in memories) > 8
    assert sum(bool(step.get("recalled")) for step in steps) > 50
    assert {name for memory in memories for name, held in memory.items() if held} >= {
        "reflections", "skills", "constitution", "ace", "awm", "cheatsheet", "expel", "exprag", "reasoningbank",
        "last-trajectory", "long-context",
    }  # fmt: skip
