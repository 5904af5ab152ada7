"""How often is a report wrong? Simulated runs through its own intervals, tests and verdicts.

    python benchmarks/verdict_words.py [--draws 10000]

First, one comparison. Differences of units are as in recorded runs: most are 0, the others 20 to 100 points, and alike
within a task type as far as ICC says, the share of their variance that lies between types. In a two-sided effect some
units lose, in a one-sided one none does. `covers` is the share of 95% intervals that hold the true difference. Words
are shares of verdicts, in bold where they are wrong: a winner at no effect, the wrong winner, and `no difference of 10`
where the true difference is 10.

Second, looking early: a run of equal arms is reported after every variant of each type, and stops at the first winner.

Third, four arms with a shared first trial and three trials, of which the best counts: neither memory, reflections,
skills, both. Types and variants are of unlike difficulty; a memory changes the odds of success in later trials. Shares
are of reports with a winner in any of their five comparisons, and of readings of the 2x2.

Fourth, pass^k of an arm that learns nothing, over three trials a variant: how often its interval covers. The third and
the fourth simulate a quarter of the runs.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.script import make_parser, parse_options, print_head, print_row
from rsso_dspy.report.compare import run_flip_test
from rsso_dspy.report.intervals import DIFFERENCES, MOST_POINTS, Bounds, MeanInterval, UnitValue, estimate_interval
from rsso_dspy.report.repeats import VariantRepeats, estimate_from_counts
from rsso_dspy.report.sheets import format_difference
from rsso_dspy.report.statistics import FlipTest, apply_holm_correction
from rsso_dspy.report.verdicts import MARGIN, Evidence, judge_difference, read_factorial
from rsso_dspy.sign_flips import SIGNIFICANT

DRAWS = 10_000
CHUNK = 250  # runs that are drawn at once
PAIRS = 400_000  # pairs of units of which a correlation is found
SLACK = 1e-9

SIZES = (20.0, 34.0, 67.0, 80.0, 100.0)  # of differences that are not 0, in points, with their shares
SIZE_SHARES = (0.10, 0.20, 0.25, 0.10, 0.35)

TRIALS = 3
EASE, TYPE_SPREAD, VARIANT_SPREAD = 0.35, 1.3, 1.4
"""Logit of a trial's success, and its standard deviations over task types and over variants of one: as in
examples/recorded/babyai-2x2, where trial 1 solves 54%."""
PART_POINTS = (0.0, 20.0, 33.0, 40.0, 66.0)  # of a trial that is not solved, with their shares
PART_SHARES = (0.59, 0.17, 0.185, 0.035, 0.02)


@dataclass(frozen=True, slots=True)
class RunSize:
    types: int
    variants: int  # of each type
    correlations: tuple[float, ...] = (0.0,)

    def __str__(self) -> str:
        return f"{self.types} x {self.variants}"


RUN_SIZES = (
    RunSize(6, 1),
    RunSize(8, 1),
    RunSize(14, 1),
    RunSize(14, 4, (0.0, 0.2, 0.6)),
    RunSize(18, 10, (0.0, 0.2, 0.6)),
)
LARGE = RUN_SIZES[3:]


@dataclass(frozen=True, slots=True)
class Effect:
    """How differences of units are distributed."""

    name: str
    unlike: float  # share of units that differ
    worse: float  # share of these that lose

    @property
    def values(self) -> np.ndarray:
        return np.array([*(-size for size in reversed(SIZES)), 0.0, *SIZES])

    @property
    def shares(self) -> np.ndarray:
        losses = [self.unlike * self.worse * share for share in reversed(SIZE_SHARES)]
        gains = [self.unlike * (1 - self.worse) * share for share in SIZE_SHARES]
        return np.array([*losses, 1 - self.unlike, *gains])

    @property
    def difference(self) -> float:
        """The true mean difference, in points."""
        return float(self.values @ self.shares)


MEAN_SIZE = float(np.dot(SIZES, SIZE_SHARES))
EFFECTS = (
    Effect("none", unlike=0.2, worse=0.5),
    Effect("two-sided", unlike=0.45, worse=0.5 - MARGIN / (2 * 0.45 * MEAN_SIZE)),
    Effect("one-sided", unlike=0.1, worse=0.0),
    Effect("one-sided", unlike=MARGIN / MEAN_SIZE, worse=0.0),
)


# One comparison.


@dataclass(frozen=True, slots=True)
class Cell:
    """Shares of simulated comparisons of one kind."""

    effect: str
    difference: float
    types: int
    variants: int
    icc: float
    covers: float
    better: float
    worse: float
    no_difference: float
    undecided: float
    width: float  # median width of the interval, in points


def simulate_comparisons(effect: Effect, size: RunSize, icc: float, draws: int) -> Cell:
    dice = np.random.default_rng([size.types, size.variants, round(100 * icc), round(1000 * effect.unlike)])
    words: Counter[str] = Counter()
    covered = 0
    widths = []
    for differences in draw_differences(dice, effect, size, icc, draws):
        values = list_values(differences)
        interval = estimate_interval(values)
        assert interval is not None
        words[judge_difference(collect_evidence(values, interval)).word] += 1
        covered += interval.low - SLACK <= effect.difference <= interval.high + SLACK
        widths.append(interval.high - interval.low)
    return Cell(
        effect=effect.name,
        difference=round(effect.difference, 2),
        types=size.types,
        variants=size.variants,
        icc=icc,
        covers=covered / draws,
        better=words["better"] / draws,
        worse=words["worse"] / draws,
        no_difference=words["no difference"] / draws,
        undecided=words["undecided"] / draws,
        width=float(np.median(widths)),
    )


def draw_differences(
    dice: np.random.Generator, effect: Effect, size: RunSize, icc: float, draws: int
) -> Iterator[np.ndarray]:
    """Yield the differences of so many runs, of shape (types, variants): a normal value of the type and one of the unit
    together say which quantile of the effect a unit has."""
    from scipy.stats import norm

    shared = find_shared_part(effect, icc)
    cuts = norm.ppf(np.cumsum(effect.shares)[:-1])
    for begun in range(0, draws, CHUNK):
        runs = min(CHUNK, draws - begun)
        of_type = dice.standard_normal((runs, size.types, 1))
        of_unit = dice.standard_normal((runs, size.types, size.variants))
        yield from effect.values[np.searchsorted(cuts, shared**0.5 * of_type + (1 - shared) ** 0.5 * of_unit)]


@cache
def find_shared_part(effect: Effect, icc: float) -> float:
    """Return the share of the normal values' variance that belongs to the type, for differences to have this ICC."""
    from scipy.stats import norm

    if not icc:
        return 0.0
    dice = np.random.default_rng(1)
    of_type, one_unit, other_unit = dice.standard_normal((3, PAIRS))
    cuts = norm.ppf(np.cumsum(effect.shares)[:-1])
    low, high = 0.0, 1.0
    for _ in range(16):
        shared = (low + high) / 2
        one, other = (
            effect.values[np.searchsorted(cuts, shared**0.5 * of_type + (1 - shared) ** 0.5 * of_unit)]
            for of_unit in (one_unit, other_unit)
        )
        if np.corrcoef(one, other)[0, 1] < icc:
            low = shared
        else:
            high = shared
    return shared


def list_values(differences: np.ndarray) -> list[UnitValue]:
    """Name the values of an array of shape (types, variants)."""
    return [
        UnitValue(f"type {place:02}", variant, value)
        for place, of_type in enumerate(differences.tolist())
        for variant, value in enumerate(of_type)
    ]


def collect_evidence(values: Sequence[UnitValue], interval: MeanInterval | None) -> Evidence:
    """Collect the evidence of a report with one test."""
    flips = run_flip_test(values, "task types")
    return Evidence(len(values), interval, flips, flips.p, tests=1)


# Looking early.


@dataclass(frozen=True, slots=True)
class LookShares:
    """Shares of runs of equal arms with a winner."""

    types: int
    looks: int  # each after another variant of every type
    icc: float
    at_last: float
    at_any: float


def simulate_looks(size: RunSize, icc: float, draws: int) -> LookShares:
    dice = np.random.default_rng([size.types, size.variants, round(100 * icc)])
    at_last = at_any = 0
    for differences in draw_differences(dice, EFFECTS[0], size, icc, draws):
        winners = [has_winner(list_values(differences[:, :number])) for number in range(1, size.variants + 1)]
        at_last += winners[-1]
        at_any += any(winners)
    return LookShares(size.types, size.variants, icc, at_last / draws, at_any / draws)


def has_winner(values: Sequence[UnitValue]) -> bool:
    """Whether a report with one test names a winner. Without a significant test no interval is needed."""
    evidence = collect_evidence(values, None)
    if not evidence.is_significant:
        return False
    return judge_difference(replace(evidence, interval=estimate_interval(values))).has_winner


# Four arms.


@dataclass(frozen=True, slots=True)
class World:
    name: str
    shifts: tuple[float, float, float, float]
    """What a later trial's logit gains in each arm: neither memory, reflections, skills, both."""
    true_reading: str


WORLDS = (
    World("nothing helps", (0, 0, 0, 0), "none"),
    World("skills alone help", (0, 0, 2, 2), "none"),
    World("both help alike, together no more", (0, 2, 2, 2), "redundant"),
    World("gains add up", (0, 1, 1, 3), "compose"),
    World("together worse than either", (0, 0, 0, -2), "adversarial"),
    World("together their gains are lost", (0, 2, 2, 0), "adversarial"),
)
PAIRED_ARMS = ((0, 1), (0, 2), (2, 3), (1, 3), (0, 3))  # what a report compares of the four
INTERACTION = (1, -1, -1, 1)
READINGS = ("compose", "redundant", "adversarial", "undecided")


@dataclass(frozen=True, slots=True)
class WorldShares:
    """Shares of simulated reports on four arms."""

    world: str
    true_reading: str
    types: int
    variants: int
    gains: tuple[float, float, float]  # true ones of reflections, skills and both over neither, in points
    any_winner: float
    compose: float
    redundant: float
    adversarial: float
    undecided: float


def simulate_reports(world: World, size: RunSize, draws: int) -> WorldShares:
    dice = np.random.default_rng([size.types, size.variants, WORLDS.index(world)])
    readings: Counter[str] = Counter()
    with_winner = 0
    totals = np.zeros(4)
    for scores in play_runs(dice, world.shifts, size, draws):
        totals += scores.mean(axis=(1, 2))
        report = judge_report(scores)
        readings[report.reading] += 1
        with_winner += report.has_winner
    neither, *others = totals / draws
    return WorldShares(
        world=world.name,
        true_reading=world.true_reading,
        types=size.types,
        variants=size.variants,
        gains=tuple(round(mean - neither, 1) for mean in others),
        any_winner=with_winner / draws,
        **{reading: readings[reading] / draws for reading in READINGS},
    )


def play_runs(dice: np.random.Generator, shifts: Sequence[float], size: RunSize, draws: int) -> Iterator[np.ndarray]:
    """Yield the best scores of so many runs, of shape (arms, types, variants). All arms share the first trial."""
    for begun in range(0, draws, CHUNK):
        runs = min(CHUNK, draws - begun)
        odds = draw_logits(dice, size, runs)
        first = play_trial(dice, odds)
        best = np.stack([first] * len(shifts), axis=1)
        for arm, shift in enumerate(shifts):
            for _ in range(TRIALS - 1):
                best[:, arm] = np.maximum(best[:, arm], play_trial(dice, odds + shift))
        yield from best


def draw_logits(dice: np.random.Generator, size: RunSize, runs: int) -> np.ndarray:
    """Draw how easy variants are, of shape (runs, types, variants)."""
    of_type = TYPE_SPREAD * dice.standard_normal((runs, size.types, 1))
    of_variant = VARIANT_SPREAD * dice.standard_normal((runs, size.types, size.variants))
    return EASE + of_type + of_variant


def play_trial(dice: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    """Return the scores of one trial of every variant, in points."""
    is_solved = dice.random(logits.shape) < 1 / (1 + np.exp(-logits))
    cuts = np.cumsum(PART_SHARES)[:-1]
    part = np.array(PART_POINTS)[np.searchsorted(cuts, dice.random(logits.shape))]
    return np.where(is_solved, MOST_POINTS, part)


@dataclass(frozen=True, slots=True)
class Report:
    has_winner: bool
    reading: str


@dataclass(frozen=True, slots=True)
class Tested:
    values: list[UnitValue]
    flips: FlipTest
    bounds: Bounds


def judge_report(scores: np.ndarray) -> Report:
    """Judge the five comparisons of four arms, and their 2x2, corrected for six tests. Without a significant test there
    is neither a winner nor a reading, and no interval is needed."""
    tested = []
    for first, second in PAIRED_ARMS:
        values = list_values(scores[second] - scores[first])
        tested.append(Tested(values, run_flip_test(values, "task types"), DIFFERENCES))
    values = list_values(np.tensordot(INTERACTION, scores, axes=1))
    most = 2 * MOST_POINTS
    tested.append(Tested(values, run_flip_test(values, "task types"), (-most, most)))

    corrected = apply_holm_correction([each.flips.p for each in tested])
    tests = sum(p is not None for p in corrected)
    if all(p is None or p > SIGNIFICANT for p in corrected):
        return Report(has_winner=False, reading="undecided")

    evidence = [
        Evidence(len(each.values), estimate_interval(each.values, each.bounds), each.flips, p, tests)
        for each, p in zip(tested, corrected, strict=True)
    ]
    *pairs, interaction = evidence
    over_skills, over_reflections = pairs[2], pairs[3]
    return Report(
        has_winner=any(judge_difference(pair).has_winner for pair in pairs),
        reading=read_factorial(interaction, over_reflections, over_skills),
    )


# pass^k.


@dataclass(frozen=True, slots=True)
class RepeatShares:
    """How often the interval of pass^k covers."""

    types: int
    variants: int
    k: int
    percent: float  # the true pass^k
    covers: float


def simulate_repeats(size: RunSize, draws: int) -> Iterator[RepeatShares]:
    truths = compute_true_repeats()
    covered = [0] * TRIALS
    dice = np.random.default_rng([size.types, size.variants])
    for logits in draw_logits(dice, size, draws):
        solved = dice.binomial(TRIALS, 1 / (1 + np.exp(-logits)))
        counted = [
            VariantRepeats(f"type {place:02}", variant, count, TRIALS)
            for place, of_type in enumerate(solved.tolist())
            for variant, count in enumerate(of_type)
        ]
        for success in estimate_from_counts("trials", counted):
            interval = success.estimate.interval
            assert interval is not None
            covered[success.k - 1] += interval.low <= truths[success.k - 1] <= interval.high
    for k, (truth, count) in enumerate(zip(truths, covered, strict=True), start=1):
        yield RepeatShares(size.types, size.variants, k, truth, count / draws)


@cache
def compute_true_repeats() -> tuple[float, ...]:
    """Return pass^k for k = 1, 2, ... of an arm whose variants are drawn as above, in percent."""
    logits = draw_logits(np.random.default_rng(2), RunSize(1, 1), 1_000_000)
    chances = 1 / (1 + np.exp(-logits))
    return tuple(100 * float((chances**k).mean()) for k in range(1, TRIALS + 1))


# What is printed.


def print_comparisons(draws: int) -> list[Cell]:
    print_head(
        "effect",
        "points",
        "types x variants",
        "ICC",
        "covers",
        "better",
        "worse",
        "no difference of 10",
        "undecided",
        "width",
    )
    cells = []
    for effect in EFFECTS:
        for size in RUN_SIZES:
            for icc in size.correlations:
                cell = simulate_comparisons(effect, size, icc, draws)
                cells.append(cell)
                print_cell(cell, size)
    return cells


def print_cell(cell: Cell, size: RunSize) -> None:
    better = format_share(cell.better, is_wrong=cell.difference == 0)
    worse = format_share(cell.worse, is_wrong=True)
    no_difference = format_share(cell.no_difference, is_wrong=cell.difference >= MARGIN)
    shares = (f"{cell.covers:.1%}", better, worse, no_difference, format_share(cell.undecided))
    print_row(cell.effect, f"{cell.difference:+.1f}", size, cell.icc, *shares, f"{cell.width:.0f}")


def format_share(share: float, is_wrong: bool = False) -> str:
    return f"**{share:.1%}**" if is_wrong else f"{share:.1%}"


def print_looks(draws: int) -> list[LookShares]:
    print_head("types", "looks", "ICC", "a winner at the last look", "at any")
    found = []
    for size in LARGE:
        for icc in size.correlations:
            shares = simulate_looks(size, icc, draws)
            found.append(shares)
            print_row(size.types, size.variants, icc, f"**{shares.at_last:.1%}**", f"**{shares.at_any:.1%}**")
    return found


def print_reports(draws: int) -> list[WorldShares]:
    print_head("world", "types x variants", "gains of reflections, skills, both", "any winner", *READINGS)
    found = []
    for world in WORLDS:
        for size in LARGE:
            shares = simulate_reports(world, size, draws)
            found.append(shares)
            nothing = not any(world.shifts)
            readings = [
                format_share(getattr(shares, reading), is_wrong=reading not in (world.true_reading, "undecided"))
                for reading in READINGS
            ]
            gains = ", ".join(format_difference(gain, 1).text for gain in shares.gains)
            print_row(world.name, size, gains, format_share(shares.any_winner, is_wrong=nothing), *readings)
    return found


def print_repeats(draws: int) -> list[RepeatShares]:
    print_head("types x variants", "k", "pass^k, %", "covers")
    found = []
    for size in RUN_SIZES:
        for shares in simulate_repeats(size, draws):
            found.append(shares)
            print_row(size, shares.k, f"{shares.percent:.1f}", f"{shares.covers:.1%}")
    return found


def round_numbers(data: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in data.items()}


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--draws", type=int, default=DRAWS, help="simulated runs a row")
    given: argparse.Namespace = parse_options(options, draws=20)
    if given.draws < 1:
        options.error(f"--draws {given.draws}: simulate at least one run a row")
    cells = print_comparisons(given.draws)
    print()
    fewer = -(-given.draws // 4)
    looks = print_looks(given.draws)
    print()
    worlds = print_reports(fewer)
    print()
    repeats = print_repeats(fewer)
    tables: dict[str, Sequence[Any]] = {"comparisons": cells, "looks": looks, "reports": worlds, "repeats": repeats}
    rows = {name: [round_numbers(asdict(row)) for row in table] for name, table in tables.items()}
    print(json.dumps({"draws": given.draws, "draws_of_reports": fewer, **rows}))


if __name__ == "__main__":
    main()
