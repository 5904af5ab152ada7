"""Units and trainings: the items of a run's plan, each with a record in its folder."""

from dataclasses import dataclass

from rsso_dspy.programs.methods import Method
from rsso_dspy.records import ZERO_SHOT, Variant


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of the comparison: a method with a program."""

    method: Method
    program: str = ZERO_SHOT

    @property
    def name(self) -> str:
        return self.method.name if self.program == ZERO_SHOT else f"{self.method.name}+{self.program}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One (arm, task, variant, seed) to play, with its step budget per trial."""

    arm: Arm
    variant: Variant
    seed: int
    budget: int
    place: str = ""
    """Place of a unit in its stream, number of units and order: ``3/36 of 1f0c9a``."""

    @property
    def name(self) -> str:
        return self.variant.key

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.name}/s{self.seed}"


@dataclass(frozen=True, slots=True)
class Training:
    """One (arm, task, seed) to train before the task's units: a trial on each of `episodes` in turn."""

    arm: Arm
    task: str
    seed: int
    episodes: tuple[Variant, ...]
    budgets: tuple[int, ...]
    """Step budget per episode."""

    @property
    def name(self) -> str:
        return f"{self.task} (training)"

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.name}/s{self.seed}"


Job = Unit | Training
