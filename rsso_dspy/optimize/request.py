"""What a compile is asked to do, checked and forecast before anything is played."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from rsso_dspy.config import MOST_TRIALS
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.plan import Forecast, Plan, compute_step_budgets
from rsso_dspy.experiment.protocols import NamedProtocol
from rsso_dspy.experiment.run_programs import CompileEnvironment, check_environment
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.candidates import CompileLimits
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.optimizers import Optimizer, get_optimizer
from rsso_dspy.optimize.student import resolve_predictors
from rsso_dspy.programs.methods import Method
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.records import ZERO_SHOT, Variant
from rsso_dspy.store.units import Arm, Unit

TRIALS = 2
"""Trials per rollout: enough to see whether a reflection helped."""

STEPS = 60
"""Steps per trial at most. Some worlds get slower with every step, and most of what can be learnt comes early."""

SWEEPS = 4
"""Default budget: this many times all calibration variants."""

MOST_ROLLOUTS = 100_000
"""Rollouts at most."""


@dataclass(frozen=True)
class CompileRequest:
    """What a compile is asked to do, checked: it can be forecast and run."""

    method: Method
    calibration: Calibration
    budgets: Mapping[Variant, int]
    """Steps per trial of every calibration variant."""
    optimizer: Optimizer
    trials: int
    steps: int
    """Bound on `budgets`."""
    seed: int
    limits: CompileLimits
    tuned: tuple[str, ...] = tuple(ROLE_OF)
    """Predictors that may be changed."""
    start: str = ZERO_SHOT
    """Fingerprint of the compiled program that is improved on; zero-shot when it is none."""
    seen: tuple[str, ...] = ()
    """Keys of the variants that program was compiled on."""
    max_idle: int | None = None
    """Steps in a row that may earn nothing before a trial is ended."""

    def forecast(self, protocol: NamedProtocol) -> Forecast:
        """Calls at most, by role: rollouts are spread evenly over the variants to learn from and over those to choose
        by, in the proportion that costs most. Tokens are an estimate."""
        costs = {variant: self._forecast_variant_calls(protocol, variant) for variant in self.calibration.variants}
        total = self.limits.rollouts
        learn = _accumulate_costliest_calls([costs[v] for v in self.calibration.learn], total)
        choose = _accumulate_costliest_calls([costs[v] for v in self.calibration.choose], total)
        worst = max(range(total + 1), key=lambda n: learn[n].total() + choose[total - n].total())
        calls = learn[worst] + choose[total - worst]
        roles = {role: calls[role] for role in ("actor", "reflector", "verbalizer", "advisor")}
        predictors = sum(roles.get(ROLE_OF[name], 0) > 0 for name in self.tuned)
        roles["proposer"] = predictors * self.optimizer.proposals(self.calibration, total)
        return Forecast({role: count for role, count in roles.items() if count})

    def _forecast_variant_calls(self, protocol: NamedProtocol, variant: Variant) -> dict[str, int]:
        rules = replace(protocol.rules, trials=self.trials, learn_after_success=False)
        unit = Unit(Arm(self.method), variant, self.seed, self.budgets[variant])
        alone = protocol.skills.pairs == "any"
        return Plan("", rules, (unit,), writings=protocol.constitution, alone=alone).forecast_calls().calls


def build_request(
    method: Method,
    protocol: NamedProtocol,
    calibration: Calibration,
    optimizer_name: str = "gepa",
    trials: int = TRIALS,
    steps: int = STEPS,
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
    max_cost: float | None = None,
    roles: Sequence[str] | None = None,
    start: Compiled | None = None,
    max_idle: int | None = None,
) -> CompileRequest:
    """A checked request. Raises `UnknownName` for an optimizer, `UsageError` for a budget below one candidate, and for
    a program to start from that is of another method or environment. Gold lengths that are not known are computed;
    `say` is told."""
    if "constitution" in method.memories and method.writing is None:
        raise UsageError(
            f"a compile has no constitution for {method.name} to read: compile {method.name.partition('+')[0]}, whose "
            "program plays with a constitution too"
        )
    chosen = get_optimizer(optimizer_name)
    if trials < 1 or steps < 1:
        raise UsageError(f"cannot play {trials} trials of {steps} steps a rollout; ask for at least 1 of each")
    if trials > MOST_TRIALS:
        raise UsageError(f"cannot play {trials} trials a rollout; ask for {MOST_TRIALS} at most")
    least = chosen.least(calibration)
    rollouts = max(least, SWEEPS * len(calibration.variants)) if max_rollouts is None else max_rollouts
    if rollouts < least:
        raise UsageError(
            f"{rollouts} rollouts do not reach for one candidate: {chosen.name} on {len(calibration.learn)} variants "
            f"to learn from and {len(calibration.choose)} to choose by needs --max-rollouts {least} at least"
        )
    if max_lm_calls is not None and max_lm_calls < least:
        raise UsageError(
            f"{max_lm_calls} model calls do not reach for one candidate: that takes {least} rollouts of one call or "
            f"more each, so --max-lm-calls {least} at the very least"
        )
    if (most := chosen.most(calibration)) is not None:
        rollouts = min(rollouts, most)
    if rollouts > MOST_ROLLOUTS:
        raise UsageError(f"cannot plan {rollouts} rollouts; ask for --max-rollouts {MOST_ROLLOUTS} at most")
    played = get_benchmark(calibration.benchmark)
    if start is not None:
        simplification = calibration.variants[0].simplification
        check_environment(
            start, "the program to start from", CompileEnvironment(played.name, played.version, simplification)
        )
    budgets = compute_step_budgets(protocol, calibration.variants, say, played)
    capped = {variant: min(budget, steps) for variant, budget in budgets.items()}
    if start is not None and start.method != method.name:
        raise UsageError(
            f"the program to start from is of {start.method}, not {method.name}; give --method {start.method}"
        )
    chosen_roles = resolve_predictors(roles)
    if not any(_is_predictor_used(method, name) for name in chosen_roles):
        raise UsageError(
            f"{method.name} never asks {', '.join(roles or ())}, so there is nothing to change; name others"
        )
    return CompileRequest(
        method,
        calibration,
        capped,
        chosen,
        trials,
        steps,
        seed,
        CompileLimits(rollouts, max_lm_calls, max_cost),
        chosen_roles,
        start.program if start else ZERO_SHOT,
        start.calibration if start else (),
        max_idle,
    )


def _is_predictor_used(method: Method, predictor: str) -> bool:
    """Whether the method ever calls the predictor."""
    needs = {
        "actor": True,
        "reflector": "reflections" in method.memories,
        "verbalizer": "skills" in method.memories,
        "advisor": method.writing in ("neural", "neuro-symbolic"),
    }
    return needs.get(ROLE_OF[predictor], False)


def _accumulate_costliest_calls(costs: Sequence[dict[str, int]], count: int) -> list[Counter[str]]:
    """Calls of the dearest 0, 1, ... `count` rollouts when all variants take turns."""
    ranked = sorted(costs, key=lambda calls: -sum(calls.values()))
    turns = (Counter(ranked[n % len(ranked)]) for n in range(count))
    return list(accumulate(turns, initial=Counter()))
