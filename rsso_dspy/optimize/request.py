"""What a compile is asked to do, checked and forecast before anything is played."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.optimizers import Optimizer, optimizer
from rsso_dspy.optimize.rollouts import Limits
from rsso_dspy.programs.methods import Method
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.protocol.plan import Arm, Forecast, Plan, Unit, step_budgets
from rsso_dspy.protocol.presets import Preset
from rsso_dspy.trajectory import Variant

TRIALS = 2
"""Trials per rollout: enough to see whether a reflection helped."""

STEPS = 60
"""Steps per trial at most. Some worlds get slower with every step, and most of what can be learnt comes early."""

SWEEPS = 4
"""Default budget: this many times all calibration variants."""


@dataclass(frozen=True)
class Request:
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
    limits: Limits

    def forecast(self, protocol: Preset) -> Forecast:
        """Calls at most, by role: rollouts are spread evenly over the variants to learn from and over those to choose
        by, in the proportion that costs most. Tokens are an estimate."""
        costs = {variant: self._cost(protocol, variant) for variant in self.calibration.variants}
        total = self.limits.rollouts
        worst = max(
            (
                _dearest([costs[v] for v in self.calibration.learn], n)
                + _dearest([costs[v] for v in self.calibration.choose], total - n)
                for n in range(total + 1)
            ),
            key=lambda calls: sum(sum(call.values()) for call in calls),
        )
        roles = {role: sum(call.get(role, 0) for call in worst) for role in ("actor", "reflector", "verbalizer")}
        predictors = sum(roles[role] > 0 for role in ROLE_OF.values() if role in roles)
        roles["proposer"] = predictors * self.optimizer.proposals(self.calibration, total)
        return Forecast({role: count for role, count in roles.items() if count})

    def _cost(self, protocol: Preset, variant: Variant) -> dict[str, int]:
        rules = replace(protocol.rules, trials=self.trials)
        return Plan("", rules, (Unit(Arm(self.method), variant, self.seed, self.budgets[variant]),)).forecast().calls


def request(
    method: Method,
    protocol: Preset,
    calibration: Calibration,
    optimizer_name: str = "gepa",
    trials: int = TRIALS,
    steps: int = STEPS,
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Request:
    """A checked request. Raises `UnknownName` for an optimizer, `UsageError` for a budget below one candidate. Gold
    lengths that are not known are computed; `say` is told."""
    chosen = optimizer(optimizer_name)
    if trials < 1 or steps < 1:
        raise UsageError(f"cannot play {trials} trials of {steps} steps a rollout; ask for at least 1 of each")
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
    budgets = step_budgets(protocol, calibration.variants, say)
    capped = {variant: min(budget, steps) for variant, budget in budgets.items()}
    return Request(method, calibration, capped, chosen, trials, steps, seed, Limits(rollouts, max_lm_calls))


def _dearest(costs: Sequence[dict[str, int]], count: int) -> list[dict[str, int]]:
    """The dearest `count` rollouts when all variants take turns."""
    ranked = sorted(costs, key=lambda calls: -sum(calls.values()))
    return [*(ranked * (count // len(ranked))), *ranked[: count % len(ranked)]]
