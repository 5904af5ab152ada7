import logging

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.errors import ConfigError, MissingKey
from rsso_dspy.lm import Backend
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.signatures import FlatActor
from tests.provider_formats import Said
from tests.provider_server import provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KEY = "sk-planted-secret"
CLAUDE = "anthropic/claude-sonnet-4-6"
TOLD = (None, True, False)


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        ({"model": "openai/x", "key_variable": "NO_SUCH_KEY_VARIABLE"}, MissingKey, "NO_SUCH_KEY_VARIABLE"),
        ({"model": "gpt-4"}, ConfigError, "provider/model"),
        ({"model": "openai/"}, ConfigError, "provider/model"),
        ({"model": "embedded/oracle"}, ConfigError, "embedded/explorer"),
        ({"model": "openai/gpt-5-mini"}, ConfigError, r"gpt-5-mini.* of role actor .*temperature.*max_tokens"),
        ({"model": CLAUDE, "repetition_penalty": 1.1}, ConfigError, "repetition_penalty: leave it out"),
        ({"model": CLAUDE, "temperature": 1.5}, ConfigError, "1 is the highest"),
        ({"model": "ollama_chat/llama3.1", "top_k": 40}, ConfigError, "top_k: .*Modelfile"),
        ({"model": "openai/x", "top_k": 40}, ConfigError, "base_url"),
        ({"model": "openai/x", "roles": {"reflector": {"top_k": 2}}}, ConfigError, "role reflector does not support"),
    ],
)
def test_what_would_stop_every_unit_is_named_before_anything_is_played(table, error, said):
    backend = Backend(BackendConfig(**table))
    with pytest.raises(error, match=said):
        backend.check()


def test_the_embedded_backend_needs_nothing_and_a_run_is_labelled_when_it_answers_in_any_role():
    backend = Backend(load_config().active_backend)
    backend.check()
    assert backend.rule_based
    assert backend.lm("actor", 1) is backend.lm("actor", 1)
    assert backend.lm("actor", 1).engine is not backend.lm("actor", 2).engine
    assert not Backend(BackendConfig(model="openai/x")).rule_based
    asks_again = [Backend(BackendConfig(model="openai/x", ask_again=told)).lm("actor", 1).asks_again for told in TOLD]
    assert asks_again == [True, True, False]
    assert Backend(BackendConfig(model="openai/x", roles={"reflector": {"model": "embedded/explorer"}})).rule_based


def test_no_key_and_no_address_reach_a_server_they_were_not_meant_for(monkeypatch):
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    url = "http://127.0.0.1:9/v1"
    roles = {
        "reflector": {"model": "anthropic/claude-x"},
        "verbalizer": {"model": "openai/other"},
        "advisor": {"base_url": "http://127.0.0.1:2/v1"},
    }
    backend = Backend(BackendConfig(model="openai/x", base_url=url, key_variable="TEST_PROVIDER_KEY", roles=roles))
    reached = {role: backend.lm(role, 0).kwargs for role in ("actor", *roles)}
    assert {role: (own.get("api_key"), own.get("api_base")) for role, own in reached.items()} == {
        "actor": (KEY, url),
        "reflector": (None, None),
        "verbalizer": (KEY, url),
        "advisor": (None, "http://127.0.0.1:2/v1"),
    }


STEP = '{"thought": "hm", "action": "look around"}'
FIELDS = {
    "task": "Look.",
    "action_templates": "look around",
    "history": dspy.History(messages=[]),
    "observation": "A room.",
}


def test_answers_that_were_cut_off_are_counted_and_not_printed(caplog):
    ledger = TrialLedger(lambda _role, _usage: None)
    with provider(lambda _: Said(STEP, output=5, ending="length")) as served:
        backend = Backend(BackendConfig(model="hosted_vllm/m", base_url=served.url, adapter="json"))
        told = {"adapter": backend.adapter, "lm": backend.lm("actor", 3), "disable_history": True}
        for _ in range(2):
            with dspy.context(**told), ledger.book_under_role("actor"):
                assert dspy.Predict(FlatActor)(**FIELDS).action == "look around"
    assert ledger.usage_by_role()["actor"].truncated == 2
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(("text", "asked"), [("", 1), ("Hm, the door is sh", 2)])
def test_an_answer_that_hidden_reasoning_used_up_is_not_asked_for_again_at_full_price(text, asked):
    ledger = TrialLedger(lambda _role, _usage: None)
    with provider(lambda _: Said(text, output=1024, reasoning=1000, ending="length")) as served:
        backend = Backend(BackendConfig(model="hosted_vllm/m", base_url=served.url))
        with dspy.context(adapter=backend.adapter, lm=backend.lm("actor", 3)), ledger.book_under_role("actor"):
            with pytest.raises(AdapterParseError):
                dspy.Predict(FlatActor)(**FIELDS)
    assert len(served.requests) == asked
    assert ledger.usage_by_role()["actor"].truncated == asked


@pytest.mark.parametrize(
    ("words", "counted", "is_short"),
    [
        (1000, 1100, False),
        (1000, 900, False),
        (1000, 512, True),
        (1000, 0, False),  # no count, which the bill says
        (400, 100, False),  # too little to be sure of
    ],
)
def test_a_server_that_counts_far_fewer_tokens_than_were_sent_is_noticed(words, counted, is_short):
    ledger = TrialLedger(lambda _role, _usage: None)
    with provider(lambda _: Said(STEP, input=counted)) as served:
        backend = Backend(BackendConfig(model="hosted_vllm/m", base_url=served.url, adapter="json"))
        with dspy.context(adapter=backend.adapter, lm=backend.lm("actor", 3)), ledger.book_under_role("actor"):
            dspy.Predict(FlatActor)(**{**FIELDS, "observation": "stone " * words})
    assert ledger.usage_by_role()["actor"].undercounted == is_short
