"""The exceptions of the project: each message says what was wrong, what was expected and how to fix it. A command exits
with code 2 where its call or input is wrong (`UsageError`), else with 1."""

import errno
import os
from collections.abc import Iterable
from importlib import import_module

FEW = 8  # maximum number of names that a message lists in full
OPEN_FILES = (errno.EMFILE, errno.ENFILE)  # too many open files, pipes or sockets
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk
PROCESSES = (errno.EAGAIN, errno.ENOMEM)  # too many processes or threads, or no memory
NO_THREAD = "can't start new thread"  # message of Python's `RuntimeError` when the system refuses a thread


class Stopped(BaseException):
    """The run is being stopped and abandons the current trial. Not an error; do not catch it as one."""


class RssoError(Exception):
    """Base class of all errors of this project."""

    exit_code = 1


class UsageError(RssoError):
    """The call or its input is wrong."""

    exit_code = 2


class UnknownName(UsageError):
    """An unknown name; the message offers the nearest known ones, or all if they are few or none is near."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        from difflib import get_close_matches

        names = sorted(known)
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        every = f"nown: {', '.join(names)}."
        if not near:
            offer = f"k{every}"
        else:
            offer = f"did you mean {' or '.join(near)}?" + (f" K{every}" if len(near) < len(names) <= FEW else "")
        super().__init__(f"unknown {kind} {name!r}: {offer}" + (f" {hint}" if hint else ""))


class ConfigError(UsageError):
    """A configuration value is invalid."""


class NotInstalled(UsageError):
    """An extra of the package is needed."""


def require_extra(module: str, what: str, extra: str) -> None:
    """Import a module of an extra. Raises `NotInstalled`, which tells `what` needs it and how to install it."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise NotInstalled(f"{what}, which is not installed: pip install 'rsso-dspy[{extra}]'") from None


class DamagedFile(UsageError):
    """An input is not a regular file, or has invalid content."""

    def __init__(self, path: object, why: str):
        self.why = why
        super().__init__(f"{path} cannot be read: {why}")


class SplitError(UsageError):
    """A variant is not in the requested split."""


class RunMismatch(UsageError):
    """An output folder holds a run of another configuration."""


class LimitReached(RssoError):
    """The run reached its spend limit."""


class NotRecorded(RssoError):
    """Recordings lack a request during a replay; the replay stops."""


class FolderGone(RssoError):
    """The output folder is no longer at its place; nothing was written since."""


class EnvironmentFailure(RssoError):
    """The simulator's side failed."""


class JavaMissing(EnvironmentFailure):
    """No Java runtime can be started."""


class SimulatorDied(EnvironmentFailure):
    """The simulator process ended or was killed; the trial has no score."""


class ContractViolation(EnvironmentFailure):
    """An environment returned what its contract does not allow; the trial has no score."""


class EnvironmentFault(EnvironmentFailure):
    """An environment's own code raised an exception; the trial has no score. The last line of the message is that
    exception, with file and line."""


class GoldUnknown(EnvironmentFailure):
    """No gold length is known for a variant."""


class BackendFailure(RssoError):
    """The model's side failed."""


class MissingKey(BackendFailure, UsageError):
    """The environment variable for a key is not set."""


class UnreadableAnswers(BackendFailure):
    """None of the first answers of a run could be read, so its scores would say nothing of the model."""


class BackendUnreachable(BackendFailure):
    """The endpoint does not answer, or refuses every request."""


def list_causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def find_shortage(error: BaseException) -> OSError | None:
    """Return the error about an exhausted resource (open files, memory, threads, disk space) that an error is or was
    caused by, or None. Retrying a request or replacing a simulator does not fix these."""
    for below in list_causes(error):
        if isinstance(below, OSError) and below.errno in (*OPEN_FILES, *FULL, errno.ENOMEM):
            return below
        if isinstance(below, RuntimeError) and NO_THREAD in str(below):
            return OSError(errno.EAGAIN, f"no further thread could be started ({os.strerror(errno.EAGAIN)})")
    return None
