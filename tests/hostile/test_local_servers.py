"""A model named in one line, a server that is timed, and how long a run takes; wrong names, no server, no key, answers
that are no list of models, and redirects."""

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
from rsso_dspy.errors import BackendFailure, UsageError
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import LONGEST_LIST, LONGEST_NAME, describe_models, import_litellm, list_models
from tests.hostile.dripping import BEFORE, dripping
from tests.live import says
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE
from tests.provider_server import provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

NAME = "hosted_vllm/tiny"
ONE = ("--methods", "react", "--variants", "inclined-plane-determine-angle::163", "--trials", "1")
FAST = ("--set", "embedder.model=hash", "--protocol", "sso-adapt/1-cap60")


def plain(body: dict) -> Said:
    """Answers a step and a question."""
    if "[[ ## answer ## ]]" in body["messages"][-1]["content"]:
        return Said(says(answer="yes"))
    return Said(says(thought="hm", action="look around"), input=1000, output=50, cached=900)


@pytest.mark.parametrize(
    ("words", "table"),
    [
        ((NAME, "http://127.0.0.1:9/v1"), {"model": NAME, "base_url": "http://127.0.0.1:9/v1", "key_variable": None}),
        ((NAME, None), {"model": NAME, "base_url": "http://127.0.0.1:8000/v1"}),
        (("ollama_chat/x", None), {"base_url": "http://127.0.0.1:11434"}),
        (("anthropic/x", None), {"base_url": None, "key_variable": "ANTHROPIC_API_KEY"}),
        (("openai/x", "http://127.0.0.1:9/v1"), {"base_url": "http://127.0.0.1:9/v1", "key_variable": None}),
        (("lm_studio/x", None), {"base_url": None, "key_variable": None}),
    ],
)
def test_a_line_names_a_model_as_a_file_would(words, table):
    config = load_config(overrides=["backend=model", *name_model(*words, None)])
    assert {name: getattr(config.active_backend, name) for name in table} == table


def test_a_named_backend_keeps_what_the_line_does_not_say():
    config = load_config(overrides=["backend=vllm", "backends.vllm.max_tokens=7", *name_model(NAME, None, "vllm")])
    assert (config.active_backend.model, config.active_backend.max_tokens) == (NAME, 7)
    assert config.active_backend.base_url == "http://127.0.0.1:8000/v1"
    assert name_model(None, None, None) == []
    with pytest.raises(UsageError, match="needs --model"):
        name_model(None, "http://127.0.0.1:9/v1", None)


def test_every_key_is_shown_and_no_secret(rsso):
    url = "http://user:hush-hush-1@127.0.0.1:9/v1?token=hush-hush-2"
    code, out, _ = rsso("config", "show", "--model", NAME, "--base-url", url)
    shown = json.loads(out)
    assert code == 0
    assert "hush" not in out
    assert shown["backends"]["model"].keys() == load_config().active_backend.model_dump().keys()
    assert shown["backends"]["model"]["base_url"] == "http://127.0.0.1:9/v1"
    config = load_config(overrides=["backend=model", *name_model(NAME, url, None)])
    assert shown.keys() - {"hash", "resolved_protocol"} == config.model_dump().keys()
    assert shown["hash"] == config.hash()


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


def test_no_server_is_said_with_what_to_do(rsso):
    code, _, err = rsso("run", "--model", NAME, "--base-url", "http://127.0.0.1:9/v1", *ONE, *FAST, "--out", "run")
    assert code == 1
    assert "nothing answers at http://127.0.0.1:9/v1" in err
    assert "start the server" in err
    assert list_models("http://127.0.0.1:9/v1") == list_models(None) == []


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
        (b"[" * 100_000 + b"]" * 100_000, []),
        (b"<html>hello</html>", []),
        (b"\xff\xfe", []),
        (b"", []),
        (b"null", []),
        (b'{"data": {"id": "m"}}', []),
        (b'{"data": ["m", null, {"id": 7}, {"id": ["m"]}, {"id": ""}, {"id": "n"}]}', ["n"]),
        (b'{"data": [{"id": ' + b"9" * 9999 + b"}]}", []),
        (json.dumps({"data": [{"id": "m" * 9999}]}).encode(), ["m" * LONGEST_NAME]),
        (json.dumps(LISTED | {"more": " " * LONGEST_LIST}).encode(), []),
    ],
)
def test_what_is_no_list_of_models_names_none(body, models):
    with answering(body) as (url, arrived):
        assert list_models(url, KEY) == models
    assert len(arrived) == 1
    assert f"Bearer {KEY}" in arrived[0]


@pytest.mark.parametrize("where", BEFORE)
def test_a_list_of_models_that_drips_is_given_up(where, monkeypatch):
    monkeypatch.setattr("rsso_dspy.logged_lm.LIST_SECONDS", 0.4)
    with dripping(where) as url:
        assert list_models(url) == []


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
        (lambda _, url: list_models(url, KEY), "list of models", 307),
        *((ask_actor, wire.model, status) for wire in WIRES.values() for status in (302, 307)),
        *((ask_actor, model, 307) for model in ("azure/m", "cohere/m", "gemini/m", "mistral/m")),
        (lambda model, _: ask_actor(model, None), "anthropic/of-a-variable", 307),
        *((encode_text, f"litellm/{name}/m", 307) for name in ("azure", "cohere", "gemini", "openai", "voyage")),
    ],
)
def test_no_key_follows_a_redirect(monkeypatch, request_something, model, status):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    with answering(json.dumps(LISTED).encode()) as (other, arrived):  # noqa: SIM117, the first server names the second
        with answering(b"", status, {"Location": f"{other}/v1/models"}) as (url, first):
            monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
            request_something(model, url)
    import_litellm().in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # LiteLLM leaves the sockets of its clients open
        gc.collect()
    assert KEY in str(first)
    assert arrived == []


def test_many_models_are_not_all_named():
    assert describe_models([]) == ""
    assert describe_models([f"m{n}" for n in range(20)]).endswith("m11 and 8 more")
