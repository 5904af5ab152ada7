"""A folder that is moved or deleted while something is written to it: that stops at once, says so, and makes
nothing anew."""

import shutil
import threading
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import FolderGone
from rsso_dspy.executor import EventStream, TrialFinished
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.playing import get_playing
from rsso_dspy.runs import plan_run
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Store
from tests.chaos.process import until
from tests.hostile.played import PATIENCE, TASK, VARIANT, counting
from tests.live import FAST
from tests.records import record

AWAY = "away"
SIMULATED = "find-living-thing"
"""A task of ScienceWorld, whose simulator must not be stranded."""
MANY = 8
"""Answers after which a folder goes."""


def move(folder: Path) -> None:
    folder.rename(folder.with_name(AWAY))


def begin_to_delete(folder: Path) -> None:
    (folder / "run.json").unlink()


happens = pytest.mark.parametrize("happen", [move, shutil.rmtree, begin_to_delete])


def files(folder: Path) -> dict[str, bytes] | None:
    """What is in a folder; None where there is none."""
    if not folder.exists():
        return None
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@happens
def test_every_way_to_write_refuses_and_leaves_what_is_there_alone(tmp_path, happen):
    folder = tmp_path / "run"
    store, played = Store(folder), record("sso", "boil", 22, [[10]])
    with store.lock():
        store.open({}, {"sso": "1"})
        log = store.open_log(played)
        log.add_head(played, stops=False)
        happen(folder)
        before = files(folder)
        for write in (
            lambda: log.add_trial(played.trials[0], {}, 1.0),
            lambda: log.keep_vectors(1, "m", {"a": b"b"}),
            lambda: store.write_file({"identity": {}, "arms": {}}),
            lambda: store.append_text(folder / "a.jsonl", "line"),
        ):
            with pytest.raises(FolderGone, match="is gone: it was moved, deleted or unmounted"):
                write()
        assert files(folder) == before


@happens
def test_a_run_whose_folder_goes_stops_at_once_and_writes_nothing_more(tmp_path, live, happen):
    folder, told, before = tmp_path / "run", [], []

    def tell(event):
        told.append(event)
        if len(told) == 1:
            happen(folder)
            before.append(files(folder))

    order = RunSpec(methods=("react-sso", "reflexion-sso"), variants=(f"{SIMULATED}::228",), out=folder)
    config = load_config(overrides=[*FAST, "protocol.trials=2", "protocol.stop_on_success=false"])
    events = EventStream()
    events.subscribe(TrialFinished, tell)
    with pytest.raises(FolderGone, match="is gone"):
        plan_run(config, order).execute(live, 1, events=events)
    assert len(told) == 1
    assert [files(folder)] == before


@pytest.mark.parametrize("what", ["run", "compile", "build"])
def test_a_command_ends_with_1_strands_nothing_and_goes_on_at_the_new_place(what, tmp_path):
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    words, out = {
        "run": (["run", "--methods", "reflexion,react", "--variants", VARIANT, "--trials", "2", "--jobs", "2"], "run"),
        "compile": (["compile", "--method", "react", "--optimizer", "none", "--tasks", SIMULATED], "file.json"),
        "build": (["constitution", "build", "--explore", "1", "--tasks", TASK], "file.json"),
    }[what]
    option = "--out" if what == "run" else "-o"
    moved, seen, moving = [], [], threading.Lock()

    def before() -> None:
        with moving:
            if model.given >= MANY and not moved:
                moved.append(home.rename(away))
                seen.extend(model.process.simulators())

    with counting() as model:
        model.before = before
        if what == "compile":
            model.benchmark = "scienceworld"
        process = model.start(*words, option, home / out)
        assert process.wait(PATIENCE) == 1
        assert moved
        assert "is gone: it was moved" in process.said
        assert f"repeat the command with {option} at its new place" in process.said
        assert "Traceback" not in process.said
        assert model.given <= MANY + 4, "it stops at once"
        assert not home.exists()
        assert bool(seen) is (what == "compile"), "it has a simulator"
        assert until(lambda: not any(each.alive for each in seen), PATIENCE)
        if what == "run":
            process = model.start(*words, option, away / out)
            assert process.wait(PATIENCE) == 0
            assert len(list(Store(away / out).units())) == 2
            assert not home.exists()


def test_rollouts_are_kept_in_no_other_folder(tmp_path):
    logs = RolloutLogs.for_output(tmp_path / "file.json")
    folder = logs.store.folder
    with logs.open_for_request({"identity": {}}):
        shutil.rmtree(folder)
        with pytest.raises(FolderGone), logs.log_proposals():
            get_playing().calls.keep_vectors(0, "m", {"a": b"b"})
    assert not folder.exists()
