"""What servers send, at the place where it comes in: whether it is an answer, and what no file can hold of it."""

import pytest
from pydantic import BaseModel

from rsso_dspy.replies import find_missing_answer, make_encodable, make_writable

EMPTY = {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "Model is being loaded"}, "Model is being loaded"),
        ({"error": {"message": "overloaded", "code": 503}}, "overloaded"),
        ({"error": {"reason": "x"}}, '{"reason": "x"}'),
        ({"detail": "upstream timed out"}, "upstream timed out"),
        ({"detail": [{"msg": "bad"}]}, '[{"msg": "bad"}]'),
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
    found = find_missing_answer(body)
    assert found is not None
    assert found.startswith(words)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": EMPTY}]},
        {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "content_filter"}]},
        {"choices": [{"text": ""}]},
        {"choices": [{"message": EMPTY}], "error": None},
        {"content": [], "stop_reason": "refusal"},
        {"content": [{"type": "text", "text": ""}], "type": "message"},
        {"output": [], "status": "incomplete"},
        {"candidates": [{"content": {"parts": []}}]},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"message": {"role": "assistant", "content": ""}, "done": True},
    ],
)
def test_an_empty_answer_is_an_answer(body):
    assert find_missing_answer(body) is None


def test_a_form_that_is_not_known_is_left_to_its_client_where_that_found_text():
    assert find_missing_answer({"reply": "turn left"}, is_empty=False) is None
    assert find_missing_answer({"reply": ""}, is_empty=True) is not None


def test_the_words_of_a_server_are_redacted_and_bounded(monkeypatch):
    monkeypatch.setenv("QUOTED_API_KEY", "sk-0123456789abcdefghij")
    words = find_missing_answer({"error": "no: sk-0123456789abcdefghij \ud83d" + "x" * 1000})
    assert words is not None
    assert words.startswith("no: *** ?xxx")
    assert len(words) == 500


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
