"""Safe reading of files: whatever is at a path, reading neither hangs nor ends in a traceback.

    data = read_json(path)          # JSON data
    table = read_toml(path)         # a table
    lines = read_lines(path)        # the lines of a journal; empty if it is missing
    entry = parse_entry(lines[0])   # the data of a line, or None

`DamagedFile` is raised for anything but a regular file (named pipe, socket, device, folder, link to itself), for files
that are too large, not UTF-8, not JSON or TOML, or nested too deeply. Failures of the system (missing file, no
permission, disk error) stay `OSError`.
"""

import errno
import json
import os
import stat
from itertools import count
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile

MOST_BYTES = 1 << 28
"""Maximum size in bytes of a file read as a whole: larger than any that is written."""

MOST_LEVELS = 100
"""Maximum nesting of lists and objects: more than any written file has, and safe to traverse."""

KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)

HANDED_OVER = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Paths under which a shell passes pipes to a command; naming one is intentional."""


def explain_unreadable(path: Path) -> str:
    """Return why a path is not a readable file, or an empty string if it is one or missing. Opens nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return "it is a link that leads to itself" if error.errno == errno.ELOOP else ""
    if str(path) == os.devnull or str(path).startswith(HANDED_OVER):
        return ""
    return next((why for is_kind, why in KINDS if is_kind(mode)), "")


def pick_quarantine_path(path: Path, ending: str = "damaged") -> Path:
    """Return a free name beside `path`, to move a useless file away."""
    return next(name for n in count() if not os.path.lexists(name := Path(f"{path}.{ending}{n or ''}")))


def read_bytes(path: Path) -> bytes:
    """Read the content as bytes. Raises `DamagedFile` and `OSError`, see the module's docstring."""
    if why := explain_unreadable(path):
        raise DamagedFile(path, why)
    # Without blocking, in case a pipe has replaced the file since the check.
    nonblocking = 0 if str(path).startswith(HANDED_OVER) else getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | nonblocking), "rb") as file:
        content = file.read(MOST_BYTES + 1) if os.fstat(file.fileno()).st_size <= MOST_BYTES else None
    if content is None or len(content) > MOST_BYTES:
        raise DamagedFile(path, f"it is larger than {MOST_BYTES >> 20} MiB")
    return content


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFile(path, f"it is not UTF-8 text ({error})") from None


def read_json(path: Path) -> Any:
    """Read the content as JSON data.

    Refuses NaN and duplicate keys, which readers treat differently. Infinity is allowed: it stands for no limit.
    """
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> Any:
    try:
        return _check_depth(_parse_strict_json(text))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, _describe_error(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read the content as a TOML table."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise DamagedFile(path, f"it is not valid TOML: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML table. Raises `ValueError`."""
    import tomllib  # where it is needed: hooks wait for what is imported

    try:
        table = tomllib.loads(text)
        return dict(_check_depth(table))
    except RecursionError as error:
        raise ValueError(_describe_error(error)) from None


def read_lines(path: Path) -> list[str]:
    """Read the lines of a journal; empty if it is missing. Invalid characters are replaced."""
    try:
        return read_bytes(path).decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []


def parse_entry(line: str | bytes) -> Any:
    """Parse the JSON data of a line; None for a broken one, e.g. cut off by a kill."""
    try:
        return _check_depth(_parse_strict_json(line.decode(errors="replace") if isinstance(line, bytes) else line))
    except (ValueError, RecursionError):
        return None


def _parse_strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=_parse_constant, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice in one object")
    return found


def _parse_constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is not a number")
    return float(name)


def _check_depth(data: Any) -> Any:
    """Return the data. Raises `RecursionError` if it is nested too deeply."""
    level = [data] if _is_container(data) else []
    for _ in range(MOST_LEVELS):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [each for part in parts for each in part if _is_container(each)]
        if not level:
            return data
    raise RecursionError


def _is_container(data: Any) -> bool:
    return isinstance(data, dict | list)


def _describe_error(error: Exception) -> str:
    return f"it is nested more than {MOST_LEVELS} levels deep" if isinstance(error, RecursionError) else str(error)
