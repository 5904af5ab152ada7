"""What this machine has too little of, told from failures of anything else: files that may be open, memory, processes
and threads, room on the disk. Asking a provider again, or taking a new simulator, mends none of it.

    if lack := find_shortage(error):         # somewhere below the error, too
        raise lack
"""

import errno
import os

OPEN_FILES = (errno.EMFILE, errno.ENFILE)
"""No further file, pipe or socket may be open."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Nothing more fits."""

PROCESSES = (errno.EAGAIN, errno.ENOMEM)
"""No further process or thread, or no memory."""

NO_THREAD = "can't start new thread"
"""How Python says that the system refused a thread, in a `RuntimeError`."""


def find_shortage(error: BaseException) -> OSError | None:
    """The error of this machine that is behind an error, be it the error itself; None when there is none."""
    seen: set[int] = set()
    below: BaseException | None = error
    while below is not None and id(below) not in seen:
        seen.add(id(below))
        if isinstance(below, OSError) and below.errno in (*OPEN_FILES, *FULL, errno.ENOMEM):
            return below
        if isinstance(below, RuntimeError) and NO_THREAD in str(below):
            return OSError(errno.EAGAIN, f"no further thread could be started ({os.strerror(errno.EAGAIN)})")
        below = below.__cause__ or below.__context__
    return None
