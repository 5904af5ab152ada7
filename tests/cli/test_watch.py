"""`rsso-dspy watch`: the folder of a run, seen from outside the process that plays it."""

import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from rsso_dspy.cli.watch import describe_event, format_duration
from rsso_dspy.records import Usage
from rsso_dspy.store.run_log import RunLog
from rsso_dspy.store.unit_store import Store
from rsso_dspy.workflows.run_monitor import RunMonitor
from tests.cli.begun import LEFT, begun, unit
from tests.records import record


def look(folder: Path):
    return RunMonitor(folder, lambda _: None).take_snapshot()


def test_a_look_sees_everything_that_the_folder_holds(tmp_path):
    store = begun(tmp_path)
    with store.lock():
        seen = look(tmp_path)
    sso, rsso = seen.rows
    assert (sso.arm, sso.total, len(sso.tally.units), sso.tally.mean, sso.trials) == ("sso", 2, 1, 40, (2,))
    assert (rsso.total, len(rsso.tally.units), len(rsso.tally.errored), rsso.trials) == (2, 0, 1, ())
    assert sso.spent.tokens == 2 * 13 + 13 + 1100, "of what is finished, begun and under way"
    assert rsso.spent.tokens == 2 * 13 + 10, "and of what was abandoned"
    assert (seen.state, seen.done, seen.left, seen.is_over) == ("playing", 2, 4, False)
    assert [event["event"] for event in seen.news] == ["started", "unit", "unit"]
    assert seen.remaining == seen.elapsed


def test_a_folder_from_before_the_log_has_unknown_totals(rsso, tmp_path):
    store = begun(tmp_path / "old")
    (tmp_path / "old/run.log.jsonl").unlink()
    (row, _) = look(store.folder).rows
    assert (row.total, row.trials) == (None, ())
    code, out, _ = rsso("watch", "old", "--once")
    assert code == 1, "a unit of it has an error"
    assert "1/?" in out
    assert "no process plays it, and it has no log: 1 of ? units, 1 with errors" in out


def test_what_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    store = begun(tmp_path)
    read = []
    load = Store._load_record
    monkeypatch.setattr(
        Store, "_load_record", lambda self, path, form: (read.append(path.name), load(self, path, form))[1]
    )
    watched = RunMonitor(tmp_path, lambda _: None)
    watched.take_snapshot()
    assert sorted(read) == ["22-s0.json", "22-s0.json", "27-s0.json"]
    read.clear()
    assert watched.take_snapshot().news == ()
    assert read == []
    store.save(record("rsso", "boil", 22, [[10], [60]]))
    store.save(record("sso", "boil", 27, [[10], [70]]))
    store.note_event("unit", {"unit": LEFT[1], "trials": 2, "best": 60, "error": None})
    seen = watched.take_snapshot()
    assert sorted(read) == ["22-s0.json", "27-s0.json"]
    assert [row.tally.mean for row in seen.rows] == [55, 60]
    assert seen.errors == 0, "what was played again has no error any more"
    assert len(seen.news) == 1


def test_a_line_that_is_being_written_is_left_for_the_next_look(tmp_path):
    begun(tmp_path, finished=False)
    watched = RunMonitor(tmp_path, lambda _: None)
    watched.take_snapshot()
    with (tmp_path / "run.log.jsonl").open("ab") as log:
        log.write(b'no entry\n{"event": 5}\n{"event": "trial", "unit": "sso/boil')
        log.flush()
        assert watched.take_snapshot().news == ()
        log.write(b'::22/s0", "error": "\xff"}\n')
    (event,) = watched.take_snapshot().news
    assert event["event"] == "trial"


@pytest.mark.parametrize(
    ("event", "details", "errored", "code", "words"),
    [
        ("ended", {"played": 1, "errored": 0, "untrained": 0}, False, 1, "ended: 1 of 4 units"),
        ("ended", {"played": 2, "errored": 1, "untrained": 0}, True, 1, "ended: 1 of 4 units, 1 with errors"),
        ("ended", {"played": 1, "errored": 0, "untrained": 3}, False, 1, "ended: 1 of 4 units"),
        ("limit", {"why": "$5 of $4 are spent"}, False, 1, "stopped by a limit ($5 of $4 are spent)"),
        ("interrupted", {}, False, 1, "interrupted: 1 of 4 units"),
        ("failed", {"error": "BackendUnreachable: no"}, False, 1, "failed (BackendUnreachable: no)"),
        ("trial", {"unit": LEFT[0], "trial": 1}, False, 1, "interrupted: no process plays it"),
    ],
)
def test_it_ends_with_the_run_and_says_how(rsso, tmp_path, event, details, errored, code, words):
    store = begun(tmp_path / "run", finished=False)
    store.save(record("sso", "boil", 22, [[10]]))
    if errored:
        store.save(record("rsso", "boil", 22, [None]))
    store.note_event(event, details)
    found, out, _ = rsso("watch", "run")
    assert found == code
    assert words in " ".join(out.split())


def test_a_run_is_whole_when_what_every_command_had_to_play_is_there(rsso, tmp_path):
    store = begun(tmp_path / "run", finished=False)
    store.note_event("interrupted", {})
    store.note_event("started", {"left": LEFT[1:2], "jobs": 1, "engine": "threads"})
    for arm, index in (("rsso", 22), ("rsso", 27), ("sso", 22)):
        store.save(record(arm, "boil", index, [[10]]))
    store.note_event("ended", {"played": 1, "errored": 0, "untrained": 0})
    code, out, _ = rsso("watch", "run")
    assert code == 1, "units that the first command left are missing"
    assert "ended: 3 of 4 units" in out
    store.save(record("sso", "boil", 27, [[10]]))
    code, out, _ = rsso("watch", "run")
    assert code == 0
    assert "ended: 4 of 4 units" in out


def test_without_a_log_a_run_is_whole_when_nothing_of_it_is_only_begun(rsso, tmp_path):
    store = Store(tmp_path / "run")
    store.open({}, {"sso": "1", "rsso": "2"})
    store.save(record("sso", "boil", 22, [[10]]))
    assert rsso("watch", "run")[0] == 1, "an arm has no unit"
    store.save(record("rsso", "boil", 22, [[10]]))
    assert rsso("watch", "run")[0] == 0
    store.note_under_way(unit("rsso", 27), "actor", Usage(1, 1, 1))
    assert rsso("watch", "run")[0] == 1, "its first trial was under way"
    store.forget_under_way(unit("rsso", 27))
    store.save_started(record("rsso", "boil", 27, [[10]]))
    assert rsso("watch", "run")[0] == 1, "one of its trials is finished"
    store.save(record("rsso", "boil", 27, [[10]]))
    assert rsso("watch", "run")[0] == 0


@pytest.mark.parametrize(("end", "state"), [(None, "playing"), ("ended", "ended")])
def test_a_run_that_begins_while_it_is_looked_at_is_not_cut_off(tmp_path, monkeypatch, end, state):
    store = begun(tmp_path, finished=False)
    store.note_event("interrupted", {})
    watched = RunMonitor(tmp_path, lambda _: None)
    assert watched.take_snapshot().state == "interrupted"
    with ExitStack() as stack:
        read = RunLog.read

        def begins_first(log: RunLog) -> list:
            monkeypatch.setattr(RunLog, "read", read if end is None else ends_first)
            stack.enter_context(store.lock())
            store.note_event("started", {"left": LEFT, "jobs": 2, "engine": "threads"})
            return read(log)

        def ends_first(log: RunLog) -> list:
            monkeypatch.setattr(RunLog, "read", read)
            store.note_event(end, {})
            return read(log)

        real = Store.is_playing
        monkeypatch.setattr(RunLog, "read", begins_first)
        if end:  # it is over before it is asked for again
            monkeypatch.setattr(Store, "is_playing", lambda self: stack.close() or real(self))
        seen = watched.take_snapshot()
        assert seen.state == state
        assert [event["event"] for event in seen.news] == ["started", *([end] if end else [])]


def test_a_folder_without_a_run_is_an_error_unless_it_is_waited_for(rsso, tmp_path, monkeypatch):
    code, _, err = rsso("watch", "run")
    assert code == 2
    assert "holds no run" in err

    def appear(_: float) -> None:
        begun(tmp_path / "run", finished=False).note_event("interrupted", {})

    monkeypatch.setattr("rsso_dspy.cli.watch._sleep_in_naps", appear)
    code, out, err = rsso("watch", "run", "--wait", "--once")
    assert "waiting for a run in run" in err
    assert "0/2" in out


def test_watching_never_keeps_a_run_out(tmp_path):
    store = begun(tmp_path, finished=False)
    over = threading.Event()

    def look_again_and_again() -> None:
        while not over.wait(0.005):  # far more often than any watcher, and yet not all the time
            store.is_playing()

    lookers = [threading.Thread(target=look_again_and_again) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(50):
            with Store(tmp_path).lock():
                assert store.is_playing() is True
    finally:
        over.set()
        for looker in lookers:
            looker.join()
    assert store.is_playing() is False
    assert Store(tmp_path / "nowhere").is_playing() is False
    assert not (tmp_path / "nowhere").exists()


def test_events_in_words_are_safe_to_show():
    assert describe_event({"event": "trial", "unit": "a+b/boil::22/s0", "trial": 2, "error": "E: \x1b[2J\nx"}) == (
        "a+b boil::22 trial 2: error: E: \N{REPLACEMENT CHARACTER}[2J x"
    )
    assert describe_event({"event": "later", "unit": 5}) == "later"
    assert describe_event({"event": "started", "left": []}) == "started: 0 to play, None at once on None"
    assert [format_duration(timedelta(seconds=n)) for n in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


def test_a_run_that_is_killed_is_called_cut_off(tmp_path):
    store = begun(tmp_path)
    needs = "from pathlib import Path; from rsso_dspy.store.unit_store import Store"
    code = f"{needs}\nwith Store(Path({str(tmp_path)!r})).lock(): print(flush=True); input()"
    watched = RunMonitor(tmp_path, lambda _: None)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        held.stdout.readline()
        assert watched.take_snapshot().state == "playing"
        held.kill()
    seen = watched.take_snapshot()
    assert (seen.state, seen.is_over, seen.is_complete) == ("cut off", True, False)
    assert [row.trials for row in seen.rows] == [(), ()], "nothing is under way any more"
    assert store.is_playing() is False
