"""How commands that play end before their end: by Ctrl-C, by SIGTERM, or where nothing more can be written.

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

from rsso_dspy.cli.os_errors import to_rsso_error
from rsso_dspy.errors import RssoError
from rsso_dspy.resource_shortage import find_shortage

INTERRUPTED = 130
TERMINATED = 143

TOGETHER = 1.0
"""Seconds in which several SIGTERMs are one: `timeout` sends one to the command, and one to its process group."""


@dataclass
class ExitStatus:
    """How it ends if it is interrupted now."""

    code: int = INTERRUPTED
    """Exit code."""


@contextmanager
def catch_interruptions() -> Iterator[ExitStatus]:
    """SIGTERM in the block does what Ctrl-C does, with an exit code of its own; one that comes later than `TOGETHER`
    ends the process at once. In the main thread only, as signals are. An error of the system becomes an `RssoError`
    that says what is kept."""
    ending = ExitStatus()
    try:
        with interrupt_on_sigterm(ending):
            yield ending
    except KeyboardInterrupt:
        if ending.code == INTERRUPTED:
            raise
        raise typer.Exit(ending.code) from None  # before anything was played, or after it
    except RssoError:
        raise
    except Exception as error:
        refused = find_shortage(error) or (error if isinstance(error, OSError) else None)
        if refused is None or refused.errno is None:
            raise
        raise to_rsso_error(refused, playing=True) from error


@contextmanager
def interrupt_on_sigterm(ending: ExitStatus) -> Iterator[None]:
    """SIGTERM in the block interrupts it; `ending` knows then."""
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
    """After the program's last line Python waits for threads: have Ctrl-C end the process there, with this exit code,
    where it would else print a traceback. Until that line Ctrl-C does what it always does."""
    if threading.current_thread() is not threading.main_thread() or not callable(signal.getsignal(signal.SIGINT)):
        return
    program = _find_outermost_frame(sys._getframe())

    def exit_or_interrupt(number: int, frame: FrameType | None) -> None:
        if frame is None or _find_outermost_frame(frame) is not program:
            os._exit(code)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, exit_or_interrupt)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python takes its handlers away at last


def _find_outermost_frame(frame: FrameType) -> FrameType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame
