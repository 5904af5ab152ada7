"""Texts on the way to the simulator and back: not a character is lost, and none costs a call."""

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import escape_new_line

from rsso_dspy.environments.scienceworld.jvm import Jvm, _decode_answer, _encode_argument, _encode_command

HARD = [
    "",
    "\\",
    "\\n",
    "\\\\n",
    "\n\r\\r",
    "a\\\nb",
    "c:\\new\r\n\"ü\" 'x'",
    "\t\x00\x1c\x85\u2028\u2029\ufeff",
    "漢字 𝄞 é",
]


def echo(simulator: Jvm, text: str) -> str:
    return simulator._send_command(_encode_command("z:java.util.Objects", "toString", (text,)))


@pytest.mark.parametrize("text", HARD)
def test_java_says_back_what_it_was_told(simulator: Jvm, text: str):
    assert echo(simulator, text) == text


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("\\nr\n\r'\"e!y ü𝄞") | st.characters(exclude_categories=["Cs"])))
def test_java_says_back_any_text(simulator: Jvm, text: str):
    assert echo(simulator, text) == text


@pytest.mark.parametrize(
    ("answer", "value"),
    [("!yv", None), ("!yn", None), ("!ybtrue", True), ("!ybfalse", False), ("!yi-3", -3), ("!yL9876543210", 9876543210),
     ("!yd0.5", 0.5), ("!ys", ""), ("!ysa\\\\n\\n\\r", "a\\n\n\r"), ("!yro7", "o7"), ("!ylo8", "o8")],
)  # fmt: skip
def test_an_answer_of_every_type_is_read(answer, value):
    found = _decode_answer(f"{answer}\n")
    assert found == value
    assert isinstance(found, type(value))


@pytest.mark.parametrize(
    ("value", "sent"),
    [("a\nb", "sa\\nb\n"), ("", "s\n"), (21, "i21\n"), (_decode_answer("!yro7\n"), "ro7\n"), (False, "bFalse\n")],
)
def test_an_argument_is_sent_by_its_type(value, sent):
    assert _encode_argument(value) == sent


def test_a_long_text_is_read_in_few_calls():
    """Of Python functions and generators; not in one a character."""
    answer, frames = f"!ys{escape_new_line('You see a door. ' * 100 + chr(10))}\n", []
    _decode_answer(answer)  # imports, once
    sys.setprofile(lambda frame, event, _: event == "call" and frames.append(frame.f_code.co_name))
    try:
        _decode_answer(answer)
    finally:
        sys.setprofile(None)
    assert 0 < len(frames) < 20
