"""Which arms are compared, and their comparison on the same units: of two arms, and of four in a 2x2 design. Pairs
leave out units that errored in one of the arms; `Comparison.excluded` counts them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from operator import mul
from statistics import fmean

from rsso_dspy.errors import UnknownName
from rsso_dspy.power import MARGIN
from rsso_dspy.programs.methods import FLAT_OF, find_retry_control, plays_conversation
from rsso_dspy.records import ZERO_SHOT, UnitRecord, name_arm
from rsso_dspy.report import metrics, statistics
from rsso_dspy.report.doses import Dose, is_untested, measure_doses
from rsso_dspy.report.intervals import (
    MOST_POINTS,
    Cluster,
    MeanInterval,
    UnitValue,
    estimate_interval,
    group_values,
)
from rsso_dspy.report.metrics import UnitKey, get_best_accumulator
from rsso_dspy.report.noise import Noise, measure_noise
from rsso_dspy.report.sequential import Course
from rsso_dspy.report.statistics import FlipTest
from rsso_dspy.report.verdicts import Evidence, Reading, Verdict, judge_difference, read_factorial

FACTORIAL_METHODS = ("react-sso", "reflexion-sso", "sso", "rsso")  # neither memory, reflections, skills, both
PAPER_METHODS = ("react", "reflexion", "sso", "rsso")  # the four arms of rSSO (Table 1)

BESIDE_SKILLS = "reflections beside skills"  # the first headline of rSSO's abstract
BESIDE_REFLECTIONS = "skills beside reflections"  # the second; asked where all four arms of the paper are
OVER_RETRIES = "memory over equal retries"
OVER_NONE = "memory over none"
OVER_SCAFFOLD = "scaffold"
ELSEWHERE = "the same arm of another folder"  # questions of comparisons
EVERY = "all"  # selects every pair, in place of an arm's name
FAILED_FIRST = "failed the shared first trial"  # which both arms played alike, so it favours none
PAPERS_PLATEAU = "paper's plateau"  # the first arm solved the unit in no trial

ArmKey = tuple[str, str, str]  # method, program and name of the constitution of an arm


@dataclass(frozen=True, slots=True)
class Question:
    """What a report asks."""

    against: str | None = None  # selects the comparisons, see `select_contrasts`
    margin: float = MARGIN  # points from which a difference matters
    over: Cluster = "task types"  # whether answers are about other task types, or about other variants of these
    ceiling: str | None = None  # an arm; the gains of others are also told as parts of its own


USUAL = Question()


@dataclass(frozen=True, slots=True)
class FamilyTest:
    """What is tested. What a 2x2 asks of two arms on the units and trials that they are compared by anyhow is the same
    test, in whichever direction it is asked."""

    arms: frozenset[str]
    pairs: int
    trials: int


@dataclass(frozen=True, slots=True)
class StratumGain:
    stratum: str
    units: int
    difference: float | None
    interval: MeanInterval | None = None  # None for the paper's plateau too: equal arms differ there as well


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
    unplayed: int  # units of either arm that have no record, or that ended in an error; not those that were refused
    difference: float | None  # Mean difference in points
    room: float | None  # points from the first arm's mean to 100: no difference can be larger
    by_task: Mapping[str, float]  # task type to its mean difference
    higher: int  # number of units on which the second arm scored higher
    lower: int
    interval: MeanInterval | None  # None too where the memory was not tested
    flips: FlipTest  # over the sums of clusters; without p where the memory was not tested
    wilcoxon: statistics.WilcoxonResult  # over the means of task types (rSSO, section 4)
    sign: statistics.SignTestResult  # over the means of task types
    gains: tuple[StratumGain, ...]
    doses: tuple[Dose, ...]  # of each memory that one of the arms has and the other lacks
    unlike: str  # in which rules the arms differ beside their methods; empty if in none
    holm: float | None = None  # p of the flips, corrected for the number of tests of the report
    noise: Noise | None = None
    course: Course | None = None  # of a pair that a run in rounds announced
    verdict: Verdict = field(default=Verdict("undecided", MARGIN, ()))

    @property
    def name(self) -> str:
        return f"{self.second} - {self.first}"

    @property
    def family_test(self) -> FamilyTest:
        return FamilyTest(frozenset((self.first, self.second)), self.pairs, self.trials)

    @property
    def has_winner(self) -> bool:
        return self.verdict.has_winner


@dataclass(frozen=True, slots=True)
class Effect:
    """A sum of the means of four arms."""

    difference: float
    interval: MeanInterval | None  # None too where a memory was not tested
    flips: FlipTest  # without p there
    is_untested: bool
    holm: float | None = None


@dataclass(frozen=True, slots=True)
class Factorial2x2:
    pairs: int  # units that all four arms finished
    trials: int  # number of first trials that scores are the best of
    unplayed: int  # see `Comparison`, of any of the four
    corners: tuple[str, ...]  # arms: neither memory, the first, the second, both
    means: tuple[float, ...]  # Mean best accumulators, in the order of the corners
    interaction: Effect
    over_one: Effect  # both together minus the first memory alone
    over_other: Effect  # both together minus the second memory alone
    reading: Reading = "undecided"

    @property
    def effects(self) -> dict[FamilyTest, Effect]:
        _, reflections, skills, both = self.corners
        effects = (
            (self.corners, self.interaction),
            ((reflections, both), self.over_one),
            ((skills, both), self.over_other),
        )
        return {FamilyTest(frozenset(arms), self.pairs, self.trials): effect for arms, effect in effects}

    @property
    def effect_names(self) -> tuple[str, str, str]:
        neither, reflections, skills, both = self.corners
        return (
            f"{both} - {skills} - {reflections} + {neither}",
            f"{both} - {reflections} (2x2)",
            f"{both} - {skills} (2x2)",
        )


@dataclass(frozen=True, slots=True)
class Compared:
    comparisons: tuple[Comparison, ...]
    squares: Mapping[str, Factorial2x2]  # program to its 2x2 of skills x reflections
    tests: int  # number of tests that p values are corrected for


def compare_all(
    arms: Mapping[str, Sequence[UnitRecord]],
    question: Question = USUAL,
    missing: Mapping[str, int] | None = None,
    missing_shards: Sequence[str] = (),
) -> Compared:
    """Compare the arms that `select_contrasts` selects, which may raise `UnknownName`, and every 2x2. `missing` counts
    the planned units of each arm that have no record; `missing_shards` are parts of the run whose plan is unknown."""
    missing = missing or {}
    pairs = []
    for (first, second), asks in select_contrasts(arms, question.against).items():
        pairs.append(compare_arms(first, arms[first], second, arms[second], asks, question.over, missing))
    squares = compute_factorials(arms, question.over, missing)
    corrected = _correct_family(pairs, squares)
    tests = sum(p is not None for p in corrected.values())

    def collect_evidence(tested: Comparison | Effect, units: Comparison | Factorial2x2) -> Evidence:
        return Evidence(
            pairs=units.pairs,
            interval=tested.interval,
            flips=tested.flips,
            p=tested.holm,
            tests=tests,
            unplayed=units.unplayed,
            missing_shards=missing_shards,
            doses=tested.doses if isinstance(tested, Comparison) else (),
            over=question.over,
        )

    def judge_pair(pair: Comparison) -> Comparison:
        pair = replace(pair, holm=corrected[pair.family_test])
        return replace(pair, verdict=judge_difference(collect_evidence(pair, pair), question.margin))

    def judge_square(square: Factorial2x2) -> Factorial2x2:
        effects = [replace(effect, holm=corrected[test]) for test, effect in square.effects.items()]
        interaction, over_one, over_other = effects
        reading = read_factorial(
            collect_evidence(interaction, square),
            collect_evidence(over_one, square),
            collect_evidence(over_other, square),
            question.margin,
        )
        if interaction.is_untested:
            reading = "not tested"
        return replace(square, interaction=interaction, over_one=over_one, over_other=over_other, reading=reading)

    comparisons = tuple(judge_pair(pair) for pair in pairs)
    judged_squares = {program: judge_square(square) for program, square in squares.items()}
    return Compared(comparisons, judged_squares, tests)


def _correct_family(pairs: Sequence[Comparison], squares: Mapping[str, Factorial2x2]) -> dict[FamilyTest, float | None]:
    """Return the p of every test of the report, corrected for their number (Holm)."""
    tests = {pair.family_test: pair.flips.p for pair in pairs}
    for square in squares.values():
        for test, effect in square.effects.items():
            tests.setdefault(test, effect.flips.p)
    corrected = statistics.apply_holm_correction(list(tests.values()))
    return dict(zip(tests, corrected, strict=True))


def compare_arms(
    first: str,
    ours: Sequence[UnitRecord],
    second: str,
    theirs: Sequence[UnitRecord],
    asks: str = "",
    over: Cluster = "task types",
    missing: Mapping[str, int] | None = None,
) -> Comparison:
    """Compare two arms on the units that both finished, by as many first trials as both may play."""
    first_units = _index_scored_units(ours)
    second_units = _index_scored_units(theirs)
    may_play = metrics.list_allowed_trials([list(first_units.values()), list(second_units.values())])
    trials = min(may_play)
    if asks == OVER_RETRIES and trials == 1:
        asks = OVER_NONE  # a single trial has no retries

    all_keys = {metrics.get_unit_key(record) for record in (*ours, *theirs)}
    shared = sorted(first_units.keys() & second_units.keys())
    first_records = [first_units[key] for key in shared]
    second_records = [second_units[key] for key in shared]
    first_scores = [get_best_accumulator(record, trials) for record in first_records]
    second_scores = [get_best_accumulator(record, trials) for record in second_records]
    gains = {}
    for key, first_score, second_score in zip(shared, first_scores, second_scores, strict=True):
        gains[key] = second_score - first_score
    values = _list_values(gains)

    by_task = group_values((task, gain) for (task, _variant, _seed), gain in gains.items())
    task_means = {task: fmean(task_gains) for task, task_gains in by_task.items()}
    rounded_means = [round(mean, 9) for mean in task_means.values()]
    doses = measure_doses(first_records, second_records, trials)
    untested = is_untested(doses)
    flips = run_flip_test(values, over)
    return Comparison(
        first=first,
        second=second,
        asks=asks,
        trials=trials,
        may_play=tuple(may_play),
        pairs=len(shared),
        excluded=len(all_keys) - len(shared),
        unplayed=count_unplayed({first: ours, second: theirs}, missing or {}),
        difference=_average(gains.values()),
        room=MOST_POINTS - fmean(first_scores) if shared else None,
        by_task=task_means,
        higher=sum(gain > 0 for gain in gains.values()),
        lower=sum(gain < 0 for gain in gains.values()),
        interval=None if untested else estimate_interval(values, over=over),
        flips=replace(flips, p=None) if untested else flips,
        wilcoxon=statistics.run_wilcoxon_test(rounded_means),
        sign=statistics.run_sign_test(rounded_means),
        gains=tuple(_list_stratum_gains(gains, first_units, second_units, trials, over, untested)),
        doses=doses,
        unlike=_describe_other_rules(first_records, second_records, asks),
        noise=measure_noise(values, first_records, second_records),
    )


def run_flip_test(values: Sequence[UnitValue], over: Cluster) -> FlipTest:
    """Run the sign-flip test over the sums of task types, or of variants."""
    clusters: dict[tuple[str, int], list[float]] = {}
    for value in values:
        variant = value.variant if over == "variants" else 0
        clusters.setdefault((value.task, variant), []).append(value.value)
    sums = [sum(cluster) for cluster in clusters.values()]
    return statistics.run_flip_test(sums)


def count_unplayed(arms: Mapping[str, Sequence[UnitRecord]], missing: Mapping[str, int]) -> int:
    """Count the units of these arms that have no record, or that ended in an error; those that the environment refused
    are no part of the plan."""
    unplayed = 0
    for arm, records in arms.items():
        errored = [record for record in records if record.has_errors]
        unplayed += sum(not record.is_refused for record in errored)
        unplayed += missing.get(arm, 0)
    return unplayed


def _list_stratum_gains(
    gains: Mapping[UnitKey, float],
    before: Mapping[UnitKey, UnitRecord],
    after: Mapping[UnitKey, UnitRecord],
    trials: int,
    over: Cluster,
    untested: bool,
) -> Iterator[StratumGain]:
    """Yield the gain on units that failed a first trial which both arms played alike, and the paper's plateau."""
    if not gains:
        return

    types = {task for task, _variant, _seed in gains}

    def estimate_gain(stratum: str, keys: Sequence[UnitKey]) -> StratumGain:
        part = {key: gains[key] for key in keys}
        interval = None if untested else estimate_interval(_list_values(part), over=over)
        if interval and interval.over != over and len(types) > 1:  # of one type, it would be about other variants
            interval = None
        return StratumGain(stratum, len(part), _average(part.values()), interval)

    if trials > 1 and all(_shares_first_trial(before[key], after[key]) for key in gains):
        failed = [key for key in gains if not before[key].trajectories[0].solved]
        yield estimate_gain(FAILED_FIRST, failed)
    for stratum, keys in _group_by_stratum(gains, before).items():
        yield estimate_gain(stratum, keys)
    plateau = [gain for key, gain in gains.items() if not metrics.is_solved(before[key], trials)]
    yield StratumGain(PAPERS_PLATEAU, len(plateau), _average(plateau))


def _group_by_stratum(keys: Iterable[UnitKey], records: Mapping[UnitKey, UnitRecord]) -> dict[str, list[UnitKey]]:
    """Group units by the parts of the benchmark that they belong to; a unit may belong to several."""
    strata: dict[str, list[UnitKey]] = {}
    for key in keys:
        for stratum in records[key].strata:
            strata.setdefault(stratum, []).append(key)
    return dict(sorted(strata.items()))


def _shares_first_trial(one: UnitRecord, other: UnitRecord) -> bool:
    """Whether two units are known to have begun with the same actions: not where success alone is known."""
    first = one.trajectories[0]
    second = other.trajectories[0]
    if not first.steps or not second.steps:
        return False
    first_actions = [step.action for step in first.steps]
    second_actions = [step.action for step in second.steps]
    return first_actions == second_actions and first.accumulator == second.accumulator


def _average(values: Collection[float]) -> float | None:
    return fmean(values) if values else None


def _list_values(values: Mapping[UnitKey, float]) -> list[UnitValue]:
    return [UnitValue(task, variant, value) for (task, variant, _seed), value in values.items()]


def _describe_other_rules(ours: Sequence[UnitRecord], theirs: Sequence[UnitRecord], asks: str) -> str:
    differences = []
    first = _name_protocols(ours)
    second = _name_protocols(theirs)
    if first != second:
        differences.append(f"protocols {first} and {second}")
    if asks != OVER_SCAFFOLD:
        differences += _describe_scaffolds(ours, theirs)
    budgets = sum(one.budget != other.budget for one, other in zip(ours, theirs, strict=True))
    if budgets:
        differences.append(f"{budgets} of {len(ours)} pairs with other numbers of steps per trial")
    return "; ".join(differences)


def _name_protocols(records: Sequence[UnitRecord]) -> str:
    return " and ".join(sorted({record.protocol for record in records}))


def _describe_scaffolds(ours: Sequence[UnitRecord], theirs: Sequence[UnitRecord]) -> list[str]:
    """Name the scaffolds of two arms where they differ, and send other prompts without any memory: not in a
    conversation."""
    if all(plays_conversation(record.protocol) for record in (*ours, *theirs)):
        return []
    first = {metrics.find_scaffold(record.method) for record in ours}
    second = {metrics.find_scaffold(record.method) for record in theirs}
    if first == second or None in first | second:
        return []
    first_names = " and ".join(sorted(map(str, first)))
    second_names = " and ".join(sorted(map(str, second)))
    return [f"scaffolds {first_names} and {second_names}"]


def compute_factorial(
    arms: Mapping[str, Sequence[UnitRecord]], over: Cluster = "task types", missing: Mapping[str, int] | None = None
) -> Factorial2x2 | None:
    """Compute the 2x2 of skills and reflections, without a reading; None if an arm is missing or no unit was finished
    in all four."""
    corners = [_find_arm_alike(arms, method) for method in FACTORIAL_METHODS]
    records = {name: arms.get(name, ()) for name in corners}
    corner_units = [_index_scored_units(units) for units in records.values()]
    shared = sorted(set.intersection(*map(set, corner_units)))
    if not shared:
        return None
    trials = min(metrics.list_allowed_trials([list(by_key.values()) for by_key in corner_units]))
    scores = {}
    for key in shared:
        scores[key] = [get_best_accumulator(by_key[key], trials) for by_key in corner_units]

    def select_shared(by_key: Mapping[UnitKey, UnitRecord]) -> list[UnitRecord]:
        return [by_key[key] for key in shared]

    def has_untested(without: Sequence[UnitRecord], having: Sequence[UnitRecord]) -> bool:
        return is_untested(measure_doses(without, having, trials))

    def estimate_effect(signs: tuple[int, ...], untested: bool) -> Effect:
        """Estimate the sum of the corners with these signs, whose largest possible value follows from the signs."""
        sums = {}
        for key, points in scores.items():
            sums[key] = float(sum(map(mul, signs, points)))
        largest = signs.count(1) * MOST_POINTS
        values = _list_values(sums)
        interval = None if untested else estimate_interval(values, (-largest, largest), over)
        flips = run_flip_test(values, over)
        if untested:
            flips = replace(flips, p=None)
        return Effect(fmean(sums.values()), interval, flips, untested)

    neither, reflections, skills, both = map(select_shared, corner_units)
    untested_reflections = has_untested(neither, reflections)
    untested_skills = has_untested(neither, skills)
    untested_skills_beside = has_untested(reflections, both)
    untested_reflections_beside = has_untested(skills, both)
    untested = untested_reflections or untested_skills or untested_skills_beside or untested_reflections_beside
    by_arm = {units[0].arm: units for units in records.values()}
    return Factorial2x2(
        pairs=len(shared),
        trials=trials,
        unplayed=count_unplayed(by_arm, missing or {}),
        corners=tuple(units[0].arm for units in records.values()),
        means=tuple(fmean(points) for points in zip(*scores.values(), strict=True)),
        interaction=estimate_effect((1, -1, -1, 1), untested),
        over_one=estimate_effect((0, -1, 0, 1), untested_skills_beside),
        over_other=estimate_effect((0, 0, -1, 1), untested_reflections_beside),
    )


def _find_arm_alike(arms: Mapping[str, Sequence[UnitRecord]], method: str) -> str:
    """Return the method, or if it is missing, that of the flat scaffold with the same memories, where both scaffolds
    send the same: in a conversation."""
    if method in arms:
        return method
    base, plus, added = method.partition("+")
    flat = f"{FLAT_OF.get(base, base)}{plus}{added}"
    if all(plays_conversation(record.protocol) for record in arms.get(flat, ())):
        return flat
    return method


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
    for first, *other_arms in several:
        contrasts |= {(first, name): ELSEWHERE for name in other_arms}
    return contrasts


def _group_arms_by_folder(arms: Mapping[str, Sequence[UnitRecord]]) -> list[dict[str, Sequence[UnitRecord]]]:
    """Group the arms of several folders, each of which calls all of its arms by what its settings are besides."""
    folders: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for name, units in arms.items():
        own_name = name_arm(units[0].method, units[0].constitution, units[0].program)
        folders.setdefault(name.removeprefix(own_name), {})[name] = units
    return list(folders.values())


def _select_designed_contrasts(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[tuple[str, str], str]:
    """Return the pairs that the methods of one folder are designed for; of others each with the first arm."""
    names = {key: name for key, (name,) in _group_arms_by_program(arms).items()}
    contrasts: dict[tuple[str, str], str] = {}
    for (method, program, constitution), name in names.items():
        together = _select_methods(names, program, constitution)
        for asks, (control, control_program) in _list_baselines(method, program, together):
            has_constitution = "+" in control or control == method
            controls = _select_methods(names, control_program, constitution if has_constitution else "")
            units = {control_method: arms[arm] for control_method, arm in controls.items()}
            control_name = controls.get(_find_arm_alike(units, control), name)
            if control_name != name and (name, control_name) not in contrasts:
                contrasts.setdefault((control_name, name), asks)

    compared = set(chain.from_iterable(contrasts))
    if arms:
        first, *rest = arms
        contrasts |= {(first, name): "" for name in rest if name not in compared}
    return contrasts


def _select_methods(names: Mapping[ArmKey, str], program: str, constitution: str) -> dict[str, str]:
    """Return the methods that played with this program and this constitution, each with its arm."""
    methods = {}
    for (method, arm_program, arm_constitution), name in names.items():
        if arm_program == program and arm_constitution == constitution:
            methods[method] = name
    return methods


def compute_factorials(
    arms: Mapping[str, Sequence[UnitRecord]], over: Cluster, missing: Mapping[str, int]
) -> dict[str, Factorial2x2]:
    """Return the 2x2 of every program that has one; empty if several folders have the same arms."""
    programs: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for (method, program, constitution), (name, *other_arms) in _group_arms_by_program(arms).items():
        if other_arms:
            return {}
        if constitution:  # the four arms have none
            continue
        programs.setdefault(program, {})[method] = arms[name]

    squares = {}
    for program, corners in programs.items():
        square = compute_factorial(corners, over, missing)
        if square:
            squares[program] = square
    return squares


def _group_arms_by_program(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[ArmKey, list[str]]:
    """Return the arms by their method, their program and the name of their constitution."""
    groups: dict[ArmKey, list[str]] = {}
    for name, units in arms.items():
        first = units[0]
        groups.setdefault((first.method, first.program, first.constitution), []).append(name)
    return groups


def _list_baselines(method: str, program: str, together: Collection[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield possible comparisons of an arm with their questions, the narrowest first. `together` are the methods that
    played with the same program."""
    base, plus, added = method.partition("+")
    if program != ZERO_SHOT:
        yield "compiling", (method, ZERO_SHOT)
        return
    if plus:
        yield "constitution", (base, program)

    addition = f"{plus}{added}"
    if base == "rsso":
        yield BESIDE_SKILLS, (f"sso{addition}", program)
        if all(f"{name}{addition}" in together for name in PAPER_METHODS):
            yield BESIDE_REFLECTIONS, (f"reflexion{addition}", program)
    control = find_retry_control(base)
    if control:
        yield OVER_RETRIES, (f"{control}{addition}", program)
    if base == "react-sso":
        yield OVER_SCAFFOLD, (f"react{addition}", program)
