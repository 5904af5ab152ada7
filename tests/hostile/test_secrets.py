"""Keys and passwords: they go to the server that they are for, and to no file, no screen and no page."""

import base64
import gzip
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from rsso_dspy.redact import redact, redact_json
from tests.live import says
from tests.provider_formats import Said
from tests.provider_runs import SHORT
from tests.provider_server import provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

VARIABLE = "HOSTILE_CREDENTIAL"
"""Its name says nothing: the configuration does."""
KEY = "sk-proj-Qx7VbN2mKc9RtY4wZp8LsD3fHj6GaE5uT1iO0"
ODD = 'p/w+"d\\Zq8&<Xk2 é~!9'
"""A password that every notation writes otherwise."""


def forms(key: str) -> dict[str, str]:
    """How a key may stand in a text, by what it is called."""
    half = len(key) // 2
    return {
        "plain": key,
        "first half": key[:half],
        "last half": key[half:],
        "thirteen characters": key[9:22],
        "percent-encoded": urllib.parse.quote(key, safe=""),
        "base64": base64.b64encode(key.encode()).decode().rstrip("="),
        "base64 of a user's": base64.b64encode(f"user:{key}".encode()).decode()[8:-4],
        "base64 for addresses": base64.urlsafe_b64encode(f"u:{key}".encode()).decode()[8:-4],
        "repr": repr(key)[1:-1],
        "JSON": json.dumps(key)[1:-1],
    }


LOUD = " and ".join(f"<{form}>" for form in forms(KEY).values())


def texts_in(file: Path) -> str:
    """What a file says, unpacked where it is compressed."""
    data = file.read_bytes()
    if file.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return repr(parquet.read_table(file).to_pylist()) + repr(data)
    text = data.decode("utf-8", "replace")
    packed = re.findall(r'<script type="application/octet-stream"[^>]*>([^<]+)<', text)
    return text + "".join(gzip.decompress(base64.b64decode(each)).decode() for each in packed)


def leaks(folder: Path, *said: str, key: str = KEY) -> list[tuple[str, str]]:
    """Where a key can be read, and in which form."""
    texts = {str(file): texts_in(file) for file in folder.rglob("*") if file.is_file()}
    texts |= {f"said {number}": text for number, text in enumerate(said)}
    return [(place, name) for place, text in texts.items() for name, form in forms(key).items() if form in text]


@pytest.fixture(autouse=True)
def _no_simulator_of_its_own(monkeypatch):
    """Doctor starts no simulator, which is no part of what is asked here."""
    monkeypatch.setattr("rsso_dspy.environments.benchmark.Benchmark.smoke_test", lambda *_: "left out")


def options(url: str, **more: str) -> list[str]:
    mine = {"model": "openai/m", "base_url": url, "key_variable": VARIABLE, "retries": "0", "longest_wait": "0", **more}
    settings = ["backend=mine", "embedder.model=hash", *(f"backends.mine.{name}={mine[name]}" for name in mine)]
    return [word for setting in settings for word in ("--set", setting)]


def play(rsso, url: str, **more: str) -> tuple[int, str, str]:
    words = ["run", "--methods", "react", "--variants", SHORT, "--trials", "1"]
    return rsso(*words, "--protocol", "sso-adapt/2-cap60", "--out", "out/run", *options(url, **more))


@pytest.mark.parametrize("form", forms(KEY))
@pytest.mark.parametrize("around", ["{}", "Bearer {}\r\n", "a{}a"])
def test_every_form_of_a_key_is_struck_out(monkeypatch, form, around):
    text = around.format(forms(KEY)[form])
    assert redact(text) == text, "a test that could not fail"
    monkeypatch.setenv("SOME_API_KEY", f" {KEY}\r\n")
    assert forms(KEY)[form] not in redact(text)
    assert forms(KEY)[form] not in json.loads(redact_json(json.dumps({"said": [text]})))["said"][0]


@pytest.mark.parametrize("write", [repr, ascii, json.dumps, urllib.parse.quote, urllib.parse.quote_plus])
def test_a_password_that_notations_write_otherwise_is_struck_out_of_all(monkeypatch, write):
    monkeypatch.setenv("HOSTILE_PASSWORD", ODD)
    for text in (write(ODD), write(f"no: {ODD}!")):
        assert not {"Zq8", "Xk2"} & {redact(text)[at : at + 3] for at in range(len(redact(text)))}
    assert json.loads(redact_json(json.dumps({"error": f"no: {ODD}!", "n": 1.5}))) == {"error": "no: ***!", "n": 1.5}


@pytest.mark.parametrize("value", ["EMPTY", "", "sk-1234", "thermometer", "xxxxxxxxxxxxxxxx", "-" * 40])
def test_placeholders_and_words_stay_in_ordinary_text(monkeypatch, value):
    monkeypatch.setenv("OPENAI_API_KEY", value)
    text = f"the thermometer's password is EMPTY, a dummy: {value}; {'-' * 60} xxxxxxxxxxxxxxxxxxxxxx"
    assert redact(text) == text


@pytest.mark.parametrize("key", ["1234567890123", "environment_score", '": [1, 2], "'])
def test_json_stays_what_it_is_whatever_the_key(monkeypatch, key):
    monkeypatch.setenv("STRANGE_API_KEY", key)
    data = {"environment_score": 12345.678, "n": 1234567890123, "list": [[1, 2], None], "said": f"<{key}>"}
    for text in (json.dumps(data), json.dumps(data, indent=1), json.dumps(data, separators=(",", ":"))):
        assert json.loads(redact_json(text)) == {**data, "said": "<***>"}


@pytest.mark.usefixtures("at_hand")
def test_a_key_with_white_space_around_it_is_sent_without_and_read_nowhere(rsso, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, f"\t {KEY}\r\n")

    def answer(_: dict) -> Said:
        return Said(says(thought=f"I was sent {LOUD}", action="look around", reflection=LOUD))

    with provider(answer) as served:
        code, *said = play(rsso, served.url)
        assert code == 0, said
        assert {headers["Authorization"] for headers in served.headers} == {f"Bearer {KEY}"}
    for verb in (
        ("report", "out/run", "--html", "out/page.html", "--tables", "out/tables"),
        ("export", "out/run", "--format", "steps", "-o", "out/steps.parquet"),
        ("export", "out/run", "-o", "out/trials.parquet"),
        ("show", "out/run", SHORT, "--arm", "react", "--prompts"),
        ("run", "--replay", "out/run", "--dry-run"),
    ):
        code, *more = rsso(*verb)
        assert code == 0, more
        said += more
    assert leaks(tmp_path, *said) == []
    assert "***" in (tmp_path / "out/run/units/react").rglob("*.jsonl").__next__().read_text()


@pytest.mark.parametrize(("status", "kind"), [(401, "invalid_api_key"), (500, "oops")])
@pytest.mark.usefixtures("at_hand")
def test_a_key_that_a_server_quotes_in_any_form_is_read_nowhere(rsso, monkeypatch, tmp_path, status, kind):
    monkeypatch.setenv(VARIABLE, f"{KEY}\r\n")
    error = {"type": kind, "message": f"no: {LOUD}\n  {LOUD!r}", "param": None, "code": kind}
    with provider(lambda _: (status, {"error": error})) as served:
        code, *said = play(rsso, served.url)
        assert code == 1
        code, *more = rsso("doctor", *options(served.url))
        assert code == 1
        said += more
    code, *more = rsso("report", "out/run", "--html", "out/page.html")
    assert (tmp_path / "out/page.html").exists() == (code == 0)
    assert "***" in "".join(said)
    assert "***" in next((tmp_path / "out/run/units/react").rglob("*.jsonl")).read_text()
    assert leaks(tmp_path, *said, *more) == []


@pytest.mark.parametrize("odd", ["\r\n", "\x1b[2J", "”"])
def test_a_key_with_a_character_that_no_header_holds_names_its_variable(rsso, monkeypatch, tmp_path, odd):
    monkeypatch.setenv(VARIABLE, f"{KEY}{odd}{KEY}")
    with provider(lambda _: Said("hello")) as served:
        code, *said = play(rsso, served.url)
        assert served.requests == []
    assert code == 2
    assert f"the key in {VARIABLE} contains" in said[1]
    assert f"export {VARIABLE}=..." in said[1]
    assert leaks(tmp_path, *said) == []


ADDRESS = "http://joe:s3cret-Pw9@127.0.0.1:9/v1?api_key=q7w8e9r0t1&version=2"
SHORT_ADDRESS = "http://joe:pw@127.0.0.1:9/v1"


@pytest.mark.parametrize(("model", "address"), [("hosted_vllm/m", ADDRESS), ("lm_studio/m", SHORT_ADDRESS)])
def test_the_password_in_an_address_is_shown_nowhere(rsso, tmp_path, model, address):
    words = options(address, model=model)
    words += ["--set", "embedder.model=litellm/openai/m", "--set", f"embedder.base_url={address}"]
    words = [word.replace(VARIABLE, "PATH") if "key_variable" in word else word for word in words]
    said = []
    for verb in (
        ("config", "show"),
        ("doctor",),
        ("run", "--variants", SHORT, "--methods", "react-sso", "--dry-run"),
        ("run", "--variants", SHORT, "--methods", "react-sso", "--out", "out"),
    ):
        said += rsso(*verb, *words)[1:]
    for secret in ("s3cret", "joe:", "q7w8e9r0t1", base64.b64encode(b"joe:s3cret-Pw9").decode(), ":pw@"):
        assert secret not in "".join(said)
        assert not [file for file in tmp_path.rglob("*") if file.is_file() and secret in file.read_text()]


def test_a_crash_prints_its_traceback_without_keys(rsso, monkeypatch):
    monkeypatch.setenv("CRASHING_API_KEY", KEY)

    def crash() -> None:
        try:
            raise ValueError(LOUD)
        except ValueError as error:
            raise RuntimeError(f"after {KEY!r}") from error

    monkeypatch.setattr("rsso_dspy.cli.app.app", crash)
    code, out, err = rsso("tasks")
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert "RuntimeError: after '***'" in err
    assert leaks(Path("/nowhere"), out, err) == []
