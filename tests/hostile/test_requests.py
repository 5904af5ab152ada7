"""Requests as they leave, and what a server may do to them: settings, time, length, the name it answers under; and what
makes equal retries differ."""

import re
import subprocess
import sys
import threading
from dataclasses import replace

import dspy
import pytest
from dspy.utils.exceptions import LMTimeoutError

import rsso_dspy
from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.errors import ConfigError
from rsso_dspy.lm import Backend
from rsso_dspy.logged_lm import LONGEST_ANSWER
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.headline import write_headline
from rsso_dspy.report.tables import build_methods_table
from rsso_dspy.store.run_folder import Store
from tests.live import FAST, says
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, OFFLINE, PLAYED, STEPS, backend, look, run_against
from tests.provider_server import completion, provider

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
        ("ollama_chat/llama3.1", {"top_k": 40}, "PARAMETER top_k 40"),
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


# Equal retries are a control where they can differ: what makes them, and what is said where they cannot.

TWO = ("protocol.trials=2",)


def test_every_request_of_a_run_has_a_seed_of_its_own_and_a_replay_the_same(tmp_path):
    sent = []
    for name in ("one", "again"):
        with run_against("vllm", tmp_path / name, settings=TWO, seed=True) as run:
            run.play(2)
            sent.append([body["seed"] for body in run.served.requests])
            recorded = [trial.sent["actor"]["seed"] for unit in run.records for trial in unit.trials]
    seeds = sent[0]
    assert len(seeds) == 2 * 2 * STEPS == len(set(seeds)), "units x trials x steps, all apart"
    assert sent[1] == seeds
    assert recorded == seeds[::STEPS]
    assert all(second == first + 1 for first, second in zip(seeds[::STEPS], seeds[1::STEPS], strict=True))


@pytest.mark.parametrize(
    ("settings", "first", "later", "named"),
    [
        ((), 0.0, 0.7, " retry_temperature=0.7"),
        (("protocol.retry_temperature=0.3",), 0.0, 0.3, " retry_temperature=0.3"),
        (("protocol.retry_temperature=0",), 0.0, 0.0, " retry_temperature=0.0"),
        ((), 0.25, 0.25, ""),
    ],
)
def test_the_actor_retries_at_the_temperature_of_the_protocol(tmp_path, settings, first, later, named):
    with run_against("openai", tmp_path / "run", settings=(*TWO, *settings), temperature=first) as run:
        run.play(1)
    assert [body["temperature"] for body in run.served.requests] == [first] * STEPS + [later] * STEPS
    (unit,) = run.records
    assert [trial.sent["actor"]["temperature"] for trial in unit.trials] == [first, later]
    assert "".join(re.findall(r" retry_temperature=\S+", unit.protocol)) == named


@pytest.mark.parametrize(("first", "later"), [(0.0, 0.7), (0.25, 0.25)])
@pytest.mark.parametrize("by", ["run", "call"])
def test_a_model_of_dspy_retries_by_the_same_rule(live, tmp_path, by, first, later):
    """In a run, whose records name it, and in a person's own call, set after the session was opened."""
    look = completion(says(thought="hm", action="look around"))
    with provider(lambda _: look) as served:
        asked = {"api_base": served.url, "api_key": KEY, "cache": False, "temperature": first, "max_tokens": 64}
        lm, brief = dspy.LM("openai/mine", **asked), replace(live.runtime, budget=lambda _: 1)
        if by == "call":
            with live.activate_for_user(), brief.activate(), dspy.context(lm=lm):
                Agent("react")(variant="find-plant::229", trials=2)
        else:
            config = load_config(overrides=[*OFFLINE, "protocol.steps=1"])
            out = tmp_path / "run"
            with dspy.context(lm=lm):
                rsso_dspy.run("react", config=config, variants=[PLAYED], trials=2, out=out, progress=False)
            (unit,) = Store(out).units()
            assert ("retry_temperature=0.7" in unit.protocol) is (later == 0.7)
    assert [body["temperature"] for body in served.requests] == [first, later]


GREEDY = {"model": "hosted_vllm/m"}
COLD = ["retry_temperature=0"]
USUAL, OWN, OFF = (0.7, " retry_temperature=0.7"), (None, ""), (0, " retry_temperature=0.0")


@pytest.mark.parametrize(
    ("backend", "protocol", "at"),
    [
        (GREEDY, [], USUAL),
        ({**GREEDY, "temperature": 0.7, "roles": {"actor": {"temperature": 0}}}, [], USUAL),
        (GREEDY, ["retry_temperature=0.2"], (0.2, " retry_temperature=0.2")),
        ({**GREEDY, "temperature": 0.2}, [], OWN),
        ({"model": "embedded/explorer"}, [], OWN),
        ({"model": "openai/gpt-5-mini", "max_tokens": 16000}, [], OWN),
        ({**GREEDY, "top_k": 1}, [], OWN),
        (GREEDY, COLD, OFF),
        ({**GREEDY, "seed": True}, COLD, OFF),
        (GREEDY, [*COLD, "frozen=true"], OFF),
        (GREEDY, ["trials=1"], (0.7, "")),
        (GREEDY, ["preset=agentboard/2", "stream_trials=2"], USUAL),
        (GREEDY, ["setting=transfer"], OWN),
    ],
)
def test_retries_vary_by_default_where_the_first_trial_does_not(backend, protocol, at, monkeypatch):
    """The temperature of retries in force, and what the protocol's id says of it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    config = load_config(overrides=FAST).model_copy(update={"backend": "mine"})
    config = config.model_copy(update={"backends": {"mine": BackendConfig(**backend)}})
    protocols = load_config(overrides=[f"protocol.{each}" for each in protocol]).protocol
    config = config.model_copy(update={"protocol": protocols})
    resolved, made = resolve_protocol(config), Backend(config.active_backend)
    assert (resolved.rules.retry_temperature, "".join(re.findall(r" retry_temperature=\S+", resolved.id))) == at
    made.check(resolved.rules.retry_temperature)


def test_trials_that_were_equal_are_said_below_the_table(tmp_path):
    with run_against("openai", tmp_path / "run", settings=TWO) as run:
        run.play(2)
    found = analyze(run.records)
    assert found.repeated == {"react": (2, 2)}
    assert any("react 2 of 2" in note and "retry_temperature" in note for note in build_methods_table(found).notes)
    assert "every trial took the same actions: react 2 of 2" in write_headline(found)
