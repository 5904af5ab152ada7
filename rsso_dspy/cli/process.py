"""How a command ends when it cannot go on: Ctrl-C, SIGTERM, a failed write; and what it may print."""

import atexit
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType
from typing import Any, TextIO

import typer

from rsso_dspy.errors import FULL, OPEN_FILES, PROCESSES, RssoError, UsageError, find_shortage
from rsso_dspy.redact import redact

INTERRUPTED = 130
TERMINATED = 143
TOGETHER = 1.0  # seconds within which SIGTERMs count as one: `timeout` signals both the command and its process group


@dataclass
class ExitStatus:
    code: int = INTERRUPTED  # with which the command ends if interrupted now


@contextmanager
def catch_interruptions() -> Iterator[ExitStatus]:
    """Treat SIGTERM in the block like Ctrl-C, with its own exit code; a second one after more than `TOGETHER` seconds
    ends the process at once. An `OSError` becomes an `RssoError` that says what is kept."""
    ending = ExitStatus()
    try:
        with interrupt_on_sigterm(ending):
            yield ending
    except KeyboardInterrupt:
        if ending.code == INTERRUPTED:
            raise
        raise typer.Exit(ending.code) from None  # before or after playing
    except RssoError:
        raise
    except Exception as error:
        refused = find_os_error(error)
        if refused is None:
            raise
        raise to_rsso_error(refused, playing=True) from error


@contextmanager
def interrupt_on_sigterm(ending: ExitStatus) -> Iterator[None]:
    """Interrupt the block on SIGTERM and note that in `ending`."""
    previous_handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or previous_handler in (None, signal.SIG_IGN):
        yield
        return
    first: list[float] = []

    def interrupt_once(number: int, frame: FrameType | None) -> None:
        first.append(time.monotonic())
        if first[-1] - first[0] > TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if len(first) > 1:
            return
        ending.code = TERMINATED
        interrupt = signal.getsignal(signal.SIGINT)
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, interrupt_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def exit_on_interrupt(code: int) -> None:
    """Exit with this code, and not with a traceback, if Ctrl-C comes while Python waits for threads at shutdown."""
    if threading.current_thread() is not threading.main_thread() or not callable(signal.getsignal(signal.SIGINT)):
        return
    program = [*walk_stack(sys._getframe())][-1][0]

    def exit_or_interrupt(number: int, frame: FrameType | None) -> None:
        if frame is None or [*walk_stack(frame)][-1][0] is not program:
            os._exit(code)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, exit_or_interrupt)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python removes its handlers at the very end


WRONG = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL,
    errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
"""Errors that mean that the command names an unusable place."""

FIXES = {
    **dict.fromkeys(FULL, "free disk space"),
    errno.EMFILE: "raise the limit of open files (`ulimit -n 4096`), or use fewer --jobs",
    errno.ENFILE: "the system-wide limit of open files is reached (/proc/sys/fs/file-max): end other programs",
    errno.EAGAIN: "raise the limit of processes (`ulimit -u`; a container has its own), or use fewer --jobs",
    errno.ENOMEM: "use fewer --jobs or a smaller environment.heap, or end other programs",
}


def find_os_error(error: Exception) -> OSError | None:
    """Return the system error that an exception is or hides; None if there is none with a number."""
    os_error = find_shortage(error) or (error if isinstance(error, OSError) else None)
    return os_error if os_error is not None and os_error.errno is not None else None


def to_rsso_error(error: OSError, playing: bool = False) -> RssoError:
    """Translate a system error into one that names the place and the fix: `UsageError` for an unusable place."""
    what = ": ".join(str(part) for part in (error.filename, error.strerror or os.strerror(error.errno or 0)) if part)
    mend = FIXES.get(error.errno or 0, "")
    if playing:
        return RssoError(f"{what}; finished work is kept: {mend or 'fix this'}, then repeat the command")
    elsewhere = "" if error.errno in (*OPEN_FILES, *PROCESSES) else " or name another place"
    kind = UsageError if error.errno in WRONG else RssoError
    return kind(f"{what}; {mend or 'fix this'}{elsewhere}, then repeat the command")


class RedactedStream:
    """A stream without secrets. A letter that its encoding lacks is written by its number."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            return self._stream.write(text)
        encoded = redact(text).encode(self._encoding, "backslashreplace")
        return self._stream.write(encoded.decode(self._encoding))

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def redact_streams() -> Iterator[None]:
    originals = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (RedactedStream(stream) for stream in originals)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = originals
