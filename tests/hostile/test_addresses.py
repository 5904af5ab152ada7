"""Addresses: this machine is reached without a proxy, whatever the shell holds, others through it, and whoever starts a
run is told; no key follows a redirect; a model is named in one line."""

import gc
import json
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import dspy
import pytest
from dspy.utils.exceptions import LMError

from rsso_dspy.cli.options import name_model
from rsso_dspy.config import BackendConfig, EmbedderConfig, load_config
from rsso_dspy.embed import LiteLLMRoute
from rsso_dspy.errors import BackendFailure, BackendUnreachable
from rsso_dspy.lm import Backend, find_proxy, is_local
from rsso_dspy.logged_lm import import_litellm
from tests.live import says
from tests.provider_formats import FORMATS, WIRES, Said
from tests.provider_runs import KEY, SHORT, VARIABLE, backend
from tests.provider_server import provider, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
THERE = "http://model.invalid/v1"
"""An address that no name server knows: the proxy alone can have answered."""
PLAY = ("run", "--variants", SHORT, "--methods", "react", "--trials", "1", "--out", "run")
PLAY += ("--protocol", "sso-adapt/2-cap60")
ANSWER = Said(says(answer="yes", thought="hm", action="look around"))


@dataclass
class Listener:
    """A server that answers whatever it is to pass on, and keeps what it is shown."""

    url: str
    asked: list[str] = field(default_factory=list)
    """Addresses, as they were asked for."""
    shown: list[str] = field(default_factory=list)
    """Headers and bodies."""


@contextmanager
def listening(reply: Callable[[str], tuple[int, bytes, Mapping[str, str]]]) -> Iterator[Listener]:
    """Serve one reply an address: status, body and headers."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            there.asked.append(self.path)
            there.shown.append(f"{self.headers}{body}")
            status, said, headers = reply(self.path)
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": len(said), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_CONNECT = _answer

    with serving(Handler) as url:
        there = Listener(url)
        yield there


def answer_in_its_form(address: str) -> tuple[int, bytes, Mapping[str, str]]:
    form = FORMATS.get(urlsplit(address).path)
    return (200, json.dumps(form.answer(ANSWER)).encode(), {}) if form else (502, b"{}", {})


@pytest.fixture
def proxy(monkeypatch) -> Iterator[Listener]:
    """A proxy that no variable names yet. What a test sets is forgotten with it."""
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, KEY)
    with listening(answer_in_its_form) as there:
        yield there


def ask(models: Backend) -> str:
    with dspy.context(adapter=models.adapter, disable_history=True):
        return dspy.Predict("question -> answer")(question="Is water wet?", lm=models.lm("actor", 0)).answer


HOSTS = ["127.0.0.1", "localhost", "0.0.0.0", "127.1"]
VARIABLES = ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"]


@pytest.mark.parametrize(("wire", "host", "variable"), list(zip(WIRES, HOSTS, VARIABLES, strict=False)))
@pytest.mark.parametrize("here", [True, False])
def test_a_model_on_this_machine_is_asked_without_the_proxy_and_others_through_it(
    proxy, monkeypatch, wire, host, variable, here
):
    monkeypatch.setenv(variable, proxy.url)
    monkeypatch.setenv("no_proxy", "elsewhere.example")
    with provider(lambda _: ANSWER, wire=wire) as served:
        # Elsewhere has a name of its own each time: LiteLLM keeps connections by address.
        there = served.url.replace("127.0.0.1", host) if here else f"http://model{urlsplit(proxy.url).port}.invalid/v1"
        models = backend(wire, served)
        url = models.config.base_url.replace(urlsplit(served.url).netloc, urlsplit(there).netloc)
        models = Backend(models.config.model_copy(update={"base_url": url}))
        models.check_connections()
        assert ask(models).startswith("yes")
        assert len(served.requests) == here
    assert {urlsplit(asked).hostname for asked in proxy.asked} == (set() if here else {urlsplit(there).hostname})
    assert os.environ["no_proxy"].startswith("elsewhere.example")
    assert (KEY in "".join(proxy.shown)) is not here


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.1", True),
        ("http://[::1]:8000", True),
        ("http://LocalHost.:1", True),
        (f"http://{socket.gethostname()}:1/v1", True),
        ("http://localhost@model.invalid", False),
        ("http://127.0.0.1.model.invalid", False),
        ("http://192.168.0.1", False),
    ],
)
def test_which_addresses_are_this_machines(proxy, monkeypatch, address, here):
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    assert is_local(address) == here
    assert find_proxy(address) == ("" if here else proxy.url)


def words(url: str) -> list[str]:
    mine = {"model": "hosted_vllm/m", "base_url": url, "key_variable": VARIABLE, "retries": 0}
    settings = ["backend=mine", "embedder.model=hash", *(f"backends.mine.{name}={mine[name]}" for name in mine)]
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.usefixtures("at_hand")
def test_a_run_tells_its_proxy_apart_from_what_results_depend_on(rsso, proxy, monkeypatch, tmp_path):
    monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//bob:hunter22pw@"))
    code, out, err = rsso(*PLAY, *words(THERE))
    assert code == 0, (out, err)
    assert proxy.asked
    assert "Proxy-Authorization" in proxy.shown[0]
    assert proxy.url in err
    assert proxy.url not in (tmp_path / "run/run.json").read_text()
    texts = [out, err, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
    assert not [text for text in texts if "hunter22" in text or "bob:" in text]
    monkeypatch.delenv("http_proxy")
    code, _, err = rsso(*PLAY, *words("http://127.0.0.1:9/v1"), "--dry-run")
    assert (code, "1 unit finished, 0 to play" in err) == (0, True), err


@pytest.mark.usefixtures("proxy")
def test_a_proxy_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://bob:hunter22pw@127.0.0.1:9")
    with pytest.raises(BackendUnreachable, match=r"the proxy http://127\.0\.0\.1:9 .*no_proxy") as refused:
        Backend(BackendConfig(model="hosted_vllm/m", base_url=THERE)).check_connections()
    assert "hunter22" not in str(refused.value)


NAME = "hosted_vllm/tiny"


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
    with listening(lambda _: (200, b"{}", {})) as other:  # noqa: SIM117, the first server names the second
        with listening(lambda _: (status, b"", {"Location": f"{other.url}/v1/models"})) as first:
            request_something(model, first.url)
    import_litellm().in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # LiteLLM leaves the sockets of its clients open
        gc.collect()
    assert KEY in str(first.shown)
    assert other.asked == []
