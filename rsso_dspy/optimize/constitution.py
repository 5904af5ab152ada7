"""Co-operative mode: a meta-advisor distils a constitution from calibration variants (OmniReflect, section 3.4)."""

import json
import threading
from collections.abc import Callable, Sequence
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

EXAMPLES, STRETCH = 3, 10
"""Maximum number of examples in a file, and steps of each."""


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
            if book.provenance.get("asked") == json.loads(json.dumps(self._describe_settings())):
                return book
        return None

    def make_stores(self) -> list[Store]:
        """One for each plan. Raises `RunMismatch` if they hold another build."""
        folder = self.out.with_name(f"{self.out.name}.run")
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
        carried = replace(NOTHING_CARRIED, experience=self.experience)
        usage: dict[str, Usage] = {}
        provenance = make_provenance(self.config)
        if unknown := list_unknown_sources(self.experience):
            provenance["source_unknown"] = ", ".join(unknown)
        records: list[UnitRecord] = []
        for plan, store in zip(self.plans, self.make_stores(), strict=True):
            played_in = live.runtime.environments
            pool = played_in if plan is self.plan else ExplorationPool(played_in)
            session = replace(live, runtime=replace(live.runtime, environments=pool))
            with store.lock():
                store.open(*self._identify(plan))
                void_downstream_units(plan, store)
                source = live.backend.replay and find_log_folder(live.backend.replay) / store.folder.name
                answers = Store(source, read_only=True) if source else None
                programs = make_zero_shot_programs(plan)
                player = UnitRunner(session, store, programs, provenance, carried, stream, answers, stop)
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
                episodes = list(store.units())
                records += sorted(episodes, key=get_stream_position)
                usage = add_usage(usage, *({role: spending} for role, spending in store.read_spending()))
                store.check_exists()
            learnt = {"constitution": records[-1].memories["constitution"]}
            played_variants = tuple(record.variant.key for record in records)
            carried = InitialMemories(learnt, variants=played_variants, experience=self.experience)
        extracted = extract_constitution(records)
        costs = {role: asdict(spending) for role, spending in sorted(usage.items())}
        about = {**extracted.provenance, "usage": costs, "asked": self._describe_settings()}
        if unknown:
            about["source_unknown"] = list(unknown)
        trajectories = [trajectory for record in episodes for trajectory in record.trajectories]
        examples = select_examples(trajectories, self.config.active_benchmark)
        book = replace(extracted, examples=examples, provenance=about)
        atomic_write_text(self.out, book.to_json(), folders=False)
        return book

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
        identity |= {"writer": plan.units[0].arm.name}
        identity |= {"calibration": [f"{unit.variant.key} {unit.place}" for unit in plan.units]}
        return identity, fingerprint_programs(make_zero_shot_programs(plan))


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
    if held_out := config.active_benchmark.select_held_out(variant.key for variant in variants):
        raise SplitError(f"a constitution must be built on training variants, but {', '.join(held_out)} are held out")
    check_output_path(out)
    folder = out.with_name(f"{out.name}.run")
    if folder.exists() and any(entry.name not in ("1", "2") for entry in folder.iterdir()):
        raise UsageError(f"{folder}, where the log of {out.name} is kept, holds foreign files: name another -o")
    lasting = tuple(name for name in config.memory.constitution.categories if name in LASTING)
    settings = config.memory.constitution.model_copy(update={"categories": lasting})
    config = config.model_copy(update={"memory": config.memory.model_copy(update={"constitution": settings})})
    protocol = resolve_protocol(config)
    arm = Arm(get_method(f"omnireflect-{writing}"))
    check_writers([arm.method], config)
    experience = check_for_learning(config, [arm.method])
    for source in experience:
        if source.unknown:
            say(source.describe_unknown())
    plans = []
    explored = _select_first_of_types(variants) if explore is None else variants[:explore]
    for group in filter(None, (explored, variants)):
        budgets = compute_step_budgets(protocol, group, say, config.active_benchmark)
        plan = make_plan(protocol.id, protocol.rules, [arm], budgets, config.seed)
        plans.append(arrange_streams(replace(plan, writings=protocol.constitution, stream_trials=1)))
    return ConstitutionBuild(config, tuple(plans), out, tuple(experience))


def _select_first_of_types(variants: Sequence[Variant]) -> list[Variant]:
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(variant.task, variant)
    return list(first.values())


def itemize_build_costs(book: ConstitutionFile, config: Config) -> list[CostEntry]:
    """The costs of building a constitution by role, those of abandoned episodes included."""
    models: dict[str, str] = dict(Backend(config.active_backend).models.items())
    price_of = make_price_lookup(config.prices)
    about = book.provenance
    usage = {role: Usage(**counts) for role, counts in about.get("usage", {}).items()}
    return [price_usage(str(about.get("writer", "")), role, models[role], usage[role], price_of) for role in usage]


def select_examples(trajectories: Sequence[Trajectory], of: Benchmark) -> tuple[str, ...]:
    """The stretches of play with the most rules drawn by patterns, from different tasks: the examples of neuro-symbolic
    writers (OmniReflect, section 2.1.3). A category without a rule is left out, lest a writer learn to write none."""
    best: dict[str, tuple[int, str]] = {}
    for trajectory in trajectories:
        for end in range(STRETCH, len(trajectory.steps) + 1, STRETCH):
            text, rules = _format_example(trajectory, end, of)
            if rules > best.get(trajectory.variant.task, (0, ""))[0]:
                best[trajectory.variant.task] = (rules, text)
    ranked = sorted(best.values(), key=lambda entry: -entry[0])
    texts = [text for _, text in ranked[:EXAMPLES]]
    drawn = tuple(
        category for category in CATEGORIES if any(f"{category.capitalize()} rules:\n- none" not in t for t in texts)
    )
    return tuple(select_category_examples(text, drawn).rstrip() for text in texts)


def _format_example(trajectory: Trajectory, end: int, of: Benchmark) -> tuple[str, int]:
    """The stretch of steps that ends here with its rules, and the number of kinds and rules."""
    states, steps = trajectory.states, trajectory.steps
    lessons: list[Lesson] = []
    for number in range(end - STRETCH + 1, end + 1):
        history = trajectory.task, states[: number + 1], steps[:number]
        lessons = [lesson for lesson in lessons if lesson.category != "progress"]
        lessons += [*of.hints.lessons(*history), *of.hints.facts(*history)]
    unique = list(dict.fromkeys(lessons))
    parts = [
        f"Task: {trajectory.task}",
        render_recent_steps(states[end - STRETCH : end + 1], steps[end - STRETCH : end]),
    ]
    for category in CATEGORIES:
        lines = [lesson.line for lesson in unique if lesson.category == category]
        parts.append("\n".join([f"{category.capitalize()} rules:", *(f"- {line}" for line in lines or ["none"])]))
    kinds = len({lesson.category for lesson in unique})
    return "\n".join(parts), 10 * kinds + len(unique)
