"""Cost estimate of a plan from finished units: calls, tokens and dollars with an interval.

    estimate_cost(plan, left, load_observed_units(store, plan), models, price_of).calls       #
    ExpectedRange(mean=812, low=640, high=961)

A unit is expected to take as many calls and tokens per allowed step as finished units of its arm in the same run, in
the roles that it uses. The interval covers 90% of totals resampled from those. An arm with fewer than `ENOUGH` of them
counts with the most that it can take (`Forecast`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rsso_dspy.experiment.plan import NOTHING_PLAYED, Plan
from rsso_dspy.pricing import PriceOf, compute_cost
from rsso_dspy.records import Usage, sum_usage
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.units import Arm, Job, Training

ENOUGH = 5
RESAMPLES = 1000
LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """An expected number with its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Estimated cost of the pending part of a plan."""

    calls: ExpectedRange
    tokens_in: ExpectedRange
    tokens_out: ExpectedRange
    dollars: ExpectedRange | None
    """None if the price of a model is unknown."""
    own: int
    """Number of finished units that it goes by; of 0, all numbers are the most that the plan can take."""


@dataclass(frozen=True, slots=True)
class ObservedUnit:
    """One finished unit."""

    arm: str
    allowed: int
    """Steps allowed over all its trials."""
    usage: Mapping[str, Usage]
    """By role."""


def load_observed_units(store: Store, plan: Plan) -> list[ObservedUnit]:
    """Load the finished units of the plan's arms from a run's folder; empty if there is no run."""
    if not store.exists:
        return []
    streams = {arm.name for arm in plan.streams}
    return [
        ObservedUnit(
            record.arm,
            (plan.stream_trials if record.arm in streams else plan.rules.trials) * record.budget,
            sum_usage(record.trials),
        )
        for record in store.units()
        if not record.has_errors
    ]


def estimate_cost(
    plan: Plan,
    work: Sequence[Job],
    own: Sequence[ObservedUnit],
    models: Mapping[str, str],
    price_of: PriceOf,
    played: Mapping[str, int] = NOTHING_PLAYED,
    seed: int = 0,
) -> CostEstimate | None:
    """Estimate the cost of `work`; None if it is empty.

    `models` maps role to model; `played` holds the finished trials by key. Deterministic.
    """
    if not work:
        return None
    by_arm: dict[Arm, list[Job]] = {}
    for each in work:
        by_arm.setdefault(each.arm, []).append(each)
    price_known = all(price_of(models[role]) is not None for role in plan.forecast_calls(work).calls)
    rng = np.random.default_rng(seed)
    draws = np.zeros((RESAMPLES, 4))
    judges = 0
    for arm, mine in by_arm.items():
        most = plan.forecast_calls(mine, played).usage
        pool = [unit for unit in own if unit.arm == arm.name]
        if len(pool) < ENOUGH:
            draws += _add_up(most, models, price_of)
            continue
        judges += len(pool)
        rates = [
            _add_up({role: spent for role, spent in unit.usage.items() if role in most}, models, price_of)
            / unit.allowed
            for unit in pool
        ]
        allowed = np.array([_count_allowed_steps(each, plan, played.get(each.key, 0)) for each in mine])
        draws += _sample_totals(np.array(rates), allowed, rng)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    calls, sent, answered, dollars = map(ExpectedRange, draws.mean(axis=0).tolist(), low.tolist(), high.tolist())
    return CostEstimate(calls, sent, answered, dollars if price_known else None, judges)


def _sample_totals(rates: np.ndarray, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (RESAMPLES, 4) bootstrap totals over observed units and over work."""
    judges = rng.integers(len(rates), size=(RESAMPLES, len(rates)))
    like = np.take_along_axis(judges, rng.integers(len(rates), size=(RESAMPLES, len(allowed))), axis=1)
    return np.einsum("rwk,w->rk", rates[like], allowed)


def _add_up(usage: Mapping[str, Usage], models: Mapping[str, str], price_of: PriceOf) -> np.ndarray:
    """Return calls, tokens in, tokens out and dollars, without those of unknown price."""
    dollars = sum(
        compute_cost(spent, price) for role, spent in usage.items() if (price := price_of(models.get(role, "")))
    )
    total = sum(usage.values(), Usage())
    return np.array([total.calls, total.input, total.output, dollars])


def _count_allowed_steps(work: Job, plan: Plan, played: int) -> int:
    if isinstance(work, Training):
        return sum(work.budgets[played:])
    return max(0, plan.get_rules(work).trials - played) * work.budget
