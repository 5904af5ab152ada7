"""Every exception of the project. Each message says what was wrong, what was expected and what mends it.

RssoError                       exit code 1
├── UsageError                  exit code 2: the call or its input is wrong
│   ├── UnknownName             no such task, method, backend, config key, ...: the nearest names are offered
│   ├── ConfigError             a value in the configuration does not fit
│   ├── NotInstalled            an extra of the package is needed
│   ├── DamagedFile             a file that was to be read is none, or does not hold what it should
│   ├── SplitError              a variant outside the split it was asked from
│   └── RunMismatch             an output folder holds a run of another configuration
├── LimitReached                the run has cost what it was allowed to
├── NotRecorded                 a request that recordings were to answer is not in them
├── FolderGone                  what is written to was moved, deleted or unmounted meanwhile
├── EnvironmentFailure          the simulator's side
│   ├── JavaMissing             no Java runtime can be started
│   ├── SimulatorDied           the simulator process ended or was killed
│   └── GoldUnknown             no gold length for a variant, so no step budget
└── BackendFailure              the model's side
    ├── MissingKey              the environment variable that should hold a key is not set
    └── BackendUnreachable      the endpoint does not answer, or refuses every request
"""

from collections.abc import Iterable
from difflib import get_close_matches

FEW = 8
"""Names that a message lists, whatever was meant."""


class Stopped(BaseException):
    """The run is being stopped: the trial under way is abandoned. Not an error, and nothing should catch it as one."""


class RssoError(Exception):
    """Base of all errors of this project."""

    exit_code = 1


class UsageError(RssoError):
    """The call, or what was given to it, is wrong."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not in a table; the message offers the nearest ones, and lists all where they are few or none is
    near."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        names = sorted(known)
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        every = f"nown: {', '.join(names)}."
        if not near:
            offer = f"k{every}"
        else:
            offer = f"did you mean {' or '.join(near)}?" + (f" K{every}" if len(near) < len(names) <= FEW else "")
        super().__init__(f"unknown {kind} {name!r}: {offer}" + (f" {hint}" if hint else ""))


class ConfigError(UsageError):
    """A configuration value does not fit."""


class NotInstalled(UsageError):
    """An extra of the package is needed."""


class DamagedFile(UsageError):
    """A file that was to be read is none, or does not hold what it should."""

    def __init__(self, path: object, why: str):
        self.why = why
        super().__init__(f"{path} cannot be read: {why}")


class SplitError(UsageError):
    """A variant outside the split it was asked from."""


class RunMismatch(UsageError):
    """An output folder holds a run of another configuration."""


class LimitReached(RssoError):
    """The run has cost what it was allowed to."""


class NotRecorded(RssoError):
    """A request that recordings were to answer is not in them; nothing was played on."""


class FolderGone(RssoError):
    """The folder that is written to is no longer where it was; nothing was written there since."""


class EnvironmentFailure(RssoError):
    """The simulator's side failed."""


class JavaMissing(EnvironmentFailure):
    """No Java runtime can be started."""


class SimulatorDied(EnvironmentFailure):
    """The simulator process ended or was killed; the trial has no score."""


class GoldUnknown(EnvironmentFailure):
    """No gold length is known for a variant."""


class BackendFailure(RssoError):
    """The model's side failed."""


class MissingKey(BackendFailure, UsageError):
    """The environment variable that should hold a key is not set."""

    exit_code = 2


class BackendUnreachable(BackendFailure):
    """The endpoint does not answer, or refuses every request."""
