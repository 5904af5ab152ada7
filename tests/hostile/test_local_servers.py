"""A model named in one line; names that are wrong, and redirects."""

import gc
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dspy
import pytest
from dspy.utils.exceptions import LMError

from rsso_dspy.cli.options import name_model
from rsso_dspy.config import BackendConfig, EmbedderConfig, load_config
from rsso_dspy.embed import LiteLLMRoute
from rsso_dspy.errors import BackendFailure
from rsso_dspy.lm import Backend, check_backend, import_litellm
from tests.provider_formats import WIRES
from tests.provider_runs import KEY, VARIABLE, look
from tests.provider_server import provider, replying

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

NAME = "hosted_vllm/tiny"
ONE = ("--methods", "react", "--variants", "inclined-plane-determine-angle::163", "--trials", "1")
FAST = ("--set", "embedder.model=hash", "--protocol", "sso-adapt/3-cap60")


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


CLOSED = "http://127.0.0.1:9/v1"
MISSING = (b'{"error": {"message": "The model `tiny` does not exist."}}', 404)
PATHS = {"/v1/models": (200, {}, b'{"data": [{"id": "big", "owned_by": "llamacpp"}]}')}
UNLISTED = (b"no /v1/models/tiny", 404, {}, PATHS)
TYPED = ("--model", NAME, "--base-url")
MINE = ("--backend", "mine", "--set", f"backends.mine.model={NAME}", "--set", "backends.mine.base_url=")


@pytest.mark.parametrize(
    ("server", "words", "said"),
    [
        (None, TYPED, "Connection refused): start the server, or change --base-url (of"),
        (None, MINE, "Connection refused): start the server, or change backends.mine.base_url (of the actor)"),
        (MISSING, TYPED, 'The model `tiny` does not exist."}}): change --model (of the actor)'),
        (UNLISTED, MINE, "has hosted_vllm/big, not tiny, though it answers to"),
        (MISSING, MINE, 'does not exist."}}): change backends.mine.model (of the actor)'),
        ((b"no key", 401), TYPED, "refuses to answer without a key (401: no key): set the"),
        ((b"page not found", 404), TYPED, "does not have /chat/completions (404: page not"),
        (None, ("--backend", "anthropic"), "ANTHROPIC_API_KEY is not set: `export ANTHROPIC_API_KEY=...`, or use"),
        (None, ("--model", "hosted_vllm"), "is not of the form provider/model, e.g. anthropic/claude-sonnet-4-6"),
        (None, ("--model", "opnai/x"), "no provider is called 'opnai': change --model, e.g. openai/x"),
    ],
)
@pytest.mark.parametrize("verb", [("run", *ONE), ("constitution", "build", "-o", "new.json")])
def test_what_keeps_a_model_from_answering_is_said_once_before_the_plan(rsso, monkeypatch, verb, server, words, said):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with answering(*(server or (b"", 200))) as (url, arrived):
        url = f"{url}/v1" if server else CLOSED
        typed = [f"{words[-1]}{url}"] if words is MINE else [*words[-1:], *([url] if words[-1] == "--base-url" else [])]
        code, out, err = rsso(*verb, *words[:-1], *typed, *FAST)
    assert (code > 0, out, said in err, err.count("error: ")) == (True, "", True, 1), err
    assert ("plan:" in err, "Traceback" in err, len(arrived) <= 3) == (False, False, True)


@pytest.mark.parametrize(
    "replies",
    [
        {"/v1/models/tiny": (404, {}, b"no /v1/models/tiny"), "/v1/models": (200, {}, b'{"data": [{"id": "big"}]}')},
        {"/v1/models": (200, {}, b'{"data": [{"id": "big", "owned_by": "llama-swap"}]}')},
        {"/v1/models": (200, {}, b"[" * 9000)},
        {"/v1/models/tiny": (302, {"Location": "http://[::1"}, b"")},
        {"/v1/models/tiny": (200, {"Content-Length": 99}, b"cut off")},
    ],
)
def test_what_a_server_does_not_tell_is_not_held_against_it(replies):
    with answering(b"", 400, {}, replies) as (url, arrived):
        check_backend(BackendConfig(model=NAME, base_url=f"{url}/v1"), lambda _, key: key)
    assert arrived


PDDL = ("--benchmark", "pddl", "--set", "protocol.steps=2", *FAST[:2])
PLAYS = ("run", *PDDL, "--methods", "react", "--trials", "1", "--out", "run", "--variants")
COMPILES = ("compile", *PDDL, "--method", "react", "--tasks", "gripper", "--optimizer", "none", "-o", "new.json")


def test_a_server_is_missed_only_where_something_is_left_to_play(rsso, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, KEY)
    asked = ("--model", NAME, "--set", f"backends.model.key_variable={VARIABLE}", "--base-url")
    with provider(look) as served:
        played, compiled = (rsso(*verb, *asked, served.url) for verb in ((*PLAYS, "gripper::50"), COMPILES))
    assert (played[0], compiled[0]) == (0, 0), played[2] + compiled[2]
    code, out, err = rsso(*PLAYS, "gripper::50,gripper::51", *asked, CLOSED)
    assert (code, out, "Connection refused" in err, "plan:" in err) == (1, "", True, False), err
    assert rsso(*COMPILES, *asked, CLOSED)[:2] == compiled[:2]
    (tmp_path / "new.json").unlink()
    assert rsso(*COMPILES, *asked, CLOSED)[:2] == compiled[:2], "all is in the log"
    monkeypatch.delenv(VARIABLE)
    assert rsso(*PLAYS, "gripper::50", *asked, CLOSED)[:2] == played[:2]


@contextmanager
def answering(body: bytes, status=200, headers: Mapping | None = None, paths=None) -> Iterator[tuple[str, list]]:
    """A server with one answer but on some paths; gives its address and the paths and headers of its requests."""
    arrived: list[str] = []

    def reply(path, sent, _):
        arrived.append(f"{path} {sent}")
        return (paths or {}).get(path, (status, headers or {}, body))

    with replying(reply) as url:
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
