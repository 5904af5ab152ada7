"""The vector index on disk: nearest entries, exclusion, several processes, other embedders."""

import subprocess
import sys

import pytest

from rsso_dspy.embedders import vector_index
from rsso_dspy.embedders.vector_index import Entry, VectorIndex
from rsso_dspy.errors import RunMismatch, UsageError
from tests.memory.memory_cases import words_embed

ENTRIES = [
    Entry("boil::1", "boil water in a pot", {"plan": "a"}),
    Entry("boil::2", "boil tin in a pot", {"plan": "b"}),
    Entry("grow::1", "grow a plant", {"plan": "c"}),
]

CHILD = """
import sys
from pathlib import Path
from rsso_dspy.embedders.vector_index import Entry, VectorIndex
from tests.memory.memory_cases import words_embed
with VectorIndex(Path(sys.argv[1]), "words", create=True) as index:
    for n in range(20):
        index.add([Entry(f"{sys.argv[2]}::{n}", f"task {n}"), Entry("shared::0", f"task {n}")], words_embed)
"""


def test_the_nearest_are_found_and_the_excluded_never(tmp_path):
    with VectorIndex(tmp_path / "i", "words", create=True) as index:
        assert index.find_nearest(words_embed(["boil"])[0], 3) == []
        assert (index.add(ENTRIES, words_embed), index.add(ENTRIES, words_embed)) == (3, 0)
    with VectorIndex(tmp_path / "i", "words") as index:
        asked = words_embed(["boil water"])[0]
        assert index.find_nearest(asked, 2) == ENTRIES[:2]
        assert index.find_nearest(asked, 2, exclude="boil::1") == ENTRIES[1:]


def test_a_large_index_ranks_first_and_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "EXACT", 50)
    monkeypatch.setattr(vector_index, "RANKED", 40)
    texts = [f"task {n % 30} of kind k{n // 30}" for n in range(120)]
    vectors = words_embed(texts)
    with VectorIndex(tmp_path / "i", "words", create=True) as index:
        for start in (0, 40, 80):
            part = slice(start, start + 40)
            index.add([Entry(text, text) for text in texts[part]], lambda _, part=part: vectors[part])
            index.find_nearest(vectors[0], 1)
        for number in (0, 60, 119):
            assert index.find_nearest(vectors[number], 1) == [Entry(texts[number], texts[number])]


def test_excluded_entries_do_not_fill_the_shortlist(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "EXACT", 20)
    monkeypatch.setattr(vector_index, "RANKED", 5)
    entries = [Entry("me::1" if n < 40 else f"other::{n}", f"boil water {n}") for n in range(60)]
    with VectorIndex(tmp_path / "i", "words", create=True) as index:
        index.add(entries, words_embed)
        found = index.find_nearest(words_embed(["boil water 1"])[0], 3, exclude="me::1")
    assert len(found) == 3
    assert all(entry.key != "me::1" for entry in found)


def test_several_processes_write_one_index_while_another_reads(tmp_path):
    file = tmp_path / "i"
    with VectorIndex(file, "words", create=True) as reader:
        children = [subprocess.Popen([sys.executable, "-c", CHILD, str(file), name]) for name in ("a", "b")]
        asked = words_embed(["task 3"])[0]
        while any(child.poll() is None for child in children):
            assert len(reader.find_nearest(asked, 5)) <= 5
        assert [child.returncode for child in children] == [0, 0]
        assert len(reader) == 60
        assert {entry.key for entry in reader.find_nearest(asked, 3)} == {"a::3", "b::3", "shared::0"}


def test_an_index_of_another_embedder_is_refused_by_name(tmp_path):
    VectorIndex(tmp_path / "i", "lexical", create=True).close()
    with pytest.raises(RunMismatch, match=r"of the embedder lexical, not hash.*embedder\.model=lexical"):
        VectorIndex(tmp_path / "i", "hash")
    with pytest.raises(RunMismatch):
        VectorIndex(tmp_path / "i", "hash", create=True)


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be read as one" * 20])
def test_a_file_that_is_no_index_is_refused(tmp_path, content):
    (tmp_path / "i").write_bytes(content)
    with pytest.raises(UsageError, match="no vector index"):
        VectorIndex(tmp_path / "i", "hash")
    with pytest.raises(UsageError, match="reflections index"):
        VectorIndex(tmp_path / "missing", "hash")
