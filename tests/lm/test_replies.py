"""What servers send, at the place where it comes in: whether it is an answer, and what no file can hold of it."""

import json

import pytest
from pydantic import BaseModel

from rsso_dspy.replies import (
    find_missing_answer,
    join_parts,
    list_endings,
    make_encodable,
    make_writable,
    read_error_response,
)

EMPTY = {"role": "assistant", "content": ""}
NOTHING = {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "Model is being loaded"}, "Model is being loaded"),
        ({"error": {"message": "overloaded", "code": 503}}, "overloaded"),
        ({"error": {"reason": "x"}}, "x"),
        ({"error": {"code": 503}}, '{"code": 503}'),
        ({"detail": "upstream timed out"}, "upstream timed out"),
        ({"detail": [{"msg": "bad"}, {"msg": "worse", "loc": ["body", "n"]}]}, "bad; worse (body.n)"),
        ({"message": "try again\n later"}, "try again later"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ({"error": "out of memory", "choices": [{"message": EMPTY}]}, "out of memory"),
        ({"choices": [], "message": "no worker"}, "no worker"),
        ({"choices": []}, "no choice in the response, which holds choices"),
        ({"id": "x", "choices": None}, "no choice in the response, which holds id, choices"),
        ({"choices": "turn left"}, "no choice in the response, which holds choices"),
        ({"choices": [None]}, "no choice in the response, which holds choices"),
        ({"choices": [{}]}, "no choice in the response, which holds choices"),
        ({"choices": [{"message": {}}]}, "no choice in the response, which holds choices"),
        ({"choices": [{"message": EMPTY, "error": {"message": "lost"}}]}, "lost"),
        ({"choices": [{"message": EMPTY, "finish_reason": "error"}]}, "no choice in the response, which holds message"),
        ({"choices": [{"message": NOTHING}]}, "an empty message, for which no token was counted"),
        ({"choices": [{"message": NOTHING}], "usage": {"prompt_tokens": 0, "total_tokens": 0}}, "an empty message"),
        ({"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}], "usage": None}, "an empty message"),
        ({"choices": [{"message": {**NOTHING, "content": [], "tool_calls": []}}]}, "an empty message"),
        ({"content": []}, "no choice in the response, which holds content"),
        ({"content": None}, "no choice in the response, which holds content"),
        ({"output": [], "error": None}, "no choice in the response, which holds output, error"),
        ({}, "no choice in the response, which holds nothing"),
        ([], "the response is no object: []"),
        (None, "the response is no object: null"),
        ("try later", "the response is no object: try later"),
    ],
)
def test_a_response_without_an_answer_is_told_by_its_words(body, words):
    missing = find_missing_answer(body)
    assert missing is not None
    assert missing.words.startswith(words)
    assert not missing.is_filtered


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": EMPTY}]},
        {"choices": [{"message": NOTHING}], "usage": {"prompt_tokens": 12, "completion_tokens": 0}},
        {"choices": [{"message": {**NOTHING, "refusal": "I would rather not."}}]},
        {"choices": [{"message": {**NOTHING, "reasoning_content": "Left or right?"}}]},
        {"choices": [{"message": {**NOTHING, "tool_calls": [{"id": "1"}]}}]},
        {"choices": [{"text": ""}]},
        {"choices": [{"message": EMPTY}], "error": None},
        {"content": [], "stop_reason": "refusal"},
        {"content": [{"type": "text", "text": ""}], "type": "message"},
        {"output": [], "status": "incomplete"},
        {"candidates": [{"content": {"parts": []}}]},
        {"message": {"role": "assistant", "content": ""}, "done": True},
    ],
)
def test_an_empty_answer_is_an_answer(body):
    assert find_missing_answer(body) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"choices": [{"message": NOTHING, "finish_reason": "content_filter"}]}, "content_filter"),
        (
            {"choices": [{"message": {**EMPTY, "content": "Turn l"}, "finish_reason": "content_filter"}]},
            "content_filter",
        ),
        ({"choices": [{"message": EMPTY, "finish_reason": "content_filter: OTHER"}]}, "content_filter: OTHER"),
        ({"content": [], "stop_reason": "guardrail_intervened"}, "guardrail_intervened"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
        ({"candidates": [{"content": {"parts": []}, "finishReason": "RECITATION"}]}, "RECITATION"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
        ({"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ],
)
def test_what_a_filter_withheld_is_no_answer_and_would_be_withheld_again(body, reason):
    missing = find_missing_answer(body)
    assert missing is not None
    assert missing == (f"the provider's filter of contents withheld it ({reason})", True)


@pytest.mark.parametrize(
    ("body", "endings"),
    [
        ({"choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}, ["stop", "length"]),
        ({"stop_reason": "end_turn", "content": []}, ["end_turn"]),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, ["MAX_TOKENS"]),
        ({"output": [], "incomplete_details": {"reason": "max_output_tokens"}}, ["max_output_tokens"]),
        ({"message": {"content": "look"}, "done_reason": "stop"}, ["stop"]),
        ({"choices": [{"finish_reason": None}, "look"]}, []),
        ([], []),
    ],
)
def test_why_an_answer_ended_is_read_in_each_form(body, endings):
    assert list_endings(body) == endings


LIMIT = "Tokens must fit."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"error": {"message": LIMIT, "type": "BadRequestError", "code": 400}}, LIMIT),
        ({"object": "error", "message": LIMIT, "type": "BadRequestError", "param": None, "code": 400}, LIMIT),
        ({"detail": LIMIT}, LIMIT),
        (
            {"detail": [{"type": "value_error", "loc": ["body", "messages", 0], "msg": LIMIT}]},
            f"{LIMIT} (body.messages.0)",
        ),
        ({"error": LIMIT, "error_type": "validation"}, LIMIT),
        ({"message": LIMIT}, LIMIT),
        ({"errors": [{"message": LIMIT}, LIMIT]}, f"{LIMIT}; {LIMIT}"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": LIMIT}}, LIMIT),
        ([{"error": {"code": 400, "message": LIMIT, "status": "INVALID_ARGUMENT"}}], LIMIT),
        ({"choices": [{"message": EMPTY, "error": {"message": LIMIT}}]}, LIMIT),
        (LIMIT, LIMIT),
        (f"<html><head><style>p {{}}</style></head><body><h1>400</h1>{LIMIT}</body></html>", f"400 {LIMIT}"),
        ("", ""),
        ({"id": 1}, ""),
    ],
)
def test_the_words_of_an_error_are_found_in_each_form(text, words):
    body = text if isinstance(text, str) else json.dumps(text)
    assert read_error_response(400, body) == (400, words)


def test_an_error_that_is_a_completion_names_the_filter_and_its_words():
    blocked = {"error": {"code": "content_filter", "message": "Blocked by label."}}
    choice = {"message": EMPTY, "finish_reason": "content_filter", "content_filter_results": blocked}
    words = "the provider's filter of contents withheld it (content_filter): Blocked by label."
    assert read_error_response(400, json.dumps({"choices": [choice]})) == (400, words)


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Left "}, {"type": "text", "text": "is shut."}]}


@pytest.mark.parametrize(
    ("message", "joined"),
    [
        ({"content": [{"type": "text", "text": "turn "}, {"type": "text", "text": "left"}]}, {"content": "turn left"}),
        ({"content": ["turn ", "left"]}, {"content": "turn left"}),
        (
            {"content": [THOUGHT, {"type": "text", "text": "turn "}, {"type": "thinking", "thinking": []}, "right"]},
            {"content": "turn right", "reasoning_content": "Left is shut."},
        ),
        (
            {"content": [{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": "turn"}]},
            {"content": "turn", "reasoning_content": "Hm."},
        ),
        ({"content": [THOUGHT]}, {"content": None, "reasoning_content": "Left is shut."}),
        ({"content": [THOUGHT, "go"], "reasoning_content": "kept"}, {"content": "go", "reasoning_content": "kept"}),
        (
            {"content": None, "refusal": "I would rather not."},
            {"content": "I would rather not.", "refusal": "I would rather not."},
        ),
        ({"content": "turn left", "refusal": None}, {"content": "turn left", "refusal": None}),
        ({"content": ""}, {"content": ""}),
    ],
)
def test_an_answer_in_parts_is_one_text_and_its_thought_another(message, joined):
    body = {"choices": [{"index": 0, "message": message}], "usage": {}}
    assert join_parts(body) == {"choices": [{"index": 0, "message": joined}], "usage": {}}
    assert (join_parts(body) is body) == (message == joined)


def test_what_is_no_list_of_choices_is_left_as_it_is():
    for body in ([], {"content": []}, {"choices": None}, {"choices": [None, {}, {"message": "x"}]}):
        assert join_parts(body) is body


def test_a_form_that_is_not_known_is_left_to_its_client_where_that_found_text():
    assert find_missing_answer({"reply": "turn left"}, is_empty=False) is None
    assert find_missing_answer({"reply": ""}, is_empty=True) is not None


def test_the_words_of_a_server_are_redacted_and_bounded(monkeypatch):
    monkeypatch.setenv("QUOTED_API_KEY", "sk-0123456789abcdefghij")
    missing = find_missing_answer({"error": "no: sk-0123456789abcdefghij \ud83d" + "x" * 1000})
    assert missing is not None
    assert missing.words.startswith("no: *** ?xxx")
    assert len(missing.words) == 500


class Part(BaseModel):
    text: str
    others: list["Part"] = []


@pytest.mark.parametrize(
    ("data", "written"),
    [
        ("half \ud83d", "half ?"),
        ("whole \U0001f600", "whole \U0001f600"),
        ({"a\udc00": ["\ud83d", {"b": ("\ud83d", 1)}]}, {"a?": ["?", {"b": ("?", 1)}]}),
        (Part(text="\ud83d", others=[Part(text="x\udfff")]), Part(text="?", others=[Part(text="x?")])),
        ({"n": 3, "none": None, "yes": True}, {"n": 3, "none": None, "yes": True}),
    ],
)
def test_half_characters_are_replaced_at_any_depth(data, written):
    assert make_writable(data) == written
    assert make_encodable(data) == written


def test_no_number_is_written_as_none_and_sound_data_is_returned_as_it_is():
    assert make_writable([{"logprob": float("nan")}]) == [{"logprob": None}]
    sound = [{"text": "hi", "logprobs": [0.5, float("inf")], "part": Part(text="x")}]
    assert make_writable(sound) is sound
