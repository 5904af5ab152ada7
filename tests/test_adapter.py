"""What is sent to a model, and what is read of answers that keep to no form.

The corpora are lm/data/malformed_answers.json and malformed_rules.json: what small models say in place of an answer or
of lists of rules, each with what has to be read of it, or null where nothing may be. An entry marked `unread` may be
left unread. Those marked `held` were written after the reading, to try it on.
"""

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given, settings
from hypothesis import strategies as st

from rsso_dspy.adapter import ChatAdapter, JSONAdapter, label
from rsso_dspy.adapter import show as join_items
from rsso_dspy.playing import NOTHING
from rsso_dspy.signatures import (
    JudgeEquivalence,
    NameTarget,
    Reflect,
    SummarizeConstitution,
    SummarizeSkill,
    WriteInstructions,
    WriteRules,
)
from rsso_dspy.signatures.constitution import ErrorRule
from rsso_dspy.signatures.memory_writers import (
    BulletTag,
    InduceWorkflows,
    InsightEdit,
    ReviewPlaybook,
    ReviseInsights,
    Workflow,
)
from tests.live import Engine

DATA = Path(__file__).parent / "lm" / "data"
ANSWERS, RULES = (json.loads((DATA / f"malformed_{name}.json").read_text("utf-8")) for name in ("answers", "rules"))
ERRORS = [ErrorRule(mistake="Tried the stove.", solution="Use the oven."), ErrorRule(mistake="Waited", solution="Look")]


class FlatActor(dspy.Signature):
    """You are playing a text game.
    Solve the task."""

    about: str = dspy.InputField()
    constitution: list[str] = dspy.InputField(desc="rules of this world")
    task: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    notice: str = dspy.InputField()
    observation: str = dspy.InputField()
    possible_actions: list[str] = dspy.InputField()

    thought: str = dspy.OutputField(desc="what to do, in one sentence")
    action: str = dspy.OutputField(desc="one action in the form of a template, nothing else")


SkillActor = FlatActor.insert(1, "subgoal", dspy.OutputField(desc="one of the offered subgoals, or none"), str)
OURS = (
    FlatActor, SkillActor, JudgeEquivalence, NameTarget, Reflect, SummarizeConstitution, SummarizeSkill,
    WriteInstructions, WriteRules,
)  # fmt: skip
BY_NAME = {"FlatActor": FlatActor, "SkillActor": SkillActor} | {kind.__name__: kind for kind in OURS[2:]}


@contextmanager
def during(**fields):
    """Play with these settings."""
    usual = {name: getattr(NOTHING, name) for name in NOTHING.__slots__}
    with dspy.context(rsso=SimpleNamespace(**usual | fields), disable_history=True):
        yield


def show(messages):
    """Messages as one text."""
    return "\n".join(f"<{message['role']}>\n{message['content']}" for message in messages)


def read(signature, answer, adapter=ChatAdapter):
    """Fields as plain data; None if the answer is unreadable."""
    try:
        fields = adapter().parse(signature, answer)
    except AdapterParseError:
        return None
    return json.loads(json.dumps(fields, default=lambda model: model.model_dump()))


# What is sent.

ACTOR_ASKED = """\
<system>
You are playing a text game.
Solve the task.

Answer in this form:
Thought: what to do, in one sentence
Action: one action in the form of a template, nothing else"""
FIRST = {
    "observation": "A hall.",
    "possible_actions": ["open door", "wait"],
    "said": "Thought: Out.\nAction: open door",
}
SECOND = {"notice": "That changed nothing.", "observation": "A hall.\nA door.", "thought": "Hm.", "action": "wait"}
NOW = {"about": "A game.", "constitution": ["Doors open."], "task": "Leave.", "observation": "A hall."}
TALKED = """
<user>
About: A game.
Constitution (rules of this world): Doors open.
Task: Leave.
Observation: A hall.
Possible actions: open door; wait
<assistant>
Thought: Out.
Action: open door
<user>
Notice: That changed nothing.

Observation:
A hall.
A door.
<assistant>
Thought: Hm.
Action: wait
<user>
Observation: A hall."""


def talk(*turns, demos=(), adapter=ChatAdapter, **changes):
    history = dspy.History(messages=list(turns))
    return adapter().format(FlatActor, list(demos), NOW | {"history": history} | changes)


def test_a_history_is_a_conversation_of_which_each_request_begins_the_next():
    assert show(talk(FIRST, SECOND)) == ACTOR_ASKED + TALKED
    turns = [{"observation": f"Room {number}.", "said": f"Action: {number}"} for number in range(6)]
    for end in range(5):
        before = talk(*turns[:end], observation=f"Room {end}.")
        assert talk(*turns[: end + 1])[: len(before)] == before
    saved = {"messages": [FIRST, SECOND]}
    assert ChatAdapter().format(FlatActor, [], NOW | {"history": saved}) == talk(FIRST, SECOND)


def test_a_turn_without_an_answer_is_joined_with_the_next():
    text = show(talk(FIRST | {"said": ""}))
    assert text.endswith("Possible actions: open door; wait\n\nObservation: A hall.")
    assert "<assistant>" not in text


def test_the_layout_paper_is_one_message():
    with during(layout="paper"):
        text = show(talk(FIRST, SECOND))
        assert show(talk()) == show([*talk()])
    assert (
        text.partition("<user>")[2]
        == """
About: A game.
Constitution (rules of this world): Doors open.
Task: Leave.

History:
Observation: A hall.
Possible actions: open door; wait

Thought: Out.
Action: open door

Notice: That changed nothing.

Observation:
A hall.
A door.

Thought: Hm.
Action: wait

Observation: A hall."""
    )


def test_examples_stand_in_the_system_message_without_what_is_empty():
    demos = [
        {"task": "Leave.", "history": dspy.History(messages=[FIRST]), "notice": "", "thought": "Go.", "action": "wait"},
        {"task": "No answer, as of a training set."},
        {"observation": "A door.", "action": "open door"},
    ]
    system = talk(demos=demos)[0]["content"]
    assert system.partition("Examples:")[2] == (
        "\n\nExample 1\nTask: Leave.\n\nThought: Go.\nAction: wait"
        "\n\nExample 2\nObservation: A door.\n\nAction: open door"
    )
    assert talk(demos=demos[1:2]) == talk()


@pytest.mark.parametrize(
    ("signature", "form"),
    [
        (NameTarget, "Answer with the target alone: one sentence that describes the state reached."),
        (dspy.Signature("a -> next_step"), "Answer with the next step alone."),
        (
            WriteInstructions,
            "Answer with the steps alone, one a line: the steps in order, one action each, without numbers.",
        ),
        (
            SummarizeConstitution,
            'Answer in this form:\nAbstract rules: one a line, each after "- ": the merged facts and procedures\n'
            "Error rules: one a line, each in the form `- Mistake: ... Solution: ...`: "
            "the merged mistakes and solutions",
        ),
        (
            dspy.Signature("a -> n: int, sure: bool, kind: Literal['x', 'y'], text: str"),
            "Answer in this form:\nN: a whole number\nSure: true or false\nKind: x/y\nText: ...",
        ),
    ],
)
def test_the_form_of_an_answer_is_told(signature, form):
    assert ChatAdapter().format(signature, [], {})[0]["content"].endswith(form)


def test_values_are_shown_in_one_way():
    assert (label("possible_actions"), label("steps")) == ("Possible actions", "Steps")
    assert join_items(["a", "b"]) == "a; b"
    assert join_items(["a; b", "c\nd"]) == "- a; b\n- c\n  d"
    assert join_items(["x" * 61]) == f"- {'x' * 61}"
    assert join_items(ERRORS) == (
        "- Mistake: Tried the stove. Solution: Use the oven.\n- Mistake: Waited; Solution: Look"
    )
    assert join_items([{"mistake": "Waited.", "solution": "Look."}]) == "- Mistake: Waited. Solution: Look."


def test_json_is_asked_for_in_the_same_messages():
    messages = talk(FIRST, SECOND, adapter=JSONAdapter)
    assert messages[0]["content"].endswith(
        "Answer with one JSON object that has these keys:\n"
        '"thought": text: what to do, in one sentence\n'
        '"action": text: one action in the form of a template, nothing else'
    )
    assert messages[-2]["content"] == '{"thought": "Hm.", "action": "wait"}'
    assert [message for message in messages if message["role"] == "user"] == talk(FIRST, SECOND)[1::2]


def test_instructions_that_were_changed_in_place_are_told():
    changed = NameTarget.with_instructions("Before.")
    for words in ("Before.", "After."):
        changed.instructions = words
        assert ChatAdapter().format(changed, [], {})[0]["content"].startswith(words)


# Real calls.


class Counting:
    """A ledger that counts answers by how they were read."""

    def __init__(self):
        self.repaired, self.kept = 0, []

    def count_repaired(self):
        self.repaired += 1

    def unread(self, text):
        self.kept.append(text)


def ask(adapter, *answers, signature=FlatActor, asks_again=True, **fields):
    """What a Predict makes of these answers in turn, and the requests, as lists of role and text, and the ledger."""
    left, requests, ledger = iter(answers), [], Counting()

    class Recorded(Engine):
        def complete(self, request):
            requests.append([(message.role, message.parts[0].text) for message in request.messages])
            return super().complete(request)

    lm = dspy.LM("embedded/explorer", engine=Recorded(lambda _: next(left)), cache=False, num_retries=0)
    lm.asks_again = asks_again
    with dspy.context(adapter=adapter), during(ledger=ledger, **fields):
        try:
            first = "task" if "task" in signature.input_fields else next(iter(signature.input_fields))
            return dspy.Predict(signature)(lm=lm, **{first: "x"}), requests, ledger
        except AdapterParseError:
            return None, requests, ledger


def test_an_unreadable_answer_is_asked_again_in_the_same_conversation():
    refusal, said = "I'm sorry, I can't.", "Thought: Closed.\nAction: open door"
    for adapter in (ChatAdapter(), JSONAdapter()):
        got, requests, ledger = ask(adapter, refusal, said)
        assert (got.action, got.said, ledger.kept) == ("open door", said, [refusal])
        again = "No action could be read from that. Answer with the action alone."
        assert requests == [[("user", "Task: x")], [("user", "Task: x"), ("assistant", refusal), ("user", again)]]
        assert ledger.repaired == (adapter.__class__ is JSONAdapter)
    assert ask(ChatAdapter(), "", said)[1][1] == [("user", f"Task: x\n\n{again}")]
    got, requests, ledger = ask(ChatAdapter(), refusal, refusal)
    assert (got, len(requests), ledger.kept) == (None, 2, [refusal, refusal])
    assert len(ask(ChatAdapter(), refusal, asks_again=False)[1]) == 1
    asked = ask(ChatAdapter(), refusal, "Summary: x\nSkill name: y", signature=SummarizeSkill)[1][1][-1]
    assert asked == ("user", "That could not be read. Answer again in the form asked for.")


@pytest.mark.parametrize(
    ("said", "repaired"),
    [("Thought: Closed.\nAction: open door", 0), ("action: open door", 1), ('{"action": "open door"}', 1)],
)
def test_answers_that_broke_the_form_are_counted(said, repaired):
    got, _, ledger = ask(ChatAdapter(), said)
    assert (got.action, ledger.repaired, ledger.kept) == ("open door", repaired, [])


def test_outputs_that_are_unasked_are_neither_told_nor_missed():
    with during(unasked={"thought", "action"}):
        assert ChatAdapter()._call_preprocess(None, {}, NameTarget, {}) is NameTarget
    got, _, ledger = ask(ChatAdapter(), "Open door.", unasked={"thought"}, verbs={"open"}, possible={"open door"})
    assert (got.thought, got.action, ledger.repaired) == ("", "open door", 1)
    assert ask(ChatAdapter(), "wait", signature=NameTarget, unasked={"target"})[0].target == "wait"


# What is read.


def list_names(corpus):
    return pytest.mark.parametrize("entry", corpus, ids=[entry["kind"].replace(" ", "_") for entry in corpus])


@list_names(ANSWERS + RULES)
def test_an_answer_is_read_as_it_was_meant_or_not_at_all(entry):
    signature = BY_NAME.get(entry["signature"]) or dspy.Signature(entry["signature"])
    rules = entry.get("expected")
    meant = entry["expect"] if "expect" in entry else rules and {f"{kind}_rules": rules[kind] for kind in rules}
    got = read(signature, entry["answer"])
    assert got == meant or (got is None and entry.get("unread"))


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("open door", "open door"),
        ("**Open door.**", "open door"),
        ("1. `open door`", "open door"),
        ("I see a door.\nopen door", "open door"),
        ("open door\nThis leads out.", "open door"),
        ("I could wait. Or not.\n- open door\nThat is it.", "open door"),
        ("Thought: It is shut.\nopen door", "open door"),
        ("open window", "open window"),
        ("2", "2"),
        ("Open it? Or wait?", None),
        ("Open\nObservation: It is open.", None),
        ("The door is shut.", None),
    ],
)
def test_a_text_without_form_is_an_action_if_it_begins_as_one_or_is_possible(said, action):
    with during(verbs=frozenset({"open", "wait"}), possible=frozenset({"open door", "wait"})):
        got = read(FlatActor, said)
    assert (got and got["action"]) == action


WHOLE = {
    "abstract_rules": ["Water boils when it is heated.", "Don't open what is open."],
    "error_rules": [error.model_dump() for error in ERRORS],
    "progress_rules": ["The pot is filled.", "Still to do: heat the pot."],
}
LINES = "\n\n".join("[[ ## {} ## ]]\n{}" for _ in WHOLE)
CUT = {
    "json": json.dumps(WHOLE),
    "python": repr(WHOLE),
    "json in sections": LINES.format(*(text for name, rules in WHOLE.items() for text in (name, json.dumps(rules)))),
    "python in sections": LINES.format(*(text for item in WHOLE.items() for text in item)),
}


@pytest.mark.parametrize("form", CUT)
def test_a_cut_answer_holds_whole_rules_or_none(form):
    """Wherever an answer breaks off, what is read of it is what stood before."""
    ends = range(0, len(CUT[form]), 5)
    cut = [got for end in ends if (got := read(WriteRules, CUT[form][:end]))]
    assert len(cut) > 10
    assert all(got[name] == WHOLE[name][: len(got[name])] for got in cut for name in WHOLE)


Judged = dspy.Signature(
    {
        "a": (str, dspy.InputField()),
        "count": (int, dspy.OutputField()),
        "sure": (bool, dspy.OutputField()),
        "share": (float, dspy.OutputField()),
        "verdict": (Literal["good", "bad"], dspy.OutputField()),
        "numbers": (list[int], dspy.OutputField()),
        "note": (str | None, dspy.OutputField()),
    },
    "Judge.",
)
JUDGED = {"count": 3, "sure": False, "share": 0.5, "verdict": "bad", "numbers": [1, 12]}
EDITS = [InsightEdit(operation="ADD", text="Look first."), InsightEdit(operation="REMOVE", number=2)]
FLOW = Workflow(description="Fetch a thing.", steps=["go to PLACE", "take OBJECT"])


@pytest.mark.parametrize("adapter", [ChatAdapter, JSONAdapter])
@pytest.mark.parametrize(
    ("signature", "outputs"),
    [
        (Judged, JUDGED | {"note": "So it is."}),
        (Judged, JUDGED | {"note": None}),
        (WriteRules, WHOLE | {"error_rules": ERRORS}),
        (WriteRules, {name: [] for name in WHOLE}),
        (SkillActor, {"thought": "Go.", "subgoal": "none", "action": "go to door 2"}),
        (JudgeEquivalence, {"equivalent": [2]}),
        (JudgeEquivalence, {"equivalent": []}),
        (WriteInstructions, {"steps": ["go to kitchen, then open fridge"]}),
        (Reflect, {"what_went_wrong": "Two things:\n- a\n- b", "plan": "1. Go.\n2. Look."}),
        (NameTarget, {"target": "The door is open."}),
        (dspy.Signature("question -> answer"), {"answer": "yes"}),
        (ReviseInsights, {"insight_edits": EDITS}),
        (InduceWorkflows, {"workflows": [FLOW, FLOW]}),
        (ReviewPlaybook, {"bullet_tags": [BulletTag(id="b-1", tag="harmful")], "new_bullets": ["Look."]}),
    ],
)
def test_what_is_well_formed_is_read_as_it_was(adapter, signature, outputs):
    said = adapter().tell_answer(signature, outputs)
    assert adapter().parse(signature, said) == outputs


PIECES = (
    "Observation: the door is open", "Action: wait", "```json", "```", '{"action": "wait"}', "[[ # action # ]]",
    "## action ##", "**Thought**: hm", "<think>", "</think>", "1. ", "- ", "none", "<action>", "[1]", "don't", "\\n",
    "：", "\u200b", "{thought}", "a & b < c", '"', "'", "}", "{", "(", "|",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=8).map("\n".join)
MARKS = st.lists(st.sampled_from("{}[]<>/\"'`:#*\\\n, aT1") | st.characters(), max_size=60).map("".join)


@settings(deadline=None, max_examples=200)
@given(text=TEXT | MARKS, signature=st.sampled_from((*OURS, Judged, ReviseInsights)))
def test_no_text_raises_anything_but_the_parse_error(text, signature):
    read(signature, text)


STUCK = (
    '{"thought": ' + '{"' * 3000, '{"thought": "' + 'a "b" ' * 3000, "[" * 3000, "<a>" * 3000, "((((" * 2000,
    "Thought: " + "a" * 20000, "'" * 5000, "[" + "'a " * 4000, " \n" * 8000 + "?", "- a: " * 4000, "**a" * 4000,
    "{'a' " * 50 + "'b\" " * 3000, "- \n" * 6000,
)  # fmt: skip


@pytest.mark.parametrize("answer", STUCK, ids=range(len(STUCK)))
@pytest.mark.timeout(20)
def test_a_model_that_got_stuck_holds_nobody_up(answer):
    assert [read(signature, answer) for signature in (FlatActor, SkillActor, WriteRules)] == [None] * 3
