"""Files that are there whole or not at all, whatever happens while they are written.

atomic_write_text(path, text)
with atomic_path(path) as temporary:      # for what writes a file itself
    writer = ParquetWriter(temporary, ...)
"""

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rsso_dspy.errors import UsageError
from rsso_dspy.redaction import redact, redact_json

HEAD = 4096
"""Bytes at the beginning of a file in which a mark is looked for."""

OWN_FOLDERS = ("units", "trainings", "started", "given", "recordings")
OWN_FILES = ("run.json", "mlflow.json", ".lock")
"""What a run keeps in its folder, beside its journals (*.jsonl)."""


@contextmanager
def atomic_path(path: Path, folders: bool = True) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when the block ends well, and is gone when it does not.
    Folders are made, unless `folders` says no. Raises `OSError` that names `path` where nothing can be written, or what
    is there is a device or a folder."""
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
    """Write a text so, without the secrets in it; of JSON, by the name's ending, only strings change."""
    text = redact_json(text) if path.suffix in (".json", ".jsonl") else redact(text)
    with atomic_path(path, folders) as temporary:
        temporary.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class FileKind:
    """Files that a command writes, and so may write over."""

    name: str
    """What one of them is called, e.g. ``skill library``."""
    holds: Callable[[Path], bool]
    """Whether a file is one."""


def make_json_kind(name: str, kind: str) -> FileKind:
    """JSON objects whose ``kind`` says what they are."""

    def has_json_kind(path: Path) -> bool:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            return False
        return isinstance(data, dict) and data.get("kind") == kind

    return FileKind(name, has_json_kind)


def make_marked_kind(name: str, *marks: bytes) -> FileKind:
    """Files near whose beginning one of these stands."""

    def has_mark(path: Path) -> bool:
        with path.open("rb") as file:
            head = file.read(HEAD)
        return any(mark in head for mark in marks)

    return FileKind(name, has_mark)


def check_output_path(path: Path, option: str = "-o", kind: FileKind | None = None) -> None:
    """Raise `UsageError` when no file or folder can be made at `path`, which `option` names, or none may be: a run
    keeps its own files there, or a file is there that is not of the `kind` that would be written. Known before any
    work. An empty file is nobody's."""
    if why := find_obstacle(path):
        raise UsageError(f"{path} cannot be written: {why}; name another {option}")
    if run := find_owning_run(path):
        raise UsageError(f"{path} is where the run in {run} keeps its own files; name another {option}")
    if kind is None or not path.exists():
        return
    if not path.is_file():
        raise UsageError(f"{path} is no file; name another {option}")
    if path.stat().st_size and not kind.holds(path):
        raise UsageError(
            f"{path} is there and is no {kind.name} of rsso-dspy: nothing is written over it; name another {option}, "
            "or move it away"
        )


def find_owning_run(path: Path) -> Path | None:
    """The folder of the run that keeps its own files at `path`; None when that is no run's."""
    whole = path.resolve()
    for folder in whole.parents:
        first, *rest = whole.relative_to(folder).parts
        own = first in OWN_FOLDERS or (not rest and (first in OWN_FILES or first.endswith(".jsonl")))
        if own and (folder / "run.json").is_file():
            return folder
    return None


def find_obstacle(path: Path) -> str:
    """Why no file or folder can be made at `path`, in words; empty when nothing is known to be in the way."""
    nearest = next(filter(os.path.lexists, path.parents), Path("/"))
    if os.path.isdir(path) or (os.path.islink(path) and not os.path.exists(path)):
        nearest = path
    if not os.path.exists(nearest):
        return f"{nearest} is a link to what is not there"
    if not os.path.isdir(nearest):
        return f"{nearest} is a file"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} cannot be written to"
