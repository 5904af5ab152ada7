"""What is said when the system refuses to write or read a file."""

import errno
import os

from rsso_dspy.errors import RssoError, UsageError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Nothing more fits."""

WRONG = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EINVAL,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
"""The call names a place that cannot be used."""


def failed(error: OSError, playing: bool = False) -> RssoError:
    """What the system refused, in words that name the place and the fix; `UsageError` for a place of no use. When units
    were being played, what is finished of them is kept."""
    what = ": ".join(str(part) for part in (error.filename, error.strerror or os.strerror(error.errno or 0)) if part)
    mend = "free some space" if error.errno in FULL else "mend that"
    if playing:
        return RssoError(f"{what}; everything finished is kept: {mend}, and run the same command again")
    kind = UsageError if error.errno in WRONG else RssoError
    return kind(f"{what}; {mend}, or name another place, and run the same command again")
