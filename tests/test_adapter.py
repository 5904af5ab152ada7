"""What is sent to a model, and what is read of answers that keep to no form.

The corpora are lm/data/malformed_answers.json and malformed_rules.json: what small models say in place of an answer or
of lists of rules, each with what has to be read of it, or null where nothing may be. An entry marked `unread` may be
left unread, and is never read as anything else.
"""

import json
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given, settings
from hypothesis import strategies as st

from rsso_dspy import signatures
from rsso_dspy.adapter import ChatAdapter, JSONAdapter, label, show
from rsso_dspy.playing import NOTHING
from rsso_dspy.signatures import NameTarget, Reflect, SummarizeConstitution, WriteInstructions, WriteRules
from rsso_dspy.signatures.constitution import ErrorRule
from rsso_dspy.signatures.memory_writers import InduceWorkflows, InsightEdit, ReviseInsights, Workflow
from tests.live import Engine

DATA = Path(__file__).parent / "lm" / "data"
ANSWERS, RULES = (json.loads((DATA / f"malformed_{name}.json").read_text("utf-8")) for name in ("answers", "rules"))
ERRORS = [ErrorRule(mistake="Tried the stove.", solution="Use the oven."), ErrorRule(mistake="Waited", solution="Look")]


FlatActor = dspy.Signature(
    "about, constitution: list[str], task, history: dspy.History, notice, observation, possible_actions: list[str]"
    " -> thought, action",
    "You are playing a text game.\n    Solve the task.",
)
for field, told in (
    ("constitution", "rules of this world"),
    ("thought", "what to do, in one sentence"),
    ("action", "one action in the form of a template, nothing else"),
):
    FlatActor = FlatActor.with_updated_fields(field, desc=told)
SkillActor = FlatActor.insert(1, "subgoal", dspy.OutputField(desc="one of the offered subgoals, or none"), str)


def find_signature(name):
    return globals().get(name) or getattr(signatures, name, None) or dspy.Signature(name)


@contextmanager
def during(**fields):
    with dspy.context(rsso=replace(NOTHING, **fields), disable_history=True):
        yield


def write(messages):
    return "\n".join(f"<{message['role']}>\n{message['content']}" for message in messages)


def read(signature, answer):
    """Fields as plain data; None if the answer is unreadable."""
    with suppress(AdapterParseError):
        return json.loads(json.dumps(ChatAdapter().parse(signature, answer), default=lambda model: model.model_dump()))


# What is sent.

TALKED = """\
<system>
You are playing a text game.
Solve the task.

The thought is what to do, in one sentence.
The action is one action in the form of a template, nothing else.
Answer in this form:
Thought: ...
Action: ...
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
FIRST = {
    "observation": "A hall.",
    "possible_actions": ["open door", "wait"],
    "said": "Thought: Out.\nAction: open door",
}
SECOND = {"notice": "That changed nothing.", "observation": "A hall.\nA door.", "thought": "Hm.", "action": "wait"}
NOW = {"about": "A game.", "constitution": ["Doors open."], "task": "Leave.", "observation": "A hall."}


def talk(*turns, demos=(), adapter=ChatAdapter, **changes):
    history = dspy.History(messages=list(turns))
    return adapter().format(FlatActor, list(demos), NOW | {"history": history} | changes)


def test_a_history_is_a_conversation_of_which_each_request_begins_the_next():
    assert write(talk(FIRST, SECOND)) == TALKED
    turns = [{"observation": f"Room {number}.", "said": f"Action: {number}"} for number in range(6)]
    for end in range(5):
        before = talk(*turns[:end], observation=f"Room {end}.")
        assert talk(*turns[: end + 1])[: len(before)] == before
    assert talk(history={"messages": [FIRST, SECOND]}) == talk(FIRST, SECOND)
    as_json = talk(FIRST, SECOND, adapter=JSONAdapter)
    assert as_json[1:] == [
        message if "Hm." not in message["content"] else message | {"content": '{"thought": "Hm.", "action": "wait"}'}
        for message in talk(FIRST, SECOND)[1:]
    ]
    unanswered = write(talk(FIRST | {"said": ""}))
    assert unanswered.endswith("Possible actions: open door; wait\n\nObservation: A hall.")
    assert "<assistant>" not in unanswered


def test_examples_stand_in_the_system_message_without_what_is_empty():
    demos = [
        {"task": "Leave.", "history": dspy.History(messages=[FIRST]), "notice": "", "thought": "Go.", "action": "wait"},
        {"task": "No answer, as of a training set."},
        {"observation": "A door.", "action": "open door"},
    ]
    assert talk(demos=demos)[0]["content"].partition("Examples:")[2] == (
        "\n\nExample 1\nTask: Leave.\n\nThought: Go.\nAction: wait"
        "\n\nExample 2\nObservation: A door.\n\nAction: open door"
    )
    assert talk(demos=demos[1:2]) == talk()


FORMS = {
    NameTarget: "Answer with the target alone: one sentence that describes the state reached.",
    dspy.Signature("a -> next_step"): "Answer with the next step alone.",
    WriteInstructions: "Answer with the steps alone, one a line: the steps in order, one action each, without numbers.",
    SummarizeConstitution: (
        "The abstract rules are the merged facts and procedures.\n"
        "The error rules are the merged mistakes and solutions.\n"
        "Answer in this form:\nAbstract rules:\n- ...\nError rules:\n- Mistake: ... Solution: ..."
    ),
    dspy.Signature("a -> n: int, sure: bool, kind: Literal['x', 'y'], text: str"): (
        "Answer in this form:\nN: a whole number\nSure: true or false\nKind: x/y\nText: ..."
    ),
}
AS_JSON = (
    "The error rules are the merged mistakes and solutions.\nAnswer with one JSON object in this form:\n"
    '{"abstract_rules": ["..."], "error_rules": [{"mistake": "...", "solution": "..."}]}'
)


def test_the_form_of_an_answer_is_told():
    for signature, form in FORMS.items():
        assert ChatAdapter().format(signature, [], {})[0]["content"].endswith(form)
    assert JSONAdapter().format(SummarizeConstitution, [], {})[0]["content"].endswith(AS_JSON)


SHOWN = [
    (["a", "b"], "a; b"), (["a; b", "c\nd"], "- a; b\n- c\n  d"), (["x" * 61], f"- {'x' * 61}"),
    (ERRORS, "- Mistake: Tried the stove. Solution: Use the oven.\n- Mistake: Waited; Solution: Look"),
    ([{"mistake": "Waited.", "solution": "Look."}], "- Mistake: Waited. Solution: Look."),
]  # fmt: skip


def test_values_are_shown_in_one_way():
    assert [show(value) for value, _ in SHOWN] == [shown for _, shown in SHOWN]
    assert label("possible_actions") == "Possible actions"


# Real calls.


def ask(adapter, *answers, signature=FlatActor, asks_again=True, was_cut=False, **fields):
    """What a Predict makes of these answers, its requests, how many answers were repaired, and those left unread."""
    left, requests, repaired, unread = iter(answers), [], [], []
    ledger = SimpleNamespace(
        count_repaired=lambda: repaired.append(1), unread=unread.append, was_cut=was_cut, is_used_up=False
    )

    class Recorded(Engine):
        def complete(self, request):
            requests.append([(message.role, message.parts[0].text) for message in request.messages])
            return super().complete(request)

    lm = dspy.LM("embedded/explorer", engine=Recorded(lambda _: next(left)), cache=False, num_retries=0)
    lm.asks_again = asks_again
    first, got = next(name for name in ("task", *signature.input_fields) if name in signature.input_fields), None
    with dspy.context(adapter=adapter), during(ledger=ledger, **fields), suppress(AdapterParseError):
        got = dspy.Predict(signature)(lm=lm, **{first: "x"})
    return got, requests, len(repaired), unread


@pytest.mark.parametrize("adapter", [ChatAdapter(), JSONAdapter()])
def test_an_unreadable_answer_is_asked_again_in_the_same_conversation(adapter):
    refusal, said = "I'm sorry, I can't.", "Thought: Closed.\nAction: open door"
    got, requests, repaired, unread = ask(adapter, refusal, said)
    assert (got.action, got.said, unread) == ("open door", said, [refusal])
    again = "No action could be read from that. Answer with the action alone."
    assert requests == [[("user", "Task: x")], [("user", "Task: x"), ("assistant", refusal), ("user", again)]]
    assert repaired == isinstance(adapter, JSONAdapter)
    assert ask(adapter, "", said)[1][1] == [("user", f"Task: x\n\n{again}")]
    got, requests, _, unread = ask(adapter, refusal, refusal)
    assert (got, len(requests), unread) == (None, 2, [refusal, refusal])
    assert len(ask(adapter, refusal, asks_again=False)[1]) == 1
    asked = ask(adapter, refusal, "B: x\nC: y", signature=dspy.Signature("a -> b, c"))[1][1][-1]
    assert asked == ("user", "That could not be read. Answer again in the form asked for.")


PLAN = "Mistakes: The lamp was left off.\nPlan: Turn the lamp on, then go to the"


@pytest.mark.parametrize("adapter", [ChatAdapter(), JSONAdapter()])
def test_an_answer_that_the_limit_of_tokens_cut_off_is_asked_for_a_shorter_one(adapter):
    got, requests, _, _ = ask(adapter, PLAN, "Plan: Turn the lamp on.", signature=Reflect, was_cut=True)
    assert got.plan == "Turn the lamp on."
    assert requests[1][-2:] == [
        ("assistant", PLAN),
        ("user", "That was too long and was cut off. Answer again, in at most 10 words."),
    ]


def test_what_was_cut_off_is_kept_where_no_shorter_answer_can_be_read_or_none_is_asked_for():
    refusal = "I'm sorry, I can't."
    assert ask(ChatAdapter(), PLAN, refusal, signature=Reflect, was_cut=True)[0].plan.endswith("go to the")
    assert len(ask(ChatAdapter(), PLAN, signature=Reflect, was_cut=True, asks_again=False)[1]) == 1


def test_an_action_that_is_whole_is_not_asked_for_again_where_the_model_went_on_behind_it():
    answer = "Thought: Out.\nAction: open door\nObservation: The door is"
    got, requests, _, _ = ask(ChatAdapter(), answer, was_cut=True)
    assert (got.action, len(requests)) == ("open door", 1)


@pytest.mark.parametrize("plan", ["Plan: Turn the lamp on.", '{"mistakes": "None.", "plan": "Go on"}'])
def test_what_ends_with_a_whole_sentence_or_object_is_not_asked_for_again(plan):
    assert len(ask(ChatAdapter(), plan, signature=Reflect, was_cut=True)[1]) == 1


DESCRIBED = dspy.Signature("a -> mistakes: str, plan: str").with_updated_fields("plan", desc="what to do next time")


@pytest.mark.parametrize(
    ("plan", "read_as"),
    [
        ("what to do next time: take the lamp", "take the lamp"),
        ("What to do next time. Take the lamp.", "Take the lamp."),
        ("Take the lamp.", "Take the lamp."),
    ],
)
def test_a_description_that_is_copied_into_the_answer_is_cut(plan, read_as):
    assert read(DESCRIBED, f"Mistakes: None were made.\nPlan: {plan}")["plan"] == read_as


def test_a_description_alone_is_no_answer():
    assert read(DESCRIBED, "Mistakes: It was dark.\nPlan: what to do next time") is None


BLOCK = "```python\nopen(door)\n```"


@pytest.mark.parametrize(
    ("said", "plan"),
    [
        (f"Next time do this first.\n{BLOCK}", f"Next time do this first.\n{BLOCK}"),
        (f"{BLOCK}\nThen wait for it.", f"{BLOCK}\nThen wait for it."),
        (f"{BLOCK}\nThen do that.\n{BLOCK}", f"{BLOCK}\nThen do that.\n{BLOCK}"),
        (f"Mistakes: Slow.\nPlan: Do this first.\n{BLOCK}", f"Do this first.\n{BLOCK}"),
        (json.dumps({"mistakes": "Slow.", "plan": f"Do this.\n{BLOCK}"}), f"Do this.\n{BLOCK}"),
        ("Do this first.\n~~~\nopen(door)\n~~~", "Do this first.\n~~~\nopen(door)\n~~~"),
        ("Next time do this first.\n```\nopen(door)", "Next time do this first.\n```\nopen(door)"),
        (f"Mistakes: Slow.\nPlan:\n{BLOCK}", "open(door)"),
        ("```\nGo to the door, then open it.\n```", "Go to the door, then open it."),
        ("```\nGo to the door, then open it.", "Go to the door, then open it."),
        ("Go to the door, then open it.\n```", "Go to the door, then open it."),
    ],
)
def test_a_fenced_block_in_a_text_keeps_both_of_its_fences(said, plan):
    assert ChatAdapter().parse(Reflect, said)["plan"] == plan


@pytest.mark.parametrize(
    ("said", "settings", "thought", "repaired"),
    [
        ("Thought: Closed.\nAction: open door", {}, "Closed.", 0),
        ("action: open door", {}, "", 1),
        ('{"action": "open door"}', {}, "", 1),
        ("Open door.", {"unasked": {"thought"}, "possible": {"open door"}}, "", 1),
    ],
)
def test_answers_that_broke_the_form_are_counted_and_what_is_unasked_is_not_missed(said, settings, thought, repaired):
    got, _, counted, unread = ask(ChatAdapter(), said, **settings)
    assert (got.thought, got.action, counted, unread) == (thought, "open door", repaired, [])
    assert ask(ChatAdapter(), "wait", signature=NameTarget, unasked={"target"})[0].target == "wait"


# What is read.


@pytest.mark.parametrize("entry", ANSWERS + RULES, ids=lambda entry: entry["kind"].replace(" ", "_"))
def test_an_answer_is_read_as_it_was_meant_or_not_at_all(entry):
    rules = entry.get("expected")
    meant = entry["expect"] if "expect" in entry else rules and {f"{kind}_rules": rules[kind] for kind in rules}
    got = read(find_signature(entry["signature"]), entry["answer"])
    assert got == meant or (got is None and entry.get("unread"))


def test_most_of_what_holds_an_answer_has_to_be_read():
    """An unread action costs a step. Of lists, each form of which would be a guess at rules, fewer have to be read."""
    for corpus, key, least in ((ANSWERS, "expect", 0.845), (RULES, "expected", 0.585)):
        held = [entry for entry in corpus if entry[key]]
        assert sum(not entry.get("unread") for entry in held) >= least * len(held)


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("open door", "open door"), ("**Open door.**", "open door"), ("1. `open door`", "open door"),
        ("I see a door.\nopen door", "open door"), ("open door\nThis leads out.", "open door"),
        ("I could wait. Or not.\n- open door\nThat is it.", "open door"), ("Thought: Shut.\nopen door", "open door"),
        ("open window", "open window"), ("2", "2"), ("Open it? Or wait?", None), ("The door is shut.", None),
        ("Open\nObservation: It is open.", None),
    ],
)  # fmt: skip
def test_a_text_without_form_is_an_action_if_it_begins_as_one_or_is_possible(said, action):
    with during(verbs=frozenset({"open", "wait"}), possible=frozenset({"open door", "wait"})):
        got = read(FlatActor, said)
    assert (got and got["action"]) == action


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        *((mark.format("focus on OBJ"), ["focus on OBJ"]) for mark in ("{}", "- {}", "* {}", "1. {}", "1) {}", "`{}`")),
        ("Steps: focus on OBJ", ["focus on OBJ"]), ("The steps are:\nfocus on OBJ", ["focus on OBJ"]),
        ("Open doors before you go through them.", ["Open doors before you go through them."]),
        ("go to kitchen; open fridge", ["go to kitchen", "open fridge"]), ("none", []),
        ("Here are the steps:", None), ("I would rather chat.", None), ("What should be done?", None), ("1.", None),
        ("go to kitchen, open fridge, take apple", None), ("Thought: focus on it", None),
    ],
)  # fmt: skip
def test_a_list_of_one_on_one_line_is_read(said, steps):
    got = read(WriteInstructions, said)
    assert (got and got["steps"]) == steps


WHOLE = {
    "abstract_rules": ["Water boils when it is heated.", "Don't open what is open."],
    "error_rules": [error.model_dump() for error in ERRORS],
    "progress_rules": ["The pot is filled.", "Still to do: heat the pot."],
}
SECTIONS = "\n\n".join(f"[[ ## {name} ## ]]\n{json.dumps(rules)}" for name, rules in WHOLE.items())


@pytest.mark.parametrize("text", [json.dumps(WHOLE), repr(WHOLE), SECTIONS], ids=["json", "python", "sections"])
def test_what_is_read_of_an_answer_wherever_it_breaks_off_is_what_stood_before(text):
    assert read(WriteRules, text) == WHOLE
    cut = [got for end in range(0, len(text), 3) if (got := read(WriteRules, text[:end]))]
    assert all(got[name] == WHOLE[name][: len(got[name])] for got in cut for name in WHOLE)


Judged = dspy.Signature(
    "a -> count: int, sure: bool, share: float, verdict: Literal['good', 'bad'], numbers: list[int], note: str | None"
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
        (WriteInstructions, {"steps": ["go to kitchen, then open fridge"]}),
        (Reflect, {"mistakes": "Two things:\n- a\n- b", "plan": "1. Go.\n2. Look."}),
        (NameTarget, {"target": "The door is open."}),
        (ReviseInsights, {"insight_edits": EDITS}),
        (InduceWorkflows, {"workflows": [FLOW, FLOW]}),
    ],
)
def test_what_is_well_formed_is_read_as_it_was(adapter, signature, outputs):
    assert adapter().parse(signature, adapter().tell_answer(signature, outputs)) == outputs


PIECES = (
    "Observation: the door is open", "Action: wait", "```json", "```", '{"action": "wait"}', "[[ # action # ]]",
    "## action ##", "**Thought**: hm", "<think>", "</think>", "1. ", "- ", "none", "<action>", "[1]", "don't", "\\n",
    "：", "\u200b", "{thought}", "a & b < c", '"', "'", "}", "{", "(", "|",
)  # fmt: skip
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=8).map("\n".join)
MARKS = st.lists(st.sampled_from("{}[]<>/\"'`:#*\\\n, aT1") | st.characters(), max_size=60).map("".join)


@settings(deadline=None, max_examples=200)
@given(text=TEXT | MARKS, signature=st.sampled_from((SkillActor, Reflect, WriteRules, WriteInstructions, Judged)))
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
