"""A vector index on disk: texts with their vectors and some JSON data, and the nearest of them to a text.

    with VectorIndex(path, "all-MiniLM-L6-v2") as index:
        index.add([Entry("boil::3", "Your task is to boil water.", {"plan": "..."})], embed)
        index.find_nearest(embed(["Your task is to boil tin."])[0], 3, exclude="boil::9")

One SQLite file in write-ahead mode, read and written by any number of processes, with the vectors in numpy while it is
open: up to `EXACT` entries all are compared, beyond that the best `RANKED` by the first `HEAD` coordinates of a fixed
rotation. Plain SQLite is in every Python; sqlite-vec compares all entries too, and would be one more binary to install.
An index of another embedder is refused by name: its vectors mean something else.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rsso_dspy.errors import RunMismatch, UsageError

KIND, SCHEMA = "rsso-dspy vector index", "1"
EXACT = 20_000
"""Entries that are all compared in full."""
HEAD, RANKED = 64, 500
"""Coordinates that a larger index is ranked by at first, and entries that are then compared in full."""
PATIENCE = 10.0
"""Seconds to wait for another writing process."""

Embed = Callable[[Sequence[str]], np.ndarray]

_TABLES = """
CREATE TABLE about(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries(
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL, vector BLOB NOT NULL,
    UNIQUE(key, text, data));
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. Equal entries are kept once."""

    key: str
    """What it is about, e.g. a variant; searches can exclude it."""
    text: str
    data: dict[str, Any] = field(default_factory=dict)


class VectorIndex:
    """An index file, opened for one embedder; made when `create` is set and it does not exist. Thread-safe.

    Raises `RunMismatch` for an index of another embedder, and `UsageError` for a file that is none or damaged.
    """

    def __init__(self, path: Path, embedder: str, create: bool = False):
        if not create and not path.is_file():
            raise UsageError(f"there is no vector index {path}; `rsso-dspy reflections index RUN -o FILE` makes one")
        self.path = path
        self._lock = threading.Lock()
        self._last, self._keys = 0, np.zeros(0, dtype=object)
        self._ids = np.zeros(0, np.int64)
        self._vectors = np.zeros((0, 0), np.float32)
        self._heads = np.zeros((0, 0), np.float32)
        try:
            self._file = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
            found = self._read_about(create, embedder)
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{path} is no vector index, or damaged ({error}); make it again") from None
        if found.get("kind") != KIND or found.get("schema") != SCHEMA:
            raise UsageError(f"{path} is no vector index that this version reads; make it again")
        if found.get("embedder") != embedder:
            raise RunMismatch(
                f"{path} is an index of the embedder {found.get('embedder')}, not {embedder}: similarities would mean "
                f"nothing; use embedder.model={found.get('embedder')}, or make it again"
            )

    def _read_about(self, create: bool, embedder: str) -> dict[str, str]:
        tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('about', 'entries')"
        if create:
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("BEGIN IMMEDIATE")
            if not self._file.execute(tables).fetchone()[0]:
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._file.execute(statement)
                about = {"kind": KIND, "schema": SCHEMA, "embedder": embedder}
                self._file.executemany("INSERT INTO about VALUES(?, ?)", about.items())
            self._file.execute("COMMIT")
        if self._file.execute(tables).fetchone()[0] != 2:
            return {}
        return dict(self._file.execute("SELECT name, value FROM about"))

    def add(self, entries: Sequence[Entry], embed: Embed) -> int:
        """Add entries in one transaction; return how many are new."""
        if not entries:
            return 0
        vectors = np.ascontiguousarray(embed([entry.text for entry in entries]), dtype=np.float32)
        rows = [
            (entry.key, entry.text, json.dumps(entry.data, sort_keys=True, ensure_ascii=False), vector.tobytes())
            for entry, vector in zip(entries, vectors, strict=True)
        ]
        with self._lock:
            before = self._file.total_changes
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("INSERT OR IGNORE INTO entries(key, text, data, vector) VALUES(?, ?, ?, ?)", rows)
            self._file.execute("COMMIT")
            return self._file.total_changes - before

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM entries").fetchone()[0])

    def find_nearest(self, vector: np.ndarray, number: int, exclude: str | None = None) -> list[Entry]:
        """The entries whose vectors are most similar, nearest first; none with the key `exclude`. Of equally similar
        ones the older comes first. Entries that other processes have added count."""
        with self._lock:
            self._load_new_entries()
            places = self._rank(np.asarray(vector, np.float32), number, exclude)
            return [self._read_entry(int(self._ids[place])) for place in places]

    def _load_new_entries(self) -> None:
        rows = self._file.execute("SELECT id, key, vector FROM entries WHERE id > ? ORDER BY id", (self._last,))
        found = rows.fetchall()
        if not found:
            return
        vectors = np.frombuffer(b"".join(row[2] for row in found), np.float32).reshape(len(found), -1)
        known = self._vectors if len(self._vectors) else np.zeros((0, vectors.shape[1]), np.float32)
        self._vectors = np.concatenate([known, vectors])
        self._ids = np.concatenate([self._ids, np.array([row[0] for row in found], np.int64)])
        self._keys = np.concatenate([self._keys, np.array([row[1] for row in found], dtype=object)])
        self._last = found[-1][0]
        if len(self._vectors) > EXACT:
            heads = vectors if len(self._heads) else self._vectors
            new = heads @ _make_rotation(vectors.shape[1])
            self._heads = np.concatenate([self._heads, new]) if len(self._heads) else new

    def _rank(self, vector: np.ndarray, number: int, exclude: str | None) -> list[int]:
        if not len(self._vectors):
            return []
        allowed = np.ones(len(self._vectors), bool) if exclude is None else self._keys != exclude
        if len(self._vectors) > EXACT:
            rough = self._heads @ (vector @ _make_rotation(vector.size))
            rough[~allowed] = -np.inf
            most = min(RANKED, len(rough))
            places = np.sort(np.argpartition(rough, len(rough) - most)[-most:])
            places = places[allowed[places]]
        else:
            places = np.flatnonzero(allowed)
        near = np.round(self._vectors[places] @ vector, 6)
        return [int(place) for place in places[np.argsort(-near, kind="stable")[:number]]]

    def _read_entry(self, number: int) -> Entry:
        key, text, data = self._file.execute("SELECT key, text, data FROM entries WHERE id = ?", (number,)).fetchone()
        return Entry(key, text, json.loads(data))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "VectorIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _make_rotation(dimensions: int) -> np.ndarray:
    """The first `HEAD` columns of a fixed rotation, shape (dimensions, HEAD)."""
    drawn = np.random.default_rng(0).standard_normal((dimensions, dimensions))
    columns: np.ndarray = np.linalg.qr(drawn)[0][:, :HEAD].astype(np.float32)
    return columns
