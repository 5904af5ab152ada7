"""The engine of a Ray cluster: each unit or training is a task that sends its trials back at once.

    Executor(player, tasks).run(plan, work, jobs=32)

A worker process opens its own session, with its own simulator, and keeps it for its next task. The store stays with the
driver: workers reach it through `Home`, an actor on the driver's node. A task whose node or process dies is started
again elsewhere and goes on after its last finished trial.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rsso_dspy.errors import RssoError, UsageError
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.integrations.ray.store_actor import StoreActor
from rsso_dspy.integrations.ray.worker import JobRecord, TaskFailure, TaskPayload, run_task
from rsso_dspy.store.units import Job

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


@contextmanager
def open_ray_engine(player: UnitRunner, jobs: int) -> Iterator["RayEngine"]:
    """Open an engine that plays as Ray tasks.

    Uses the cluster of RAY_ADDRESS or of `ray start` on this machine, otherwise a local one with `jobs` CPUs that ends
    with the block. Raises `UsageError` for an unusable address, and `RssoError` if no cluster answers there.
    """
    with _connect_ray(jobs):
        engine = RayEngine(player)
        try:
            yield engine
        finally:
            engine.close()


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
        _init_ray(jobs)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"RAY_ADDRESS={address}" if address else "this machine"
        raise RssoError(f"no Ray cluster can be used at {where} ({error}); see `ray status`, or unset it") from None
    if callable(terminate) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)  # Ray has installed its own handler, which ends the process
    try:
        yield
    finally:
        ray.shutdown()


def _init_ray(jobs: int) -> None:
    try:
        ray.init(num_cpus=jobs, object_store_memory=OBJECT_STORE, include_dashboard=False, **QUIET)
    except ValueError:  # an existing cluster has its own resources
        ray.init(**QUIET)


class RayEngine:
    """An engine that submits tasks and forwards their results to the player's events."""

    def __init__(self, player: UnitRunner):
        self._player = player
        here: Any = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor: Any = ray.remote(num_cpus=0, scheduling_strategy=here)(StoreActor)
        self._home = actor.remote(player.store.folder.resolve())
        self._errand = ray.put(TaskPayload.from_runner(player))
        self._task: Any = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(run_task)
        self._pending: set[ray.ObjectRef] = set()
        self._hearing = threading.Lock()
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._poll_events, name="ray-news", daemon=True)
        self._listener.start()

    def submit(self, plan: Plan, work: Job) -> Future[JobRecord]:
        """Start a task. Raises `RssoError` if the run's actor is gone.

        The future raises it if the task's process died too often, and the project's error that ended the task.
        """
        self._relay_events()
        reference = self._task.options(name=work.key).remote(self._home, self._errand, plan, work)
        self._pending.add(reference)
        answer: Future[JobRecord] = Future()
        reference.future().add_done_callback(partial(self._resolve_future, answer, work, reference))
        return answer

    def close(self) -> None:
        """Receive remaining events, and end current tasks."""
        self._closing.set()
        self._listener.join()
        with suppress(RssoError):
            self._relay_events()
        for reference in list(self._pending):
            ray.cancel(reference, force=True)
        ray.kill(self._home)

    def _resolve_future(
        self, answer: Future[JobRecord], work: Job, reference: ray.ObjectRef, done: Future[Any]
    ) -> None:
        self._pending.discard(reference)
        try:
            reply = done.result()
        except RayTaskError as error:
            answer.set_exception(error)  # a defect, with the worker's traceback
        except RayError as error:
            answer.set_exception(_make_lost_error(f"the process that played {work.key}", error))
        except BaseException as error:
            answer.set_exception(error)
        else:
            if isinstance(reply, TaskFailure):
                answer.set_exception(reply.to_exception())
            else:
                answer.set_result(reply)

    def _poll_events(self) -> None:
        while not self._closing.wait(NEWS):
            try:
                self._relay_events()
            except RssoError:
                self._player.stop.set()
                return

    def _relay_events(self) -> None:
        """Forward received events, and tell the store's actor when the run is being stopped."""
        with self._hearing:
            try:
                for event in ray.get(self._home.drain_events.remote()):
                    self._player.events.emit(event)
            except RayError as error:
                raise _make_lost_error("the actor that writes the run's folder", error) from None
            if self._player.stop.is_set():
                self._home.request_stop.remote()


def _make_lost_error(what: str, error: RayError) -> RssoError:
    first = (str(error).strip().splitlines() or [""])[0]
    return RssoError(
        f"{what} is lost ({type(error).__name__}: {first}). Finished trials are kept: check memory and disks of "
        "the nodes (`ray status`), then repeat the command."
    )
