"""What makes recall quick, and what sessions ran: one SQLite file per project, in the user's folder.

    with open_index(root) as index:
        index.find_by_words(["npm", "build"])

It can be deleted, is rebuilt when it is damaged, and follows the folder by itself: when files came, went or were
replaced there (a git pull, most editors), those are read again. A file that was written over in place leaves no trace
in its folder: files are looked at one by one when a session starts, and by the verbs. Writers take turns by its lock.
Nothing in it is trusted more than files: an entry is read from its file before it is shown.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator

from reflexion.entry import Entry
from reflexion.entry_files import get_folder, list_files, load
from reflexion.sessions import Sessions
from reflexion.user_files import get_limit, get_project_folder, is_own, make_private_folder, reads_others

VERSION = "3"
MOST_READ = 300
"""Files that one call reads again; the rest waits for the next call, or for `rebuild-index`."""
MOST_CHECKED = 2_000
"""Files that are looked at one by one when a session starts: with more of them it takes as many starts."""
EVERY = 1_000_000
"""Files that a verb looks at: all."""
MOST_CANDIDATES = 24
"""Entries that are scored for one prompt."""

_TABLES = """
CREATE TABLE IF NOT EXISTS entry(id TEXT PRIMARY KEY, stamp TEXT, own INT, trigger_key TEXT, command TEXT, words INT);
CREATE INDEX IF NOT EXISTS by_trigger ON entry(trigger_key);
CREATE INDEX IF NOT EXISTS by_command ON entry(command);
CREATE TABLE IF NOT EXISTS word(word TEXT, id TEXT, PRIMARY KEY(word, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS word_of ON word(id);
CREATE TABLE IF NOT EXISTS note(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ran(number INTEGER PRIMARY KEY, session TEXT, command TEXT, ok INT, typed TEXT, at REAL);
CREATE TABLE IF NOT EXISTS open_failure(session TEXT, id TEXT, command TEXT, typed TEXT, number INT, at REAL,
  PRIMARY KEY(session, id));
CREATE TABLE IF NOT EXISTS shown(session TEXT, id TEXT, place TEXT, times INT, number INT, at REAL,
  PRIMARY KEY(session, id));
CREATE TABLE IF NOT EXISTS waiting(number INTEGER PRIMARY KEY, session TEXT, block TEXT, at REAL);
CREATE TABLE IF NOT EXISTS silent_call(session TEXT, call TEXT, command TEXT, at REAL, PRIMARY KEY(session, call));
CREATE TABLE IF NOT EXISTS tally(what TEXT PRIMARY KEY, times INT) WITHOUT ROWID;
"""
_OUTDATED = "DROP TABLE IF EXISTS ran;DROP TABLE IF EXISTS open_failure;DROP TABLE IF EXISTS shown;"
"""What an older version kept of sessions, in another form."""


class Index(Sessions):
    """An open index. Changes are kept when the block that opened it ends."""

    def __init__(self, root: str, connection: sqlite3.Connection):
        super().__init__(connection)
        self.root = root
        self.shares = reads_others(root)

    def follow_folder(self) -> None:
        """Read what came, changed or went in the folder since the last time. A folder that did not change costs one
        look at it."""
        try:
            seen = os.stat(get_folder(self.root)).st_mtime_ns
        except OSError:
            seen = 0
        if self._get_note("folder") == str(seen):
            return
        known = dict(self._all.execute("SELECT id, stamp FROM entry"))
        files = {name[:-5]: self._stamp(name) for name in list_files(self.root)}
        self._forget(known.keys() - files.keys())
        changed = [entry_id for entry_id, stamp in files.items() if known.get(entry_id) != stamp]
        for entry_id in changed[:MOST_READ]:
            entry = load(self.root, entry_id)
            self.put(entry) if entry else self._put_damaged(entry_id, files[entry_id])
        self._set_note("folder", str(seen) if len(changed) <= MOST_READ else "")

    def check_files(self, most: int) -> None:
        """Look at so many files one by one, behind those that were looked at the last time, and read what was written
        over in place."""
        query = "SELECT id, stamp FROM entry WHERE id > ? ORDER BY id LIMIT ?"
        known = self._all.execute(query, (self._get_note("checked"), most)).fetchall()
        known += self._all.execute(query, ("", most - len(known))).fetchall()  # and from the beginning
        folder = get_folder(self.root)
        changed = []
        for entry_id, stamp in dict(known).items():
            if (now := self._stamp(f"{entry_id}.json", folder)) not in ("", stamp):
                changed.append((entry_id, now))
        for entry_id, now in changed[:MOST_READ]:
            entry = load(self.root, entry_id)
            self.put(entry) if entry else self._put_damaged(entry_id, now)
        self._set_note("checked", known[-1][0] if known else "")

    def rebuild(self) -> int:
        """Read every file again; how many entries there are."""
        from reflexion.entry_files import load_all

        self._all.execute("DELETE FROM entry")
        self._all.execute("DELETE FROM word")
        entries, damaged = load_all(self.root)
        for entry in entries:
            self.put(entry)
        for name in damaged:
            self._put_damaged(name[:-5], self._stamp(name))
        self.note_folder()
        return len(entries)

    def put(self, entry: Entry) -> None:
        """Take in an entry as it is in its file."""
        from reflexion.commands import name_program, normalize_command
        from reflexion.triggers import list_keywords, normalize_trigger

        words = entry.keywords or list_keywords(entry.trigger, entry.context, entry.resolution)
        usable = not entry.promoted
        self._forget([entry.id])
        row = (
            entry.id,
            self._stamp(f"{entry.id}.json"),
            int(is_own(self.root, entry.id, entry.owner)),
            make_trigger_key(name_program(entry.context), normalize_trigger(entry.trigger)),
            normalize_command(entry.context, self.root) if usable and entry.type == "error" else None,
            len(words),
        )
        self._all.execute("INSERT INTO entry VALUES(?,?,?,?,?,?)", row)
        if usable and entry.resolution:
            self._all.executemany("INSERT OR IGNORE INTO word VALUES(?,?)", [(word, entry.id) for word in words])

    def note_folder(self) -> None:
        """Take the folder as it is now for known: after a write of one's own, while one holds the lock."""
        try:
            self._set_note("folder", str(os.stat(get_folder(self.root)).st_mtime_ns))
        except OSError:
            self._set_note("folder", "")

    def count_entries(self) -> int:
        """Files that are known, damaged ones too."""
        return int(self._all.execute("SELECT count(*) FROM entry").fetchone()[0])

    def find_by_trigger(self, key: str) -> str | None:
        """The entry of a trigger that this user may count up."""
        query = "SELECT id FROM entry WHERE trigger_key=? AND (own=1 OR ?) ORDER BY own DESC, id LIMIT 1"
        found = self._all.execute(query, (key, self.shares)).fetchone()
        return found[0] if found else None

    def find_by_command(self, command: str) -> list[str]:
        """Entries of a command that failed before, newest id first."""
        query = "SELECT id FROM entry WHERE command=? AND (own=1 OR ?) ORDER BY id DESC LIMIT 8"
        return [row[0] for row in self._all.execute(query, (command, self.shares))]

    def find_by_words(self, words: list[str]) -> list[str]:
        """Entries with a resolution that hold at least two of these words, most of them first. Words that stand in a
        fifth of all entries or more find none by themselves."""
        if not words:
            return []
        every = self.count_words(words)
        most = max(200, self.count_entries() // 5)
        rare = [word for word in sorted(every, key=lambda word: every[word]) if every[word] <= most][:16]
        if not rare:
            rare = sorted(every, key=lambda word: every[word])[:2]
        signs = ",".join("?" * len(words))
        query = (
            f"SELECT id FROM word WHERE word IN ({signs}) AND id IN (SELECT w.id FROM word w JOIN entry e ON e.id=w.id "
            f"WHERE w.word IN ({','.join('?' * len(rare))}) AND (e.own=1 OR ?)) "
            "GROUP BY id HAVING count(*) > 1 ORDER BY count(*) DESC, id DESC LIMIT ?"
        )
        return [row[0] for row in self._all.execute(query, (*words, *rare, self.shares, MOST_CANDIDATES))]

    def count_words(self, words: Iterable[str]) -> dict[str, int]:
        """In how many entries each of these words stands; those that stand in none are left out."""
        asked = list(words)
        signs = ",".join("?" * len(asked))
        return dict(self._all.execute(f"SELECT word, count(*) FROM word WHERE word IN ({signs}) GROUP BY word", asked))

    def list_recallable(self) -> list[str]:
        """Entries that vectors are compared with: all that have a resolution, the newest thousand."""
        return [row[0] for row in self._all.execute("SELECT DISTINCT id FROM word ORDER BY id DESC LIMIT 1000")]

    def has_struck_commands(self) -> bool:
        """Whether any command had a secret in it."""
        query = "SELECT 1 FROM entry WHERE command LIKE '%***%' LIMIT 1"
        return self._all.execute(query).fetchone() is not None

    def _forget(self, ids: Iterable[str]) -> None:
        for entry_id in ids:
            self._all.execute("DELETE FROM word WHERE id=?", (entry_id,))
            self._all.execute("DELETE FROM entry WHERE id=?", (entry_id,))

    def _put_damaged(self, entry_id: str, stamp: str) -> None:
        self._forget([entry_id])
        self._all.execute("INSERT INTO entry VALUES(?,?,0,NULL,NULL,0)", (entry_id, stamp))

    def _stamp(self, name: str, folder: str = "") -> str:
        try:
            found = os.stat(os.path.join(folder or get_folder(self.root), name))
        except OSError:
            return ""
        return f"{found.st_mtime_ns}:{found.st_size}"

    def _get_note(self, key: str) -> str:
        found = self._all.execute("SELECT value FROM note WHERE key=?", (key,)).fetchone()
        return str(found[0]) if found else ""

    def _set_note(self, key: str, value: str) -> None:
        self._all.execute("INSERT OR REPLACE INTO note VALUES(?,?)", (key, value))


def make_trigger_key(program: str, trigger: str) -> str:
    """What makes two failures the same: the program, and what of the trigger stays the same."""
    return f"{program}\n{trigger}"


@contextlib.contextmanager
def open_index(root: str, checks: int = 0) -> Iterator[Index]:
    """The project's index, followed to what the folder holds; `checks` files in it are looked at one by one. Raises
    `OSError` and `sqlite3.Error` where it cannot be opened in half of a hook's limit; a damaged one is made anew."""
    folder = get_project_folder(root)
    make_private_folder(folder)
    path = os.path.join(folder, "index.db")
    try:
        connection = _connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        discard(path)
        connection = _connect(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        index = Index(root, connection)
        try:
            index.follow_folder()
            if checks:
                index.check_files(checks)
            yield index
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            connection.close()
            discard(path)
            raise
        connection.execute("COMMIT")
    finally:
        connection.close()


def discard(path: str) -> None:
    """Delete an index that is of no use."""
    for ending in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(path + ending)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=get_limit() / 2, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found != int(VERSION):
            connection.executescript(
                "BEGIN IMMEDIATE;" + (_OUTDATED if found else "") + _TABLES + f"PRAGMA user_version={VERSION};COMMIT;"
            )
    except sqlite3.Error:
        connection.close()
        raise
    return connection
