"""Which arms are compared, and their comparison on the same units: of two arms, and of four in a 2x2 design. Pairs
leave out units that errored in one of the arms; `Comparison.excluded` counts them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from operator import mul
from statistics import fmean
from typing import Literal, get_args

from rsso_dspy.errors import UnknownName
from rsso_dspy.programs.methods import find_retry_control
from rsso_dspy.records import ZERO_SHOT, UnitRecord
from rsso_dspy.report import metrics, statistics
from rsso_dspy.report.metrics import UnitKey, get_best_accumulator
from rsso_dspy.report.statistics import BootstrapInterval as Interval
from rsso_dspy.report.statistics import UnitValue

InteractionVerdict = Literal["compose", "redundant", "adversarial", "undecided"]
"""compose: both memories together beat each alone. adversarial: together they are worse than each alone. redundant:
neither of these, and together they gain less than the sum of both. undecided: n is too small, or there is a single task
type. The first two require both intervals to exclude 0, so their error rate is at most that of one interval."""

FACTORIAL_METHODS = ("react-sso", "reflexion-sso", "sso", "rsso")  # neither memory, reflections, skills, both
PAPER_METHODS = ("react", "reflexion", "sso", "rsso")  # the four arms of rSSO (Table 1)
FLAT_OF = {"react-sso": "react", "reflexion-sso": "reflexion"}  # the same memories in the flat scaffold
PAPER_LAYOUT = ("sso-adapt", "release")  # presets in which the scaffolds differ also where there is no skill

BESIDE_SKILLS = "reflections beside skills"  # the first headline of rSSO's abstract
BESIDE_REFLECTIONS = "skills beside reflections"  # the second; asked where all four arms of the paper are
OVER_RETRIES = "memory over equal retries"
OVER_NONE = "memory over none"
OVER_SCAFFOLD = "scaffold"
ELSEWHERE = "the same arm of another folder"  # questions of comparisons
EVERY = "all"  # selects every pair, in place of an arm's name
Stratum = Literal["solved at trial 1", "plateau", "other", "paper's plateau"]  # by the first arm


@dataclass(frozen=True, slots=True)
class StratumGain:
    stratum: Stratum
    units: int
    difference: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``second - first`` in best accumulator over units that both arms finished."""

    first: str
    second: str
    asks: str  # the question
    trials: int  # number of first trials that scores are the best of: as many as both arms may play, for equal retries
    may_play: tuple[int, ...]  # allowed trials of the first and the second arm
    pairs: int
    excluded: int  # number of units that only one arm finished, or that errored in either
    difference: float | None  # Mean difference in points
    by_task: Mapping[str, float]  # task type to its mean difference
    higher: int  # number of units on which the second arm scored higher
    lower: int
    interval: Interval | None  # clustered by task type; by variant where there is one
    wilcoxon: statistics.WilcoxonResult  # over the means of task types (rSSO, section 4)
    sign: statistics.SignTestResult  # over the means of task types
    gains: tuple[StratumGain, ...]  # by stratum of the first arm
    unlike: str  # in which rules the arms differ beside their methods; empty if in none
    holm: float | None = None  # p of its signed-rank test, corrected for the number of comparisons of the run

    @property
    def name(self) -> str:
        return f"{self.second} - {self.first}"

    @property
    def has_winner(self) -> bool:
        """Whether the interval over task types lies on one side of 0, and the test over task types agrees after the
        correction for all comparisons of the report. Of a single task type there is no such test, so no winner."""
        is_decided = self.interval is not None and self.interval.over == "task types" and self.interval.is_decided
        return is_decided and self.holm is not None and self.holm <= statistics.SIGNIFICANT


@dataclass(frozen=True, slots=True)
class Factorial2x2:
    pairs: int  # units that all four arms finished
    corners: tuple[str, ...]  # methods: neither memory, the first, the second, both
    means: tuple[float, ...]  # Mean best accumulators, in the order of the corners
    interaction: Interval | None
    over_one: Interval | None  # both together minus the first memory alone
    over_other: Interval | None  # both together minus the second memory alone
    reading: InteractionVerdict

    @property
    def difference(self) -> float:
        neither, one, other, both = self.means
        return both - one - other + neither


def compare_all(arms: Mapping[str, Sequence[UnitRecord]], against: str | None = None) -> tuple[Comparison, ...]:
    """Compare the arms that `select_contrasts` selects, which may raise `UnknownName`."""
    compared = [
        compare_arms(first, arms[first], second, arms[second], asks)
        for (first, second), asks in select_contrasts(arms, against).items()
    ]
    corrected = statistics.apply_holm_correction([each.wilcoxon.p for each in compared])
    return tuple(replace(each, holm=holm) for each, holm in zip(compared, corrected, strict=True))


def compare_arms(
    first: str, ours: Sequence[UnitRecord], second: str, theirs: Sequence[UnitRecord], asks: str = ""
) -> Comparison:
    """Compare two arms on the units that both finished, by as many first trials as both may play."""
    before, after = _index_scored_units(ours), _index_scored_units(theirs)
    shared = sorted(before.keys() & after.keys())
    known = {metrics.get_unit_key(record) for record in (*ours, *theirs)}
    may_play = metrics.list_allowed_trials([list(before.values()), list(after.values())])
    trials = min(may_play)
    gains = {k: get_best_accumulator(after[k], trials) - get_best_accumulator(before[k], trials) for k in shared}
    by_task = statistics.group_values((key[0], gain) for key, gain in gains.items())
    means = [round(fmean(values), 9) for values in by_task.values()]
    strata: dict[Stratum, list[float]] = {stratum: [] for stratum in get_args(Stratum)}
    for key, gain in gains.items():
        for stratum in _list_strata(before[key], trials):
            strata[stratum].append(gain)
    return Comparison(
        first,
        second,
        OVER_NONE if asks == OVER_RETRIES and trials == 1 else asks,  # a single trial has no retries
        trials,
        tuple(may_play),
        len(shared),
        len(known) - len(shared),
        fmean(gains.values()) if gains else None,
        {task: fmean(values) for task, values in by_task.items()},
        sum(gain > 0 for gain in gains.values()),
        sum(gain < 0 for gain in gains.values()),
        statistics.bootstrap_mean(_list_values(gains)),
        statistics.run_wilcoxon_test(means),
        statistics.run_sign_test(means),
        tuple(StratumGain(name, len(each), fmean(each) if each else None) for name, each in strata.items()),
        _describe_other_rules([[units[key] for key in shared] for units in (before, after)], asks),
    )


def _list_values(values: Mapping[UnitKey, float]) -> list[UnitValue]:
    return [UnitValue(task, variant, value) for (task, variant, _seed), value in values.items()]


def _describe_other_rules(arms: Sequence[Sequence[UnitRecord]], asks: str) -> str:
    first, second = (" and ".join(sorted({record.protocol for record in records})) for records in arms)
    said = [f"protocols {first} and {second}"] if first != second else []
    if asks != OVER_SCAFFOLD:
        said += _describe_scaffolds(arms)
    if budgets := sum(one.budget != other.budget for one, other in zip(*arms, strict=True)):
        said.append(f"{budgets} of {len(arms[0])} pairs with other numbers of steps per trial")
    return "; ".join(said)


def _describe_scaffolds(arms: Sequence[Sequence[UnitRecord]]) -> list[str]:
    """Name the scaffolds of two arms where they differ, and send other prompts without any memory: not in a
    conversation."""
    records = [record for units in arms for record in units]
    if all(plays_conversation(record.protocol) for record in records):
        return []
    first, second = ({metrics.find_scaffold(record.method) for record in units} for units in arms)
    if first == second or None in first | second:
        return []
    return [f"scaffolds {' and '.join(sorted(map(str, first)))} and {' and '.join(sorted(map(str, second)))}"]


def compute_factorial(arms: Mapping[str, Sequence[UnitRecord]]) -> Factorial2x2 | None:
    """Compute the 2x2 of skills and reflections; None if an arm is missing or no unit was finished in all four."""
    corners = tuple(_find_arm_alike(arms, name) for name in FACTORIAL_METHODS)
    played = [_index_scored_units(arms.get(name, ())) for name in corners]
    shared = sorted(set.intersection(*map(set, played)))
    if not shared:
        return None
    trials = min(metrics.list_allowed_trials([list(each.values()) for each in played]))
    scores = {key: [get_best_accumulator(each[key], trials) for each in played] for key in shared}

    def bootstrap(*signs: int) -> Interval | None:
        """Bootstrap the sum of the corners with these signs, whose largest possible value follows from the signs."""
        sums = {key: sum(map(mul, signs, points)) for key, points in scores.items()}
        return statistics.bootstrap_mean(_list_values(sums), signs.count(1) * statistics.MOST_POINTS)

    interaction, over_one, over_other = bootstrap(1, -1, -1, 1), bootstrap(0, -1, 0, 1), bootstrap(0, 0, -1, 1)
    reading: InteractionVerdict = "redundant" if interaction and interaction.high < 0 else "undecided"
    if all(each and each.low > 0 for each in (over_one, over_other)):
        reading = "compose"
    elif all(each and each.high < 0 for each in (over_one, over_other)):
        reading = "adversarial"
    if len({task for task, *_ in shared}) < statistics.FEWEST:
        reading = "undecided"
    means = tuple(fmean(each) for each in zip(*scores.values(), strict=True))
    return Factorial2x2(len(shared), corners, means, interaction, over_one, over_other, reading)


def _find_arm_alike(arms: Mapping[str, Sequence[UnitRecord]], method: str) -> str:
    """Return the method, or if it is missing, that of the flat scaffold with the same memories, where both scaffolds
    send the same: in a conversation."""
    base, plus, added = method.partition("+")
    flat = f"{FLAT_OF.get(base, base)}{plus}{added}"
    alike = all(plays_conversation(record.protocol) for record in arms.get(flat, ()))
    return flat if method not in arms and alike else method


def plays_conversation(protocol: str) -> bool:
    preset, *departures = protocol.split()
    layouts = [each for each in departures if each.startswith("layout=")]
    return layouts == ["layout=conversation"] or (not layouts and not preset.startswith(PAPER_LAYOUT))


def _list_strata(record: UnitRecord, trials: int) -> Iterator[Stratum]:
    first = record.trajectories[0]
    if first.solved:
        yield "solved at trial 1"
    else:
        yield "plateau" if get_best_accumulator(record, trials) <= first.accumulator else "other"
    if not metrics.is_solved(record, trials):
        yield "paper's plateau"


def _index_scored_units(records: Sequence[UnitRecord]) -> dict[UnitKey, UnitRecord]:
    return {metrics.get_unit_key(record): record for record in metrics.select_scored_units(records)}


def select_contrasts(
    arms: Mapping[str, Sequence[UnitRecord]], against: str | None = None
) -> dict[tuple[str, str], str]:
    """Return the pairs of arms to compare by ``second - first``, each once, with the question: by default those that
    the methods are designed for, within each folder, and then each arm with that of the first folder; else all arms
    against one, or every pair. Raises `UnknownName` for an unknown arm."""
    if against == EVERY:
        return dict.fromkeys(combinations(arms, 2), "")
    if against is not None:
        if against not in arms:
            raise UnknownName("arm", against, arms)
        return {(against, name): "" for name in arms if name != against}
    several = [names for names in _group_arms_by_program(arms).values() if len(names) > 1]
    if not several:
        return _select_designed_contrasts(arms)

    contrasts: dict[tuple[str, str], str] = {}
    for folder in _group_arms_by_folder(arms):
        contrasts |= _select_designed_contrasts(folder)
    for first, *others in several:
        contrasts |= {(first, name): ELSEWHERE for name in others}
    return contrasts


def _group_arms_by_folder(arms: Mapping[str, Sequence[UnitRecord]]) -> list[dict[str, Sequence[UnitRecord]]]:
    """Group the arms of several folders, each of which calls all of its arms by what its settings are besides."""
    folders: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for name, units in arms.items():
        method, program = units[0].method, units[0].program
        own_name = method if program == ZERO_SHOT else f"{method}+{program}"
        folders.setdefault(name.removeprefix(own_name), {})[name] = units
    return list(folders.values())


def _select_designed_contrasts(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[tuple[str, str], str]:
    """Return the pairs that the methods of one folder are designed for; of others each with the first arm."""
    by_program = _group_arms_by_program(arms)
    named = {played: name for played, (name,) in by_program.items()}
    asked: dict[tuple[str, str], str] = {}
    for (method, program), name in named.items():
        together = {played for played, its in named if its == program}
        for asks, (control, of) in _list_baselines(method, program, together):
            same_program = {played: arms[arm] for (played, its), arm in named.items() if its == of}
            other = named.get((_find_arm_alike(same_program, control), of), name)
            if other != name and (name, other) not in asked:
                asked.setdefault((other, name), asks)
    told = set(chain.from_iterable(asked))
    first, *rest = arms or ("",)
    return asked | {(first, name): "" for name in rest if name not in told}


def compute_factorials(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, Factorial2x2]:
    """Return the 2x2 of every program that has one; empty if several folders have the same arms."""
    programs: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for (method, program), (name, *others) in _group_arms_by_program(arms).items():
        if others:
            return {}
        programs.setdefault(program, {})[method] = arms[name]
    return {program: square for program, corners in programs.items() if (square := compute_factorial(corners))}


def _group_arms_by_program(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[tuple[str, str], list[str]]:
    return statistics.group_values(((units[0].method, units[0].program), name) for name, units in arms.items())


def _list_baselines(method: str, program: str, together: Collection[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield possible comparisons of an arm with their questions, the narrowest first. `together` are the methods that
    played with the same program."""
    base, plus, added = method.partition("+")
    if program != ZERO_SHOT:
        yield "compiling", (method, ZERO_SHOT)
        return
    if plus:
        yield "constitution", (base, program)
    with_it = f"{plus}{added}"
    if base == "rsso":
        yield BESIDE_SKILLS, (f"sso{with_it}", program)
        if all(f"{name}{with_it}" in together for name in PAPER_METHODS):
            yield BESIDE_REFLECTIONS, (f"reflexion{with_it}", program)
    if control := find_retry_control(base):
        yield OVER_RETRIES, (f"{control}{with_it}", program)
    if base == "react-sso":
        yield OVER_SCAFFOLD, (f"react{with_it}", program)
