"""Plays the units of a plan on several threads, each unit written as soon as it is finished.

An errored unit is written too, marked; it has no score, is listed, and is played again by the next run. A backend
that fails everything stops the run instead of burning through it.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Protocol

from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMInvalidRequestError,
    LMProviderError,
    LMTransportError,
    LMUnexpectedError,
    LMUnsupportedModelError,
)

from rsso_dspy.errors import BackendFailure, BackendUnreachable
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint
from rsso_dspy.protocol.plan import Arm, Plan, Unit
from rsso_dspy.protocol.session import Session
from rsso_dspy.protocol.store import Store
from rsso_dspy.trajectory import TrialResult, UnitRecord

FAILURES_TO_STOP = 3
"""Units in a row that end in a model error before the run is stopped."""

FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError)
"""Errors that would hit every unit: the run stops at the first."""

TELLING = (LMTransportError, LMProviderError, LMUnexpectedError, BackendFailure)
"""Errors that speak of a dead backend when they come in a row; a request that was refused for what it says does not."""


class Observer(Protocol):
    """Told what happens, from any thread."""

    def trial(self, unit: Unit, result: TrialResult) -> None: ...

    def unit(self, unit: Unit, record: UnitRecord) -> None: ...

    def stopping(self) -> None: ...


@dataclass
class Outcome:
    """What became of an execution."""

    played: int = 0
    errored: list[UnitRecord] = field(default_factory=list)


def missing(plan: Plan, store: Store) -> list[Unit]:
    """Units of the plan that are not finished in the store; those that errored before come last, so that they never
    keep others from being played."""
    left, errored = [], []
    for unit in plan.units:
        record = store.load(store.path(unit.arm.name, unit.variant.task, unit.variant.index, unit.seed))
        if record is None:
            left.append(unit)
        elif record.errored:
            errored.append(unit)
    return left + errored


def zero_shot(plan: Plan) -> dict[Arm, Agent]:
    """The program of every arm as it is written, uncompiled."""
    return {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}


def fingerprints(programs: Mapping[Arm, Agent]) -> dict[str, str]:
    """Arm to the fingerprint of its program, as a run's folder keeps them."""
    return {arm.name: fingerprint(program) for arm, program in programs.items()}


class Executor:
    """Plays units. `programs` gives the program of every arm; programs are shared by the threads."""

    def __init__(
        self,
        live: Session,
        store: Store,
        programs: Mapping[Arm, Agent],
        provenance: dict[str, str],
        observer: Observer,
    ):
        self.live = live
        self.store = store
        self.programs = programs
        self.provenance = provenance
        self.observer = observer
        self._stop = threading.Event()
        self._failures = 0

    def run(self, plan: Plan, units: Sequence[Unit], jobs: int) -> Outcome:
        """Play `units` with `jobs` threads. Ctrl-C keeps what is finished and raises KeyboardInterrupt after the
        threads have let go; a failing backend raises `BackendUnreachable` likewise."""
        outcome = Outcome()
        waiting = iter(units)
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="unit") as threads:
            running: set[Future[UnitRecord]] = set()
            try:
                while True:
                    while len(running) < jobs and (unit := next(waiting, None)) is not None:
                        running.add(threads.submit(self._play, plan, unit))
                    if not running:
                        return outcome
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._count(future.result(), outcome)
            except BaseException:
                self._stop.set()
                self.observer.stopping()
                raise

    def _play(self, plan: Plan, unit: Unit) -> UnitRecord:
        begun = time.perf_counter()

        def finished(result: TrialResult) -> None:
            nonlocal begun
            now = time.perf_counter()
            self.store.note_seconds(unit.key, result.trial, now - begun)
            begun = now
            self.observer.trial(unit, result)

        runtime = replace(self.live.runtime, budget=lambda _: unit.budget, stopped=self._stop.is_set)
        with self.live.here(), runtime.active():
            program = self.programs[unit.arm]
            played = program(variant=unit.variant, trials=plan.rules.trials, seed=unit.seed, on_trial=finished)
        record = UnitRecord(
            protocol=plan.protocol,
            arm=unit.arm.name,
            method=unit.arm.method.name,
            program=unit.arm.program,
            backend=self.live.config.backend,
            model=self.live.backend.models["actor"],
            rule_based=self.live.backend.rule_based,
            variant=unit.variant,
            seed=unit.seed,
            budget=unit.budget,
            trials=played.trials,
            memories=played.memories,
            provenance={**self.provenance, "program": fingerprint(program)},
        )
        self.store.save(record)
        self.observer.unit(unit, record)
        return record

    def _count(self, record: UnitRecord, outcome: Outcome) -> None:
        outcome.played += 1
        if not record.errored:
            self._failures = 0
            return
        outcome.errored.append(record)
        error = record.trials[-1].error or ""
        kind = error.partition(":")[0]
        self._failures += kind in _TELLING
        if kind in {fatal.__name__ for fatal in FATAL} or self._failures >= FAILURES_TO_STOP:
            raise BackendUnreachable(
                f"stopped: the backend {self.live.config.backend!r} fails ({error}). What is finished is kept; "
                "mend the backend (`rsso-dspy doctor`) and run the same command again."
            )


def _names(kind: type[BaseException]) -> set[str]:
    return {kind.__name__}.union(*(_names(sub) for sub in kind.__subclasses__()))


_TELLING = {name for kind in TELLING for name in _names(kind)} - _names(LMInvalidRequestError)

__all__ = ["FAILURES_TO_STOP", "Executor", "Observer", "Outcome", "fingerprints", "missing", "zero_shot"]
