"""Files that are there whole or not at all, whatever happens while they are written.

write_whole(path, text)
with whole(path) as temporary:      # for what writes a file itself
    writer = ParquetWriter(temporary, ...)
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rsso_dspy.errors import UsageError
from rsso_dspy.redaction import redact, redact_json


@contextmanager
def whole(path: Path, folders: bool = True) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when the block ends well, and is gone when it does not.
    Folders are made, unless `folders` says no. Raises `OSError` that names `path` where nothing can be written, or what
    is there is a device or a folder."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "that is no file", str(path))
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(errno.ENOTDIR, obstacle(path) or "no folder", str(path)) from None
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


def write_whole(path: Path, text: str, folders: bool = True) -> None:
    """Write a text so, without the secrets in it; of JSON, by the name's ending, only strings change."""
    text = redact_json(text) if path.suffix in (".json", ".jsonl") else redact(text)
    with whole(path, folders) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_place(path: Path, option: str = "-o") -> None:
    """Raise `UsageError` when no file or folder can be made at `path`, which `option` names: known before any work."""
    if why := obstacle(path):
        raise UsageError(f"{path} cannot be written: {why}; name another {option}")


def obstacle(path: Path) -> str:
    """Why no file or folder can be made at `path`, in words; empty when nothing is known to be in the way."""
    nearest = next(filter(os.path.lexists, path.parents), Path("/"))
    if os.path.isdir(path) or (os.path.islink(path) and not os.path.exists(path)):
        nearest = path
    if not os.path.exists(nearest):
        return f"{nearest} is a link to what is not there"
    if not os.path.isdir(nearest):
        return f"{nearest} is a file"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} cannot be written to"
