"""Away: what a worker process does with a unit or training, far from the run's folder."""

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
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol.cluster.home import leave_interrupts
from rsso_dspy.protocol.events import EventStream, TrialFinished
from rsso_dspy.protocol.plan import Plan
from rsso_dspy.protocol.playing import Carried, Player
from rsso_dspy.protocol.provenance import provenance
from rsso_dspy.protocol.session import Session, session
from rsso_dspy.protocol.store import Store
from rsso_dspy.protocol.units import Arm, Training, Work
from rsso_dspy.redaction import redact
from rsso_dspy.trajectory import TrainingRecord, UnitRecord, Usage

ASKING = 0.5
"""Seconds that a worker plays on, at least, before it asks again whether the run is being stopped."""

Record = UnitRecord | TrainingRecord


@dataclass(frozen=True, slots=True)
class Errand:
    """What every task of a run needs to know, as data."""

    config: Config
    states: Mapping[Arm, Mapping[str, Any]]
    """DSPy's state of each program."""
    provenance: dict[str, str]
    carried: Carried
    records: bool = False
    """Whether exchanges with models are kept."""

    @staticmethod
    def of(player: Player) -> "Errand":
        states = {arm: program.dump_state() for arm, program in player.programs.items()}
        return Errand(player.live.config, states, player.provenance, player.carried, player.records)

    def program(self, arm: Arm) -> Agent:
        agent = Agent(arm.method.name)
        agent.load_state(dict(self.states[arm]))
        return agent


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that has no record: it was stopped, or one of the project's errors ended it. Errors travel as their text,
    since not all of them can be pickled."""

    kind: type[BaseException]
    text: str = ""

    def error(self) -> BaseException:
        return self.kind.__new__(self.kind, self.text)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the store at home."""

    away: "Away"
    path: Path


class Away:
    """The store at home, for one task: what a player uses of `Store`."""

    def __init__(self, home: Any, key: str, ticket: int):
        self._home = home
        self._key = key
        self._ticket = ticket

    def ask(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(self._home.ask.remote(self._key, self._ticket, method, *arguments))
        except RayTaskError as error:
            if isinstance(error.cause, RssoError | OSError):
                raise error.cause from None
            raise

    def path_of(self, work: Work | Record) -> File:
        return File(self, self.ask("path_of", work))

    def started(self, file: File) -> File:
        return File(self, self.ask("started", file.path))

    def load(self, file: File) -> UnitRecord | None:
        return self.ask("load", file.path)

    def load_training(self, file: File) -> TrainingRecord | None:
        return self.ask("load_training", file.path)

    def save(self, record: Record) -> File:
        return File(self, self.ask("save", record))

    def save_started(self, record: Record) -> None:
        self.ask("save_started", record)

    def add_recording(self, name: str, trial: int, data: bytes) -> None:
        self.ask("add_recording", name, trial, data)

    def cut_recording(self, name: str, trials: int) -> None:
        self.ask("cut_recording", name, trials)

    def note_seconds(self, unit: str, trial: int, seconds: float) -> None:
        self.ask("note_seconds", unit, trial, seconds)

    def note_under_way(self, work: Work, role: str, usage: Usage, trial: int) -> None:
        self._home.spent.remote(work, role, usage, trial)  # nobody waits for it

    def forget_under_way(self, work: Work) -> None:
        self.ask("forget_under_way", work)

    def recover_under_way(self, work: Work) -> None:
        self.ask("recover_under_way", work)

    def give_up(self, arm: str, unit: str, file: File, usage: Mapping[str, Usage]) -> None:
        self.ask("give_up", arm, unit, file.path, usage)


class Stop(threading.Event):
    """Is set once the run is being stopped at home."""

    def __init__(self, home: Any):
        super().__init__()
        self._home = home
        self._next = 0.0

    def is_set(self) -> bool:
        if not super().is_set() and time.monotonic() >= self._next:
            self._next = time.monotonic() + ASKING
            if ray.get(self._home.stopping.remote()):
                self.set()
        return super().is_set()


def play(home: Any, errand: Errand, plan: Plan, work: Work) -> Record | Ended:
    """The task: play a unit or training. One that a dead process had finished already is not played again."""
    leave_interrupts()
    try:
        ticket = ray.get(home.begin.remote(work))
        if not ticket:
            raise Stopped
        store = Away(home, work.key, ticket)
        return _finished(store, work) or _player(home, errand, work, store).play(plan, work)
    except Stopped:
        return Ended(Stopped)
    except MissingKey as error:
        return Ended(MissingKey, f"{_node()}: {error}. Keys are taken from the environment of each node's `ray start`")
    except FolderGone as error:  # at home
        return Ended(FolderGone, str(error))
    except RssoError as error:
        return Ended(type(error), redact(f"{_node()}: {error}"))
    except ActorDiedError:  # the run is over
        return Ended(Stopped)
    except Exception as error:
        said = "".join(traceback.format_exception(error))
        if redact(said) == said:
            raise
        defect = RuntimeError(redact(said))
    raise defect  # outside of the handler: the first would travel with it


def _finished(store: Away, work: Work) -> Record | None:
    file = store.path_of(work)
    record = store.load_training(file) if isinstance(work, Training) else store.load(file)
    return None if record is None or record.errored else record


def _player(home: Any, errand: Errand, work: Work, store: Away) -> Player:
    events = EventStream()
    events.subscribe(TrialFinished, home.tell.remote, required=True)
    player = Player(
        _session(errand.config.model_dump_json(), tuple(errand.provenance.items())),
        cast(Store, store),
        {work.arm: errand.program(work.arm)},
        errand.provenance,
        errand.carried,
        events,
        errand.records,
    )
    player.stop = Stop(home)
    return player


_OPEN = ExitStack()
"""The session of this worker process; its simulator ends with the process."""

_opened: dict[tuple[str, tuple[tuple[str, str], ...]], Session] = {}


def _session(config: str, source: tuple[tuple[str, str], ...]) -> Session:
    """This process's session of a configuration, opened when it is first asked for."""
    if (config, source) not in _opened:
        _OPEN.close()
        _opened.clear()
        settings = Config.model_validate_json(config)
        _check_versions(dict(source), provenance(settings))
        _opened[config, source] = _OPEN.enter_context(session(settings))
    return _opened[config, source]


def _check_versions(wanted: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise `RssoError` when this installation would leave other records than the driver's."""
    names = [name for name in ("rsso_dspy", "dspy", *ORIGIN, "prompts", "config_hash") if name in wanted]
    other = [f"{name} {here.get(name)} instead of {wanted[name]}" for name in names if here.get(name) != wanted[name]]
    if other:
        raise RssoError(f"this node has {', '.join(other)}: install the same versions on every node of the cluster")


def _node() -> str:
    return f"on node {ray.util.get_node_ip_address()} ({socket.gethostname()})"
