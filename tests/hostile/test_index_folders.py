"""The run that reflections are retrieved from is part of a configuration's identity: all its logs, packed or not."""

import gzip
import os
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import ConfigError, UsageError
from rsso_dspy.store.run_folder import Store
from tests.records import record, save


@pytest.fixture
def folder(tmp_path) -> Path:
    store = Store(tmp_path / "index")
    store.open({"protocol": "sso-adapt/3"}, {"reflexion": "1"})
    for index in (22, 23):
        save(store, record("reflexion", "boil", index, [[10], [20]]))
    return store.folder


def find_logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("units/*/*/*.jsonl*"))


def compute_identity(folder: Path) -> str:
    improvements = 'memory.reflections.improvements=["retrieval"]'
    return load_config(overrides=[improvements, f"memory.reflections.index={folder}"]).hash()


def pack(log: Path) -> Path:
    packed = log.with_name(f"{log.name}.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    return packed


def test_packing_changes_nothing(folder):
    identity = compute_identity(folder)
    for log in find_logs(folder):
        pack(log)
        assert compute_identity(folder) == identity
    assert not [log for log in find_logs(folder) if log.suffix != ".gz"], "all are packed, and the setting is taken"


def test_editing_or_removing_a_log_changes_the_identity_packed_or_not(folder):
    identity = compute_identity(folder)
    first, second = find_logs(folder)
    packed = pack(first)
    content = gzip.decompress(packed.read_bytes())
    packed.write_bytes(gzip.compress(content.replace(b'"score":10', b'"score":11')))
    edited = compute_identity(folder)
    packed.unlink()
    removed = compute_identity(folder)
    second.write_bytes(second.read_bytes() + b'{"void": 2, "why": "played again"}\n')
    assert len({identity, edited, removed, compute_identity(folder)}) == 4


def test_half_a_line_at_the_end_and_other_files_are_no_part_of_it(folder):
    identity = compute_identity(folder)
    log = find_logs(folder)[0]
    with log.open("ab") as file:
        file.write(b'{"trial": 3')
    log.with_name("notes.jsonl").write_text('{"trial": 1}\n')
    assert compute_identity(folder) == identity


def test_what_cannot_be_read_is_named(folder):
    first, second = find_logs(folder)
    first.unlink()
    os.mkfifo(first)
    with pytest.raises(UsageError, match="it is a pipe"):
        compute_identity(folder)
    first.unlink()
    packed = pack(second)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(UsageError, match="cannot be unpacked"):
        compute_identity(folder)
    packed.unlink()
    with pytest.raises(ConfigError, match="is no folder of a run with finished units"):
        compute_identity(folder)
