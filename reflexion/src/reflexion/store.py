"""A project's entries on the disk, and what is kept of this user outside of every project.

.reflexion/entries/RFX-YYYYMMDD-xxx.json    one learning each
.reflexion/index.txt                        a line each keyword, command ($) and trigger (!), a tab, ids: made for grep;
                                            * is all entries, + those seen often enough to be a rule

The index follows the files by itself: verbs and the start of a session read again what came, went or was written since;
other hooks look only whether files came or went, for the dates of 10,000 files take 40 ms. Links are not followed. The
user's own folder has the lock, the sessions and the mark `shared` of each project, what `install` found, and the log.
"""

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from zlib import crc32

from reflexion import ReflexionError
from reflexion.commands import name_program
from reflexion.entry import OFTEN_ENOUGH, Entry, dump_entry, format_time, read_entry
from reflexion.triggers import normalize_trigger

NAME, HEADER = ".reflexion", "# reflexion index 2: keyword, command ($) or trigger (!), a tab, ids; files read at "
OFTEN = "+"
MOST_READ, CLOCK = 1_000, 50_000_000
"""Files that one call reads again; the rest waits for the next one. Nanoseconds by which the date of a file may lag."""


def list_upwards(folder: str) -> Iterator[str]:
    """A folder and those above it, without the uppermost."""
    here = os.path.abspath(folder) if folder else "/"
    while here != os.path.dirname(here):
        yield here
        here = os.path.dirname(here)


def find_upwards(start: str, name: str) -> str:
    """The nearest folder upwards that has something of this name; empty where there is none. Never the home folder."""
    folders = (each for each in list_upwards(start) if each != os.path.expanduser("~"))
    return next((each for each in folders if os.path.exists(os.path.join(each, name))), "")


def find_root(start: str) -> str:
    """The project that a folder is in: the nearest one with `.reflexion/`, else the repository."""
    return find_upwards(start, NAME) or find_upwards(start, ".git")


def has_folder(root: str) -> bool:
    return os.path.isdir(os.path.join(root, NAME))


def make_folder(root: str, shared: bool = False) -> str:
    """Begin: `.reflexion/` with its entries' folder, private unless `shared`. What is there stays. The folder."""
    os.makedirs(get_entries_folder(root), exist_ok=True)
    ignore = os.path.join(root, NAME, ".gitignore")
    if shared or not os.path.exists(ignore):
        write_file(ignore, "index.txt\n" if shared else "*\n")
    return os.path.join(root, NAME)


def get_entries_folder(root: str) -> str:
    """Where the entries of a project are. Raises `OSError` where that is behind a link: a repository may bring one."""
    for place in (os.path.join(root, NAME), os.path.join(root, NAME, "entries")):
        if os.path.islink(place):
            raise OSError(errno.ELOOP, "that is a link, and is not followed; put a folder there", place)
    return place


class Store:
    """The entries of a project, open to this process alone until the block ends."""

    def __init__(self, root: str, quick: bool = False):
        self.root, self.quick, self.state = root, quick, get_project_state(root)
        self._index = os.path.join(root, NAME, "index.txt")
        self._lines: dict[str, str] = {}
        self._read_at = 0

    def __enter__(self) -> "Store":
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        self._lock = os.open(os.path.join(self.state, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # hooks are ended after two seconds
        try:
            head, *lines = read_regular(self._index, 1 << 28).decode("utf-8", "replace").splitlines()
            self._read_at = int(head.removeprefix(HEADER))
            self._lines = dict(line.split("\t", 1) for line in lines)
        except (OSError, ValueError):
            pass  # it is made anew
        try:
            self.follow_files()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def load_entry(self, entry_id: str) -> Entry | None:
        """The entry of this id, which is the name of its file; None when that is gone, or holds no entry."""
        data = self.read_data(entry_id)
        return read_entry({**data, "id": entry_id}) if data else None

    def read_data(self, entry_id: str) -> dict[str, Any]:
        """What the file of an entry holds."""
        return read_json(os.path.join(get_entries_folder(self.root), f"{entry_id}.json"))

    def find_entry(self, end: str) -> Entry:
        """The entry that has this id, or one that ends so. Raises `ReflexionError`."""
        ids = [each for each in self.list_ids("*") if each == end or each.endswith(f"-{end}")]
        if len(ids) != 1 or not (entry := self.load_entry(ids[0])):
            raise ReflexionError(f"no entry {end!r}: `ls .reflexion/entries` names all")
        return entry

    def load_all(self) -> tuple[list[Entry], list[str]]:
        """All entries, by id, and the names of files that hold none: they are left alone."""
        loaded = {name: self.load_entry(name) for name in sorted(self._list_files())}
        return [entry for entry in loaded.values() if entry], [f"{name}.json" for name in loaded if not loaded[name]]

    def save_entry(self, entry: Entry) -> Entry:
        """Write an entry, without what looks like a secret; what was written. Raises `OSError`."""
        entry = entry.strike_secrets()
        text = json.dumps(dump_entry(entry), indent=2, ensure_ascii=False) + "\n"
        write_file(os.path.join(get_entries_folder(self.root), f"{entry.id}.json"), text)
        self._index_again({entry.id}, [entry.id])
        return entry

    def make_id(self, now: float) -> str:
        ids, day = set(self.list_ids("*")), format_time(now)[:10].replace("-", "")
        names = (f"RFX-{day}-{os.urandom(6).hex()[:letters]}" for letters in (3, 3, 6, 12))
        return next(name for name in names if name not in ids)

    def list_ids(self, key: str) -> list[str]:
        """Entries of a key of the index; of `*` all."""
        return self._lines.get(key, "").split()

    def list_commands(self, program: str) -> list[tuple[str, list[str]]]:
        """Commands of a program that failed before, with their entries."""
        return [(key[2:], ids.split()) for key, ids in self._lines.items() if key.startswith(f"$ {program}")]

    @cached_property
    def foreign(self) -> frozenset[str]:
        """Entries that others may have written, where this user did not say that they are trusted: those that git
        tracks, read off its index; where that is in a form that is not read here, all."""
        place = os.path.join(find_upwards(self.root, ".git"), ".git")
        try:
            if os.path.isfile(place):  # of a worktree
                where = read_regular(place).decode().partition("gitdir:")[2].strip()
                place = os.path.join(os.path.dirname(place), where)
            data = read_regular(os.path.join(place, "index"), 1 << 30)
        except (OSError, ValueError):
            return frozenset()
        if is_shared(self.root):
            return frozenset()
        if data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or any("sharedindex" in name for name in os.listdir(place)):
            return frozenset(self.list_ids("*"))
        return frozenset(each.decode() for each in re.findall(rb"\.reflexion/entries/([\w-]+)\.json", data))

    def _list_files(self) -> list[str]:
        folder = get_entries_folder(self.root)
        names = os.listdir(folder) if os.path.exists(folder) else []
        return [name[:-5] for name in names if name.endswith(".json") and name[0] != "."]

    def follow_files(self, anew: bool = False) -> None:
        """Read what came, went or, unless `quick`, changed since the dates of all files were looked at; `anew`: all."""
        self._lines, most = ({}, 1 << 30) if anew else (self._lines, MOST_READ)
        known, now, names = set(self.list_ids("*")), time.time_ns(), set(self._list_files())
        places = {} if self.quick else {name: f"{get_entries_folder(self.root)}/{name}.json" for name in names & known}
        edited = [name for name, place in places.items() if os.lstat(place).st_mtime_ns >= self._read_at]
        changed = [*edited, *(names - known)][:most]
        if changed or known - names:
            self._read_at = self._read_at if self.quick or len(changed) == most else now - CLOCK
            self._index_again((known - names) | set(changed), changed)

    def _index_again(self, dropped: set[str], added: list[str]) -> None:
        """Take entries out of the lines and into them; of a file that holds none the id alone."""
        lines = self._lines
        for key, text in list(lines.items()):
            if not dropped.isdisjoint(ids := text.split()):
                lines[key] = " ".join(each for each in ids if each not in dropped)
        for entry_id in added:
            entry, keys = self.load_entry(entry_id), {"*"}
            if entry:
                entry = entry.strike_secrets()
                is_often = entry.occurrences >= OFTEN_ENOUGH and entry.is_known and not entry.promoted
                keys |= {OFTEN} if is_often else set()
                keys |= {*entry.words, make_trigger_key(entry.context, entry.trigger)}
                keys |= {f"$ {entry.context}"} if entry.type == "error" and entry.context else set()
            for key in keys:
                lines[key] = f"{lines.get(key, '')} {entry_id}".strip()
        text = "".join(f"{key}\t{lines[key]}\n" for key in sorted(lines) if lines[key])
        write_file(self._index, f"{HEADER}{self._read_at}\n{text}")


def make_trigger_key(command: str, trigger: str) -> str:
    """What makes two failures the same: the program, and what of the trigger stays the same."""
    return f"! {name_program(command)}: {normalize_trigger(trigger)}"


def get_home() -> str:
    """The user's folder; it need not exist yet."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.path.abspath(os.path.expanduser(os.environ.get("REFLEXION_HOME") or f"{state}/reflexion"))


def get_project_state(root: str) -> str:
    """Where the lock and the sessions of a project are."""
    whole = os.path.realpath(root)
    name = re.sub(r"[^\w.-]", "_", os.path.basename(whole))[:40]
    return os.path.join(get_home(), "projects", f"{name}-{crc32(os.fsencode(whole)):08x}")


def is_shared(root: str) -> bool:
    """Whether this user wants entries that git tracks recalled in this project: nobody who pushes decides it."""
    return os.path.exists(os.path.join(get_project_state(root), "shared"))


def read_regular(path: str, most: int = 1 << 16, last: bool = False) -> bytes:
    """The first or last bytes of a file that is one: no link is followed, no pipe is waited for. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "that is no file", path)
        file.seek(max(0, file.seek(0, os.SEEK_END) - most) if last else 0)
        return file.read(most)


def read_json(path: str, most: int = 1 << 16) -> dict[str, Any]:
    """The JSON object of a small file; an empty one for a file that is missing, or holds none."""
    try:
        data = json.loads(read_regular(path, most).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def write_file(path: str, text: str) -> None:
    """Write a file, whole or not at all: a link stays one, rights and line ends stay. Raises `OSError`."""
    real = os.path.realpath(path)
    os.makedirs(os.path.dirname(real), mode=0o700 if real.startswith(get_home()) else 0o777, exist_ok=True)
    own = os.path.join(os.path.dirname(real), f".{os.path.basename(real)}.{os.getpid()}")
    try:
        with open(own, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        if os.path.exists(real):
            os.chmod(own, stat.S_IMODE(os.stat(real).st_mode))
        os.replace(own, real)
    finally:
        if os.path.exists(own):
            os.unlink(own)
