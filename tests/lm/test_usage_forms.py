"""What a bill makes of a usage in each form that servers report: read off the response, and after a request through the
client of the product. Values are written out by hand."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import dspy
import pytest

from rsso_dspy.calls import read_cost
from rsso_dspy.config import BackendConfig
from rsso_dspy.lm import Backend, make_logged
from rsso_dspy.pricing import price_usage
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.records import Usage, reaches_limit, read_logged_usage, read_usage
from rsso_dspy.replies import choose_usage, read_body_usage
from rsso_dspy.usage_forms import read_token_counts, write_token_counts
from tests.provider_server import replying
from tests.server_forms import ANSWER, PLAIN, PRICE, SERVERS, Server, chat, counted

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KEY = "sk-planted-secret"
VARIABLE = "TEST_SERVER_KEY"
each_server = pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)


@each_server
def test_the_body_of_a_response_says_what_is_billed(server):
    usage = read_usage(read_body_usage(server.body))
    assert usage == server.counted
    assert price_usage("react", "actor", server.model, usage, lambda _: PRICE).billed == pytest.approx(server.dollars)


@dataclass
class Asked:
    """What came of one question."""

    answer: object
    booked: list[Usage]
    tracked: dict[str, dict[str, Any]]
    """By DSPy's own tracker: model to usage."""


def ask(server: Server, is_async: bool = False, **settings: Any) -> Asked:
    """Ask through the product's client a server that answers in this form."""
    data = json.dumps(server.body).encode()
    booked: list[Usage] = []
    ledger = TrialLedger(lambda _role, usage: booked.append(usage))
    with (
        replying(lambda *_: (200, {"Content-Type": "application/json"}, data)) as url,
        dspy.track_usage() as tracker,
        ledger.book_under_role("actor"),
    ):
        address = f"{url}{server.path}"
        plain = {"key_variable": VARIABLE, "retries": 0, "max_tokens": 77}
        lm = Backend(BackendConfig(model=server.model, base_url=address, **plain, **settings)).lm("actor", 0)
        question = "Is water wet?"
        answer = asyncio.run(lm.acall(question)) if is_async else lm(question)
    return Asked(answer, booked, tracker.get_total_tokens())


THROUGH_LITELLM = {"top_k": 5}
"""A setting that has DSPy's own client replaced by LiteLLM where a server of one's own is named."""

WAYS = [
    *((name, {}) for name in SERVERS),
    *((name, THROUGH_LITELLM) for name in ("gemini-chat", "vllm", "sglang", "llama.cpp", "total-alone")),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("name", "settings"), WAYS)
def test_what_is_booked_after_a_request_is_what_the_body_says(name, settings, is_async, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    server = SERVERS[name]
    asked = ask(server, is_async, **settings)

    (completion,) = asked.answer
    text = completion["text"] if isinstance(completion, dict) else completion
    assert text == ANSWER
    assert asked.booked == [server.counted]

    if not server.counted.unmetered:
        (usage,) = asked.tracked.values()
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (server.counted.input, server.counted.output)


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1760000000,
    "status": "completed",
    "model": "m",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        },
    ],
    "usage": {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens_details": {"reasoning_tokens": 8},
    },
}
"""Of OpenAI's Responses API."""


def test_a_users_model_on_the_responses_api_is_booked_likewise():
    booked: list[Usage] = []
    ledger = TrialLedger(lambda _role, usage: booked.append(usage))
    data = json.dumps(RESPONSE).encode()
    with replying(lambda *_: (200, {"Content-Type": "application/json"}, data)) as url, ledger.book_under_role("actor"):
        lm = dspy.LM("openai/gpt-4.1-mini", model_type="responses", api_base=f"{url}/v1", api_key=KEY, cache=False)
        assert make_logged(lm)("Is water wet?") == [{"text": ANSWER}]
    assert booked == [counted(100, 20, cached=40, reasoning=8)]


UNKNOWN = Usage(calls=1, unmetered=1)

FORMS = [
    # The Responses API: cached tokens within the input, reasoning within the output.
    (
        {
            "input_tokens": 100,
            "output_tokens": 20,
            "total_tokens": 120,
            "input_tokens_details": {"cached_tokens": 40},
            "output_tokens_details": {"reasoning_tokens": 8},
        },
        counted(100, 20, cached=40, reasoning=8),
    ),
    # Bedrock: what the cache read and wrote stands beside the input, and is in the total.
    (
        {
            "inputTokens": 40,
            "outputTokens": 20,
            "totalTokens": 150,
            "cacheReadInputTokens": 30,
            "cacheWriteInputTokens": 60,
        },
        counted(130, 20, cached=30, cache_write=60),
    ),
    # Cohere: two units, of which one is billed.
    (
        {
            "billed_units": {"input_tokens": 90, "output_tokens": 20},
            "tokens": {"input_tokens": 100, "output_tokens": 20},
        },
        counted(90, 20),
    ),
    ({"tokens": {"input_tokens": 100, "output_tokens": 20}, "cached_tokens": 40}, counted(100, 20, cached=40)),
    # Ollama's own format, whose input is missing where its cache had it.
    ({"prompt_eval_count": 100, "eval_count": 20, "total_duration": 4_000_000}, counted(100, 20)),
    ({"eval_count": 20}, Usage(calls=1, output=20, unmetered=1)),
    # Anthropic: cached tokens beside the input, whatever their size; the time for which they are written, in parts.
    ({"input_tokens": 1000, "output_tokens": 20, "cache_read_input_tokens": 30}, counted(1030, 20, cached=30)),
    ({"input_tokens": 0, "output_tokens": 20, "cache_read_input_tokens": 900}, counted(900, 20, cached=900)),
    (
        {
            "input_tokens": 40,
            "output_tokens": 20,
            "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 10},
        },
        counted(100, 20, cache_write=60),
    ),
    (
        {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": None, "cache_creation": None},
        counted(100, 20),
    ),
    (
        {"input_tokens": 100, "output_tokens": 20, "output_tokens_details": {"thinking_tokens": 8}},
        counted(100, 20, reasoning=8),
    ),
    # The same behind a gateway that speaks OpenAI's format: the total tells whether the input has them.
    (
        {
            "prompt_tokens": 130,
            "completion_tokens": 20,
            "total_tokens": 150,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 60,
        },
        counted(130, 20, cached=30, cache_write=60),
    ),
    (
        {
            "prompt_tokens": 40,
            "completion_tokens": 20,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 30, "cache_creation_tokens": 60},
        },
        counted(130, 20, cached=30, cache_write=60),
    ),
    # Gemini's own: a missing count of candidates is what the total leaves, and thoughts are in no other count.
    (
        {"promptTokenCount": 100, "thoughtsTokenCount": 300, "totalTokenCount": 400},
        counted(100, 300, reasoning=300),
    ),
    ({"promptTokenCount": 100, "candidatesTokenCount": 12, "thoughtsTokenCount": 9}, counted(100, 21, reasoning=9)),
    # Reasoning at the top: within the output or beside it, as the total has it.
    ({**PLAIN, "reasoning_tokens": 8}, counted(100, 20, reasoning=8)),
    ({**PLAIN, "total_tokens": 128, "reasoning_tokens": 8}, counted(100, 28, reasoning=8)),
    ({"prompt_tokens": 100, "completion_tokens": 20, "reasoning_tokens": 8}, counted(100, 20, reasoning=8)),
    ({"prompt_tokens": 100, "completion_tokens": 20, "reasoning_tokens": 300}, counted(100, 320, reasoning=300)),
    # A client that added reasoning to an output that had it.
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 612,
            "total_tokens": 412,
            "completion_tokens_details": {"reasoning_tokens": 300},
        },
        counted(100, 312, reasoning=300),
    ),
    # Cached tokens at the top, in details, or in both; a count that misses makes up the input.
    ({**PLAIN, "prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 60}, counted(100, 20, cached=40)),
    (
        {"completion_tokens": 20, "prompt_cache_hit_tokens": 40, "prompt_cache_miss_tokens": 60},
        counted(100, 20, cached=40),
    ),
    (
        {**PLAIN, "prompt_cache_hit_tokens": 40, "prompt_tokens_details": {"cached_tokens": 40}},
        counted(100, 20, cached=40),
    ),
    ({**PLAIN, "prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 100}, counted(100, 20)),
    ({**PLAIN, "prompt_cache_hit_tokens": None, "prompt_tokens_details": None}, counted(100, 20)),
    ({**PLAIN, "prompt_tokens_details": 40, "completion_tokens_details": 8}, counted(100, 20)),
    ({**PLAIN, "prompt_tokens_details": {"cached_tokens": None}}, counted(100, 20)),
    ({**PLAIN, "prompt_tokens_details": {"cache_write_tokens": 5}}, counted(100, 20, cache_write=5)),
    # A usage that contradicts itself: the counts hold, not the total.
    ({**PLAIN, "total_tokens": 50}, counted(100, 20)),
    ({**PLAIN, "total_tokens": 0}, counted(100, 20)),
    (
        {**PLAIN, "total_tokens": 110, "completion_tokens_details": {"reasoning_tokens": 15}},
        counted(100, 20, reasoning=15),
    ),
    # What is no count of tokens.
    ({**PLAIN, "cached_tokens": 4.5}, counted(100, 20)),
    ({**PLAIN, "cached_tokens": -4, "reasoning_tokens": True}, counted(100, 20)),
    ({**PLAIN, "cache_discount": 3, "cost": 2, "prompt_time": 7, "reasoning_effort": 9}, counted(100, 20)),
    ({"prompt_time": 1, "total_time": 2}, UNKNOWN),
    ({"usage": PLAIN}, UNKNOWN),
]


@pytest.mark.parametrize(("reported", "expected"), FORMS)
def test_a_usage_is_read_in_any_form_and_again_as_it_was_written(reported, expected):
    assert read_usage(reported) == expected
    assert read_usage(write_token_counts(read_token_counts(reported))) == expected


@pytest.mark.parametrize(("reported", "expected"), FORMS)
def test_a_log_holds_what_is_booked(reported, expected):
    logged = choose_usage(reported, [])
    assert read_logged_usage(logged) == read_usage(logged) == expected


@pytest.mark.parametrize(
    ("logged", "booked"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 412}, counted(100, 12)),
        ({**PLAIN, "cached_tokens": 40}, counted(100, 20)),
        (
            {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 40}},
            counted(50, 1, 40),
        ),
    ],
)
def test_a_log_of_an_earlier_version_says_what_was_booked_then(logged, booked):
    """Otherwise its trials would say something else than its calls, and the file would pass for damaged."""
    assert read_cost([{"call": 1, "answer": ["yes"], "usage": [logged]}]) == booked


@pytest.mark.parametrize(("reported", "expected"), FORMS)
def test_no_bill_is_negative_or_counts_a_token_twice(reported, expected):  # noqa: ARG001
    usage = read_usage(reported)
    assert min(usage.input, usage.output, usage.cached, usage.cache_write, usage.reasoning) >= 0
    assert usage.cached + usage.cache_write <= usage.input
    assert usage.reasoning <= usage.output


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"message": {"content": "yes"}, "done": True, "prompt_eval_count": 100, "eval_count": 20}, counted(100, 20)),
        ({"text": "yes", "meta": {"billed_units": {"input_tokens": 100, "output_tokens": 20}}}, counted(100, 20)),
        ({**chat(None), "x_groq": {"id": "r", "usage": PLAIN}}, counted(100, 20)),
        ({**chat(None), "timings": {"cache_n": 40, "prompt_n": 60, "predicted_n": 20}}, counted(100, 20, cached=40)),
        # An older llama.cpp, whose input is what its cache lacked.
        (
            {
                **chat({"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80}),
                "timings": {"cache_n": 40, "prompt_n": 60, "predicted_n": 20},
            },
            counted(100, 20, cached=40),
        ),
        ({**chat(PLAIN), "timings": {"prompt_n": 1, "predicted_n": 20}}, counted(100, 20)),
        (chat(None), None),
        (chat([]), None),
        ({**chat(None), "meta": {"request": 7}}, None),
        ([PLAIN], None),
        (None, None),
    ],
)
def test_a_body_tells_its_tokens_where_its_format_has_them(body, expected):
    told = read_body_usage(body)
    if expected is None:
        assert told == {}
    else:
        assert read_usage(told) == expected


LOST = {**PLAIN, "prompt_tokens_details": None, "completion_tokens_details": None}


@pytest.mark.parametrize(
    ("reported", "bodies", "expected"),
    [
        (LOST, [chat({**PLAIN, "cached_tokens": 40})], counted(100, 20, cached=40)),
        (LOST, [], counted(100, 20)),
        (LOST, [chat({**PLAIN, "cached_tokens": 40})] * 2, counted(100, 20)),
        (LOST, [chat(None)], counted(100, 20)),
        (LOST, [chat({"completion_tokens": 20})], counted(100, 20)),
        ({}, [chat({"completion_tokens": 20})], Usage(calls=1, output=20, unmetered=1)),
        ({}, [chat(None)], UNKNOWN),
    ],
)
def test_the_one_body_of_a_request_goes_before_its_client(reported, bodies, expected):
    assert read_usage(choose_usage(reported, bodies)) == expected


def test_what_a_client_reported_stays_as_it_is_where_the_body_says_the_same():
    reported = {**PLAIN, "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0}, "cost": 0.1}
    body = chat({**PLAIN, "prompt_tokens_details": {"cached_tokens": 40}})
    assert choose_usage(reported, [body]) == reported


@pytest.mark.parametrize(
    ("usage", "is_cut"),
    [
        (counted(100, 76), False),
        (counted(100, 77), True),
        (counted(100, 78), True),
        (counted(100, 77, reasoning=70), True),
        (counted(100, 312, reasoning=300), False),
        (counted(100, 400, reasoning=300), True),
    ],
)
def test_thoughts_beyond_the_limit_cut_no_answer_off(usage, is_cut):
    assert reaches_limit(usage, 77) == is_cut
