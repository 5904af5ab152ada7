"""What a run costs: at most, and so far."""

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rsso_dspy.config import EMBEDDED, Config
from rsso_dspy.errors import UsageError
from rsso_dspy.executor import EventStream, UsageSpent
from rsso_dspy.lm import Backend
from rsso_dspy.plan import Plan
from rsso_dspy.pricing import PriceOf, compute_cost, format_dollars, format_tokens, make_price_lookup, sum_amounts
from rsso_dspy.programs.methods import Method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage
from rsso_dspy.store.run_folder import Job, Store, Training, Unit

TOKENS_PER_CALL: Mapping[str, tuple[int, int]] = {
    "actor": (2760, 145), "reflector": (3040, 185), "verbalizer": (790, 35), "advisor": (4200, 65),
    "proposer": (4000, 250),
}  # fmt: skip
"""Role to input and output tokens of an average call: means of 324 units of the offline player on the default
benchmark (nine methods, 36 units each, protocol adapt/3-cap60). Those of the proposer are assumed."""

SECONDS_PER_CALL = 3.0  # assumed: a small model on two cores took 1.4 s an answer to short prompts, 5 s to long ones
LARGE_DOLLARS, LARGE_TOKENS, LARGE_HOURS = 10.0, 1_000_000, 10.0  # what nobody starts by mistake costs at most

TEACHING = "teacher-"  # ahead of a role that a teacher plays in a compile, in its account


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
        return sum(usage.input for usage in self.usage.values()), sum(usage.output for usage in self.usage.values())

    @property
    def usage(self) -> dict[str, Usage]:
        sizes = {role: TOKENS_PER_CALL[role.removeprefix(TEACHING)] for role in self.calls}
        return {role: Usage(n, n * sizes[role][0], n * sizes[role][1]) for role, n in self.calls.items()}


def forecast_calls(plan: Plan, work: Sequence[Job] | None = None, played: Mapping[str, int] | None = None) -> Forecast:
    """Return the maximum cost of trainings and units, if every answer can be read. `played`: finished trials by key."""
    calls, played = Counter[str](actor=0, reflector=0, verbalizer=0), played or {}
    jobs: Sequence[Job] = [*plan.trainings, *plan.units] if work is None else work
    for job in jobs:
        rules, budgets, known = _describe_trials(plan, job)
        done = played.get(job.key, 0)
        calls.update(_count_trial_calls(plan, job.arm.method, budgets, rules, known, done))
        calls.update(_count_distillations(plan, job.arm.method, len(budgets), rules, done))
    calls.update(_count_advisor_calls(plan, jobs, played))
    return Forecast({role: count for role, count in calls.items() if count})


def _describe_trials(plan: Plan, job: Job) -> tuple[TrialRules, tuple[int, ...], int]:
    """Return rules and steps of a job's trials, and the states that its skill memory knows at its start."""
    if isinstance(job, Training):
        return plan.training_rules, job.budgets, plan.carried
    rules, training = plan.get_rules(job), plan.get_training(job)
    known = sum(training.budgets) + len(training.budgets) if training else plan.carried
    return rules, (job.budget,) * rules.trials, known


def _count_trial_calls(
    plan: Plan, method: Method, budgets: Sequence[int], rules: TrialRules, known: int, played: int
) -> dict[str, int]:
    """Return the maximum calls per role of serial trials with these steps."""
    learnt = 0 if rules.frozen else len(budgets) if rules.learn_after_last else len(budgets) - 1
    of_solved = len(budgets) if rules.learn_after_success and not rules.frozen else learnt
    calls: Counter[str] = Counter(actor=sum(budgets[played:]))
    states = [*([known] if known else []), *(steps + 1 for steps in budgets)]
    for memory in map(load_memory, method.memories):
        lasts = memory.region in rules.lasting and not rules.frozen
        learns_from_success = memory.learns_from_success or plan.reflections.successes
        trials = len(budgets) if lasts else of_solved if learns_from_success else learnt
        for trial in range(played + 1, trials + 1):
            calls.update(memory.most_calls(states[: trial + bool(known)], plan.alone))
    return dict(calls)


def _count_distillations(plan: Plan, method: Method, trials: int, rules: TrialRules, played: int) -> dict[str, int]:
    """Return the maximum calls that distil reflections: one per trial that a plan leaves after."""
    distils = plan.reflections.has("hierarchical") or "reflection_distiller" in method.modules
    kept = 0 if method.passed_on else plan.reflections.most_kept
    idle = not distils or "reflections" not in method.memories or rules.frozen
    return {} if idle else {"reflector": max(0, trials - max(played, kept))}


def _count_advisor_calls(plan: Plan, work: Sequence[Job], played: Mapping[str, int]) -> dict[str, int]:
    """Return the maximum calls of rule writer and summarizer, without summaries triggered by bounds."""
    writings, tasks = 0, Counter[str]()
    for job in work:
        if job.arm.method.writing not in ("neural", "neuro-symbolic"):
            continue
        rules, budgets, _ = _describe_trials(plan, job)
        in_stream = isinstance(job, Unit) and job.place
        book, episodes = (job.arm.name if in_stream else job.key), (len(budgets) if isinstance(job, Training) else 1)
        if not rules.frozen:
            writings += sum(map(plan.writings.count_writings, budgets[played.get(job.key, 0) :]))
            tasks[book] += episodes
    summaries = sum(map(plan.writings.count_summaries, tasks.values()))
    return {"advisor": writings + summaries} if writings and plan.writings.categories else {}


def price_forecast(forecast: Forecast, models: Mapping[str, str], price_of: PriceOf) -> float | None:
    """Return the dollars of a forecast without a cache; None if the price of a role's model is unknown."""
    prices = [(usage, price_of(models[role])) for role, usage in forecast.usage.items()]
    return sum_amounts(compute_cost(usage, price) if price else None for usage, price in prices)


def list_large_costs(forecast: Forecast, models: Mapping[str, str], price_of: PriceOf, jobs: int) -> list[str]:
    """Return the dollars, tokens and hours of a forecast that are large. The embedded player costs nothing."""
    asked = Forecast({role: count for role, count in forecast.calls.items() if models[role] != EMBEDDED})
    dollars, tokens = price_forecast(asked, models, price_of) or 0.0, sum(asked.tokens)
    hours = asked.total_calls * SECONDS_PER_CALL / jobs / 3600
    costs = {
        format_dollars(dollars): dollars > LARGE_DOLLARS,
        f"{format_tokens(tokens)} tokens": tokens > LARGE_TOKENS,
        f"{hours:,.0f} hours at {SECONDS_PER_CALL:g} seconds an answer": hours > LARGE_HOURS,
    }
    return [text for text, is_large in costs.items() if is_large]


class SpendLimit:
    """Limits of a run in dollars and in tokens (in and out). Thread-safe. `models` maps role to model; `asked` names
    the roles in use, whose models need a price where dollars are limited."""

    def __init__(
        self, max_cost: float | None, max_tokens: int | None, models: Mapping[str, str], price_of: PriceOf,
        asked: Collection[str] | None = None,
    ):  # fmt: skip
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
        self.max_cost, self.max_tokens = max_cost, max_tokens
        self.cost, self.tokens = 0.0, 0  # dollars at known prices, and tokens, so far
        self.unmetered = 0  # number of answers without a token count from the server
        self._models, self._price_of, self._lock = models, price_of, threading.Lock()

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

        events.subscribe(UsageSpent, count)

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
    """Return the spend limit of these plans, which counts what their folders have cost so far."""
    models: dict[str, str] = dict(Backend(config.active_backend).models.items())
    roles = {role for plan in plans for role in forecast_calls(plan).calls}
    limit = SpendLimit(max_cost, max_tokens, models, make_price_lookup(config.prices), roles & models.keys())
    for role, usage in (each for store in stores if store.exists for each in store.read_spending()):
        limit.add_usage(role, usage)
    return limit
