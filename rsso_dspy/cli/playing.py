"""How commands that play end before their end: by Ctrl-C, by SIGTERM, or where nothing more can be written.

with playing() as ending:
    try: ...
    except KeyboardInterrupt:
        raise typer.Exit(ending.code)
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import typer

from rsso_dspy.cli.refusals import failed
from rsso_dspy.errors import RssoError
from rsso_dspy.scarcity import shortage

INTERRUPTED = 130
TERMINATED = 143

TOGETHER = 1.0
"""Seconds in which several SIGTERMs are one: `timeout` sends one to the command, and one to its process group."""


@dataclass
class Ending:
    """How it ends if it is interrupted now."""

    code: int = INTERRUPTED
    """Exit code."""


@contextmanager
def playing() -> Iterator[Ending]:
    """SIGTERM in the block does what Ctrl-C does, with an exit code of its own; one that comes later than `TOGETHER`
    ends the process at once. In the main thread only, as signals are. An error of the system becomes an `RssoError`
    that says what is kept."""
    ending = Ending()
    try:
        with terminable(ending):
            yield ending
    except KeyboardInterrupt:
        if ending.code == INTERRUPTED:
            raise
        raise typer.Exit(ending.code) from None  # before anything was played, or after it
    except RssoError:
        raise
    except Exception as error:
        refused = shortage(error) or (error if isinstance(error, OSError) else None)
        if refused is None or refused.errno is None:
            raise
        raise failed(refused, playing=True) from error


@contextmanager
def terminable(ending: Ending) -> Iterator[None]:
    """SIGTERM in the block interrupts it; `ending` knows then."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not here or before in (None, signal.SIG_IGN):
        yield
        return

    first: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        first.append(time.monotonic())
        if first[-1] - first[0] > TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if len(first) > 1:
            return
        ending.code = TERMINATED
        interrupt = signal.getsignal(signal.SIGINT)
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
