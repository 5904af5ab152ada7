"""A project's `.reflexion/`: where it is, how it begins, what its settings are.

.reflexion/entries/RFX-YYYYMMDD-xxx.json    one learning each
.reflexion/config.json                      settings, all optional
.reflexion/.gitignore                       `*` while the entries are private
.reflexion/.gitattributes                   how git merges entries that are shared
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any

NAME = ".reflexion"

DEFAULTS: dict[str, Any] = {
    "tokens": 80,  # of a recall block at most
    "shown": 2,  # entries in a block at most
    "threshold": 0.1,  # score from which on an entry is recalled at a prompt
    "promote_occurrences": 3,
    "promote_after_hours": 24,
    "auto_promote": False,
    "most_entries": 10_000,
    "rules_file": "",  # CLAUDE.md or AGENTS.md; whichever is there when empty
}
"""Settings, and what holds where `config.json` says nothing or something that does not fit."""
BOUNDS = {"tokens": (20, 400), "shown": (1, 5), "threshold": (0, 10), "promote_occurrences": (1, 1000)} | {
    "promote_after_hours": (0, 10_000),
    "most_entries": (1, 100_000),
}


def find_root(start: str) -> str | None:
    """The project that a folder is in: the nearest one upwards with `.reflexion/`, else the repository. None for what
    is in neither, is not there, or is the home folder itself, which is no project."""
    here = os.path.abspath(start) if start else ""
    if not here:
        return None
    repository = None
    home = os.path.expanduser("~")
    while True:
        if here != home:
            if os.path.isdir(os.path.join(here, NAME)):
                return here
            if repository is None and os.path.exists(os.path.join(here, ".git")):
                repository = here
        above = os.path.dirname(here)
        if above == here:
            return repository
        here = above


def has_folder(root: str) -> bool:
    """Whether the loop has begun in this project."""
    return os.path.isdir(os.path.join(root, NAME))


def check_folder(root: str) -> None:
    """Raise `OSError` where `.reflexion/` or its entries are a link: a repository may bring links, and what stands at
    their other end is neither read nor written."""
    for place in (os.path.join(root, NAME), os.path.join(root, NAME, "entries")):
        if os.path.islink(place):
            raise OSError(errno.ELOOP, "that is a link, and is not followed; put a folder there", place)


def make_folder(root: str, shared: bool = False) -> str:
    """Begin: `.reflexion/` with its entries' folder, private unless `shared`. What is there stays. The folder."""
    check_folder(root)
    folder = os.path.join(root, NAME)
    os.makedirs(os.path.join(folder, "entries"), exist_ok=True)
    ignore = os.path.join(folder, ".gitignore")
    if shared:
        if _read_small(ignore).strip() == "*":
            os.unlink(ignore)
        _write_new(os.path.join(folder, ".gitattributes"), "entries/*.json merge=reflexion\n")
    elif not os.path.exists(os.path.join(folder, ".gitattributes")):
        _write_new(ignore, "*\n")
    return folder


def is_private(root: str) -> bool:
    """Whether git ignores the entries."""
    return _read_small(os.path.join(root, NAME, ".gitignore")).strip() == "*"


def read_settings(root: str) -> dict[str, Any]:
    """The project's settings over the defaults."""
    try:
        data = json.loads(_read_small(os.path.join(root, NAME, "config.json")) or "{}")
    except (ValueError, RecursionError):
        data = {}
    settings = dict(DEFAULTS)
    for name, default in DEFAULTS.items():
        value = data.get(name) if isinstance(data, dict) else None
        if isinstance(default, bool) or isinstance(value, bool):
            fits = isinstance(default, bool) and isinstance(value, bool)
        elif isinstance(default, str):
            fits = value in ("CLAUDE.md", "AGENTS.md")
        else:
            least, most = BOUNDS[name]
            fits = isinstance(value, int | float) and least <= value <= most
        if fits:
            settings[name] = int(float(str(value))) if name in ("tokens", "shown") else value
    return settings


def read_regular(path: str, most: int = 1 << 16) -> bytes:
    """The first bytes of a file that is one: no link is followed, no pipe is waited for. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "that is no file", path)
        return file.read(most)


def _read_small(path: str) -> str:
    try:
        return read_regular(path).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _write_new(path: str, text: str) -> None:
    """Write a file unless it is there."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        pass
