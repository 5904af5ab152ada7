"""What errors of models mean, by the words of servers, and in which other form a request is sent."""

import json
from http.server import BaseHTTPRequestHandler

import dspy
import pytest
from dspy.utils.exceptions import (
    LMBillingError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMServerError,
    LMUnsupportedFeatureError,
)

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import BackendConfig
from rsso_dspy.errors import ConfigError
from rsso_dspy.failures import find_other_form, find_refused_setting, normalize_error
from rsso_dspy.lm import Backend, move_system_text
from rsso_dspy.playing import playing
from rsso_dspy.replies import ErrorResponse
from tests.provider_server import provider, serving

OVERFULL = "max_tokens must be at least 1, got -200. This model's maximum context length is 4096 tokens."


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        (
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value.",
            "temperature",
        ),
        ("temperature must be at most 2.0, got 3.0.", "temperature"),
        ("top_p: not supported by this model", "top_p"),
        ("Unrecognized request argument supplied: top_k", "top_k"),
        ("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens", "max_tokens"),
        (OVERFULL, ""),
        ("'max_tokens' is too large: 1024. Your request has 3900 input tokens.", ""),
        ("The model `temperature` does not exist.", ""),
        ("", ""),
    ],
)
def test_the_setting_that_a_server_refuses_is_read_off_its_words(words, setting):
    assert find_refused_setting(words) == setting


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("System role not supported", "system"),
        ("Conversation roles must alternate user/assistant/user/assistant/...", "system"),
        ("Only user and assistant roles are supported!", "system"),
        ("Developer instruction is not enabled for models/gemma-3-27b-it", "system"),
        ("This model does not support system messages; the system message was not accepted", "system"),
        (
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_completion_tokens",
        ),
        ("`temperature` is deprecated for this model.", None),
        ("The system is overloaded.", None),
        (OVERFULL, None),
    ],
)
def test_another_form_is_known_for_what_asks_the_same(words, form):
    assert find_other_form(words) == form


@pytest.mark.parametrize(
    ("error", "status", "words", "kind", "advice"),
    [
        (LMInvalidRequestError, 400, "`temperature` is deprecated.", LMUnsupportedFeatureError, 'temperature = "none"'),
        (LMInvalidRequestError, 400, "System role not supported", LMUnsupportedFeatureError, 'system = "user"'),
        (LMServerError, 500, "System role not supported", LMUnsupportedFeatureError, 'system = "user"'),
        (LMInvalidRequestError, 400, "max_tokens is not supported", LMUnsupportedFeatureError, "azure/gpt5_series/dep"),
        (LMInvalidRequestError, 413, "Request too large on tokens per minute (TPM)", LMRateLimitError, ""),
        (LMInvalidRequestError, 413, "Body too large", LMInvalidRequestError, ""),
        (LMInvalidRequestError, 400, "Your credit balance is too low", LMBillingError, ""),
        (LMServerError, 500, "oops", LMServerError, ""),
    ],
)
def test_an_error_has_the_words_of_the_server_its_status_and_what_helps(error, status, words, kind, advice):
    response = ErrorResponse(status, words)
    failure = normalize_error(error(message="client's own"), response, "azure/dep", has_system=True)
    assert type(failure) is kind
    assert failure.message.startswith(f"{words.rstrip('.')}")
    assert f"({status})" in failure.message
    assert "client's own" not in failure.message
    assert (advice in failure.message) == bool(advice) or not advice
    assert ("table" in failure.message) == ('"' in advice)


def test_a_server_that_says_nothing_is_told_by_its_status():
    failure = normalize_error(LMServerError(message=""), ErrorResponse(503, ""))
    assert failure.message == "the server said nothing (503)"


SYSTEM = {"role": "system", "content": "Rules."}
PART = {"type": "text", "text": "Go."}


@pytest.mark.parametrize(
    ("messages", "moved"),
    [
        ([SYSTEM, {"role": "user", "content": "Go."}], [{"role": "user", "content": "Rules.\n\nGo."}]),
        (
            [SYSTEM, {"role": "user", "content": [PART]}],
            [{"role": "user", "content": [{"type": "text", "text": "Rules."}, PART]}],
        ),
        ([SYSTEM], [{"role": "user", "content": "Rules."}]),
        (
            [SYSTEM, {"role": "assistant", "content": "Hm."}],
            [{"role": "user", "content": "Rules."}, {"role": "assistant", "content": "Hm."}],
        ),
        ([{"role": "user", "content": "Go."}], [{"role": "user", "content": "Go."}]),
        ([], []),
    ],
)
def test_the_text_of_a_system_message_goes_to_the_beginning_of_the_first_user_message(messages, moved):
    assert move_system_text(messages) == moved


def chat(text):
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return 200, {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def ask(lm):
    """Ask with a system message, as every program does."""
    signature = dspy.Signature("place -> turn", "Say where to turn.")
    (fields,) = ChatAdapter()(lm, {}, signature, [], {"place": "hall"})
    return fields["turn"]


SETTINGS = {"model": "hosted_vllm/m", "retries": 0}


def without_system(request):
    if request["messages"][0]["role"] == "system":
        return 400, {"object": "error", "message": "System role not supported", "type": "BadRequestError", "code": 400}
    return chat("left")


class Calls:
    """What a log is told of calls."""

    def __init__(self):
        self.failed = []
        self.ended = []

    def find(self, *_):
        return None

    def begin(self, _place, request):
        self.request = request
        return 1

    def fail(self, _number, kind, _usage):
        self.failed.append(kind)

    def end(self, _number, **outcome):
        self.ended.append(outcome)


def test_a_server_that_takes_no_system_message_gets_none_from_then_on():
    calls = Calls()
    with provider(without_system) as served, playing(calls=calls):
        backend = Backend(BackendConfig(**SETTINGS, base_url=served.url))
        for rollout in (0, 1):  # each has a model object of its own
            assert ask(backend.lm("actor", rollout)) == "left"
    assert [[message["role"] for message in request["messages"]] for request in served.requests] == [
        ["system", "user"],
        ["user"],
        ["user"],
    ]
    assert served.requests[-1]["messages"][0]["content"].startswith("Say where to turn.")
    assert calls.failed == ["LMUnsupportedFeatureError"]
    assert [outcome["forms"] for outcome in calls.ended] == [["system"], ["system"]]
    assert [message["role"] for message in calls.request["messages"]] == ["system", "user"], "as it was asked"
    assert len(backend.describe_forms()) == 1


def test_a_deployment_that_takes_the_limit_under_its_new_name_gets_it_so(monkeypatch):
    monkeypatch.setenv("AZURE_API_KEY", "planted-key-0123456789")
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    sent = []

    class Deployment(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append([name for name in ("max_tokens", "max_completion_tokens") if request.get(name)])
            refusal = {
                "error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}
            }
            status, body = (400, refusal) if "max_tokens" in request else chat("left")
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    calls = Calls()
    with serving(Deployment) as address, playing(calls=calls):
        backend = Backend(BackendConfig(model="azure/m", retries=0, base_url=address))
        for rollout in (0, 1):
            assert ask(backend.lm("actor", rollout)) == "left"
    assert sent == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]
    assert [outcome["forms"] for outcome in calls.ended] == [["max_completion_tokens"]] * 2


def test_a_model_without_system_messages_gets_none_by_a_setting():
    calls = Calls()
    with provider(without_system) as served, playing(calls=calls):
        backend = Backend(BackendConfig(**SETTINGS, base_url=served.url, system="user"))
        assert ask(backend.lm("actor", 0)) == "left"
    assert len(served.requests) == 1
    (message,) = calls.request["messages"]
    assert message["role"] == "user"
    assert message["content"].startswith("Say where to turn.")
    assert message["content"].endswith("Place: hall")
    assert calls.ended[0]["forms"] == []


def test_a_form_that_is_refused_too_ends_with_what_the_server_said_last():
    refusal = 400, {"message": "Conversation roles must alternate user/assistant"}
    with provider(lambda _: refusal) as served:
        backend = Backend(BackendConfig(**SETTINGS, base_url=served.url))
        with pytest.raises(LMInvalidRequestError, match="must alternate"):
            ask(backend.lm("actor", 0))
    assert len(served.requests) == 2


@pytest.mark.parametrize("setting", ["temperature", "max_tokens"])
def test_a_setting_that_is_none_is_not_sent(setting):
    with provider(lambda _: chat("left")) as served:
        backend = Backend(BackendConfig(**SETTINGS, base_url=served.url, **{setting: "none"}))
        assert ask(backend.lm("actor", 0)) == "left"
        assert ask(backend.lm("actor", 1, 0.7)) == "left"
    other = "max_tokens" if setting == "temperature" else "temperature"
    assert [(setting in request, other in request) for request in served.requests] == [(False, True)] * 2


def test_a_model_that_takes_no_temperature_has_none_to_retry_at():
    backend = Backend(BackendConfig(model="hosted_vllm/m", temperature="none"))
    with pytest.raises(ConfigError, match=r"retry_temperature = 0\.7 cannot be sent"):
        backend.check(0.7)
