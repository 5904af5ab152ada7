import dspy
import pytest

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.errors import BackendUnreachable, ConfigError, MissingKey
from rsso_dspy.lm import Backend
from tests.provider_server import completion, provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KEY = "sk-planted-secret"


def ask(backend: Backend, role: str, rollout: int = 0) -> str:
    with dspy.context(adapter=backend.adapter, disable_history=True):
        return dspy.Predict("question -> answer")(question="Is water wet?", lm=backend.lm(role, rollout)).answer


def test_equal_requests_to_two_servers_are_two_requests():
    answers = []
    for word in ("one", "two"):
        with provider(lambda _, word=word: completion(f"[[ ## answer ## ]]\n{word}")) as served:
            answers.append(ask(Backend(BackendConfig(model="hosted_vllm/m", base_url=served.url)), "actor"))
    assert answers == ["one", "two"]


def test_a_missing_key_names_its_variable():
    backend = Backend(BackendConfig(model="openai/x", key_variable="NO_SUCH_KEY_VARIABLE"))
    with pytest.raises(MissingKey, match="NO_SUCH_KEY_VARIABLE"):
        backend.check()


@pytest.mark.parametrize("model", ["gpt-4", "openai/", "embedded/oracle"])
def test_an_unknown_form_of_model_name_is_an_error_that_names_the_known_ones(model):
    with pytest.raises(ConfigError, match=r"provider/model|embedded/explorer"):
        Backend(BackendConfig(model=model)).check()


def test_an_unreachable_endpoint_is_named_before_anything_is_played():
    backend = Backend(BackendConfig(model="openai/x", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(BackendUnreachable, match=r"127\.0\.0\.1:9"):
        backend.check_connections()


def test_the_embedded_backend_is_rule_based_and_needs_nothing():
    backend = Backend(load_config().active_backend)
    backend.check()
    backend.check_connections()
    assert backend.rule_based
    assert not Backend(BackendConfig(model="openai/x")).rule_based


def test_a_role_on_another_provider_inherits_neither_endpoint_nor_key(monkeypatch):
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    roles = {"reflector": {"model": "anthropic/claude-x"}, "verbalizer": {"model": "openai/other"}}
    table = BackendConfig(
        model="openai/x", base_url="http://127.0.0.1:9/v1", key_variable="TEST_PROVIDER_KEY", roles=roles
    )
    backend = Backend(table)
    assert backend.lm("verbalizer", 0).kwargs["api_key"] == KEY
    assert backend.lm("verbalizer", 0).kwargs["api_base"] == "http://127.0.0.1:9/v1"
    assert not {"api_key", "api_base"} & set(backend.lm("reflector", 0).kwargs)


def test_a_run_is_labelled_when_the_rule_based_model_answers_in_any_role():
    assert Backend(BackendConfig(model="openai/x", roles={"reflector": {"model": "embedded/explorer"}})).rule_based


def test_rollouts_tell_repeats_apart_on_the_embedded_backend():
    backend = Backend(load_config().active_backend)
    assert backend.lm("actor", 1) is backend.lm("actor", 1)
    assert backend.lm("actor", 1).engine is not backend.lm("actor", 2).engine


def test_a_role_with_an_endpoint_of_its_own_gets_no_key_that_was_not_meant_for_it(monkeypatch):
    monkeypatch.setenv("MINE", "sk-mine")
    config = load_config(
        overrides=[
            "backend=mine",
            "backends.mine.model=hosted_vllm/m",
            "backends.mine.base_url=http://127.0.0.1:1/v1",
            "backends.mine.key_variable=MINE",
            "backends.mine.roles.reflector.base_url=http://127.0.0.1:2/v1",
            "backends.mine.roles.verbalizer.temperature=0.5",
        ]
    )
    backend = Backend(config.active_backend)
    assert backend.lm("actor", 1).kwargs.get("api_key") == "sk-mine"
    assert backend.lm("verbalizer", 1).kwargs.get("api_key") == "sk-mine"
    assert backend.lm("reflector", 1).kwargs.get("api_key") is None
