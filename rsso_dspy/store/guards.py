"""Guards of `runs.plan_run` against leaks: a run must not use anything that saw its held-out variants or was made on
another benchmark."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import ZERO_SHOT, Variant
from rsso_dspy.store.commands import RunSpec


def check_held_out(calibration: Collection[str], held_out: Iterable[Variant]) -> None:
    if overlap := dict.fromkeys(variant.key for variant in held_out if variant.key in calibration):
        fix = "Drop them from this run, or compile on other variants (--calib)."
        raise SplitError(f"the program was compiled on {', '.join(overlap)}: a score there is not held out. {fix}")


def check_benchmark(what: object, made_on: str, wanted: str) -> None:
    if made_on != wanted:
        fix = f"name {made_on} (--benchmark {made_on}), or take one that was made on {wanted}"
        raise UsageError(
            f"{what} was made on the benchmark {made_on}, not on {wanted}, which has other tasks, actions and points: "
            f"{fix}"
        )


def check_readers(spec: RunSpec) -> None:
    rows = [get_method(name) for name in spec.methods]
    idle = ", ".join(row.name for row in rows if "constitution" in row.memories and row.writing is None)
    if idle and not spec.constitution:
        raise UsageError(f"{idle} would have nothing to read: add --constitution FILE, or drop +constitution")


@dataclass(frozen=True, slots=True)
class CompileEnvironment:
    """The environment of a compile; its program is valid only there."""

    name: str
    version: str
    simplification: str

    @classmethod
    def of(cls, config: Config) -> "CompileEnvironment":
        return cls(config.benchmark, config.active_benchmark.version, config.simplification)

    def __str__(self) -> str:
        return f"{self.name} {self.version}, simplification {self.simplification or 'none'}"


Programs = Mapping[str, Any]  # `Compiled` by name; None, the zero-shot program, needs no entry


def check_programs(programs: Programs, spec: RunSpec, config: Config) -> None:
    """Raise `UsageError` if a program is missing, or was compiled for another method or environment."""
    compiled = {name: program for name, program in programs.items() if program}
    if absent := [name for name in spec.programs if name != ZERO_SHOT and name not in compiled]:
        raise UnknownName("program", absent[0], {ZERO_SHOT, *compiled}, "Pass every compiled program by its name.")

    files = {path.stem: path for path in spec.compiled}
    current = CompileEnvironment.of(config)
    for name, program in compiled.items():
        source = files.get(name, name)
        made_in = program.environment or current
        check_benchmark(source, made_in.name, current.name)
        if made_in != current:
            raise UsageError(
                f"{source} was compiled in another environment ({made_in}) than this one ({current}): use that version "
                "and environment.simplification, or compile again"
            )

        other_methods = [method for method in spec.methods if program.method not in (method, method.partition("+")[0])]
        names = ", ".join(other_methods)
        if names:
            raise UsageError(
                f"{name} was compiled for the method {program.method}, not for {names}: use --methods "
                f"{program.method}, or compile one for each"
            )
