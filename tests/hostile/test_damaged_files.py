"""Whatever stands where a file is expected: no verb waits for it for ever or ends in a traceback, and a run that could
go on goes on."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsso_dspy.environments.scienceworld.tasks import find_known_length
from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import MOST_LEVELS, read_json, read_lines, read_toml
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.records import Variant
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

SILENT = ("empty", "an empty object")
"""What a log without any trial may hold."""
UNIT_LOG = "run/units/rsso/lifespan-longest-lived/98-s0.jsonl"

REPORT, SHOW = ("report", "run"), ("show", "run", UNIT)
EXPORT = ("export", "run", "-o", "x.parquet")
AGAIN, SKILLS = ("run", "--replay", "run", "--dry-run"), ("skills", "export", "run", UNIT, "-o", "new.json")
DRY = (*ORDER, "--out", "run", "--dry-run")

FILES: dict[str, list[tuple[str, ...]]] = {
    UNIT_LOG: [REPORT, SHOW, EXPORT, AGAIN, SKILLS, DRY],
    "run/run.json": [REPORT, SHOW, AGAIN, SKILLS, DRY],
    "run/units/rsso/lifespan-longest-lived/22-s0.jsonl": [REPORT],
    "run/trainings/rsso/lifespan-longest-lived/s0.jsonl": [REPORT],
    "rsso.toml": [("config", "show")],
    "skills.json": [(*ORDER, "--skills", "skills.json", "--out", "new", "--dry-run")],
    "constitution.json": [("constitution", "show", "constitution.json")],
    "program.json": [("show", "program.json"), ("evaluate", "program.json", "--dry-run")],
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
    if damage in NO_TEXT and damage != "empty" and path.suffix == ".jsonl":  # else it is half a line, which is left out
        path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_no_verb_hangs_or_breaks(rsso, run, tmp_path, file, damage):
    put(tmp_path / file, damage)
    for words in FILES[file]:
        code, out, err = rsso(*words)
        assert code in (0, 1, 2), words
        assert "Traceback" not in out + err
        if file.startswith("run/units") and damage not in SILENT:
            assert f"{file.rpartition('/')[2]} " in err or words == AGAIN, "it is named"
        if words == DRY and file != "run/run.json":
            assert code == 0, err
    if file.startswith("run/units"):
        store = Store(run)
        assert len(list(store.units())) == (file != UNIT_LOG)
        assert [each.suffix for each in store.set_aside] == [".damaged"] * (damage not in SILENT)


LINES = [
    *("5", "null", "[]", "[" * 100_000, "9" * 5000, "{", '{"call": 1, "usage": NaN}', '{"unit": 5}', '{"unit": {}}'),
    *('{"void": "x"}', '{"rollout": 5}', '{"trial": []}', '{"trial": 1, "memories": {}, "seconds": 1, "time": 5}'),
    *('{"call": 1}', '{"call": "x"}', '{"call": 7, "answer": 5, "usage": 5}', '{"call": 7, "usage": [5]}'),
    *('{"call": 7, "usage": [{"prompt_tokens": "many"}]}', '{"call": [], "role": 5}', '{"call": 7, "role": {}}'),
    *('{"read": 7}', '{"read": []}', '{"text": 5}', '{"text": 1, "is": 5}', '{"unknown": 1}', "\ud800 \x00"),
]


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("line", LINES, ids=lambda line: ascii(line[:40]))
def test_a_line_that_says_nothing_breaks_no_verb(rsso, run, unit, line, place):
    """It may be read past, or the file counts as damaged; a torn last line is left out."""
    before = unit.read_bytes()
    odd = line.encode("utf-8", "surrogatepass") + b"\n"
    unit.write_bytes(odd + before if place == "first" else before + odd)
    for words in (REPORT, SHOW, (*SHOW, "--prompts"), EXPORT, AGAIN, DRY, (*DRY[:-1], "--replay", "run")):
        code, out, err = rsso(*words)
        assert code in (0, 1, 2), words
        assert "Traceback" not in out + err, words
    unit.unlink(missing_ok=True)
    unit.write_bytes(before + odd[:-1])
    assert rsso(*REPORT)[0] == 0
    assert Store(run).open_log(Store(run).units().__next__()).path.read_bytes() == before


WRONG = [5, "x", [], {}, None, [5], {"a": 5}]


KEYS = ("schema", "arms", "identity", "identity.config", "identity.carried", "commands", "given", "planned", "shards")


@pytest.mark.parametrize("key", KEYS)
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


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_kept_between_runs_is_made_anew(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    variant = Variant("boil", 22, simplification="noSuch")
    from rsso_dspy.environments.scienceworld.tasks import _get_cache_file

    put(_get_cache_file(variant), damage)
    assert find_known_length(variant) is None
    logs = RolloutLogs(tmp_path / "logs")
    with logs.open_for_request({"identity": {}}):
        put(tmp_path / "logs/p/boil-22.jsonl", damage)
        assert logs.find_rollout("p", variant) is None


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
