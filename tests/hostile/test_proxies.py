"""Proxies of the environment: this machine is reached without any, whatever the shell holds; others through them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import dspy
import pytest

from rsso_dspy.config import BackendConfig
from rsso_dspy.errors import BackendUnreachable
from rsso_dspy.lm import Backend, check_backend
from tests.live import says
from tests.provider_formats import FORMATS, WIRES, Said
from tests.provider_runs import KEY, SHORT, VARIABLE, backend
from tests.provider_server import provider, replying

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
THERE = "http://model.invalid/v1"
"""An address that no name server knows: the proxy alone can have answered."""
ANSWER = Said(says(answer="yes", thought="hm", action="look around"))


@dataclass
class Proxy:
    """A proxy that answers by itself whatever it is to pass on. It keeps what it is shown."""

    url: str
    asked: list[str] = field(default_factory=list)
    """Addresses, as they were asked for."""
    shown: list[str] = field(default_factory=list)
    """Headers and bodies."""


@pytest.fixture
def proxy(monkeypatch) -> Iterator[Proxy]:
    """A proxy that no variable names yet. What a test sets is forgotten with it."""
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, KEY)

    def reply(path, headers, body):
        there.asked.append(path)
        there.shown.append(f"{headers}{body.decode()}")
        form = FORMATS.get(urlsplit(path).path)
        said = json.dumps(form.answer(ANSWER) if form else {})
        return 200 if form else 502, {"Content-Type": "application/json"}, said.encode()

    with replying(reply) as url:
        there = Proxy(url)
        yield there


def ask(models: Backend) -> str:
    with dspy.context(adapter=models.adapter, disable_history=True):
        return dspy.Predict("question -> answer")(question="Is water wet?", lm=models.lm("actor", 0)).answer


HOSTS = ["127.0.0.1", "localhost", "0.0.0.0", "127.0.0.1"]
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
        assert ask(models).startswith("yes")
        assert len(served.requests) == here
    assert {urlsplit(asked).hostname for asked in proxy.asked} == (set() if here else {urlsplit(there).hostname})
    assert os.environ["no_proxy"].startswith("elsewhere.example")
    assert (KEY in "".join(proxy.shown)) is not here


def words(url: str) -> list[str]:
    mine = {"model": "hosted_vllm/m", "base_url": url, "key_variable": VARIABLE, "retries": 0}
    settings = ["backend=mine", "embedder.model=hash", *(f"backends.mine.{name}={mine[name]}" for name in mine)]
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.usefixtures("at_hand")
def test_a_run_goes_through_its_proxy_and_no_result_depends_on_it(rsso, proxy, monkeypatch, tmp_path):
    monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//bob:hunter22pw@"))
    play = ("run", "--variants", SHORT, "--methods", "react", "--trials", "1", "--out", "run")
    code, out, err = rsso(*play, "--protocol", "sso-adapt/3-cap60", *words(THERE))
    assert code == 0, (out, err)
    assert proxy.asked
    assert "Proxy-Authorization" in proxy.shown[0]
    assert proxy.url not in (tmp_path / "run/run.json").read_text()
    texts = [out, err, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
    assert not [text for text in texts if "hunter22" in text or "bob:" in text]
    monkeypatch.delenv("http_proxy")
    code, _, err = rsso(*play, "--protocol", "sso-adapt/3-cap60", *words("http://127.0.0.1:9/v1"), "--dry-run")
    assert (code, "1 unit finished, 0 to play" in err) == (0, True), err


@pytest.mark.usefixtures("proxy")
def test_a_proxy_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://bob:hunter22pw@127.0.0.1:9")
    with pytest.raises(
        BackendUnreachable, match=r"through http://127\.0\.0\.1:9, a proxy of the environment"
    ) as refused:
        check_backend(BackendConfig(model="hosted_vllm/m", base_url=THERE), lambda _, key: key)
    assert "hunter22" not in str(refused.value)
