"""A folder that is moved or deleted while something is written to it: that stops at once, says so, and makes
nothing anew."""

import shutil
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import FolderGone
from rsso_dspy.executor import EventStream, TrialFinished
from rsso_dspy.runs import plan_run
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Store
from tests.live import FAST
from tests.records import record

AWAY = "away"
SIMULATED = "find-living-thing"
"""A task of ScienceWorld, whose simulator must not be stranded."""


def move(folder: Path) -> None:
    folder.rename(folder.with_name(AWAY))


def begin_to_delete(folder: Path) -> None:
    (folder / "run.json").unlink()


def files(folder: Path) -> dict[str, bytes] | None:
    """What is in a folder; None where there is none."""
    if not folder.exists():
        return None
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("happen", [move, shutil.rmtree, begin_to_delete])
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


def test_a_run_whose_folder_goes_stops_at_once_and_writes_nothing_more(tmp_path, live):
    folder, told, before = tmp_path / "run", [], []

    def tell(event):
        told.append(event)
        if len(told) == 1:
            begin_to_delete(folder)
            before.append(files(folder))

    order = RunSpec(methods=("react-sso", "reflexion-sso"), variants=(f"{SIMULATED}::228",), out=folder)
    config = load_config(overrides=[*FAST, "protocol.trials=2", "protocol.stop_on_success=false"])
    events = EventStream()
    events.subscribe(TrialFinished, tell)
    with pytest.raises(FolderGone, match="is gone"):
        plan_run(config, order).execute(live, 1, events=events)
    assert len(told) == 1
    assert [files(folder)] == before
