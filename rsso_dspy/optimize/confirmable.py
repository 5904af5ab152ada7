"""What a compile can confirm with its calibration and budget, said before anything is spent."""

from collections.abc import Iterator
from math import ceil

from rsso_dspy.optimize.calibration import CONFIRM_SHARE
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.paired_test import LEVEL, USUAL, Discordance, count_needed_pairs, find_smallest_gain
from rsso_dspy.optimize.request import SWEEPS, CompileRequest

GAINS = (0.05, 0.10)
"""True gains whose price is told."""


def describe_power(wanted: CompileRequest, start: Compiled | None = None) -> Iterator[str]:
    """Lines: the smallest true gain that this compile confirms in four of five cases, or why it can confirm nothing,
    and what gains of 5 and 10 points take. `start` is the compiled program to improve on, whose own confirmation tells
    how often programs differ; without one, what was measured on the embedded backend is taken for usual."""
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
    tasks = len({variant.task for variant in calibration.val})
    prices = []
    for wished in GAINS:
        needed = count_needed_pairs(wished, seeds, usual)
        many = ceil(needed / (CONFIRM_SHARE * tasks))
        rollouts = SWEEPS * many * tasks * (1 + seeds) + 2 * CONFIRM_SHARE * many * tasks * seeds
        prices.append(
            f"{100 * wished:.0f} points take {needed} confirm variants (--calib {many}-per-task, {rollouts:,} rollouts)"
        )
    yield "; ".join(prices)


def find_hindrance(wanted: CompileRequest) -> str:
    """Why a compile can confirm nothing; empty when it can."""
    calibration = wanted.calibration
    if not calibration.confirm:
        return "the calibration has no confirm variants"
    if 0.5 ** len(calibration.confirm) >= LEVEL:
        return (
            f"{len(calibration.confirm)} confirm variants, were they all better, are no rarer by chance than {LEVEL}; "
            "5 are the least"
        )
    if not wanted.reserved:
        least = wanted.optimizer.least(calibration) + calibration.confirm_rollouts
        return (
            f"{wanted.limits.rollouts} rollouts do not reach for a candidate and {calibration.confirm_rollouts} more "
            f"to confirm it; --max-rollouts {least} would"
        )
    return ""


def measure_discordance(start: Compiled | None) -> Discordance:
    """How much programs differ from variant to variant, as the confirmation of this one says, or as usual."""
    if start is None or start.confirmation is None:
        return USUAL
    pairs = start.confirmation.per_variant.values()
    return Discordance.measure([other - one for one, other in pairs]) or USUAL
