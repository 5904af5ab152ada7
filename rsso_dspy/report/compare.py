"""Which arms are compared, and their comparison on the same units: of two arms, and of four in a 2x2 design. Pairs
leave out units that errored in one of the arms; `Comparison.excluded` counts them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from rsso_dspy.errors import UnknownName
from rsso_dspy.programs.methods import find_retry_control
from rsso_dspy.records import ZERO_SHOT, UnitRecord
from rsso_dspy.report.metrics import (
    UnitKey,
    count_allowed_trials,
    get_best_accumulator,
    get_unit_key,
    map_allowed_trials,
    select_scored_units,
)
from rsso_dspy.report.statistics import (
    BootstrapInterval,
    McNemarResult,
    SignTestResult,
    WilcoxonResult,
    bootstrap_mean,
    run_mcnemar_test,
    run_sign_test,
    run_wilcoxon_test,
)

InteractionVerdict = Literal["compose", "redundant", "adversarial", "undecided"]
"""compose: both memories together beat each alone. adversarial: together they are worse than each alone. redundant:
neither of these, and together they gain less than the sum of both. undecided: n is too small. The first two require
both intervals to exclude 0, so their error rate is at most that of one interval."""

FACTORIAL_METHODS = ("react-sso", "reflexion-sso", "sso", "rsso")  # neither memory, reflections, skills, both

BESIDE_SKILLS = "reflections beside skills"
OVER_RETRIES = "memory over equal retries"
OVER_NONE = "memory over none"
ELSEWHERE = "the same arm of another folder"  # questions of comparisons
Stratum = Literal["solved at trial 1", "plateau", "other", "paper's plateau"]  # by the first arm


@dataclass(frozen=True, slots=True)
class Comparison:
    """``second - first`` in best accumulator over units that both arms finished."""

    first: str
    second: str
    trials: int  # number of first trials that scores are the best of: as many as both arms may play, for equal retries
    may_play: tuple[int, int]  # allowed trials of the first and the second arm
    pairs: int
    excluded: int  # number of units that only one arm finished, or that errored in either
    difference: float | None  # Mean difference in points
    by_task: Mapping[str, float]  # task type to its mean difference
    higher: int  # number of units on which the second arm scored higher
    lower: int
    interval: BootstrapInterval | None  # interval clustered by task type, or None
    wilcoxon: WilcoxonResult  # over the means of task types (rSSO, section 4)
    sign: SignTestResult  # over the means of task types
    mcnemar: McNemarResult  # McNemar test over solved units


@dataclass(frozen=True, slots=True)
class Factorial2x2:
    pairs: int  # units that all four arms finished
    corners: tuple[str, ...]  # methods: neither memory, the first, the second, both
    means: tuple[float, ...]  # Mean best accumulators, in the order of the corners
    interaction: BootstrapInterval | None
    over_one: BootstrapInterval | None  # both together minus the first memory alone
    over_other: BootstrapInterval | None  # both together minus the second memory alone
    reading: InteractionVerdict

    @property
    def difference(self) -> float:
        neither, one, other, both = self.means
        return both - one - other + neither


@dataclass(frozen=True, slots=True)
class StratumGain:
    stratum: Stratum
    units: int
    difference: float | None


def compare_arms(first: str, ours: Sequence[UnitRecord], second: str, theirs: Sequence[UnitRecord]) -> Comparison:
    """Compare two arms on the units that both finished, by as many first trials as both may play."""
    before, after = _index_scored_units(ours), _index_scored_units(theirs)
    shared = sorted(before.keys() & after.keys())
    known = {get_unit_key(record) for record in (*ours, *theirs)}
    trials = count_common_trials(before.values(), after.values())
    by_task = _group_differences_by_task(
        shared, lambda key: get_best_accumulator(after[key], trials) - get_best_accumulator(before[key], trials)
    )
    differences = [value for values in by_task.values() for value in values]
    means = [round(fmean(values), 9) for values in by_task.values()]
    solved = ([_is_solved(each[key], trials) for key in shared] for each in (before, after))
    return Comparison(
        first,
        second,
        trials,
        (count_allowed_trials(before.values(), trials), count_allowed_trials(after.values(), trials)),
        len(shared),
        len(known) - len(shared),
        fmean(differences) if differences else None,
        {task: fmean(values) for task, values in by_task.items()},
        sum(value > 0 for value in differences),
        sum(value < 0 for value in differences),
        bootstrap_mean(by_task),
        run_wilcoxon_test(means),
        run_sign_test(means),
        run_mcnemar_test(*solved),
    )


def count_common_trials(*arms: Iterable[UnitRecord]) -> int:
    """Return the number of trials that units of all arms may play; solved units stop earlier and keep their best."""
    return min(map_allowed_trials({str(number): list(records) for number, records in enumerate(arms)}).values())


def compute_factorial(arms: Mapping[str, Sequence[UnitRecord]]) -> Factorial2x2 | None:
    """Compute the 2x2 of skills and reflections; None if an arm is missing or no unit was finished in all four."""
    played = [_index_scored_units(arms.get(name, ())) for name in FACTORIAL_METHODS]
    shared = sorted(set.intersection(*(set(each) for each in played)))
    if not shared:
        return None
    trials = count_common_trials(*(each.values() for each in played))
    scores = [{key: get_best_accumulator(each[key], trials) for key in shared} for each in played]
    neither, one, other, both = scores
    means = tuple(fmean(each.values()) for each in scores)
    interactions = _group_differences_by_task(shared, lambda key: both[key] - one[key] - other[key] + neither[key])
    interaction = bootstrap_mean(interactions, most=200)
    over_one = bootstrap_mean(_group_differences_by_task(shared, lambda key: both[key] - one[key]))
    over_other = bootstrap_mean(_group_differences_by_task(shared, lambda key: both[key] - other[key]))
    reading = _classify_interaction(interaction, over_one, over_other)
    return Factorial2x2(len(shared), FACTORIAL_METHODS, means, interaction, over_one, over_other, reading)


def compute_stratum_gains(first: Sequence[UnitRecord], second: Sequence[UnitRecord]) -> list[StratumGain]:
    """Compute ``second - first`` by stratum of the first arm. The paper's plateau (third contribution of rSSO) is by
    environment score, because variants with points at reset cannot accumulate 100."""
    before, after = _index_scored_units(first), _index_scored_units(second)
    trials = count_common_trials(before.values(), after.values())
    found: dict[Stratum, list[float]] = {stratum: [] for stratum in get_args(Stratum)}
    for key in sorted(before.keys() & after.keys()):
        gain = get_best_accumulator(after[key], trials) - get_best_accumulator(before[key], trials)
        for stratum in _list_strata(before[key], trials):
            found[stratum].append(gain)
    return [StratumGain(name, len(values), fmean(values) if values else None) for name, values in found.items()]


def _classify_interaction(
    interaction: BootstrapInterval | None, one: BootstrapInterval | None, other: BootstrapInterval | None
) -> InteractionVerdict:
    if one and other and min(one.low, other.low) > 0:
        return "compose"
    if one and other and max(one.high, other.high) < 0:
        return "adversarial"
    return "redundant" if interaction and interaction.high < 0 else "undecided"


def _list_strata(record: UnitRecord, trials: int) -> Iterator[Stratum]:
    first = record.trajectories[0]
    if first.solved:
        yield "solved at trial 1"
    else:
        yield "plateau" if get_best_accumulator(record, trials) <= first.accumulator else "other"
    if not _is_solved(record, trials):
        yield "paper's plateau"


def _is_solved(record: UnitRecord, trials: int) -> bool:
    return any(trajectory.solved for trajectory in record.trajectories[:trials])


def _index_scored_units(records: Sequence[UnitRecord]) -> dict[UnitKey, UnitRecord]:
    return {get_unit_key(record): record for record in select_scored_units(records)}


def _group_differences_by_task(keys: Sequence[UnitKey], value: Callable[[UnitKey], float]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for key in keys:
        found[key[0]].append(value(key))
    return dict(found)


class Contrast(NamedTuple):
    """Two arms to compare by ``second - first``; `asks` names the question."""

    first: str
    second: str
    asks: str


def select_contrasts(
    arms: Mapping[str, Sequence[UnitRecord]], against: str | None = None, every: bool = False
) -> list[Contrast]:
    """Select the comparisons of a run, each pair once: by default those that the methods are designed for, and of
    several folders each arm with that of the first folder. Raises `UnknownName` for an unknown arm."""
    if against is not None:
        if against not in arms:
            raise UnknownName("arm", against, arms)
        return [Contrast(against, name, "") for name in arms if name != against]
    if every:
        return [Contrast(first, second, "") for first, second in combinations(arms, 2)]
    by_program = _group_arms_by_program(arms)
    if several := [names for names in by_program.values() if len(names) > 1]:
        return [Contrast(first, name, ELSEWHERE) for first, *others in several for name in others]
    named = {played: name for played, (name,) in by_program.items()}
    asked: dict[frozenset[str], Contrast] = {}
    for (method, program), name in named.items():
        for asks, other in _list_baselines(method, program):
            if other in named and named[other] != name:
                asked.setdefault(frozenset((name, named[other])), Contrast(named[other], name, asks))
    first, *rest = arms or ("",)
    told = {name for question in asked.values() for name in (question.first, question.second)}
    return [*asked.values(), *(Contrast(first, name, "") for name in rest if name not in told)]


def compute_factorials(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, Factorial2x2]:
    """Return the 2x2 of every program that has one; empty if several folders have the same arms."""
    programs: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for (method, program), (name, *others) in _group_arms_by_program(arms).items():
        if others:
            return {}
        programs.setdefault(program, {})[method] = arms[name]
    return {program: square for program, corners in programs.items() if (square := compute_factorial(corners))}


def _group_arms_by_program(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[tuple[str, str], list[str]]:
    """Return the arms by method and program."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, units in arms.items():
        found[units[0].method, units[0].program].append(name)
    return found


def _list_baselines(method: str, program: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield possible comparisons of an arm with their questions, the narrowest first."""
    base, plus, added = method.partition("+")
    if program != ZERO_SHOT:
        yield "compiling", (method, ZERO_SHOT)
        return
    if plus:
        yield "constitution", (base, program)
    with_it = f"{plus}{added}"
    if base == "rsso":
        yield BESIDE_SKILLS, (f"sso{with_it}", program)
    if control := find_retry_control(base):
        yield OVER_RETRIES, (f"{control}{with_it}", program)
    if base == "react-sso":
        yield "scaffold", (f"react{with_it}", program)
