"""The plan of a run: its units and their maximum cost."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from random import Random

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.experiment.protocols import NamedProtocol, resolve_protocol
from rsso_dspy.experiment.variant_selection import choose_variants
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.programs.methods import Method, get_method
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import ZERO_SHOT, Usage, Variant
from rsso_dspy.store.units import Arm, Job, Training, Unit

NOTHING_PLAYED: Mapping[str, int] = {}

TOKENS_PER_CALL = {
    "actor": (2400, 150),
    "reflector": (1400, 185),
    "verbalizer": (1300, 32),
    "advisor": (2000, 200),
    "proposer": (4000, 250),
}
"""Input and output tokens of an average call, measured on the embedded backend over 18 tasks (docs/BENCHMARKS.md)."""

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


@dataclass(frozen=True)
class Plan:
    """All units of a run in order: variant by variant, so that an interrupted run can still be compared.

    Units of an arm and task with a training start from its memories.
    """

    protocol: str
    rules: TrialRules
    units: tuple[Unit, ...]
    trainings: tuple[Training, ...] = ()
    carried: int = 0
    """Number of states in every unit's skill memory at its start."""
    writings: ConstitutionSettings = field(default_factory=ConstitutionSettings)
    """When constitutions are written."""
    stream_trials: int = 1
    """Trials of a unit in a stream."""
    alone: bool = False
    """Whether a single trial can make skills."""

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit.arm.name for unit in self.units))

    @cached_property
    def streams(self) -> dict[Arm, tuple[Unit, ...]]:
        """Units in order, each starting from the previous one's constitution (OmniReflect, self-sustaining mode)."""
        found: dict[Arm, list[Unit]] = {}
        for unit in self.units:
            if unit.place:
                found.setdefault(unit.arm, []).append(unit)
        return {arm: tuple(units) for arm, units in found.items()}

    @cached_property
    def _previous_units(self) -> dict[Unit, Unit]:
        return {unit: before for units in self.streams.values() for before, unit in pairwise(units)}

    def get_previous_unit(self, unit: Unit) -> Unit | None:
        """Return the unit that must be finished before this one."""
        return self._previous_units.get(unit)

    def get_rules(self, unit: Unit) -> TrialRules:
        """The rules of a unit's trials."""
        if not unit.place:
            return self.rules
        return replace(self.rules, trials=self.stream_trials, lasting=("constitution",))

    @property
    def training_rules(self) -> TrialRules:
        """Rules of a training: every episode is played and learned from, solved or not."""
        return replace(self.rules, frozen=False, stop_on_success=False, learn_after_last=True)

    def get_training(self, unit: Unit) -> Training | None:
        """The training that the unit starts from."""
        wanted = (unit.arm, unit.variant.task, unit.seed)
        return next((t for t in self.trainings if (t.arm, t.task, t.seed) == wanted), None)

    def forecast_calls(self, work: Sequence[Job] | None = None, played: Mapping[str, int] = NOTHING_PLAYED) -> Forecast:
        """Return the maximum cost of trainings and units (default: all) if every answer can be parsed.

        DSPy asks a second time for a malformed one. `played` holds the finished trials by key.
        """
        calls: Counter[str] = Counter(actor=0, reflector=0, verbalizer=0)
        everything: Sequence[Job] = [*self.trainings, *self.units]
        for each in everything if work is None else work:
            if isinstance(each, Training):
                rules, known, budgets = self.training_rules, self.carried, each.budgets
            else:
                training = self.get_training(each)
                known = sum(training.budgets) + len(training.budgets) if training else self.carried
                rules = self.get_rules(each)
                budgets = (each.budget,) * rules.trials
            calls.update(_count_calls(each.arm.method, budgets, rules, known, played.get(each.key, 0), self.alone))
        calls.update(self._count_advisor_calls(everything if work is None else work, played))
        return Forecast({role: count for role, count in calls.items() if count})

    def _count_advisor_calls(self, work: Sequence[Job], played: Mapping[str, int]) -> dict[str, int]:
        """Return the maximum calls of rule writer and summarizer.

        The writer is called every `r_freq` steps and possibly at the end of an episode, the summarizer every `s_freq`
        tasks. Summaries triggered by bounds are not included.
        """
        writings = 0
        tasks: Counter[str] = Counter()
        for each in work:
            if each.arm.method.writing not in ("neural", "neuro-symbolic"):
                continue
            if isinstance(each, Training):
                rules, budgets, met, where = self.training_rules, each.budgets, len(each.budgets), each.key
            else:
                rules = self.get_rules(each)
                budgets, met, where = (each.budget,) * rules.trials, 1, each.arm.name if each.place else each.key
            if not rules.frozen:
                writings += sum(map(self.writings.count_writings, budgets[played.get(each.key, 0) :]))
                tasks[where] += met
        summaries = (
            sum(-(-count // self.writings.s_freq) for count in tasks.values())
            if self.writings.keeps_lasting_rules
            else 0
        )
        return {"advisor": writings + summaries} if writings and self.writings.categories else {}


def _count_calls(
    method: Method, budgets: Sequence[int], rules: TrialRules, known: int, played: int, alone: bool
) -> dict[str, int]:
    """Return the maximum calls per role of serial trials with these steps.

    Depends on the states known to the skill memory, the finished trials, and whether a single trial can make skills.
    """
    learnt = 0 if rules.frozen else len(budgets) if rules.learn_after_last else len(budgets) - 1
    of_solved = len(budgets) if rules.learn_after_success and not rules.frozen else learnt
    calls = {"actor": sum(budgets[played:])}
    if "reflections" in method.memories:
        calls["reflector"] = max(0, learnt - played)
    if "skills" in method.memories:
        # A skill takes two windows of three states or more that keep apart, so trajectories of n states in all hold at
        # most n / 8 of them; each costs three calls and one question whether it is known.
        first = max(played + 1, 1 if known or alone else 2)
        states = list(accumulate((steps + 1 for steps in budgets), initial=known))
        calls["verbalizer"] = sum(4 * (n // 8) for n in states[first : of_solved + 1])
    return calls


def make_plan(protocol: str, rules: TrialRules, arms: Sequence[Arm], budgets: dict[Variant, int], seed: int) -> Plan:
    """Plan every arm on every variant with one seed. `budgets` maps the variants, in order, to their steps."""
    units = [Unit(arm, variant, seed, budget) for variant, budget in budgets.items() for arm in arms]
    return Plan(protocol, rules, tuple(units))


def arrange_streams(plan: Plan) -> Plan:
    """Put the units of every arm that writes a constitution into a stream.

    The seed draws the order, equal for all arms. Streams come last, because each unit waits for the previous one.
    """
    writing = [unit for unit in plan.units if unit.arm.method.writing]
    rest = tuple(unit for unit in plan.units if not unit.arm.method.writing)
    streams: list[Unit] = []
    for arm in dict.fromkeys(unit.arm for unit in writing):
        units = [unit for unit in writing if unit.arm == arm]
        Random(f"stream {units[0].seed}").shuffle(units)
        order = hashlib.sha256("\n".join(unit.variant.key for unit in units).encode()).hexdigest()[:6]
        streams += [replace(unit, place=f"{n}/{len(units)} of {order}") for n, unit in enumerate(units, start=1)]
    return replace(plan, units=rest + tuple(streams))


def plan_held_out(
    config: Config,
    methods: Sequence[str],
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] = (),
    per_task: int | None = None,
    programs: Sequence[str] = (ZERO_SHOT,),
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """Plan a held-out run: each method with every program on the selected variants, under the configured protocol.

    `say` receives a note on gold lengths that must be computed. Raises `UnknownName` and `SplitError`.
    """
    protocol = resolve_protocol(config)
    arms = [Arm(get_method(name), program) for name in dict.fromkeys(methods) for program in programs]
    chosen = choose_variants(tasks, variants, per_task, config.simplification, config.active_benchmark)
    plan = make_plan(
        protocol.id,
        protocol.rules,
        arms,
        compute_step_budgets(protocol, chosen, say, config.active_benchmark),
        config.seed,
    )
    plan = replace(
        plan,
        writings=protocol.constitution,
        stream_trials=config.protocol.stream_trials,
        alone=protocol.skills.pairs == "any",
    )
    if config.protocol.setting != "transfer":
        return arrange_streams(plan)
    trained, rounds = dict.fromkeys(variant.task for variant in chosen), config.protocol.train_trials
    episodes = {task: _draw_episodes(task, config, protocol, say) for task in trained}
    return replace(
        plan,
        trainings=tuple(
            Training(arm, task, config.seed, (*steps,) * rounds, (*steps.values(),) * rounds)
            for task, steps in episodes.items()
            for arm in arms
            if set(arm.method.memories) - {"constitution"} or arm.method.writing
        ),
    )


def _draw_episodes(
    task: str, config: Config, protocol: NamedProtocol, say: Callable[[str], None]
) -> dict[Variant, int]:
    """Return the task's training variants with their steps, in the order of each round."""
    wanted = config.protocol.train_per_task
    drawn = [
        replace(v, simplification=config.simplification)
        for v in config.active_benchmark.table.train_sample(task, wanted)
    ]
    if len(drawn) < wanted:
        say(f"{task} has {len(drawn)} training variants, fewer than the requested {wanted}: all of them are played")
    return compute_step_budgets(protocol, drawn, say, config.active_benchmark)


def compute_step_budgets(
    protocol: NamedProtocol,
    variants: Sequence[Variant],
    say: Callable[[str], None] = lambda _: None,
    of: Benchmark | None = None,
) -> dict[Variant, int]:
    """Return the step budget of each variant of a benchmark (default: the built-in one).

    Computes unknown gold lengths, which may take minutes each, and announces that through `say`.
    """
    of = of or get_benchmark()
    unknown = [variant for variant in variants if not of.is_length_known(variant)]
    for number, variant in enumerate(unknown, start=1):
        say(f"computing the gold length of {variant.key} ({number}/{len(unknown)}), which is not in the shipped table")
        of.gold_length(variant)
    return {variant: protocol.compute_budget(of.gold_length(variant)) for variant in variants}
