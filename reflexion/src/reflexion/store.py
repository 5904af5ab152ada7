"""A project's entries on the disk, and what is kept of this user outside of every project.

.reflexion/entries/RFX-YYYYMMDD-xxx.json    one learning each
.reflexion/index.txt                        a line each keyword, command ($) and trigger (!), a tab, ids: made for grep
.reflexion/config.json                      settings, all optional
.reflexion/.gitignore                       `*` while the entries are private

The index follows the files by itself: what came, went or was written since is read again when the project is opened.
Nothing in it is trusted more than files. An entry that git tracks may be anybody's: it is recalled where this user said
`init --shared`. Links are not followed. The user's own folder (`REFLEXION_HOME`, else ~/.local/state/reflexion) has the
lock and the sessions of each project, the folders that are shared, what `install` found, and the log.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from typing import Any
from zlib import crc32

from reflexion import ReflexionError
from reflexion.commands import name_program
from reflexion.entry import LONGEST_TEXT, Entry, dump_entry, format_time, read_entry
from reflexion.secrets import strike_text
from reflexion.triggers import list_keywords, normalize_trigger

NAME, HEADER = ".reflexion", "# reflexion index 1: keyword, command ($) or trigger (!), a tab, ids"
MOST_READ = 1_000
"""Files that one call reads again; the rest waits for the next one."""
MOST_BYTES, LONGEST_LOG = 1 << 16, 256_000

DEFAULTS: dict[str, Any] = {
    "tokens": 80,  # of a recall block at most
    "shown": 2,  # entries in a block at most
    "threshold": 0.1,  # score from which on an entry is recalled at a prompt
    "promote_occurrences": 3,
    "promote_after_hours": 24,
    "auto_promote": False,  # without a person who looks at the rule
    "most_entries": 10_000,
    "rules_file": "",  # CLAUDE.md or AGENTS.md; whichever is there when empty
}
"""Settings, and what holds where `config.json` says nothing or something that does not fit."""


def find_root(start: str) -> str | None:
    """The project that a folder is in: the nearest one upwards with `.reflexion/`, else the repository; None for the
    home folder, which is no project."""
    here, repository, home = os.path.abspath(start) if start else "/", None, os.path.expanduser("~")
    while here != os.path.dirname(here):
        if here != home and os.path.isdir(os.path.join(here, NAME)):
            return here
        if here != home and repository is None and os.path.exists(os.path.join(here, ".git")):
            repository = here
        here = os.path.dirname(here)
    return repository


def has_folder(root: str) -> bool:
    """Whether the loop has begun in this project."""
    return os.path.isdir(os.path.join(root, NAME))


def make_folder(root: str, shared: bool = False) -> str:
    """Begin: `.reflexion/` with its entries' folder, private unless `shared`. What is there stays. The folder."""
    get_entries_folder(root)
    folder = os.path.join(root, NAME)
    os.makedirs(os.path.join(folder, "entries"), exist_ok=True)
    ignore = os.path.join(folder, ".gitignore")
    if shared or not os.path.exists(ignore):
        write_file(ignore, "index.txt\n" if shared else "*\n")
    return folder


def get_entries_folder(root: str) -> str:
    """Where the entries of a project are. Raises `OSError` where that is behind a link: a repository may bring one."""
    for place in (os.path.join(root, NAME), os.path.join(root, NAME, "entries")):
        if os.path.islink(place):
            raise OSError(errno.ELOOP, "that is a link, and is not followed; put a folder there", place)
    return os.path.join(root, NAME, "entries")


def get_path(root: str, entry_id: str) -> str:
    """The file of an entry."""
    return os.path.join(get_entries_folder(root), f"{entry_id}.json")


def read_settings(root: str) -> dict[str, Any]:
    """The project's settings over the defaults."""
    data = read_json(os.path.join(root, NAME, "config.json"))
    settings = dict(DEFAULTS)
    for name, default in DEFAULTS.items() if isinstance(data, dict) else ():
        value = data.get(name)
        if isinstance(default, bool) or isinstance(value, bool):
            fits = isinstance(default, bool) and isinstance(value, bool)
        elif isinstance(default, str):
            fits = value in ("CLAUDE.md", "AGENTS.md")
        else:
            fits = isinstance(value, int if isinstance(default, int) else (int, float)) and 0 < value <= 100_000
        settings[name] = value if fits else default
    return settings


class Store:
    """The entries of a project, open to this process alone until the block ends. Raises `OSError` where another one
    holds them for half of a hook's limit."""

    def __init__(self, root: str):
        self.root = root
        self.state = get_project_state(root)

    def __enter__(self) -> Store:
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        self._lock = os.open(os.path.join(self.state, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_for_lock(self._lock)
            self._lines = self._read_index()
            self._foreign: frozenset[str] | None = None
            if has_folder(self.root):
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
            entry = read_entry(read_json(get_path(self.root, entry_id)))
        except OSError:
            return None
        return entry if entry and entry.id == entry_id else None

    def load_all(self) -> tuple[list[Entry], list[str]]:
        """All entries, by id, and the names of files that hold none: they are left alone."""
        loaded = {name: self.load_entry(name.removesuffix(".json")) for name in self._list_files()}
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
        write_file(get_path(self.root, entry.id), text)
        self._put(entry.id, entry)
        self._write_index()
        return entry

    def make_id(self, now: float) -> str:
        """An id that is free. Raises `ReflexionError` when there are as many entries as the settings allow."""
        if len(self.list_ids("*")) >= read_settings(self.root)["most_entries"]:
            raise ReflexionError("there are as many entries as most_entries in config.json allows: delete some files")
        day = format_time(now)[:10].replace("-", "")
        for letters in (3, 3, 3, 6, 6, 12):
            entry_id = f"RFX-{day}-{os.urandom(6).hex()[:letters]}"
            if not os.path.exists(get_path(self.root, entry_id)):
                break
        return entry_id

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
        self._lines = {}
        for name in self._list_files():
            self._put(name[:-5], self.load_entry(name[:-5]), is_new=True)
        self._write_index()
        return len(self.list_ids("*"))

    def _list_files(self) -> list[str]:
        try:
            names = os.listdir(get_entries_folder(self.root))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name.endswith(".json") and name[0] != ".")

    def _read_index(self) -> dict[str, str]:
        path = os.path.join(self.root, NAME, "index.txt")
        try:
            head, *lines = read_regular(path, 1 << 28).decode("utf-8", "replace").splitlines()
            self._read_at = os.stat(path).st_mtime_ns
            return dict(line.split("\t", 1) for line in lines) if head == HEADER else {}
        except (OSError, ValueError):
            return {}

    def _follow_files(self) -> None:
        """Read what came, changed or went since the index was written."""
        known = set(self.list_ids("*"))
        stamps = {}
        try:
            with os.scandir(get_entries_folder(self.root)) as files:
                for file in files:
                    if file.name.endswith(".json") and file.name[0] != ".":
                        stamps[file.name[:-5]] = file.stat(follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:
            pass
        since = self._read_at if known else 0
        changed = [name for name, stamp in stamps.items() if name not in known or stamp >= since]
        for name in changed[:MOST_READ]:
            self._put(name, self.load_entry(name), is_new=name not in known)
        for name in known - stamps.keys():
            self._put(name, None, gone=True)
        if changed or known - stamps.keys():
            self._write_index()

    def _put(self, entry_id: str, entry: Entry | None, is_new: bool = False, gone: bool = False) -> None:
        """Take an entry into the lines, in place of what they had of it; of a file that holds none the id alone."""
        keys = set() if gone else {"*"}
        if entry is not None:
            keys |= set(entry.keywords or list_keywords(entry.trigger, entry.context, entry.resolution))
            keys.add(make_trigger_key(entry.context, entry.trigger))
            keys |= {f"$ {entry.context}"} if entry.type == "error" and entry.context else set()
        keys = {key.replace("\t", " ") for key in keys}
        for key in [] if is_new else [key for key, ids in self._lines.items() if entry_id in ids]:
            if left := " ".join(each for each in self.list_ids(key) if each != entry_id):
                self._lines[key] = left
            else:
                del self._lines[key]
        for key in keys:
            self._lines[key] = f"{self._lines.get(key, '')} {entry_id}".strip()

    def _write_index(self) -> None:
        lines = [f"{key}\t{ids}\n" for key, ids in sorted(self._lines.items())]
        write_file(os.path.join(self.root, NAME, "index.txt"), "".join([f"{HEADER}\n", *lines]))


def make_trigger_key(command: str, trigger: str) -> str:
    """What makes two failures the same: the program, and what of the trigger stays the same."""
    return f"! {name_program(command)}: {normalize_trigger(trigger)}"


def _wait_for_lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # there is none on this system: the last writer wins
        return
    end = time.monotonic() + get_limit() / 2
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
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


def find_repository(root: str) -> str:
    """The repository that a folder is in; empty where there is none."""
    here = os.path.abspath(root)
    while not os.path.exists(os.path.join(here, ".git")):
        if here == os.path.dirname(here):
            return ""
        here = os.path.dirname(here)
    return here


def get_home() -> str:
    """The user's folder; it need not exist yet."""
    if chosen := os.environ.get("REFLEXION_HOME"):
        return os.path.abspath(os.path.expanduser(chosen))
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "reflexion")


def get_limit() -> float:
    """Seconds after which a hook gives up: 2, or what `REFLEXION_LIMIT` says, 0.1 to 60."""
    try:
        return min(60.0, max(0.1, float(os.environ.get("REFLEXION_LIMIT", "2"))))
    except ValueError:
        return 2.0


def get_project_state(root: str) -> str:
    """Where the lock and the sessions of a project are."""
    whole = os.path.realpath(root)
    name = re.sub(r"[^\w.-]", "_", os.path.basename(whole))[:40]
    return os.path.join(get_home(), "projects", f"{name}-{crc32(os.fsencode(whole)):08x}")


def is_shared(root: str) -> bool:
    """Whether this user wants entries that git tracks recalled in this project: nobody who pushes decides it."""
    return os.path.realpath(root) in _list_shared()


def set_shared(root: str, wanted: bool) -> None:
    """Say whether entries that git tracks are recalled in this project."""
    whole = os.path.realpath(root)
    places = [place for place in _list_shared() if place != whole] + ([whole] if wanted else [])
    os.makedirs(get_home(), mode=0o700, exist_ok=True)
    write_file(os.path.join(get_home(), "shared"), "".join(f"{place}\n" for place in places))


def _list_shared() -> list[str]:
    try:
        return read_regular(os.path.join(get_home(), "shared"), 1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def read_regular(path: str, most: int = MOST_BYTES) -> bytes:
    """The first bytes of a file that is one: no link is followed, no pipe is waited for. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
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
    """One line into the log; nothing where none can be written."""
    path = os.path.join(get_home(), "hook.log")
    try:
        os.makedirs(get_home(), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG:
            write_file(path, read_regular(path, 1 << 24)[-LONGEST_LOG // 2 :].decode("utf-8", "replace"))
        with open(path, "a", encoding="utf-8", errors="replace") as log:
            log.write(f"{format_time(time.time())} {' '.join(text.split())[:500]}\n")
    except OSError:
        pass
