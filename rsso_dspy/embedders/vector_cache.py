"""Vector cache on disk, so that later runs need not compute or pay for vectors again.

One SQLite file in write-ahead mode, `embeddings/vectors.sqlite` in the user's cache folder, read and written by any
number of processes. A value is the vector's float32 bytes with their CRC-32, so a damaged value is never used. It uses
SQLite directly rather than `diskcache`, which reads one key at a time and writes metadata on every access: a warm run
needs thousands of texts, and here a whole batch is one query.

The file grows by some 2 KB per text of 384 dimensions, up to `LIMIT`; then nothing is added, but existing vectors still
serve. Vectors of unused models stay. Deleting the folder is always safe.

A cache that is damaged, full, locked or not writable never stops a run: it is ignored with one warning.
"""

import hashlib
import json
import logging
import sqlite3
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from rsso_dspy.files import explain_unreadable, get_cache_folder

LIMIT = 1 << 30
"""Maximum size in bytes: about half a million texts of 384 dimensions."""
PAGE = 4096
"""Bytes of an SQLite page."""
PATIENCE = 10.0
"""Seconds to wait for another writing process."""
CHUNK = 500
"""Keys per query; older SQLite accepts at most 999."""

log = logging.getLogger(__name__)


class VectorCache:
    """Vectors of one model. Thread-safe; opens the file on first use.

    `identity` is everything that a vector depends on besides its text.
    """

    def __init__(self, identity: Mapping[str, str], folder: Path | None = None):
        self._prefix = hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).digest()
        self.file = (folder or get_cache_folder() / "embeddings") / "vectors.sqlite"
        self._connection: sqlite3.Connection | None = None
        self._aside = False
        self._lock = threading.Lock()

    def get(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the cached vectors by text."""
        keys = {self._hash_text(text): text for text in texts}
        rows: list[tuple[bytes, bytes, int]] = []
        with self._lock:
            try:
                if connection := self._open_connection():
                    wanted = list(keys)
                    for start in range(0, len(wanted), CHUNK):
                        part = wanted[start : start + CHUNK]
                        marks = ",".join("?" * len(part))
                        query = f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})"
                        rows += connection.execute(query, part).fetchall()
            except (OSError, sqlite3.Error) as error:
                self._stop_caching(error)
        return {
            keys[key]: np.frombuffer(vector, np.float32)
            for key, vector, checksum in rows
            if isinstance(vector, bytes) and vector and len(vector) % 4 == 0 and zlib.crc32(vector) == checksum
        }

    def put(self, vectors: Mapping[str, np.ndarray]) -> None:
        rows = [(self._hash_text(text), row := vector.tobytes(), zlib.crc32(row)) for text, vector in vectors.items()]
        with self._lock:
            try:
                if connection := self._open_connection():
                    with connection:
                        connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            except (OSError, sqlite3.Error) as error:
                self._stop_caching(error)

    def close(self) -> None:
        """Close the file; it is reopened on demand."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()

    def _hash_text(self, text: str) -> bytes:
        return hashlib.sha256(self._prefix + hashlib.sha256(text.encode()).digest()).digest()

    def _open_connection(self) -> sqlite3.Connection | None:
        if self._connection is None and not self._aside:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            for file in (self.file, Path(f"{self.file}.lock")):
                if why := explain_unreadable(file):
                    raise OSError(f"{file}: {why}")
            # SQLite does not wait when several processes switch a new file to write-ahead mode.
            with FileLock(f"{self.file}.lock", timeout=PATIENCE):
                self._connection = sqlite3.connect(self.file, timeout=PATIENCE, check_same_thread=False)
                for setting in (f"page_size={PAGE}", "journal_mode=WAL", "synchronous=NORMAL"):
                    self._connection.execute(f"PRAGMA {setting}")
                self._connection.execute(f"PRAGMA max_page_count={LIMIT // PAGE}")
                with self._connection:
                    self._connection.execute(
                        "CREATE TABLE IF NOT EXISTS vectors "
                        "(key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL)"
                    )
        return self._connection

    def _stop_caching(self, error: Exception) -> None:
        """Disable the cache with a warning. A full file stays open for reading."""
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error) and self._connection is not None:
            if not self._aside:
                log.warning("no more vectors are stored in %s (%s); delete it to start afresh", self.file, error)
        else:
            log.warning("vectors are not cached in %s (%s); delete it, or set embedder.cache=false", self.file, error)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        self._aside = True
