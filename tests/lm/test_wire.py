"""What leaves for a provider, and what is read from its answers, in each format, with nothing but configuration."""

import subprocess
import sys
import threading
from dataclasses import asdict, replace
from itertools import pairwise

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError, LMError, LMTimeoutError

from rsso_dspy.lm import LONGEST_ANSWER, Backend
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.records import Usage
from rsso_dspy.report.analysis import analyze
from tests.provider_faults import FAULTS
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, backend, look, run_against, table
from tests.provider_server import provider

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("_keys"),
]

OTHER_KEY = "sk-another-secret"
ANSWER = Said("yes")
NEIGHBOURS = [*pairwise(WIRES), (list(WIRES)[-1], next(iter(WIRES)))]
each_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture
def _keys(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("TEST_OTHER_KEY", OTHER_KEY)


class Wetness(dspy.Signature):
    """Judge wetness."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def ask(models: Backend, role: str = "actor", ledger: TrialLedger | None = None) -> str:
    """Ask a question in a role and book it on the ledger."""
    lm, ledger = models.lm(role, 0), ledger or booked()
    with dspy.context(adapter=models.adapter, disable_history=True), ledger.book_under_role(role):
        return dspy.Predict(Wetness)(question="Is water wet?", lm=lm).answer


def booked() -> TrialLedger:
    return TrialLedger(lambda _role, _usage: None)


@each_wire
def test_what_is_configured_arrives_under_the_names_of_the_format_and_usage_has_one_meaning(wire):
    about = WIRES[wire]
    written = 30 if wire == "anthropic" else 0  # the chat format reports none
    told = Said(ANSWER.text, input=200, output=50, cached=120, cache_write=written, reasoning=40)
    own = {"model": about.other, "temperature": 0.75, "max_tokens": 88}
    with provider(lambda _: told, wire=wire) as served:
        models, ledger = backend(wire, served, roles={"verbalizer": own}), booked()
        for role in ("actor", "verbalizer", "actor"):
            assert ask(models, role, ledger) == "yes"
    assert served.flaws == []
    assert set(served.paths) == {{"messages": "/v1/messages", "chat": "/v1/chat/completions"}[about.format.name]}
    plain = (about.model.partition("/")[2], 0.25, 77)
    named = [(body["model"], body["temperature"], body[about.limit]) for body in served.requests]
    assert named == [plain, (about.other.partition("/")[2], 0.75, 88), plain]
    assert {about.format.key({name.lower(): value for name, value in sent.items()}) for sent in served.headers} == {KEY}
    for body in served.requests:
        system, user = about.format.split(body)
        assert not body.get("stream")
        assert ("Judge wetness." in system, "Judge wetness." in user) == (True, False)
        assert ("Is water wet?" in user, "Is water wet?" in system) == (True, False)
    once = Usage(calls=1, input=200, output=50, cached=120, cache_write=written, reasoning=40)
    assert ledger.usage_by_role() == {"actor": once + once, "verbalizer": once}


@pytest.mark.parametrize(("wire", "other"), NEIGHBOURS)
def test_a_role_on_another_provider_goes_to_its_own_server_with_its_own_key(wire, other):
    with provider(lambda _: ANSWER, wire=wire) as first, provider(lambda _: ANSWER, wire=other) as second:
        own = table(other, second, key_variable="TEST_OTHER_KEY")
        kept = {name: own[name] for name in ("model", "base_url", "key_variable")}
        models = backend(wire, first, roles={"reflector": kept})
        ask(models, "actor")
        ask(models, "reflector")
    assert len(first.requests) == len(second.requests) == 1
    assert first.flaws == second.flaws == []
    assert KEY in str(first.headers)
    assert KEY not in str(second.headers)
    assert OTHER_KEY in str(second.headers)
    assert OTHER_KEY not in str(first.headers)


def test_a_key_that_was_not_configured_but_found_in_the_environment_is_struck_out_too(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", OTHER_KEY)
    with provider(lambda _: ANSWER, {0: "bad key"}, wire="anthropic") as served, pytest.raises(LMAuthError) as raised:
        ask(backend("anthropic", served, key_variable=None))
    assert OTHER_KEY in str(served.headers)
    assert OTHER_KEY not in str(raised.value)


@each_wire
@pytest.mark.parametrize("name", ["API_BASE", "BASE_URL"])
def test_the_configured_address_holds_against_variables_of_the_environment(wire, name, monkeypatch):
    provider_name = WIRES[wire].model.partition("/")[0].upper()
    monkeypatch.setenv(f"{provider_name}_{name}", "http://127.0.0.1:9/v1")
    with provider(lambda _: ANSWER, wire=wire) as served:
        assert ask(backend(wire, served)) == "yes"
    assert served.flaws == []


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("wire", ["anthropic", "ollama"])
def test_an_address_may_leave_out_its_path_where_that_is_the_custom(wire, base):
    with provider(lambda _: ANSWER, wire=wire) as served:
        assert ask(backend(wire, served, base)) == "yes"


def test_cached_tokens_counted_beside_the_input_are_added_to_it():
    ledger = booked()
    for sent, cached, written in ((10, 4, 5), (10, 400, 20)):
        details = {"cached_tokens": cached, "cache_creation_tokens": written}
        ledger.add_usage("", {"prompt_tokens": sent, "completion_tokens": 1, "prompt_tokens_details": details})
    assert asdict(ledger.usage_by_role()[""]) == asdict(Usage(calls=2, input=440, output=2, cached=404, cache_write=25))


@each_wire
@pytest.mark.parametrize(
    ("name", "retries"),
    [("rate limit", 0), ("server error", 0), ("dropped before the headers", 0), ("rate limit until tomorrow", 3)],
)
def test_nothing_asks_again_behind_our_back_or_before_it_is_time(wire, name, retries):
    with provider(lambda _: ANSWER, {0: name}, wire=wire) as served, pytest.raises(LMError) as raised:
        ask(backend(wire, served, retries=retries))
    assert type(raised.value).__name__ == FAULTS[name].of(wire)[1]
    assert raised.value.retry_after == (86400.0 if retries else raised.value.retry_after)
    assert len(served.requests) == 1


SAMPLING = ("top_p", "top_k", "repetition_penalty", "repeat_penalty", "seed")
ALL = {"top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1}
BOTH_NAMES = {**ALL, "repeat_penalty": 1.1}


@pytest.mark.parametrize(
    ("wire", "settings", "sent"),
    [
        *((wire, {}, {}) for wire in WIRES),
        ("anthropic", {"top_p": 0.9, "top_k": 40}, {"top_p": 0.9, "top_k": 40}),
        ("vllm", {"top_k": 40}, {"top_k": 40}),
        ("openai", ALL, BOTH_NAMES),
    ],
)
def test_decoding_settings_arrive_as_set_and_only_when_set(wire, settings, sent):
    with provider(lambda _: ANSWER, wire=wire) as served:
        assert ask(backend(wire, served, **settings)) == "yes"
    (body,) = served.requests
    assert served.flaws == []
    assert {name: body[name] for name in SAMPLING if name in body} == sent
    assert body["temperature"] == 0.25


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
    gate = threading.Event()
    with provider(lambda _: gate.wait(30) and ANSWER, wire="vllm") as served:
        done = subprocess.run([sys.executable, "-c", ENDS, served.url], timeout=30, capture_output=True, text=True)
        gate.set()
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


def test_an_answer_of_any_length_stays_out_of_the_records(tmp_path):
    flood = look({}).text.replace("hm", "hm " * (2 * LONGEST_ANSWER))
    with run_against("openai", tmp_path / "run", answer=answering(first=flood), ask_again=True) as run:
        run.play(1)
        (record,) = run.records
    (trial,) = record.trials
    assert trial.usage["actor"].truncated == 1
    assert trial.trajectory.steps[0].action == "look around", "asked once more, in JSON"
    assert sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file()) < LONGEST_ANSWER
