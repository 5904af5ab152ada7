"""Equal retries are a control where they can differ: what makes them, what is sent for it, and what is said where they
cannot."""

import re
from dataclasses import replace

import dspy
import pytest

import rsso_dspy
from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.lm import Backend
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.tables import build_methods_table, write_headline
from rsso_dspy.store.run_folder import Store
from tests.live import FAST, says
from tests.provider_runs import KEY, OFFLINE, PLAYED, STEPS, run_against
from tests.provider_server import completion, provider

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("provider_key"),
]

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
        (GREEDY, ["preset=agentboard/3", "stream_trials=2"], USUAL),
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
