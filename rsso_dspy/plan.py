"""The plan of a run: which variants are played by which arms, in which order and shards, with how many steps; and what
it costs at most."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random

from rsso_dspy.config import EMBEDDED, Config
from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.memory.constitution import ConstitutionSettings, require_examples
from rsso_dspy.memory.formats import format_examples
from rsso_dspy.memory.reflections import ASKING_MORE, ReflectionSettings
from rsso_dspy.power import (
    ASSUMED,
    MARGIN,
    TO_FIND,
    Design,
    Spread,
    forecast_detectable_difference,
    list_larger_designs,
)
from rsso_dspy.pricing import PriceOf, compute_cost, format_dollars, format_tokens, sum_amounts
from rsso_dspy.programs.methods import Method, get_method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import NamedProtocol, make_reflection_settings, names_own_examples, resolve_protocol
from rsso_dspy.records import ZERO_SHOT, Announcement, Usage, Variant
from rsso_dspy.rounds import announce_rounds
from rsso_dspy.sign_flips import count_needed_differences
from rsso_dspy.store.commands import Shard
from rsso_dspy.store.run_folder import Arm, Job, Training, Unit


@dataclass(frozen=True)
class Plan:
    """All units of a run in order: variant by variant, so that an interrupted run can still be compared."""

    protocol: str
    rules: TrialRules
    units: tuple[Unit, ...]
    trainings: tuple[Training, ...] = ()
    carried: int = 0  # number of states in every unit's skill memory at its start
    writings: ConstitutionSettings = field(default_factory=ConstitutionSettings)  # when constitutions are written
    stream_trials: int = 1  # trials of a unit in a stream
    alone: bool = False  # whether a single trial can make skills
    reflections: ReflectionSettings = field(default_factory=ReflectionSettings)  # settings of the reflection memory
    shares_answers: bool = False  # whether arms take answers from the first arm of their variant
    announced: Announcement | None = None  # rounds, in whose order the units are played

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(unit.arm.name for unit in self.units))

    @property
    def variants(self) -> list[Variant]:
        """The held-out variants, each once."""
        return list(dict.fromkeys(unit.variant for unit in self.units))

    @cached_property
    def streams(self) -> dict[Arm, tuple[Unit, ...]]:
        """Units in order, each starting from the lasting memories of the previous one (OmniReflect)."""
        streams: dict[Arm, list[Unit]] = {}
        for unit in self.units:
            if unit.place:
                streams.setdefault(unit.arm, []).append(unit)
        return {arm: tuple(units) for arm, units in streams.items()}

    @cached_property
    def previous_units(self) -> dict[Unit, Unit]:
        """Unit to the one of its stream that must be finished before."""
        previous_units = {}
        for units in self.streams.values():
            for previous, unit in pairwise(units):
                previous_units[unit] = previous
        return previous_units

    @cached_property
    def _first_units(self) -> dict[tuple[Variant, int], Unit]:
        first_units: dict[tuple[Variant, int], Unit] = {}
        for unit in self.units:
            if not unit.place:
                first_units.setdefault((unit.variant, unit.seed), unit)
        return first_units

    def get_first_unit(self, unit: Unit) -> Unit | None:
        """Return the unit whose answers this one shares, and which must be finished before it."""
        if not self.shares_answers or unit.place:
            return None
        first = self._first_units.get((unit.variant, unit.seed))
        return None if first == unit else first

    def select_round(self, number: int) -> "Plan":
        """Return the plan of one round."""
        assert self.announced is not None
        keys = set(self.announced.variants[number - 1])
        units = tuple(unit for unit in self.units if unit.variant.key in keys)
        return replace(self, units=units)

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
        key = (unit.arm, unit.variant.task, unit.seed)
        for training in self.trainings:
            if (training.arm, training.task, training.seed) == key:
                return training
        return None


def make_plan(protocol: str, rules: TrialRules, arms: Sequence[Arm], budgets: dict[Variant, int], seed: int) -> Plan:
    """Plan every arm on every variant with one seed. `budgets` maps the variants, in order, to their steps."""
    units = []
    for variant, budget in budgets.items():
        for arm in arms:
            units.append(Unit(arm, variant, seed, budget))
    return Plan(protocol, rules, tuple(units))


def arrange_rounds(plan: Plan, rounds: int, margin: float) -> Plan:
    """Put the units into rounds, each a variant of every task type. Raises `UsageError` where that is impossible."""
    announced = announce_rounds(plan.units, rounds, plan.protocol, margin)
    round_of = announced.round_of

    units = [unit for unit in plan.units if unit.variant.key in round_of]
    units.sort(key=lambda unit: round_of[unit.variant.key])
    return replace(plan, units=tuple(units), announced=announced)


def arrange_streams(plan: Plan) -> Plan:
    """Put the units of every arm that passes a memory on into a stream, in an order that the seed draws, equal for all
    arms. Streams come last, because each unit waits for the previous one."""
    rest = []
    units_by_arm: dict[Arm, list[Unit]] = {}
    for unit in plan.units:
        if unit.arm.method.is_in_stream:
            units_by_arm.setdefault(unit.arm, []).append(unit)
        else:
            rest.append(unit)

    streams: list[Unit] = []
    for units in units_by_arm.values():
        Random(f"stream {units[0].seed}").shuffle(units)
        order = _hash_order(units)
        for number, unit in enumerate(units, start=1):
            streams.append(replace(unit, place=f"{number}/{len(units)} of {order}"))
    return replace(plan, units=(*rest, *streams))


def _hash_order(units: Iterable[Unit]) -> str:
    keys = "\n".join(unit.variant.key for unit in units)
    return hashlib.sha256(keys.encode()).hexdigest()[:6]


def plan_held_out(
    config: Config,
    methods: Sequence[str],
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] = (),
    per_task: int | None = None,
    programs: Sequence[str] = (ZERO_SHOT,),
    say: Callable[[str], None] = lambda _: None,
    rounds: int | None = None,
    margin: float = MARGIN,
    constitutions: Sequence[str] = (),
) -> Plan:
    """Plan a held-out run: each method with every program on the selected variants, under the configured protocol; in
    rounds, if a number of these is given, which answer for gains of `margin` points. A method with a constitution is
    played with each of `constitutions`, given by their names; without names it has one arm."""
    if not methods:
        raise UsageError("no method is named, so nothing would be played; name at least one, such as rsso")
    protocol = resolve_protocol(config)
    reflections = make_reflection_settings(config)

    rows = [get_method(name) for name in dict.fromkeys(methods)]
    if reflections.is_passed_on:
        rows = [_pass_reflections_on(row) for row in rows]
    arms: list[Arm] = []
    for row in rows:
        for program in programs:
            arms += _list_arms(row, program, constitutions)
    check_names(arms)
    check_writers((arm.method for arm in arms), config)
    if zero_shot := describe_zero_shot_reflector(rows, reflections, config):
        say(zero_shot)

    held_out = choose_variants(tasks, variants, per_task, config.simplification, config.benchmark_in_data)
    if not any("::" in text for text in variants):
        all_variants = choose_variants(tasks, variants, per_task, of=config.active_benchmark)
        if missing := describe_missing_data(held_out, all_variants, config):
            say(missing)
    config.active_benchmark.check_data(held_out, config.environment.data)
    budgets = compute_step_budgets(protocol, held_out, say, config.active_benchmark)

    plan = replace(
        make_plan(protocol.id, protocol.rules, arms, budgets, config.seed),
        writings=protocol.constitution,
        stream_trials=config.protocol.stream_trials,
        alone=protocol.skills.pairs == "any",
        reflections=reflections,
        shares_answers=config.shared_answers,
    )
    if rounds is not None:
        plan = arrange_rounds(plan, rounds, margin)
    if config.protocol.setting != "transfer":
        return arrange_streams(plan)

    trainings: list[Training] = []
    for task in dict.fromkeys(variant.task for variant in held_out):
        budgets_of_round = _draw_episodes(task, config, protocol, say)
        episodes = tuple(budgets_of_round) * config.protocol.train_trials
        steps = tuple(budgets_of_round.values()) * config.protocol.train_trials
        for arm in arms:
            if arm.method.written:
                trainings.append(Training(arm, task, config.seed, episodes, steps))
    return replace(plan, trainings=tuple(trainings))


def _pass_reflections_on(method: Method) -> Method:
    if "reflections" not in method.memories:
        return method
    return replace(method, passed_on=(*method.passed_on, "reflections"))


def _list_arms(method: Method, program: str, constitutions: Sequence[str]) -> list[Arm]:
    if "constitution" in method.memories and constitutions:
        return [Arm(method, program, name) for name in constitutions]
    return [Arm(method, program)]


def check_names(arms: Sequence[Arm]) -> None:
    """Raise `UsageError` if two arms have one name, and so one folder."""
    names = Counter(arm.name for arm in arms)
    for name, count in names.items():
        if count > 1:
            raise UsageError(f"two arms would be called {name}: rename the compiled file, or the constitution")


def check_writers(methods: Iterable[Method], config: Config) -> None:
    """Raise `UsageError` if a method's writer of rules needs examples and there are none for one of its calls."""
    file = config.memory.constitution.examples
    path = Path(file) if file else None
    settings = resolve_protocol(config).constitution
    examples = format_examples(path, config.active_benchmark.hints.examples())
    for method in methods:
        require_examples(method.name, method.writing, examples, settings.categories, settings.prompts)


def _draw_episodes(
    task: str, config: Config, protocol: NamedProtocol, say: Callable[[str], None]
) -> dict[Variant, int]:
    """Return the task's training variants with their steps, in the order of each round."""
    count = config.protocol.train_per_task
    of = config.active_benchmark
    sample = config.benchmark_in_data.tasks.train_sample(task, count)
    drawn = [of.simplify(variant, config.simplification) for variant in sample]
    if len(drawn) < count:
        say(f"{task} has {len(drawn)} training variants, fewer than the requested {count}: all of them are played")
    return compute_step_budgets(protocol, drawn, say, of)


def compute_step_budgets(
    protocol: NamedProtocol, variants: Sequence[Variant], say: Callable[[str], None], of: Benchmark
) -> dict[Variant, int]:
    """Return the step budget of each variant. Unknown gold lengths are computed, which takes minutes; `say` is told."""
    unknown: list[Variant] = []
    if not protocol.steps:
        unknown = [variant for variant in variants if not of.budget.is_known(variant)]
    for number, variant in enumerate(unknown, start=1):
        say(f"computing the gold length of {variant.key} ({number}/{len(unknown)}), which is not in the shipped table")
        of.budget.gold_length(variant)
    return {variant: protocol.find_budget(variant, of) for variant in variants}


def choose_variants(
    names: Sequence[str] | None,
    variants: Sequence[str],
    per_task: int | None = None,
    simplification: str | None = None,
    of: Benchmark | None = None,
) -> list[Variant]:
    """Return held-out variants of the tasks (default: all), task by task, at most `per_task` of each. `variants` is one
    named selection (such as ``first``) or a list of ``task::index``, `of` the benchmark (default: the built-in one).
    Raises `UnknownName` for a task, `SplitError` for a variant that is not held out."""
    of = of or get_benchmark()
    table = of.tasks
    variants = variants or table.selections[:1]
    if len(variants) == 1 and variants[0] in table.selections:
        limit = SAMPLE_SIZE if per_task is None else per_task
        selected: list[Variant] = []
        for task in names or table.names():
            selected += table.held_out(task, variants[0], limit)
    else:
        selected = _choose_listed(names, variants, per_task, of)

    if simplification is None:
        return selected
    return [of.simplify(variant, simplification) for variant in selected]


def _choose_listed(
    names: Sequence[str] | None, texts: Sequence[str], per_task: int | None, of: Benchmark
) -> list[Variant]:
    """Return the variants of a list of ``task::index``, task by task."""
    table = of.tasks
    for text in texts:
        if "::" not in text:
            hint = f"Or list variants, such as {table.example}."
            raise UnknownName("selection or variant", text, table.selections, hint)

    variants = [table.parse(text, table.played_split) for text in texts]
    if names is not None:
        stray = [variant.key for variant in variants if variant.task not in names]
        if stray:
            raise UsageError(f"{', '.join(stray)} is not a variant of the tasks in --tasks")

    by_task: dict[str, list[Variant]] = {}
    for variant in variants:
        by_task.setdefault(variant.task, []).append(variant)
    selected: list[Variant] = []
    for of_task in by_task.values():
        selected += of_task[:per_task]
    return selected


def describe_zero_shot_reflector(methods: Iterable[Method], settings: ReflectionSettings, config: Config) -> str:
    """Say why a reflector that would be shown the benchmark's own examples is shown none; an empty text if it is not
    asked, or has examples, or is to have none."""
    is_asked = any("reflections" in method.memories for method in methods)
    if not is_asked or settings.examples:
        return ""
    if names_own_examples(config) and not settings.own_examples:
        return f"{config.benchmark} comes with no examples for the reflector, which is zero-shot"

    extended = sorted(settings.improvements & ASKING_MORE)
    if settings.own_examples and extended:
        return f"the reflector is zero-shot: its examples lack what {', '.join(extended)} asks for"
    return ""


def describe_missing_data(chosen: Sequence[Variant], wanted: Sequence[Variant], config: Config) -> str:
    """Say what the user's data folder does not hold, and which of its files are not played. Raises `UsageError` if it
    holds nothing selected."""
    split = config.benchmark_in_data.tasks.played_split
    folder = config.active_benchmark.locate_data(config.environment.data)
    skipped = config.active_benchmark.describe_skipped_data(config.environment.data)
    missing = len(wanted) - len(chosen)

    notes = []
    if not chosen and wanted:
        notes.append(f"none of the selected variants can be played: {folder} holds none of them")
    elif split != "test":
        notes.append(f"{folder} holds no test set: {len(chosen)} variants of {split} are played instead")
    elif missing:
        notes.append(f"{missing} of {len(wanted)} selected variants are left out: {folder} does not hold them")
    if skipped:
        notes.append(skipped)

    if not chosen and wanted:
        raise UsageError("; ".join(notes))
    return "; ".join(notes)


def select_shard(plan: Plan, shard: Shard | None) -> Plan:
    if shard is None:
        return plan

    groups: dict[str, list[Unit]] = {}
    for unit in plan.units:
        groups.setdefault(_name_group(plan, unit), []).append(unit)
    shard_units: set[Unit] = set()
    for group in list(groups.values())[shard.number - 1 :: shard.of]:
        shard_units.update(group)
    if not shard_units:
        raise UsageError(f"shard {shard} is empty: this run has at most {len(groups)} parts")

    needed = {plan.get_training(unit) for unit in shard_units}
    units = tuple(unit for unit in plan.units if unit in shard_units)
    trainings = tuple(training for training in plan.trainings if training in needed)
    return replace(plan, units=units, trainings=trainings)


def _name_group(plan: Plan, unit: Unit) -> str:
    """Return the name of the units that belong into one shard with this one."""
    if unit.place:
        return unit.arm.name
    return unit.variant.task if plan.trainings else unit.variant.key


# What it costs at most.

TOKENS_PER_CALL: Mapping[str, tuple[int, int]] = {
    "actor": (4500, 80), "reflector": (3270, 110), "verbalizer": (500, 20), "advisor": (2170, 30),
    "proposer": (4000, 250),
}  # fmt: skip
"""Role to input and output tokens of an average call: means of 90 units of the offline player on the default benchmark
(react, reflexion, sso, rsso and omnireflect-neural, a variant of each task type, protocol adapt/4-cap60). Those of the
proposer are assumed."""

SECONDS_PER_CALL = 3.0  # assumed: a small model on two cores took 1.4 s an answer to short prompts, 5 s to long ones
LARGE_DOLLARS, LARGE_TOKENS, LARGE_HOURS = 10.0, 1_000_000, 10.0  # what nobody starts by mistake costs at most

TEACHING = "teacher-"  # ahead of a role that a teacher plays in a compile, in its account


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper bound of calls and estimate of tokens, per role."""

    calls: dict[str, int]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of a call, where not `TOKENS_PER_CALL`

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens if every call were made and of average size."""
        usages = self.usage.values()
        input_tokens = sum(usage.input for usage in usages)
        output_tokens = sum(usage.output for usage in usages)
        return input_tokens, output_tokens

    @property
    def usage(self) -> dict[str, Usage]:
        call_sizes = {**TOKENS_PER_CALL, **self.sizes}
        usage = {}
        for role, count in self.calls.items():
            input_size, output_size = call_sizes[role.removeprefix(TEACHING)]
            usage[role] = Usage(count, count * input_size, count * output_size)
        return usage


def forecast_calls(plan: Plan, work: Sequence[Job] | None = None, played: Mapping[str, int] | None = None) -> Forecast:
    """Return the maximum cost of trainings and units, if every answer can be read. `played`: finished trials by key."""
    calls = Counter[str](actor=0, reflector=0, verbalizer=0)
    played = played or {}
    jobs: Sequence[Job] = [*plan.trainings, *plan.units] if work is None else work

    for job in jobs:
        rules, budgets, known_states = _describe_trials(plan, job)
        finished = played.get(job.key, 0)
        calls.update(_count_trial_calls(plan, job.arm.method, budgets, rules, known_states, finished))
        calls.update(_count_distillations(plan, job.arm.method, len(budgets), rules, finished))
    calls.update(_count_advisor_calls(plan, jobs, played))
    return Forecast({role: count for role, count in calls.items() if count})


def _describe_trials(plan: Plan, job: Job) -> tuple[TrialRules, tuple[int, ...], int]:
    """Return rules and steps of a job's trials, and the states that its skill memory knows at its start."""
    if isinstance(job, Training):
        return plan.training_rules, job.budgets, plan.carried

    rules = plan.get_rules(job)
    training = plan.get_training(job)
    if training:
        known_states = sum(training.budgets) + len(training.budgets)
    else:
        known_states = plan.carried
    return rules, (job.budget,) * rules.trials, known_states


def _count_trial_calls(
    plan: Plan, method: Method, budgets: Sequence[int], rules: TrialRules, known: int, played: int
) -> dict[str, int]:
    """Return the maximum calls per role of serial trials with these steps."""
    unsolved_trials = _count_learning_trials(rules, len(budgets))
    solved_trials = unsolved_trials
    if rules.learn_after_success and not rules.frozen:
        solved_trials = len(budgets)

    calls: Counter[str] = Counter(actor=sum(budgets[played:]))
    states = [steps + 1 for steps in budgets]
    if known:
        states.insert(0, known)
    for memory in map(load_memory, method.memories):
        lasts = memory.region in rules.lasting and not rules.frozen
        learns_from_success = memory.learns_from_success or plan.reflections.writes_after_success
        if lasts:
            trials = len(budgets)
        elif learns_from_success:
            trials = solved_trials
        else:
            trials = unsolved_trials

        for trial in range(played + 1, trials + 1):
            calls.update(memory.most_calls(states[: trial + bool(known)], plan.alone))
    return dict(calls)


def _count_learning_trials(rules: TrialRules, trials: int) -> int:
    """Return after how many unsolved trials the memories are updated."""
    if rules.frozen:
        return 0
    return trials if rules.learn_after_last else trials - 1


def _count_distillations(plan: Plan, method: Method, trials: int, rules: TrialRules, played: int) -> dict[str, int]:
    """Return the maximum calls that distil reflections: one per trial that a plan leaves after."""
    distils = plan.reflections.has("hierarchical") or "reflection_distiller" in method.modules
    if not distils or "reflections" not in method.memories or rules.frozen:
        return {}
    most_kept = 0 if method.passed_on else plan.reflections.most_kept
    return {"reflector": max(0, trials - max(played, most_kept))}


def _count_advisor_calls(plan: Plan, work: Sequence[Job], played: Mapping[str, int]) -> dict[str, int]:
    """Return the maximum calls of rule writer and summarizer, without summaries triggered by bounds."""
    writings = 0
    episodes_by_book = Counter[str]()
    for job in work:
        if job.arm.method.writing not in ("neural", "neuro-symbolic"):
            continue
        rules, budgets, _ = _describe_trials(plan, job)
        if rules.frozen:
            continue

        for budget in budgets[played.get(job.key, 0) :]:
            writings += plan.writings.count_writings(budget)
        in_stream = isinstance(job, Unit) and job.place
        book = job.arm.name if in_stream else job.key
        episodes_by_book[book] += len(budgets) if isinstance(job, Training) else 1

    if not writings or not plan.writings.categories:
        return {}
    summaries = sum(plan.writings.count_summaries(episodes) for episodes in episodes_by_book.values())
    return {"advisor": writings + summaries}


def price_forecast(forecast: Forecast, models: Mapping[str, str], price_of: PriceOf) -> float | None:
    """Return the dollars of a forecast without a cache; None if the price of a role's model is unknown."""
    amounts = []
    for role, usage in forecast.usage.items():
        price = price_of(models[role])
        amounts.append(compute_cost(usage, price) if price else None)
    return sum_amounts(amounts)


def forecast_hours(forecast: Forecast, models: Mapping[str, str], jobs: int) -> float:
    """Return the hours that the models of a forecast take at `SECONDS_PER_CALL` an answer; the embedded player none."""
    calls = _select_asked(forecast, models).total_calls
    return calls * SECONDS_PER_CALL / jobs / 3600


def _select_asked(forecast: Forecast, models: Mapping[str, str]) -> Forecast:
    """Return the calls of language models."""
    calls = {role: count for role, count in forecast.calls.items() if models[role] != EMBEDDED}
    return replace(forecast, calls=calls)


def describe_detectable(plan: Plan, spread: Spread = ASSUMED, like: str = "") -> str:
    """Say which difference between two arms a plan can find, and what it takes to find 10 and 5 points; an empty text
    where it has one arm. `like` names the run that `spread` is of; without it, it is assumed."""
    arms = {unit.arm for unit in plan.units}
    if len(arms) < 2:
        return ""

    task_types = len({unit.variant.task for unit in plan.units})
    needed = count_needed_differences()
    if task_types < needed:
        return (
            f"{task_types} of the {needed} task types or more that it takes to tell a difference on other "
            "task types from chance: add tasks"
        )

    variants_per_type = max(1, round(len(plan.variants) / task_types))
    design = Design(task_types, variants_per_type)
    points = forecast_detectable_difference(design, spread)

    assumption = f"units of equal arms differ by {spread.units:.0f} points, as a small model's do"
    if like:
        assumption = f"differences vary as in {like}: by {spread.units:.0f} points within task types"
        if spread.types:
            assumption += f", and by {spread.types:.0f} more between them"
    notes = [f"finds a difference of {points:.0f} points or more in four of five such runs, if {assumption}"]
    notes += _describe_larger_designs(design, spread, points)
    return "; ".join(notes)


def _describe_larger_designs(design: Design, spread: Spread, found: float) -> Iterator[str]:
    """Yield what it takes to find differences that a run does not find."""
    smaller = [points for points in TO_FIND if points < found]
    for points in smaller:
        sizes = [_describe_size(larger) for larger in list_larger_designs(design, spread, points)]
        if sizes:
            yield f"{points:g} points take {' or '.join(sizes)}"


def _describe_size(larger: Design) -> str:
    if larger.more == "variants":
        return f"{larger.variants} variants a type"
    number = {"task types": larger.task_types, "seeds": larger.seeds}[larger.more]
    return f"{number} {larger.more}"


def list_large_costs(forecast: Forecast, models: Mapping[str, str], price_of: PriceOf, jobs: int) -> list[str]:
    """Return the dollars, tokens and hours of a forecast that are large. The embedded player costs nothing."""
    model_forecast = _select_asked(forecast, models)
    dollars = price_forecast(model_forecast, models, price_of) or 0.0
    tokens = sum(model_forecast.tokens)
    hours = forecast_hours(forecast, models, jobs)

    costs = []
    if dollars > LARGE_DOLLARS:
        costs.append(format_dollars(dollars))
    if tokens > LARGE_TOKENS:
        costs.append(f"{format_tokens(tokens)} tokens")
    if hours > LARGE_HOURS:
        costs.append(f"{hours:,.0f} hours at {SECONDS_PER_CALL:g} seconds an answer")
    return costs
