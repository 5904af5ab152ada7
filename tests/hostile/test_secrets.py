"""Keys and passwords: they go to the server that they are for, and to no file, no screen and no page."""

import base64
import gzip
import json
import re
import urllib.parse
from importlib import import_module
from pathlib import Path

import dspy
import pytest
from dspy.utils.exceptions import LMError

from rsso_dspy.lm import describe_request, digest_value, make_logged
from rsso_dspy.playing import playing
from rsso_dspy.redact import redact, redact_json
from rsso_dspy.store.unit_log import UnitLog
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
    return rsso(*words, "--protocol", "sso-adapt/3-cap60", "--out", "out/run", *options(url, **more))


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


NAMED = [
    "AWS_BEARER_TOKEN_BEDROCK",
    "GIGACHAT_CREDENTIALS",
    "AWS_SECRET_ACCESS_KEY",
    "OPENAI_API_KEY_2",
    "APIKEY_OF_MINE",
    "DB_PWD",
    "SMTP_PASS",
    "REGISTRY_AUTH",
    "GITHUB_PAT",
    "NPM_TOKENS_CI",
    "MY_KEYS",
    "vault_credential",
    "CI_JOB_JWT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "DATABASE_PASSWORD",
    "azure-auth-header",
    "PASSPHRASE",
]
NOT_NAMED = [
    "PWD",
    "OLDPWD",
    "XAUTHORITY",
    "TOKENIZERS_PARALLELISM",
    "HISTCONTROL",
    "PATH",
    "PATTERN",
    "KEYBOARD",
    "COMPASS",
    "MONKEYS",
    "AUTHOR",
    "TOKENIZER",
    "LESSKEYS",
    "BYPASS",
]


@pytest.mark.parametrize("name", NAMED)
def test_a_variable_whose_name_has_a_word_for_a_secret_is_struck_out(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redact(f"error: {KEY}") == "error: ***"


@pytest.fixture
def _forgotten(monkeypatch):
    """What other tests have registered is no secret here, and what is registered here is none later."""
    module = import_module("rsso_dspy.redact")
    known = [(names, set(names)) for names in (module._registered, module._watched, module._addresses)]
    for names, _ in known:
        names.clear()
    monkeypatch.setenv("CHANGED", "1")  # a change of the environment makes the filter anew
    yield
    for names, before in known:
        names.update(before)


@pytest.mark.parametrize("name", NOT_NAMED)
@pytest.mark.usefixtures("_forgotten")
def test_other_variables_are_no_secrets(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redact(f"error: {KEY}") == f"error: {KEY}"


def test_what_shells_set_under_such_names_stays_in_ordinary_text(monkeypatch, tmp_path):
    socket = tmp_path / "agent.123"
    shell = {"SSH_AUTH_SOCK": str(socket), "AUTH_TYPE": "oauth", "KEYTIMEOUT": "1", "GIT_ASKPASS": "/usr/bin/askpass"}
    shell |= {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://pipelines.example/x", "MAX_TOKENS": "100000", "GIT_AUTH": "true"}
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    text = " ".join(shell.values())
    assert redact(text) == text


SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYhFxEo2a4Kk9s"
USER_AND_PASSWORD = "joe:s3cret-Pw9-xy"
BASIC = base64.b64encode(USER_AND_PASSWORD.encode()).decode()
PLACES: dict[str, tuple[dict, str]] = {
    "api_key": ({"api_key": SECRET}, SECRET),
    "a keyword for a secret": ({"aws_secret_access_key": SECRET}, SECRET),
    "a keyword of any name": ({"gateway": SECRET}, SECRET),
    "extra_body": ({"extra_body": {"auth": [{"value": SECRET}]}}, SECRET),
    "a header": ({"extra_headers": {"X-Gateway": SECRET}}, SECRET),
    "a bearer": ({"extra_headers": {"Authorization": f"Bearer {SECRET}"}}, SECRET),
    "a password": ({"extra_headers": {"Authorization": f"Basic {BASIC}"}}, "s3cret-Pw9-xy"),
    "a list of models": ({"model_list": [{"model": "m", "litellm_params": {"api_key": SECRET}}]}, SECRET),
    "a service account": ({"vertex_credentials": json.dumps({"private_key": SECRET, "uri": "https://x.y"})}, SECRET),
    "the headers of a tool": ({"tools": [{"type": "mcp", "headers": {"Authorization": f"Bearer {SECRET}"}}]}, SECRET),
    "an address": ({"proxy": f"http://joe:{SECRET}@127.0.0.1:9"}, SECRET),
    "launch_kwargs": ({"launch_kwargs": {"token": SECRET}}, SECRET),
}
"""Keywords of a person's own model, and what of them is a secret."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("_forgotten")
def test_what_a_persons_model_sends_as_a_credential_is_known_before_its_first_request(place):
    keywords, secret = PLACES[place]
    text = f"refused: {secret}, {json.dumps(secret)}"
    make_logged(dspy.LM("openai/m", **keywords))
    assert secret not in redact(text)


@pytest.mark.usefixtures("_forgotten")
def test_what_is_no_credential_stays_in_ordinary_text():
    schema = {"type": "object", "properties": {"token": {"type": "string", "description": "a name of a thing-or-two"}}}
    make_logged(
        dspy.LM(
            "openai/my-model-7b",
            stop=["Observation:", "Next-action:"],
            response_format={"type": "json_schema", "json_schema": {"name": "an-answer", "schema": schema}},
            extra_body={
                "chat_template": "{% for message in messages %}",
                "stop": ["Thought-2:"],
                "model": "my-model-7b",
            },
            custom_llm_provider="openai_like",
            user="experiment",
        )
    )
    text = "Observation: Next-action: Thought-2: a name of a thing-or-two an-answer my-model-7b openai_like experiment"
    assert redact(text) == text


def describe(lm: dspy.LM, **kwargs: object) -> dict:
    return describe_request(lm, "hi", None, kwargs)["parameters"]


def test_a_request_is_logged_by_what_answers_depend_on_and_digests_of_the_rest():
    lm = dspy.LM(
        "openai/m", api_key=KEY, api_base="http://127.0.0.1:9/v1", timeout=5, temperature=0.5, top_p=0.9, stop=["x"],
        extra_headers={"X-Key": SECRET}, extra_body={"token": SECRET}, aws_secret_access_key=SECRET,
    )  # fmt: skip
    assert describe(lm, max_tokens=7, cache=False, rollout_id=3, user="joe") == {
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "max_tokens": 7,
        "aws_secret_access_key": "digest:c7b1cb087abda0a6",
        "extra_body": "digest:f02e99fa6687d339",
        "user": "digest:de939d6885bda9de",
    }


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("user", "joe", "ann"),
        ("extra_body", {"min_p": 0.1}, {"min_p": 0.2}),
        ("metadata", {"a": 1, "b": 2}, {"a": 1, "b": 3}),
    ],
)
def test_digests_tell_requests_apart_and_depend_on_nothing_else(name, one, other):
    digest = digest_value(name, one)
    again = json.loads(json.dumps(one))
    if isinstance(again, dict):
        again = dict(reversed(again.items()))
    assert re.fullmatch("digest:[0-9a-f]{16}", digest)
    assert digest_value(name, again) == digest
    assert digest_value(name, other) != digest
    assert digest_value(f"{name}_2", one) != digest


def test_a_digest_does_not_depend_on_where_an_object_lies_in_memory():
    def fetch_token() -> str:
        return SECRET

    first, second = (describe(dspy.LM("openai/m", azure_ad_token_provider=f)) for f in (fetch_token, fetch_token))
    assert first == second
    objects = [describe(dspy.LM("openai/m", session=type("Session", (), {})())) for _ in range(2)]
    assert objects[0] == objects[1]


@pytest.mark.parametrize("way", ["model", "call"])
@pytest.mark.usefixtures("_forgotten")
def test_a_secret_of_a_persons_model_is_in_no_log_and_no_error(live, way):
    given = {"extra_body": {"token": SECRET}, "aws_secret_access_key": SECRET}
    text: list[str] = []
    log = UnitLog(write=text.append, whole=True)
    error = {"type": "invalid_request_error", "message": f"refused: {KEY} {SECRET}"}
    with provider(lambda _: (400, {"error": error})) as served:
        on_model = given if way == "model" else {}
        usual = {"api_base": served.url, "api_key": KEY, "num_retries": 0, "cache": False, "timeout": 20}
        lm = dspy.LM("openai/m", **usual, **on_model)
        program = dspy.Predict("question -> answer", **({} if way == "model" else given))
        listening = dspy.context(adapter=live.runtime.listen(None))
        with (
            live.activate_for_user(),
            listening,
            playing(calls=log),
            dspy.context(lm=lm),
            pytest.raises(LMError) as raised,
        ):
            program(question="sky?")
        assert SECRET in str(served.requests)
    assert "".join(text).count('"aws_secret_access_key": "digest:') == 1
    assert leaks(Path("/nowhere"), str(raised.value), *text) == []
    assert leaks(Path("/nowhere"), str(raised.value), *text, key=SECRET) == []
