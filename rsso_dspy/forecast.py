"""What a run costs: at most, as expected, and so far.

    forecast_calls(plan, left)                                                 # the most that a plan can cost
    estimate_cost(plan, left, load_observed_units(store, plan), models, price_of).calls
    SpendLimit(max_cost=5.0, max_tokens=None, models=models, price_of=price_of).follow(events, player.stop)

A unit is expected to take as many calls and tokens per allowed step as finished units of its arm in the same run, in
the roles that it uses. The interval covers 90% of totals resampled from those. An arm with fewer than `ENOUGH` of them
counts with the most that it can take.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rsso_dspy.config import Config
from rsso_dspy.errors import UsageError
from rsso_dspy.executor import EventStream, UsageSpent
from rsso_dspy.lm import Backend
from rsso_dspy.plan import Plan
from rsso_dspy.pricing import PriceOf, compute_cost, format_dollars, make_price_lookup
from rsso_dspy.programs.methods import Method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage, sum_usage
from rsso_dspy.store.run_folder import Arm, Job, Store, Training

NOTHING_PLAYED: Mapping[str, int] = {}

TOKENS_PER_CALL: Mapping[str, tuple[int, int]] = {
    "actor": (2760, 145), "reflector": (3040, 185), "verbalizer": (790, 35), "advisor": (4200, 65),
    "proposer": (4000, 250),
}  # fmt: skip
"""Role to input and output tokens of an average call: means of 324 units of the offline player on the default
benchmark (nine methods, 36 units each, protocol adapt/2-cap60). Those of the proposer are assumed."""

TEACHING = "teacher-"
"""Ahead of a role that a teacher plays in a compile, in its account."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper bound of calls and estimate of tokens, per role."""

    calls: dict[str, int]

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens if every call were made and of average size."""
        usage = self.usage
        return sum(spent.input for spent in usage.values()), sum(spent.output for spent in usage.values())

    @property
    def usage(self) -> dict[str, Usage]:
        """The same by role."""
        sizes = {role: TOKENS_PER_CALL[role.removeprefix(TEACHING)] for role in self.calls}
        return {role: Usage(n, n * sizes[role][0], n * sizes[role][1]) for role, n in self.calls.items()}


def forecast_calls(
    plan: Plan, work: Sequence[Job] | None = None, played: Mapping[str, int] = NOTHING_PLAYED
) -> Forecast:
    """Return the maximum cost of trainings and units (default: all) if every answer can be parsed.

    DSPy asks a second time for a malformed one. `played` holds the finished trials by key.
    """
    calls: Counter[str] = Counter(actor=0, reflector=0, verbalizer=0)
    jobs: Sequence[Job] = [*plan.trainings, *plan.units] if work is None else work
    for job in jobs:
        if isinstance(job, Training):
            rules, known, budgets = plan.training_rules, plan.carried, job.budgets
        else:
            training = plan.get_training(job)
            known = sum(training.budgets) + len(training.budgets) if training else plan.carried
            rules = plan.get_rules(job)
            budgets = (job.budget,) * rules.trials
        done = played.get(job.key, 0)
        calls.update(_count_trial_calls(plan, job.arm.method, budgets, rules, known, done))
        calls.update(_count_distillations(plan, job.arm.method, len(budgets), rules, done))
    calls.update(_count_advisor_calls(plan, jobs, played))
    return Forecast({role: count for role, count in calls.items() if count})


def _count_trial_calls(
    plan: Plan, method: Method, budgets: Sequence[int], rules: TrialRules, known: int, played: int
) -> dict[str, int]:
    """Return the maximum calls per role of serial trials with these steps, of a skill memory that knows so many
    states."""
    learnt = 0 if rules.frozen else len(budgets) if rules.learn_after_last else len(budgets) - 1
    of_solved = len(budgets) if rules.learn_after_success and not rules.frozen else learnt
    calls: Counter[str] = Counter(actor=sum(budgets[played:]))
    states = [*([known] if known else []), *(steps + 1 for steps in budgets)]
    for memory in map(load_memory, method.memories):
        lasts = memory.region in rules.lasting and not rules.frozen
        trials = len(budgets) if lasts else of_solved if memory.learns_from_success else learnt
        for trial in range(played + 1, trials + 1):
            calls.update(memory.most_calls(states[: trial + bool(known)], plan.alone))
    return dict(calls)


def _count_distillations(plan: Plan, method: Method, trials: int, rules: TrialRules, played: int) -> dict[str, int]:
    """Return the maximum calls that distil reflections: one per trial that a plan leaves after."""
    distils = plan.reflections.has("hierarchical") or "reflection_distiller" in method.modules
    if not distils or "reflections" not in method.memories or rules.frozen:
        return {}
    kept = 0 if method.passed_on else plan.reflections.most_kept
    return {"reflector": max(0, trials - max(played, kept))}


def _count_advisor_calls(plan: Plan, work: Sequence[Job], played: Mapping[str, int]) -> dict[str, int]:
    """Return the maximum calls of rule writer and summarizer.

    The writer is called every `r_freq` steps and possibly at the end of an episode, the summarizer every `s_freq`
    tasks. Summaries triggered by bounds are not included.
    """
    writings, tasks = 0, Counter[str]()
    for job in work:
        if job.arm.method.writing not in ("neural", "neuro-symbolic"):
            continue
        if isinstance(job, Training):
            rules, budgets, episodes, book = plan.training_rules, job.budgets, len(job.budgets), job.key
        else:
            rules = plan.get_rules(job)
            budgets, episodes, book = (job.budget,) * rules.trials, 1, job.arm.name if job.place else job.key
        if not rules.frozen:
            writings += sum(map(plan.writings.count_writings, budgets[played.get(job.key, 0) :]))
            tasks[book] += episodes
    summaries = sum(-(-count // plan.writings.s_freq) for count in tasks.values())
    if not plan.writings.keeps_lasting_rules:
        summaries = 0
    return {"advisor": writings + summaries} if writings and plan.writings.categories else {}


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
    price_known = all(price_of(models[role]) is not None for role in forecast_calls(plan, work).calls)
    rng = np.random.default_rng(seed)
    draws = np.zeros((RESAMPLES, 4))
    judges = 0
    for arm, mine in by_arm.items():
        most = forecast_calls(plan, mine, played).usage
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


class SpendLimit:
    """Limits of a run in dollars and in tokens (in and out); None means no limit. Thread-safe.

    `models` maps role to model; `asked` names the roles in use (default: all). Raises `UsageError` for a
    negative limit, and if dollars are limited and the price of a model is unknown.
    """

    def __init__(
        self,
        max_cost: float | None,
        max_tokens: int | None,
        models: Mapping[str, str],
        price_of: PriceOf,
        asked: Collection[str] | None = None,
    ):
        for name, limit in (("max_cost", max_cost), ("max_tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{name}={limit} limits nothing; give a number of at least 0, or leave it out")
        wanted = models.keys() if asked is None else asked
        unpriced = sorted({models[role] for role in wanted if price_of(models[role]) is None})
        if max_cost is not None and unpriced:
            raise UsageError(
                f"the price of {', '.join(unpriced)} is unknown, so --max-cost cannot work: set "
                f'[prices."{unpriced[0]}"] input = ..., output = ... (dollars per million tokens)'
            )
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.cost = 0.0
        """Dollars spent so far, at known prices."""
        self.tokens = 0
        self.unmetered = 0
        """Number of answers without a token count from the server."""
        self._models = models
        self._price_of = price_of
        self._lock = threading.Lock()

    def add_usage(self, role: str, usage: Usage) -> None:
        price = self._price_of(self._models[role]) if role in self._models else None
        with self._lock:
            self.cost += compute_cost(usage, price) if price else 0.0
            self.tokens += usage.input + usage.output
            self.unmetered += usage.unmetered

    def follow(self, events: EventStream, stop: threading.Event) -> None:
        """Count every `UsageSpent`, and set `stop` once a limit is exceeded."""

        def count(event: UsageSpent) -> None:
            self.add_usage(event.role, event.usage)
            if self.exceeded_limit:
                stop.set()

        events.subscribe(UsageSpent, count, required=True)

    def add_earlier_usage(self, spent: Iterable[tuple[str, Usage]]) -> None:
        """Count earlier costs of the run, by role."""
        for role, usage in spent:
            self.add_usage(role, usage)

    @property
    def exceeded_limit(self) -> str:
        """The limit that is exceeded or cannot be kept, in words; otherwise empty."""
        if self.unmetered and not (self.max_cost is None and self.max_tokens is None):
            return "the server does not report token counts, so no limit can be kept"
        if self.max_cost is not None and self.cost > self.max_cost:
            return f"{format_dollars(self.cost)} of {format_dollars(self.max_cost)} are spent (--max-cost)"
        if self.max_tokens is not None and self.tokens > self.max_tokens:
            return f"{self.tokens:,} of {self.max_tokens:,} tokens are spent (max_tokens)"
        return ""


def open_spend_limit(
    config: Config, plans: Sequence[Plan], stores: Sequence[Store], max_cost: float | None, max_tokens: int | None
) -> SpendLimit:
    """Return the spend limit of these plans, which counts what their folders have cost so far.

    Raises `UsageError` if dollars are limited and the price of a model is unknown.
    """
    models: dict[str, str] = {role: model for role, model in Backend(config.active_backend).models.items()}  # noqa: C416
    roles = {role for plan in plans for role in forecast_calls(plan).calls}
    limit = SpendLimit(max_cost, max_tokens, models, make_price_lookup(config.prices), roles & models.keys())
    for store in stores:
        limit.add_earlier_usage(store.read_spending() if store.exists else ())
    return limit
