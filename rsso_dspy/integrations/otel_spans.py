"""Spans of a run for any OpenTelemetry collector (OTLP over HTTP), named by the conventions for generative AI.

    with trace_run("http://127.0.0.1:4318", facts, say):
        run.play(live, 2)

    invoke_agent METHOD    a trial
    step N                 a step of it
    chat MODEL             a call of a role, with its tokens
    execute_tool action    the environment's answer to the action

A thread of the SDK sends them. If nobody takes them they are dropped; the run never waits for more than `LAST_WAIT`, at
its end. Spans hold no text of prompts, answers or observations unless the variable `CONTENT` is true, and never a known
key. Headers, e.g. of a login, come from `OTEL_EXPORTER_OTLP_HEADERS`.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from rsso_dspy.addresses import bypass_proxy, is_server_address, strip_credentials
from rsso_dspy.errors import NotInstalled, UsageError
from rsso_dspy.programs.tracing import Span, send_spans_to
from rsso_dspy.records import Step, TrialResult, Usage
from rsso_dspy.redaction import redact
from rsso_dspy.version import __version__

LAST_WAIT = 5.0
"""Seconds that the end of a run waits for the last spans."""
TIMEOUT = 3.0
"""Seconds for a request with its retries, unless one of `TIMEOUTS` says otherwise."""
TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LONGEST = 20_000
"""Characters of a text in a span."""
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check_collector_address(uri: str) -> None:
    """Raise `UsageError` for an invalid address, or `NotInstalled` without OpenTelemetry. Sends nothing."""
    if not is_server_address(uri):
        raise UsageError(f"--otel {uri!r} is not the address of a collector, like http://127.0.0.1:4318")
    if "@" in urlsplit(uri).netloc:
        raise UsageError("--otel takes no password: set OTEL_EXPORTER_OTLP_HEADERS")
    if not all(map(_is_installed, PACKAGES)):
        raise NotInstalled("--otel needs OpenTelemetry, which is not installed: pip install 'rsso-dspy[otel]'")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):
        return False


@contextmanager
def trace_run(uri: str, facts: Mapping[str, str], say: Callable[[str], None]) -> Iterator[None]:
    """Send the spans of everything played in the block to the collector at `uri`; ``/v1/traces`` is added where the
    address has no path. `facts` describe the run; `say` is told once if spans are lost."""
    check_collector_address(uri)
    bypass_proxy(uri)
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    for name in ("opentelemetry.sdk", "opentelemetry.exporter"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # `say` tells it, once
    endpoint = uri if urlsplit(uri).path.strip("/") else f"{uri.rstrip('/')}/v1/traces"
    resource = {"service.name": "rsso-dspy", "service.version": __version__}
    resource |= {f"rsso_dspy.{name}": redact(value) for name, value in facts.items()}
    provider = TracerProvider(resource=Resource.create(resource), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_make_exporter(endpoint, say), schedule_delay_millis=1000))
    try:
        with send_spans_to(SpanSender(provider.get_tracer("rsso_dspy", __version__)).open_span):
            yield
    finally:
        closing = threading.Thread(target=provider.shutdown, name="otel-end", daemon=True)
        closing.start()
        closing.join(LAST_WAIT)


def _make_exporter(endpoint: str, say: Callable[[str], None]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    class TellingExporter(OTLPSpanExporter):
        """Says once that spans are lost."""

        told = False

        def export(self, *args: Any, **options: Any) -> Any:
            try:
                result = super().export(*args, **options)
            except Exception:
                result = SpanExportResult.FAILURE
            if result is not SpanExportResult.SUCCESS and not self.told:
                self.told = True
                say(f"{strip_credentials(endpoint)} takes no spans: they are lost, the run goes on")
            return result

    own = any(os.environ.get(name) for name in TIMEOUTS)
    return TellingExporter(endpoint=endpoint, timeout=None if own else TIMEOUT)


class SpanSender:
    """Opens OpenTelemetry spans for those of a run. Nothing that fails here reaches the run."""

    def __init__(self, tracer: Any):
        self._tracer = tracer
        self._content = os.environ.get(CONTENT, "").strip().lower() in ("1", "true", "yes", "span_only")

    @contextmanager
    def open_span(self, name: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """Open the span that the conventions have for `name`."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        title, known = _describe_span(name, attributes)
        kind = SpanKind.CLIENT if known.get("gen_ai.operation.name") == "chat" else SpanKind.INTERNAL
        with self._tracer.start_as_current_span(
            redact(title), kind=kind, attributes=_clean(known), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield _NotedSpan(span, self._content)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)  # its message may quote a prompt
                span.set_status(Status(StatusCode.ERROR))
                raise


class _NotedSpan:
    """A span that takes what the program notes on it."""

    def __init__(self, span: Any, content: bool):
        self._span = span
        self._content = content

    def note(self, **attributes: Any) -> None:
        with suppress(Exception):
            self._span.set_attributes(_clean(dict(self._iterate_attributes(attributes))))

    def _iterate_attributes(self, noted: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        usage, step, result = noted.get("usage"), noted.get("step"), noted.get("result")
        if isinstance(usage, Usage):
            yield "gen_ai.usage.input_tokens", usage.input
            yield "gen_ai.usage.output_tokens", usage.output
            yield "gen_ai.usage.cache_read.input_tokens", usage.cached
        if isinstance(step, Step):
            yield "rsso_dspy.reward", step.reward
            yield "rsso_dspy.score", step.score
            yield "rsso_dspy.understood", step.understood
        if isinstance(result, TrialResult):
            yield from _describe_result(result)
        if self._content:
            for key, name in (("inputs", "gen_ai.input.messages"), ("outputs", "gen_ai.output.messages")):
                if isinstance(texts := noted.get(key), Mapping):
                    yield name, _write_messages("user" if key == "inputs" else "assistant", texts)
            if isinstance(step, Step):
                yield "gen_ai.tool.call.arguments", step.action
                yield "gen_ai.tool.call.result", step.state.observation


def _describe_span(name: str, attributes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and attributes of a span by the conventions."""
    kind, _, number = name.partition(" ")
    if kind == "trial":
        agent = str(attributes.get("method", ""))
        found = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, "rsso_dspy.trial": int(number)}
        return f"invoke_agent {agent}", {**found, "rsso_dspy.variant": str(attributes.get("variant", ""))}
    if kind == "step":
        return name, {"rsso_dspy.step": int(number)}
    if kind == "environment":
        return "execute_tool action", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "action"}
    provider, _, model = str(attributes.get("model", "")).partition("/")
    found = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model or provider, "rsso_dspy.role": name}
    return f"chat {model or provider}", {**found, "gen_ai.provider.name": provider}


def _describe_result(result: TrialResult) -> Iterator[tuple[str, Any]]:
    played = result.trajectory
    yield "rsso_dspy.outcome", played.outcome if played else "error"
    if played:
        yield "rsso_dspy.accumulator", played.accumulator
        yield "rsso_dspy.steps", len(played.steps)
    if result.failure:
        yield "error.type", result.failure.kind


def _write_messages(role: str, texts: Mapping[str, Any]) -> str:
    """Return texts by field as messages of the conventions, as JSON."""
    parts = [{"type": "text", "content": f"{field}: {redact(str(text))[:LONGEST]}"} for field, text in texts.items()]
    return json.dumps([{"role": role, "parts": parts}])


def _clean(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: redact(value)[: 4 * LONGEST] if isinstance(value, str) else value for key, value in attributes.items()}
