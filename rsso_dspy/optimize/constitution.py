"""Co-operative mode: a meta-advisor distils a constitution from calibration variants (OmniReflect, section 3.4)."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rsso_dspy.calls import find_log_folder
from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.wrappers import ExplorationPool
from rsso_dspy.errors import LimitReached, RssoError, SplitError, Stopped, UsageError
from rsso_dspy.executor import (
    EventStream,
    Executor,
    SpendLimit,
    UnitRunner,
    fingerprint_programs,
    list_pending_jobs,
    make_zero_shot_programs,
    open_spend_limit,
    void_downstream_units,
)
from rsso_dspy.experience import Experience, check_for_learning, list_unknown_sources
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.lm import Backend
from rsso_dspy.memory.constitution import CATEGORIES, LASTING, select_category_examples
from rsso_dspy.memory.formats import ConstitutionFile, read_constitution
from rsso_dspy.memory_files import NOTHING_CARRIED, InitialMemories, extract_constitution, get_stream_position
from rsso_dspy.plan import Plan, arrange_streams, check_writers, compute_step_budgets, make_plan
from rsso_dspy.pricing import CostEntry, make_price_lookup, price_usage
from rsso_dspy.programs.methods import Writing, get_method
from rsso_dspy.programs.render import render_recent_steps
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.records import Lesson, Trajectory, UnitRecord, Usage, Variant, add_usage
from rsso_dspy.sessions import Session
from rsso_dspy.store.run_folder import Arm, Store

EXAMPLES = 3  # maximum number of examples in a file
STRETCH = 10  # steps of each


@dataclass(frozen=True)
class ConstitutionBuild:
    """A constitution being distilled. Episodes are logged in ``FILE.run/``, so a repeated command resumes."""

    config: Config
    plans: tuple[Plan, ...]  # of the exploration episodes without a task, if there are any, and of the variants
    out: Path
    experience: tuple[Experience, ...] = ()  # what its writer reads beside what it plays

    @property
    def plan(self) -> Plan:
        return self.plans[-1]

    def load_finished(self) -> ConstitutionFile | None:
        """What this very build wrote into its file before."""
        with suppress(UsageError):
            book = read_constitution(self.out)
            settings = json.loads(json.dumps(self._describe_settings()))
            if book.provenance.get("asked") == settings:
                return book
        return None

    def make_stores(self) -> list[Store]:
        """One for each plan. Raises `RunMismatch` if they hold another build."""
        folder = _name_log_folder(self.out)
        stores = [Store(folder / str(number), option="-o") for number in range(1, len(self.plans) + 1)]
        for store, plan in zip(stores, self.plans, strict=True):
            store.check_identity(*self._identify(plan))
        return stores

    def make_spend_limit(self, max_cost: float | None = None, max_tokens: int | None = None) -> SpendLimit:
        return open_spend_limit(self.config, self.plans, self.make_stores(), max_cost, max_tokens)

    def run(self, live: Session, purse: SpendLimit, events: EventStream | None = None) -> ConstitutionFile:
        """Play pending episodes and write the file. Raises `RssoError` if one errored, and as `Executor.run` does."""
        stream = events or EventStream()
        stop = threading.Event()
        purse.follow(stream, stop)

        provenance = make_provenance(self.config)
        unknown = list_unknown_sources(self.experience)
        if unknown:
            provenance["source_unknown"] = ", ".join(unknown)

        carried = replace(NOTHING_CARRIED, experience=self.experience)
        records: list[UnitRecord] = []  # of all plans
        usage: dict[str, Usage] = {}
        for plan, store in zip(self.plans, self.make_stores(), strict=True):
            session = self._prepare_session(live, plan)
            with store.lock():
                store.open(*self._identify(plan))
                void_downstream_units(plan, store)

                answers = _open_replayed_log(live, store)
                programs = make_zero_shot_programs(plan)
                player = UnitRunner(session, store, programs, provenance, carried, stream, answers, stop)
                _play_pending(plan, store, player, purse)

                episodes = list(store.units())
                records += sorted(episodes, key=get_stream_position)
                for role, spending in store.read_spending():
                    usage = add_usage(usage, {role: spending})
                store.check_exists()

            learnt = {"constitution": records[-1].memories["constitution"]}
            played_variants = tuple(record.variant.key for record in records)
            carried = InitialMemories(learnt, variants=played_variants, experience=self.experience)

        book = self._make_file(records, episodes, usage, unknown)
        atomic_write_text(self.out, book.to_json(), folders=False)
        return book

    def _prepare_session(self, live: Session, plan: Plan) -> Session:
        """The session for a plan: episodes ahead of the last plan's are played without a task."""
        pool = live.runtime.environments
        if plan is not self.plan:
            pool = ExplorationPool(pool)
        return replace(live, runtime=replace(live.runtime, environments=pool))

    def _make_file(
        self,
        records: Sequence[UnitRecord],
        episodes: Sequence[UnitRecord],
        usage: Mapping[str, Usage],
        unknown: Sequence[str],
    ) -> ConstitutionFile:
        """The file that all `records` make, with examples from the last plan's `episodes`."""
        book = extract_constitution(records)
        costs = {role: asdict(spending) for role, spending in sorted(usage.items())}
        provenance = {**book.provenance, "usage": costs, "asked": self._describe_settings()}
        if unknown:
            provenance["source_unknown"] = list(unknown)

        trajectories = [trajectory for record in episodes for trajectory in record.trajectories]
        examples = select_examples(trajectories, self.config.active_benchmark)
        return replace(book, examples=examples, provenance=provenance)

    def _describe_settings(self) -> dict[str, Any]:
        return {
            "writer": self.plan.units[0].arm.name,
            "calibration": sorted(unit.variant.key for unit in self.plan.units),
            "explore": sum(len(plan.units) for plan in self.plans[:-1]),
            "config": self.config.resolve_settings(),
        }

    def _identify(self, plan: Plan) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the identity of a plan's folder, and its arm with the fingerprint of its program."""
        identity = make_run_identity(self.config, resolve_protocol(self.config))
        identity["writer"] = plan.units[0].arm.name
        identity["calibration"] = [f"{unit.variant.key} {unit.place}" for unit in plan.units]
        return identity, fingerprint_programs(make_zero_shot_programs(plan))


def _name_log_folder(out: Path) -> Path:
    """Where the episodes of a build that writes this file are logged."""
    return out.with_name(f"{out.name}.run")


def _open_replayed_log(live: Session, store: Store) -> Store | None:
    """The log that answers in place of the models, if one is replayed."""
    if not live.backend.replay:
        return None
    folder = find_log_folder(live.backend.replay)
    return Store(folder / store.folder.name, read_only=True)


def _play_pending(plan: Plan, store: Store, player: UnitRunner, purse: SpendLimit) -> None:
    try:
        outcome = Executor(player).run(plan, list_pending_jobs(plan, store), jobs=1)
    except Stopped:
        raise LimitReached(f"stopped: {purse.exceeded_limit}. Finished episodes are kept.") from None
    if outcome.errored:
        failed = outcome.errored[0]
        raise RssoError(
            f"{failed.key} ended in an error ({failed.trials[-1].failure}); fix the cause and repeat the "
            "command: finished episodes are kept"
        )


def plan_constitution_build(
    config: Config,
    variants: Sequence[Variant],
    writing: Writing,
    out: Path,
    explore: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> ConstitutionBuild:
    """Plan a constitution from these variants, each played once in an order drawn by the seed; before that, the first
    `explore` of them without a task, or the first of each task type (OmniReflect, section 2.2.1: the environment is
    explored broadly). Raises `SplitError` for held-out variants."""
    held_out = config.active_benchmark.select_held_out(variant.key for variant in variants)
    if held_out:
        raise SplitError(f"a constitution must be built on training variants, but {', '.join(held_out)} are held out")
    _check_file(out)

    config = _keep_lasting_categories(config)
    protocol = resolve_protocol(config)
    arm = Arm(get_method(f"omnireflect-{writing}"))
    check_writers([arm.method], config)

    experience = check_for_learning(config, [arm.method])
    for source in experience:
        if source.unknown:
            say(source.describe_unknown())

    explored: Sequence[Variant]
    if explore is None:
        explored = _select_first_of_types(variants)
    else:
        explored = variants[:explore]
    plans = []
    for group in (explored, variants):
        if not group:
            continue
        budgets = compute_step_budgets(protocol, group, say, config.active_benchmark)
        plan = make_plan(protocol.id, protocol.rules, [arm], budgets, config.seed)
        plan = replace(plan, writings=protocol.constitution, stream_trials=1)
        plans.append(arrange_streams(plan))
    return ConstitutionBuild(config, tuple(plans), out, tuple(experience))


def _check_file(out: Path) -> None:
    """Raise where the file, or the log beside it, cannot be written."""
    check_output_path(out)
    folder = _name_log_folder(out)
    if folder.exists() and any(entry.name not in ("1", "2") for entry in folder.iterdir()):
        raise UsageError(f"{folder}, where the log of {out.name} is kept, holds foreign files: name another -o")


def _keep_lasting_categories(config: Config) -> Config:
    """The configuration with only those categories of rules that outlast an episode."""
    lasting = tuple(name for name in config.memory.constitution.categories if name in LASTING)
    constitution = config.memory.constitution.model_copy(update={"categories": lasting})
    memory = config.memory.model_copy(update={"constitution": constitution})
    return config.model_copy(update={"memory": memory})


def _select_first_of_types(variants: Sequence[Variant]) -> list[Variant]:
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(variant.task, variant)
    return list(first.values())


def itemize_build_costs(book: ConstitutionFile, config: Config) -> list[CostEntry]:
    """The costs of building a constitution by role, those of abandoned episodes included."""
    models: dict[str, str] = dict(Backend(config.active_backend).models.items())
    price_of = make_price_lookup(config.prices)
    writer = str(book.provenance.get("writer", ""))
    usage = {role: Usage(**counts) for role, counts in book.provenance.get("usage", {}).items()}
    return [price_usage(writer, role, models[role], spending, price_of) for role, spending in usage.items()]


@dataclass(frozen=True)
class _Example:
    """A stretch of play with its rules, as text."""

    text: str
    weight: int  # by the number of kinds of its rules, then of its rules


def select_examples(trajectories: Sequence[Trajectory], of: Benchmark) -> tuple[str, ...]:
    """The stretches of play with the most rules drawn by patterns, from different tasks: the examples of neuro-symbolic
    writers (OmniReflect, section 2.1.3). A category without a rule is left out, lest a writer learn to write none."""
    best: dict[str, _Example] = {}  # by task
    for trajectory in trajectories:
        task = trajectory.variant.task
        for end in range(STRETCH, len(trajectory.steps) + 1, STRETCH):
            example = _make_example(trajectory, end, of)
            weight_to_beat = best[task].weight if task in best else 0
            if example.weight > weight_to_beat:
                best[task] = example

    ranked = sorted(best.values(), key=lambda example: -example.weight)
    texts = [example.text for example in ranked[:EXAMPLES]]
    drawn = tuple(category for category in CATEGORIES if _holds_rule(texts, category))
    return tuple(select_category_examples(text, drawn).rstrip() for text in texts)


def _holds_rule(texts: Sequence[str], category: str) -> bool:
    no_rule = f"{_name_category(category)}\n- none"
    return any(no_rule not in text for text in texts)


def _make_example(trajectory: Trajectory, end: int, of: Benchmark) -> _Example:
    """The stretch of steps that ends here."""
    lessons = _draw_lessons(trajectory, end, of)
    states = trajectory.states[end - STRETCH : end + 1]
    steps = trajectory.steps[end - STRETCH : end]

    lines = [f"Task: {trajectory.task}", render_recent_steps(states, steps)]
    for category in CATEGORIES:
        lines.append(_name_category(category))
        rules = [lesson.line for lesson in lessons if lesson.category == category]
        lines += [f"- {rule}" for rule in rules or ["none"]]

    kinds = {lesson.category for lesson in lessons}
    return _Example("\n".join(lines), weight=10 * len(kinds) + len(lessons))


def _draw_lessons(trajectory: Trajectory, end: int, of: Benchmark) -> list[Lesson]:
    """The lessons of the stretch of steps that ends here, each once; of progress only the newest."""
    all_states = trajectory.states
    lessons: list[Lesson] = []
    for number in range(end - STRETCH + 1, end + 1):
        states = all_states[: number + 1]
        steps = trajectory.steps[:number]
        lessons = [lesson for lesson in lessons if lesson.category != "progress"]
        lessons += of.hints.lessons(trajectory.task, states, steps)
        lessons += of.hints.facts(trajectory.task, states, steps)
    return list(dict.fromkeys(lessons))


def _name_category(category: str) -> str:
    return f"{category.capitalize()} rules:"
