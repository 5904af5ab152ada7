"""Standard streams that are closed or end early.

A shell can start a program without stdout or stderr (`2>&-`). The next opened file then gets the number of
the missing stream, and Java or a C library that writes to that stream by number would write into the file.
"""

import os
import sys
from contextlib import suppress


def open_missing_streams() -> None:
    """Open the null device for each closed standard stream. Call this before opening any other file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def flush_stdout() -> None:
    """Flush stdout and raise its errors now; at interpreter exit they could not be reported properly."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stream(1)
        raise


def discard_stream(number: int) -> None:
    """Redirect a stream without a reader to the null device, so that its buffer causes no error at exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
