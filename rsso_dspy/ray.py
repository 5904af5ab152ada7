"""The engine of a Ray cluster: each unit or training is a task that sends its lines and events home at once.

    Executor(player, open_ray_engine).run(plan, work, jobs=32)

A worker process opens its own session, with its own simulator, and keeps it for its next task. The store stays on the
driver's node. A task whose node or process dies is started again elsewhere.
"""

import logging
import os
import signal
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rsso_dspy.config import Config
from rsso_dspy.errors import DamagedFile, RssoError, Stopped, UsageError
from rsso_dspy.executor import Event, EventStream, Submit, UnitRunner, open_source
from rsso_dspy.files import read_bytes
from rsso_dspy.plan import Plan
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import make_provenance
from rsso_dspy.redact import redact
from rsso_dspy.sessions import Session, make_session
from rsso_dspy.store.run_folder import ORIGIN, Job, Store
from rsso_dspy.store.unit_log import JobRecord, UnitLog

RETRIES = 3  # maximum restarts of a task after its node or process died
NEWS = 0.2  # polling interval of the driver in seconds
OBJECT_STORE = 128 * 2**20  # bytes of shared memory of a local cluster: records are small and do not stay
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no usage reports
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise every start warns of a future change
}

Failed = tuple[type[BaseException], str]  # kind and text of an error, because some errors cannot be pickled


@contextmanager
def open_ray_engine(player: UnitRunner, jobs: int) -> Iterator[Submit]:
    """Open an engine that plays as Ray tasks, on the cluster of RAY_ADDRESS or of `ray start` on this machine,
    otherwise on a local one with `jobs` CPUs that ends with the block."""
    pool = ThreadPoolExecutor(jobs, "ray")
    pending: set[ray.ObjectRef] = set()
    receiving = threading.Lock()
    with _connect_ray(jobs):
        placement: Any = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor: Any = ray.remote(num_cpus=0, scheduling_strategy=placement)(StoreActor)
        home = actor.remote(player.store.folder.resolve())
        states = {arm: program.dump_state() for arm, program in player.programs.items()}
        shared_inputs = ray.put((player.live.config, states, player.provenance, player.carried))
        task: Any = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(run_task)

        def receive_events() -> None:
            """Forward the events of the workers in order, and tell these whether to stop."""
            with receiving:
                for event in ray.get(home.drain_events.remote(player.stop.is_set())):
                    player.events.emit(event)

        def play(plan: Plan, work: Job) -> JobRecord:
            """Play as a task. Raises the error that ended it, and `RssoError` if its process died too often."""
            reference = task.options(name=work.key).remote(home, shared_inputs, plan, work)
            pending.add(reference)
            try:
                while not ray.wait([reference], timeout=NEWS)[0]:
                    receive_events()
                receive_events()
                reply: JobRecord | Failed = ray.get(reference)
            except RayError as error:
                first = (str(error).strip().splitlines() or [""])[0]
                raise RssoError(
                    f"the process that played {work.key} is lost ({type(error).__name__}: {first}). Finished trials "
                    "are kept: check memory and disks of the nodes (`ray status`), then repeat the command."
                ) from None
            finally:
                pending.discard(reference)
            if isinstance(reply, tuple):
                raise reply[0].__new__(*reply)
            return reply

        try:
            yield lambda plan, work: pool.submit(play, plan, work)
        finally:
            pool.shutdown(wait=False)
            for reference in list(pending):
                ray.cancel(reference, force=True)
            ray.kill(home)


@contextmanager
def _connect_ray(jobs: int) -> Iterator[None]:
    address = os.environ.get("RAY_ADDRESS", "")
    if "://" in address:
        raise UsageError(
            f"RAY_ADDRESS={address} is not a cluster that this machine belongs to, and the run's folder is written "
            "here: `ray start --address=HOST:6379` on this machine, then RAY_ADDRESS=HOST:6379"
        )
    os.environ.update(ENVIRONMENT)
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(num_cpus=jobs, object_store_memory=OBJECT_STORE, include_dashboard=False, **QUIET)
        except ValueError:  # an existing cluster has its own resources
            ray.init(**QUIET)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"RAY_ADDRESS={address}" if address else "this machine"
        raise RssoError(f"no Ray cluster can be used at {where} ({error}); see `ray status`, or unset it") from None
    if callable(terminate) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)  # Ray has installed its own handler, which ends the process
    try:
        yield
    finally:
        ray.shutdown()


class StoreActor:
    """The store and the event queue of a run for its workers, on the driver's node. Handles calls one by one."""

    def __init__(self, folder: Path):
        ignore_interrupts()
        self._store = Store(folder)
        self._store.hold()
        self._events: list[Event] = []
        self._stopping = False
        self._tickets: Counter[str] = Counter()

    def issue_ticket(self, work: Job) -> int:
        """Return the ticket of a starting task, which voids earlier ones; 0 if the run is being stopped."""
        self._tickets[work.key] += 1
        return 0 if self._stopping else self._tickets[work.key]

    def open_log(self, work: Job) -> bytes:
        log = self._store.open_log(work)
        with suppress(FileNotFoundError, DamagedFile):
            return read_bytes(log.path)
        return b""

    def append_text(self, work: Job, ticket: int, text: str) -> None:
        if ticket != self._tickets[work.key]:
            raise RssoError(f"{work.key} is played by another process")
        self._store.append_text(self._store.path_of(work), text)

    def load(self, work: Job) -> Any:
        return self._store.load(work)

    def queue_event(self, event: Event) -> bool:
        self._events.append(event)
        return self._stopping

    def drain_events(self, stopping: bool) -> list[Event]:
        """Return the events since the last call. With `stopping`, every task stops after its next answer."""
        self._stopping = stopping
        events, self._events = self._events, []
        return events


class RemoteStore:
    """The remote store for one task, with the methods of `Store` that a player uses."""

    def __init__(self, home: Any, ticket: int):
        self.home, self.ticket = home, ticket

    def load(self, work: Job) -> Any:
        return ray.get(self.home.load.remote(work))

    def open_log(self, work: Job) -> UnitLog:
        def write(text: str) -> None:
            ray.get(self.home.append_text.remote(work, self.ticket, text))

        return UnitLog(ray.get(self.home.open_log.remote(work)), write, Path(work.key), whole=True)

    read_log = open_log


def run_task(home: Any, given: tuple[Any, ...], plan: Plan, work: Job) -> JobRecord | Failed:
    """Play a unit or training, unless a dead process had already finished it."""
    ignore_interrupts()
    try:
        if not (ticket := ray.get(home.issue_ticket.remote(work))):
            raise Stopped
        store = RemoteStore(home, ticket)
        events = EventStream()
        stop = threading.Event()
        record: JobRecord | None = store.load(work)
        if record is not None and not record.has_errors:
            return record

        def tell(event: Event) -> None:
            if ray.get(home.queue_event.remote(event)):
                stop.set()

        events.subscribe(Event, tell)
        config, states, provenance, carried = given
        live = open_worker_session(config.model_dump_json(), tuple(provenance.items()))
        program = Agent(work.arm.method.name)
        program.load_state(dict(states[work.arm]))
        programs = {work.arm: program}
        source = open_source(live)
        return UnitRunner(live, cast(Store, store), programs, provenance, carried, events, source, stop).run_job(
            plan, work
        )
    except (Stopped, ActorDiedError):  # without the actor the run is over
        return Stopped, ""
    except Exception as error:
        cause = error.cause if isinstance(error, RayTaskError) else error  # what the store raised
        if isinstance(cause, RssoError):
            return type(cause), redact(f"on node {socket.gethostname()}: {cause}")
        return RuntimeError, redact("".join(traceback.format_exception(cause)))


@cache
def open_worker_session(settings: str, then: tuple[tuple[str, str], ...]) -> Session:
    """Return this process's session. Raises `RssoError` if this installation would produce other records."""
    config = Config.model_validate_json(settings)
    provenance = make_provenance(config)
    differences = []
    for name, value in then:
        if name in ORIGIN and provenance.get(name) != value:
            differences.append(f"{name} {provenance.get(name)} instead of {value}")
    if differences:
        raise RssoError(
            f"this node has {', '.join(differences)}: install the same versions on every node of the cluster"
        )
    return make_session(config, 1)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver; a terminal also sends it to a local cluster's processes."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
