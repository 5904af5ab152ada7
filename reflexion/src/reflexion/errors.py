"""Errors whose message says what was wrong and what to do about it."""

from collections.abc import Iterable


class RssoError(Exception):
    """Base class; exit code 1."""

    exit_code = 1


class UsageError(RssoError):
    """The call or its input is wrong."""

    exit_code = 2


class UnknownName(UsageError):
    """An unknown name; the message offers all."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        super().__init__(f"unknown {kind} {name!r}: known: {', '.join(sorted(known))}.")


class DamagedFile(UsageError):
    """A file has no valid content."""

    def __init__(self, path: object, why: str):
        self.why = why
        super().__init__(f"{path} cannot be read: {why}")
