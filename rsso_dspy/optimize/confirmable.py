"""Tells what a compile can confirm with its calibration and budget, before anything is spent."""

from collections.abc import Iterator
from math import ceil, sqrt

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.optimize.calibration import CONFIRM_SHARE, Calibration, count_confirm_variants
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.paired_test import LEVEL, USUAL, Discordance
from rsso_dspy.optimize.power import POWER, compute_power, count_needed_pairs, find_largest_gain, find_smallest_gain
from rsso_dspy.optimize.request import MOST_SEEDS, SWEEPS, CompileRequest

GAINS = (0.05, 0.10)
"""True gains for which the plan says how many confirm variants they take."""


def describe_power(wanted: CompileRequest, start: Compiled | None = None) -> Iterator[str]:
    """Lines: the smallest true gain that this compile confirms in four of five cases once its candidate is chosen, or
    why it confirms none, and what gains of 5 and 10 points take. `start` is the compiled program to improve on, whose
    own confirmation tells how often programs differ; without one, the values measured on the embedded backend are
    used."""
    if not wanted.optimizer.searches:
        return
    usual, calibration = measure_discordance(start), wanted.calibration
    if why := find_hindrance(wanted):
        yield f"it can confirm nothing: {why}; whatever it finds stays unconfirmed"
    else:
        yield _describe_smallest_gain(calibration, usual)
    yield "; ".join(_describe_price(wished, calibration, usual) for wished in GAINS)


def _describe_smallest_gain(calibration: Calibration, usual: Discordance) -> str:
    """The smallest gain that is confirmed in four of five simulated compiles; if none is, how often the largest one is,
    and what would do."""
    pairs, seeds = len(calibration.confirm), calibration.seeds
    played = f"{pairs} confirm variants{f' with {seeds} seeds each' if seeds > 1 else ''}"
    flips = f"{usual.flipped:.0%} of rollouts flip by {100 * usual.by:.0f} points"
    gain, most = find_smallest_gain(pairs, seeds, usual), find_largest_gain(usual)
    if gain is not None:
        given = f"; if scores differ from seed to seed, and {flips}" if seeds > 1 else f"; if {flips}"
        return (
            f"once the candidate is chosen, a true gain of {100 * gain:.1f} points or more is confirmed in four of "
            f"five such compiles: {played}, p < {LEVEL}{given}"
        )
    enough = " or ".join(_list_what_would_do(calibration, usual))
    return (
        f"no gain is confirmed in four of five such compiles: where {flips}, even the largest possible gain, "
        f"{100 * most:.1f} points, is confirmed in {100 * compute_power(most, pairs, seeds, usual):.0f} of 100 "
        f"({played}, p < {LEVEL}); " + (f"{enough} would do" if enough else "no --calib or --seeds would do")
    )


def _list_what_would_do(calibration: Calibration, usual: Discordance) -> Iterator[str]:
    """The least `--calib` and the least `--seeds` that confirm the largest gain in four of five compiles."""
    pairs, seeds, most = len(calibration.confirm), calibration.seeds, find_largest_gain(usual)
    many, _ = _find_calibration(calibration, count_needed_pairs(most, seeds, usual) or 0)
    if many:
        yield f"--calib {many}-per-task"
    for more in range(seeds + 1, MOST_SEEDS + 1):
        if compute_power(most, pairs, more, usual) >= POWER:
            yield f"--seeds {more} (if scores differ from seed to seed)"
            return


def _find_calibration(calibration: Calibration, needed: int) -> tuple[int | None, int]:
    """The least K of ``K-per-task`` that gives so many confirm variants, None if there is none, and how many the tasks
    have at most, or with that K."""
    tasks, of = {variant.task for variant in calibration.val}, get_benchmark(calibration.benchmark)
    many, before, there = 1, 0, count_confirm_variants(tasks, 1, of)
    while there < needed and there > before:
        many, before, there = many + 1, there, count_confirm_variants(tasks, many + 1, of)
    return (many if there >= needed else None), there


def _describe_price(wished: float, calibration: Calibration, usual: Discordance) -> str:
    """What confirming a true gain takes, or why it cannot be confirmed."""
    seeds = calibration.seeds
    needed = count_needed_pairs(wished, seeds, usual)
    if needed is None:
        return f"{100 * wished:.0f} points are more than flips allow"
    said = f"{100 * wished:.0f} points take about {needed} confirm variants"
    many, there = _find_calibration(calibration, needed)
    if many is None:
        return f"{said}, more than the {there} that these tasks have"
    tasks = {variant.task for variant in calibration.val}
    rollouts = (SWEEPS * (1 + seeds) + 2 * CONFIRM_SHARE * seeds) * many * len(tasks)
    return f"{said} (--calib {many}-per-task, {rollouts:,} rollouts)"


def describe_limits(wanted: CompileRequest, calls: float, dollars: float | None) -> Iterator[str]:
    """Name each limit in calls or dollars that may be spent before the candidate is confirmed. `calls` and `dollars`
    are the most that all rollouts together may take; None if a price is unknown."""
    least = wanted.optimizer.least(wanted.calibration) + wanted.calibration.confirm_rollouts
    rollouts = wanted.limits.rollouts
    if not wanted.optimizer.searches or not wanted.reserved:
        return
    for option, limit, most in (
        ("compile.max_lm_calls", wanted.limits.lm_calls, calls),
        ("--max-cost", wanted.limits.cost, dollars),
    ):
        if limit is not None and most and limit < least * most / rollouts:
            per_unit = 100 if option == "--max-cost" else 1  # up to the next cent, or the next call
            enough = ceil(least * most / rollouts * per_unit) / per_unit
            yield (
                f"{option} {limit:g} may leave nothing to confirm with: a candidate and its confirmation take {least} "
                f"rollouts, which may take up to {enough:,.12g}"
            )


def find_hindrance(wanted: CompileRequest) -> str:
    """Why a compile can confirm nothing; empty when it can."""
    calibration = wanted.calibration
    if not calibration.confirm:
        return "the calibration has no confirm variants"
    if 0.5 ** len(calibration.confirm) >= LEVEL:
        return (
            f"{len(calibration.confirm)} confirm variants do not give p < {LEVEL} even if the candidate is better on "
            "all of them; it takes at least 5"
        )
    if not wanted.reserved:
        least = wanted.optimizer.least(calibration) + calibration.confirm_rollouts
        return (
            f"{wanted.limits.rollouts} rollouts are too few for a candidate and {calibration.confirm_rollouts} more "
            f"to confirm it; give --max-rollouts {least} or more"
        )
    return ""


def measure_discordance(start: Compiled | None) -> Discordance:
    """How much programs differ from rollout to rollout: from this program's confirmation, else the usual values."""
    if start is None or start.confirmation is None:
        return USUAL
    pairs, seeds = start.confirmation.per_variant.values(), start.confirmation.seeds
    seen = Discordance.measure([other - one for one, other in pairs])
    if seen is None or not find_largest_gain(seen):
        return USUAL
    flipped = 1 - (1 - seen.flipped) ** (1 / seeds)  # what was seen are means over the seeds
    return Discordance(flipped, min(1.0, seen.deviation * sqrt(seeds / flipped)))
