"""Requests as they leave, and what a server may do to them: settings, time, length, and the name it answers under."""

import subprocess
import sys
import threading
from dataclasses import replace

import dspy
import pytest
from dspy.utils.exceptions import LMTimeoutError

from rsso_dspy.config import BackendConfig
from rsso_dspy.errors import ConfigError
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import LONGEST_ANSWER
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.report.analysis import analyze
from tests.provider_formats import WIRES, Said
from tests.provider_runs import backend, look, run_against
from tests.provider_server import provider

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("provider_key"),
]

ANSWER = Said("yes")
SAMPLING = ("top_p", "top_k", "repetition_penalty", "repeat_penalty", "seed")


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
    assert sampled(body) == sent
    assert body["temperature"] == 0.25


@pytest.mark.parametrize(
    ("model", "settings", "mend"),
    [
        ("anthropic/claude-sonnet-4-6", {"repetition_penalty": 1.1}, "repetition_penalty: leave it out"),
        ("anthropic/claude-sonnet-4-6", {"temperature": 1.5}, "1 is the highest"),
        ("ollama_chat/llama3.1", {"top_k": 40}, "Modelfile"),
        ("openai/gpt-4.1-mini", {"top_k": 40}, "base_url"),
        ("openai/gpt-4.1-mini", {"roles": {"reflector": {"top_k": 2}}}, "role reflector does not support top_k"),
    ],
)
def test_a_setting_that_a_provider_would_drop_is_refused_before_anything_is_sent(model, settings, mend):
    with pytest.raises(ConfigError, match=mend):
        Backend(BackendConfig(model=model, **settings)).check()


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
