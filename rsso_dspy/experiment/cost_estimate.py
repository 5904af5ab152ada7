"""Cost estimate of a plan from finished units: calls, tokens and dollars with an interval.

    estimate_cost(plan, left, load_observed_units(store, plan), models, price_of).calls       #
    ExpectedRange(mean=812, low=640, high=961)

A unit is expected to take as many calls and tokens per allowed step as observed units of its method, in the roles that
it uses. The interval covers 90% of totals resampled from observed units. These are units of the run itself; while an
arm has fewer than `ENOUGH`, units played on the embedded backend on the same benchmark (the default one's under its
interface) are used (`benchmarks/observed.py` makes their table); where there are none, nothing is estimated. An offline
run of a few units uses what was expected within a factor of two; language models may differ more.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from rsso_dspy.environments import Interface
from rsso_dspy.environments.benchmark import DEFAULT
from rsso_dspy.experiment.forecast import OBSERVED
from rsso_dspy.experiment.plan import NOTHING_PLAYED, Plan
from rsso_dspy.pricing import PriceOf, compute_cost
from rsso_dspy.programs.methods import Method
from rsso_dspy.records import UnitRecord, Usage, sum_usage
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
    """Number of observed units of the run itself."""
    shipped: int
    """Number of observed units of the embedded backend."""


@dataclass(frozen=True, slots=True)
class ObservedUnit:
    """One finished unit."""

    arm: str
    method: str
    allowed: int
    """Steps allowed over all its trials."""
    usage: Mapping[str, Usage]
    """By role."""
    interface: Interface = "complete"
    benchmark: str = DEFAULT
    """Where a shipped unit was played."""


def load_observed_units(store: Store, plan: Plan) -> list[ObservedUnit]:
    """Load the finished units of the plan's arms from a run's folder; empty if there is no run."""
    if not store.exists:
        return []
    streams = {arm.name for arm in plan.streams}
    return [
        make_observed_unit(record, plan.stream_trials if record.arm in streams else plan.rules.trials)
        for record in store.units()
        if not record.has_errors
    ]


def make_observed_unit(record: UnitRecord, trials: int) -> ObservedUnit:
    return ObservedUnit(record.arm, record.method, trials * record.budget, sum_usage(record.trials))


@cache
def load_shipped_units() -> tuple[ObservedUnit, ...]:
    """Load the shipped units, played on the embedded backend under adapt/2-cap60 and sso-adapt/1-cap60."""
    text = resources.files(__package__).joinpath(OBSERVED).read_text(encoding="utf-8")
    return tuple(
        ObservedUnit(
            row["method"],
            row["method"],
            row["allowed"],
            {role: Usage(*spent) for role, spent in row["usage"].items()},
            row.get("interface", "complete"),
            row.get("benchmark", DEFAULT),
        )
        for row in json.loads(text)["units"]
    )


def estimate_cost(
    plan: Plan,
    work: Sequence[Job],
    own: Sequence[ObservedUnit],
    models: Mapping[str, str],
    price_of: PriceOf,
    played: Mapping[str, int] = NOTHING_PLAYED,
    seed: int = 0,
) -> CostEstimate | None:
    """Estimate the cost of `work`; None if it is empty, or no units of its benchmark are shipped and an arm has too
    few of its `own`.

    `models` maps role to model; `played` holds the finished trials by key. Deterministic.
    """
    by_arm: dict[Arm, list[Job]] = {}
    for each in work:
        by_arm.setdefault(each.arm, []).append(each)
    observed = {arm: [unit for unit in own if unit.arm == arm.name] for arm in by_arm}
    is_shipped = any(unit.benchmark == plan.benchmark for unit in load_shipped_units())
    if not work or not (is_shipped or all(len(pool) >= ENOUGH for pool in observed.values())):
        return None
    price_known = all(price_of(models[role]) is not None for role in plan.forecast_calls(work).calls)
    rng = np.random.default_rng(seed)
    draws = np.zeros((RESAMPLES, 4))
    judges = {"own": 0, "shipped": 0}
    for arm, mine in by_arm.items():
        pool = observed[arm]
        whose = "own" if len(pool) >= ENOUGH else "shipped"
        if whose == "shipped":
            pool = _select_similar_units(arm.method, plan.rules.interface, plan.benchmark)
        judges[whose] += len(pool)
        most = plan.forecast_calls(mine, played)
        rates = np.array([_compute_rates(unit, most.calls, models, price_of) for unit in pool])
        allowed = np.array([_count_allowed_steps(each, plan, played.get(each.key, 0)) for each in mine])
        totals = _sample_totals(rates, allowed, rng)
        if whose == "shipped":  # all their answers could be parsed, so the maximum needs no second calls
            totals[:, 0] = np.minimum(totals[:, 0], most.total_calls)
        draws += totals
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    calls, sent, answered, dollars = map(ExpectedRange, draws.mean(axis=0).tolist(), low.tolist(), high.tolist())
    return CostEstimate(calls, sent, answered, dollars if price_known else None, **judges)


def _select_similar_units(method: Method, interface: Interface, benchmark: str) -> list[ObservedUnit]:
    """Return the shipped units of the method, or of the method without its added constitution, on this benchmark (the
    default one's: in this interface)."""
    units = [unit for unit in load_shipped_units() if unit.benchmark == benchmark]
    units = [unit for unit in units if benchmark != DEFAULT or unit.interface == interface]
    known = {unit.method for unit in units}
    bare = "react" if method.scaffold == "flat" else "react-sso"
    name = next(name for name in (method.name, method.name.partition("+")[0], bare) if name in known)
    return [unit for unit in units if unit.method == name]


def _sample_totals(rates: np.ndarray, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (RESAMPLES, 4) bootstrap totals over observed units and over work."""
    judges = rng.integers(len(rates), size=(RESAMPLES, len(rates)))
    like = np.take_along_axis(judges, rng.integers(len(rates), size=(RESAMPLES, len(allowed))), axis=1)
    return np.einsum("rwk,w->rk", rates[like], allowed)


def _compute_rates(
    unit: ObservedUnit, roles: Collection[str], models: Mapping[str, str], price_of: PriceOf
) -> list[float]:
    """Return calls, tokens in, tokens out and dollars of these roles, per allowed step."""
    usages = {role: usage for role, usage in unit.usage.items() if role in roles}
    dollars = sum(
        compute_cost(usage, price) for role, usage in usages.items() if (price := price_of(models.get(role, "")))
    )
    total = sum(usages.values(), Usage())
    return [number / unit.allowed for number in (total.calls, total.input, total.output, dollars)]


def _count_allowed_steps(work: Job, plan: Plan, played: int) -> int:
    if isinstance(work, Training):
        return sum(work.budgets[played:])
    return max(0, plan.get_rules(work).trials - played) * work.budget


def dump_observed_units(units: Iterable[ObservedUnit]) -> str:
    """Format the table of `load_shipped_units` as text."""
    rows = [
        {
            **({"interface": unit.interface} if unit.benchmark == DEFAULT else {"benchmark": unit.benchmark}),
            "method": unit.method,
            "allowed": unit.allowed,
            "usage": {role: [usage.calls, usage.input, usage.output] for role, usage in unit.usage.items()},
        }
        for unit in units
    ]
    lines = ",\n".join(json.dumps(row) for row in rows)
    return '{"units": [\n' + lines + "\n]}\n"
