"""A model named in one line; names that are wrong, and redirects."""

import gc
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import dspy
import pytest
from dspy.utils.exceptions import LMError

from rsso_dspy.cli.options import name_model
from rsso_dspy.config import BackendConfig, EmbedderConfig, load_config
from rsso_dspy.embed import LiteLLMRoute
from rsso_dspy.errors import BackendFailure
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import import_litellm
from tests.provider_formats import WIRES
from tests.provider_runs import KEY, VARIABLE
from tests.provider_server import provider, serving

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
def test_a_model_that_is_not_there_stops_the_run_at_once(rsso):
    error = {"error": {"message": "The model `tiny` does not exist.", "code": "model_not_found"}}
    with provider(lambda _: (404, error)) as served:
        code, _, err = rsso("run", "--model", NAME, "--base-url", served.url, *ONE, *FAST, "--out", "run")
    assert code == 1
    assert "The model `tiny` does not exist." in err
    assert len(served.requests) == 1


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

    with serving(Handler) as url:
        yield url, arrived


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
        *((ask_actor, wire.model, status) for wire in WIRES.values() for status in (302, 307)),
        (encode_text, "litellm/openai/m", 307),
    ],
)
def test_no_key_follows_a_redirect(monkeypatch, request_something, model, status):
    monkeypatch.setenv(VARIABLE, KEY)
    with answering(b"{}") as (other, arrived):  # noqa: SIM117, the first server names the second
        with answering(b"", status, {"Location": f"{other}/v1/models"}) as (url, first):
            request_something(model, url)
    import_litellm().in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # LiteLLM leaves the sockets of its clients open
        gc.collect()
    assert KEY in str(first)
    assert arrived == []
