"""Tracking of a run with MLflow: metrics per arm during the run, and the report at its end.

    server = connect_server("http://127.0.0.1:5000")    # or "sqlite:///mlruns.db", or "file:./mlruns"
    MlflowTracker(server, run, report, say).follow(events)
    run.play(live, 2, events=events)

All data comes from the records; each point has the step (finished units and trainings of the arm) and time of its
record. So after an outage of the server or a resumed run the history is complete: only missing points are sent. A
separate thread sends them; the run waits for it only at its end. `mlflow_payload.py` builds the data.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rsso_dspy.addresses import bypass_proxy, is_server_address
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.events import Ending
from rsso_dspy.integrations.mlflow_payload import build_metrics, build_parameters, build_tags, ensure_mlflow_id, name_of
from rsso_dspy.integrations.tracker import ReportBuilder, Tracker
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.redaction import redact
from rsso_dspy.report.running_totals import FinishedTotals, RunningTotals, compute_finished_totals

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run

EXPERIMENT = "rsso-dspy"
ID_TAG = "rsso_dspy.id"
STATUS: Mapping[Ending, str] = {"ended": "FINISHED", "limit": "KILLED", "interrupted": "KILLED", "failed": "FAILED"}
SETTINGS = {
    # The run does not depend on answers, and missing points are sent later.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",  # a new database would list its tables
    # MLflow 3 opens a folder for those only who ask; whoever passes file:./mlruns asks.
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
"""MLflow's own settings, unless the environment sets them."""
AT_ONCE = 1000
"""Maximum metrics per request."""


@dataclass(frozen=True, slots=True)
class MlflowServer:
    """A tracking server that answers, or a database or folder that MLflow can write."""

    client: Any
    uri: str
    experiment: str


def check_server_address(uri: str) -> None:
    """Raise `UsageError` for an invalid address, or if MLflow is not installed. Sends nothing."""
    if not (is_server_address(uri) or _is_file(uri)):
        raise UsageError(
            f"--mlflow {uri!r} is not where MLflow keeps runs: pass the address of a tracking server, like "
            "http://127.0.0.1:5000, a database, like sqlite:///mlruns.db, or a folder, like file:./mlruns"
        )
    if "@" in urlsplit(uri).netloc:
        raise UsageError("--mlflow takes no password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")
    if find_spec("mlflow") is None:
        raise UsageError("--mlflow needs MLflow, which is not installed: pip install 'rsso-dspy[mlflow]'")


def _is_file(uri: str) -> bool:
    """Return whether an address is of a database file or a folder, which MLflow writes without a server."""
    return re.fullmatch(r"sqlite:///.*[^/]|file:(?!//[^/]).*[^/]", uri) is not None


def connect_server(uri: str) -> MlflowServer:
    """Connect to the server, database or folder at an address.

    Raises what `check_server_address` raises, and `UsageError` if the server does not answer within seconds or the
    database or folder cannot be written.
    """
    check_server_address(uri)
    bypass_proxy(uri)
    client_of = _import_client()
    try:
        client = client_of(tracking_uri=uri)
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
    except Exception as error:
        if _is_file(uri):
            raise UsageError(f"MLflow cannot write {uri} ({_format_error(error)}): correct --mlflow") from None
        raise UsageError(
            f"no MLflow tracking server answers at {uri} ({_format_error(error)}): start one, e.g. `mlflow server "
            "--host 127.0.0.1 --port 5000`, or correct --mlflow; for a login set MLFLOW_TRACKING_USERNAME and _PASSWORD"
        ) from None
    if found and found.lifecycle_stage != "active":
        raise UsageError(f"the experiment {EXPERIMENT} is deleted at {uri}: mlflow experiments restore -x {experiment}")
    return MlflowServer(client, uri, experiment)


def _import_client() -> Callable[..., Any]:
    """Return MLflow's client with telemetry disabled."""
    os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"})
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    return MlflowClient


class MlflowTracker(Tracker):
    """Sends a run to an MLflow server, database or folder."""

    def __init__(self, server: MlflowServer, planned: "Run", report: ReportBuilder, say: Callable[[str], None]):
        super().__init__(planned, report, say)
        self._server = server
        self._end: Ending | None = None
        self._known: dict[str, int] = {}

    def _make_point(self, record: UnitRecord | TrainingRecord) -> tuple[FinishedTotals, int]:
        """Return the data of a record and its time in milliseconds."""
        written = self._planned.store.path_of(record).stat().st_mtime_ns
        return compute_finished_totals(record, self._price_of), written // 1_000_000

    def _run_sender(self) -> None:
        try:
            self._send_live()
        except Exception as error:  # the run goes on whatever server or client do
            self._say(f"MLflow at {self._server.uri} is lost ({_format_error(error)}): the run goes on without it")
            self._retry_after_end()

    def _retry_after_end(self) -> None:
        """Try again at the end of the run, when the server may be back."""
        while self._end is None:
            if isinstance(news := self._news.get(), str):
                self._end = news
        try:
            self._finish_run(self._send_backlog(), self._end)
        except Exception as error:
            self._say(
                f"MLflow at {self._server.uri} does not have all of this run ({_format_error(error)}): "
                "repeat the command to send the rest"
            )

    def _send_live(self) -> None:
        run = self._send_backlog()
        while self._end is None:
            news = self._news.get()
            if isinstance(news, str):
                self._end = news
            else:
                self._log_metrics(run, list(self._make_metrics(*self._make_point(news))))
        self._finish_run(run, self._end)

    def _send_backlog(self) -> str:
        """Create or find the MLflow run of the folder, send everything in the records so far, and return its id."""
        client, planned = self._server.client, self._planned
        tags = {ID_TAG: ensure_mlflow_id(planned.store.folder, planned.store.place.write), **build_tags(planned)}
        found = client.search_runs([self._server.experiment], f"tags.`{ID_TAG}` = '{tags[ID_TAG]}'", max_results=1)
        if found:
            run = found[0].info.run_id
            client.update_run(run, status="RUNNING")
        else:
            run = client.create_run(self._server.experiment, run_name=planned.store.folder.resolve().name).info.run_id
        self._log_parameters(run, tags, found[0].data.params if found else {})
        self._tallies.clear()
        self._known = {arm: self._get_last_step(run, arm) for arm in planned.plan.arms} if found else {}
        store = self._open_store()
        points = [self._make_point(record) for each in (store.units(), store.trainings()) for record in each]
        points.sort(key=lambda point: point[1])
        self._log_metrics(run, [metric for point in points for metric in self._make_metrics(*point)])
        return run

    def _log_parameters(self, run: str, tags: Mapping[str, str], known: Mapping[str, str]) -> None:
        """Log parameters, which are immutable; changed ones of a larger plan become tags."""
        from mlflow.entities import Param, RunTag

        asked = build_parameters(self._planned)
        grown = {f"rsso_dspy.now.{key}": value for key, value in asked.items() if known.get(key, value) != value}
        self._server.client.log_batch(
            run,
            params=[Param(key, value) for key, value in asked.items() if key not in known],
            tags=[RunTag(key, value) for key, value in {**tags, **grown}.items()],
        )

    def _get_last_step(self, run: str, arm: str) -> int:
        """Return the last step of an arm on the server; -1 if none."""
        history = self._server.client.get_metric_history(run, f"{name_of(arm)}/units")
        return max((metric.step for metric in history), default=-1)

    def _make_metrics(self, new: FinishedTotals, when: int) -> Iterator[Any]:
        """Send the point of a record, unless the server has it."""
        tally = self._tallies[new.arm]
        if tally.add_finished(new) and tally.finished_count > self._known.get(new.arm, -1):
            yield from _iterate_metrics(new.arm, tally, when)

    def _log_metrics(self, run: str, metrics: list[Any]) -> None:
        for start in range(0, len(metrics), AT_ONCE):
            self._server.client.log_batch(run, metrics=metrics[start : start + AT_ONCE])

    def _finish_run(self, run: str, how: Ending) -> None:
        """Send final metrics, the report and the status."""
        client, now = self._server.client, time.time_ns() // 1_000_000
        there = client.get_run(run).data.metrics
        last = [metric for arm, tally in self._tallies.items() for metric in _iterate_metrics(arm, tally, now)]
        self._log_metrics(run, [metric for metric in last if there.get(metric.key) != metric.value])
        config = json.dumps(self._planned.config.resolve_settings(), indent=1) + "\n"
        for name, text in {"config.json": config, **self._build_report()}.items():
            client.log_text(run, redact(text), name)
        client.set_tag(run, "rsso_dspy.ended", how)
        client.set_terminated(run, STATUS[how])


def _iterate_metrics(arm: str, tally: RunningTotals, when: int) -> Iterator[Any]:
    from mlflow.entities import Metric

    for name, value in build_metrics(tally):
        yield Metric(f"{name_of(arm)}/{name}", value, when, tally.finished_count)


def _format_error(error: Exception) -> str:
    """Return the end of an error's message, which names the cause, on one line."""
    said = "".join(letter if letter.isprintable() else " " for letter in redact(str(error)))
    return f"{type(error).__name__}: {'...' if len(said) > 120 else ''}{said[-120:]}"
