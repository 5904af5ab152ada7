"""Plays a plan on several threads: its trainings, then its units.

An errored unit is written too, marked; it has no score, is listed, and is played again by the next run. A backend
that fails everything stops the run instead of burning through it.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rsso_dspy.backends.policies import recorded
from rsso_dspy.errors import BackendUnreachable
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint
from rsso_dspy.protocol.plan import Arm, Plan, Training, Unit, Work
from rsso_dspy.protocol.playing import Player
from rsso_dspy.protocol.store import Store
from rsso_dspy.trajectory import TrainingRecord, UnitRecord

W = TypeVar("W", Unit, Training)

FAILURES_TO_STOP = 3
"""Units in a row that end in a model error before the run is stopped."""


class Observer(Protocol):
    """Told what happens, from any thread."""

    def finished(self, work: Work, record: UnitRecord | TrainingRecord) -> None: ...

    def stopping(self) -> None: ...


@dataclass
class Outcome:
    """What became of an execution."""

    played: int = 0
    errored: list[UnitRecord | TrainingRecord] = field(default_factory=list)
    untrained: list[Unit] = field(default_factory=list)
    """Units not played because their training ended in an error."""


def missing(plan: Plan, store: Store) -> list[Work]:
    """What of the plan is not finished in the store: units, after the trainings they need. What errored before comes
    last of its kind, so that it never keeps others from being played."""
    units = _unfinished([(unit, store.load(store.path_of(unit))) for unit in plan.units])
    needed = dict.fromkeys(training for unit in units if (training := plan.training_of(unit)))
    return [*_unfinished([(each, store.load_training(store.path_of(each))) for each in needed]), *units]


def _unfinished(work: Sequence[tuple[W, UnitRecord | TrainingRecord | None]]) -> list[W]:
    left = [each for each, record in work if record is None]
    return left + [each for each, record in work if record is not None and record.errored]


def zero_shot(plan: Plan) -> dict[Arm, Agent]:
    """The program of every arm as it is written, uncompiled."""
    return {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}


def fingerprints(programs: Mapping[Arm, Agent]) -> dict[str, str]:
    """Arm to the fingerprint of its program, as a run's folder keeps them."""
    return {arm.name: fingerprint(program) for arm, program in programs.items()}


class Executor:
    """Has a player play on several threads and minds its failures."""

    def __init__(self, player: Player, observer: Observer):
        self.player = player
        self.observer = observer
        self._failures = 0

    def run(self, plan: Plan, work: Sequence[Work], jobs: int) -> Outcome:
        """Play `work` with `jobs` threads, trainings first. Ctrl-C keeps every finished trial and raises
        KeyboardInterrupt after the threads have let go; a failing backend raises `BackendUnreachable` likewise."""
        outcome = Outcome()
        self._all(plan, [each for each in work if isinstance(each, Training)], jobs, outcome)
        units = [each for each in work if isinstance(each, Unit)]
        ready = [unit for unit in units if self.player.trained(plan, unit)]
        outcome.untrained = [unit for unit in units if unit not in ready]
        self._all(plan, ready, jobs, outcome)
        return outcome

    def _all(self, plan: Plan, work: Sequence[Work], jobs: int, outcome: Outcome) -> None:
        waiting = iter(work)
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="unit") as threads:
            running: set[Future[UnitRecord | TrainingRecord]] = set()
            try:
                while True:
                    while len(running) < jobs and (each := next(waiting, None)) is not None:
                        running.add(threads.submit(self._play, plan, each))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._count(future.result(), outcome)
            except BaseException:
                self.player.stop.set()
                self.observer.stopping()
                raise

    def _play(self, plan: Plan, work: Work) -> UnitRecord | TrainingRecord:
        record = self.player.play(plan, work)
        self.observer.finished(work, record)
        return record

    def _count(self, record: UnitRecord | TrainingRecord, outcome: Outcome) -> None:
        outcome.played += 1
        if not record.errored:
            self._failures = 0
            return
        outcome.errored.append(record)
        error = record.trials[-1].error or ""
        policy = recorded(error)
        self._failures += policy in ("retry", "suspect")
        if policy == "stop" or self._failures >= FAILURES_TO_STOP:
            raise BackendUnreachable(
                f"stopped: the backend {self.player.live.config.backend!r} fails ({error}). What is finished is kept; "
                "mend the backend (`rsso-dspy doctor`) and run the same command again."
            )


__all__ = [
    "FAILURES_TO_STOP",
    "Executor",
    "Observer",
    "Outcome",
    "fingerprints",
    "missing",
    "zero_shot",
]
