"""A worker process that plays a unit or training without access to the run's folder."""

import socket
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import ActorDiedError, RayTaskError

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import ORIGIN
from rsso_dspy.errors import FolderGone, MissingKey, RssoError, Stopped
from rsso_dspy.experiment.events import EventStream, TrialFinished, UsageSpent
from rsso_dspy.experiment.initial_memories import InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.provenance import make_provenance
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.experiment.unit_runner import UnitRunner, open_source
from rsso_dspy.integrations.ray.store_actor import ignore_interrupts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.redact import redact
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import JobRecord, UnitLog
from rsso_dspy.store.units import Arm, Job

ASKING = 0.5
"""Minimum seconds between a worker's checks whether the run is being stopped."""


@dataclass(frozen=True, slots=True)
class TaskPayload:
    """Data that every task of a run needs."""

    config: Config
    states: Mapping[Arm, Mapping[str, Any]]
    """DSPy's state of each program."""
    provenance: dict[str, str]
    carried: InitialMemories

    @staticmethod
    def from_runner(player: UnitRunner) -> "TaskPayload":
        states = {arm: program.dump_state() for arm, program in player.programs.items()}
        return TaskPayload(player.live.config, states, player.provenance, player.carried)

    def load_program(self, arm: Arm) -> Agent:
        agent = Agent(arm.method.name)
        agent.load_state(dict(self.states[arm]))
        return agent


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A task without a record: it was stopped, or one of the project's errors ended it.

    Errors travel as text, because some cannot be pickled.
    """

    kind: type[BaseException]
    text: str = ""

    def to_exception(self) -> BaseException:
        return self.kind.__new__(self.kind, self.text)


class RemoteStore:
    """The remote store for one task, with the methods of `Store` that a player uses."""

    def __init__(self, home: Any, ticket: int):
        self._home = home
        self._ticket = ticket

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self._home, method).remote(*arguments))
        except RayTaskError as error:
            if isinstance(error.cause, RssoError | OSError):
                raise error.cause from None
            raise

    def load(self, work: Job) -> Any:
        return self._call("load", work)

    def open_log(self, work: Job) -> UnitLog:
        return UnitLog(
            self._call("open_log", work),
            lambda text: self._call("append_text", work, self._ticket, text),
            Path(work.key),
            whole=True,
        )


class RemoteStop(threading.Event):
    """Returns whether the driver is stopping the run."""

    def __init__(self, home: Any):
        super().__init__()
        self._home = home
        self._next = 0.0

    def is_set(self) -> bool:
        if not super().is_set() and time.monotonic() >= self._next:
            self._next = time.monotonic() + ASKING
            if ray.get(self._home.is_stopping.remote()):
                self.set()
        return super().is_set()


def run_task(home: Any, errand: TaskPayload, plan: Plan, work: Job) -> JobRecord | TaskFailure:
    """Play a unit or training, unless a dead process had already finished it."""
    ignore_interrupts()
    try:
        ticket = ray.get(home.issue_ticket.remote(work))
        if not ticket:
            raise Stopped
        store = RemoteStore(home, ticket)
        return _load_finished(store, work) or _make_runner(home, errand, work, store).run_job(plan, work)
    except Stopped:
        return TaskFailure(Stopped)
    except MissingKey as error:
        return TaskFailure(
            MissingKey, f"{_describe_node()}: {error}. Keys are taken from the environment of each node's `ray start`"
        )
    except FolderGone as error:  # at home
        return TaskFailure(FolderGone, str(error))
    except RssoError as error:
        return TaskFailure(type(error), redact(f"{_describe_node()}: {error}"))
    except ActorDiedError:  # the run is over
        return TaskFailure(Stopped)
    except Exception as error:
        said = "".join(traceback.format_exception(error))
        if redact(said) == said:
            raise
        defect = RuntimeError(redact(said))
    raise defect  # outside of the handler, or the first error would travel along


def _load_finished(store: RemoteStore, work: Job) -> JobRecord | None:
    record: JobRecord | None = store.load(work)
    return None if record is None or record.has_errors else record


def _make_runner(home: Any, errand: TaskPayload, work: Job, store: RemoteStore) -> UnitRunner:
    events = EventStream()
    for kind in (UsageSpent, TrialFinished):
        events.subscribe(kind, home.tell.remote, required=True)
    live = _get_session(errand.config.model_dump_json(), tuple(errand.provenance.items()))
    player = UnitRunner(
        live,
        cast(Store, store),
        {work.arm: errand.load_program(work.arm)},
        errand.provenance,
        errand.carried,
        events,
        open_source(live),
    )
    player.stop = RemoteStop(home)
    return player


_OPEN = ExitStack()
"""Session of this worker process; its simulator ends with the process."""

_opened: dict[tuple[str, tuple[tuple[str, str], ...]], Session] = {}


def _get_session(config: str, source: tuple[tuple[str, str], ...]) -> Session:
    """Return this process's session of a configuration, opened on first use."""
    if (config, source) not in _opened:
        _OPEN.close()
        _opened.clear()
        settings = Config.model_validate_json(config)
        _check_versions(dict(source), make_provenance(settings))
        _opened[config, source] = _OPEN.enter_context(session(settings))
    return _opened[config, source]


def _check_versions(wanted: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise `RssoError` if this installation would produce other records than the driver's."""
    names = [name for name in ("rsso_dspy", "dspy", *ORIGIN, "prompts", "config_hash") if name in wanted]
    other = [f"{name} {here.get(name)} instead of {wanted[name]}" for name in names if here.get(name) != wanted[name]]
    if other:
        raise RssoError(f"this node has {', '.join(other)}: install the same versions on every node of the cluster")


def _describe_node() -> str:
    return f"on node {ray.util.get_node_ip_address()} ({socket.gethostname()})"
