"""Atomic file writes: a file is either complete or absent, whatever happens during the write.

atomic_write_text(path, text)
with atomic_path(path) as temporary:      # for code that writes a file itself
    writer = ParquetWriter(temporary, ...)
"""

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rsso_dspy.errors import UsageError
from rsso_dspy.redaction import redact, redact_json

HEAD = 4096
"""Number of bytes at the beginning of a file to search for a mark."""

OWN_FOLDERS = ("units", "trainings", "started", "given", "recordings")
OWN_FILES = ("run.json", ".lock")
"""Files and folders that a run keeps in its folder, besides its journals (*.jsonl)."""


@contextmanager
def atomic_path(path: Path, folders: bool = True) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces it at the end of the block, or is removed after an error.

    Creates parent folders if `folders` is true. Raises `OSError` that names `path` if it cannot be written, or is a
    device or a folder.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "that is no file", str(path))
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(errno.ENOTDIR, find_obstacle(path) or "no folder", str(path)) from None
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary, str(temporary)):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write_text(path: Path, text: str, folders: bool = True) -> None:
    """Write a text atomically with secrets redacted; in JSON files (by suffix) only strings change."""
    text = redact_json(text) if path.suffix in (".json", ".jsonl") else redact(text)
    with atomic_path(path, folders) as temporary:
        temporary.write_text(text, encoding="utf-8")


class FileKind(NamedTuple):
    """A kind of file that a command writes and may overwrite."""

    name: str
    """Name of the kind, e.g. ``skill library``."""
    holds: Callable[[Path], bool]
    """Returns whether a file is of this kind."""


def make_json_kind(name: str, kind: str) -> FileKind:
    """Return the kind of JSON objects with this ``kind`` field."""

    def has_json_kind(path: Path) -> bool:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            return False
        return isinstance(data, dict) and data.get("kind") == kind

    return FileKind(name, has_json_kind)


def make_marked_kind(name: str, *marks: bytes) -> FileKind:
    """Return the kind of files with one of these marks near the beginning."""

    def has_mark(path: Path) -> bool:
        with path.open("rb") as file:
            head = file.read(HEAD)
        return any(mark in head for mark in marks)

    return FileKind(name, has_mark)


def check_output_path(path: Path, option: str = "-o", kind: FileKind | None = None) -> None:
    """Raise `UsageError`, before any work, if `path` cannot or must not be written; `option` names it.

    It must not be written if a run keeps its own files there, or if it is a non-empty file of another `kind`.
    """
    if why := find_obstacle(path):
        raise UsageError(f"{path} cannot be written: {why}; name another {option}")
    if run := find_owning_run(path):
        raise UsageError(f"the run in {run} keeps its own files at {path}; name another {option}")
    if kind is None or not path.exists():
        return
    if not path.is_file():
        raise UsageError(f"{path} is not a file; name another {option}")
    if path.stat().st_size and not kind.holds(path):
        raise UsageError(
            f"{path} exists and is not a {kind.name} of rsso-dspy, so it is not overwritten; name another {option}, "
            "or move it away"
        )


def find_owning_run(path: Path) -> Path | None:
    """Return the folder of the run that keeps its own files at `path`, or None."""
    whole = path.resolve()
    for folder in whole.parents:
        first, *rest = whole.relative_to(folder).parts
        own = first in OWN_FOLDERS or (not rest and (first in OWN_FILES or first.endswith(".jsonl")))
        if own and (folder / "run.json").is_file():
            return folder
    return None


def find_obstacle(path: Path) -> str:
    """Return why `path` cannot be created, or an empty string if no obstacle is known."""
    nearest = next(filter(os.path.lexists, path.parents), Path("/"))
    if os.path.isdir(path) or (os.path.islink(path) and not os.path.exists(path)):
        nearest = path
    if not os.path.exists(nearest):
        return f"{nearest} is a broken link"
    if not os.path.isdir(nearest):
        return f"{nearest} is a file"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} cannot be written to"
