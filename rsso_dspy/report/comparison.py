"""Two arms on the same units, and four arms as a square: what the differences are, and what may be said of them.

    compare("sso", ours, "rsso", theirs).interval       # clustered by task type
    square({"react-sso": ..., "reflexion-sso": ..., "sso": ..., "rsso": ...}).reading     # "redundant"

A unit that errored in one of the arms is in no pair, and counted.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rsso_dspy.report.inference import (
    Interval,
    McNemar,
    Sign,
    Wilcoxon,
    clustered,
    holm,
    mcnemar,
    sign_test,
    wilcoxon,
)
from rsso_dspy.report.metrics import best_accumulator
from rsso_dspy.trajectory import SOLVED_SCORE, UnitRecord

Key = tuple[str, int, int]
"""Task type, variant, seed."""

Reading = Literal["compose", "redundant", "adversarial", "undecided"]
"""compose: both memories together do better than the better one alone. adversarial: worse. redundant: together they
bring less than the sum of both, and no more than the better one. undecided: none of it can be told at this n."""

SQUARE = ("react-sso", "reflexion-sso", "sso", "rsso")
"""Neither memory, reflections, skills, both: skills x reflections within the SSO scaffold."""

Stratum = Literal["solved at trial 1", "plateau", "other"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``second - first`` in best accumulator over the units that both finished."""

    first: str
    second: str
    pairs: int
    excluded: int
    """Units that only one arm finished, or that errored in either."""
    interval: Interval | None
    """Mean difference, clustered by task type; None below two task types."""
    wilcoxon: Wilcoxon
    """Over the means of task types (rSSO, section 4)."""
    sign: Sign
    """Over the means of task types."""
    mcnemar: McNemar
    """Of units solved."""


@dataclass(frozen=True, slots=True)
class Square:
    """Do two memories compose? Per unit, both - skills - reflections + neither."""

    pairs: int
    """Units that all four arms finished."""
    interaction: Interval | None
    over_better: Interval | None
    """Both together less the better of the two alone."""
    better: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class Gain:
    """Difference within a stratum."""

    stratum: Stratum
    units: int
    difference: float | None


def compare(first: str, ours: Sequence[UnitRecord], second: str, theirs: Sequence[UnitRecord]) -> Comparison:
    """Two arms, unit by unit."""
    before, after = _finished(ours), _finished(theirs)
    shared = sorted(before.keys() & after.keys())
    known = {_key(record) for record in (*ours, *theirs)}
    by_task = _by_task(shared, lambda key: best_accumulator(after[key]) - best_accumulator(before[key]))
    means = [round(fmean(values), 9) for values in by_task.values()]
    return Comparison(
        first,
        second,
        len(shared),
        len(known) - len(shared),
        clustered(by_task),
        wilcoxon(means),
        sign_test(means),
        mcnemar([_solved(before[key]) for key in shared], [_solved(after[key]) for key in shared]),
    )


def corrected(comparisons: Sequence[Comparison]) -> list[float | None]:
    """The p values of the signed-rank tests, corrected for being several."""
    return holm([comparison.wilcoxon.p for comparison in comparisons])


def square(arms: Mapping[str, Sequence[UnitRecord]], corners: Sequence[str] = SQUARE) -> Square | None:
    """The 2x2 of two memories; None when an arm of it is missing, or no unit was finished in all four."""
    if not all(name in arms for name in corners):
        return None
    played = [_finished(arms[name]) for name in corners]
    shared = sorted(set.intersection(*(set(each) for each in played)))
    if not shared:
        return None
    scores = [{key: best_accumulator(each[key]) for key in shared} for each in played]
    neither, one, other, both = scores
    better = max((1, 2), key=lambda corner: fmean(scores[corner].values()))
    interaction = clustered(_by_task(shared, lambda key: both[key] - one[key] - other[key] + neither[key]))
    over = clustered(_by_task(shared, lambda key: both[key] - scores[better][key]))
    return Square(len(shared), interaction, over, corners[better], _reading(interaction, over))


def gains(first: Sequence[UnitRecord], second: Sequence[UnitRecord]) -> list[Gain]:
    """``second - first`` by what became of the unit in the first arm: solved at trial 1, never better than at trial 1,
    or better later (the third contribution of rSSO)."""
    before, after = _finished(first), _finished(second)
    found: dict[Stratum, list[float]] = {"solved at trial 1": [], "plateau": [], "other": []}
    for key in sorted(before.keys() & after.keys()):
        found[_stratum(before[key])].append(best_accumulator(after[key]) - best_accumulator(before[key]))
    return [Gain(name, len(values), fmean(values) if values else None) for name, values in found.items()]


def _reading(interaction: Interval | None, over: Interval | None) -> Reading:
    if interaction is None or over is None:
        return "undecided"
    if over.low > 0:
        return "compose"
    if over.high < 0:
        return "adversarial"
    return "redundant" if interaction.high < 0 else "undecided"


def _stratum(record: UnitRecord) -> Stratum:
    first = record.trajectories[0]
    if first.environment_score >= SOLVED_SCORE:
        return "solved at trial 1"
    return "plateau" if best_accumulator(record) <= first.accumulator else "other"


def _solved(record: UnitRecord) -> bool:
    return any(trajectory.environment_score >= SOLVED_SCORE for trajectory in record.trajectories)


def _finished(records: Sequence[UnitRecord]) -> dict[Key, UnitRecord]:
    return {_key(record): record for record in records if not record.errored}


def _key(record: UnitRecord) -> Key:
    return record.variant.task, record.variant.index, record.seed


def _by_task(keys: Sequence[Key], value: Callable[[Key], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for key in keys:
        found[key[0]].append(value(key))
    return dict(found)
