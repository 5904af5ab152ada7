"""A held-out run, from its spec to its outcome.

run = plan_run(config, RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x")))
run.left, run.plan.forecast_calls(run.left)           # nothing is changed yet
with session(config, jobs=2) as live:
    run.execute(live, 2)
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config, make_price_lookup
from rsso_dspy.errors import LimitReached, Stopped
from rsso_dspy.experiment.constitutions import check_examples, check_streams, load_initial_constitution
from rsso_dspy.experiment.cost_estimate import (
    CostEstimate,
    estimate_cost,
    load_observed_units,
)
from rsso_dspy.experiment.events import Event, EventStream, RunLimited, RunStarted, SimulatorsStarting
from rsso_dspy.experiment.executor import (
    EngineFactory,
    Executor,
    RunOutcome,
    announced,
    fingerprint_programs,
    list_pending_jobs,
    open_thread_engine,
    void_downstream_units,
)
from rsso_dspy.experiment.forecast import Forecast
from rsso_dspy.experiment.guards import check_readers
from rsso_dspy.experiment.initial_memories import InitialMemories, merge_memories
from rsso_dspy.experiment.plan import Plan, plan_held_out
from rsso_dspy.experiment.protocols import check_action_choice, resolve_protocol
from rsso_dspy.experiment.provenance import make_provenance, make_run_identity
from rsso_dspy.experiment.run_programs import NO_PROGRAMS, Programs, check_programs, make_agents
from rsso_dspy.experiment.session import Session
from rsso_dspy.experiment.shards import select_shard
from rsso_dspy.experiment.skill_libraries import load_initial_skills
from rsso_dspy.experiment.spend_limit import SpendLimit
from rsso_dspy.experiment.stalled_trials import list_stalled_jobs, void_stalled_trials
from rsso_dspy.experiment.unit_runner import UnitRunner, open_source
from rsso_dspy.files import check_output_path
from rsso_dspy.lm import Backend
from rsso_dspy.memory.constitution.file import format_examples
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.manifest import Manifest
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.run_spec import RunSpec
from rsso_dspy.store.units import Arm, Job


@dataclass(frozen=True, slots=True)
class Run:
    """A planned and checked run. ``left`` is the pending work."""

    config: Config
    plan: Plan
    programs: Mapping[Arm, Agent]
    store: Store
    carried: InitialMemories
    identity: dict[str, Any]
    left: list[Job]
    played: Mapping[str, int]
    """Finished trials of the pending work, by key."""
    given: Manifest
    """The spec, to be stored with the run."""
    shard: str = ""
    """Shard ``i/n``; empty for the whole run."""
    retry_stalled: bool = False
    """Whether to play units with a stalled trial again."""

    @property
    def units_beside(self) -> int:
        """The number of finished units in the folder that this command does not ask for; tables count them too."""
        return self.store.count_units_beside(self.plan.units)

    @property
    def models_in_use(self) -> dict[str, str]:
        """Role to model, for the roles of this run."""
        roles = self.plan.forecast_calls().calls
        return {role: model for role, model in Backend(self.config.active_backend).models.items() if role in roles}

    def estimate_cost(self) -> CostEstimate | None:
        """Estimate the cost of the pending work; None if there is none, or too little is known of its benchmark."""
        own = load_observed_units(self.store, self.plan)
        return estimate_cost(
            self.plan, self.left, own, self.models_in_use, make_price_lookup(self.config.prices), self.played
        )

    def load_records(self) -> Iterator[UnitRecord | TrainingRecord]:
        """Return all finished units and trainings, including errored ones."""
        if self.store.exists:
            yield from self.store.units()
            yield from self.store.trainings()

    def forecast_calls(self) -> Forecast:
        """Return the maximum cost of the pending work."""
        return self.plan.forecast_calls(self.left, self.played)

    def make_spend_limit(self, max_cost: float | None = None, max_tokens: int | None = None) -> SpendLimit:
        """Create the run's spend limit, including its cost so far.

        Raises `UsageError` if dollars are limited and the price of a model is unknown.
        """
        models: dict[str, str] = {r: m for r, m in Backend(self.config.active_backend).models.items()}  # noqa: C416
        purse = SpendLimit(max_cost, max_tokens, models, make_price_lookup(self.config.prices), self.models_in_use)
        purse.add_earlier_usage(self.store.read_spending() if self.store.exists else ())
        return purse

    def execute(
        self,
        live: Session,
        jobs: int,
        purse: SpendLimit | None = None,
        events: EventStream | None = None,
        engine: EngineFactory = open_thread_engine,
        engine_name: str = "threads",
    ) -> RunOutcome:
        """Play the pending work, reporting to `events`. Every finished trial is kept, whatever happens.

        `engine` opens the place of execution, named `engine_name` in events. Raises `LimitReached` at a spend
        limit, and what `Session.check_models` and `Executor.run` raise.
        """
        live.check_models(self.programs.values())
        purse = purse or self.make_spend_limit()
        with self.store.lock():
            arms, planned = fingerprint_programs(self.programs), [work.key for work in self.left]
            self.store.open(self.identity, arms, self.shard, planned, **self.given.add_to(self.store))
            if self.retry_stalled:
                void_stalled_trials(self.plan, self.store)
            void_downstream_units(self.plan, self.store)
            left = list_pending_jobs(self.plan, self.store)  # another process may have finished some
            stream = EventStream()
            player = UnitRunner(
                live, self.store, self.programs, make_provenance(self.config), self.carried, stream, open_source(live)
            )
            if events:
                stream.subscribe(Event, events.emit, required=True)
            purse.follow(stream)
            stream.subscribe(RunLimited, lambda _: player.stop.set(), required=True)
            live.starts.told = lambda starting: stream.emit(SimulatorsStarting(starting))
            keys = tuple(work.key for work in left)
            with announced(stream, RunStarted(keys, jobs, engine_name)) as ended:
                if left and purse.exceeded_limit:
                    raise LimitReached(_describe_limit(purse))
                try:
                    outcome = Executor(player, engine).run(self.plan, left, jobs)
                except Stopped:
                    raise LimitReached(_describe_limit(purse)) from None
                ended(outcome)
            return outcome


def plan_run(
    config: Config,
    spec: RunSpec,
    programs: Programs = NO_PROGRAMS,
    read_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Plan the run and check it against its folder.

    Changes nothing except quarantining damaged files (not even that if `read_only`). `programs` maps names in
    `spec.programs` to compiled programs, as read by `rsso_dspy.load`; `say` receives notes for the user.

    Raises `SplitError` if a program, library or constitution saw a held-out variant of the run, `UsageError` if one was
    made for something else or the run is impossible, `RunMismatch` if the folder holds another run, and what planning
    and reading libraries raise.
    """
    check_action_choice(config)
    spec = replace(spec, variants=spec.variants or config.active_benchmark.table.selections[:1])
    check_readers(spec)
    check_programs(programs, spec, config)
    plan = plan_held_out(config, spec.methods, spec.tasks, spec.variants, spec.per_task, spec.programs, say)
    agents = make_agents(plan, programs, say)
    loads = [load_initial_skills(spec.skills, config, plan, say)] if spec.skills else []
    loads += [load_initial_constitution(spec.constitution, config, plan, say)] if spec.constitution else []
    kept = merge_memories(loads)
    plan = select_shard(replace(plan, carried=kept.states), spec.shard)
    digests = {name: load.digest for load in loads for name in load.memories}
    if config.memory.constitution.examples:
        check_examples(Path(config.memory.constitution.examples), config, plan)
        text = format_examples(Path(config.memory.constitution.examples))
        digests["constitution examples"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    bound_to = make_run_identity(config, resolve_protocol(config), digests)
    if not (read_only and spec.out.is_dir()):
        check_output_path(spec.out, "--out")
    store = Store(spec.out)
    store.read_only = read_only
    store.check_identity(bound_to, fingerprint_programs(agents))
    check_streams(plan, store)
    again = list_stalled_jobs(plan, store) if spec.retry_stalled else []
    left = list_pending_jobs(plan, store, again)
    begun = {store.path_of(record): len(record.trajectories) for record in store.load_begun()} if store.exists else {}
    played = {work.key: 0 if work in again else begun.get(store.path_of(work), 0) for work in left}
    given, shard, retry = Manifest.from_run_spec(config, spec), str(spec.shard or ""), spec.retry_stalled
    return Run(config, plan, agents, store, kept, bound_to, left, played, given, shard, retry)


def _describe_limit(purse: SpendLimit) -> str:
    return (
        f"stopped: {purse.exceeded_limit}. Finished trials are kept; repeat the command with a higher limit to resume."
    )
