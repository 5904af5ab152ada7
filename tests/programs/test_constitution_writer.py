"""The writer of a constitution repeats what stands already: no rule is new because it is written in another way, and
what was whole when the limit of tokens cut an answer off is kept."""

import json
from types import SimpleNamespace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.memory.constitution import Constitution, PartialEpisode
from rsso_dspy.playing import playing
from rsso_dspy.programs.constitution_writer import ConstitutionWriter
from rsso_dspy.records import Lesson, State, Step
from tests.live import Engine, model

FACTS = [f"Room {number} holds a tool of kind {number}." for number in range(1, 11)]
MISTAKES = [Lesson("error", "Opened the stove twice", "Look in once."), Lesson("error", "Waited", "Move on.")]
NOTE = Lesson("progress", "The key is found.")
STANDING = Constitution().with_lessons([*(Lesson("abstract", text) for text in FACTS), *MISTAKES, NOTE], "boil", "a")
SEEN = State("seen", "a room", "nothing")
PLAY = PartialEpisode("task", [SEEN, SEEN], [Step("look", "look", SEEN, 0, 0, True)], None, lambda _: ["a", "b"])
NEW = "Doors open with a key."

REPEATED = [
    FACTS[0],
    FACTS[1].removesuffix("."),
    FACTS[2].upper(),
    f"**{FACTS[3]}**",
    f"4) {FACTS[4]}",
    f'"{FACTS[5]}"',
    *FACTS[6:],
    "Mistake: Opened the stove twice. Instead: Look in once.",
    "mistake: Opened the stove twice; Solution: look in once",
    "Waited.",
    "The key is found.",
]
"""Every standing rule, as small models copy it; one of them twice."""


def write(answer: str, was_cut: bool = False) -> tuple[Constitution, dspy.Prediction]:
    """The constitution after an answer, and the answer as it was read."""
    ledger = SimpleNamespace(
        count_repaired=lambda: None, unread=lambda _: None, was_cut=was_cut, was_trimmed=False, is_used_up=False
    )
    lm = model(Engine(lambda _: answer))
    lm.asks_again = False
    with dspy.context(lm=lm, adapter=ChatAdapter()), playing(ledger=ledger):
        said = ConstitutionWriter()(PLAY, STANDING)
    return STANDING.with_lessons(said.lessons, "boil", "b"), said


def list_items(texts: list[str]) -> str:
    return "".join(f"- {text}\n" for text in texts)


def list_new(book: Constitution) -> list[str]:
    return [rule.lesson.line for rule in book.rules if rule not in STANDING.rules and rule.source == "b"]


def test_standing_rules_that_are_written_again_are_not_new():
    answer = f"Abstract rules:\n{list_items([*REPEATED, NEW])}Error rules:\nnone\nProgress rules:\nnone"
    book, said = write(answer)
    assert list_new(book) == [NEW]
    assert book.edits[12:] == ("again",) * 13 + ("written",)
    assert [rule.count for rule in book.rules] == [2] * 10 + [3, 2, 1, 1]
    assert said.abstract_rules[0] == FACTS[0], "the answer itself stays as it was read"


@pytest.mark.parametrize("errors", ["Mistake: Waited. Solution: Move on", "Mistake: waited! Solution: MOVE ON."])
def test_a_standing_mistake_that_is_written_again_is_not_new(errors):
    book, _ = write(f"Abstract rules:\n- {NEW}\nError rules:\n- {errors}\nProgress rules:\nnone")
    assert list_new(book) == [NEW]


@pytest.mark.parametrize(
    ("rules", "errors", "new"),
    [
        ("Room 1 holds a tool of kind 2.", "none", ["Room 1 holds a tool of kind 2."]),
        ("3 keys open a door.", "none", ["3 keys open a door."]),
        ("none", "- Mistake: Waited. Solution: Ask.", ["Mistake: Waited. Instead: Ask."]),
    ],
)
def test_what_says_something_else_is_new(rules, errors, new):
    book, _ = write(f"Abstract rules:\n- {rules}\nError rules:\n{errors}\nProgress rules:\n- Look.")
    assert list_new(book) == [*new, "Look."]


@pytest.mark.parametrize(
    "cut", ["- Water boi", "-", "Err", "Error rules:", "Error rules:\n-", "**Error rules:**\n- Mistake: Wal"]
)
def test_of_an_answer_that_was_cut_off_the_whole_rules_are_kept(cut):
    book, _ = write(f"Abstract rules:\n{list_items([*REPEATED, NEW])}{cut}", was_cut=True)
    assert list_new(book) == [NEW]


@pytest.mark.parametrize(
    ("cut", "new"),
    [
        ('"Water boi', [NEW]),
        ('"Water boils."], "err', [NEW, "Water boils."]),
        ('"Water boils."], "error_rules": [{"mistake": "Walked", "solution": "Ri', [NEW, "Water boils."]),
        ('"Water boils."], "error_rules": [{"mistake": "Walked", "solution": "Ride."}, {"mis',
         [NEW, "Water boils.", "Mistake: Walked. Instead: Ride."]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fence", ["", "```json\n"])
def test_of_an_object_that_was_cut_off_the_whole_rules_are_kept(cut, new, fence):
    rules = ", ".join(json.dumps(text) for text in [*REPEATED, NEW])
    book, _ = write(f'{fence}{{"abstract_rules": [{rules}, {cut}', was_cut=True)
    assert list_new(book) == new


def test_an_answer_that_was_not_cut_off_has_all_lists_or_is_unreadable():
    with pytest.raises(dspy.utils.exceptions.AdapterParseError):
        write(f"Abstract rules:\n{list_items([*REPEATED, NEW])}")


def test_of_a_summary_that_was_cut_off_nothing_is_taken():
    ledger = SimpleNamespace(unread=lambda _: None, was_cut=True, was_trimmed=False, is_used_up=False)
    lm = model(Engine(lambda _: f"Abstract rules:\n{list_items(FACTS)}- Water boi"))
    lm.asks_again = False
    with dspy.context(lm=lm, adapter=ChatAdapter()), playing(ledger=ledger):
        assert ConstitutionWriter().shorten(STANDING).lessons == []
