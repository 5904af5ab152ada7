"""Whether one program is better than another: candidates race on `val`, the best one is chosen there, and must then
beat the program to improve on `confirm`, which neither has seen. Every optimizer goes through it.

The test is a one-sided sign-flip test over the paired differences (`rsso_dspy.sign_flips`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import cache
from math import sqrt
from statistics import NormalDist, fmean
from typing import Any, Literal

import dspy
import numpy as np

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score
from rsso_dspy.environments import Goal
from rsso_dspy.errors import UsageError
from rsso_dspy.power import UNIT_SPREAD
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.records import TrialResult, Variant
from rsso_dspy.sign_flips import compute_one_sided_p

TracedCall = tuple[str, dict[str, Any], dict[str, Any]]  # predictor name, inputs, outputs
CompileEnding = Literal["rollouts", "cost", "interrupted", "error"]  # what cut a compile short
Verdict = Literal["confirmed", "unconfirmed", "not better"]

LEVEL = 0.05  # a difference is confirmed when `p` is below this
FLIPPED = 0.28  # share of variants on which two equally good programs score differently
FLIP = 0.45  # by how much, on the scale of 0 to 1 (both: embedded backend, rollouts of two trials)
DEVIATION = FLIP * sqrt(FLIPPED)  # standard deviation of one paired difference


@dataclass(frozen=True, slots=True)
class Rollout:
    variant: Variant
    score: float  # the metric, 0 to 1
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]  # the goals at the end of each trial: kinds and states, no texts
    calls: tuple[TracedCall, ...]  # the informative ones, in order

    @property
    def accumulator(self) -> int:
        return max(result.trajectory.accumulator for result in self.trials if result.trajectory)


@dataclass
class CandidateProgram:
    program: str  # fingerprint of the state
    state: dict[str, Any]
    rollouts: dict[Variant, dict[int, Rollout]] = field(default_factory=dict)  # by variant and number of its seed
    number: int = 0  # in the order of trying, the same everywhere; 0 is the program to improve
    placebo: bool = False  # shows what luck brings and is never chosen
    dropped: bool = False  # it fell too far behind on `val` to be played on all of it
    origin: str = ""  # start, placebo, or what its optimizer makes
    left: str = ""  # why it was not played on all of `val`, in words

    def list_rollouts(self, variant: Variant, seeds: int = 1) -> list[Rollout]:
        by_seed = self.rollouts.get(variant, {})
        return [by_seed[number] for number in range(seeds) if number in by_seed]

    def mean_on(self, variant: Variant, seeds: int = 1) -> float | None:
        """Mean metric over the first `seeds` seeds; None until all of them have been played."""
        rollouts = self.list_rollouts(variant, seeds)
        if len(rollouts) < seeds:
            return None
        return fmean(rollout.score for rollout in rollouts)

    def list_met(self, variants: Sequence[Variant], seeds: int = 1) -> list[Variant]:
        """Those of the variants that it was played on with all seeds."""
        return [variant for variant in variants if self.mean_on(variant, seeds) is not None]

    def mean_over(self, variants: Sequence[Variant], seeds: int = 1) -> float | None:
        scores = []
        for variant in variants:
            score = self.mean_on(variant, seeds)
            if score is None:
                return None
            scores.append(score)
        return fmean(scores) if scores else None


# The race on `val`.

HOPE = 0.1  # a candidate goes on while it would catch up so often, were it as good as the best on the variants left
WORTH = 0.001  # how much better a candidate must be on `val`: a tenth of a point


def measure_deviation(candidates: Sequence[CandidateProgram], val: Sequence[Variant], seeds: int = 1) -> float:
    """The standard deviation of a paired difference between equally good programs: that of the placebo from the program
    to improve, which a model with a temperature makes large; at least `DEVIATION`."""
    start, *tried = candidates
    placebos = [candidate for candidate in tried if candidate.placebo]
    squares = [subtract_scores(placebo, start, variant, seeds) ** 2 for placebo in placebos for variant in val]
    if not squares:
        return DEVIATION
    return max(DEVIATION, sqrt(fmean(squares) * seeds))


def is_hopeless(
    candidate: CandidateProgram,
    best: CandidateProgram,
    met: Sequence[Variant],
    left: Sequence[Variant],
    seeds: int = 1,
    deviation: float = DEVIATION,
) -> bool:
    """Whether a candidate cannot catch up on the variants left by solving them all, or would in too few cases."""
    behind = sum(subtract_scores(candidate, best, variant, seeds) for variant in met)
    if _is_out_of_reach(behind, best, left, seeds):
        return True
    farthest_behind = NormalDist().inv_cdf(HOPE) * deviation * sqrt(len(left) / seeds)
    return behind < farthest_behind


def explain_drop(
    candidate: CandidateProgram,
    best: CandidateProgram,
    met: Sequence[Variant],
    left: Sequence[Variant],
    seeds: int = 1,
) -> str:
    """Why a hopeless candidate was dropped, in words. Points are those of a variant, from 0 to 100."""
    behind = sum(subtract_scores(candidate, best, variant, seeds) for variant in met)
    if _is_out_of_reach(behind, best, left, seeds):
        why = "solving all the others would not catch up"
    else:
        why = f"it would catch up in fewer than {HOPE:.0%} of cases"
    return (
        f"{100 * behind / len(met):+.1f} points a variant from candidate {best.number} on {len(met)} of "
        f"{len(met) + len(left)} val variants: {why}"
    )


def _is_out_of_reach(behind: float, best: CandidateProgram, left: Sequence[Variant], seeds: int) -> bool:
    room = sum(1 - (best.mean_on(variant, seeds) or 0) for variant in left)
    return behind + room < WORTH


def estimate_score(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int) -> float:
    """The score of a dropped candidate on a variant that it was not played on: as far behind the best as elsewhere."""
    common = [shared for shared in best.rollouts if shared in candidate.rollouts]
    behind = 0.0
    if common:
        behind = fmean(subtract_scores(candidate, best, shared, seeds) for shared in common)

    best_score = best.mean_on(variant, seeds) or 0.0
    estimate = best_score + min(0.0, behind)
    return min(1.0, max(0.0, estimate))


def is_solved(candidate: CandidateProgram, variants: Sequence[Variant]) -> bool:
    return all((candidate.mean_on(variant) or 0) >= SOLVED for variant in variants)


def subtract_scores(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int = 1) -> float:
    """How much better the candidate is on a variant, from -1 to 1; 0 where one of both was not played on it."""
    score = candidate.mean_on(variant, seeds)
    best_score = best.mean_on(variant, seeds)
    if score is None or best_score is None:
        return 0.0
    return score - best_score


# The test.

_FEWEST_EQUAL = 6  # differences that are all equal and fewer give no interval: it would have no width
_NO_GAIN = 1e-6  # upper end of an interval up to which it rules out a gain
FEWEST_TYPES = 5  # task types whose signs can give p < `LEVEL`; with fewer, the signs of variants are flipped


@dataclass(frozen=True, slots=True)
class PairedTest:
    difference: float  # mean
    interval: tuple[float, float] | None  # of 1 - 2 `level`; None for too few pairs, or fewer than six equal ones
    p: float
    level: float
    pairs: int
    scores_a: tuple[float, ...] = ()  # of the first program by example, on the metric's own scale
    scores_b: tuple[float, ...] = ()
    groups: int = 0  # groups of pairs whose signs are flipped together; 0 where each pair is flipped by itself

    @property
    def verdict(self) -> Verdict:
        """Not better only where the whole interval says so: that no gain was seen does not rule one out."""
        if self.p < self.level and self.difference > 0:
            return "confirmed"
        if self.interval is not None and self.interval[1] <= _NO_GAIN:
            return "not better"
        return "unconfirmed"

    def __str__(self) -> str:
        interval = ""
        if self.interval is not None:
            low, high = self.interval
            interval = f", {1 - 2 * self.level:.0%} interval {low:+.3f} to {high:+.3f}"
        numbers = f"{self.difference:+.3f} on {self.pairs} examples{interval}, one-sided p {self.p:.3f}"
        return f"{self.verdict}: {numbers}, level {self.level}"


def compare_pairs(
    differences: Sequence[float], level: float = LEVEL, groups: Sequence[Hashable] | None = None
) -> PairedTest:
    """The test over these differences, one a pair. Pairs of one of the `groups`, such as variants of one task type, are
    alike, so their signs are flipped together. Raises `UsageError` for a difference that is not finite or too large,
    with its number from 1."""
    for number, difference in enumerate(differences, 1):
        check_score(difference, "difference of pair", number, most=MOST_DIFFERENCE)

    clusters = _group_pairs(differences, groups or range(len(differences)))
    p = _compute_p(clusters, 0.0)

    interval = None
    smallest_p = 0.5 ** len(clusters)
    is_varied = len(clusters) >= _FEWEST_EQUAL or len(set(map(fmean, clusters))) > 1
    if is_varied and smallest_p < level:
        low = -_find_upper_bound(_mirror(clusters), level)
        high = _find_upper_bound(clusters, level)
        interval = (low, high)

    return PairedTest(
        difference=fmean(differences),
        interval=interval,
        p=p,
        level=level,
        pairs=len(differences),
        groups=len(clusters) if groups else 0,
    )


def _group_pairs(differences: Sequence[float], groups: Sequence[Hashable]) -> list[list[float]]:
    clusters: dict[Hashable, list[float]] = {}
    for difference, group in zip(differences, groups, strict=True):
        clusters.setdefault(group, []).append(difference)
    return list(clusters.values())


def _compute_p(clusters: Sequence[Sequence[float]], gain: float) -> float:
    """The p against a true gain of so much, over the sums of clusters."""
    return compute_one_sided_p([sum(cluster) - gain * len(cluster) for cluster in clusters])


def _mirror(clusters: Sequence[Sequence[float]]) -> list[list[float]]:
    """The differences with their signs turned: those of the first program from the second."""
    mirrored = []
    for cluster in clusters:
        mirrored.append([-difference for difference in cluster])
    return mirrored


def _find_upper_bound(clusters: Sequence[Sequence[float]], level: float) -> float:
    """The least gain that the test rules out, by halving."""
    differences = [difference for cluster in clusters for difference in cluster]
    mirrored = _mirror(clusters)
    inside = fmean(differences)
    outside = max(differences) + 1e-9
    for _ in range(24):
        middle = (inside + outside) / 2
        if _compute_p(mirrored, -middle) < level:
            outside = middle
        else:
            inside = middle
    return outside


# The verdict of a compile.


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The test of the chosen candidate against the program to improve on `confirm`: candidate minus start, each a mean
    over the seeds; without numbers when `confirm` was not played."""

    verdict: Verdict
    why: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    level: float = LEVEL
    pairs: int = 0
    seeds: int = 1
    per_variant: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # scores of start and candidate
    types: int = 0  # task types whose signs were flipped; 0 where those of variants were

    @property
    def smallest_gain(self) -> float | None:
        """The smallest true gain that four of five tests of such pairs confirm, by the width of this test's interval;
        None without one, or where no pair differs."""
        if self.low is None or self.high is None or self.low == self.high:
            return None
        margin = (self.high - self.low) / 2
        needed = NormalDist().inv_cdf(1 - self.level)
        standard_error = margin / needed
        return standard_error * (needed + NormalDist().inv_cdf(POWER))

    def __str__(self) -> str:
        if self.difference is None or self.p is None:
            return f"{self.verdict}: {self.why}"

        types = ""
        if self.types:
            types = f" of {self.types} task types"
        seeds = ""
        if self.seeds > 1:
            seeds = f", {self.seeds} seeds each"
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f"{1 - 2 * self.level:.0%} interval {100 * self.low:+.1f} to {100 * self.high:+.1f}, "
        return (
            f"{self.verdict}: candidate minus start {100 * self.difference:+.1f} points on {self.pairs} confirm "
            f"variants{types}{seeds}, {interval}one-sided p {self.p:.3f}, level {self.level}; {self.why}"
        )


def judge_candidate(
    start: CandidateProgram,
    chosen: CandidateProgram | None,
    confirm: Sequence[Variant],
    seeds: int = 1,
    unplayed: str = "",
) -> Confirmation:
    """The verdict on the chosen candidate, None if none beat the program to improve on `val`. `unplayed` says why
    `confirm` was not played to its end."""
    if chosen is None:
        return Confirmation("not better", "no candidate did better on val than the program to improve", seeds=seeds)
    if not confirm:
        return Confirmation("unconfirmed", "the calibration has no confirm variants", seeds=seeds)

    paired = _pair_scores(start, chosen, confirm, seeds)
    if len(paired) < len(confirm):
        why = f"{unplayed or 'it was cut short'}: {len(paired)} of {len(confirm)} confirm variants were played"
        return Confirmation("unconfirmed", why, seeds=seeds)

    types = [variant.task for variant in confirm]
    groups = types if len(set(types)) >= FEWEST_TYPES else None
    comparison = compare_pairs([new - old for old, new in paired.values()], groups=groups)

    reasons = {
        "confirmed": f"p below {comparison.level}",
        "unconfirmed": f"p is not below {comparison.level}: equally good programs differ as much",
        "not better": "the interval rules out a gain",
    }
    low: float | None = None
    high: float | None = None
    if comparison.interval is not None:
        low = round(comparison.interval[0], 6)
        high = round(comparison.interval[1], 6)
    return Confirmation(
        verdict=comparison.verdict,
        why=reasons[comparison.verdict],
        difference=round(comparison.difference, 6),
        low=low,
        high=high,
        p=round(comparison.p, 6),
        level=comparison.level,
        pairs=comparison.pairs,
        seeds=seeds,
        per_variant={key: (round(old, 4), round(new, 4)) for key, (old, new) in paired.items()},
        types=comparison.groups,
    )


def _pair_scores(
    start: CandidateProgram, chosen: CandidateProgram, variants: Sequence[Variant], seeds: int
) -> dict[str, tuple[float, float]]:
    """Both scores of each variant, by its key, that both were played on."""
    paired = {}
    for variant in variants:
        start_score = start.mean_on(variant, seeds)
        chosen_score = chosen.mean_on(variant, seeds)
        if start_score is not None and chosen_score is not None:
            paired[variant.key] = (start_score, chosen_score)
    return paired


# Power: how large a gain must be for a compile to confirm it.

POWER = 0.80  # share of compiles that must confirm a gain for it to be called confirmable: four of five
DRAWS = 400  # confirmations that are simulated; a share of 80% is off by 2 points, as standard error
_SIZES = (8, 10)  # smallest and largest flip, in ninths of the usual one: 40 to 50 points where that is 45
_STEP = 0.001  # gains are looked for in tenths of a point
LARGEST_GAIN = round(int(FLIPPED * FLIP / _STEP + 1e-9) * _STEP, 3)  # that such flips allow: all of them go up


@cache
def compute_power(gain: float, pairs: int, seeds: int = 1) -> float:
    """The share of simulated compiles that confirm a true gain, of 0 to 1, with so many pairs."""
    dice = np.random.default_rng((pairs, seeds))
    shape = (DRAWS, pairs, seeds)
    sizes = dice.integers(*_SIZES, shape, endpoint=True)
    sizes = sizes * (dice.random(shape) < FLIPPED)  # of every flip; 0 for none
    goes_up = dice.random(shape) < 0.5 + gain / (2 * FLIPPED * FLIP)

    differences = np.where(goes_up, sizes, -sizes).sum(axis=2)  # of each pair, a row for each draw
    return fmean(compute_one_sided_p(row) < LEVEL for row in differences)


def find_smallest_gain(pairs: int, seeds: int = 1) -> float | None:
    """The smallest true gain that so many pairs confirm in four of five compiles; None if not even the largest one."""
    low = 0
    high = round(LARGEST_GAIN / _STEP)
    if compute_power(high * _STEP, pairs, seeds) < POWER:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if compute_power(middle * _STEP, pairs, seeds) >= POWER:
            high = middle
        else:
            low = middle
    return round(high * _STEP, 3)


def describe_smallest_gain(pairs: int, seeds: int, rule_based: bool) -> str:
    """Say which true gain is confirmed in four of five compiles, from the spread that is assumed of the player."""
    each = f" with {seeds} seeds each" if seeds > 1 else ""
    setting = f"{pairs} confirm variants{each}, p < {LEVEL}"
    if not rule_based:
        points = find_smallest_gain_at(UNIT_SPREAD / sqrt(seeds), pairs)
        return (
            f"once the candidate is chosen, a true gain of about {points:.1f} points or more is confirmed in four of "
            f"five such compiles: {setting}; if equally good programs differ on a variant by a standard deviation of "
            f"{UNIT_SPREAD:.0f} points, as a small model's at a temperature do"
        )

    flips = f"{FLIPPED:.0%} of rollouts flip by {100 * FLIP:.0f} points, as the rule-based player's do"
    gain = find_smallest_gain(pairs, seeds)
    if gain is None:
        power = compute_power(LARGEST_GAIN, pairs, seeds)
        return (
            f"where {flips}, a true gain of {100 * LARGEST_GAIN:.1f} points, the most that these flips can make, is "
            f"confirmed in {100 * power:.0f} of 100 such compiles ({setting}): a gain on more of the variants is "
            "confirmed more often; a larger --calib or more --seeds shows smaller ones"
        )
    condition = "scores differ from seed to seed, and " if seeds > 1 else ""
    return (
        f"once the candidate is chosen, a true gain of {100 * gain:.1f} points or more is confirmed in four of five "
        f"such compiles: {setting}; if {condition}{flips}"
    )


def find_smallest_gain_at(deviation: float, pairs: int) -> float:
    """The same where paired differences have this standard deviation, by the normal distribution."""
    deviations = NormalDist().inv_cdf(1 - LEVEL) + NormalDist().inv_cdf(POWER)
    return deviations * deviation / sqrt(pairs)


# Any two programs.


def confirm(
    program_a: dspy.Module,
    program_b: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    num_threads: int = 1,
    level: float = LEVEL,
) -> PairedTest:
    """Test whether `program_b` is better than `program_a` by `metric(example, prediction)`, a number, a truth value or
    a prediction with a ``score``. `p` is valid only if neither program was made from these examples or chosen by them.
    Raises `UsageError` for what cannot be compared, and what a program or the metric raises: an error is no score."""
    if not examples:
        raise UsageError("there are no examples to confirm by")
    repeats = sum(example in examples[:place] for place, example in enumerate(examples))
    if repeats:
        raise UsageError(
            f"{repeats} of the {len(examples)} examples equal an earlier one, and would count as independent: give "
            "each once"
        )
    if not 0 < level < 0.5:
        raise UsageError(f"a level of {level} confirms nothing or everything; take one between 0 and 0.5, e.g. {LEVEL}")

    def score_one(number: int, example: dspy.Example, program: dspy.Module) -> float:
        score = metric(example, program(**example.inputs()))
        if isinstance(score, dspy.Prediction) and "score" in score:
            score = score.score
        return check_score(score, "score of example", number)

    def run_job(job: tuple[Context, int, dspy.Example, dspy.Module]) -> float:
        context, number, example, program = job
        return context.run(score_one, number, example, program)

    jobs = []
    for number, example in enumerate(examples, 1):
        for program in (program_a, program_b):
            jobs.append((copy_context(), number, example, program))
    with ThreadPoolExecutor(num_threads) as threads:  # an error cancels what has not begun
        scores = list(threads.map(run_job, jobs))
    scores_a = tuple(scores[::2])
    scores_b = tuple(scores[1::2])
    comparison = compare_pairs([b - a for a, b in zip(scores_a, scores_b, strict=True)], level)
    return replace(comparison, scores_a=scores_a, scores_b=scores_b)
