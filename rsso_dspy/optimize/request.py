"""The request of a compile, checked, forecast, and told what it can confirm, before anything is played."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, sqrt

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import GoldUnknown, UsageError
from rsso_dspy.forecast import TEACHING, Forecast, forecast_calls
from rsso_dspy.optimize.acceptance import CompileLimits
from rsso_dspy.optimize.calibration import CONFIRM_SHARE, Calibration, count_confirm_variants
from rsso_dspy.optimize.confirming import (
    LEVEL,
    POWER,
    USUAL,
    Discordance,
    compute_power,
    count_needed_pairs,
    find_largest_gain,
    find_smallest_gain,
)
from rsso_dspy.optimize.optimizers import Optimizer, get_optimizer
from rsso_dspy.optimize.program_file import Compiled
from rsso_dspy.optimize.student import resolve_predictors
from rsso_dspy.optimize.teacher import TAUGHT, Teacher
from rsso_dspy.plan import Plan, compute_step_budgets
from rsso_dspy.programs.methods import ROLE_OF, Method
from rsso_dspy.protocol import NamedProtocol
from rsso_dspy.records import ZERO_SHOT, Variant
from rsso_dspy.store.guards import CompileEnvironment, check_environment
from rsso_dspy.store.run_folder import Arm, Unit

TRIALS = 2
"""Trials per rollout: enough to see whether a reflection helped."""

STEPS = 60
"""Maximum steps per trial. Some worlds get slower with every step, and most of what can be learned comes early."""

SWEEPS = 4
"""Default budget of the search: this many times all train and val variants. Confirming comes on top."""

PLACEBOS = 1
"""Default number of placebos."""

MOST_SEEDS = 20
"""Maximum seeds per variant."""

ROLES = ("actor", "reflector", "verbalizer", "advisor")
"""Roles that are called while a program plays."""

MOST_ROLLOUTS = 100_000
"""Maximum rollouts."""


class StepBudgets(Mapping[Variant, int]):
    """Steps per trial by variant, each computed on first access: an unknown gold length can take minutes, and most
    spare variants are never played."""

    def __init__(self, variants: Iterable[Variant], find: Callable[[Variant], int]):
        self._known: dict[Variant, int | None] = dict.fromkeys(variants)
        self._find = find

    def __getitem__(self, variant: Variant) -> int:
        known = self._known[variant]
        if known is None:
            known = self._known[variant] = self._find(variant)
        return known

    def __iter__(self) -> Iterator[Variant]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True)
class CompileRequest:
    """A checked request of a compile, ready to be forecast and run."""

    method: Method
    calibration: Calibration
    budgets: Mapping[Variant, int]
    """Steps per trial of every calibration variant."""
    optimizer: Optimizer
    trials: int
    steps: int
    """Upper bound of every budget."""
    seed: int
    limits: CompileLimits
    tuned: tuple[str, ...] = tuple(ROLE_OF)
    """Predictors that may be changed."""
    start: str = ZERO_SHOT
    """Fingerprint of the compiled program that the compile starts from, or zero-shot."""
    seen: tuple[str, ...] = ()
    """Keys of the variants that the program of `start` was compiled on."""
    max_idle: int | None = None
    """Steps in a row without reward after which a trial is ended; None for no limit."""
    placebos: int = 0
    """How many placebos play beside the candidates, if the budget covers them."""
    teacher: Teacher | None = None
    """The teacher, who plays train in place of the student."""

    @property
    def reserved(self) -> int:
        """Rollouts that the search leaves for confirming; 0 without a search or with a budget too small for both."""
        wanted = self.calibration.confirm_rollouts if self.optimizer.searches else 0
        return wanted if self.limits.rollouts >= self.optimizer.least(self.calibration) + wanted else 0

    def forecast(self, protocol: NamedProtocol) -> Forecast:
        """Maximum calls by role. The search's rollouts are spread evenly over train and over val, in the proportion
        that costs most; the rest goes to confirm. Tokens are an estimate."""
        calibration = self.calibration
        costs = {variant: self._forecast_variant_calls(protocol, variant) for variant in calibration.variants}
        reserved, total = self.reserved, self.limits.rollouts - self.reserved
        lessons: Counter[str] = Counter()
        if self.teacher:
            total -= len(calibration.train) if self.teacher.backend else 0  # what a gold teacher plays costs no rollout
            taught = [costs[v] for v in calibration.train] if self.teacher.backend else []
            lessons.update({f"{TEACHING}{role}": sum(each.get(role, 0) for each in taught) for role in ROLES})
        train = _accumulate_costliest_calls([costs[v] for v in (*calibration.train, *calibration.spare)], total)
        others = calibration.val if reserved else (*calibration.val, *calibration.confirm)
        val = _accumulate_costliest_calls([costs[v] for v in others], total)
        most = 0 if self.teacher else total  # the student is not played on train under a teacher
        worst = max(range(most + 1), key=lambda n: train[n].total() + val[total - n].total())
        calls = train[worst] + val[total - worst]
        if reserved:
            calls += _accumulate_costliest_calls([costs[v] for v in calibration.confirm], reserved)[-1]
        roles = {role: calls[role] for role in ROLES}
        predictors = sum(roles.get(ROLE_OF[name], 0) > 0 for name in self.tuned)
        roles["proposer"] = predictors * self.optimizer.proposals(self.calibration, total)
        return Forecast({role: count for role, count in (roles | lessons).items() if count})

    def _forecast_variant_calls(self, protocol: NamedProtocol, variant: Variant) -> dict[str, int]:
        rules = replace(protocol.rules, trials=self.trials, learn_after_success=False)
        of = get_benchmark(self.calibration.benchmark)
        known = variant not in self.calibration.spare or of.budget.is_known(variant)
        unit = Unit(Arm(self.method), variant, self.seed, self.budgets[variant] if known else self.steps)
        alone = protocol.skills.pairs == "any"
        return forecast_calls(Plan("", rules, (unit,), writings=protocol.constitution, alone=alone)).calls


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
    seeds: int = 1,
    placebos: int = PLACEBOS,
    teacher: Teacher | None = None,
) -> CompileRequest:
    """Build a checked request. Raises `UnknownName` for an unknown optimizer, `UsageError` for a budget below one
    candidate or a program to start from that is of another method or environment. Unknown gold lengths are computed;
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
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play a variant with {seeds} seeds; ask for 1 to {MOST_SEEDS}")
    calibration = replace(calibration, seeds=seeds)
    least, confirming = chosen.least(calibration), calibration.confirm_rollouts if chosen.searches else 0
    usual = max(least, SWEEPS * (len(calibration.train) + calibration.val_rollouts)) + confirming
    rollouts = usual if max_rollouts is None else max_rollouts
    if rollouts < least:
        raise UsageError(
            f"{rollouts} rollouts are too few for one candidate: {chosen.name} on {len(calibration.train)} train and "
            f"{len(calibration.val)} val variants needs --max-rollouts {least} at least"
        )
    if max_lm_calls is not None and max_lm_calls < least:
        raise UsageError(
            f"{max_lm_calls} model calls are too few for one candidate: that takes {least} rollouts of one call or "
            f"more each, so compile.max_lm_calls={least} at the very least"
        )
    placebos = placebos if chosen.searches else 0
    if (most := chosen.most(calibration)) is not None:
        rollouts = min(rollouts, most + confirming + placebos * calibration.val_rollouts)
    if rollouts > MOST_ROLLOUTS:
        raise UsageError(f"cannot plan {rollouts} rollouts; ask for --max-rollouts {MOST_ROLLOUTS} at most")
    played = get_benchmark(calibration.benchmark)
    if start is not None:
        simplification = calibration.variants[0].simplification
        check_environment(
            start, "the program to start from", CompileEnvironment(played.name, played.version, simplification)
        )
    compute_step_budgets(protocol, (*calibration.train, *calibration.val, *calibration.confirm), say, played)

    def find_budget(variant: Variant) -> int:
        try:
            return min(protocol.find_budget(variant, played), steps)
        except GoldUnknown:  # only of a spare variant: the others are known from above
            return steps

    budgets = StepBudgets(calibration.variants, find_budget)
    if start is not None and start.method != method.name:
        raise UsageError(
            f"the program to start from is of {start.method}, not {method.name}; give --method {start.method}"
        )
    chosen_roles = resolve_predictors(roles)
    if not any(_is_predictor_used(method, name) for name in chosen_roles):
        raise UsageError(
            f"{method.name} never asks {', '.join(roles or ())}, so there is nothing to change; name others"
        )
    if teacher:
        teacher.check(calibration, chosen.name, chosen_roles)
    return CompileRequest(
        method,
        calibration,
        budgets,
        chosen,
        trials,
        steps,
        seed,
        CompileLimits(rollouts, max_lm_calls, max_cost),
        chosen_roles,
        start.program if start else ZERO_SHOT,
        start.calibration if start else (),
        max_idle,
        placebos,
        teacher,
    )


def choose_optimizer(teacher: str | None) -> str:
    """The default optimizer: gepa, or under a teacher one that takes demonstrations."""
    return TAUGHT if teacher else "gepa"


def _is_predictor_used(method: Method, predictor: str) -> bool:
    """Whether the method ever calls the predictor."""
    return predictor.partition(".")[0] in ("actor", *method.list_modules())


def _accumulate_costliest_calls(costs: Sequence[dict[str, int]], count: int) -> list[Counter[str]]:
    """Calls of the most expensive 0, 1, ... `count` rollouts when all variants take turns."""
    ranked = sorted(costs, key=lambda calls: -sum(calls.values()))
    turns = (Counter(ranked[n % len(ranked)]) for n in range(count))
    return list(accumulate(turns, initial=Counter()))


GAINS = (0.05, 0.10)
"""True gains for which the plan says how many confirm variants they take."""


def describe_power(wanted: CompileRequest, start: Compiled | None = None) -> Iterator[str]:
    """Lines: the smallest true gain that this compile confirms in four of five cases once its candidate is chosen, or
    why it confirms none, and what gains of 5 and 10 points take. `start` is the compiled program to improve on, whose
    own confirmation tells how often programs differ; without one, the values measured on the embedded backend are
    used."""
    if not wanted.optimizer.searches:
        return
    usual, calibration = measure_discordance(start), wanted.calibration
    if why := find_hindrance(wanted):
        yield f"it can confirm nothing: {why}; whatever it finds stays unconfirmed"
    else:
        yield _describe_smallest_gain(calibration, usual)
    yield "; ".join(_describe_price(wished, calibration, usual) for wished in GAINS)


def _describe_smallest_gain(calibration: Calibration, usual: Discordance) -> str:
    """The smallest gain that is confirmed in four of five simulated compiles; if none is, how often the largest one is,
    and what would do."""
    pairs, seeds = len(calibration.confirm), calibration.seeds
    played = f"{pairs} confirm variants{f' with {seeds} seeds each' if seeds > 1 else ''}"
    flips = f"{usual.flipped:.0%} of rollouts flip by {100 * usual.by:.0f} points"
    gain, most = find_smallest_gain(pairs, seeds, usual), find_largest_gain(usual)
    if gain is not None:
        given = f"; if scores differ from seed to seed, and {flips}" if seeds > 1 else f"; if {flips}"
        return (
            f"once the candidate is chosen, a true gain of {100 * gain:.1f} points or more is confirmed in four of "
            f"five such compiles: {played}, p < {LEVEL}{given}"
        )
    enough = " or ".join(_list_what_would_do(calibration, usual))
    return (
        f"no gain is confirmed in four of five such compiles: where {flips}, even the largest possible gain, "
        f"{100 * most:.1f} points, is confirmed in {100 * compute_power(most, pairs, seeds, usual):.0f} of 100 "
        f"({played}, p < {LEVEL}); " + (f"{enough} would do" if enough else "no --calib or --seeds would do")
    )


def _list_what_would_do(calibration: Calibration, usual: Discordance) -> Iterator[str]:
    """The least `--calib` and the least `--seeds` that confirm the largest gain in four of five compiles."""
    pairs, seeds, most = len(calibration.confirm), calibration.seeds, find_largest_gain(usual)
    many, _ = _find_calibration(calibration, count_needed_pairs(most, seeds, usual) or 0)
    if many:
        yield f"--calib {many}-per-task"
    for more in range(seeds + 1, MOST_SEEDS + 1):
        if compute_power(most, pairs, more, usual) >= POWER:
            yield f"--seeds {more} (if scores differ from seed to seed)"
            return


def _find_calibration(calibration: Calibration, needed: int) -> tuple[int | None, int]:
    """The least K of ``K-per-task`` that gives so many confirm variants, None if there is none, and how many the tasks
    have at most, or with that K."""
    tasks, of = {variant.task for variant in calibration.val}, get_benchmark(calibration.benchmark)
    many, before, there = 1, 0, count_confirm_variants(tasks, 1, of)
    while there < needed and there > before:
        many, before, there = many + 1, there, count_confirm_variants(tasks, many + 1, of)
    return (many if there >= needed else None), there


def _describe_price(wished: float, calibration: Calibration, usual: Discordance) -> str:
    """What confirming a true gain takes, or why it cannot be confirmed."""
    seeds = calibration.seeds
    needed = count_needed_pairs(wished, seeds, usual)
    if needed is None:
        return f"{100 * wished:.0f} points are more than flips allow"
    said = f"{100 * wished:.0f} points take about {needed} confirm variants"
    many, there = _find_calibration(calibration, needed)
    if many is None:
        return f"{said}, more than the {there} that these tasks have"
    tasks = {variant.task for variant in calibration.val}
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
        ("compile.max_lm_calls", wanted.limits.lm_calls, calls),
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
    """How much programs differ from rollout to rollout: from this program's confirmation, else the usual values."""
    if start is None or start.confirmation is None:
        return USUAL
    pairs, seeds = start.confirmation.per_variant.values(), start.confirmation.seeds
    seen = Discordance.measure([other - one for one, other in pairs])
    if seen is None or not find_largest_gain(seen):
        return USUAL
    flipped = 1 - (1 - seen.flipped) ** (1 / seeds)  # what was seen are means over the seeds
    return Discordance(flipped, min(1.0, seen.deviation * sqrt(seeds / flipped)))
