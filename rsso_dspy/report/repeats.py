"""pass^k: how likely k independent repeats of a variant are all solved (tau-bench, Yao et al. 2024).

    estimate_repeat_success(records)        # RepeatSuccess("trials", k=2, variants=56, estimate=...), ...

Repeats of a variant are its trials, where none depends on an earlier one, or its whole units, one a seed. With c of n
repeats solved, a draw of k of them is all solved in C(c, k) / C(n, k) of cases, which is unbiased as long as n was
chosen beforehand (the estimator of pass@k in Chen et al. 2021, of all solved instead of any).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import TrialsRecord, UnitRecord
from rsso_dspy.report.doses import count_shown_memories
from rsso_dspy.report.intervals import (
    SCORES,
    MeanEstimate,
    UnitValue,
    count_variants,
    estimate_mean,
)

Repeats = Literal["trials", "units"]

LEARNS = "a trial reads what earlier ones wrote"
STOPS = "units stop at a success; protocol.stop_on_success=false plays on"
WARMER = "its later trials were sampled by other settings than the first"

PLAYING_ON = "release/"  # presets that play on after a success, unless they say that they stop


@dataclass(frozen=True, slots=True)
class RepeatSuccess:
    """pass^k of one arm."""

    repeats: Repeats
    k: int
    variants: int  # those with k repeats or more
    estimate: MeanEstimate  # percent of draws of k repeats that are all solved


@dataclass(frozen=True, slots=True)
class VariantRepeats:
    """The repeats of one variant that began with the same memory."""

    task: str
    variant: int
    solved: int
    played: int

    def compute_all_solved(self, k: int) -> float:
        """Return the percentage of draws of k repeats that are all solved."""
        return 100 * comb(self.solved, k) / comb(self.played, k)


def estimate_repeat_success(scored: Sequence[UnitRecord]) -> Iterator[RepeatSuccess]:
    """Yield pass^k of the units of one arm for k = 1, 2, ... up to the most repeats of a variant: of trials, then of
    whole units. Nothing where no variant has two repeats."""
    has_several = any(len(record.trials) > 1 for record in scored)
    if has_several and not find_dependence(scored):
        yield from estimate_from_counts("trials", _count_solved_trials(scored))
    yield from estimate_from_counts("units", _count_solved_units(scored))


def find_dependence(scored: Sequence[UnitRecord]) -> str:
    """Return why the trials of an arm are no independent repeats; empty where they are."""
    if _learns(scored):
        return LEARNS
    if not _plays_on(scored):
        return STOPS
    if any(_changes_settings(record) for record in scored):
        return WARMER
    return ""


def _learns(scored: Sequence[UnitRecord]) -> bool:
    """Whether a memory may have changed from trial to trial. Of a method that is unknown here, whether any text of a
    memory stood in its prompts."""
    if all(_is_frozen(record.protocol) for record in scored):
        return False
    try:
        return any(get_method(record.method).written for record in scored[:1])
    except UsageError:
        return any(memory.trials for memory in count_shown_memories(scored))


def _is_frozen(protocol: str) -> bool:
    """Whether memories are read and never changed, as they are too where a training wrote them."""
    departures = protocol.split()[1:]
    if "frozen=True" in departures:
        return True
    if "frozen=False" in departures:
        return False
    return any(departure.startswith("transfer=") for departure in departures)


def _plays_on(scored: Sequence[UnitRecord]) -> bool:
    """Whether every unit played all its trials, and would have done so after a success too: the number of trials must
    not depend on their results."""
    longest = max((len(record.trials) for record in scored), default=0)
    if any(len(record.trials) < max(longest, record.trials_allowed) for record in scored):
        return False
    has_gone_on = any(trajectory.solved for record in scored for trajectory in record.trajectories[:-1])
    return has_gone_on or all(_says_to_play_on(record.protocol) for record in scored)


def _says_to_play_on(protocol: str) -> bool:
    preset, *departures = protocol.split() or [""]
    if preset.startswith(PLAYING_ON):
        return "stop_on_success=True" not in departures
    return "stop_on_success=False" in departures


def _changes_settings(record: TrialsRecord) -> bool:
    """Whether the actor was sampled otherwise in a later trial, as where retries are warmer than a first trial at
    temperature 0. A seed is no setting."""
    settings = []
    for result in record.trials:
        parameters = dict(result.sent.get("actor", {}))
        parameters.pop("seed", None)
        settings.append(parameters)
    return any(later != settings[0] for later in settings[1:])


def _count_solved_trials(scored: Iterable[UnitRecord]) -> Iterator[VariantRepeats]:
    """Count trials of all seeds together, but for seeds that learnt other memories beforehand."""
    trials: dict[tuple[str, int, tuple[str, ...]], list[bool]] = {}
    for record in scored:
        key = (record.variant.task, record.variant.index, _name_memory(record))
        solved = [trajectory.solved for trajectory in record.trajectories]
        trials.setdefault(key, []).extend(solved)

    for (task, variant, _), solved in trials.items():
        yield VariantRepeats(task, variant, sum(solved), len(solved))


def _name_memory(record: UnitRecord) -> tuple[str, ...]:
    """Name what a unit began with: files by their content, and what was learnt before by the seed of its run."""
    names = []
    for source in record.sources:
        is_file = source.kind == "file"
        names.append(source.digest if is_file else f"seed {record.seed}")
    return tuple(names)


def _count_solved_units(scored: Iterable[UnitRecord]) -> Iterator[VariantRepeats]:
    units: dict[tuple[str, int], list[bool]] = {}
    for record in scored:
        key = (record.variant.task, record.variant.index)
        is_solved = any(trajectory.solved for trajectory in record.trajectories)
        units.setdefault(key, []).append(is_solved)

    for (task, variant), solved in units.items():
        yield VariantRepeats(task, variant, sum(solved), len(solved))


def estimate_from_counts(repeats: Repeats, counted: Iterable[VariantRepeats]) -> Iterator[RepeatSuccess]:
    """Yield pass^k for k = 1, 2, ... up to the most repeats of a variant; nothing where none has two."""
    variants = list(counted)
    most_repeats = max((variant.played for variant in variants), default=0)
    if most_repeats < 2:
        return

    for k in range(1, most_repeats + 1):
        shares = []
        for variant in variants:
            if variant.played >= k:
                shares.append(UnitValue(variant.task, variant.variant, variant.compute_all_solved(k)))
        yield RepeatSuccess(repeats, k, count_variants(shares), estimate_mean(shares, SCORES))
