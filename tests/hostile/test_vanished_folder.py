"""A folder that is moved or deleted while something is written to it: that stops at once, says so, and makes
nothing anew."""

import shutil

import pytest

from rsso_dspy.errors import FolderGone
from rsso_dspy.store.run_folder import Store
from tests.records import record


@pytest.mark.parametrize(
    "happen",
    [
        lambda folder: folder.rename(folder.with_name("away")),
        shutil.rmtree,
        lambda folder: (folder / "run.json").unlink(),
    ],
    ids=["moved", "deleted", "being deleted"],
)
def test_every_way_to_write_refuses_and_leaves_what_is_there_alone(tmp_path, happen):
    folder = tmp_path / "run"
    store, played = Store(folder), record("sso", "boil", 22, [[10]])
    with store.lock():
        store.open({}, {"sso": "1"})
        log = store.open_log(played)
        log.add_head(played, stops=False)
        happen(folder)
        before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
        for write in (
            lambda: log.add_trial(played.trials[0], {}, 1.0),
            lambda: log.keep_vectors(1, "m", {"a": b"b"}),
            lambda: store.write_file({"identity": {}, "arms": {}}),
            lambda: store.append_text(folder / "a.jsonl", "line"),
        ):
            with pytest.raises(FolderGone, match="is gone: it was moved, deleted or unmounted"):
                write()
        assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before
