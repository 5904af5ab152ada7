"""Detects exhausted resources of this machine: open files, memory, processes, threads, disk space.

Retrying a request or replacing a simulator does not fix these.

    if lack := find_shortage(error):         # also finds it among the causes
        raise lack
"""

import errno
import os

OPEN_FILES = (errno.EMFILE, errno.ENFILE)
"""Codes for too many open files, pipes or sockets."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Codes for a full disk."""

PROCESSES = (errno.EAGAIN, errno.ENOMEM)
"""Codes for too many processes or threads, or no memory."""

NO_THREAD = "can't start new thread"
"""Message of Python's `RuntimeError` when the system refuses a thread."""


def list_causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def find_shortage(error: BaseException) -> OSError | None:
    """Return the resource error that an error is or was caused by, or None."""
    for below in list_causes(error):
        if isinstance(below, OSError) and below.errno in (*OPEN_FILES, *FULL, errno.ENOMEM):
            return below
        if isinstance(below, RuntimeError) and NO_THREAD in str(below):
            return OSError(errno.EAGAIN, f"no further thread could be started ({os.strerror(errno.EAGAIN)})")
    return None
