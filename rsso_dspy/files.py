"""Files: atomic writes, and reads that end with data or with a sentence. Whatever a user names is read here: regular
files alone, since a pipe never ends and a device may act on being read, and no more of one than memory holds.

`DamagedFile` is raised for what is no regular file, too large, or not UTF-8, JSON or TOML. Failures of the system
(missing file, no permission, disk error) stay `OSError`."""

import errno
import gzip
import json
import os
import stat
import threading
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rsso_dspy.bounds import MOST_BYTES
from rsso_dspy.errors import DamagedFile, UsageError

CACHE_VARIABLE = "RSSO_DSPY_CACHE"  # environment variable that moves the user's cache folder
HEAD = 4096  # number of bytes at the beginning of a file to search for a mark
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # that some editors put before a text
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # how texts in UTF-16 begin, and in UTF-32 with the lower half first
GZIP = b"\x1f\x8b"  # how packed files begin
BLOCK = 2**16  # bytes that are unpacked at a time
OWN_FOLDERS = ("units", "trainings")
OWN_FILES = ("run.json", ".lock")  # files and folders that a run keeps in its folder


def get_cache_folder() -> Path:
    """Return ``RSSO_DSPY_CACHE``, else the platform's cache folder. It may not exist yet."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("rsso-dspy", appauthor=False, opinion=False)


def explain_absence(path: Path) -> str:
    """Return where a file of the examples is, for the end of a sentence; empty for any other path."""
    if path.exists() or "examples" not in path.parts:
        return ""
    return "; `examples` is a folder of the project's repository and no part of the installed package: name it there"


@contextmanager
def atomic_path(path: Path, folders: bool = True) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces it at the end of the block. Raises `OSError` that names
    `path` if it cannot be written, or is a device or a folder."""
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
    from rsso_dspy.redact import redact, redact_json

    text = redact_json(text) if path.suffix in (".json", ".jsonl") else redact(text)
    with atomic_path(path, folders) as temporary:
        temporary.write_text(text, encoding="utf-8")


class FileKind(NamedTuple):
    """A kind of file that a command writes and may overwrite: its name, and whether a file is of it."""

    name: str
    holds: Callable[[Path], bool]


def make_marked_kind(name: str, mark: bytes) -> FileKind:
    """Return the kind of files with this mark near the beginning."""

    def has_mark(path: Path) -> bool:
        with open_regular(path) as file:
            return mark in file.read(HEAD)

    return FileKind(name, has_mark)


def check_output_path(path: Path, option: str = "-o", kind: FileKind | None = None) -> None:
    """Raise `UsageError` if `path` cannot be written, or is a run's own or a file of another `kind`."""
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
    resolved = path.resolve()
    for folder in resolved.parents:
        first, *rest = resolved.relative_to(folder).parts
        is_own = first in OWN_FOLDERS or (not rest and first in OWN_FILES)
        if is_own and (folder / "run.json").is_file():
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


def pick_quarantine_path(path: Path) -> Path:
    """Return a free name beside `path`, to move a useless file away."""
    return next(name for n in count() if not os.path.lexists(name := Path(f"{path}.damaged{n or ''}")))


def find_packed(path: Path) -> Path | None:
    """Return the file `path.gz` if it stands in place of `path`."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if not path.exists() and packed.exists() else None


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read it, or a link to one, without waiting for another process. Raises `DamagedFile` for
    anything else that has this name, and `OSError`."""
    if "\0" in str(path):
        raise DamagedFile(ascii(str(path)), "no file has such a name")
    if (why := name_other_kind(os.stat(path).st_mode)) is not None:  # opening a device may do something already
        raise DamagedFile(path, why)
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(number, "rb") as file:
        if (why := name_other_kind(os.fstat(number).st_mode)) is not None:  # it took the place of the other
            raise DamagedFile(path, why)
        yield file


def name_other_kind(mode: int) -> str | None:
    """Return what a file of this mode is in place of a regular one, as a sentence; None for a regular one."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if stat.S_ISFIFO(mode):
        return "it is a pipe"
    if stat.S_ISSOCK(mode):
        return "it is a socket"
    return "it is a device"


def read_bytes(path: Path) -> bytes:
    """Read a file, or the packed one in its place, as bytes. Raises `DamagedFile` and `OSError`, see the module."""
    if (packed := find_packed(path)) is not None:
        return _read_packed(packed)
    with open_regular(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DamagedFile(path, f"it holds more than {MOST_BYTES:,} bytes")
    return content


def _read_packed(path: Path) -> bytes:
    try:
        with open_regular(path) as packed, gzip.open(packed) as file:
            content = file.read(MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFile(path, f"it cannot be unpacked ({error})") from None
    if len(content) > MOST_BYTES:
        raise DamagedFile(path, f"it unpacks to more than {MOST_BYTES:,} bytes")
    return content


def salvage_bytes(path: Path) -> bytes:
    """Return what can still be read of a damaged file, packed or not. Raises `DamagedFile` and `OSError`."""
    with open_regular(path) as file:
        content = file.read(MOST_BYTES)
    if not content.startswith(GZIP):
        return content
    unpacked = b""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: with the header of gzip
    with suppress(zlib.error):
        for start in range(0, len(content), BLOCK):
            unpacked += unpacker.decompress(content[start : start + BLOCK], MOST_BYTES - len(unpacked))
            if len(unpacked) >= MOST_BYTES:
                break
    return unpacked


def read_text(path: Path) -> str:
    """Read a file as text, without the byte order mark that some editors put before it. Raises `DamagedFile` for text
    in UTF-16 and for what is no text in UTF-8."""
    content = read_bytes(path)
    if content.startswith(UTF_16_MARKS) or b"\0" in content[:HEAD]:
        raise DamagedFile(path, "it is UTF-16 text, or no text at all: save it as UTF-8")
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFile(path, f"it is not UTF-8 text ({error}): save it as UTF-8") from None


def read_json(path: Path) -> Any:
    """Read the content as JSON data. Refuses NaN; infinity stands for no limit."""
    try:
        return _parse_strict_json(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, str(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, f"it is not valid TOML: {error}") from None


def parse_entry(line: str | bytes) -> Any:
    """Parse the JSON data of a line; None for a broken one, e.g. cut off by a kill."""
    try:
        text = line.removeprefix(BYTE_ORDER_MARK).decode() if isinstance(line, bytes) else line
        return _parse_strict_json(text)
    except (ValueError, RecursionError):
        return None


def _parse_strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=_parse_constant)


def _parse_constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is not a number")
    return float(name)
