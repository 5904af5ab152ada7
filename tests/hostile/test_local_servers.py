"""A model named in one line; names that are wrong, answers that are no list of models, and redirects."""

import gc
import json
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy
import pytest
from dspy.utils.exceptions import LMError

from rsso_dspy.cli.options import name_model
from rsso_dspy.config import BackendConfig, EmbedderConfig, load_config
from rsso_dspy.embed import LiteLLMRoute
from rsso_dspy.errors import BackendFailure
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import LONGEST_NAME, import_litellm, list_models
from tests.provider_formats import WIRES
from tests.provider_runs import KEY, VARIABLE
from tests.provider_server import provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

NAME = "hosted_vllm/tiny"
ONE = ("--methods", "react", "--variants", "inclined-plane-determine-angle::163", "--trials", "1")
FAST = ("--set", "embedder.model=hash", "--protocol", "sso-adapt/2-cap60")


@pytest.mark.parametrize(
    ("words", "table"),
    [
        ((NAME, "http://127.0.0.1:9/v1"), {"model": NAME, "base_url": "http://127.0.0.1:9/v1", "key_variable": None}),
        ((NAME, None), {"model": NAME, "base_url": "http://127.0.0.1:8000/v1"}),
        (("anthropic/x", None), {"base_url": None, "key_variable": "ANTHROPIC_API_KEY"}),
    ],
)
def test_a_line_names_a_model_as_a_file_would(words, table):
    config = load_config(overrides=["backend=model", *name_model(*words, None)])
    assert {name: getattr(config.active_backend, name) for name in table} == table


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("models", [[], ["small", "large"]])
def test_a_model_that_is_not_there_is_answered_with_those_that_are(rsso, models):
    error = {"error": {"message": "The model `tiny` does not exist.", "code": "model_not_found"}}
    with provider(lambda _: (404, error)) as served:
        served.models += models
        code, _, err = rsso("run", "--model", NAME, "--base-url", served.url, *ONE, *FAST, "--out", "run")
        assert list_models(served.url) == models
    assert code == 1
    assert "The model `tiny` does not exist." in err
    assert ("the server has small, large" in err) is bool(models)
    assert len(served.requests) == 1, "the run stops at once"


@contextmanager
def answering(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[tuple[str, list]]:
    """A server with one answer; gives its address and the paths and headers of its requests."""
    arrived: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            arrived.append(f"{self.path} {self.headers}")
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", arrived
        finally:
            server.shutdown()
            thread.join()


LISTED = {"data": [{"id": "m"}]}


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (json.dumps(LISTED).encode(), ["m"]),
        (b'{"data": ' + b"[" * 100_000, []),
        (b"<html>hello</html>", []),
        (b'{"data": ["m", null, {"id": 7}, {"id": ["m"]}, {"id": ""}, {"id": "n"}]}', ["n"]),
        (json.dumps({"data": [{"id": "m" * 9999}]}).encode(), ["m" * LONGEST_NAME]),
    ],
)
def test_what_is_no_list_of_models_names_none(body, models):
    with answering(body) as (url, arrived):
        assert list_models(url, KEY) == models
    assert len(arrived) == 1
    assert f"Bearer {KEY}" in arrived[0]


def ask_actor(model: str, url: str | None) -> None:
    backend = Backend(BackendConfig(model=model, base_url=url, key_variable=VARIABLE, retries=0, timeout=20.0))
    with dspy.context(adapter=backend.adapter, disable_history=True), pytest.raises(LMError):
        dspy.Predict("question -> answer")(question="Is water wet?", lm=backend.lm("actor", 0))


def encode_text(model: str, url: str | None) -> None:
    config = EmbedderConfig(model=model, base_url=url, key_variable=VARIABLE, retries=0, timeout=20.0)
    with pytest.raises(BackendFailure):
        LiteLLMRoute(config).encode(["a door"])


@pytest.mark.parametrize(
    ("request_something", "model", "status"),
    [
        (lambda _, url: list_models(url, KEY), "list of models", 302),
        *((ask_actor, wire.model, 307) for wire in WIRES.values()),
        (encode_text, "litellm/openai/m", 307),
    ],
)
def test_no_key_follows_a_redirect(monkeypatch, request_something, model, status):
    monkeypatch.setenv(VARIABLE, KEY)
    with answering(json.dumps(LISTED).encode()) as (other, arrived):  # noqa: SIM117, the first server names the second
        with answering(b"", status, {"Location": f"{other}/v1/models"}) as (url, first):
            request_something(model, url)
    import_litellm().in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # LiteLLM leaves the sockets of its clients open
        gc.collect()
    assert KEY in str(first)
    assert arrived == []
