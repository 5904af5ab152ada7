"""A run on an MLflow tracking server, as it goes on: numbers per arm, and at its end the report.

    server = reach("http://127.0.0.1:5000")
    Tracking(server, run, report, say).follow(events)
    run.play(live, 2, events=events)

Everything that is sent is made from the records, each point at the step (units and trainings of the arm that are
finished) and the time of its record. So a server that was away, and a run that is continued, end with the history they
would have had: what the server does not know yet is sent, and nothing twice. A thread of its own sends; the run waits
for it at its end alone. What is sent is in `mlflow_payload.py`.
"""

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rsso_dspy.addresses import keep_direct
from rsso_dspy.config import prices
from rsso_dspy.errors import UsageError
from rsso_dspy.protocol.events import Ending, EventStream, RunEnded, RunStarted, UnitFinished
from rsso_dspy.protocol.mlflow_payload import identity_of, name_of, numbers, parameters, tags_of
from rsso_dspy.protocol.store import Store
from rsso_dspy.redaction import redact
from rsso_dspy.report.tally import Finished, Tally, finished
from rsso_dspy.trajectory import TrainingRecord, UnitRecord

if TYPE_CHECKING:
    from rsso_dspy.protocol.held_out import HeldOut

EXPERIMENT = "rsso-dspy"
ID_TAG = "rsso_dspy.id"
STATUS: Mapping[Ending, str] = {"ended": "FINISHED", "limit": "KILLED", "interrupted": "KILLED", "failed": "FAILED"}
SETTINGS = {
    # The run needs no answer for long, and what a server misses is made good later.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""MLflow's, unless the environment says otherwise."""
AT_ONCE = 1000
"""Metrics that a server takes in one request."""

Files = Callable[..., Mapping[str, str]]
"""The report as files, name to content; `report.files.report_files` is one."""


@dataclass(frozen=True, slots=True)
class Server:
    """A tracking server that answers."""

    client: Any
    uri: str
    experiment: str


def check_address(uri: str) -> None:
    """Raise `UsageError` for what cannot be the address of a server, and when MLflow is not installed. Asks nobody."""
    try:
        parts = urlsplit(uri)
        parts = parts if (parts.port or 1) > 0 else urlsplit("")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--mlflow {uri!r} is not the address of a tracking server, like http://127.0.0.1:5000")
    if parts.username or parts.password:
        raise UsageError("--mlflow takes no password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")
    if find_spec("mlflow") is None:
        raise UsageError("--mlflow needs MLflow, which is not installed: pip install 'rsso-dspy[mlflow]'")


def reach(uri: str) -> Server:
    """The server at an address. Raises what `check_address` raises, and `UsageError` when the server does not answer
    within seconds."""
    check_address(uri)
    keep_direct(uri)
    client_of = _mlflow()
    try:
        client = client_of(tracking_uri=uri)
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
    except Exception as error:
        raise UsageError(
            f"no MLflow tracking server answers at {uri} ({_why(error)}): start one, e.g. `mlflow server --host "
            "127.0.0.1 --port 5000`, or mend --mlflow; MLFLOW_TRACKING_USERNAME and _PASSWORD are for one that asks"
        ) from None
    if found and found.lifecycle_stage != "active":
        raise UsageError(f"the experiment {EXPERIMENT} is deleted at {uri}: mlflow experiments restore -x {experiment}")
    return Server(client, uri, experiment)


def _mlflow() -> Callable[..., Any]:
    """MLflow's client, which tells nobody else about its use."""
    os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"})
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    return MlflowClient


class Tracking:
    """Sends a run to a server. `report` gives the files to keep there at the end; `say` is told when
    the server is lost."""

    def __init__(self, server: Server, planned: "HeldOut", report: Files, say: Callable[[str], None]):
        self._server = server
        self._planned = planned
        self._report = report
        self._say = say
        self._price_of = prices(planned.config.prices)
        self._news: SimpleQueue[UnitRecord | TrainingRecord | Ending] = SimpleQueue()
        self._lost = threading.Event()
        self._end: Ending | None = None
        self._tallies: dict[str, Tally] = defaultdict(Tally)
        self._known: dict[str, int] = {}
        self._thread = threading.Thread(target=self._send, name="mlflow", daemon=True)

    def follow(self, events: EventStream) -> None:
        """Send what is told there from now on."""
        events.subscribe(RunStarted, lambda _: self._thread.start())
        events.subscribe(UnitFinished, self._take)
        events.subscribe(RunEnded, self._end_with)

    def _take(self, event: UnitFinished) -> None:
        if not self._lost.is_set():
            self._news.put(event.record)

    def _end_with(self, event: RunEnded) -> None:
        self._news.put(event.how)
        self._thread.join()

    def _point(self, record: UnitRecord | TrainingRecord) -> tuple[Finished, int]:
        """What it adds, and when it was written, in milliseconds."""
        return finished(record, self._price_of), self._planned.store.path_of(record).stat().st_mtime_ns // 1_000_000

    def _send(self) -> None:
        try:
            self._follow()
        except Exception as error:  # whatever a server or the client does, the run goes on
            self._lost.set()
            self._say(f"MLflow at {self._server.uri} is lost ({_why(error)}): the run goes on without it")
            self._after_all()

    def _after_all(self) -> None:
        """Once the run has ended, the server may be back."""
        while self._end is None:
            if isinstance(news := self._news.get(), str):
                self._end = news
        try:
            self._conclude(self._make_good(), self._end)
        except Exception as error:
            self._say(
                f"MLflow at {self._server.uri} does not have all of this run ({_why(error)}): the same command again "
                "sends what is missing"
            )

    def _follow(self) -> None:
        run = self._make_good()
        while self._end is None:
            news = self._news.get()
            if isinstance(news, str):
                self._end = news
            else:
                self._log(run, list(self._metrics(*self._point(news))))
        self._conclude(run, self._end)

    def _make_good(self) -> str:
        """The MLflow run of the folder, with everything that the records hold so far; gives its id."""
        client, planned = self._server.client, self._planned
        tags = {ID_TAG: identity_of(planned.store.folder, planned.store.place.write), **tags_of(planned)}
        found = client.search_runs([self._server.experiment], f"tags.`{ID_TAG}` = '{tags[ID_TAG]}'", max_results=1)
        if found:
            run = found[0].info.run_id
            client.update_run(run, status="RUNNING")
        else:
            run = client.create_run(self._server.experiment, run_name=planned.store.folder.resolve().name).info.run_id
        self._describe(run, tags, found[0].data.params if found else {})
        self._tallies.clear()
        self._known = {arm: self._steps(run, arm) for arm in planned.plan.arms} if found else {}
        store = self._store()
        points = [self._point(record) for each in (store.units(), store.trainings()) for record in each]
        self._log(
            run, [metric for point in sorted(points, key=lambda point: point[1]) for metric in self._metrics(*point)]
        )
        return run

    def _store(self) -> Store:
        """The folder, to be read."""
        store = Store(self._planned.store.folder)
        store.read_only = True
        return store

    def _describe(self, run: str, tags: Mapping[str, str], known: Mapping[str, str]) -> None:
        """Parameters stand for good; those of a plan that grew are told as tags."""
        from mlflow.entities import Param, RunTag

        asked = parameters(self._planned)
        grown = {f"rsso_dspy.now.{key}": value for key, value in asked.items() if known.get(key, value) != value}
        self._server.client.log_batch(
            run,
            params=[Param(key, value) for key, value in asked.items() if key not in known],
            tags=[RunTag(key, value) for key, value in {**tags, **grown}.items()],
        )

    def _steps(self, run: str, arm: str) -> int:
        """The last step of an arm that the server knows; -1 when none."""
        history = self._server.client.get_metric_history(run, f"{name_of(arm)}/units")
        return max((metric.step for metric in history), default=-1)

    def _metrics(self, new: Finished, when: int) -> Iterator[Any]:
        """The point that it makes, unless it is known."""
        tally = self._tallies[new.arm]
        if tally.add(new) and tally.finished > self._known.get(new.arm, -1):
            yield from _metrics_of(new.arm, tally, when)

    def _log(self, run: str, metrics: list[Any]) -> None:
        for start in range(0, len(metrics), AT_ONCE):
            self._server.client.log_batch(run, metrics=metrics[start : start + AT_ONCE])

    def _conclude(self, run: str, how: Ending) -> None:
        """The end: what the last points do not say, the report, and how it ended."""
        client, now = self._server.client, time.time_ns() // 1_000_000
        there = client.get_run(run).data.metrics
        last = [metric for arm, tally in self._tallies.items() for metric in _metrics_of(arm, tally, now)]
        self._log(run, [metric for metric in last if there.get(metric.key) != metric.value])
        config = json.dumps(self._planned.config.resolved(), indent=1) + "\n"
        store = self._store()
        records = list(store.units()), list(store.trainings())
        files = self._report(*records, self._price_of, store.abandoned(), store.begun())
        for name, text in {"config.json": config, **files}.items():
            client.log_text(run, redact(text), name)
        client.set_tag(run, "rsso_dspy.ended", how)
        client.set_terminated(run, STATUS[how])


def _metrics_of(arm: str, tally: Tally, when: int) -> Iterator[Any]:
    from mlflow.entities import Metric

    for name, value in numbers(tally):
        yield Metric(f"{name_of(arm)}/{name}", value, when, tally.finished)


def _why(error: Exception) -> str:
    """The end of what the error says, where its cause is, on one line."""
    said = "".join(letter if letter.isprintable() else " " for letter in redact(str(error)))
    return f"{type(error).__name__}: {'...' if len(said) > 120 else ''}{said[-120:]}"
