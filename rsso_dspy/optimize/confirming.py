"""Tests whether one program is better than another: for any two DSPy programs, and as a compile tests its candidate.

    from rsso_dspy.optimize import confirm

    found = confirm(before, after, examples, metric, seeds=3)
    print(found)        # confirmed: +12.0 points on 40 examples, 90% interval +4.1 to +20.3, one-sided p 0.008

The test is a one-sided sign-flip test over the paired differences (`compare_pairs`); the interval holds the differences
that the same test does not exclude.

    compare_pairs([0.45, 0.0, 0.45, 0.4, 0.5, 0.45, 0.0])
    # PairedTest(difference=0.32, low=0.15, high=0.47, p=0.03, level=0.05, pairs=7)

If the two programs were equally good, every difference could as well have had the other sign. `p` is the share of all
2^n arrangements of signs whose sum is not below the observed one. It assumes no distribution of the scores. The twelve
largest differences are arranged one by one, so up to twelve are exact and an outlier hides nothing. The others are
added in whole steps: of their decimal unit where they have one (0.01, say), which is exact too, else of at most a
thousandth of the largest among them.

How large a gain must be for a compile to confirm it is found by simulating confirmations.

    find_smallest_gain(53)              # 0.079: confirmed in four of five, once the candidate is chosen
    compute_power(0.126, 6)             # 0.005: even the largest gain is hardly ever confirmed by six pairs
    count_needed_pairs(0.05, seeds=3)   # 49

Programs differ as measured (`FLIPPED`, `FLIP`): a share of rollouts flips, by about as much, up as often as down
without a gain, and always up at the largest gain that such flips allow. Flips are independent between variants and
between seeds. What decides is the test that decides a compile, `compute_p`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from inspect import signature
from math import ceil, sqrt
from statistics import NormalDist, fmean
from typing import Any, Literal

import dspy
import numpy as np
from dspy.utils.parallelizer import ParallelExecutor

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score
from rsso_dspy.errors import UsageError

LEVEL = 0.05
"""A difference is confirmed when `p` is below this."""

FLIPPED = 0.28
"""Share of variants on which two equally good programs score differently (embedded backend, rollouts of two trials)."""
FLIP = 0.45
"""By how much they then differ, on the scale of 0 to 1."""

_ONE_BY_ONE = 12
"""The largest differences, whose arrangements are counted one by one."""
_GRID = 1000
"""Steps at least that the largest of the others is divided into; `compute_p` adds whole steps."""
_CELLS = 40_000
"""Steps that the others together may take: where they are few or uneven, the grid is finer."""
_UNITS = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Units that scores are often whole multiples of."""
_FEWEST_EQUAL = 6
"""Differences that are all equal give no interval when they are fewer: it would have no width."""
_HALVINGS = 24

Verdict = Literal["confirmed", "unconfirmed", "not better"]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Second program minus first, over pairs."""

    difference: float
    """Mean."""
    low: float | None
    high: float | None
    """Differences that the test does not exclude in either direction: an interval of 1 - 2 `level`. None when there are
    too few pairs to exclude any, or fewer than six that are all equal."""
    p: float
    """One-sided: the probability that two equally good programs differ by as much or more."""
    level: float
    pairs: int

    @property
    def verdict(self) -> Verdict:
        """`confirmed` when `p` is below the level, `not better` when the mean is not above 0."""
        if self.difference <= 0:
            return "not better"
        return "confirmed" if self.p < self.level else "unconfirmed"

    @property
    def interval(self) -> tuple[float, float] | None:
        """From `low` to `high`; None when there are too few pairs to exclude any difference."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def compare_pairs(differences: Sequence[float], level: float = LEVEL) -> PairedTest:
    """The test over these differences, one a pair. Raises `ValueError` without any, and what `compute_p` raises."""
    if not differences:
        raise ValueError("no pairs to test")
    p = compute_p(differences)
    mean = fmean(differences)
    narrow = len(differences) < _FEWEST_EQUAL and len(set(differences)) == 1
    fallen, high = (
        None if narrow else _find_upper_bound(each, level) for each in ([-d for d in differences], differences)
    )
    low = None if fallen is None else -fallen
    return PairedTest(mean, low, high, p, level, len(differences))


def compute_p(differences: Sequence[float]) -> float:
    """One-sided p of the sign-flip test: exact for up to twelve differences, then as near as the others' grid.

    Raises `UsageError` for a difference that is not finite or too large, with its number from 1.
    """
    names = ((each, "difference of pair", number) for number, each in enumerate(differences, 1))
    return _compute_p([check_score(*each, most=MOST_DIFFERENCE) for each in names])


def _compute_p(differences: Sequence[float]) -> float:
    given = np.asarray(sorted(differences, key=abs, reverse=True), dtype=float)
    sizes = np.abs(given)
    if not sizes.any():
        return 1.0
    if step := _choose_step(given):  # large ones too in whole steps, so that sums which are equal stay equal
        given, sizes = np.rint(given / step), np.rint(sizes / step)
    share = _share_by_sum(sizes[_ONE_BY_ONE:].astype(int))
    at_least = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    sums = np.zeros(1)
    for size in sizes[:_ONE_BY_ONE]:
        sums = np.concatenate([sums + size, sums - size])
    slack = 1e-9 * float(sizes.sum())
    needed = np.ceil(given.sum() - sums - slack + (len(share) - 1) / 2)
    return float(min(1.0, at_least[np.clip(needed, 0, len(share)).astype(int)].mean()))


def _choose_step(given: Any) -> float:
    """The width of the grid for all but the largest; 0 if there are no others."""
    rest = np.abs(given[_ONE_BY_ONE:])
    if not rest.any():
        return 0.0
    for unit in _UNITS:
        if rest.sum() <= _CELLS * unit and np.allclose(given / unit, np.rint(given / unit), rtol=0, atol=1e-6):
            return unit
    return float(min(rest[0] / _GRID, rest.sum() / _CELLS))


def _share_by_sum(sizes: Any) -> Any:
    """The share of arrangements by their sum, from the lowest sum on; one arrangement of nothing."""
    share = np.zeros(2 * int(sizes.sum()) + 1)
    share[0] = 1.0
    reached = 0
    for size in sizes[sizes > 0]:
        moved = np.zeros_like(share)
        moved[2 * size : reached + 2 * size + 1] = share[: reached + 1]
        share = (share + moved) / 2
        reached += 2 * int(size)
    return share


def _find_upper_bound(differences: Sequence[float], level: float) -> float | None:
    """The smallest gain that these differences rule out, found by bisection. None when there are too few of them."""
    inside, outside = fmean(differences), max(differences) + 1e-9
    if 0.5 ** len(differences) >= level:
        return None
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if _compute_p([middle - each for each in differences]) < level:
            outside = middle
        else:
            inside = middle
    return outside


DEVIATION = FLIP * sqrt(FLIPPED)
"""Standard deviation of one paired difference."""


POWER = 0.80
"""Share of compiles that must confirm a gain for it to be called confirmable: four of five."""

DRAWS = 400
"""Confirmations that are simulated; a share of 80% is off by 2 points, as standard error."""

_SIZES = (8, 10)
"""Smallest and largest size of a flip, in ninths of the usual one: 40 to 50 points where that is 45."""
_STEP = 0.001
"""Gains are looked for in tenths of a point."""
_CRITICAL = NormalDist().inv_cdf(1 - LEVEL)
"""Where the test's answer turns, in standard deviations and for many flips."""
_BELOW, _ABOVE = (0.03, 0.7), (0.0, 2.0)
"""How far from there it may turn: so much, and so much divided by the number of differences. Elsewhere it is known."""


LARGEST_GAIN = round(int(FLIPPED * FLIP / _STEP + 1e-9) * _STEP, 3)
"""The largest gain that such flips allow, in whole tenths of a point: all of them go up."""


def compute_power(gain: float, pairs: int, seeds: int = 1) -> float:
    """The share of simulated compiles that confirm a true gain, of 0 to 1, with so many pairs. A gain above the largest
    one that flips allow counts as that one."""
    sizes, dice = _roll_dice(pairs, seeds)
    up = min(1.0, 0.5 + gain / (2 * FLIPPED * FLIP))
    return sum(_decide_each(np.where(dice < up, sizes, -sizes).sum(axis=2))) / DRAWS


@lru_cache(maxsize=256)
def find_smallest_gain(pairs: int, seeds: int = 1) -> float | None:
    """The smallest true gain that so many pairs confirm in four of five compiles, once the candidate is chosen. None
    when they do not confirm even the largest one so often."""
    low, high = 0, round(LARGEST_GAIN / _STEP)
    if compute_power(high * _STEP, pairs, seeds) < POWER:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_power(middle * _STEP, pairs, seeds) >= POWER else (middle, high)
    return round(high * _STEP, 3)


@lru_cache(maxsize=256)
def count_needed_pairs(gain: float, seeds: int = 1) -> int:
    """How many confirm variants it takes to confirm a true gain, up to the largest, in four of five compiles."""
    quantiles = _CRITICAL + NormalDist().inv_cdf(POWER)
    about = (quantiles * DEVIATION / gain) ** 2 / seeds  # by a normal approximation
    low, high = int(0.93 * about), max(5, ceil(1.04 * about))
    while compute_power(gain, high, seeds) < POWER:
        low, high = high, ceil(1.15 * high)
    while low and compute_power(gain, low, seeds) >= POWER:
        low, high = int(0.85 * low), low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_power(gain, middle, seeds) >= POWER else (middle, high)
    return high


@lru_cache(maxsize=8)
def _roll_dice(pairs: int, seeds: int) -> tuple[Any, Any]:
    """The size of every flip (draws x pairs x seeds; 0 where nothing flips), and the dice that say which way it goes:
    the same for every gain."""
    random = np.random.default_rng((pairs, seeds))
    shape = (DRAWS, pairs, seeds)
    sizes = random.integers(*_SIZES, shape, endpoint=True) * (random.random(shape) < FLIPPED)
    return sizes, random.random(shape)


def _decide_each(rows: Any) -> list[bool]:
    """Whether the test confirms each of these rows of differences. It is asked where its answer is not plain."""
    count = (rows != 0).sum(axis=1)
    z = rows.sum(axis=1) / np.sqrt(np.maximum((rows**2).sum(axis=1), 1))
    low, high = (_CRITICAL + sign * (a + b / np.maximum(count, 1)) for sign, (a, b) in ((-1, _BELOW), (1, _ABOVE)))
    able = 0.5**count < LEVEL
    found = able & (z > high)
    for place in np.flatnonzero(able & (low < z) & (z <= high)):
        row = rows[place]
        found[place] = _ask_test(tuple(sorted(row[row != 0].tolist())))
    return list(map(bool, found))


@lru_cache(maxsize=20_000)
def _ask_test(differences: tuple[int, ...]) -> bool:
    return compute_p(differences) < LEVEL


MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Comparison(PairedTest):
    """The result of comparing two programs by paired scores: second program minus first, on the metric's own scale."""

    seeds: int
    scores_a: tuple[float, ...]
    """Scores of the first program by example; with several seeds, their mean."""
    scores_b: tuple[float, ...]

    def __str__(self) -> str:
        inside = ""
        if self.interval:
            inside = f", {1 - 2 * self.level:.0%} interval {self.interval[0]:+.3f} to {self.interval[1]:+.3f}"
        seeds = f" with {self.seeds} seeds each" if self.seeds > 1 else ""
        return (
            f"{self.verdict}: {self.difference:+.3f} on {self.pairs} examples{seeds}{inside}, one-sided p "
            f"{self.p:.3f}, level {self.level}"
        )


def confirm(
    program_a: dspy.Module,
    program_b: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    seeds: int = 1,
    num_threads: int = 1,
    level: float = LEVEL,
) -> Comparison:
    """Test whether `program_b` is better than `program_a` by `metric(example, prediction)` on these examples. The
    metric may give a number, a truth value or a prediction with a ``score``. `p` is valid only if neither program was
    made from these examples or chosen by them.

    Both play every example `seeds` times. The test is over examples, because repetitions of one example are not
    independent. A program whose `forward` takes a ``seed`` is given 0, 1, ...; for any other, the model of
    `dspy.settings` gets the seed as ``rollout_id``, which changes its answers at a temperature above 0.

    Raises `UsageError` for no examples, an example given twice, seeds or a level out of range, or a score that is no
    number, not finite or above a million in size, with its example's number from 1; and what a program or the metric
    raises: an error is no score.
    """
    if not examples:
        raise UsageError("there are no examples to confirm by")
    repeats = len(examples) - sum(example not in examples[:place] for place, example in enumerate(examples))
    if repeats:
        raise UsageError(
            f"{repeats} of the {len(examples)} examples equal an earlier one, and would count as independent: give "
            "each once, and seeds=... to play it several times"
        )
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play an example {seeds} times; ask for 1 to {MOST_SEEDS} seeds")
    if not 0 < level < 0.5:
        raise UsageError(f"a level of {level} confirms nothing or everything; take one between 0 and 0.5, e.g. {LEVEL}")
    pair = (program_a, program_b)
    numbered = list(enumerate(examples, 1))
    jobs = [(number, program, each, n) for number, each in numbered for n in range(seeds) for program in pair]
    failed: list[BaseException] = []

    def score_one(job: tuple[int, dspy.Module, dspy.Example, int]) -> float:
        number, program, example, n = job
        if failed:
            return 0.0
        try:
            said = metric(example, _play(program, example, n))
            value = said.score if isinstance(said, dspy.Prediction) and "score" in said else said
            return check_score(value, "score of example", number)
        except Exception as error:
            failed.append(error)
            return 0.0

    executor = ParallelExecutor(num_threads=num_threads, disable_progress_bar=True, max_errors=1, timeout=0)
    scores = executor.execute(score_one, jobs)
    if failed:
        raise failed[0]
    wide = 2 * seeds
    rows = [scores[at : at + wide] for at in range(0, len(scores), wide)]
    a, b = (tuple(fmean(row[side::2]) for row in rows) for side in (0, 1))
    found = compare_pairs([y - x for x, y in zip(a, b, strict=True)], level)
    return Comparison(**asdict(found), seeds=seeds, scores_a=a, scores_b=b)


def _takes_seed(program: dspy.Module) -> bool:
    forward = getattr(type(program), "forward", None)
    return forward is not None and "seed" in signature(forward).parameters


def _play(program: dspy.Module, example: dspy.Example, seed: int) -> Any:
    inputs: Mapping[str, Any] = example.inputs()
    if _takes_seed(program) and "seed" not in inputs:
        return program(**inputs, seed=seed)
    if seed == 0 or dspy.settings.lm is None:
        return program(**inputs)
    with dspy.context(lm=dspy.settings.lm.copy(rollout_id=seed)):
        return program(**inputs)
