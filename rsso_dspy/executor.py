"""Executes a plan: trainings and units, several at once on an engine, each from its last finished trial on.

    Executor(UnitRunner(live, store, programs, provenance)).run(plan, list_pending_jobs(plan, store), jobs=2)

A unit starts from empty memories, from those of its training, from what the previous unit in its stream hands on, or
from loaded files. An errored unit has no score, ends its stream, and is played again by the next run.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

import dspy

from rsso_dspy.calls import find_log_folder
from rsso_dspy.config import Config
from rsso_dspy.errors import (
    BackendFailure,
    BackendUnreachable,
    ContractViolation,
    EnvironmentFailure,
    EnvironmentFault,
    Stopped,
    UnreadableAnswers,
    UsageError,
)
from rsso_dspy.failures import lookup_recorded_policy
from rsso_dspy.lm import Backend
from rsso_dspy.memory.reflections import pass_on_reflections
from rsso_dspy.memory_files import NOTHING_CARRIED, InitialMemories, count_entries, describe_sources, sources_of
from rsso_dspy.plan import Plan, forecast_calls
from rsso_dspy.playing import playing
from rsso_dspy.pricing import PriceOf, compute_cost, format_dollars, make_price_lookup
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import ResumeState, TrialRules
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Failure, Source, TrainingRecord, TrialResult, UnitRecord, Usage, Variant
from rsso_dspy.sessions import Session
from rsso_dspy.store.run_folder import Arm, Job, Store, Training, Unit, name_log
from rsso_dspy.store.unit_log import JobRecord, UnitLog


class Event:
    """Base class of events."""


@dataclass(frozen=True, slots=True)
class UsageSpent(Event):
    work: Job
    role: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class TrialFinished(Event):
    work: Job
    result: TrialResult


@dataclass(frozen=True, slots=True)
class UnitFinished(Event):
    work: Job
    record: JobRecord


@dataclass(frozen=True, slots=True)
class ActorAnswered(Event):
    """A question to the actor is over."""

    work: Job
    answers: int  # how many it took: two where an unreadable one was asked again
    is_read: bool  # whether an action could be read from one of them


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """Ctrl-C was pressed; the run waits for current calls."""


E = TypeVar("E", bound=Event)
J = TypeVar("J", Unit, Training)


class EventStream:
    """Delivers events in order, in the thread where they happen. An error of a subscriber ends the run."""

    def __init__(self) -> None:
        self._subscribers: tuple[tuple[type[Event], Callable[[Any], object]], ...] = ()

    def subscribe(self, kind: type[E], hear: Callable[[E], object]) -> None:
        """Call `hear` with every event of a kind, from any thread; it should be fast."""
        self._subscribers = (*self._subscribers, (kind, hear))

    def emit(self, event: Event) -> None:
        for kind, hear in self._subscribers:
            if isinstance(event, kind):
                hear(event)


class SpendLimit:
    """Limits of a run in dollars and in tokens (in and out). Thread-safe. `models` maps role to model; `asked` names
    the roles in use, whose models need a price where dollars are limited."""

    def __init__(
        self, max_cost: float | None, max_tokens: int | None, models: Mapping[str, str], price_of: PriceOf,
        asked: Collection[str] | None = None,
    ):  # fmt: skip
        for name, limit in (("max_cost", max_cost), ("max_tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{name}={limit} limits nothing; give a number of at least 0, or leave it out")
        roles = models.keys() if asked is None else asked
        unpriced = sorted({models[role] for role in roles if price_of(models[role]) is None})
        if max_cost is not None and unpriced:
            raise UsageError(
                f"the price of {', '.join(unpriced)} is unknown, so --max-cost cannot work: set "
                f'[prices."{unpriced[0]}"] input = ..., output = ... (dollars per million tokens)'
            )
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.cost, self.tokens = 0.0, 0  # dollars at known prices, and tokens, so far
        self.unmetered = 0  # number of answers without a token count from the server
        self._models = models
        self._price_of = price_of
        self._lock = threading.Lock()

    def add_usage(self, role: str, usage: Usage) -> None:
        price = self._price_of(self._models[role]) if role in self._models else None
        with self._lock:
            self.cost += compute_cost(usage, price) if price else 0.0
            self.tokens += usage.input + usage.output
            self.unmetered += usage.unmetered

    def follow(self, events: EventStream, stop: threading.Event) -> None:
        """Count every `UsageSpent`, and set `stop` once a limit is exceeded."""

        def count(event: UsageSpent) -> None:
            self.add_usage(event.role, event.usage)
            if self.exceeded_limit:
                stop.set()

        events.subscribe(UsageSpent, count)

    @property
    def exceeded_limit(self) -> str:
        """The limit that is exceeded or cannot be kept, in words; otherwise empty."""
        if self.unmetered and not (self.max_cost is None and self.max_tokens is None):
            return "the server does not report token counts, so no limit can be kept"
        if self.max_cost is not None and self.cost > self.max_cost:
            return f"{format_dollars(self.cost)} of {format_dollars(self.max_cost)} are spent (--max-cost)"
        if self.max_tokens is not None and self.tokens > self.max_tokens:
            return f"{self.tokens:,} of {self.max_tokens:,} tokens are spent (max_tokens)"
        return ""


def open_spend_limit(
    config: Config, plans: Sequence[Plan], stores: Sequence[Store], max_cost: float | None, max_tokens: int | None
) -> SpendLimit:
    """Return the spend limit of these plans, which counts what their folders have cost so far."""
    models: dict[str, str] = dict(Backend(config.active_backend).models.items())
    roles = {role for plan in plans for role in forecast_calls(plan).calls}
    limit = SpendLimit(max_cost, max_tokens, models, make_price_lookup(config.prices), roles & models.keys())
    for store in stores:
        if store.exists:
            for role, usage in store.read_spending():
                limit.add_usage(role, usage)
    return limit


FIRST_ANSWERS = 20  # if so many answers in a row cannot be read from the very first on, a run or a compile stops


class FormatCheck:
    """Whether the first answers of a run can be read. A single unreadable answer is the model's, and scores as what it
    is: a step that does nothing. But where none of the first `FIRST_ANSWERS` can be read, model and answer format do
    not fit, and scores would say nothing of the model.

    The first answers are those of the first jobs in the order of the plan, however many are played at once.
    Thread-safe."""

    def __init__(self, jobs: Iterable[Job] = ()):
        self._lock = threading.Lock()
        self._is_passed = False
        self._jobs: dict[str, Job | JobRecord] = {name_log(job): job for job in jobs}
        self._answers = dict.fromkeys(self._jobs, 0)
        self._finished: set[str] = set()

    @property
    def is_passed(self) -> bool:
        """Whether an answer could be read, so that nothing more is checked."""
        return self._is_passed

    def expect(self, job: Job) -> None:
        """Note a job whose answers come after those of the jobs before."""
        with self._lock:
            self._jobs.setdefault(name_log(job), job)
            self._answers.setdefault(name_log(job), 0)

    def take_in_finished(self, record: JobRecord) -> None:
        """Take in what was played before, by an earlier command, and counts."""
        self._take_in(record)
        self.finish(record)

    def take_in_begun(self, record: JobRecord) -> None:
        self._take_in(record)

    def _take_in(self, record: JobRecord) -> None:
        name = name_log(record)
        self._jobs.setdefault(name, record)
        self._answers = {name: 0, **self._answers}  # it came first
        for trial in record.trials:
            usage = trial.usage.get("actor", Usage())
            steps = trial.trajectory.steps if trial.trajectory else ()
            self.hear(record, usage.calls, any(not step.malformed for step in steps))

    def hear(self, job: Job | JobRecord, answers: int, is_read: bool) -> None:
        name = name_log(job)
        with self._lock:
            self._is_passed |= is_read
            self._jobs.setdefault(name, job)
            self._answers[name] = self._answers.get(name, 0) + answers

    def finish(self, job: Job | JobRecord) -> None:
        with self._lock:
            self._finished.add(name_log(job))

    def find_unreadable(self) -> list[Job | JobRecord]:
        """Return the jobs that hold the first answers if none of these could be read; [] otherwise."""
        with self._lock:
            if self._is_passed:
                return []
            jobs: list[Job | JobRecord] = []
            total = 0
            for name, answers in self._answers.items():
                jobs += [self._jobs[name]] if answers else []
                total += answers
                if total >= FIRST_ANSWERS:
                    return jobs
                if name not in self._finished:
                    return []  # its further answers come before those of later jobs
            return []


def open_source(live: Session) -> Store | None:
    """Return the run whose logs answer instead of the session's models; None if the models answer."""
    folder = live.backend.replay
    return Store(find_log_folder(folder), read_only=True) if folder else None


Episode = tuple[Variant, int, int]  # a variant, its steps, and the number of its last trial


@dataclass(eq=False)
class UnitRunner:
    """Plays the work of one run."""

    live: Session
    store: Store
    programs: Mapping[Arm, Agent]  # arm to its program, which threads share
    provenance: dict[str, str]
    carried: InitialMemories = NOTHING_CARRIED  # initial memories of every unit
    events: EventStream = field(default_factory=EventStream)  # receives every cost and every trial
    source: Store | None = None  # run whose logs answer instead of models
    stop: threading.Event = field(default_factory=threading.Event)  # abandons all trials before their next step

    def run_job(self, plan: Plan, work: Job) -> JobRecord:
        """Play the pending trials of a unit or training, and return its record."""
        log = self.store.open_log(work)
        if log.has_error:
            log.void(len(log.results), "it ended in an error and is played again")
        if self.source is not None:
            log.source = self.source.read_log(work).make_answers(name_log(work))
        if isinstance(work, Unit) and (first := plan.get_first_unit(work)) is not None:
            log.shared = self.store.read_log(first).make_answers(name_log(first))
        log.answer_from_own(len(log.results) + 1)
        initial = self._load_initial_memories(plan, work)
        description = self._describe_job(plan, work, initial)
        keeps = True
        if isinstance(work, Training):
            rules = plan.training_rules
            log.add_head(TrainingRecord(**description, task=work.task, budgets=work.budgets, trials=()), False)
            episodes = [*zip(work.episodes, work.budgets, range(1, len(work.budgets) + 1), strict=True)]
        else:
            rules = plan.get_rules(work)
            keeps = not (plan.get_training(work) and rules.frozen)  # otherwise they are those of the training
            description |= {"variant": work.variant, "budget": work.budget, "trials_allowed": rules.trials}
            description["strata"] = self.live.config.list_strata(work.variant)
            log.add_head(UnitRecord(**description, trials=()), rules.stop_on_success)
            episodes = [(work.variant, work.budget, rules.trials)]
        start = ResumeState({**initial.memories, **log.memories}, log.results)
        for episode in episodes:
            if len(start.played) < episode[2]:
                prediction = self._run_trials(rules, work, episode, start, log, keeps)
                start = ResumeState(prediction.memories, prediction.trials)
                if prediction.score is None:
                    break
        record = log.make_record()
        assert record is not None
        return record

    def _load_initial_memories(self, plan: Plan, work: Job) -> InitialMemories:
        """Return the memories that a unit or training starts from: of files, of its training, of the unit before it."""
        initial = self.carried.select_for(work.arm)
        if isinstance(work, Training):
            return initial
        if training := plan.get_training(work):
            training_record = self.store.load(training)
            assert training_record is not None
            variant_keys = dict.fromkeys([*training_record.learnt_on, *(variant.key for variant in training.episodes)])
            sources = (
                *training_record.sources,
                *sources_of(training_record.memories, "training", training_record.task),
            )
            initial = InitialMemories(self._hand_on(training_record.memories), sources, variants=tuple(variant_keys))
        if not work.place:
            return initial
        lasting = work.arm.method.streamed
        if (predecessor := plan.previous_units.get(work)) is not None:
            record = self.store.load(predecessor)
            assert record is not None
            variant_keys = dict.fromkeys([*record.learnt_on, predecessor.variant.key])
            handed_memories = self._hand_on({name: record.memories[name] for name in lasting})
            initial = replace(initial, memories={**initial.memories, **handed_memories}, variants=tuple(variant_keys))
        place = plan.streams[work.arm].index(work) + 1
        stream_sources = (
            Source(name, "stream", work.place, place=place, size=count_entries(initial.memories, name))
            for name in lasting
        )
        return replace(initial, sources=(*initial.sources, *stream_sources))

    def _hand_on(self, memories: Mapping[str, Any]) -> dict[str, Any]:
        """Return memories as another unit starts from them: reflections that go on are of others there."""
        settings = self.live.runtime.reflections
        copied = dict(memories)
        if "reflections" in copied and settings is not None and settings.tells_variants_apart:
            copied["reflections"] = pass_on_reflections(copied["reflections"])
        return copied

    def _run_trials(
        self, rules: TrialRules, work: Job, episode: Episode, start: ResumeState, log: UnitLog, keeps: bool
    ) -> dspy.Prediction:
        """Play a variant on from `start`. With `keeps`, the memories after each trial are written too."""
        variant, budget, until = episode
        started_at = time.perf_counter()

        def save_trial(result: TrialResult, memories: Callable[[], dict[str, Any]]) -> None:
            nonlocal started_at
            ended_at = time.perf_counter()
            result = log.add_trial(result, memories() if keeps else {}, ended_at - started_at)
            started_at = ended_at
            self.events.emit(TrialFinished(work, result))

        runtime = replace(
            self.live.runtime,
            rules=rules,
            budget=lambda _: budget,
            stopped=self.stop.is_set,
            spend=lambda role, usage: self.events.emit(UsageSpent(work, role, usage)),
            hear_answers=lambda answers, is_read: self.events.emit(ActorAnswered(work, answers, is_read)),
        )
        with self.live.activate_for_run(), runtime.activate(), log.stop_on_error(self.stop), playing(calls=log):
            program = self.programs[work.arm]
            return program(variant=variant, trials=until, seed=work.seed, start=start, on_trial=save_trial)

    def _describe_job(self, plan: Plan, work: Job, kept: InitialMemories) -> dict[str, Any]:
        return {
            "protocol": plan.protocol,
            "arm": work.arm.name,
            "method": work.arm.method.name,
            "program": work.arm.program,
            "constitution": work.arm.constitution,
            "backend": self.live.config.backend,
            "model": self.live.backend.models["actor"],
            "models": dict(self.live.backend.models),
            "rule_based": self.live.backend.rule_based,
            "seed": work.seed,
            "provenance": {**self.provenance, "program": fingerprint_program(self.programs[work.arm])},
            "start": describe_sources(kept.sources),
            "sources": kept.sources,
            "learnt_on": kept.variants,
        }


LISTENING = 1.0  # maximum seconds of one wait, because a Ctrl-C just before a wait takes effect only after it
FAILURES_TO_STOP = 3
"""Number of consecutive units with an error of the model's or simulator's side that stops the run; also of units whose
very first request failed alike, whoever is at fault; and of variants in which the environment's own code fails."""


Submit = Callable[[Plan, Job], Future[JobRecord]]
"""Submits work. When the future is done, its record is in the store; it raises `Stopped` if the player is stopped."""

EngineFactory = Callable[[UnitRunner, int], AbstractContextManager[Submit]]
"""Opens an engine for the player with a number of parallel jobs. Leaving the block does not wait for current work."""


@contextmanager
def open_thread_engine(player: UnitRunner, jobs: int) -> Iterator[Submit]:
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="unit")
    try:
        yield lambda plan, work: pool.submit(player.run_job, plan, work)
    finally:
        pool.shutdown(wait=False)


@dataclass
class RunOutcome:
    played: int = 0
    errored: list[JobRecord] = field(default_factory=list)
    untrained: list[Unit] = field(default_factory=list)  # not played: what they start from errored

    def add(self, other: "RunOutcome") -> None:
        """Add what was played after this."""
        self.played += other.played
        self.errored += other.errored
        self.untrained += other.untrained

    @property
    def is_incomplete(self) -> bool:
        """Whether units have no score that could have one."""
        return len(self.errored) > len(self.skipped) or bool(self.untrained)

    @property
    def skipped(self) -> list[JobRecord]:
        """Errored records whose variant the environment refuses, as it will again: not a simulator that died."""
        return [record for record in self.errored if record.is_refused]

    @property
    def faulty(self) -> list[JobRecord]:
        """Errored records that are the fault of the environment's code."""
        return [record for record in self.errored if find_environment_fault(record) is not None]


def find_environment_fault(record: JobRecord) -> Failure | None:
    """Return the failure that ended a unit or training, if the environment's code is at fault."""
    failure = record.trials[-1].failure if record.trials else None
    is_fault = failure is not None and failure.kind in (ContractViolation.__name__, EnvironmentFault.__name__)
    return failure if is_fault else None


def list_pending_jobs(plan: Plan, store: Store) -> list[Job]:
    """Return the pending work: trainings, then units; what errored last of its kind, so that it blocks no other."""
    units = _select_unfinished(store, plan.units)
    for stream in plan.streams.values():  # each unit starts from the results of those before it
        units += [unit for unit in _list_downstream(stream, units) if unit not in units]
    needed = [plan.get_training(unit) for unit in units]
    trainings = dict.fromkeys(training for training in needed if training)
    return [*_select_unfinished(store, trainings), *units]


def _select_unfinished(store: Store, work: Iterable[J]) -> list[J]:
    records = [(job, store.load(job)) for job in work]
    unstarted = [job for job, record in records if record is None]
    return unstarted + [job for job, record in records if record is not None and record.has_errors]


def _list_downstream(stream: Sequence[Unit], unfinished: Collection[Unit]) -> Sequence[Unit]:
    """Return what stands behind the first unfinished unit of a stream."""
    return next((stream[place + 1 :] for place, unit in enumerate(stream) if unit in unfinished), ())


def void_downstream_units(plan: Plan, store: Store) -> None:
    """Void the trials of units whose predecessor in the stream is unfinished."""
    for stream in plan.streams.values():
        for unit in _list_downstream(stream, _select_unfinished(store, stream)):
            if store.path_of(unit).exists():
                store.open_log(unit).void(1, "the unit before it in the stream is played again")


def make_zero_shot_programs(plan: Plan) -> dict[Arm, Agent]:
    return {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}


def fingerprint_programs(programs: Mapping[Arm, Agent]) -> dict[str, str]:
    return {arm.name: fingerprint_program(program) for arm, program in programs.items()}


def _is_unanswered(record: JobRecord) -> bool:
    """Whether no model answered any request of a unit."""
    return not any(usage.calls for trial in record.trials for usage in trial.usage.values())


class Executor:
    """Plays work on an engine and handles failures. The player's events report its progress."""

    def __init__(self, player: UnitRunner, engine: EngineFactory = open_thread_engine):
        self.player = player
        self.engine = engine
        self._failures = 0
        self._faulty: set[str] = set()  # variants in a row that an environment's code fails in
        self._unanswered: Counter[str] = Counter()  # units in a row without any answer, by their failure

    def run(self, plan: Plan, work: Sequence[Job], jobs: int) -> RunOutcome:
        """Play `work` in order, up to `jobs` at once, each after what it starts from. After Ctrl-C, raises
        KeyboardInterrupt once current work has stopped; a failing backend raises `BackendUnreachable` likewise, and
        first answers of which none can be read `UnreadableAnswers`."""
        outcome = RunOutcome()
        if not work:
            return outcome

        check = self._watch_format(work)
        try:
            with self.engine(self.player, jobs) as submit:
                unplayed = self._run_jobs(submit, plan, work, jobs, outcome)
        except Stopped:
            if not check.find_unreadable():
                raise
            unplayed = []
        if unreadable := check.find_unreadable():
            self._fail_unreadable(unreadable)
        outcome.untrained = [job for job in unplayed if isinstance(job, Unit)]
        return outcome

    def _watch_format(self, work: Sequence[Job]) -> FormatCheck:
        """Watch the answers of the actor, and stop the run if none of the first ones can be read."""
        store = self.player.store
        events = self.player.events
        check = FormatCheck(work)
        for record in store.records():
            if check.is_passed:
                break
            if not record.has_errors:
                check.take_in_finished(record)
        if store.exists and not check.is_passed:
            for record in store.load_begun():
                check.take_in_begun(record)

        def stop_if_unreadable() -> None:
            if check.find_unreadable():
                self.player.stop.set()

        def hear(event: ActorAnswered) -> None:
            check.hear(event.work, event.answers, event.is_read)
            stop_if_unreadable()

        def finish(event: UnitFinished) -> None:
            check.finish(event.work)
            stop_if_unreadable()

        events.subscribe(ActorAnswered, hear)
        events.subscribe(UnitFinished, finish)
        return check

    def _fail_unreadable(self, jobs: Sequence[Job | JobRecord]) -> NoReturn:
        """Make errors of the units that hold the first answers: they have no score, and are played again next time."""
        live = self.player.live
        reason = describe_unreadable(live)
        example = ""
        for job in jobs:
            log = self.player.store.open_log(job)
            example = example or find_first_answer(log)
            log.void(1, reason)
            log.add_trial(TrialResult(1, None, failure=Failure(BackendFailure.__name__, reason)), {}, 0.0)
        units = "its unit is an error" if len(jobs) == 1 else f"their {len(jobs)} units are errors"
        raise UnreadableAnswers(f"stopped: {reason}, so {units} without a score. {advise_on_format(live, example)}")

    def _run_jobs(self, submit: Submit, plan: Plan, work: Sequence[Job], jobs: int, outcome: RunOutcome) -> list[Job]:
        """Play what can be played; return the rest, whose predecessors errored."""
        waiting = list(work)
        running: dict[Future[JobRecord], Job] = {}
        pending: set[Job] = set(work)
        try:
            while True:
                while len(running) < jobs and (job := _pop_next_job(plan, waiting, pending)) is not None:
                    running[submit(plan, job)] = job
                if not running:
                    return waiting
                finished = wait(running, LISTENING, return_when=FIRST_COMPLETED).done
                self.player.store.check_exists()
                for future in finished:
                    job = running.pop(future)
                    record = future.result()
                    self._count_failure(job, record, outcome)
                    if not record.has_errors:
                        pending.remove(job)
        except BaseException as error:
            self.player.stop.set()
            if isinstance(error, KeyboardInterrupt):
                self.player.events.emit(StopRequested())
            for future in wait(running).done:  # Ctrl-C again ends the wait
                if (failure := future.exception()) is None:
                    self.player.events.emit(UnitFinished(running[future], future.result()))
                elif isinstance(error, Stopped) and not isinstance(failure, Stopped):
                    error = failure  # why the others stopped
            raise error

    def _count_failure(self, work: Job, record: JobRecord, outcome: RunOutcome) -> None:
        self.player.events.emit(UnitFinished(work, record))
        outcome.played += 1
        if not _is_unanswered(record):
            self._unanswered.clear()
        if not record.has_errors:
            self._failures = 0
            self._faulty.clear()
            return
        outcome.errored.append(record)
        if (fault := find_environment_fault(record)) is not None:
            self._count_fault(record, fault)
            return
        failure = record.trials[-1].failure
        if record.is_refused:  # by itself: neither backend nor simulator is at fault
            return
        policy = lookup_recorded_policy(failure)
        self._failures += policy != "fail"
        pattern = re.sub(r"\d+", "#", str(failure))
        self._unanswered[pattern] += _is_unanswered(record)
        failures = max(self._failures, self._unanswered[pattern])
        if policy == "stop" or failures >= FAILURES_TO_STOP:
            culprit = f"the backend {self.player.live.config.backend!r}" if policy else "the simulator"
            raise (BackendUnreachable if policy else EnvironmentFailure)(
                f"stopped: {culprit} fails ({failure}). Finished work is kept; fix the cause (see `rsso-dspy doctor`) "
                "and repeat the command."
            )

    def _count_fault(self, record: JobRecord, fault: Failure) -> None:
        """Stop once the environment's code fails in several variants in a row: all arms meet the same fault in one."""
        self._faulty.add(record.key)
        if len(self._faulty) >= FAILURES_TO_STOP:
            raise EnvironmentFailure(
                f"stopped: the environment fails in {len(self._faulty)} variants in a row. Finished work is kept; mend "
                f"the environment (see `rsso-dspy doctor --benchmark NAME`) and repeat the command. {fault.message}"
            )


LONGEST_EXAMPLE = 120  # characters of an unreadable answer that a message quotes


def describe_unreadable(live: Session) -> str:
    return f"none of the first {FIRST_ANSWERS} answers of {live.backend.models['actor']} could be read"


def advise_on_format(live: Session, example: str) -> str:
    """Return an answer that could not be read, and what to do about such answers."""
    backend = live.config.backend
    quoted = f"The first was {example!r}. " if example else ""
    return (
        f"{quoted}Ask for another format (--set backends.{backend}.adapter=json) or give it room "
        f"(--set backends.{backend}.max_tokens=2048), then repeat the command; docs/BACKENDS.md, A model that breaks "
        "the format, has more"
    )


def find_first_answer(log: UnitLog) -> str:
    """Return the beginning of the first answer of the actor in a log that was read whole; empty without one."""
    for lines in log.by_number.values():
        if lines[0]["role"] == "actor" and "answer" in lines[-1]:
            return log.decode(lines).text[:LONGEST_EXAMPLE]
    return ""


def _pop_next_job(plan: Plan, waiting: list[Job], pending: AbstractSet[Job]) -> Job | None:
    for place, job in enumerate(waiting):
        prerequisites: set[Job | None] = set()
        if isinstance(job, Unit):
            prerequisites = {plan.get_training(job), plan.previous_units.get(job), plan.get_first_unit(job)}
        if pending.isdisjoint(prerequisites):
            return waiting.pop(place)
    return None
