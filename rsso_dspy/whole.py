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


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place when the block ends well, and is gone when it does not.
    Folders are made. Raises `OSError` where nothing can be written, or what is there is a device or a folder."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "that is no file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text so."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
