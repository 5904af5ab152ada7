"""Tells what a compile can confirm with its calibration and budget, before anything is spent."""

from collections.abc import Iterator
from math import ceil

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.optimize.calibration import CONFIRM_SHARE, Calibration, count_confirm_variants
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.paired_test import LEVEL, USUAL, Discordance, count_needed_pairs, find_smallest_gain
from rsso_dspy.optimize.request import SWEEPS, CompileRequest

GAINS = (0.05, 0.10)
"""True gains for which the plan says how many confirm variants they take."""


def describe_power(wanted: CompileRequest, start: Compiled | None = None) -> Iterator[str]:
    """Lines: the smallest true gain that this compile confirms in four of five cases, or why it can confirm nothing,
    and what gains of 5 and 10 points take. `start` is the compiled program to improve on, whose own confirmation tells
    how often programs differ; without one, the values measured on the embedded backend are used."""
    if not wanted.optimizer.searches:
        return
    usual = measure_discordance(start)
    calibration, seeds = wanted.calibration, wanted.calibration.seeds
    pairs = len(calibration.confirm)
    gain = find_smallest_gain(pairs, seeds, usual)
    if why := find_hindrance(wanted):
        yield f"it can confirm nothing: {why}; whatever it finds stays unconfirmed"
    elif gain is None:
        yield f"it can confirm no gain but a huge one: {pairs} confirm variants are too few"
    else:
        yield (
            f"it confirms a true gain of {100 * gain:.1f} points or more in four of five such compiles: "
            f"{pairs} confirm variants{f' with {seeds} seeds each' if seeds > 1 else ''}, {usual.flipped:.0%} of which "
            f"flip by {100 * usual.by:.0f} points, p < {LEVEL}"
        )
    yield "; ".join(_describe_price(wished, calibration, count_needed_pairs(wished, seeds, usual)) for wished in GAINS)


def _describe_price(wished: float, calibration: Calibration, needed: int) -> str:
    """What confirming a true gain takes, or that the tasks have too few variants for it."""
    tasks, seeds = {variant.task for variant in calibration.val}, calibration.seeds
    of = get_benchmark(calibration.benchmark)
    said, many, before = f"{100 * wished:.0f} points take {needed} confirm variants", 0, -1
    while (there := count_confirm_variants(tasks, many, of) if many else 0) < needed:
        if there == before:
            return f"{said}, more than the {there} that these tasks have"
        many, before = many + 1, there
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
        ("--max-lm-calls", wanted.limits.lm_calls, calls),
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
    """How much programs differ from variant to variant: from this program's confirmation, else the usual values."""
    if start is None or start.confirmation is None:
        return USUAL
    pairs = start.confirmation.per_variant.values()
    return Discordance.measure([other - one for one, other in pairs]) or USUAL
