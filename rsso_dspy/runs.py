"""A held-out run, from its spec to its outcome.

run = plan_run(config, RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x")))
run.left, run.forecast_calls()                        # nothing is changed yet
with session(config, jobs=2) as live:
    run.execute(live, 2)
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.config import Config
from rsso_dspy.errors import LimitReached, RunMismatch, Stopped, require_extra
from rsso_dspy.executor import (
    EngineFactory,
    EventStream,
    Executor,
    RunOutcome,
    UnitRunner,
    fingerprint_programs,
    list_pending_jobs,
    make_zero_shot_programs,
    open_source,
    open_thread_engine,
    void_downstream_units,
)
from rsso_dspy.files import check_output_path
from rsso_dspy.forecast import Forecast, SpendLimit, forecast_calls, open_spend_limit
from rsso_dspy.memory.formats import format_examples
from rsso_dspy.memory_files import (
    InitialMemories,
    check_examples,
    load_initial_constitution,
    load_initial_skills,
    merge_memories,
)
from rsso_dspy.plan import Plan, plan_held_out, select_shard
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.sessions import Session
from rsso_dspy.store.commands import RunSpec, add_command, describe_command
from rsso_dspy.store.guards import Programs, check_held_out, check_programs, check_readers
from rsso_dspy.store.run_folder import Arm, Job, Store

Engine = Literal["threads", "ray"]  # threads of this process, or a Ray cluster


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
    played: Mapping[str, int]  # finished trials of the pending work, by key
    spec: RunSpec
    command: tuple[RunSpec, dict[str, str]]  # the spec and its input files, to be stored with the run

    @property
    def units_beside(self) -> int:
        """The number of finished units in the folder that this command does not ask for; tables count them too."""
        own = {self.store.path_of(unit) for unit in self.plan.units}
        return sum(self.store.path_of(unit) not in own for unit in self.store.units()) if self.store.exists else 0

    def forecast_calls(self) -> Forecast:
        return forecast_calls(self.plan, self.left, self.played)

    def make_spend_limit(self, max_cost: float | None = None, max_tokens: int | None = None) -> SpendLimit:
        """Create the run's spend limit, including its cost so far."""
        return open_spend_limit(self.config, [self.plan], [self.store], max_cost, max_tokens)

    def execute(
        self,
        live: Session,
        jobs: int,
        purse: SpendLimit | None = None,
        events: EventStream | None = None,
        engine: Engine = "threads",
    ) -> RunOutcome:
        """Play the pending work, reporting to `events`. Raises `LimitReached` at a spend limit."""
        open_engine = get_engine(engine)
        live.check_models(self.programs.values())
        purse = purse or self.make_spend_limit()
        with self.store.lock():
            arms, planned = fingerprint_programs(self.programs), [work.key for work in self.left]
            told = add_command(self.store, *self.command)
            self.store.open(self.identity, arms, str(self.spec.shard or ""), planned, **told)
            void_downstream_units(self.plan, self.store)
            left = list_pending_jobs(self.plan, self.store)  # another process may have finished some
            stream = events or EventStream()
            player = UnitRunner(
                live, self.store, self.programs, make_provenance(self.config), self.carried, stream, open_source(live)
            )
            purse.follow(stream, player.stop)
            try:
                if left and purse.exceeded_limit:
                    raise Stopped
                return Executor(player, open_engine).run(self.plan, left, jobs)
            except Stopped:
                raise LimitReached(
                    f"stopped: {purse.exceeded_limit}. Finished trials are kept; repeat the command with a higher "
                    "limit to resume."
                ) from None


def plan_run(
    config: Config,
    spec: RunSpec,
    programs: Programs | None = None,
    read_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Plan the run and check it against its folder, which stays as it is but for damaged files (with `read_only`, these
    too). `programs` maps names in `spec.programs` to compiled programs; `say` receives notes for the user. Raises
    `SplitError` if something saw a held-out variant of the run, `UsageError` if the run is impossible, and
    `RunMismatch` if the folder holds another."""
    programs = programs or {}
    spec = replace(spec, variants=spec.variants or config.active_benchmark.tasks.selections[:1])
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
    left = list_pending_jobs(plan, store)
    begun = {store.path_of(record): len(record.trajectories) for record in store.load_begun()} if store.exists else {}
    played = {work.key: begun.get(store.path_of(work), 0) for work in left}
    return Run(config, plan, agents, store, kept, bound_to, left, played, spec, describe_command(config, spec))


def make_agents(plan: Plan, programs: Programs, say: Callable[[str], None] = lambda _: None) -> dict[Arm, Agent]:
    """Create the program of every arm. Raises `SplitError` if one was compiled on a variant of the plan. `say` receives
    a note on programs of another protocol, or whose variants nobody knows."""
    agents = make_zero_shot_programs(plan)
    for name in dict.fromkeys(arm.program for arm in agents):
        if program := programs.get(name):
            check_held_out(program.calibration, [unit.variant for unit in plan.units])
            if not program.calibration:
                say(f"{name} was made elsewhere: rsso-dspy cannot tell whether it was made on held-out variants")
            elif program.environment and program.protocol != plan.protocol:
                say(f"{name} was compiled under {program.protocol}, and is played under {plan.protocol}")
    return {
        arm: program.agent(arm.method.name) if (program := programs.get(arm.program)) else agent
        for arm, agent in agents.items()
    }


def check_streams(plan: Plan, store: Store) -> None:
    """Raise `RunMismatch` if a played unit has another place in its stream, because the set of variants has changed."""
    arms = {arm.name for arm in plan.streams}
    places = {store.path_of(unit): unit.place for units in plan.streams.values() for unit in units}
    for record in (*store.units(), *store.load_begun()) if arms and store.exists else ():
        place = record.stream.name if record.stream else "no stream"
        if record.arm in arms and place != places.get(store.path_of(record)):
            raise RunMismatch(
                f"{store.folder} holds a stream of {record.arm} over other variants: {record.key} is {place} there; "
                "use the same variants or another --out"
            )


def get_engine(name: Engine) -> EngineFactory:
    if name == "threads":
        return open_thread_engine
    # Ray reads this at import; otherwise it prints every retry of a task on stdout, among the results.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    require_extra("ray", "--engine ray needs Ray", "ray")
    from rsso_dspy.ray import open_ray_engine

    return open_ray_engine
