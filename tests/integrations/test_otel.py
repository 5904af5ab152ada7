"""Spans of a run at a real OTLP/HTTP collector: what it is told, what it is not, and that it never harms the run."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from rsso_dspy.integrations.otel_spans import CONTENT, trace_run
from rsso_dspy.programs.agent import Agent
from rsso_dspy.redaction import register_secret
from tests.cli.conftest import at_hand, rsso  # noqa: F401 - fixtures
from tests.live import REWARDED, acting, model, scripted

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed: no span is sent here"
)
SECRET = "sk-planted-secret-of-spans"


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP and decodes it with the protocol's own messages."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[SimpleNamespace]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += [_read_span(span) for span in scope.spans]
        return found


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.paths.append(self.path)
        self.server.bodies.append(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _read_span(span) -> SimpleNamespace:
    values = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
    return SimpleNamespace(id=span.span_id, above=span.parent_span_id, name=span.name, kind=span.kind, has=values)


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def play(live, uri: str, said: list[str], action: str = "look around"):
    engine = scripted([action] * 2)
    with acting(live, lambda *_: model(engine), budget=lambda _: 2), trace_run(uri, {"run": "first"}, said.append):
        return Agent("react")(variant=REWARDED, trials=1)


def test_a_collector_is_told_trials_steps_calls_and_actions(live, collector, monkeypatch):
    monkeypatch.delenv(CONTENT, raising=False)
    said: list[str] = []
    played = play(live, collector.uri, said)
    assert (said, set(collector.paths)) == ([], {"/v1/traces"})
    spans = collector.spans
    names = {span.id: span.name for span in spans}
    tree = sorted((names.get(span.above, ""), span.name) for span in spans)
    chat = next(span for span in spans if span.has.get("gen_ai.operation.name") == "chat")
    below = [("step 1", chat.name), ("step 1", "execute_tool action"), ("step 2", chat.name)]
    below += [("step 2", "execute_tool action"), ("invoke_agent react", "step 1"), ("invoke_agent react", "step 2")]
    assert tree == sorted([("", "invoke_agent react"), *below])
    assert chat.kind == 3, "a client's"
    assert chat.has["rsso_dspy.role"] == "actor"
    calls = [span.has for span in spans if span.has.get("gen_ai.operation.name") == "chat"]
    usage = played.trials[0].usage["actor"]
    assert sum(each["gen_ai.usage.input_tokens"] for each in calls) == usage.input
    assert sum(each["gen_ai.usage.output_tokens"] for each in calls) == usage.output
    trial = next(span.has for span in spans if span.name == "invoke_agent react")
    assert (trial["rsso_dspy.variant"], trial["rsso_dspy.outcome"], trial["rsso_dspy.steps"]) == (REWARDED, "budget", 2)
    whole = b"".join(collector.bodies)
    assert b"look around" not in whole
    assert played.trials[0].trajectory.task.encode() not in whole


def test_texts_are_sent_if_asked_for_and_keys_never(live, collector, monkeypatch):
    monkeypatch.setenv(CONTENT, "true")
    register_secret(SECRET)
    played = play(live, collector.uri, [], f"look at {SECRET}")
    chat = next(span.has for span in collector.spans if span.has.get("gen_ai.operation.name") == "chat")
    asked = json.loads(chat["gen_ai.input.messages"])
    assert played.trials[0].trajectory.task[:40] in json.dumps(asked)
    assert "look at" in chat["gen_ai.output.messages"]
    assert SECRET.encode() not in b"".join(collector.bodies)


@pytest.mark.usefixtures("at_hand")
def test_a_dead_collector_changes_nothing_and_is_told_once(rsso, collector):  # noqa: F811
    collector.server_close()
    words = ("--methods", "react", "--variants", "lifespan-longest-lived::98", "--trials", "1", "--out", "run")
    code, out, err = rsso("run", *words, "--set", "embedder.model=hash", "--otel", collector.uri)
    assert code == 0, err
    assert "react" in out
    assert " ".join(err.split()).count(f"{collector.uri}/v1/traces takes no spans: they are lost, the run goes on") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--otel", "nowhere"), "like http://127.0.0.1:4318"),
        (("--otel", "http://me:pass@h:1"), "OTEL_EXPORTER_OTLP_HEADERS"),
        (("--otel", "http://h:1", "--engine", "ray"), "leave out --engine ray"),
    ],
)
def test_a_wrong_address_is_refused(rsso, words, message):  # noqa: F811
    code, _, err = rsso("run", "--dry-run", *words)
    assert code == 2
    assert message in err
    assert "pass@" not in err
