"""A project's entries on the disk, and what is kept of this user outside of every project.

.reflexion/entries/RFX-YYYYMMDD-xxx.json    one learning each
.reflexion/index.txt                        a line each keyword, command ($) and trigger (!), a tab, ids: made for grep
.reflexion/config.json                      settings, all optional
.reflexion/.gitignore                       `*` while the entries are private

The index follows the files by itself: verbs and the start of a session read again what came, went or was written since;
other hooks look only whether files came or went, for the dates of 10,000 files take 40 ms. Nothing in it is trusted
more than files. An entry that git tracks may be anybody's: it is recalled where this user said `init --shared`. Links
are not followed. The user's own folder (`REFLEXION_HOME`, else ~/.local/state/reflexion) has the lock, the sessions
and the mark `shared` of each project, what `install` found, and the log.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from reflexion import ReflexionError
from reflexion.commands import name_program
from reflexion.entry import LONGEST_TEXT, Entry, dump_entry, format_time, read_entry
from reflexion.secrets import strike_text
from reflexion.triggers import list_keywords, normalize_trigger

NAME, HEADER = ".reflexion", "# reflexion index 1: keyword, command ($) or trigger (!), a tab, ids; files read at "
MOST_READ = 1_000
"""Files that one call reads again; the rest waits for the next one."""
CLOCK = 50_000_000
"""Nanoseconds by which the date of a file may lag behind."""
MOST_ENTRIES, MOST_BYTES, LONGEST_LOG = 20_000, 1 << 16, 256_000


def list_upwards(folder: str) -> Iterator[str]:
    """A folder and those above it, without the uppermost."""
    here = os.path.abspath(folder) if folder else "/"
    while here != os.path.dirname(here):
        yield here
        here = os.path.dirname(here)


def find_root(start: str) -> str | None:
    """The project that a folder is in: the nearest one upwards with `.reflexion/`, else the repository; None for the
    home folder, which is no project."""
    folders = [each for each in list_upwards(start) if each != os.path.expanduser("~")]
    begun = next((each for each in folders if has_folder(each)), None)
    return begun or next((each for each in folders if os.path.exists(os.path.join(each, ".git"))), None)


def find_repository(root: str) -> str:
    """The repository that a folder is in; empty where there is none."""
    return next((each for each in list_upwards(root) if os.path.exists(os.path.join(each, ".git"))), "")


def has_folder(root: str) -> bool:
    """Whether the loop has begun in this project."""
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
    return os.path.join(root, NAME, "entries")


def read_settings(root: str) -> tuple[bool, str]:
    """`auto_promote`, false unless config.json says true, and `rules_file`, empty unless it names one of the two."""
    settings = read_json(os.path.join(root, NAME, "config.json"))
    settings = settings if isinstance(settings, dict) else {}
    rules_file = settings.get("rules_file")
    return settings.get("auto_promote") is True, rules_file if rules_file in ("CLAUDE.md", "AGENTS.md") else ""


class Store:
    """The entries of a project, open to this process alone until the block ends. `quick`: files that were edited in
    place are not looked for. Raises `OSError` where another one holds them for half of a hook's limit."""

    def __init__(self, root: str, quick: bool = False):
        self.root, self.quick = root, quick
        self.state = get_project_state(root)

    def __enter__(self) -> Store:
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        self._lock = os.open(os.path.join(self.state, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_for_lock(self._lock)
            self._index = os.path.join(self.root, NAME, "index.txt")
            self._read_index()
            self._foreign: frozenset[str] | None = None
            if has_folder(self.root) and not (self.quick and self._is_current()):
                self._follow_files()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def load_entry(self, entry_id: str) -> Entry | None:
        """The entry of this id; None when its file is gone, or holds no entry of that id."""
        try:
            entry = read_entry(read_json(os.path.join(get_entries_folder(self.root), f"{entry_id}.json")))
        except OSError:
            return None
        return entry if entry and entry.id == entry_id else None

    def load_all(self) -> tuple[list[Entry], list[str]]:
        """All entries, by id, and the names of files that hold none: they are left alone."""
        loaded = {name: self.load_entry(name.removesuffix(".json")) for name in sorted(self._list_files())}
        return [entry for entry in loaded.values() if entry], [name for name, entry in loaded.items() if not entry]

    def save_entry(self, entry: Entry) -> Entry:
        """Write an entry, without what looks like a secret; what was written. Raises `OSError`."""
        texts: Any = {name: " ".join(strike_text(getattr(entry, name)).split())[:LONGEST_TEXT]
                 for name in ("trigger", "context", "resolution", "cwd")}  # fmt: skip
        keywords = entry.keywords or list_keywords(texts["trigger"], texts["context"], texts["resolution"])
        entry = entry._replace(
            **texts,
            notes=tuple(map(strike_text, entry.notes)),
            keywords=tuple(w for w in keywords if strike_text(w) == w),
        )
        text = json.dumps(dump_entry(entry), indent=2, ensure_ascii=False) + "\n"
        write_file(os.path.join(get_entries_folder(self.root), f"{entry.id}.json"), text)
        self._drop({entry.id})
        self._add(entry.id, entry)
        self._write_index()
        return entry

    def make_id(self, now: float) -> str:
        """An id that is free. Raises `ReflexionError` when there are too many entries."""
        ids = set(self.list_ids("*"))
        if len(ids) >= MOST_ENTRIES:
            raise ReflexionError(f"there are {MOST_ENTRIES:,} entries or more: delete some files")
        begin = f"RFX-{format_time(now)[:10].replace('-', '')}-"
        names = (f"{begin}{os.urandom(6).hex()[:letters]}" for letters in (3, 3, 6, 12))
        return next(name for name in names if name not in ids)

    def list_ids(self, key: str) -> list[str]:
        """Entries of a key of the index; of `*` all."""
        return self._lines.get(key, "").split()

    def list_commands(self, program: str) -> list[tuple[str, list[str]]]:
        """Commands of a program that failed before, with their entries."""
        return [(key[2:], ids.split()) for key, ids in self._lines.items() if key.startswith(f"$ {program}")]

    def is_foreign(self, entry_id: str) -> bool:
        """Whether others may have written an entry, and this user did not say that they are trusted."""
        if self._foreign is None:
            self._foreign = frozenset() if is_shared(self.root) else list_tracked(self.root, self.list_ids("*"))
        return entry_id in self._foreign

    def rebuild(self) -> int:
        """Read every file again; how many entries there are."""
        self._lines.clear()
        self._follow_files(most=MOST_ENTRIES * 10)
        return len(self.list_ids("*"))

    def _list_files(self) -> list[str]:
        try:
            names = os.listdir(get_entries_folder(self.root))
        except FileNotFoundError:
            return []
        return [name for name in names if name.endswith(".json") and name[0] != "."]

    def _read_index(self) -> None:
        self._lines: dict[str, str] = {}
        self._read_at = 0
        try:
            head, *lines = read_regular(self._index, 1 << 28).decode("utf-8", "replace").splitlines()
            if head.startswith(HEADER):
                self._lines = dict(line.split("\t", 1) for line in lines)
                self._read_at = int(head.removeprefix(HEADER))
        except (OSError, ValueError):
            self._lines = {}

    def _is_current(self) -> bool:
        """Whether no file came or went since the index was written."""
        try:
            newer = os.stat(get_entries_folder(self.root)).st_mtime_ns > os.stat(self._index).st_mtime_ns
            return not newer and len(self._list_files()) == len(self.list_ids("*"))
        except FileNotFoundError:
            return False

    def _follow_files(self, most: int = MOST_READ) -> None:
        """Read what came, changed or went since the dates of all files were looked at."""
        known, now = set(self.list_ids("*")), time.time_ns()
        folder = get_entries_folder(self.root)
        stamps = {name[:-5]: os.lstat(os.path.join(folder, name)).st_mtime_ns for name in self._list_files()}
        edited = [name for name, stamp in stamps.items() if name in known and stamp >= self._read_at]
        changed = [*edited, *(stamps.keys() - known)]
        gone = known - stamps.keys()
        self._drop(gone | set(edited[:most]))
        for name in changed[:most]:
            self._add(name, self.load_entry(name))
        if changed or gone:
            self._read_at = now - CLOCK if len(edited) <= most else self._read_at
            self._write_index()

    def _drop(self, dropped: set[str]) -> None:
        """Take entries out of the lines."""
        for key, text in list(self._lines.items()) if dropped else ():
            if len(dropped) > 9 or any(each in text for each in dropped):
                self._lines[key] = " ".join(each for each in text.split() if each not in dropped)
                if not self._lines[key]:
                    del self._lines[key]

    def _add(self, entry_id: str, entry: Entry | None) -> None:
        """Take an entry into the lines; of a file that holds none the id alone."""
        keys = {"*"}
        if entry is not None:
            keys |= set(entry.keywords or list_keywords(entry.trigger, entry.context, entry.resolution))
            keys.add(make_trigger_key(entry.context, entry.trigger))
            keys |= {f"$ {entry.context}"} if entry.type == "error" and entry.context else set()
        for key in {key.replace("\t", " ") for key in keys}:
            self._lines[key] = f"{self._lines.get(key, '')} {entry_id}".strip()

    def _write_index(self) -> None:
        lines = [f"{key}\t{ids}\n" for key, ids in sorted(self._lines.items())]
        write_file(self._index, "".join([f"{HEADER}{self._read_at}\n", *lines]))


def make_trigger_key(command: str, trigger: str) -> str:
    """What makes two failures the same: the program, and what of the trigger stays the same."""
    return f"! {name_program(command)}: {normalize_trigger(trigger)}"


def _wait_for_lock(handle: int) -> None:
    end = time.monotonic() + get_limit() / 2
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise OSError(errno.EAGAIN, "the project is locked by another hook") from None
            time.sleep(0.005)


def list_tracked(root: str, ids: list[str]) -> frozenset[str]:
    """Entries that git tracks, read off its index; where that is in a form that is not read here, all."""
    repository = find_repository(root)
    place = os.path.join(repository, ".git")
    try:
        if os.path.isfile(place):  # of a worktree
            place = os.path.join(repository, read_regular(place).decode().partition("gitdir:")[2].strip())
        with open(os.path.join(place, "index"), "rb") as file:
            data = file.read()
        plain = data[4:8] in (b"\0\0\0\2", b"\0\0\0\3") and not any("sharedindex" in name for name in os.listdir(place))
    except (OSError, ValueError):
        return frozenset()
    if not plain:
        return frozenset(ids)
    return frozenset(each.decode() for each in re.findall(rb"\.reflexion/entries/([\w-]+)\.json", data))


def get_home() -> str:
    """The user's folder; it need not exist yet."""
    if chosen := os.environ.get("REFLEXION_HOME"):
        return os.path.abspath(os.path.expanduser(chosen))
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "reflexion")


def get_limit() -> float:
    """Seconds after which a hook gives up: 2, or what `REFLEXION_LIMIT` says."""
    return float(os.environ.get("REFLEXION_LIMIT") or 2)


def get_project_state(root: str) -> str:
    """Where the lock and the sessions of a project are."""
    whole = os.path.realpath(root)
    name = re.sub(r"[^\w.-]", "_", os.path.basename(whole))[:40]
    return os.path.join(get_home(), "projects", f"{name}-{crc32(os.fsencode(whole)):08x}")


def is_shared(root: str) -> bool:
    """Whether this user wants entries that git tracks recalled in this project: nobody who pushes decides it."""
    return os.path.exists(os.path.join(get_project_state(root), "shared"))


def set_shared(root: str, wanted: bool) -> None:
    """Say whether entries that git tracks are recalled in this project."""
    mark = os.path.join(get_project_state(root), "shared")
    if wanted:
        os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
        write_file(mark, "")
    elif os.path.exists(mark):
        os.unlink(mark)


def read_regular(path: str, most: int = MOST_BYTES) -> bytes:
    """The first bytes of a file that is one: no link is followed, no pipe is waited for. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "that is no file", path)
        return file.read(most)


def read_json(path: str) -> Any:
    """JSON data of a small file; None for a file that is missing, or holds none."""
    try:
        return json.loads(read_regular(path).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return None


def write_file(path: str, text: str) -> None:
    """Write a file, whole or not at all: a link stays one, rights and line ends stay. Raises `OSError`."""
    real = os.path.realpath(path)
    if os.path.exists(real) and not os.path.isfile(real):
        raise OSError(errno.EINVAL, "that is no file", path)
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


def log_line(text: str) -> None:
    """One line into the log, which begins anew when it is long; nothing where none can be written."""
    path = os.path.join(get_home(), "hook.log")
    try:
        os.makedirs(get_home(), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG:
            os.unlink(path)
        with open(path, "a", encoding="utf-8", errors="replace") as log:
            log.write(f"{format_time(time.time())} {' '.join(text.split())[:500]}\n")
    except OSError:
        pass
