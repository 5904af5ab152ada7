"""Orderly end of interrupted commands: after Ctrl-C, SIGTERM, or a failed write.

with catch_interruptions() as ending:
    try: ...
    except KeyboardInterrupt:
        raise typer.Exit(ending.code)
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import typer

from rsso_dspy.cli.os_errors import find_os_error, to_rsso_error
from rsso_dspy.errors import RssoError

INTERRUPTED = 130
TERMINATED = 143

TOGETHER = 1.0
"""Seconds within which SIGTERMs count as one: `timeout` signals both the command and its process group."""


@dataclass
class ExitStatus:
    """The way the command ends if interrupted now."""

    code: int = INTERRUPTED
    """Exit code."""


@contextmanager
def catch_interruptions() -> Iterator[ExitStatus]:
    """Treat SIGTERM in the block like Ctrl-C, with its own exit code.

    A second SIGTERM after more than `TOGETHER` seconds ends the process at once. Main thread only, as for all signals.
    An `OSError` becomes an `RssoError` that says what is kept.
    """
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
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not here or before in (None, signal.SIG_IGN):
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
        signal.signal(signal.SIGTERM, before)


def exit_on_interrupt(code: int) -> None:
    """Exit with this code if Ctrl-C comes while Python waits for threads at shutdown.

    Otherwise Python would print a traceback. Before shutdown Ctrl-C works as usual.
    """
    if threading.current_thread() is not threading.main_thread() or not callable(signal.getsignal(signal.SIGINT)):
        return
    program = _find_outermost_frame(sys._getframe())

    def exit_or_interrupt(number: int, frame: FrameType | None) -> None:
        if frame is None or _find_outermost_frame(frame) is not program:
            os._exit(code)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, exit_or_interrupt)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python removes its handlers at the very end


def _find_outermost_frame(frame: FrameType) -> FrameType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame
