"""Compiling: a program is played on calibration variants, an optimizer proposes better prompts, and the candidate that
does best on variants it was not made from is written down.

    with session() as live:
        compiled = compile(Agent("rsso"), live, "1-per-task", tasks=["boil"])
    compiled.save("compiled.json")
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from rsso_dspy.config import Config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.optimize.calibration import Calibration, draw
from rsso_dspy.optimize.compiled import Compiled, Environment, Scores, Tried, load, schema_hash
from rsso_dspy.optimize.optimizers import Optimizer, optimizer
from rsso_dspy.optimize.quiet import quiet
from rsso_dspy.optimize.rollouts import Candidate, Halt, Limits, Observer, Rollout, Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import Method
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.protocol.plan import Arm, Forecast, Plan, Unit, step_budgets
from rsso_dspy.protocol.presets import Preset, configured
from rsso_dspy.protocol.provenance import identity
from rsso_dspy.protocol.session import Session
from rsso_dspy.protocol.store import difference
from rsso_dspy.trajectory import Variant

TRIALS = 2
"""Trials per rollout: enough to see whether a reflection helped."""

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
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Request:
    """A checked request. Raises `UnknownName` for an optimizer, `UsageError` for a budget below one candidate. Gold
    lengths that are not known are computed; `say` is told."""
    chosen = optimizer(optimizer_name)
    if trials < 1:
        raise UsageError(f"cannot play {trials} trials a rollout; ask for at least 1")
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
    return Request(method, calibration, budgets, chosen, trials, seed, Limits(rollouts, max_lm_calls))


def compile(
    agent: Agent,
    live: Session,
    calib: str = "1-per-task",
    tasks: Sequence[str] | None = None,
    optimizer: str = "gepa",
    trials: int = TRIALS,
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
) -> Compiled:
    """Compile a program on calibration variants (see `draw`) of the named tasks, with seed and protocol of the
    session's configuration and as many simulators as it has. Raises what `draw`, `request` and `compile_agent` raise.
    """
    config = live.config
    calibration = draw(calib, tasks, config.seed, config.environment.simplification)
    wanted = request(
        agent.method, live.protocol, calibration, optimizer, trials, max_rollouts, max_lm_calls, config.seed
    )
    return compile_agent(agent, live, wanted, live.jobs)


def compile_agent(
    agent: Agent,
    live: Session,
    wanted: Request,
    jobs: int = 1,
    observer: Observer | None = None,
    out: Path | None = None,
) -> Compiled:
    """Compile a program, and write it to `out` when that is given.

    The program as it is and every candidate are scored on the variants to choose by; the best one is returned, the
    program as it was when none is better. A spent budget ends the search with the best so far. So do Ctrl-C and a
    failing backend: then `out` is written and the error goes on.
    """
    rollouts = Rollouts(
        live,
        wanted.calibration.choose,
        wanted.budgets,
        wanted.trials,
        wanted.seed,
        wanted.limits,
        observer or _Silent(),
    )
    calibration = wanted.calibration
    try:
        rollouts.play_all(agent, calibration.choose, jobs)
        with quiet():
            found = wanted.optimizer.run(agent, calibration, rollouts, wanted.seed, jobs)
        rollouts.play_all(found, calibration.choose, jobs)
    except Halt:
        pass
    except KeyboardInterrupt:
        rollouts.halt("interrupted")
    finally:
        rollouts.wait()
    compiled = _compiled(agent, live, wanted, rollouts)
    if out is not None:
        compiled.save(out)
    if rollouts.ended_by == "interrupted":
        raise KeyboardInterrupt
    if rollouts.error is not None:
        raise rollouts.error
    return compiled


def already_compiled(out: Path, config: Config, wanted: Request) -> Compiled | None:
    """What `out` holds, when the same request made it and came to its end; None when there is nothing or it was cut
    short by Ctrl-C or an error. Raises `RunMismatch` for the result of another request."""
    if not out.exists():
        return None
    there = load(out)
    now = {
        "method": wanted.method.name,
        "optimizer": wanted.optimizer.name,
        "trials": wanted.trials,
        "seed": wanted.seed,
        "max_rollouts": wanted.limits.rollouts,
        "max_lm_calls": wanted.limits.lm_calls,
        "learn": [variant.key for variant in wanted.calibration.learn],
        "choose": [variant.key for variant in wanted.calibration.choose],
        "identity": identity(config, configured(config)),
    }
    then = {key: list(value) if isinstance(value := getattr(there, key), tuple) else value for key in now}
    if then != now:
        raise RunMismatch(
            f"{out} holds the result of another compile:\n{difference(then, now)}\nUse another -o, or move it away."
        )
    return None if there.ended_by in ("interrupted", "error") else there


def environment(config: Config) -> Environment:
    """The environment of a configuration, as compiled programs name it."""
    return Environment("scienceworld", version("scienceworld"), config.environment.simplification)


def _compiled(agent: Agent, live: Session, wanted: Request, rollouts: Rollouts) -> Compiled:
    original = next(iter(rollouts.candidates.values()), None)
    best = rollouts.best or original
    models = live.backend.models
    state = best.state if best else agent.dump_state()
    tried = [(c, _scores(c, rollouts.choose)) for c in rollouts.candidates.values()]
    return Compiled(
        method=wanted.method.name,
        improved=best is not original,
        ended_by=rollouts.ended_by,
        optimizer=wanted.optimizer.name,
        trials=wanted.trials,
        seed=wanted.seed,
        max_rollouts=wanted.limits.rollouts,
        max_lm_calls=wanted.limits.lm_calls,
        learn=tuple(variant.key for variant in wanted.calibration.learn),
        choose=tuple(variant.key for variant in wanted.calibration.choose),
        before=_scores(original, rollouts.choose),
        after=_scores(best, rollouts.choose),
        tried=tuple(Tried(candidate.program, scores) for candidate, scores in tried if scores),
        rollouts=rollouts.spent,
        lm_calls=rollouts.lm_calls,
        usage=dict(sorted(rollouts.usage.items())),
        model=models["actor"],
        proposer=models["proposer"],
        rule_based=live.backend.rule_based,
        environment=environment(live.config),
        signatures=schema_hash(agent),
        identity=identity(live.config, live.protocol),
        versions={name: version(name) for name in ("dspy", "gepa", "scienceworld")},
        program=best.program if best else "",
        state=state,
    )


def _scores(candidate: Candidate | None, choose: Sequence[Variant]) -> Scores | None:
    if candidate is None or (metric := candidate.mean(choose)) is None:
        return None
    mean = candidate.mean(choose, "accumulator")
    assert mean is not None
    return Scores(metric, mean)


def _dearest(costs: Sequence[dict[str, int]], count: int) -> list[dict[str, int]]:
    """The dearest `count` rollouts when all variants take turns."""
    ranked = sorted(costs, key=lambda calls: -sum(calls.values()))
    return [*(ranked * (count // len(ranked))), *ranked[: count % len(ranked)]]


class _Silent:
    def rollout(self, rollouts: Rollouts, candidate: Candidate, rollout: Rollout) -> None: ...
