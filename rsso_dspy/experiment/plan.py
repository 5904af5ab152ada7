"""The plan of a run: its units and their maximum cost."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.forecast import Forecast, count_calls
from rsso_dspy.experiment.protocols import NamedProtocol, make_reflection_settings, resolve_protocol
from rsso_dspy.experiment.variant_selection import choose_variants, describe_missing_data
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.memory.constitution.file import format_examples
from rsso_dspy.memory.constitution.memory import require_examples
from rsso_dspy.memory.improvements import ReflectionSettings
from rsso_dspy.programs.methods import Method, get_method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import ZERO_SHOT, Variant
from rsso_dspy.store.units import Arm, Job, Training, Unit

NOTHING_PLAYED: Mapping[str, int] = {}


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
    reflections: ReflectionSettings = field(default_factory=ReflectionSettings)
    """Settings of the reflection memory."""
    benchmark: str = DEFAULT

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit.arm.name for unit in self.units))

    @cached_property
    def streams(self) -> dict[Arm, tuple[Unit, ...]]:
        """Units in order, each starting from the lasting memories of the previous one (OmniReflect, self-sustaining
        mode)."""
        found: dict[Arm, list[Unit]] = {}
        for unit in self.units:
            if unit.place:
                found.setdefault(unit.arm, []).append(unit)
        return {arm: tuple(units) for arm, units in found.items()}

    @cached_property
    def _previous_units(self) -> dict[Unit, Unit]:
        return {unit: before for units in self.streams.values() for before, unit in pairwise(units)}

    def get_previous_unit(self, unit: Unit, passes: Callable[[Unit], bool] = lambda _: False) -> Unit | None:
        """Return the unit that must be finished before this one: the nearest that is not passed over."""
        before = self._previous_units.get(unit)
        while before is not None and passes(before):
            before = self._previous_units.get(before)
        return before

    def get_rules(self, unit: Unit) -> TrialRules:
        if not unit.place:
            return self.rules
        lasting = tuple(load_memory(name).region for name in unit.arm.method.streamed)
        return replace(self.rules, trials=self.stream_trials, lasting=lasting)

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
            calls.update(count_calls(each.arm.method, budgets, rules, known, played.get(each.key, 0), self.alone))
            calls.update(self._count_distillations(each.arm.method, len(budgets), rules, played.get(each.key, 0)))
        calls.update(self._count_advisor_calls(everything if work is None else work, played))
        return Forecast({role: count for role, count in calls.items() if count})

    def _count_distillations(self, method: Method, trials: int, rules: TrialRules, played: int) -> dict[str, int]:
        """Return the maximum calls that distil reflections: one per trial that a plan leaves after."""
        distils = self.reflections.has("hierarchical") or "reflection_distiller" in method.modules
        if not distils or "reflections" not in method.memories or rules.frozen:
            return {}
        kept = 0 if method.passed_on else self.reflections.most_kept
        return {"reflector": max(0, trials - max(played, kept))}

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


def make_plan(protocol: str, rules: TrialRules, arms: Sequence[Arm], budgets: dict[Variant, int], seed: int) -> Plan:
    """Plan every arm on every variant with one seed. `budgets` maps the variants, in order, to their steps."""
    units = [Unit(arm, variant, seed, budget) for variant, budget in budgets.items() for arm in arms]
    return Plan(protocol, rules, tuple(units))


def arrange_streams(plan: Plan) -> Plan:
    """Put the units of every arm that writes a constitution, or passes another memory on, into a stream.

    The seed draws the order, equal for all arms. Streams come last, because each unit waits for the previous one.
    """
    writing = [unit for unit in plan.units if unit.arm.method.is_in_stream]
    rest = tuple(unit for unit in plan.units if not unit.arm.method.is_in_stream)
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

    `say` receives a note on gold lengths that must be computed. Raises `UnknownName` and `SplitError`, and
    `UsageError` for variants that the user's data do not let play.
    """
    if not methods:
        raise UsageError("no method is named, so nothing would be played; name at least one, such as rsso")
    protocol = resolve_protocol(config)
    reflections = make_reflection_settings(config)
    passes = ("reflections",) if reflections.is_passed_on else ()
    arms = [
        Arm(_add_passed_on(get_method(name), passes), program)
        for name in dict.fromkeys(methods)
        for program in programs
    ]
    check_writers((arm.method for arm in arms), config)
    chosen = choose_variants(tasks, variants, per_task, config.simplification, config.benchmark_in_data)
    if missing := describe_missing_data(chosen, tasks, variants, per_task, config):
        say(missing)
    config.active_benchmark.check_data(chosen, config.environment.data)
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
        reflections=reflections,
        benchmark=config.benchmark,
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
            if arm.method.written
        ),
    )


def check_writers(methods: Iterable[Method], config: Config) -> None:
    """Raise `UsageError` if a method's writer of rules needs examples and there are none, and what `format_examples`
    raises."""
    book = config.memory.constitution
    examples = format_examples(Path(book.examples) if book.examples else None, config.active_benchmark.examples())
    for method in methods:
        require_examples(method.name, method.writing, examples, book.categories)


def _add_passed_on(row: Method, passes: Sequence[str]) -> Method:
    """Return the method with those of its memories that the configuration passes on from unit to unit."""
    more = tuple(name for name in passes if name in row.memories and name not in row.passed_on)
    return replace(row, passed_on=(*row.passed_on, *more)) if more else row


def _draw_episodes(
    task: str, config: Config, protocol: NamedProtocol, say: Callable[[str], None]
) -> dict[Variant, int]:
    """Return the task's training variants with their steps, in the order of each round."""
    wanted = config.protocol.train_per_task
    drawn = [
        config.active_benchmark.simplify(v, config.simplification)
        for v in config.benchmark_in_data.table.train_sample(task, wanted)
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
    unknown = [] if protocol.steps else [variant for variant in variants if not of.is_length_known(variant)]
    for number, variant in enumerate(unknown, start=1):
        say(f"computing the gold length of {variant.key} ({number}/{len(unknown)}), which is not in the shipped table")
        of.gold_length(variant)
    return {variant: protocol.find_budget(variant, of) for variant in variants}
