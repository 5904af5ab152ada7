"""Entries on the disk: a file each, whole or not at all, read with suspicion, without secrets before they are written.

entry = load(root, "RFX-20260331-a7f")
save(root, entry)
"""

from __future__ import annotations

import os

from reflexion.entry import LONGEST_TEXT, Entry, dump_entry, format_time, read_entry
from reflexion.folder import NAME, check_folder, read_regular

MOST_BYTES = 65_536
"""Bytes of a file that may be an entry."""


def get_folder(root: str) -> str:
    """Where the entries of a project are. Raises `OSError` where that is behind a link."""
    check_folder(root)
    return os.path.join(root, NAME, "entries")


def get_path(root: str, entry_id: str) -> str:
    """The file of an entry."""
    return os.path.join(get_folder(root), f"{entry_id}.json")


def read_file(path: str) -> Entry | None:
    """The entry in a file; None when there is none, or no entry in it."""
    import json

    try:
        return read_entry(json.loads(read_regular(path, MOST_BYTES).decode("utf-8", errors="replace")))
    except (OSError, ValueError, RecursionError):
        return None


def render_entry(entry: Entry) -> str:
    """The text of an entry's file."""
    import json

    return json.dumps(dump_entry(entry), indent=2, ensure_ascii=False) + "\n"


def load(root: str, entry_id: str) -> Entry | None:
    """The entry of this id; None when its file is gone, or holds no entry of that id."""
    try:
        found = read_file(get_path(root, entry_id))
    except OSError:  # its folder is behind a link
        return None
    return found if found and found.id == entry_id else None


def list_files(root: str) -> list[str]:
    """Names of all files that should be entries, sorted."""
    try:
        return sorted(name for name in os.listdir(get_folder(root)) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []


def load_all(root: str) -> tuple[list[Entry], list[str]]:
    """All entries, by id, and the names of files that hold none: they are left alone."""
    entries, damaged = [], []
    for name in list_files(root):
        entry = load(root, name.removesuffix(".json"))
        if entry is None:
            damaged.append(name)
        else:
            entries.append(entry)
    return entries, damaged


def save(root: str, entry: Entry) -> Entry:
    """Write an entry, without the secrets in it; what was written. Raises `OSError`."""
    from pathlib import Path

    from reflexion.files import atomic_write_text

    entry = clean(entry)
    atomic_write_text(Path(get_path(root, entry.id)), render_entry(entry))
    return entry


def clean(entry: Entry) -> Entry:
    """The entry without secrets, no text longer than it may be."""
    from reflexion.secrets import strike_out_secrets

    def strike(text: str) -> str:
        return " ".join(strike_out_secrets(text).split())[:LONGEST_TEXT]

    return entry._replace(
        trigger=strike(entry.trigger),
        context=strike(entry.context),
        resolution=strike(entry.resolution),
        cwd=strike(entry.cwd),
        notes=tuple(map(strike, entry.notes)),
        keywords=tuple(word for word in entry.keywords if strike_out_secrets(word) == word),
    )


def make_id(root: str, now: float) -> str:
    """An id that is free: of the day, with more letters where the short ones are taken."""
    day = format_time(now)[:10].replace("-", "")
    for letters in (3, 3, 3, 6, 6, 12):
        entry_id = f"RFX-{day}-{os.urandom(6).hex()[:letters]}"
        if not os.path.exists(get_path(root, entry_id)):
            break
    return entry_id


def remove(root: str, entry_id: str) -> bool:
    """Delete an entry; whether it was there."""
    try:
        os.unlink(get_path(root, entry_id))
    except FileNotFoundError:
        return False
    return True
