"""Messages for system errors: unreadable or unwritable files, exhausted resources."""

import errno
import os

from rsso_dspy.errors import FULL, OPEN_FILES, PROCESSES, RssoError, UsageError, find_shortage

WRONG = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL,
    errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
"""Errors that mean that the command names an unusable place."""


def find_os_error(error: Exception) -> OSError | None:
    """Return the system error that an exception is or hides; None if there is none with a number."""
    found = find_shortage(error) or (error if isinstance(error, OSError) else None)
    return found if found is not None and found.errno is not None else None


def to_rsso_error(error: OSError, playing: bool = False) -> RssoError:
    """Translate a system error into one that names the place and the fix.

    Returns `UsageError` for an unusable place. During a run the message says that finished work is kept.
    """
    what = ": ".join(str(part) for part in (error.filename, error.strerror or os.strerror(error.errno or 0)) if part)
    mend = _suggest_fix(error.errno)
    if playing:
        return RssoError(f"{what}; finished work is kept: {mend or 'fix this'}, then repeat the command")
    kind = UsageError if error.errno in WRONG else RssoError
    if error.errno in (*OPEN_FILES, *PROCESSES):
        return kind(f"{what}; {mend}, then repeat the command")
    return kind(f"{what}; {mend or 'fix this'} or name another place, then repeat the command")


def _suggest_fix(number: int | None) -> str:
    """Return the fix for a system error in imperative form, or an empty string if unknown."""
    if number in FULL:
        return "free disk space"
    if number == errno.EMFILE:
        return (
            f"this process may open {_describe_os_limit('RLIMIT_NOFILE')} (`ulimit -n` shows the limit): "
            "raise it with `ulimit -n 4096`, or use fewer --jobs"
        )
    if number == errno.ENFILE:
        return "the system-wide limit of open files is reached (/proc/sys/fs/file-max): end other programs"
    if number == errno.EAGAIN:
        return (
            f"you may have {_describe_os_limit('RLIMIT_NPROC')} processes and threads (`ulimit -u` shows the limit; "
            "a container has its own): raise it, or use fewer --jobs"
        )
    if number == errno.ENOMEM:
        return "use fewer --jobs or a smaller environment.heap, end other programs, or raise the limit (`ulimit -v`)"
    return ""


def _describe_os_limit(name: str) -> str:
    """Describe a resource limit of this process."""
    try:
        import resource
    except ImportError:  # not on Windows
        return "no more"
    soft, _ = resource.getrlimit(getattr(resource, name))
    return "no more" if soft == resource.RLIM_INFINITY else f"{soft:,}"
