"""rsso-dspy: agents that learn in context, as one declarative DSPy program.

An agent meets one task variant several times (trials). Between trials it writes memories; during a trial it reads
them from fixed, non-overlapping regions of its prompt. Nothing heavy is imported until a name below is used.
"""

from rsso_dspy.version import __version__ as __version__

TYPE_CHECKING = False  # as typing has it, whose import takes longer than all of a hook
if TYPE_CHECKING:  # the same names for type checkers and editors
    from rsso_dspy.api import RunResult as RunResult
    from rsso_dspy.api import open_run as open_run
    from rsso_dspy.api import run as run
    from rsso_dspy.optimize.calibration import testset as testset
    from rsso_dspy.optimize.calibration import trainset as trainset
    from rsso_dspy.optimize.calibration import valset as valset
    from rsso_dspy.optimize.compile import compile as compile
    from rsso_dspy.optimize.feedback import metric as metric
    from rsso_dspy.optimize.program_file import load as load
    from rsso_dspy.programs.agent import Agent as Agent
    from rsso_dspy.programs.methods import METHODS as METHODS
    from rsso_dspy.records import Variant as Variant
    from rsso_dspy.sessions import session as session

_PUBLIC = {
    "Agent": "rsso_dspy.programs.agent",
    "METHODS": "rsso_dspy.programs.methods",
    "RunResult": "rsso_dspy.api",
    "Variant": "rsso_dspy.records",
    "compile": "rsso_dspy.optimize.compile",
    "load": "rsso_dspy.optimize.program_file",
    "metric": "rsso_dspy.optimize.feedback",
    "open_run": "rsso_dspy.api",
    "run": "rsso_dspy.api",
    "session": "rsso_dspy.sessions",
    "testset": "rsso_dspy.optimize.calibration",
    "trainset": "rsso_dspy.optimize.calibration",
    "valset": "rsso_dspy.optimize.calibration",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    from importlib import import_module

    if name in _PUBLIC:
        if name == "Agent":
            import_module(_PUBLIC["session"])  # an agent opens it if no session is open
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'rsso_dspy' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
