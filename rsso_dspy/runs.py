"""A held-out run, from its spec to its outcome.

run = plan_run(config, RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x")))
with session(config, jobs=2) as live:
    run.execute(live, 2)
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.config import Config
from rsso_dspy.errors import DamagedFile, LimitReached, RunMismatch, Stopped, UsageError, require_extra
from rsso_dspy.executor import (
    EngineFactory,
    EventStream,
    Executor,
    RunOutcome,
    SpendLimit,
    UnitRunner,
    fingerprint_programs,
    list_pending_jobs,
    make_zero_shot_programs,
    open_source,
    open_spend_limit,
    open_thread_engine,
    void_downstream_units,
)
from rsso_dspy.experience import check_for_run, list_unknown_sources, read_named_experience
from rsso_dspy.files import atomic_path, check_output_path, find_packed, read_bytes
from rsso_dspy.memory.formats import format_examples
from rsso_dspy.memory_files import (
    InitialMemories,
    load_initial_constitution,
    load_initial_skills,
    merge_memories,
)
from rsso_dspy.plan import Plan, plan_held_out, select_shard
from rsso_dspy.power import MARGIN
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.records import Announcement
from rsso_dspy.rounds import dump_announcement, parse_announcement
from rsso_dspy.sessions import Session
from rsso_dspy.store.commands import RunSpec, add_command, describe_command
from rsso_dspy.store.guards import Programs, check_held_out, check_programs, check_readers
from rsso_dspy.store.run_folder import RUN_FILE, Arm, Job, Store, Unit, find_logs, flatten_keys
from rsso_dspy.store.unit_log import UnitLog

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
    extend: Callable[[], dict[Path, bytes] | None]  # returns the logs as more trials go on from them; see `extend_logs`
    spec: RunSpec
    unknown_sources: tuple[str, ...] = ()  # names of files whose source nobody can tell

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
        is_decided: Callable[[], bool] = lambda: False,
    ) -> RunOutcome:
        """Play the pending work, reporting to `events`. Raises `LimitReached` at a spend limit.

        A run of rounds with `until_decided` asks `is_decided` before each round, and ends once it is."""
        open_engine = get_engine(engine)
        live.check_models(self.programs.values())
        purse = purse or self.make_spend_limit()
        with self.store.lock():
            self._open_store()
            void_downstream_units(self.plan, self.store)
            pending = list_pending_jobs(self.plan, self.store)  # another process may have finished some

            stream = events or EventStream()
            provenance = make_provenance(self.config)
            if self.unknown_sources:
                provenance["source_unknown"] = ", ".join(self.unknown_sources)
            player = UnitRunner(live, self.store, self.programs, provenance, self.carried, stream, open_source(live))
            purse.follow(stream, player.stop)
            try:
                if pending and purse.exceeded_limit:
                    raise Stopped
                executor = Executor(player, open_engine)
                if self.plan.announced is None or not self.spec.until_decided:
                    return executor.run(self.plan, pending, jobs)
                return self._play_until_decided(executor, self.plan.announced.rounds, jobs, is_decided)
            except Stopped:
                raise LimitReached(
                    f"stopped: {purse.exceeded_limit}. Finished trials are kept; repeat the command with a higher "
                    "limit, or none, to resume."
                ) from None

    def _open_store(self) -> None:
        """Prepare the folder, with the logs as more trials go on from them, and enter the command there."""
        arms = fingerprint_programs(self.programs)
        planned = [work.key for work in self.left]
        extended = self.extend()
        if extended is not None:
            for path, content in extended.items():
                with atomic_path(path) as file:
                    file.write_bytes(content)
            self.store.write_file({**self.store.read_file(), "identity": self.identity})
        self.store.assume_logs({})

        entries = add_command(self.store, *describe_command(self.config, self.spec))
        if self.plan.announced is not None:
            entries["rounds"] = dump_announcement(self.plan.announced)
        self.store.open(self.identity, arms, str(self.spec.shard or ""), planned, **entries)

    def _play_until_decided(
        self, executor: Executor, rounds: int, jobs: int, is_decided: Callable[[], bool]
    ) -> RunOutcome:
        """Play round by round until it is decided. A round with errors is the last: it cannot be judged before its
        units are played again."""
        outcome = RunOutcome()
        for number in range(1, rounds + 1):
            if is_decided() or outcome.is_incomplete:
                break
            pending = list_pending_jobs(self.plan.select_round(number), self.store)
            outcome.add(executor.run(self.plan, pending, jobs))
        return outcome


def plan_run(
    config: Config,
    spec: RunSpec,
    programs: Programs | None = None,
    read_only: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Plan the run and check it against its folder, which stays as it is but for damaged files (with `read_only`, these
    too). `say` receives notes for the user. Raises `SplitError` if something saw a held-out variant of the run,
    `UsageError` if the run is impossible, and `RunMismatch` if the folder holds another."""
    programs = programs or {}
    if not spec.variants:
        spec = replace(spec, variants=config.active_benchmark.tasks.selections[:1])
    check_readers(spec)
    check_programs(programs, spec, config)
    plan = _plan_units(config, spec, say)
    agents = make_agents(plan, programs, say)

    loads = _load_memories(config, spec, plan, say)
    carried = merge_memories(loads)
    experiences = read_named_experience(config, [arm.method for arm in agents])
    hands_on = bool(plan.trainings or plan.streams)
    for experience in experiences:
        check_for_run(experience, config, plan.variants, hands_on, say)
    carried = replace(carried, experience=(*carried.experience, *experiences))
    unknown_sources = list_unknown_sources(carried.experience)
    for program in programs.values():
        if program:
            unknown_sources += program.source_unknown

    plan = select_shard(replace(plan, carried=carried.states), spec.shard)
    digests = {load.what: load.digest for load in loads}
    if config.memory.constitution.examples:
        text = format_examples(Path(config.memory.constitution.examples))
        digests["constitution examples"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    bound_to = make_run_identity(config, resolve_protocol(config), digests)

    if not (read_only and spec.out.is_dir()):
        check_output_path(spec.out, "--out")
    store = Store(spec.out)
    store.read_only = read_only
    check_rounds(plan, store)
    extend = partial(extend_logs, store, plan, config, bound_to, digests)
    identity = bound_to
    extended = extend()
    if extended is not None:
        say(f"{spec.out} goes on to {plan.rules.trials} trials a variant; what was answered is not asked again")
        store.assume_logs(extended)
        identity = store.read_identity()[0]
    store.check_identity(identity, fingerprint_programs(agents))
    check_streams(plan, store)

    pending = list_pending_jobs(plan, store)
    played_trials = _count_played_trials(store, pending)
    unplanned = _count_unplanned(store, plan)
    if unplanned:
        say(
            f"{spec.out} also holds units of earlier commands ({unplanned}), which the tables count too; name another "
            "--out for a table of this command alone"
        )
    unknown_sources = tuple(dict.fromkeys(unknown_sources))
    return Run(config, plan, agents, store, carried, bound_to, pending, played_trials, extend, spec, unknown_sources)


def _load_memories(config: Config, spec: RunSpec, plan: Plan, say: Callable[[str], None]) -> list[InitialMemories]:
    loads = []
    if spec.skills:
        loads.append(load_initial_skills(spec.skills, config, plan, say))
    for name, file in spec.constitutions.items():
        loads.append(load_initial_constitution(file, config, plan, say, name))
    return loads


def _count_played_trials(store: Store, pending: Sequence[Job]) -> dict[str, int]:
    """Return the finished trials of pending work, by key."""
    finished_trials = {}
    if store.exists:
        for record in store.load_begun():
            finished_trials[store.path_of(record)] = len(record.trajectories)
    return {work.key: finished_trials.get(store.path_of(work), 0) for work in pending}


def _count_unplanned(store: Store, plan: Plan) -> int:
    """Return how many finished units of the folder are not of the plan."""
    if not store.exists:
        return 0
    planned_paths = {store.path_of(unit) for unit in plan.units}
    return sum(store.path_of(unit) not in planned_paths for unit in store.units())


def _plan_units(config: Config, spec: RunSpec, say: Callable[[str], None]) -> Plan:
    """Plan the units of a run, in rounds if it asks for some. Raises `UsageError` for what rounds exclude."""
    constitutions = [name for name in spec.constitutions if name]
    if spec.rounds is None:
        if spec.until_decided or spec.margin is not None:
            option = "--until-decided" if spec.until_decided else "--margin"
            raise UsageError(f"{option} is of a run in rounds: add --rounds N, or leave it out")
        return plan_held_out(
            config,
            spec.methods,
            spec.tasks,
            spec.variants,
            spec.per_task,
            spec.programs,
            say,
            constitutions=constitutions,
        )

    if spec.rounds < 1:
        raise UsageError(f"--rounds {spec.rounds}: a run has 1 round or more")
    if spec.per_task is not None:
        raise UsageError("a round is one variant of every task type: leave --per-task out, or --rounds")
    if spec.shard is not None:
        raise UsageError("a round is judged whole, and a shard has a part of it: leave --shard out, or --rounds")
    margin = MARGIN if spec.margin is None else spec.margin
    return plan_held_out(
        config,
        spec.methods,
        spec.tasks,
        spec.variants,
        spec.rounds,
        spec.programs,
        say,
        spec.rounds,
        margin,
        constitutions,
    )


def check_rounds(plan: Plan, store: Store) -> None:
    """Raise `RunMismatch` if the folder's rounds are others than the plan's: what is announced before the first unit
    stays, since who has looked at results must not choose how many follow."""
    if not store.exists:
        return
    announced = read_announcement(store)
    if announced == plan.announced:
        return
    mismatch = _describe_other_rounds(announced, plan.announced)
    raise RunMismatch(f"{store.folder} {mismatch}, or name another {store.option}")


def read_announcement(store: Store) -> Announcement | None:
    """Return the rounds of a run, None where it has none. Raises `UsageError` if they are damaged, or were taken out of
    its file."""
    file = store.read_file()
    commands = [command for command in file.get("commands") or () if isinstance(command, dict)]
    asks_for_rounds = any(command.get("rounds") is not None for command in commands)
    if "rounds" not in file and not asks_for_rounds:
        return None
    return parse_announcement(file.get("rounds"), str(store.folder / RUN_FILE))


def _describe_other_rounds(there: Announcement | None, asked: Announcement | None) -> str:
    if there is None:
        return "was begun without rounds, which are announced before the first unit: leave --rounds out"
    rounds = f"--rounds {there.rounds}"
    if asked is None or asked.rounds != there.rounds:
        return f"was announced to have {there.rounds} rounds, and that stays once results can be seen: ask for {rounds}"
    if asked.margin != there.margin:
        return f"was announced with a margin of {there.margin:g} points: ask for {rounds} --margin {there.margin:g}"
    if asked.pairs != there.pairs:
        pairs = ", ".join(f"{memory} against {control}" for control, memory in there.pairs)
        return f"was announced to decide {pairs}: ask for the same methods and programs"
    return "was announced with other variants: ask for the same tasks and variants"


def extend_logs(
    store: Store, plan: Plan, config: Config, identity: Mapping[str, Any], carried: Mapping[str, str]
) -> dict[Path, bytes] | None:
    """Return the logs of a run as a plan with more trials goes on from them; None if the folder holds this very run,
    another one, or none. Raises `RunMismatch` for fewer trials, or if other units would be left behind.

    Of a trial, only what memories learn from it depends on how many follow: from the last one they do not learn. So
    where they would have, the line of the last trial is left out. The trial is taken up again like one that was cut
    off, answered from its own calls, and then it is learned from."""
    recorded = store.read_identity()[0] if store.exists else identity
    earlier = flatten_keys(recorded).get("config.protocol.trials")
    if recorded == identity or not isinstance(earlier, int | None):
        return None
    earlier_settings = config.protocol.model_copy(update={"trials": earlier})
    earlier_config = config.model_copy(update={"protocol": earlier_settings})
    earlier_protocol = resolve_protocol(earlier_config)
    if recorded != make_run_identity(earlier_config, earlier_protocol, carried):
        return None

    earlier_trials = earlier_protocol.rules.trials
    if plan.announced is not None and earlier_trials != plan.rules.trials:
        raise RunMismatch(
            f"{store.folder} was announced in rounds of {earlier_trials} trials a variant, which stays once results "
            f"can be seen: ask for {earlier_trials} trials, or name another {store.option}"
        )
    if earlier_trials > plan.rules.trials:
        raise RunMismatch(
            f"{store.folder} holds a run of {earlier_trials} trials a variant, and none is taken away for "
            f"{plan.rules.trials}: ask for {earlier_trials} trials or more, or name another {store.option}"
        )

    jobs: tuple[Job, ...] = (*plan.trainings, *plan.units)
    work = {store.path_of(job): job for job in jobs}
    logs = [*find_logs(store.folder / "trainings"), *find_logs(store.folder / "units")]
    other_logs = [path for path in logs if path not in work]
    if other_logs:
        raise RunMismatch(
            f"{store.folder} also holds {len(other_logs)} units that this command does not ask for, such as "
            f"{other_logs[0].relative_to(store.folder)}: ask for more trials of all, or name another {store.option}"
        )
    for path in logs:
        packed = find_packed(path)
        if packed:
            raise UsageError(f"{packed} is packed, so nothing can be added to it: gunzip -r {store.folder}")

    extended = {}
    for path in logs:
        complete = _read_complete_log(path)
        if complete is not None:
            log, content = complete
            extended[path] = _extend_log(log, content, plan, work[path], identity)
    return extended


def _read_complete_log(path: Path) -> tuple[UnitLog, bytes] | None:
    """Return the log of a finished unit or training with its content; None for another, or a damaged one."""
    # What reading a damaged log raises, and no more: it is set aside when the store reads it.
    with suppress(DamagedFile, KeyError, TypeError, ValueError, AttributeError, IndexError):
        content = read_bytes(path)
        log = UnitLog(content, path=path)
        if log.make_record() is not None:
            return log, content
    return None


def _extend_log(log: UnitLog, content: bytes, plan: Plan, work: Job, identity: Mapping[str, Any]) -> bytes:
    lines = content[: log.complete].splitlines(keepends=True)
    provenance = {**log.head.get("provenance", {}), "config_hash": identity["config_hash"]}
    head = {**log.head, "protocol": identity["protocol"], "provenance": provenance}
    if isinstance(work, Unit):
        rules = plan.get_rules(work)
        head["trials_allowed"] = rules.trials
        if _was_not_learned_from(log, rules, work):
            trial_lines = [number for number, line in enumerate(lines) if line.startswith(b'{"trial"')]
            del lines[max(trial_lines)]
    lines.append(json.dumps({"unit": head}).encode() + b"\n")
    return b"".join(lines)


def _was_not_learned_from(log: UnitLog, rules: TrialRules, unit: Unit) -> bool:
    """Whether the last trial of a log taught a memory nothing because it was the last, which it is no longer."""
    results = log.results
    allowed = log.head.get("trials_allowed") or 0
    was_last = len(results) == allowed < rules.trials
    if not was_last or rules.stops_after(results[-1]):
        return False

    regions = [load_memory(name).region for name in unit.arm.method.memories]
    last = results[-1].trajectory
    if not last:
        return False
    taught_as_last = [rules.teaches(region, last, True) for region in regions]
    taught_as_another = [rules.teaches(region, last, False) for region in regions]
    return taught_as_last != taught_as_another


def make_agents(plan: Plan, programs: Programs, say: Callable[[str], None] = lambda _: None) -> dict[Arm, Agent]:
    """Create the program of every arm. Raises `SplitError` if one was compiled on a variant of the plan."""
    zero_shot_agents = make_zero_shot_programs(plan)
    for name in dict.fromkeys(arm.program for arm in zero_shot_agents):
        program = programs.get(name)
        if not program:
            continue
        compiled_on = (*program.calibration, *program.learned_on)
        check_held_out(compiled_on, [unit.variant for unit in plan.units])
        if program.source_unknown:
            rests_on = ", ".join(program.source_unknown)
            say(f"source unknown: {name} was compiled with {rests_on}, which does not say what it was learned on")
        if not program.calibration:
            say(f"{name} was made elsewhere: rsso-dspy cannot tell whether it was made on held-out variants")
        elif program.environment and program.protocol != plan.protocol:
            say(f"{name} was compiled under {program.protocol}, and is played under {plan.protocol}")

    agents = {}
    for arm, zero_shot_agent in zero_shot_agents.items():
        program = programs.get(arm.program)
        agents[arm] = program.agent(arm.method.name) if program else zero_shot_agent
    return agents


def check_streams(plan: Plan, store: Store) -> None:
    """Raise `RunMismatch` if a played unit has another place in its stream, because the set of variants has changed."""
    if not plan.streams or not store.exists:
        return
    arms = {arm.name for arm in plan.streams}
    places = {}
    for units in plan.streams.values():
        for unit in units:
            places[store.path_of(unit)] = unit.place

    for record in (*store.units(), *store.load_begun()):
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
    require_extra("ray", "run.engine=ray needs Ray", "ray")
    from rsso_dspy.ray import open_ray_engine

    return open_ray_engine
