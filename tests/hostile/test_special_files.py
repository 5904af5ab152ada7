"""What is no regular file, under the name of one: it is refused at once, whichever setting or argument names it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import open_regular, read_bytes, read_json, read_text, read_toml
from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has pipes and sockets with names")

SECONDS = 60  # a command that hangs is ended; they take a few


def bind_socket(path: Path) -> None:
    """Leave a socket under this name, which may be longer than the system allows."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "it is a pipe"),
    "socket": (bind_socket, "it is a socket"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    "folder": (Path.mkdir, "it is a folder"),
    "link to a pipe": (lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")), "it is a pipe"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", [read_bytes, read_text, read_json, read_toml])
def test_no_other_kind_of_file_is_read(tmp_path, kind, read):
    make, why = KINDS[kind]
    path = tmp_path / "file"
    make(path)
    with pytest.raises(DamagedFile, match=why):
        read(path)


def test_a_link_to_a_regular_file_is_that_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "mine"
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"mine"
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none")


def test_a_file_larger_than_memory_holds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rsso_dspy.files.MOST_BYTES", 10)
    (tmp_path / "file").write_bytes(b"12345678901")
    with pytest.raises(DamagedFile, match="it holds more than 10 bytes"):
        read_bytes(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"1234567890")
    assert read_bytes(tmp_path / "file") == b"1234567890"


def test_a_byte_order_mark_before_a_text_is_no_part_of_it(run, unit, rsso):
    marked = b"\xef\xbb\xbf"
    for file in (unit, run / "run.json"):
        file.write_bytes(marked + file.read_bytes())
    config = run.parent / "rsso.toml"
    config.write_bytes(marked + b"[protocol]\ntrials = 2\n")
    assert read_toml(config) == {"protocol": {"trials": 2}}
    assert len(list(Store(run, read_only=True).units())) == 1
    assert rsso("report", run)[0] == 0


# Every file that a setting or an argument names.

UNIT = "units/rsso/lifespan-longest-lived/98-s0.jsonl"
NAMED: dict[str, tuple[str, tuple[str, ...]]] = {
    "the log of a unit": (f"run/{UNIT}", ("report", "run")),
    "a packed log": (f"run/{UNIT}.gz", ("report", "run")),
    "the log of a training": ("run/trainings/rsso/lifespan-longest-lived/s0.jsonl", ("report", "run")),
    "a log, exported": (f"run/{UNIT}", ("export", "run", "-o", "new.parquet")),
    "a log, replayed": (f"run/{UNIT}", ("run", "--replay", "run", "--dry-run")),
    "a log, played on": (f"run/{UNIT}", (*ORDER, "--out", "run", "--dry-run")),
    "run.json": ("run/run.json", ("report", "run")),
    "run.json, shown": ("run/run.json", ("show", "run")),
    "the configuration": ("rsso.toml", ("config", "show")),
    "a configuration": ("mine.toml", ("config", "show", "--config", "mine.toml")),
    "a skill library": ("skills.json", (*ORDER, "--skills", "skills.json", "--out", "new", "--dry-run")),
    "a constitution": ("book.json", ("constitution", "show", "book.json")),
    "a constitution to play": (
        "book.json",
        (*ORDER, "--constitution", "book.json", "--out", "new", "--dry-run"),
    ),
    "a compiled program": ("program.json", ("show", "program.json")),
    "a compiled program to play": ("program.json", ("evaluate", "program.json", "--dry-run")),
    "the reflector's examples": (
        "examples.toml",
        (*ORDER, "--set", "memory.reflections.examples=examples.toml", "--out", "new", "--dry-run"),
    ),
    "examples of constitutions": (
        "examples.json",
        (*ORDER, "--set", "memory.constitution.examples=examples.json", "--out", "new", "--dry-run"),
    ),
    "a log of an index": (
        f"run/{UNIT}",
        (
            *ORDER,
            *("--set", 'memory.reflections.improvements=["retrieval"]'),
            *("--set", "memory.reflections.index=run", "--out", "new", "--dry-run"),
        ),
    ),
    "candidates of a compile": (
        "candidates.toml",
        (
            *("compile", "--method", "react", "--benchmark", "babyai", "--tasks", "Open", "--calib", "1-per-task"),
            *("--candidates", "candidates.toml", "-o", "new.json", "--dry-run"),
        ),
    ),
    "a log of Reflexion": ("reflexion/env_results_trial_0.json", ("report", "reflexion")),
    "a problem of PDDL": (
        "problems/gripper/p1.pddl",
        ("run", "--benchmark", "pddl", "--set", "environment.data=problems", "--out", "new", "--dry-run"),
    ),
}


def put_in_place(kind: str, path: Path) -> None:
    """Leave what is no regular file under the name of one."""
    if path.suffix == ".gz":
        path.with_suffix("").unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    KINDS[kind][0](path)


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.usefixtures("run")
def test_no_command_waits_for_a_pipe_or_reads_a_device(tmp_path, name, kind, rsso):
    file, words = NAMED[name]
    put_in_place(kind, tmp_path / file)
    code, _, err = rsso(*words)
    assert code in (0, 2), err
    assert "Traceback" not in err
    assert f"it is a {kind}" in " ".join(err.split()), "and it is named"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_command_that_begins_with_such_a_configuration_ends(tmp_path, kind):
    """It is read before anything else of the program is there."""
    put_in_place(kind, tmp_path / "rsso.toml")
    command = [sys.executable, "-m", "rsso_dspy", "config", "show"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, f"it is a {kind}" in " ".join(done.stderr.split())) == (2, True), done.stderr


TEXTS = [name for name, (file, _) in NAMED.items() if not file.endswith(("jsonl", "gz"))]
"""Files that a person may write, in an editor that saves them otherwise than as UTF-8."""


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.usefixtures("run")
def test_a_text_in_another_coding_is_named_with_what_to_do(tmp_path, name, coding, rsso):
    file, words = NAMED[name]
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes('{"name": "caf\u00e9"}\n'.encode(coding))
    code, _, err = rsso(*words)
    assert (code, "save it as UTF-8" in " ".join(err.split())) == (2, True), err


@pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra alfworld is not installed")
def test_a_pipe_in_place_of_a_game_of_alfworld_is_named(tmp_path):
    """The package is not imported here: it would make a folder of its own, in which other tests would find no games."""
    from rsso_dspy.environments.alfworld.tasks import read_games

    game = tmp_path / "valid_unseen/look_at_obj_in_light-Pen-None-DeskLamp-1/trial/game.tw-pddl"
    game.parent.mkdir(parents=True)
    os.mkfifo(game)
    with pytest.raises(UsageError, match="it is a pipe"):
        read_games(str(tmp_path))


# What run.json says.

WRONG: dict[str, object] = {
    "commands": {"methods": ["rsso"]},
    "commands of texts": ["run"],
    "given": ["config.toml"],
    "given numbers": {"config.toml": 5},
    "shards": {"1/2": 1},
    "shards of numbers": [1],
    "planned": "all",
    "planned numbers": [5],
    "arms": ["rsso"],
    "arms of numbers": {"rsso": 5},
    "identity": [],
    "identity.config": [],
    "identity.config.backend": 5,
    "identity.config.backends": [],
    "identity.config.backends of texts": {"embedded": "x"},
    "identity.config.benchmark": ["scienceworld"],
    "identity.carried": [],
    "identity.protocol": 5,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_type_in_the_file_of_a_run_is_named(run, rsso, name):
    data = json.loads((run / "run.json").read_text())
    *tables, key = name.split(" ")[0].split(".")
    table = data
    for part in tables:
        table = table[part]
    table[key] = WRONG[name]
    (run / "run.json").write_text(json.dumps(data))
    unit = "lifespan-longest-lived::98"
    for words in (
        ("report", "run"),
        ("show", "run", unit, "--prompts"),
        ("export", "run", "-o", "new.parquet"),
        ("export", "run", "--format", "inspect", "-o", "new"),
        ("run", "--replay", "run", "--dry-run"),
        (*ORDER, "--out", "run", "--dry-run"),
    ):
        code, out, err = rsso(*words)
        assert (code, "run.json" in err, "damaged" in err) == (2, True, True), (words, err)
        assert "Traceback" not in out + err
    with pytest.raises(UsageError, match="damaged"):
        Store(run).read_file()


@pytest.mark.parametrize("name", ["../x", "/x", "a\0b", ""])
def test_a_copy_that_leads_out_of_its_folder_is_not_written(run, rsso, name):
    data = json.loads((run / "run.json").read_text())
    data["given"][name] = "x"
    (run / "run.json").write_text(json.dumps(data))
    code, out, err = rsso("run", "--replay", "run", "--dry-run")
    assert code == 2
    assert "Traceback" not in out + err


def test_no_file_has_a_name_with_a_null_byte(tmp_path):
    with pytest.raises(DamagedFile, match="no file has such a name"):
        read_text(tmp_path / "a\0b")


def test_a_shard_that_is_none_is_named(run, rsso):
    data = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**data, "shards": ["many"]}))
    code, _, err = rsso("report", "run")
    assert code == 2
    assert "--shard many: expected i/n" in err
