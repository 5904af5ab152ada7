"""A folder that is moved, deleted or replaced while something is written to it: that stops at once, says so, and makes
nothing anew."""

import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from rsso_dspy.optimize.rollout_cache import RolloutCache
from rsso_dspy.store.guarded_folder import GuardedFolder

from rsso_dspy.config import load_config
from rsso_dspy.errors import FolderGone
from rsso_dspy.experiment.events import EventStream, TrialFinished
from rsso_dspy.experiment.run import plan_run
from rsso_dspy.records import Usage
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.run_spec import RunSpec
from tests.chaos.process import until
from tests.hostile.played import PATIENCE, TASK, VARIANT, counting
from tests.live import FAST

AWAY = "away"
SIMULATED = "find-living-thing"
"""A task of ScienceWorld, whose simulator must not be stranded."""
MANY = 8
"""Answers after which a folder goes."""


def move(folder: Path) -> None:
    folder.rename(folder.with_name(AWAY))


def replace(folder: Path) -> None:
    """Another run makes a folder of the same name at once, whose inode may be that of the old one."""
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "run.json").write_text("another's")


def begin_to_delete(folder: Path) -> None:
    for name in ("run.json", ".lock", "request.json"):
        (folder / name).unlink(missing_ok=True)


WHAT = {
    "moved": (move, "moved to .*/away"),
    "deleted": (shutil.rmtree, "was deleted"),
    "replaced": (replace, "was deleted .* left alone"),
    "being deleted": (begin_to_delete, "was being deleted"),
}
"""What happens to a folder, and how it is called."""

happens = pytest.mark.parametrize(("happen", "words"), WHAT.values(), ids=WHAT)


def files(folder: Path) -> dict[str, bytes] | None:
    """What is in a folder; None where there is none."""
    if not folder.exists():
        return None
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@happens
@pytest.mark.parametrize("write", ["write", "append", "remove"])
def test_every_way_to_write_refuses_and_leaves_what_is_there_alone(tmp_path, happen, words, write):
    folder = tmp_path / "run"
    place = GuardedFolder(folder)
    place.hold()
    place.write(folder / "run.json", "mine")
    place.watch_file("run.json")
    place.append(folder / "a/b.jsonl", "line")
    assert files(folder) == {"run.json": b"mine", "a/b.jsonl": b"line\n"}
    happen(folder)
    before, arguments = files(folder), {"write": ["new"], "append": ["line"], "remove": []}
    with pytest.raises(FolderGone, match=words):
        getattr(place, write)(folder / "a/b.jsonl", *arguments[write])
    assert files(folder) == before
    place.release()


def test_a_folder_that_is_unmounted_is_another_one(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    place = GuardedFolder(folder)
    place.hold()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    with pytest.raises(FolderGone, match="unmounted"):
        place.write(folder / "a", "text")
    assert files(folder) == {}
    place.release()


def test_a_folder_that_is_not_held_is_like_any_other(tmp_path):
    place = GuardedFolder(tmp_path / "run")
    place.hold()
    place.release()
    shutil.rmtree(tmp_path / "run")
    place.write(tmp_path / "run/a", "text")
    assert files(tmp_path / "run") == {"a": b"text"}


@happens
def test_a_run_whose_folder_goes_stops_at_once_and_writes_nothing_more(tmp_path, live, happen, words):
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
    with pytest.raises(FolderGone, match=words):
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
        assert "is gone: it was moved to " in process.said
        assert f"Repeat the command with {option} at its new place" in process.said
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
    shelf = RolloutCache.for_output(tmp_path / "file.json")
    shelf.open_for_request({})
    shutil.rmtree(shelf.folder)
    with pytest.raises(FolderGone, match="was deleted"):
        shelf.append_usage("actor", Usage(calls=1))
    assert not shelf.folder.exists()
