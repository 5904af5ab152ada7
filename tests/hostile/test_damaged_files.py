"""Whatever stands where a file is expected: no verb waits for it for ever or ends in a traceback, and a run that could
go on goes on."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rsso_dspy.optimize.rollout_cache import RolloutCache

from rsso_dspy.environments.scienceworld.gold_lengths import find_known_length
from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import MOST_LEVELS, read_json, read_lines, read_toml
from rsso_dspy.records import Usage, Variant
from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER

UNIT = "lifespan-longest-lived::98"


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's whole name has some hundred characters
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


def text(content: str | bytes) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


NO_FILE: dict[str, Callable[[Path], None]] = {
    "a named pipe": lambda path: os.mkfifo(path),
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "ten gigabytes": _sparse,
}
NO_TEXT = {
    "deep lists": text("[" * 100_000),
    "deep objects": text('{"a":' * 50_000 + "1" + "}" * 50_000),
    "deep enough to trip who walks it": text('{"a":' * 400 + "1" + "}" * 400),
    "a number of 5,000 digits": text('{"schema": ' + "9" * 5000 + "}"),
    "not UTF-8": text(b'{"a": "\xff\xfe"}'),
    "cut off": text('{"schema": 1, "trials": ['),
    "empty": text(""),
    "NaN": text('{"schema": NaN}'),
    "one key twice": text('{"schema": 1, "schema": 2}'),
    "a number": text("5"),
    "null": text("null"),
    "a list": text("[]"),
    "lists in lists": text("[[[]]]"),
    "an empty object": text("{}"),
    "null bytes": text(b"\0" * 100),
}
DAMAGES = {**NO_FILE, **NO_TEXT}

REPORT, SHOW = ("report", "run"), ("show", "run", UNIT)
EXPORT, MERGE = ("export", "run", "-o", "x.parquet"), ("merge", "run", "--out", "whole")
AGAIN, SKILLS = ("reproduce", "run"), ("skills", "show", "run", UNIT)
DRY = (*ORDER, "--out", "run", "--dry-run")

FILES: dict[str, list[tuple[str, ...]]] = {
    "run/units/rsso/lifespan-longest-lived/98-s0.json": [REPORT, SHOW, EXPORT, AGAIN, SKILLS, DRY, MERGE],
    "run/run.json": [REPORT, SHOW, AGAIN, SKILLS, DRY],
    "run/run.log.jsonl": [REPORT, DRY],
    "run/abandoned.jsonl": [REPORT, DRY],
    "run/timings.jsonl": [DRY],
    "run/started/units/rsso/lifespan-longest-lived/22-s0.json": [REPORT],
    "run/started/units/rsso/lifespan-longest-lived/22-s0.under-way": [REPORT],
    "run/given/orders.jsonl": [AGAIN],
    "run/given/config.toml": [AGAIN],
    "rsso.toml": [("config", "show")],
    "skills.json": [
        (*ORDER, "--skills", "skills.json", "--out", "new", "--dry-run"),
        ("skills", "build", "skills.json"),
    ],
    "constitution.json": [("constitution", "show", "constitution.json"), ("reproduce", "constitution.json")],
    "program.json": [("program", "show", "program.json"), ("program", "validate", "program.json")],
    "calib.json": [("compile", "--calib", "calib.json", "--dry-run")],
}
CASES = [pytest.param(file, damage, id=f"{file.rpartition('/')[2]}: {damage}") for file in FILES for damage in DAMAGES]


@pytest.fixture(autouse=True)
def awake() -> Iterator[None]:
    """Who waits for ever is woken."""

    def waited(*_: object) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def put(path: Path, damage: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    DAMAGES[damage](path)


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_no_verb_hangs_or_breaks(rsso, run, tmp_path, file, damage):
    put(tmp_path / file, damage)
    for words in FILES[file]:
        code, out, err = rsso(*words)
        assert code in (0, 1, 2), words
        assert "Traceback" not in out + err
        if file.startswith("run/units"):
            assert f"{file.rpartition('/')[2]} " in err or words == AGAIN, "it is named"
        if words == DRY and file != "run/run.json":
            assert code == 0, err
    if file.startswith("run/units"):
        store = Store(run)
        assert list(store.units()) == []
        assert [each.suffix for each in store.set_aside] == [".damaged"]


@pytest.mark.parametrize("damage", NO_FILE)
def test_a_run_makes_room_for_its_journals(run, damage):
    files = [run / name for name in ("run.log.jsonl", "timings.jsonl", "abandoned.jsonl")]
    for file in files:
        put(file, damage)
    store = Store(run)
    store.open(*store.read_identity())
    store.note_seconds("u", 1, 1.0)
    store.note_abandoned("rsso", "u", {"actor": Usage(calls=1)})
    store.note_event("trial", {})
    if damage != "ten gigabytes":
        assert store.read_abandoned() == [("rsso", "actor", Usage(calls=1))]
        assert set(store.set_aside) == {file.with_name(f"{file.name}.damaged") for file in files}


@pytest.mark.parametrize(
    "line",
    [
        *("5", "null", "[]", "[" * 100_000, "9" * 5000, '{"arm": 5, "usage": {}}', '{"arm": "a", "usage": []}'),
        '{"arm": "a", "usage": {"actor": {"calls": -5}}}',
        '{"arm": "a", "usage": {"actor": {"calls": "many"}}}',
        '{"arm": "a", "usage": {"actor": {"calls": true}}}',
        '{"arm": "a", "usage": {"actor": {"calls": NaN}}}',
        '{"arm": "a", "usage": {"actor": 5, "x": {"unknown": 1}}}',
        '{"event": "started", "left": 5}',
        '{"event": "started", "left": [5, null, {}], "time": 5}',
        '{"event": "trial", "time": [], "unit": {}, "trial": {}, "outcome": []}',
        '{"event": "limit", "why": {"a": []}, "time": "2026-99-99"}',
        '["actor", {"calls": -1}]',
        '["actor", {"calls": 1}, 3]',
        '{"actor": 1}',
    ],
    ids=lambda line: line[:60],
)
def test_a_line_that_says_nothing_is_read_past(rsso, run, line):
    store = Store(run)
    before = store.read_abandoned()
    journal = run / "started/units/rsso/lifespan-longest-lived/22-s0.under-way"
    journal.parent.mkdir(parents=True, exist_ok=True)
    for file in (run / "run.log.jsonl", run / "abandoned.jsonl", journal):
        with file.open("a") as opened:
            opened.write(f"{line}\n")
    assert store.read_abandoned() == before
    assert rsso(*REPORT)[0] in (0, 1)


WRONG = [5, "x", [], {}, None, [5], {"a": 5}]


@pytest.mark.parametrize("key", ["schema", "arms", "identity", "identity.config", "identity.carried"])
def test_wrong_types_in_the_runs_file_are_named(rsso, run, key):
    whole = json.loads((run / "run.json").read_text())
    for value in WRONG:
        data = json.loads(json.dumps(whole))
        place = data["identity"] if "." in key else data
        place[key.rpartition(".")[2]] = value
        (run / "run.json").write_text(json.dumps(data))
        for words in (REPORT, AGAIN, SKILLS, DRY):
            code, _, err = rsso(*words)
            assert code in (0, 1, 2), (value, words)
            assert code == 0 or "run.json" in err or "run" in err


def test_an_order_that_is_lost_does_not_keep_a_run_from_going_on(run):
    from rsso_dspy.config import load_config
    from rsso_dspy.store.manifest import Manifest, load_invocations
    from rsso_dspy.store.run_spec import RunSpec

    for damage in ("a named pipe", "a folder", "deep lists", "not UTF-8"):
        for name in ("orders.jsonl", "config.toml"):
            file = run / "given" / name
            if file.is_dir():
                file.rmdir()
            put(file, damage)
        Manifest.from_run_spec(load_config(), RunSpec(methods=("sso",), out=run)).save(run)
        assert [asked.methods for asked in load_invocations(run)] == [("sso",)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_kept_between_runs_is_made_anew(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    variant = Variant("boil", 22, simplification="noSuch")
    from rsso_dspy.environments.scienceworld.gold_lengths import _get_cache_file

    put(_get_cache_file(variant), damage)
    assert find_known_length(variant) is None
    shelf = RolloutCache(tmp_path / "shelf")
    put(tmp_path / "shelf/p/boil-22.json", damage)
    assert shelf.find_rollout("p", variant) is None


@pytest.mark.parametrize("damage", NO_FILE)
def test_a_vector_cache_that_is_none_is_left_aside(tmp_path, damage):
    import numpy as np

    from rsso_dspy.embed import VectorCache

    put(tmp_path / "vectors.sqlite", damage)
    cache = VectorCache({"model": "m"}, tmp_path)
    assert cache.get(["a"]) == {}
    cache.put({"a": np.ones(3, np.float32)})


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("read", [read_json, read_toml])
def test_the_reader_has_one_word_for_it(tmp_path, damage, read):
    put(tmp_path / "file", damage)
    if damage in ("a number", "null", "a list", "lists in lists", "an empty object", "empty") and read is read_json:
        assert damage == "empty" or read(tmp_path / "file") in (5, None, [], [[[]]], {})
        return
    if (damage, read) in (("empty", read_toml), ("a list", read_toml)):
        return
    with pytest.raises(DamagedFile):
        read(tmp_path / "file")


def test_the_reader_reads_what_is_none_of_that(tmp_path):
    file = tmp_path / "file"
    file.write_text("[" * (MOST_LEVELS - 1) + "]" * (MOST_LEVELS - 1))
    assert read_json(file)
    assert read_toml(Path(os.devnull)) == {}
    assert read_lines(tmp_path / "absent") == []
    reader, writer = os.pipe()
    os.write(writer, b"a = 1\n")
    os.close(writer)
    assert read_toml(Path(f"/dev/fd/{reader}")) == {"a": 1}
    os.close(reader)
