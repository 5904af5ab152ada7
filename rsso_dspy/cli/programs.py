"""Programs by name on the command line: `zero-shot`, or the files of compiled ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.protocol.plan import Plan
    from rsso_dspy.protocol.units import Arm


def load_programs(texts: Sequence[str], settings: "Config") -> "dict[str, Compiled | None]":
    """Program names to compiled programs, None for `zero-shot`. Raises `UsageError` for a file that is of no use in
    this environment."""
    from rsso_dspy.optimize.compile import environment
    from rsso_dspy.optimize.compiled import check_environment, load, program_name
    from rsso_dspy.trajectory import ZERO_SHOT

    found: dict[str, Compiled | None] = {}
    for text in texts:
        name = text if text == ZERO_SHOT else program_name(text)
        if name in found:
            raise UsageError(f"--programs names {name!r} twice: programs are called after their files; rename one")
        found[name] = None if text == ZERO_SHOT else load(text)
        if compiled := found[name]:
            check_environment(compiled, text, environment(settings))
    return found


def agents(plan: "Plan", programs: "dict[str, Compiled | None]") -> "dict[Arm, Agent]":
    """The program of every arm. Raises `SplitError` when a variant of the plan was used to compile one of them."""
    from rsso_dspy.optimize.calibration import check_held_out
    from rsso_dspy.protocol.executor import zero_shot

    found = zero_shot(plan)
    for arm in found:
        if compiled := programs[arm.program]:
            check_held_out(compiled.calibration, [unit.variant for unit in plan.units])
            found[arm] = compiled.agent(arm.method.name)
    return found
