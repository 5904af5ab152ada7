"""Files read with suspicion: whatever stands at a path, reading it neither hangs nor ends in a traceback.

    data = read_json(path)          # JSON data
    table = read_toml(path)         # a table
    lines = read_lines(path)        # the lines of a journal, none of one that is not there
    entry = parse_entry(lines[0])   # what a line says, None when it says nothing

What is no regular file (a named pipe, a socket, a device, a folder, a link to itself), is too large, is no UTF-8, no
JSON or no TOML, or is nested too deeply raises `DamagedFile`. What the system refuses today and may give tomorrow (a
file that is not there, not allowed, on a disk that fails) stays the `OSError` it is.
"""

import errno
import json
import os
import stat
import tomllib
from itertools import count
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile

MOST_BYTES = 1 << 28
"""Bytes of the largest file that is read whole: more than any that is written."""

MOST_LEVELS = 100
"""Levels of lists and objects in one another: more than anything that is written has, and few enough to walk."""

KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)

HANDED_OVER = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Where a shell puts what it pipes into a command: whoever names these has something to say."""


def explain_unreadable(path: Path) -> str:
    """Why what stands at a path is no file to read; empty when it is one, or nothing is there. Opens nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return "it is a link that leads to itself" if error.errno == errno.ELOOP else ""
    if str(path) == os.devnull or str(path).startswith(HANDED_OVER):
        return ""
    return next((why for is_kind, why in KINDS if is_kind(mode)), "")


def pick_quarantine_path(path: Path, ending: str = "damaged") -> Path:
    """A name beside `path` that is free, for what stands there and is no use."""
    return next(name for n in count() if not os.path.lexists(name := Path(f"{path}.{ending}{n or ''}")))


def read_bytes(path: Path) -> bytes:
    """The content. Raises `DamagedFile` and `OSError`, as the module's docstring says."""
    if why := explain_unreadable(path):
        raise DamagedFile(path, why)
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | _get_nonblocking_flag(path)), "rb") as file:
        content = file.read(MOST_BYTES + 1) if os.fstat(file.fileno()).st_size <= MOST_BYTES else None
    if content is None or len(content) > MOST_BYTES:
        raise DamagedFile(path, f"it is larger than {MOST_BYTES >> 20} MiB")
    return content


def read_text(path: Path) -> str:
    """The content as text, which is UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFile(path, f"it is no UTF-8 text ({error})") from None


def read_json(path: Path) -> Any:
    """The content as JSON data: no NaN, and no key twice in one object, of which readers would take either. Infinity is
    data: settings without a limit are written so."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> Any:
    """JSON data in the text of a file."""
    try:
        return _check_depth(_parse_strict_json(text))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, _describe_error(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The content as a TOML table."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise DamagedFile(path, f"it is not valid TOML: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML table. Raises `ValueError`."""
    try:
        table = tomllib.loads(text)
        return dict(_check_depth(table))
    except RecursionError as error:
        raise ValueError(_describe_error(error)) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text that was appended to, none of one that is not there. Damaged characters are marked."""
    try:
        return read_bytes(path).decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []


def parse_entry(line: str | bytes) -> Any:
    """The JSON data that a line holds; None for what is none, as a line that a kill cut off."""
    try:
        return _check_depth(_parse_strict_json(line.decode(errors="replace") if isinstance(line, bytes) else line))
    except (ValueError, RecursionError):
        return None


def _get_nonblocking_flag(path: Path) -> int:
    """A pipe that took the place of a file since it was looked at must not be waited for."""
    return 0 if str(path).startswith(HANDED_OVER) else getattr(os, "O_NONBLOCK", 0)


def _parse_strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=_parse_constant, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return found


def _parse_constant(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is no number")
    return float(name)


def _check_depth(data: Any) -> Any:
    """The data itself. Raises `RecursionError` when it is nested too deeply to be walked."""
    level = [data] if _is_container(data) else []
    for _ in range(MOST_LEVELS):
        level = [
            each
            for part in level
            for each in (part.values() if isinstance(part, dict) else part)
            if _is_container(each)
        ]
        if not level:
            return data
    raise RecursionError


def _is_container(data: Any) -> bool:
    return isinstance(data, dict | list)


def _describe_error(error: Exception) -> str:
    return f"it is nested more than {MOST_LEVELS} levels deep" if isinstance(error, RecursionError) else str(error)
