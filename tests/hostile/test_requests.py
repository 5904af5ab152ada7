"""Requests as they leave, and what a server may do to them: settings, time, length, and the name it answers under."""

import json
import subprocess
import sys
import threading
from dataclasses import replace

import dspy
import pytest
from dspy.utils.exceptions import LMTimeoutError

from rsso_dspy.config import BackendConfig, EmbedderConfig, load_config
from rsso_dspy.embed import LiteLLMRoute
from rsso_dspy.errors import BackendFailure, ConfigError, UsageError
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import LONGEST_ANSWER, RequestTimeout, call_with_timeout
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.tables import build_methods_table
from tests.hostile.dripping import BEFORE, dripping
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, backend, look, run_against
from tests.provider_server import provider
from tests.records import save

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("_key"),
]

ANSWER = Said("[[ ## answer ## ]]\nyes\n\n[[ ## completed ## ]]")
SAMPLING = ("top_p", "top_k", "repetition_penalty", "repeat_penalty", "seed")
each_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture
def _key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)


def ask(models: Backend, role: str = "actor", ledger: TrialLedger | None = None) -> str:
    ledger = ledger or TrialLedger(lambda _role, _usage: None)
    with dspy.context(adapter=models.adapter, disable_history=True), ledger.book_under_role(role):
        return dspy.Predict("question -> answer")(question="Is water wet?", lm=models.lm(role, 3)).answer


def sampled(body: dict) -> dict:
    return {name: body[name] for name in SAMPLING if name in body}


ALL = {"top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1}
BOTH_NAMES = {**ALL, "repeat_penalty": 1.1}


@pytest.mark.parametrize(
    ("wire", "settings", "sent"),
    [
        *((wire, {}, {}) for wire in WIRES),
        *((wire, {"top_p": 0.9}, {"top_p": 0.9}) for wire in WIRES),
        ("anthropic", {"top_p": 0.9, "top_k": 40}, {"top_p": 0.9, "top_k": 40}),
        ("openai", {"top_k": 40}, {"top_k": 40}),
        ("vllm", {"top_k": 40}, {"top_k": 40}),
        ("openai", ALL, BOTH_NAMES),
        ("vllm", ALL, BOTH_NAMES),
        ("litellm", ALL, BOTH_NAMES),
    ],
)
def test_decoding_settings_arrive_as_set_and_only_when_set(wire, settings, sent):
    with provider(lambda _: ANSWER, wire=wire) as served:
        assert ask(backend(wire, served, **settings)) == "yes"
    (body,) = served.requests
    assert served.flaws == []
    assert sampled(body) == sent
    assert body["temperature"] == 0.25


def test_a_role_has_decoding_settings_of_its_own():
    with provider(lambda _: ANSWER, wire="vllm") as served:
        models = backend("vllm", served, top_p=0.9, roles={"reflector": {"top_p": 0.5, "top_k": 3}})
        ask(models)
        ask(models, "reflector")
    assert [sampled(body) for body in served.requests] == [{"top_p": 0.9}, {"top_p": 0.5, "top_k": 3}]


@pytest.mark.parametrize(
    ("model", "settings", "mend"),
    [
        ("anthropic/claude-sonnet-4-6", {"repetition_penalty": 1.1}, "repetition_penalty: leave it out"),
        ("anthropic/claude-sonnet-4-6", {"seed": True}, "seed: leave it out"),
        ("anthropic/claude-sonnet-4-6", {"temperature": 1.5}, "1 is the highest"),
        ("ollama_chat/llama3.1", {"top_k": 40}, "PARAMETER top_k 40"),
        ("ollama_chat/llama3.1", {"repetition_penalty": 1.1}, "PARAMETER repeat_penalty 1.1"),
        ("openai/gpt-4.1-mini", {"top_k": 40}, "base_url"),
        ("openai/gpt-4.1-mini", {"repetition_penalty": 1.1}, "base_url"),
        ("openai/gpt-4.1-mini", {"roles": {"reflector": {"top_k": 2}}}, "role reflector does not support top_k"),
    ],
)
def test_a_setting_that_a_provider_would_drop_is_refused_before_anything_is_sent(model, settings, mend):
    with pytest.raises(ConfigError, match=mend):
        Backend(BackendConfig(model=model, **settings)).check()


@pytest.mark.parametrize("override", ["top_p=0", "top_p=1.1", "top_k=0", "repetition_penalty=0"])
def test_settings_out_of_their_range_are_refused(override):
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        load_config(overrides=[f"backends.vllm.{override}"])


def test_settings_are_in_the_identity():
    changed = ["backends.vllm.top_p=0.9", "backends.vllm.seed=true", "backends.vllm.roles.actor.top_k=3"]
    used = load_config(overrides=["backend=vllm", "protocol.retry_temperature=0.7", *changed]).resolve_settings()
    assert used["backends"]["vllm"]["top_p"] == 0.9
    assert used["backends"]["vllm"]["seed"] is True
    assert used["backends"]["vllm"]["roles"]["actor"]["top_k"] == 3
    assert used["protocol"]["retry_temperature"] == 0.7
    cold = load_config(overrides=["protocol.retry_temperature=0"]).resolve_settings()
    assert cold["protocol"]["retry_temperature"] == 0, "0 is set, too"


@pytest.mark.parametrize("where", BEFORE)
@pytest.mark.parametrize("wire", ["anthropic", "vllm", "litellm"])
def test_a_server_that_drips_bytes_is_a_timeout(wire, where):
    with dripping(where) as url:
        served = type("Served", (), {"root": url.removesuffix("/v1")})
        ledger = TrialLedger(lambda _role, _usage: None)
        with pytest.raises(LMTimeoutError):
            ask(backend(wire, served, timeout=0.5, retries=1), ledger=ledger)
        assert ledger.failures == {"LMTimeoutError": 2}
        for thread in [each for each in threading.enumerate() if each.name == "request"]:
            thread.join(30)
            assert not thread.is_alive(), "a request that was given up goes on"


@pytest.mark.parametrize("where", BEFORE)
def test_an_embedder_that_drips_bytes_is_given_up(where, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    with dripping(where) as url:
        config = EmbedderConfig(model="litellm/openai/m", base_url=url, timeout=0.5, retries=0)
        with pytest.raises(BackendFailure, match=r"within 0\.5 s"):
            LiteLLMRoute(config).encode(["a thermometer"])


ENDS = """
import sys, threading, warnings
warnings.simplefilter("ignore")
from concurrent.futures import ThreadPoolExecutor
from rsso_dspy.lm import Backend
from rsso_dspy.config import BackendConfig

lm = Backend(BackendConfig(model="hosted_vllm/m", base_url=sys.argv[1], timeout=1.0, retries=0)).lm("actor", 0)
pool = ThreadPoolExecutor(1)
pool.submit(lm, "hi")
while not any(each.name == "request" for each in threading.enumerate()):
    pass
sys.exit(130)
"""


def test_a_process_ends_although_a_request_hangs():
    with dripping("body") as url:
        done = subprocess.run([sys.executable, "-c", ENDS, url], timeout=30, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr


def test_an_answer_that_comes_too_late_books_nothing():
    gate, books = threading.Event(), []
    with provider(lambda _: gate.wait(30) and ANSWER, wire="vllm") as served:
        ledger = TrialLedger(lambda role, usage: books.append((role, usage)))
        with pytest.raises(LMTimeoutError):
            ask(backend("vllm", served, timeout=0.5), ledger=ledger)
        gate.set()
    for thread in [each for each in threading.enumerate() if each.name == "request"]:
        thread.join(30)
    assert [(usage.calls, usage.failed) for _, usage in books] == [(0, 1)]


def test_what_a_request_raises_and_gives_passes_through():
    assert call_with_timeout(30, lambda: dspy.settings.get("adapter")) is dspy.settings.get("adapter")
    with pytest.raises(TimeoutError, match="mine"):
        call_with_timeout(30, lambda: (_ for _ in ()).throw(TimeoutError("mine")))
    with pytest.raises(RequestTimeout):
        call_with_timeout(0.05, lambda: threading.Event().wait(2))


def answering(name: str | None = None, first: str | None = None):
    """An actor that looks around, under another name, or whose first answer is another."""
    asked = iter(range(10**6))

    def answer(body):
        said = look(body) if first is None or next(asked) else replace(look(body), text=first)
        reply = WIRES["openai"].format.answer(said)
        return 200, {**reply, "model": name or reply["model"]}

    return answer


def test_the_name_the_server_answers_under_is_recorded_and_said(tmp_path):
    dated = "gpt-4.1-mini-2026-04-14"
    with run_against("openai", tmp_path / "run", answer=answering(dated)) as run:
        run.play(1)
        (record,) = run.records
    assert record.trials[0].answered == {"actor": (dated,)}
    assert record.trials[0].sent == {"actor": {"temperature": 0.25, "max_tokens": 77}}
    assert analyze([record]).facts["answered by"] == (f"{dated} (actor)",)


def test_a_name_that_changes_within_a_run_is_said_below_the_table(tmp_path):
    names = iter(["a", "b", "b", "b"])
    with run_against("openai", tmp_path / "run", answer=lambda b: answering(next(names))(b)) as run:
        run.play(2)
        found = analyze(run.records)
    assert any("answered as actor under 2 names: a, b" in note for note in build_methods_table(found).notes)


def test_an_answer_of_any_length_stays_out_of_the_records(tmp_path):
    flood = look({}).text.replace("hm", "hm " * (2 * LONGEST_ANSWER))
    with run_against("openai", tmp_path / "run", answer=answering(first=flood), ask_again=True) as run:
        run.play(1)
        (record,) = run.records
    (trial,) = record.trials
    assert trial.usage["actor"].truncated == 1
    assert trial.trajectory.steps[0].action == "look around", "asked once more, in JSON"
    assert sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file()) < LONGEST_ANSWER


def test_two_actions_in_a_row_are_the_fewest_that_repeat():
    assert TrialRules(max_repeat=2).max_repeat == 2
    for count in (1, 0):
        with pytest.raises(UsageError, match="2 or more"):
            TrialRules(max_repeat=count)


def test_a_record_without_the_new_fields_reads_and_one_of_the_embedded_model_has_none(tmp_path):
    with run_against("openai", tmp_path / "run") as run:
        run.play(1)
        (record,) = run.records
        file = run.store.path_of(record)
        assert {"sent", "answered"} <= json.loads(file.read_text().splitlines()[-1])["result"].keys()
        bare = replace(record, trials=tuple(replace(trial, sent={}, answered={}) for trial in record.trials))
        save(run.store, bare)
        assert not {"sent", "answered"} & json.loads(file.read_text().splitlines()[-1])["result"].keys()
        assert run.store.load(record) == bare
