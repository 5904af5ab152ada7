"""The programs of a run: zero-shot programs, and checks of compiled ones before they are scored.

agents = make_agents(plan, {"mine": rsso_dspy.load("mine.json")})
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rsso_dspy.config import Config
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experiment.executor import make_zero_shot_programs
from rsso_dspy.experiment.guards import check_benchmark, check_held_out
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.store.run_spec import RunSpec
from rsso_dspy.store.units import Arm


@dataclass(frozen=True, slots=True)
class CompileEnvironment:
    """The environment of a compile; its program is valid only there."""

    name: str
    """Version of the benchmark."""
    version: str
    simplification: str

    @classmethod
    def of(cls, config: Config) -> "CompileEnvironment":
        return cls(config.benchmark, config.active_benchmark.version, config.simplification)

    def __str__(self) -> str:
        return f"{self.name} {self.version}, simplification {self.simplification or 'none'}"


class CompiledProgram(Protocol):
    """A compiled program, as read by `rsso_dspy.load`."""

    @property
    def method(self) -> str:
        """Name of its method."""

    @property
    def calibration(self) -> tuple[str, ...]:
        """Keys of all variants it was compiled on."""

    @property
    def environment(self) -> CompileEnvironment | None:
        """Its environment; None if unknown."""

    @property
    def protocol(self) -> str:
        """Id of the protocol it was compiled under."""

    def agent(self, method: str | None = None) -> Agent:
        """Return the program for its method, or for the method with a constitution added."""


Programs = Mapping[str, CompiledProgram | None]
"""Programs by name; None is the zero-shot program, which needs no entry."""

NO_PROGRAMS: Programs = {}


def check_programs(programs: Programs, spec: RunSpec, config: Config) -> None:
    """Raise `UsageError` if a program is missing, unused, or was compiled for another method or environment."""
    given = {name: program for name, program in programs.items() if program}
    if absent := [name for name in spec.programs if name != ZERO_SHOT and name not in given]:
        raise UnknownName("program", absent[0], {ZERO_SHOT, *given}, "Pass every compiled program by its name.")
    if idle := [name for name in given if name not in spec.programs]:
        raise UsageError(f"{', '.join(idle)} would not be played: name it among the programs of the run, or drop it")
    files = {path.stem: path for path in spec.compiled}
    for name, program in given.items():
        check_environment(program, files.get(name, name), CompileEnvironment.of(config))
        if other := [each for each in spec.methods if program.method not in (each, each.partition("+")[0])]:
            raise UsageError(
                f"{name} was compiled for the method {program.method}, not for {', '.join(other)}: "
                f"use --methods {program.method}, or compile one for each"
            )


def check_environment(program: CompiledProgram, source: object, played: CompileEnvironment) -> None:
    """Raise `UsageError` if a program was compiled in another environment than that of the run."""
    made_in = program.environment
    if made_in is None or made_in == played:
        return
    check_benchmark(source, made_in.name, played.name)
    raise UsageError(
        f"{source} was compiled in another environment ({made_in}) than this one ({played}): use that version and "
        "environment.simplification, or compile again"
    )


def make_agents(plan: Plan, programs: Programs, say: Callable[[str], None] = lambda _: None) -> dict[Arm, Agent]:
    """Create the program of every arm.

    Raises `SplitError` if a program was compiled on a variant of the plan. `say` receives a note on programs compiled
    under another protocol, and on programs that do not name the variants they were made on.
    """
    agents = make_zero_shot_programs(plan)
    for name in dict.fromkeys(arm.program for arm in agents):
        if program := programs.get(name):
            check_held_out(program.calibration, [unit.variant for unit in plan.units])
            if not program.calibration:
                say(f"{name} was made elsewhere: rsso-dspy cannot tell whether it was made on held-out variants")
            elif program.environment and program.protocol != plan.protocol:
                say(f"{name} was compiled under {program.protocol}, and is played under {plan.protocol}")
    return {
        arm: program.agent(arm.method.name) if (program := programs.get(arm.program)) else agent
        for arm, agent in agents.items()
    }
