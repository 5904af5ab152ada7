"""The request of a compile, checked, forecast, and told what it can confirm, before anything is played."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from rsso_dspy.config import CompileOptions, Config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.calibration import PARTS, Calibration
from rsso_dspy.optimize.optimizers import Optimizer, get_optimizer
from rsso_dspy.optimize.teacher import Teacher
from rsso_dspy.optimize.verdict import FLIP, FLIPPED, LARGEST_GAIN, LEVEL, compute_power, find_smallest_gain
from rsso_dspy.plan import TEACHING, Forecast, Plan, compute_step_budgets, forecast_calls
from rsso_dspy.programs.methods import ROLE_OF, Method
from rsso_dspy.protocol import NamedProtocol, make_run_identity, resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.store.run_folder import Arm, Unit

SWEEPS = 4  # usual budget of the search: so many times all train and val variants; confirming comes on top
PLACEBOS = 1
MOST_SEEDS, MOST_ROLLOUTS = 20, 100_000


@dataclass(frozen=True)
class CompileRequest:
    method: Method
    calibration: Calibration
    optimizer: Optimizer
    options: CompileOptions
    seed: int
    max_rollouts: int
    max_cost: float | None = None  # US dollars
    placebos: int = 0  # that play beside the candidates, if the budget covers them
    teacher: Teacher | None = None  # plays train in place of the student

    @property
    def reserved(self) -> int:
        """Rollouts that the search leaves for confirming; 0 without a search or with a budget too small for both."""
        wanted = self.calibration.confirm_rollouts if self.optimizer.searches else 0
        return wanted if self.max_rollouts >= self.optimizer.least(self.calibration) + wanted else 0

    @property
    def notes(self) -> tuple[str, ...]:
        taught = self.teacher.notes if self.teacher else ()
        return (*self.calibration.notes, *taught, *self.optimizer.notes)

    def describe(self, config: Config) -> dict[str, Any]:
        """What the result depends on, as JSON data. The file of the compiled program holds the same fields."""
        teacher = self.teacher
        taught = {"teacher": {"name": teacher.name, "settings": teacher.settings}} if teacher else {}
        return {
            "teacher": teacher.model if teacher else None,
            "method": self.method.name,
            "optimizer": self.optimizer.name,
            "trials": self.options.trials,
            "steps": self.options.steps,
            "seed": self.seed,
            "max_rollouts": self.max_rollouts,
            "max_cost": self.max_cost,
            **{part: [each.key for each in getattr(self.calibration, part)] for part in PARTS},
            "seeds": self.calibration.seeds,
            "placebos": self.placebos,
            "identity": {**make_run_identity(config, resolve_protocol(config)), **taught, **self.optimizer.settings},
        }

    def forecast(self, protocol: NamedProtocol) -> Forecast:
        """Maximum calls by role. The search's rollouts are spread evenly over train and over val, in the proportion
        that costs most; the rest goes to confirm."""
        calibration, reserved, total = self.calibration, self.reserved, self.max_rollouts - self.reserved
        costs = {variant: self._forecast_variant_calls(protocol, variant) for variant in calibration.variants}
        taught = Counter[str]()
        if self.teacher and self.teacher.backend:  # what a gold teacher plays costs no rollout
            total -= len(calibration.train)
            taught = sum((costs[variant] for variant in calibration.train), taught)

        def accumulate_costliest(variants: Sequence[Variant], count: int) -> list[Counter[str]]:
            """Calls of the most expensive 0, 1, ... `count` rollouts when all variants take turns."""
            ranked = sorted((costs[variant] for variant in variants), key=lambda calls: -calls.total())
            return list(accumulate((ranked[n % len(ranked)] for n in range(count)), initial=Counter()))

        train = accumulate_costliest(calibration.train, total)
        val = accumulate_costliest(calibration.val if reserved else (*calibration.val, *calibration.confirm), total)
        most = 0 if self.teacher else total  # the student is not played on train under a teacher
        worst = max(range(most + 1), key=lambda n: train[n].total() + val[total - n].total())
        calls = train[worst] + val[total - worst]
        if reserved:
            calls += accumulate_costliest(calibration.confirm, reserved)[-1]
        predictors = sum(calls[role] > 0 for role in ROLE_OF.values())
        calls["proposer"] = predictors * self.optimizer.proposals(calibration, total)
        calls.update({f"{TEACHING}{role}": count for role, count in taught.items()})
        return Forecast({role: count for role, count in calls.items() if count})

    def _forecast_variant_calls(self, protocol: NamedProtocol, variant: Variant) -> Counter[str]:
        rules = replace(protocol.rules, trials=self.options.trials, learn_after_success=False)
        budget = protocol.find_budget(variant, get_benchmark(self.calibration.benchmark))
        unit = Unit(Arm(self.method), variant, self.seed, min(budget, self.options.steps))
        alone = protocol.skills.pairs == "any"
        return Counter(forecast_calls(Plan("", rules, (unit,), writings=protocol.constitution, alone=alone)).calls)


def build_request(
    method: Method,
    protocol: NamedProtocol,
    calibration: Calibration,
    optimizer: str | Optimizer | None = None,
    options: CompileOptions | None = None,
    max_rollouts: int | None = None,
    max_cost: float | None = None,
    seed: int = 0,
    seeds: int = 1,
    teacher: Teacher | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CompileRequest:
    """Build a checked request. When `optimizer` is None, it is gepa, or bootstrap under a teacher. Raises
    `UnknownName` for an optimizer, `UsageError` for a budget below one candidate. Unknown gold lengths are computed;
    `say` is told."""
    options = options or CompileOptions()
    name = optimizer or ("bootstrap" if teacher else "gepa")
    chosen = get_optimizer(name) if isinstance(name, str) else name
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play a variant with {seeds} seeds; ask for 1 to {MOST_SEEDS}")
    if "constitution" in method.memories and method.writing is None:
        raise UsageError(
            f"a compile has no constitution for {method.name} to read: compile {method.name.partition('+')[0]}, whose "
            "program plays with a constitution too"
        )
    calibration = replace(calibration, seeds=seeds)
    if teacher:
        teacher.check(calibration, chosen.name)
    compute_step_budgets(protocol, calibration.variants, say, get_benchmark(calibration.benchmark))
    placebos = PLACEBOS if chosen.searches else 0
    rollouts = _choose_budget(chosen, calibration, max_rollouts)
    return CompileRequest(method, calibration, chosen, options, seed, rollouts, max_cost, placebos, teacher)


def _choose_budget(chosen: Optimizer, calibration: Calibration, max_rollouts: int | None) -> int:
    least = chosen.least(calibration)
    usual = max(least, SWEEPS * (len(calibration.train) + calibration.val_rollouts))
    if chosen.most:
        usual = chosen.most(calibration) + PLACEBOS * chosen.searches * calibration.val_rollouts
    usual += calibration.confirm_rollouts * chosen.searches
    rollouts = usual if max_rollouts is None else max_rollouts
    if chosen.most:
        rollouts = min(rollouts, usual)
    if rollouts < least:
        raise UsageError(
            f"{rollouts} rollouts are too few for one candidate: {chosen.name} on {len(calibration.train)} train and "
            f"{len(calibration.val)} val variants needs --max-rollouts {least} at least"
        )
    if rollouts > MOST_ROLLOUTS:
        raise UsageError(f"cannot plan {rollouts} rollouts; ask for --max-rollouts {MOST_ROLLOUTS} at most")
    return rollouts


def describe_power(wanted: CompileRequest) -> Iterator[str]:
    """The smallest true gain that this compile confirms in four of five cases, or why it confirms none, in a line."""
    calibration, played = wanted.calibration, f"{len(wanted.calibration.confirm)} confirm variants"
    pairs, seeds, needed = len(calibration.confirm), calibration.seeds, calibration.confirm_rollouts
    hindrance = ""
    if not wanted.optimizer.searches:
        return
    if not pairs:
        hindrance = "the calibration has no confirm variants"
    elif 0.5**pairs >= LEVEL:
        hindrance = f"{played} do not give p < {LEVEL} even if it is better on all of them; it takes at least 5"
    elif not wanted.reserved:
        hindrance = (
            f"{wanted.max_rollouts} rollouts are too few for a candidate and {needed} more to confirm it; give "
            f"--max-rollouts {wanted.optimizer.least(calibration) + needed} or more"
        )
    if hindrance:
        yield f"it can confirm nothing: {hindrance}; whatever it finds stays unconfirmed"
        return
    played += f"{f' with {seeds} seeds each' if seeds > 1 else ''}, p < {LEVEL}"
    flips = f"{FLIPPED:.0%} of rollouts flip by {100 * FLIP:.0f} points, as the rule-based player's do"
    if (gain := find_smallest_gain(pairs, seeds)) is not None:
        given = "scores differ from seed to seed, and " if seeds > 1 else ""
        yield (
            f"once the candidate is chosen, a true gain of {100 * gain:.1f} points or more is confirmed in four of "
            f"five such compiles: {played}; if {given}{flips}"
        )
        return
    yield (
        f"no gain is confirmed in four of five such compiles: where {flips}, even the largest possible gain, "
        f"{100 * LARGEST_GAIN:.1f} points, is confirmed in {100 * compute_power(LARGEST_GAIN, pairs, seeds):.0f} of "
        f"100 ({played}); a larger --calib or more --seeds would do"
    )
