"""Executes a plan: trainings, then units, several at once on an engine.

An errored unit is saved too; it has no score, and the next run plays it again. A backend that fails repeatedly stops
the run. A stream stops at an errored unit, but passes over one whose variant its environment refuses.
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
from rsso_dspy.logged_lm import lookup_recorded_policy
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Failure, TrainingRecord, UnitRecord
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.units import Arm, Job, Training, Unit

W = TypeVar("W", Unit, Training)

LISTENING = 1.0
"""Maximum seconds of one wait, because a Ctrl-C just before a wait takes effect only after it."""

FAILURES_TO_STOP = 3
"""Number of consecutive units with an error of the model's or simulator's side that stops the run."""


class Engine(Protocol):
    """Plays units and trainings."""

    def submit(self, plan: Plan, work: Job) -> Future[UnitRecord | TrainingRecord]:
        """Submit work. When the future is done, its record is in the store; it raises `Stopped` if the player is
        stopped."""


EngineFactory = Callable[[UnitRunner, int], AbstractContextManager[Engine]]
"""Opens an engine for the player with a number of parallel jobs. Leaving the block does not wait for current work."""


@contextmanager
def open_thread_engine(player: UnitRunner, jobs: int) -> Iterator[Engine]:
    """Open the engine of this process: `jobs` threads."""
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
    """The outcome of an execution."""

    played: int = 0
    errored: list[UnitRecord | TrainingRecord] = field(default_factory=list)
    untrained: list[Unit] = field(default_factory=list)
    """Units not played because their training or the previous unit of their stream errored."""

    @property
    def skipped(self) -> list[UnitRecord | TrainingRecord]:
        """Errored records whose variant the environment refuses, as it will again: not a simulator that died."""
        return [record for record in self.errored if record.is_refused]


@contextmanager
def announced(events: EventStream, started: RunStarted) -> Iterator[Callable[[RunOutcome], None]]:
    """Send the start and end of the run, which is the block, to `events`. Set the outcome on the yielded object."""
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
    """Return the pending work of a plan and the units to play `again`: trainings first, then units.

    Work that errored before comes last of its kind, so it never blocks other work.
    """
    passed_over = _find_passed_over(plan, store)
    finished = [(unit, None if unit in again else store.load(unit)) for unit in plan.units if unit not in passed_over]
    units = [unit for unit in _add_downstream_units(plan, _select_unfinished(finished)) if unit not in passed_over]
    needed = dict.fromkeys(training for unit in units if (training := plan.get_training(unit)))
    trained = [(each, None if each in again else store.load(each)) for each in needed]
    return [*_select_unfinished(trained), *units]


def _find_passed_over(plan: Plan, store: Store) -> set[Unit]:
    """Return the refused units of streams that went on without them: playing one now would not change what followed."""
    found: set[Unit] = set()
    for stream in plan.streams.values():
        went_on = False
        for unit in reversed(stream):
            record = store.load_begun_work(unit)
            if went_on and record is not None and record.is_refused:
                found.add(unit)
            went_on = went_on or (record is not None and bool(record.trajectories))
    return found


def _add_downstream_units(plan: Plan, units: Sequence[Unit]) -> list[Unit]:
    """Return the units with all their successors in streams, which start from their results."""
    left = list(units)
    known = set(units)
    for stream in plan.streams.values():
        first = next((place for place, unit in enumerate(stream) if unit in known), len(stream))
        left += [unit for unit in stream[first:] if unit not in known]
    return left


def void_downstream_units(plan: Plan, store: Store) -> None:
    """Void the trials of units whose predecessor in the stream is unfinished."""
    passed_over = _find_passed_over(plan, store)
    for whole in plan.streams.values():
        stream = [unit for unit in whole if unit not in passed_over]
        records = [store.load(unit) for unit in stream]
        first = next((n for n, record in enumerate(records) if record is None or record.has_errors), len(stream))
        for unit in stream[first + 1 :]:
            if store.path_of(unit).exists():
                store.open_log(unit).void(1, "the unit before it in the stream is played again")


def _select_unfinished(work: Sequence[tuple[W, UnitRecord | TrainingRecord | None]]) -> list[W]:
    left = [each for each, record in work if record is None]
    return left + [each for each, record in work if record is not None and record.has_errors]


def make_zero_shot_programs(plan: Plan) -> dict[Arm, Agent]:
    return {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}


def fingerprint_programs(programs: Mapping[Arm, Agent]) -> dict[str, str]:
    """Return the fingerprint of each arm's program, as stored in a run's folder."""
    return {arm.name: fingerprint_program(program) for arm, program in programs.items()}


class Executor:
    """Plays work on an engine and handles failures. The player's events report its progress."""

    def __init__(self, player: UnitRunner, engine: EngineFactory = open_thread_engine):
        self.player = player
        self.engine = engine
        self._failures = 0

    def run(self, plan: Plan, work: Sequence[Job], jobs: int) -> RunOutcome:
        """Play `work`, up to `jobs` at once, trainings first.

        Every finished trial is kept. After Ctrl-C, raises KeyboardInterrupt once current work has stopped; a failing
        backend raises `BackendUnreachable` likewise.
        """
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
        """Play what can be played; return the rest, whose predecessors errored."""
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
                self.player.store.check_exists()
                for future in done:
                    each, record = running.pop(future), future.result()
                    self._count_failure(each, record, outcome)
                    if not record.has_errors or record.is_refused:
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
        if record.is_refused:  # by itself: neither backend nor simulator is at fault
            return
        policy = lookup_recorded_policy(failure)
        self._failures += policy != "fail"
        if policy == "stop" or self._failures >= FAILURES_TO_STOP:
            what = f"the backend {self.player.live.config.backend!r}" if policy else "the simulator"
            raise (BackendUnreachable if policy else EnvironmentFailure)(
                f"stopped: {what} fails ({failure}). Finished work is kept; fix the cause (see `rsso-dspy doctor`) and "
                "repeat the command."
            )


def _pop_next_job(plan: Plan, waiting: list[W], pending: Collection[Job]) -> W | None:
    """Take the first item without pending predecessors."""
    for place, each in enumerate(waiting):
        if not isinstance(each, Unit) or plan.get_previous_unit(each, lambda unit: unit not in pending) is None:
            return waiting.pop(place)
    return None
