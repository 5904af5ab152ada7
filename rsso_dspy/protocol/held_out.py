"""One held-out run, from what is asked for to what became of it.

run = prepare(config, RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x")))
run.left, run.plan.forecast(run.left)           # nothing was changed so far
with session(config, jobs=2) as live:
    run.play(live, 2)
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rsso_dspy.backends import Backend, proxies
from rsso_dspy.backends.recording import check_recordable
from rsso_dspy.config import Config, prices
from rsso_dspy.errors import LimitReached, Stopped
from rsso_dspy.memory.constitution.file import examples_of
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol.action_choice import check_action_choice
from rsso_dspy.protocol.constitutions import carried_book, check_examples, check_streams
from rsso_dspy.protocol.engines import engine_named
from rsso_dspy.protocol.events import Event, EventStream, RunLimited, RunStarted, SimulatorsStarting
from rsso_dspy.protocol.executor import (
    Executor,
    Outcome,
    announced,
    fingerprints,
    forget_followers,
    missing,
)
from rsso_dspy.protocol.forecast import Estimate, estimate, observed
from rsso_dspy.protocol.fork import reusable
from rsso_dspy.protocol.given import Given
from rsso_dspy.protocol.guards import check_readers
from rsso_dspy.protocol.libraries import carried
from rsso_dspy.protocol.log_writer import write_log
from rsso_dspy.protocol.plan import Forecast, Plan, plan_held_out
from rsso_dspy.protocol.playing import Carried, Player, together
from rsso_dspy.protocol.presets import configured
from rsso_dspy.protocol.programs import NO_PROGRAMS, Programs, check_programs, make_agents
from rsso_dspy.protocol.provenance import identity, provenance
from rsso_dspy.protocol.purse import Purse
from rsso_dspy.protocol.run_spec import RunSpec
from rsso_dspy.protocol.session import Session
from rsso_dspy.protocol.shards import shard_of
from rsso_dspy.protocol.stalled import give_up_stalled, stalled
from rsso_dspy.protocol.store import Store
from rsso_dspy.protocol.tapes import about_of
from rsso_dspy.protocol.units import Arm, Work
from rsso_dspy.trajectory import TrainingRecord, UnitRecord
from rsso_dspy.whole import check_place


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A run that is planned and checked. ``left`` is what is neither finished nor taken over."""

    config: Config
    plan: Plan
    programs: Mapping[Arm, Agent]
    store: Store
    carried: Carried
    identity: dict[str, Any]
    taken: list[UnitRecord | TrainingRecord]
    left: list[Work]
    played: Mapping[str, int]
    """Trials that are finished already of what is left, by key."""
    given: Given
    """What was asked for, to be kept with the run."""
    shard: str = ""
    """``i/n`` of the part that is played here; empty when that is all."""
    retry_stalled: bool = False
    """Whether units are played again in which a trial stalled."""
    record: bool = False
    """Whether every exchange with a model is kept; of a run that was recorded so far, it is."""
    fork: Path | None = None
    """Where the records of `taken` come from."""

    @property
    def asked(self) -> dict[str, str]:
        """Role to model, of the roles this run has use for."""
        roles = self.plan.forecast().calls
        return {role: model for role, model in Backend(self.config.active_backend).models.items() if role in roles}

    def estimate(self) -> Estimate | None:
        """What is left will cost about this much; None when nothing is left."""
        own = observed(self.store, self.plan)
        return estimate(self.plan, self.left, own, self.asked, prices(self.config.prices), self.played)

    def records(self) -> Iterator[UnitRecord | TrainingRecord]:
        """Every unit and training that is finished, errored ones too, with what is taken over."""
        yield from self.taken
        if (self.store.folder / "run.json").exists():
            yield from self.store.units()
            yield from self.store.trainings()

    def forecast(self) -> Forecast:
        """What is left will cost this much at most."""
        return self.plan.forecast(self.left, self.played)

    def purse(self, max_cost: float | None = None, max_tokens: int | None = None) -> Purse:
        """The run's limits, with what it cost so far. Raises `UsageError` when the price of a model it asks is not
        known and dollars are limited."""
        models: dict[str, str] = {r: m for r, m in Backend(self.config.active_backend).models.items()}  # noqa: C416
        purse = Purse(max_cost, max_tokens, models, prices(self.config.prices), self.asked)
        purse.before(self.store.spent() if (self.store.folder / "run.json").exists() else ())
        return purse

    def play(
        self,
        live: Session,
        jobs: int,
        purse: Purse | None = None,
        events: EventStream | None = None,
        engine: str = "threads",
    ) -> Outcome:
        """Play what is left. `events` is told of it; `engine` is threads or ray. Raises `LimitReached` when the
        purse is empty, and what `Session.check_models`, `engine_named` and `Executor.run` raise; whatever happens,
        every finished trial is kept."""
        live.check_models(self.programs.values())
        where = engine_named(engine)
        purse = purse or self.purse()
        with self.store.lock():
            self.store.open(self.identity, fingerprints(self.programs), self.shard)
            self.given.keep(self.store.folder, self.store.place.write)
            if self.record:
                check_recordable(live.backend.users_lm)
                self.store.open_recordings(about_of(self.config))
            if self.fork:
                self._carry_recordings(Store(self.fork))
            for record in self.taken:
                self.store.save(record)
            if self.retry_stalled:
                give_up_stalled(self.plan, self.store)
            forget_followers(self.plan, self.store)
            left = missing(self.plan, self.store)  # another process may just have finished some
            stream = EventStream()
            origin, records = provenance(self.config), self.store.recorded
            player = Player(live, self.store, self.programs, origin, self.carried, stream, records)
            write_log(self.store, stream)
            if events:
                stream.subscribe(Event, events.emit, required=True)
            purse.follow(stream)
            stream.subscribe(RunLimited, lambda _: player.stop.set(), required=True)
            live.starts.told = lambda starting: stream.emit(SimulatorsStarting(starting))
            keys = tuple(work.key for work in left)
            ways, answers = proxies(self.config), self.config.active_backend.replay or ""
            with announced(stream, RunStarted(keys, jobs, engine, ways, answers)) as ended:
                if left and purse.passed:
                    raise LimitReached(_limit(purse))
                try:
                    outcome = Executor(player, where).run(self.plan, left, jobs)
                except Stopped:
                    raise LimitReached(_limit(purse)) from None
                ended(outcome)
            return outcome

    def _carry_recordings(self, source: Store) -> None:
        """Take over the recordings of what is taken over."""
        if source.recorded and self.taken:
            self.store.open_recordings(about_of(self.config))
            for record in self.taken:
                self.store.carry_recording(source, record)


def prepare(
    config: Config,
    spec: RunSpec,
    programs: Programs = NO_PROGRAMS,
    read_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> HeldOut:
    """Plan the run and check it against its folder, without changing anything but damaged files, which are set aside
    (not even these when `read_only`). `programs` are those of `spec.programs` that are compiled, by name, as
    `rsso_dspy.load` reads them; `say` is told what a person should know.

    Raises `SplitError` when a program, a library or a constitution has seen a variant that the run is scored on,
    `UsageError` when one was made for something else or the run cannot be made, `RunMismatch` when the folder holds
    another run, and what planning and reading libraries raise.
    """
    check_action_choice(config)
    spec = replace(spec, variants=spec.variants or config.played.table.selections[:1])
    check_readers(spec, read_only)
    check_programs(programs, spec, config)
    plan = plan_held_out(config, spec.methods, spec.tasks, spec.variants, spec.per_task, spec.programs, say)
    agents = make_agents(plan, programs, say)
    loads = [carried(spec.skills, config, plan, say)] if spec.skills else []
    loads += [carried_book(spec.constitution, config, plan, say)] if spec.constitution else []
    kept = together(loads)
    plan = shard_of(replace(plan, carried=kept.states), spec.shard)
    digests = {name: load.digest for load in loads for name in load.memories}
    if config.memory.constitution.examples:
        check_examples(Path(config.memory.constitution.examples), config, plan)
        text = examples_of(Path(config.memory.constitution.examples))
        digests["constitution examples"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    bound_to = identity(config, configured(config), digests)
    if not (read_only and spec.out.is_dir()):
        check_place(spec.out, "--out")
    store = Store(spec.out)
    store.read_only = read_only
    store.check(bound_to, fingerprints(agents))
    check_streams(plan, store)
    again = stalled(plan, store) if spec.retry_stalled else []
    left = missing(plan, store, again)
    taken: list[UnitRecord | TrainingRecord] = []
    if spec.fork:
        source = Store(spec.fork)
        source.read_only = True
        wanted = set(map(source.path_of, left))
        taken = [r for r in reusable(source, plan, bound_to, fingerprints(agents)) if source.path_of(r) in wanted]
        taken = [record for record in taken if not (spec.retry_stalled and record.stalled)]
        have = set(map(store.path_of, taken))
        left = [work for work in left if store.path_of(work) not in have]
    begun = {store.path_of(record): len(record.trajectories) for record in store.begun()}
    played = {work.key: 0 if work in again else begun.get(store.path_of(work), 0) for work in left}
    given, shard, retry = Given.of(config, spec), str(spec.shard or ""), spec.retry_stalled
    about = (given, shard, retry, spec.record, spec.fork)
    return HeldOut(config, plan, agents, store, kept, bound_to, taken, left, played, *about)


def _limit(purse: Purse) -> str:
    return f"stopped: {purse.passed}. Every finished trial is kept; the same command with a higher limit goes on."
