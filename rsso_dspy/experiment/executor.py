"""Plays a plan: its trainings, then its units, several at once on the engine that it is given.

An errored unit is written too, marked; it has no score, is listed, and is played again by the next run. A backend
that fails everything stops the run instead of burning through it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rsso_dspy.errors import BackendUnreachable, EnvironmentFailure, LimitReached, RssoError, Stopped
from rsso_dspy.experiment.events import EventStream, RunEnded, RunStarted, StopRequested, UnitFinished
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.lm.error_policy import lookup_recorded_policy
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.records import Failure, TrainingRecord, UnitRecord, sum_usage
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Arm, Job, Training, Unit

W = TypeVar("W", Unit, Training)

LISTENING = 1.0
"""Seconds of one wait at most: a Ctrl-C in the very moment before a wait is heard only when that wait is over."""

FAILURES_TO_STOP = 3
"""Units in a row that end in an error of the model's or the simulator's side before the run is stopped."""


class Engine(Protocol):
    """Where units and trainings are played."""

    def submit(self, plan: Plan, work: Job) -> Future[UnitRecord | TrainingRecord]:
        """Have it played. Its record is in the store when the future is done; `Stopped` comes out of the future when
        the player is being stopped."""
        ...


EngineFactory = Callable[[UnitRunner, int], AbstractContextManager[Engine]]
"""Opens an engine that plays what the player would play, so many at once. Leaving the block does not wait for what is
under way."""


@contextmanager
def open_thread_engine(player: UnitRunner, jobs: int) -> Iterator[Engine]:
    """The engine of this process: `jobs` threads."""
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="unit")
    try:
        yield _ThreadEngine(player, pool)
    finally:
        pool.shutdown(wait=False)


@dataclass(frozen=True, slots=True)
class _ThreadEngine:
    player: UnitRunner
    pool: ThreadPoolExecutor

    def submit(self, plan: Plan, work: Job) -> Future[UnitRecord | TrainingRecord]:
        return self.pool.submit(self.player.run_job, plan, work)


@dataclass
class RunOutcome:
    """What became of an execution."""

    played: int = 0
    errored: list[UnitRecord | TrainingRecord] = field(default_factory=list)
    untrained: list[Unit] = field(default_factory=list)
    """Units not played because their training, or the unit before them in their stream, ended in an error."""


@contextmanager
def announced(events: EventStream, started: RunStarted) -> Iterator[Callable[[RunOutcome], None]]:
    """The block is the run: `events` is told that it started, and how it ended. Give what it yields the outcome."""
    end = RunEnded("failed")

    def keep(outcome: RunOutcome) -> None:
        nonlocal end
        end = RunEnded("ended", outcome.played, len(outcome.errored), len(outcome.untrained))

    try:
        events.emit(started)
        yield keep
    except (LimitReached, Stopped) as why:
        end = RunEnded("limit", why=str(why))
        raise
    except KeyboardInterrupt:
        end = RunEnded("interrupted")
        raise
    except RssoError as error:
        end = RunEnded("failed", failure=Failure.of(error))
        raise
    finally:
        events.emit(end)


def list_pending_jobs(plan: Plan, store: Store, again: Collection[Job] = ()) -> list[Job]:
    """What of the plan is not finished in the store, or to be played `again`: units, after the trainings they need.
    What errored before comes last of its kind, so that it never keeps others from being played."""
    finished = [(unit, None if unit in again else store.load(store.path_of(unit))) for unit in plan.units]
    units = _add_downstream_units(plan, _select_unfinished(finished))
    needed = dict.fromkeys(training for unit in units if (training := plan.get_training(unit)))
    trained = [(each, None if each in again else store.load_training(store.path_of(each))) for each in needed]
    return [*_select_unfinished(trained), *units]


def _add_downstream_units(plan: Plan, units: Sequence[Unit]) -> list[Unit]:
    """The units with all that follow one of them in a stream: these start from what it will leave."""
    left = list(units)
    known = set(units)
    for stream in plan.streams.values():
        first = next((place for place, unit in enumerate(stream) if unit in known), len(stream))
        left += [unit for unit in stream[first:] if unit not in known]
    return left


def discard_downstream_units(plan: Plan, store: Store) -> None:
    """Give up what was played of units that follow, in their stream, one that is not finished: what they started from
    is no more. What they cost is noted."""
    for stream in plan.streams.values():
        records = [store.load(store.path_of(unit)) for unit in stream]
        first = next((n for n, record in enumerate(records) if record is None or record.has_errors), len(stream))
        for unit, record in list(zip(stream, records, strict=True))[first + 1 :]:
            path = store.path_of(unit)
            if record:  # it tells of all trials that are noted as begun
                store.place.remove(store.started_path(path))
            file = path if record else store.started_path(path)
            played = record or store.load(file)
            if played:
                lost = {} if "forked_from" in played.provenance else sum_usage(played.trials)
                store.abandon_file(unit.arm.name, unit.key, file, lost)


def _select_unfinished(work: Sequence[tuple[W, UnitRecord | TrainingRecord | None]]) -> list[W]:
    left = [each for each, record in work if record is None]
    return left + [each for each, record in work if record is not None and record.has_errors]


def make_zero_shot_programs(plan: Plan) -> dict[Arm, Agent]:
    """The program of every arm as it is written, uncompiled."""
    return {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}


def fingerprint_programs(programs: Mapping[Arm, Agent]) -> dict[str, str]:
    """Arm to the fingerprint of its program, as a run's folder keeps them."""
    return {arm.name: fingerprint_program(program) for arm, program in programs.items()}


class Executor:
    """Has work played on an engine and minds its failures. What it does is told by the player's events."""

    def __init__(self, player: UnitRunner, engine: EngineFactory = open_thread_engine):
        self.player = player
        self.engine = engine
        self._failures = 0

    def run(self, plan: Plan, work: Sequence[Job], jobs: int) -> RunOutcome:
        """Play `work`, up to `jobs` at once, trainings first. Ctrl-C keeps every finished trial and raises
        KeyboardInterrupt after what is under way has let go; a failing backend raises `BackendUnreachable` likewise."""
        outcome = RunOutcome()
        if not work:
            return outcome
        with self.engine(self.player, jobs) as engine:
            self._run_jobs(engine, plan, [each for each in work if isinstance(each, Training)], jobs, outcome)
            units = [each for each in work if isinstance(each, Unit)]
            ready = [unit for unit in units if self.player.is_trained(plan, unit)]
            outcome.untrained = [unit for unit in units if unit not in ready]
            outcome.untrained += self._run_jobs(engine, plan, ready, jobs, outcome)
        return outcome

    def _run_jobs(self, engine: Engine, plan: Plan, work: Sequence[W], jobs: int, outcome: RunOutcome) -> list[W]:
        """Play what can be played; gives the rest, which waited for something that ended in an error."""
        waiting = list(work)
        running: dict[Future[UnitRecord | TrainingRecord], W] = {}
        pending = set(work)
        try:
            while True:
                while len(running) < jobs and (each := _pop_next_job(plan, waiting, pending)) is not None:
                    running[engine.submit(plan, each)] = each
                if not running:
                    return waiting
                done = wait(running, LISTENING, return_when=FIRST_COMPLETED).done
                self.player.store.place.check_exists()
                for future in done:
                    each, record = running.pop(future), future.result()
                    self._count_failure(each, record, outcome)
                    if not record.has_errors:
                        pending.remove(each)
        except BaseException as error:
            self.player.stop.set()
            if isinstance(error, KeyboardInterrupt):
                self.player.events.emit(StopRequested())
            for future in wait(running).done:  # Ctrl-C again ends the wait
                if (other := future.exception()) is None:
                    self.player.events.emit(UnitFinished(running[future], future.result()))
                elif isinstance(error, Stopped) and not isinstance(other, Stopped):
                    error = other  # why the others stopped
            raise error

    def _count_failure(self, work: Job, record: UnitRecord | TrainingRecord, outcome: RunOutcome) -> None:
        self.player.events.emit(UnitFinished(work, record))
        outcome.played += 1
        if not record.has_errors:
            self._failures = 0
            return
        outcome.errored.append(record)
        failure = record.trials[-1].failure
        policy = lookup_recorded_policy(failure)
        self._failures += policy != "fail"
        if policy == "stop" or self._failures >= FAILURES_TO_STOP:
            what = f"the backend {self.player.live.config.backend!r}" if policy else "the simulator"
            raise (BackendUnreachable if policy else EnvironmentFailure)(
                f"stopped: {what} fails ({failure}). What is finished is kept; mend the cause (`rsso-dspy doctor`) and "
                "run the same command again."
            )


def _pop_next_job(plan: Plan, waiting: list[W], pending: Collection[Job]) -> W | None:
    """Take the first that waits for nothing that is pending."""
    for place, each in enumerate(waiting):
        if not isinstance(each, Unit) or plan.get_previous_unit(each) not in pending:
            return waiting.pop(place)
    return None


__all__ = [
    "FAILURES_TO_STOP",
    "Engine",
    "EngineFactory",
    "Executor",
    "RunOutcome",
    "announced",
    "fingerprint_programs",
    "list_pending_jobs",
    "make_zero_shot_programs",
    "open_thread_engine",
]
