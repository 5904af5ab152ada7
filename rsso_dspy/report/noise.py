"""How much of a difference is noise.

    measure_noise(differences, before, after)       # Noise(Spread(types=9.5, units=25.8, trial=None), 14, 4.0)

The parts are those of a one-way analysis of variance of the units' differences, with task types as groups; that of a
trial comes free where both arms begin without a memory and do not share their answers: their first trials are two
draws of the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from rsso_dspy.power import Design, Spread
from rsso_dspy.programs.methods import plays_conversation
from rsso_dspy.records import Trajectory, UnitRecord
from rsso_dspy.report.doses import list_memory_regions
from rsso_dspy.report.intervals import UnitValue, count_variants, group_values
from rsso_dspy.report.metrics import find_scaffold


@dataclass(frozen=True, slots=True)
class Noise:
    """The spread of the differences of two arms, in points."""

    spread: Spread
    task_types: int
    variants: float  # of a type, on average

    @property
    def design(self) -> Design:
        """The size of the run that was measured."""
        return Design(self.task_types, max(1, round(self.variants)))


def measure_noise(
    values: Sequence[UnitValue], before: Sequence[UnitRecord], after: Sequence[UnitRecord]
) -> Noise | None:
    """Measure the noise of the differences `values` of two arms, given with their units; None of a single task type,
    and where each type has a single variant, which does not show how much its others would differ."""
    by_type = list(group_values((value.task, value.value) for value in values).values())
    sizes = [len(differences) for differences in by_type]
    if len(by_type) < 2 or max(sizes) < 2:
        return None

    of_units = _measure_variance_within(by_type)
    of_types = _measure_variance_of_types(values, by_type, of_units)
    spread = Spread(of_types**0.5, of_units**0.5, measure_trial_noise(before, after))
    return Noise(spread, len(by_type), count_variants(values) / len(by_type))


def _measure_variance_within(by_type: Sequence[Sequence[float]]) -> float:
    """Return the variance of the differences of a task type, pooled over the types."""
    squares = sum(variance(differences) * (len(differences) - 1) for differences in by_type if len(differences) > 1)
    sizes = [len(differences) for differences in by_type]
    return squares / (sum(sizes) - len(sizes))


def _measure_variance_of_types(values: Sequence[UnitValue], by_type: Sequence[Sequence[float]], within: float) -> float:
    """Return the variance of the task types' own differences: that of their means, less what units bring into it."""
    sizes = [len(differences) for differences in by_type]
    mean = fmean(value.value for value in values)
    between = sum(len(differences) * (fmean(differences) - mean) ** 2 for differences in by_type)
    usual_size = (sum(sizes) - sum(size**2 for size in sizes) / sum(sizes)) / (len(sizes) - 1)
    return max(0.0, (between / (len(sizes) - 1) - within) / usual_size)


def measure_trial_noise(before: Sequence[UnitRecord], after: Sequence[UnitRecord]) -> float | None:
    """Return the standard deviation, in points, of the difference between first trials of the same units, whose mean is
    0; None where the arms share them, a memory stood in one of them, or they were asked in another way."""
    units = list(zip(before, after, strict=True))
    if any(_list_rules(first) != _list_rules(second) for first, second in units):
        return None

    trials = [(first.trials[0], second.trials[0]) for first, second in units]
    if any(list_memory_regions(first) or list_memory_regions(second) for first, second in trials):
        return None

    trajectories = []
    for first, second in trials:
        if first.trajectory and second.trajectory:
            trajectories.append((first.trajectory, second.trajectory))
    if all(_list_actions(first) == _list_actions(second) for first, second in trajectories):
        return None

    return fmean((second.accumulator - first.accumulator) ** 2 for first, second in trajectories) ** 0.5


def _list_actions(trajectory: Trajectory) -> list[str]:
    return [step.action for step in trajectory.steps]


def _list_rules(record: UnitRecord) -> tuple[object, ...]:
    """Return what the first trial of a unit depends on, beside its memories."""
    scaffold = None
    if not plays_conversation(record.protocol):
        scaffold = find_scaffold(record.method)
    configuration = record.provenance.get("config_hash")
    return record.program, scaffold, record.protocol, record.model, record.budget, configuration
