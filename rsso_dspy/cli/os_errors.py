"""What is said when the system refuses to write or read a file, or to give more of what this machine has."""

import errno
import os

from rsso_dspy.errors import RssoError, UsageError
from rsso_dspy.resource_shortage import FULL, OPEN_FILES, PROCESSES

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


def to_rsso_error(error: OSError, playing: bool = False) -> RssoError:
    """What the system refused, in words that name the place and the fix; `UsageError` for a place of no use. When units
    were being played, what is finished of them is kept."""
    what = ": ".join(str(part) for part in (error.filename, error.strerror or os.strerror(error.errno or 0)) if part)
    mend = _suggest_fix(error.errno)
    if playing:
        return RssoError(f"{what}; everything finished is kept: {mend or 'mend that'}, and run the same command again")
    kind = UsageError if error.errno in WRONG else RssoError
    if error.errno in (*OPEN_FILES, *PROCESSES):
        return kind(f"{what}; {mend}, and run the same command again")
    return kind(f"{what}; {mend or 'mend that'}, or name another place, and run the same command again")


def _suggest_fix(number: int | None) -> str:
    """What mends an error of the system, as an order; empty when that is not known."""
    if number in FULL:
        return "free some space"
    if number == errno.EMFILE:
        return (
            f"this process may open {_describe_os_limit('RLIMIT_NOFILE')} (`ulimit -n` shows the limit): allow more "
            "with "
            "`ulimit -n 4096`, or use fewer --jobs"
        )
    if number == errno.ENFILE:
        return "no program here may open more (/proc/sys/fs/file-max is the limit): end others"
    if number == errno.EAGAIN:
        return (
            f"you may have {_describe_os_limit('RLIMIT_NPROC')} processes and threads (`ulimit -u` shows the limit; "
            "a container "
            "has one of its own): allow more, or use fewer --jobs"
        )
    if number == errno.ENOMEM:
        return "use fewer --jobs or a smaller environment.heap, end other programs, or raise the limit (`ulimit -v`)"
    return ""


def _describe_os_limit(name: str) -> str:
    """A limit of this process, in words."""
    try:
        import resource
    except ImportError:  # not on Windows
        return "no more"
    soft, _ = resource.getrlimit(getattr(resource, name))
    return "no more" if soft == resource.RLIM_INFINITY else f"{soft:,}"
