"""A run on a real MLflow server: what it is told, that it is told everything once, and that it never harms the run."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import LimitReached, UsageError
from rsso_dspy.experiment.events import EventStream, UnitFinished
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.run import Run, plan_run
from rsso_dspy.experiment.session import Session
from rsso_dspy.integrations.mlflow_tracking import EXPERIMENT, ID_TAG, MlflowTracker, connect_server
from rsso_dspy.lm import Backend
from rsso_dspy.records import RULE_BASED_NOTE, Failure
from rsso_dspy.report.metrics import compute_arm_metrics
from rsso_dspy.report.report_files import build_report_files
from rsso_dspy.store.run_spec import RunSpec
from tests.cli.conftest import rsso  # noqa: F401 - a fixture
from tests.experiment.relay import Relay, answers
from tests.integrations.test_otel import play as play_traced
from tests.live import FAST, REWARDED
from tests.records import record as made

SETTINGS = (*FAST, "protocol.trials=2")
VARIANTS = ("lifespan-longest-lived::98", "lifespan-longest-lived::111")
METHODS = ("react-sso", "reflexion-sso")
SECRET = "sk-planted-secret"


@pytest.fixture(scope="module")
def relay(tmp_path_factory) -> Iterator[Relay]:
    """An MLflow server with an empty database, behind a relay."""
    folder = tmp_path_factory.mktemp("mlflow")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    words = ["--backend-store-uri", f"sqlite:///{folder}/db", "--artifacts-destination", str(folder / "artifacts")]
    alone = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "log").open("wb") as log:
        served = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *words, "--port", str(port), "--workers", "1"],
            env={**os.environ, **alone, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 120
        while not answers(port):
            assert served.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.1)
        made = Relay(port)
        made.empty_database = copyfile(folder / "db", folder / "empty.db")
        yield made
    finally:
        os.killpg(served.pid, signal.SIGKILL)
        served.wait()


@pytest.fixture(autouse=True)
def _settings(monkeypatch) -> None:
    """What `reach` sets is forgotten with the test; no proxy stands between."""
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # of a server that answers; one that is away refuses
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def lent(live: Session, settings: tuple[str, ...] = SETTINGS) -> Session:
    """The shared session with other settings."""
    config = load_config(overrides=settings)
    runtime = replace(live.runtime, rules=resolve_protocol(config).rules)
    return replace(live, config=config, protocol=resolve_protocol(config), runtime=runtime)


def planned_run(out: Path, methods: tuple[str, ...] = METHODS[:1], variants: tuple[str, ...] = VARIANTS) -> Run:
    order = RunSpec(methods=methods, variants=variants, out=out)
    return plan_run(load_config(overrides=SETTINGS), order)


class AfterFirst:
    """Does something when the first unit is finished."""

    def __init__(self, act: Callable[[], None]):
        self.act = act

    def __call__(self, _event: UnitFinished) -> None:
        act, self.act = self.act, lambda: None
        act()


def play(live: Session, relay: Relay, out: Path, finished: Any = None, **asked: tuple[str, ...]) -> list[str]:
    """Play into the folder under the relay's eyes; gives what was said."""
    said: list[str] = []
    planned = planned_run(out, **asked)
    tracking = MlflowTracker(connect_server(relay.uri), planned, build_report_files, said.append)
    events = EventStream()
    tracking.follow(events)
    if finished:
        events.subscribe(UnitFinished, finished)
    planned.execute(lent(live), 1, events=events)
    return said


def runs(relay: Relay, out: Path) -> list[Any]:
    """The MLflow runs of a folder."""
    known = json.loads((out / "mlflow.json").read_text())["id"]
    server = connect_server(relay.uri)
    return server.client.search_runs([server.experiment], f"tags.`{ID_TAG}` = '{known}'")


def history(relay: Relay, run: Any) -> dict[str, list[tuple[int, int, float]]]:
    """Every metric with its steps, times and values."""
    client = connect_server(relay.uri).client
    return {
        key: sorted(
            (point.step, point.timestamp, point.value) for point in client.get_metric_history(run.info.run_id, key)
        )
        for key in sorted(run.data.metrics)
    }


def kept(relay: Relay, run: Any, name: str) -> str:
    """An artifact of the run."""
    return Path(connect_server(relay.uri).client.download_artifacts(run.info.run_id, name)).read_text()


def units(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.glob("units/**/*.json")}


@dataclass
class Whole:
    """A run that nothing disturbed: its folder, and what the server knew when its first unit was finished."""

    out: Path
    first: dict[str, float] = field(default_factory=dict)


@pytest.fixture(scope="module")
def whole(live, relay, tmp_path_factory) -> Whole:
    made = Whole(tmp_path_factory.mktemp("runs") / "whole")

    def look() -> None:
        until = time.monotonic() + 60
        while not made.first and time.monotonic() < until:
            time.sleep(0.1)
            if (made.out / "mlflow.json").exists():
                made.first = {key: value for run in runs(relay, made.out) for key, value in run.data.metrics.items()}

    assert play(live, relay, made.out, AfterFirst(look), methods=METHODS) == []
    return made


def test_a_run_is_told_as_it_goes_and_reported_at_its_end(relay, whole):
    out = whole.out
    assert whole.first["react-sso/units"] == 1
    assert "reflexion-sso/units" not in whole.first
    (run,) = runs(relay, out)
    assert (run.info.run_name, run.info.status) == ("whole", "FINISHED")
    planned = planned_run(out, METHODS)
    told = run.data.params
    assert told["methods"] == "react-sso,reflexion-sso"
    assert (told["backend"], told["variants"], told["trials"], told["seed"]) == ("embedded", "2", "2", "0")
    assert told["protocol"] == planned.plan.protocol
    assert told["model.actor"] == "embedded/explorer"
    tags = run.data.tags
    assert tags["rsso_dspy.note"] == tags["mlflow.note.content"] == RULE_BASED_NOTE
    assert tags["rsso_dspy.config_hash"] == planned.config.hash()
    assert tags.keys() >= {"rsso_dspy.commit", "rsso_dspy.dspy", "rsso_dspy.program.react-sso"}
    records = list(planned.store.units())
    for arm in METHODS:
        judged = compute_arm_metrics(arm, [record for record in records if record.arm == arm])
        last = {key.partition("/")[2]: value for key, value in run.data.metrics.items() if key.startswith(f"{arm}/")}
        assert last == {
            "units": 2,
            "errored": 0,
            "mean": judged.mean,
            "trial_1": judged.trial_1,
            "solve_share": judged.solve / 2,
            "tokens_in": sum(usage.input for usage in judged.tokens.values()),
            "tokens_out": sum(usage.output for usage in judged.tokens.values()),
            "cost_usd": 0.0,
        }
    assert [step for step, _, _ in history(relay, run)["react-sso/mean"]] == [1, 2]
    assert json.loads(kept(relay, run, "report.json"))["arms"][0]["units"] == 2
    assert "| react-sso | 2 | 50.00 |" in kept(relay, run, "report.md")
    assert json.loads(kept(relay, run, "config.json")) == planned.config.resolve_settings()


def test_no_prompt_no_answer_and_no_key_is_told(relay, whole):
    (run,) = runs(relay, whole.out)
    files = "".join(kept(relay, run, name) for name in ("report.json", "report.md", "config.json"))
    told = files + json.dumps([run.data.params, run.data.tags, list(run.data.metrics)])
    for record in planned_run(whole.out, METHODS).store.units():
        trajectory = record.trajectories[0]
        for text in (trajectory.task, trajectory.start.look, trajectory.steps[0].reasoning):
            assert text[:30]
            assert text[:30] not in told
    failed = made("react-sso", "boil", 22, [None])
    failed = replace(failed, trials=(replace(failed.trials[0], failure=Failure("LMAuthError", SECRET), error=None),))
    assert SECRET not in "".join(build_report_files([failed], [], lambda _: None).values())


def test_the_same_command_again_is_the_same_run_on_the_server(live, relay, tmp_path):
    out = tmp_path / "grown"
    play(live, relay, out, variants=VARIANTS[:1])
    play(live, relay, out)
    (run,) = runs(relay, out)
    before = history(relay, run)
    assert [step for step, _, _ in before["react-sso/units"]] == [1, 2]
    assert run.data.params["variants"] == "1"
    assert run.data.tags["rsso_dspy.now.variants"] == "2", "parameters stand for good"
    play(live, relay, out)
    (run,) = runs(relay, out)
    assert history(relay, run) == before, "nothing is told twice"


def test_a_server_that_dies_harms_nothing_and_is_told_later_what_it_missed(live, relay, whole, tmp_path):
    out = tmp_path / "cut"
    said = play(live, relay, out, AfterFirst(relay.away))
    assert len(said) == 2
    assert "the run goes on without it" in said[0]
    assert "repeat the command to send the rest" in said[1]
    assert units(out) == {name: text for name, text in units(whole.out).items() if "/react-sso/" in name}
    with pytest.raises(UsageError, match="no MLflow tracking server answers"):
        play(live, relay, out)
    relay.back()
    assert play(live, relay, out) == []
    (run,) = runs(relay, out)
    (undisturbed,) = runs(relay, whole.out)
    values = [
        {key: [(step, value) for step, _, value in points] for key, points in history(relay, each).items()}
        for each in (run, undisturbed)
    ]
    assert values[0] == {key: points for key, points in values[1].items() if key.startswith("react-sso/")}
    assert run.info.status == "FINISHED"
    assert "| react-sso | 2 | 50.00 |" in kept(relay, run, "report.md")


def test_a_server_that_is_back_before_the_end_has_everything(live, relay, tmp_path):
    out = tmp_path / "back"

    turns = [relay.away, relay.back]
    said = play(live, relay, out, lambda _: turns.pop(0)())
    assert ["goes on without it" in text for text in said] in ([], [True]), "told in between, or too quick to notice"
    (run,) = runs(relay, out)
    assert [step for step, _, _ in history(relay, run)["react-sso/mean"]] == [1, 2]
    assert run.info.status == "FINISHED"


def test_how_a_run_ended_is_told(live, relay, tmp_path):
    planned = planned_run(tmp_path / "limited")
    tracking = MlflowTracker(connect_server(relay.uri), planned, build_report_files, lambda _: None)
    events = EventStream()
    tracking.follow(events)
    with pytest.raises(LimitReached):
        planned.execute(lent(live), 1, planned.make_spend_limit(max_tokens=1000), events)
    (run,) = runs(relay, tmp_path / "limited")
    assert (run.info.status, run.data.tags["rsso_dspy.ended"]) == ("KILLED", "limit")


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "http://nowhere.invalid:5000"])
def test_a_server_that_is_not_there_is_found_before_anything_is_played(uri, rsso):  # noqa: F811
    begun = time.monotonic()
    code, _, err = rsso("run", "--methods", "react", "--variants", VARIANTS[0], "--mlflow", uri, "--out", "run")
    assert code == 2
    assert f"no MLflow tracking server answers at {uri}" in err
    assert "mlflow server --host" in err
    assert not Path("run").exists()
    assert time.monotonic() - begun < 30


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own tables
@pytest.mark.parametrize("uri", ["file:./mlruns", "sqlite:///mlruns.db"])
def test_a_folder_or_a_database_takes_a_run_as_a_server_does(uri, live, relay, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copyfile(relay.empty_database, "mlruns.db")  # making the tables takes MLflow seconds
    direct, out = SimpleNamespace(uri=uri), tmp_path / "direct"
    for variants in (VARIANTS[:1], VARIANTS):
        assert play(live, direct, out, variants=variants) == []
    (run,), (undisturbed,) = runs(direct, out), runs(relay, whole.out)
    assert run.info.status == "FINISHED"
    assert (run.data.params["variants"], run.data.tags["rsso_dspy.now.variants"]) == ("1", "2")
    own, of_server = (
        {key: [(step, value) for step, _, value in points] for key, points in history(place, each).items()}
        for place, each in ((direct, run), (relay, undisturbed))
    )
    assert own == {key: points for key, points in of_server.items() if key.startswith("react-sso/")}
    assert "| react-sso | 2 | 50.00 |" in kept(direct, run, "report.md")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_folder_or_a_database_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    for uri in (f"file:{tmp_path}/taken", f"sqlite:///{tmp_path}/taken/mlruns.db"):
        with pytest.raises(UsageError, match=r"MLflow cannot write .*: correct --mlflow"):
            connect_server(uri)


def test_an_address_that_is_none_or_holds_a_password_is_refused():
    for uri in (
        "mlruns",
        "sqlite:x.db",
        "sqlite://",
        "file:",
        "file://host/mlruns",
        "postgresql://host/x",
        "http://",
        "",
    ):
        with pytest.raises(UsageError, match=r"a database, like sqlite:///mlruns.db, or a folder, like file:./mlruns"):
            connect_server(uri)
    with pytest.raises(UsageError, match="MLFLOW_TRACKING_PASSWORD") as caught:
        connect_server(f"http://me:{SECRET}@127.0.0.1:5000")
    assert SECRET not in str(caught.value)


def test_mlflow_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "mlflow.tracking", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'rsso-dspy\[mlflow\]'"):
        connect_server("http://127.0.0.1:5000")


def test_the_experiment_has_the_name_of_the_project(relay):
    assert connect_server(relay.uri).client.get_experiment_by_name(EXPERIMENT).lifecycle_stage == "active"
    assert Backend(load_config().active_backend).rule_based


def test_spans_reach_an_otlp_server_of_another_make(live, relay, monkeypatch):
    """MLflow takes OTLP too: it keeps a trial as a trace with its steps, calls and actions."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-mlflow-experiment-id=0")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # a server on a busy machine
    monkeypatch.setattr("rsso_dspy.integrations.otel_spans.LAST_WAIT", 60.0)
    said: list[str] = []
    played = play_traced(live, relay.uri, said)
    assert said == []
    (trace,) = connect_server(relay.uri).client.search_traces(locations=["0"])
    root, *below = sorted(trace.data.spans, key=lambda span: span.parent_id is not None)
    assert root.name == "invoke_agent react"
    assert root.attributes["rsso_dspy.variant"] == REWARDED
    assert sorted(span.name for span in below if span.parent_id == root.span_id) == ["step 1", "step 2"]
    calls = [span for span in below if span.attributes.get("gen_ai.operation.name") == "chat"]
    usage = played.trials[0].usage["actor"]
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in calls) == usage.input
