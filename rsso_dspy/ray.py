"""The engine of a Ray cluster: each unit or training is a task that sends its lines and events home at once.

    Executor(player, open_ray_engine).run(plan, work, jobs=32)

A worker process opens its own session, with its own simulator, and keeps it for its next task. The store stays with the
driver: workers reach it through `StoreActor` on the driver's node. A task whose node or process dies is started again
elsewhere and goes on after its last finished trial.
"""

import logging
import os
import signal
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rsso_dspy.config import Config
from rsso_dspy.errors import DamagedFile, RssoError, Stopped, UsageError
from rsso_dspy.executor import Event, EventStream, Submit, UnitRunner, open_source
from rsso_dspy.files import read_bytes
from rsso_dspy.memory_files import InitialMemories
from rsso_dspy.plan import Plan
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import make_provenance
from rsso_dspy.redact import redact
from rsso_dspy.sessions import Session, session
from rsso_dspy.store.run_folder import ORIGIN, Arm, Job, Store
from rsso_dspy.store.unit_log import JobRecord, UnitLog

RETRIES = 3
"""Maximum restarts of a task after its node or process died."""

NEWS = 0.2
"""Polling interval of the driver in seconds."""

OBJECT_STORE = 128 * 2**20
"""Bytes of shared memory of a local cluster: records are small and do not stay."""

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no usage reports
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise every start warns of a future change
}


# The driver


@contextmanager
def open_ray_engine(player: UnitRunner, jobs: int) -> Iterator[Submit]:
    """Open an engine that plays as Ray tasks.

    Uses the cluster of RAY_ADDRESS or of `ray start` on this machine, otherwise a local one with `jobs` CPUs that ends
    with the block. Raises `UsageError` for an unusable address, and `RssoError` if no cluster answers there.
    """
    pool = ThreadPoolExecutor(jobs, "ray")
    with _connect_ray(jobs):
        cluster = Cluster(player)
        try:
            yield lambda plan, work: pool.submit(cluster.play, plan, work)
        finally:
            pool.shutdown(wait=False)
            cluster.close()


@contextmanager
def _connect_ray(jobs: int) -> Iterator[None]:
    """Connect to Ray, or use and keep an existing connection."""
    if ray.is_initialized():
        yield
        return
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


class Cluster:
    """Plays tasks, and forwards their events to those of the player."""

    def __init__(self, player: UnitRunner):
        self._player = player
        here: Any = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor: Any = ray.remote(num_cpus=0, scheduling_strategy=here)(StoreActor)
        self._home = actor.remote(player.store.folder.resolve())
        states = {arm: program.dump_state() for arm, program in player.programs.items()}
        self._payload = ray.put(TaskPayload(player.live.config, states, player.provenance, player.carried))
        self._task: Any = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(run_task)
        self._pending: set[ray.ObjectRef] = set()
        self._failure: BaseException | None = None
        """Why events are no longer forwarded."""
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._forward_events, name="ray-events", daemon=True)
        self._listener.start()

    def play(self, plan: Plan, work: Job) -> JobRecord:
        """Play as a task. Raises the error that ended it, and `RssoError` if its process died too often."""
        reference = self._task.options(name=work.key).remote(self._home, self._payload, plan, work)
        self._pending.add(reference)
        try:
            reply: JobRecord | TaskFailure = ray.get(reference)
        except RayError as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise RssoError(
                f"the process that played {work.key} is lost ({type(error).__name__}: {first}). Finished trials are "
                "kept: check memory and disks of the nodes (`ray status`), then repeat the command."
            ) from None
        finally:
            self._pending.discard(reference)
        if self._failure is not None:
            raise self._failure
        if isinstance(reply, TaskFailure):
            raise reply.kind.__new__(reply.kind, reply.text)
        return reply

    def close(self) -> None:
        self._closing.set()
        self._listener.join()
        for reference in list(self._pending):
            ray.cancel(reference, force=True)
        ray.kill(self._home)
        if self._failure is not None:
            raise self._failure

    def _forward_events(self) -> None:
        """Forward events until the engine closes, and tell the workers when the run is being stopped. What fails here
        stops the run."""
        try:
            while self._failure is None:
                closing = self._closing.wait(NEWS)
                for event in ray.get(self._home.drain_events.remote(self._player.stop.is_set())):
                    self._player.events.emit(event)
                if closing:
                    return
        except BaseException as error:
            self._failure = error
            self._player.stop.set()
            with suppress(RayError):
                ray.get(self._home.drain_events.remote(True))


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
        """Return the ticket of a starting task; 0 if the run is being stopped.

        Earlier tickets for the same work become void, because their process is dead.
        """
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


# A worker


@dataclass(frozen=True, slots=True)
class TaskPayload:
    """Data that every task of a run needs."""

    config: Config
    states: Mapping[Arm, Mapping[str, Any]]
    """DSPy's state of each program."""
    provenance: dict[str, str]
    carried: InitialMemories


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A task without a record. Errors travel as text, because some cannot be pickled."""

    kind: type[BaseException]
    text: str = ""


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """The remote store for one task, with the methods of `Store` that a player uses."""

    home: Any
    ticket: int

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self.home, method).remote(*arguments))
        except RayTaskError as error:
            if isinstance(error.cause, RssoError | OSError):
                raise error.cause from None
            raise

    def load(self, work: Job) -> Any:
        return self._call("load", work)

    def open_log(self, work: Job) -> UnitLog:
        def write(text: str) -> None:
            self._call("append_text", work, self.ticket, text)

        return UnitLog(self._call("open_log", work), write, Path(work.key), whole=True)


def run_task(home: Any, payload: TaskPayload, plan: Plan, work: Job) -> JobRecord | TaskFailure:
    """Play a unit or training, unless a dead process had already finished it."""
    ignore_interrupts()
    try:
        if not (ticket := ray.get(home.issue_ticket.remote(work))):
            raise Stopped
        store, events, stop = RemoteStore(home, ticket), EventStream(), threading.Event()
        record: JobRecord | None = store.load(work)
        if record is not None and not record.has_errors:
            return record

        def tell(event: Event) -> None:
            if ray.get(home.queue_event.remote(event)):
                stop.set()

        events.subscribe(Event, tell)
        live = _open_session(payload)
        program = Agent(work.arm.method.name)
        program.load_state(dict(payload.states[work.arm]))
        programs, source = {work.arm: program}, open_source(live)
        player = UnitRunner(
            live, cast(Store, store), programs, payload.provenance, payload.carried, events, source, stop
        )
        return player.run_job(plan, work)
    except (Stopped, ActorDiedError):  # without the actor the run is over
        return TaskFailure(Stopped)
    except RssoError as error:
        return TaskFailure(type(error), redact(f"on node {socket.gethostname()}: {error}"))
    except Exception as error:
        return TaskFailure(RuntimeError, redact("".join(traceback.format_exception(error))))


_STACK = ExitStack()
"""Closes the session of this worker process; its simulator ends with the process."""

_sessions: dict[str, Session] = {}
"""The session of this process, by its configuration."""


def _open_session(payload: TaskPayload) -> Session:
    """Return this process's session of a configuration, opened on first use. Raises `RssoError` if this installation
    would produce other records than the driver's."""
    key, then = payload.config.model_dump_json(), payload.provenance
    if key not in _sessions:
        _STACK.close()
        _sessions.clear()
        config = Config.model_validate_json(key)
        here = make_provenance(config)
        names = [name for name in ORIGIN if name in then]
        if other := [f"{n} {here.get(n)} instead of {then[n]}" for n in names if here.get(n) != then[n]]:
            raise RssoError(f"this node has {', '.join(other)}: install the same versions on every node of the cluster")
        _sessions[key] = _STACK.enter_context(session(config))
    return _sessions[key]


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver; a terminal also sends it to a local cluster's processes."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
