"""Constitutions as a user names them: one file, or several with a name each.

parse_constitutions(["hand=AGENTS.md", "learned=rules.json"])     # {"hand": Path("AGENTS.md"), ...}
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rsso_dspy.bounds import shorten_text
from rsso_dspy.errors import UsageError

OPTION = "--constitution"
LONGEST_NAME = 64  # characters: it is part of a folder's name
_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9._-]*[A-Za-z0-9_-])?")

Constitutions = Path | dict[str, Path]  # one file, or several by name


def parse_constitutions(given: Path | str | Sequence[Path | str] | Mapping[str, Path | str]) -> Constitutions:
    """Parse ``FILE``, ``NAME=FILE``, a list of the latter, or a mapping of names to files. Raises `UsageError` for a
    name that cannot stand in a folder's name, a name that comes twice, one without a file, and a file without a name
    beside others."""
    if isinstance(given, Mapping):
        return _name_files([(name, str(file)) for name, file in given.items()])

    texts = [str(item) for item in ([given] if isinstance(given, Path | str) else given)]
    if len(texts) == 1 and not _has_name(texts[0]):
        return Path(_require_file("", texts[0]))
    return _name_files([_split_name(text) for text in texts])


def name_kind(name: str) -> str:
    """Return what a constitution is called among the input files of a run."""
    return f"constitution+{name}" if name else "constitution"


def _has_name(text: str) -> bool:
    """Whether a text begins with a name: what stands before ``=`` may also be the folder of a file."""
    name, equals, _ = text.partition("=")
    return bool(equals) and "/" not in name


def _split_name(text: str) -> tuple[str, str]:
    if not _has_name(text):
        raise UsageError(f"{OPTION} {shorten_text(text)}: of several files each needs a name, such as hand={text}")
    name, _, file = text.partition("=")
    return name, file


def _name_files(pairs: Sequence[tuple[str, str]]) -> dict[str, Path]:
    if not pairs:
        raise UsageError(f"{OPTION} names no file: write NAME=FILE, or leave it out")
    files: dict[str, Path] = {}
    for name, file in pairs:
        if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            raise UsageError(
                f"{OPTION} {shorten_text(name)!r}: a name takes letters, digits, -, _ and ., begins and ends with none "
                f"of the latter, and has {LONGEST_NAME} characters at most, such as hand={file or 'FILE'}"
            )
        if any(name.lower() == existing.lower() for existing in files):  # one folder where case does not count
            raise UsageError(f"{OPTION} {name}=: two files have this name; give each a name of its own")
        files[name] = Path(_require_file(name, file))
    return files


def _require_file(name: str, file: str) -> str:
    if not file:
        fix = f"write {name}=FILE" if name else "write FILE, or NAME=FILE"
        raise UsageError(f"{OPTION} {f'{name}=' if name else repr(file)}: it names no file; {fix}")
    return file
