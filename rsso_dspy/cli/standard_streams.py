"""Standard streams that may be missing or end early.

A shell can start a program without stdout or stderr (`2>&-`). The next file that is opened then gets the number of the
missing stream, and whatever is written to that stream by number, by Java or by a C library, would be written into it.
"""

import os
import sys
from contextlib import suppress


def open_missing_streams() -> None:
    """Have the null device stand for each of stdin, stdout and stderr that is closed. Comes before any file is opened
    to stay."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def flush_stdout() -> None:
    """Write out what stdout holds back. Raises what that meets, which would else be met after the end, where nobody can
    choose the words or the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stream(1)
        raise


def discard_stream(number: int) -> None:
    """Have a stream that nobody reads lead nowhere, so that what it holds back meets no error at exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
