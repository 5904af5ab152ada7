"""Vectors on disk: the same bytes again, shared by processes, and never in a run's way."""

import logging
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from rsso_dspy.embedders import vector_cache as disk
from rsso_dspy.embedders.vector_cache import VectorCache

MODEL = {"route": "test", "weights": "1"}


def vectors(*texts: str) -> dict[str, np.ndarray]:
    return {text: np.arange(len(text), len(text) + 4, dtype=np.float32) / 7 for text in texts}


@pytest.fixture
def kept(tmp_path):
    cache = VectorCache(MODEL, tmp_path)
    cache.put(vectors("a", "bb", ""))
    cache.close()
    yield cache
    cache.close()


def test_what_is_read_has_the_bytes_that_were_written(kept):
    again = VectorCache(dict(reversed(MODEL.items())), kept.file.parent)
    found = again.get(["a", "unknown", "bb", "", "a"])
    assert {text: row.tobytes() for text, row in found.items()} == {
        text: row.tobytes() for text, row in vectors("a", "bb", "").items()
    }
    again.close()


def test_another_model_has_vectors_of_its_own(kept):
    other = VectorCache({**MODEL, "weights": "2"}, kept.file.parent)
    assert other.get(["a"]) == {}
    other.close()


def test_many_texts_are_found_at_once(kept):
    many = {f"text {number}": np.full(4, number, np.float32) for number in range(3 * disk.CHUNK + 1)}
    kept.put(many)
    found = kept.get(list(many))
    assert all(np.array_equal(found[text], row) for text, row in many.items())


FILL = """
import sys, numpy as np
from pathlib import Path
from rsso_dspy.embedders.vector_cache import VectorCache
cache = VectorCache({"route": "test"}, Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    cache.put({f"text {number}": np.full(8, number, np.float32)})
"""


def test_two_processes_fill_it_together(tmp_path):
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    fillers = [subprocess.Popen([*command, *ends], **pipes) for ends in (("0", "700"), ("300", "1000"))]
    for filler in fillers:
        assert filler.stdout.readline() == "ready\n"
    for filler in fillers:
        filler.stdin.write("go\n")
        filler.stdin.flush()
    for filler in fillers:
        _, err = filler.communicate(timeout=120)
        assert (filler.returncode, err) == (0, "")
    cache = VectorCache({"route": "test"}, tmp_path)
    found = cache.get([f"text {number}" for number in range(1000)])
    cache.close()
    assert len(found) == 1000
    assert all(np.array_equal(row, np.full(8, int(text.split()[1]), np.float32)) for text, row in found.items())


def one_warning(caplog) -> str:
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    return record.getMessage()


def test_a_damaged_file_is_left_aside_with_one_warning(kept, tmp_path, caplog):
    kept.file.write_bytes(b"no database at all" * 400)
    cache = VectorCache(MODEL, tmp_path)
    for _ in range(2):
        assert cache.get(["a"]) == {}
        cache.put(vectors("ccc"))
    assert str(kept.file) in one_warning(caplog)
    assert "embedder.cache=false" in one_warning(caplog)


def test_a_file_that_is_damaged_further_in_gives_no_wrong_vector(tmp_path):
    cache = VectorCache(MODEL, tmp_path)
    many = {f"text {number}": np.full(384, number, np.float32) for number in range(300)}
    cache.put(many)
    cache.close()
    data = bytearray(cache.file.read_bytes())
    for place in range(disk.PAGE, len(data), 997):
        data[place] ^= 0xFF
    cache.file.write_bytes(bytes(data))
    again = VectorCache(MODEL, tmp_path)
    found = again.get(list(many))
    again.put({"new": np.ones(384, np.float32)})
    again.close()
    assert len(found) < len(many)
    assert all(np.array_equal(row, many[text]) for text, row in found.items())


def test_a_vector_that_changed_on_disk_is_not_used(kept):
    with sqlite3.connect(kept.file) as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(16)")
    connection.close()
    assert kept.get(["a"]) == {}
    kept.put(vectors("a"))
    assert np.array_equal(kept.get(["a"])["a"], vectors("a")["a"])


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = VectorCache(MODEL, tmp_path / "file" / "embeddings")
    for _ in range(2):
        cache.put(vectors("a"))
        assert cache.get(["a"]) == {}
    assert "not cached" in one_warning(caplog)


def test_a_full_file_still_answers(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(disk, "LIMIT", 20 * disk.PAGE)
    cache = VectorCache(MODEL, tmp_path)
    many = {f"text {number}": np.full(384, number, np.float32) for number in range(60)}
    for text, row in many.items():
        cache.put({text: row})
    found = cache.get(list(many))
    assert 10 < len(found) < 60
    assert cache.file.stat().st_size <= 20 * disk.PAGE
    assert "no more vectors are stored" in one_warning(caplog)
    cache.close()


def test_a_file_that_another_process_holds_stops_nothing(monkeypatch, kept, caplog):
    monkeypatch.setattr(disk, "PATIENCE", 0.05)
    holder = sqlite3.connect(kept.file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    kept.put(vectors("ccc"))
    holder.close()
    assert "locked" in one_warning(caplog)


def test_values_are_no_pickles(kept):
    with sqlite3.connect(kept.file) as connection:
        rows = [row for (row,) in connection.execute("SELECT vector FROM vectors")]
    connection.close()
    assert sorted(rows) == sorted(row.tobytes() for row in vectors("a", "bb", "").values())
