"""Keys and passwords: they go to the server that they are for, and to no file, no screen and no page."""

import base64
import gzip
import json
import re
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.errors import ConfigError, MissingKey
from rsso_dspy.files import atomic_write_text
from rsso_dspy.lm import Backend
from rsso_dspy.redact import redact, redact_json, register_address, register_secret, watch_variable
from tests.embedding_server import embedding_server, fault
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
        "percent-encoded, small": re.sub("%..", lambda code: code[0].lower(), urllib.parse.quote(key, safe="")),
        "base64": base64.b64encode(key.encode()).decode().rstrip("="),
        "base64 of a user's": base64.b64encode(f"user:{key}".encode()).decode()[8:-4],
        "base64 of another user's": base64.b64encode(f"me:{key}".encode()).decode()[8:-4],
        "base64 for addresses": base64.urlsafe_b64encode(f"u:{key}".encode()).decode()[8:-4],
        "repr": repr(key)[1:-1],
        "repr with line end": repr(f"{key}\r\n")[1:-5],
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
    settings = [
        "backend=mine",
        "embedder.model=hash",
        *(f"backends.mine.{name}={value}" for name, value in mine.items()),
    ]
    return [word for setting in settings for word in ("--set", setting)]


def play(rsso, url: str, **more: str) -> tuple[int, str, str]:
    words = ["run", "--methods", "react", "--variants", SHORT, "--trials", "1"]
    return rsso(*words, "--protocol", "sso-adapt/1-cap60", "--out", "out/run", *options(url, **more))


@pytest.mark.parametrize("form", forms(KEY))
@pytest.mark.parametrize("around", ["{}", "x={}.", '"{}"', "Bearer {}\r\n", "…{}…", "https://host/{}?a", "a{}a"])
def test_every_form_of_a_key_is_struck_out(monkeypatch, form, around):
    text = around.format(forms(KEY)[form])
    assert redact(text) == text, "a test that could not fail"
    monkeypatch.setenv("SOME_API_KEY", f" {KEY}\r\n")
    assert forms(KEY)[form] not in redact(text)
    assert "***" in redact(text)
    assert forms(KEY)[form] not in json.loads(redact_json(json.dumps({"said": [text]})))["said"][0]


@pytest.mark.parametrize("write", [repr, ascii, json.dumps, lambda key: json.dumps(key, ensure_ascii=False)])
def test_a_password_that_notations_write_otherwise_is_struck_out_of_all(monkeypatch, write):
    monkeypatch.setenv("HOSTILE_PASSWORD", ODD)
    for text in (
        write(ODD),
        write({"error": f"no: {ODD}"}),
        write([urllib.parse.quote(ODD), urllib.parse.quote_plus(ODD)]),
    ):
        assert "Zq8" not in redact(text)
        assert "Xk2" not in redact(text)
    assert json.loads(redact_json(json.dumps({"error": f"no: {ODD}!", "n": 1.5}))) == {"error": "no: ***!", "n": 1.5}


@pytest.mark.parametrize("name", ["MY_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "github_pat", "KEY"])
def test_a_variable_whose_name_says_so_holds_a_secret(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redact(f"no {KEY}") == "no ***"
    monkeypatch.delenv(name)
    assert redact(f"no {KEY}") == f"no {KEY}"


@pytest.mark.parametrize(
    "value",
    ["EMPTY", "dummy", "", "  ", "sk-1234", "password", "thermometer", "PASSWORD", "xxxxxxxxxxxxxxxx", "-" * 40],
)
def test_placeholders_and_words_stay_in_ordinary_text(monkeypatch, value):
    monkeypatch.setenv("OPENAI_API_KEY", value)
    text = f"the thermometer's password is EMPTY, a dummy: {value}; {'-' * 60} xxxxxxxxxxxxxxxxxxxxxx"
    assert redact(text) == text


@pytest.mark.parametrize(
    "value", ["/usr/lib", "/usr/lib/nowhere/key.pem", "https://vault.example/v1/keys", "~/.ssh/id"]
)
def test_where_a_key_is_kept_is_no_secret(monkeypatch, value):
    monkeypatch.setenv("SERVICE_KEY", value)
    text = f"{value} is not there, /usr/lib/nowhere/key is, https://vault.example/v1"
    assert redact(text) == text


@pytest.mark.parametrize(
    "key", ["1234567890123", "environment_score", "2026-01-31", '": [1, 2], "', "12345.678", "null,null"]
)
def test_json_stays_what_it_is_whatever_the_key(monkeypatch, key):
    monkeypatch.setenv("STRANGE_API_KEY", key)
    data = {"environment_score": 12345.678, "n": 1234567890123, "list": [[1, 2], None], key: key, "said": f"<{key}>"}
    for text in (json.dumps(data), json.dumps(data, indent=1), json.dumps(data, separators=(",", ":"))):
        again = json.loads(redact_json(text))
        assert {name: again[name] for name in ("environment_score", "n", "list") if name != key} == {
            name: data[name] for name in ("environment_score", "n", "list") if name != key
        }
        assert again["said"] == "<***>"
    lines = "\n".join([json.dumps(data)] * 3)
    assert len([json.loads(line) for line in redact_json(lines).splitlines()]) == 3


def test_what_is_written_whole_holds_no_key_and_reads_as_it_did(monkeypatch, tmp_path):
    watch_variable(VARIABLE)
    monkeypatch.setenv(VARIABLE, KEY)
    for name in ("a.json", "a.toml", "a.md"):
        atomic_write_text(tmp_path / name, json.dumps({"n": 10**12, "said": f"Bearer {KEY}\r\n"}))
    assert leaks(tmp_path) == []
    assert json.loads((tmp_path / "a.json").read_text()) == {"n": 10**12, "said": "Bearer ***\r\n"}


@pytest.mark.parametrize("around", ["{}\r\n", "\t {}\r"])
@pytest.mark.usefixtures("at_hand")
def test_a_key_with_white_space_around_it_is_sent_without_and_read_nowhere(rsso, monkeypatch, tmp_path, around):
    monkeypatch.setenv(VARIABLE, around.format(KEY))

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


@pytest.mark.parametrize("variable", [VARIABLE, "OPENAI_API_KEY"])
@pytest.mark.parametrize("odd", ["\r\n", "\n", "\x00", "\x1b[2J", "\u200b", "”"])
def test_a_key_with_a_character_that_no_header_holds_names_its_variable(rsso, monkeypatch, tmp_path, odd, variable):
    if odd == "\x00":
        odd = "\x01"  # the system keeps none in a variable
    monkeypatch.setenv(variable, f"{KEY}{odd}{KEY}")
    with provider(lambda _: Said("hello")) as served:
        words = options(served.url)
        if variable != VARIABLE:
            words = [word for word in words if "key_variable" not in word]
            words = [word for at, word in enumerate(words) if word != "--set" or words[at + 1 : at + 2] != ["--set"]]
        code, *said = rsso("run", "--variants", SHORT, "--methods", "react", "--out", "out/run", *words)
        assert served.requests == []
    assert code == 2
    assert f"the key in {variable} contains" in said[1]
    assert f"export {variable}=..." in said[1]
    assert leaks(tmp_path, *said) == []


def test_a_key_that_is_white_space_is_not_set(monkeypatch):
    monkeypatch.setenv(VARIABLE, " \r\n")
    with pytest.raises(MissingKey, match=f"{VARIABLE} is not set"):
        Backend(BackendConfig(model="openai/m", key_variable=VARIABLE)).check()


def test_a_key_that_is_found_without_being_named_is_sent_without_white_space(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\r\n")
    assert Backend(BackendConfig(model="openai/m")).lm("actor", 0).kwargs["api_key"] == KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "api_key" not in Backend(BackendConfig(model="openai/m")).lm("actor", 0).kwargs


def test_a_key_in_place_of_its_variable_is_not_quoted(rsso, tmp_path):
    said = rsso("run", "--dry-run", *options("http://127.0.0.1:9/v1", key_variable=KEY))[1:]
    said += rsso("doctor", *options("http://127.0.0.1:9/v1", key_variable=KEY))[1:]
    assert "the environment variable *** is not set" in "".join(said)
    assert leaks(tmp_path, *said) == []


@pytest.mark.parametrize("ending", ["", "\r\n"])
def test_the_embedders_key_is_sent_without_white_space_and_read_nowhere(rsso, monkeypatch, tmp_path, ending):
    monkeypatch.setenv(VARIABLE, f"{KEY}{ending}")
    settings = ["embedder.model=litellm/openai/m", f"embedder.key_variable={VARIABLE}"]
    for faults in ([], [fault(401, f"Incorrect API key provided: {LOUD}")]):
        with embedding_server(faults=faults) as served:
            settings[2:] = [f"embedder.base_url={served.url}"]
            said = rsso("doctor", *(word for each in settings for word in ("--set", each)))[1:]
            assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert leaks(tmp_path, *said) == []
        assert ("***" in said[0]) == bool(faults)


ADDRESS = "http://joe:s3cret-Pw9@127.0.0.1:9/v1?api_key=q7w8e9r0t1&version=2"
SHORT_ADDRESS = "http://joe:pw@127.0.0.1:9/v1"


@pytest.mark.parametrize("address", [ADDRESS, SHORT_ADDRESS])
@pytest.mark.parametrize("model", ["hosted_vllm/m", "lm_studio/m"])
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


@pytest.mark.parametrize(
    "address", ["joe:s3cret-Pw9@127.0.0.1:9/v1", "ftp://joe:s3cret-Pw9@h/v1", "http://joe:s3cret-Pw9@[/"]
)
def test_an_address_of_no_use_is_quoted_without_its_password(address):
    with pytest.raises(ConfigError) as raised:
        load_config(overrides=[f'backends.vllm.base_url="{address}"'])
    assert "s3cret" not in str(raised.value)
    assert "not an address like" in str(raised.value)


def test_a_short_password_is_struck_out_with_its_user_and_not_from_words():
    register_address("http://joe:pass@127.0.0.1:9")
    assert redact("joe:pass@there, pass the salt, joe") == "***@there, pass the salt, joe"
    basic = base64.b64encode(b"joe:pass").decode().rstrip("=")
    assert basic not in redact(f"Authorization: Basic {basic}=")


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


def test_an_error_that_a_cluster_carries_home_holds_no_key(monkeypatch):
    from rsso_dspy.ray import run_task as play_away

    monkeypatch.setenv("CLUSTER_API_KEY", KEY)

    def issue_ticket(_: object) -> None:
        raise ValueError(f"refused: {LOUD}")

    home = SimpleNamespace(issue_ticket=SimpleNamespace(remote=issue_ticket))
    with ThreadPoolExecutor(1) as elsewhere:  # in the main thread it would turn Ctrl-C off
        error = elsewhere.submit(play_away, home, None, None, None).exception()
    assert "ValueError: refused: <***>" in str(error)
    assert error.__context__ is None
    assert leaks(Path("/nowhere"), str(error)) == []


def test_what_is_registered_is_struck_out_without_any_variable():
    register_secret("Zx9-registered-Qp4")
    assert redact("no Zx9-registered-Qp4!") == "no ***!"
