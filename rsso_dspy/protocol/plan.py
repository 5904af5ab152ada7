"""Which units a command plays, and what they may cost, before anything is started."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rsso_dspy.config import Config
from rsso_dspy.environments.scienceworld.golds import gold_length, known_length
from rsso_dspy.programs.methods import Method, method
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol.presets import Preset, configured
from rsso_dspy.protocol.selection import choose
from rsso_dspy.trajectory import Variant

ZERO_SHOT = "zero-shot"

TOKENS_PER_CALL = {"actor": (2400, 150), "reflector": (1400, 185), "verbalizer": (1300, 32), "proposer": (4000, 250)}
"""Input and output tokens of an average call, measured on the embedded backend over 18 tasks (docs/BENCHMARKS.md)."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of the comparison: a method with a program."""

    method: Method
    program: str = ZERO_SHOT

    @property
    def name(self) -> str:
        return self.method.name if self.program == ZERO_SHOT else f"{self.method.name}+{self.program}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One (arm, task, variant, seed) to play, with its step budget per trial."""

    arm: Arm
    variant: Variant
    seed: int
    budget: int

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.variant.key}/s{self.seed}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper bound of calls and an estimate of tokens, per role."""

    calls: dict[str, int]

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens if every call were made and of average size."""
        sizes = [(count, TOKENS_PER_CALL[role]) for role, count in self.calls.items()]
        return sum(n * size[0] for n, size in sizes), sum(n * size[1] for n, size in sizes)


@dataclass(frozen=True, slots=True)
class Plan:
    """All units of a run in the order they are played: variant by variant, so that a run cut short still compares."""

    protocol: str
    rules: TrialRules
    units: tuple[Unit, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit.arm.name for unit in self.units))

    def forecast(self, units: Sequence[Unit] | None = None) -> Forecast:
        """What the units (all of them when None) cost at most, as long as every answer can be read: DSPy asks for a
        malformed one once more."""
        calls = {"actor": 0, "reflector": 0, "verbalizer": 0}
        trials = self.rules.trials
        learnt = trials if self.rules.learn_after_last else trials - 1
        for unit in self.units if units is None else units:
            calls["actor"] += trials * unit.budget
            if "reflections" in unit.arm.method.memories:
                calls["reflector"] += learnt
            if "skills" in unit.arm.method.memories:
                # A skill takes two windows of three states or more that keep apart, so t trajectories of n states hold
                # at most t n / 8 of them; each costs three calls and one question whether it is known.
                states = unit.budget + 1
                calls["verbalizer"] += sum(4 * (t * states // 8) for t in range(2, learnt + 1))
        return Forecast({role: count for role, count in calls.items() if count})


def make_plan(protocol: str, rules: TrialRules, arms: Sequence[Arm], budgets: dict[Variant, int], seed: int) -> Plan:
    """Every arm on every variant with one seed. `budgets` gives the variants, in order, with their steps."""
    units = [Unit(arm, variant, seed, budget) for variant, budget in budgets.items() for arm in arms]
    return Plan(protocol, rules, tuple(units))


def plan_held_out(
    config: Config,
    methods: Sequence[str],
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] = ("sso",),
    per_task: int | None = None,
    programs: Sequence[str] = (ZERO_SHOT,),
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """The plan of a held-out run: the named methods, each with every program, on the chosen variants (see `choose`),
    under the configured protocol. `say` is told of gold lengths that have to be computed. Raises `UnknownName` and
    `SplitError` for what can't be played."""
    protocol = configured(config)
    arms = [Arm(method(name), program) for name in dict.fromkeys(methods) for program in programs]
    chosen = choose(tasks, variants, per_task, config.environment.simplification)
    return make_plan(protocol.id, protocol.rules, arms, step_budgets(protocol, chosen, say), config.seed)


def step_budgets(
    protocol: Preset, variants: Sequence[Variant], say: Callable[[str], None] = lambda _: None
) -> dict[Variant, int]:
    """Steps per trial of each variant. Gold lengths that are neither shipped nor cached are computed, up to two
    minutes each; `say` is told."""
    unknown = [variant for variant in variants if known_length(variant) is None]
    for number, variant in enumerate(unknown, start=1):
        say(f"computing the gold length of {variant.key} ({number}/{len(unknown)}), which is not in the shipped table")
        gold_length(variant)
    return {variant: protocol.budget(gold_length(variant)) for variant in variants}
