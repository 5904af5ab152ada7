"""Answers that keep to no format: what is read of them, what is left unread, and that well-formed ones stay as DSPy
reads them.

The corpus is data/malformed_answers.json: what small models say in place of an answer, each with what has to be read
of it, or null where nothing may be. An entry marked `unread` is one that is beyond the repair: it may be left unread.
"""

import json

import dspy
import pytest
from dspy.lm15 import Message, Request
from dspy.utils.exceptions import AdapterParseError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks import parsing
from rsso_dspy import signatures
from rsso_dspy.config import BackendConfig
from rsso_dspy.explorer.prompt_parser import parse_request
from rsso_dspy.lm import Backend
from rsso_dspy.lm.adapters import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.lm.adapters.repair import is_echoed_placeholder, repair_answer
from rsso_dspy.playing import playing
from rsso_dspy.programs.actor import first_line
from tests.live import Engine, says

CORPUS = json.loads(parsing.CORPUS.read_text(encoding="utf-8"))
ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter}
THEIRS = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter, "xml": dspy.XMLAdapter}
OPTIONAL = "history -> thought: str | None, action: str"


def signature_of(entry):
    return getattr(signatures, entry["signature"], None) or dspy.Signature(entry["signature"])


def as_used(fields):
    """Fields as plain data; of an action, what the agent takes of it."""
    plain = json.loads(json.dumps(dict(fields), default=lambda model: model.model_dump()))
    return {
        name: first_line(said) if name in ("action", "next_action") and said else said for name, said in plain.items()
    }


def read(adapter, signature, answer):
    try:
        return as_used(adapter.parse(signature, answer))
    except AdapterParseError:
        return None


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["kind"].replace(" ", "_"))
def test_an_answer_is_read_as_it_was_meant_or_not_at_all(entry, adapter):
    got = read(ADAPTERS[adapter](), signature_of(entry), entry["answer"])
    assert got == entry["expect"] or (got is None and entry.get("unread"))


def test_the_corpus_is_of_many_kinds_and_covers_every_signature():
    assert len(CORPUS) >= 80
    assert len({entry["kind"] for entry in CORPUS}) >= 20
    assert sum(entry["expect"] is None for entry in CORPUS) >= 12
    assert 0.25 < sum(entry["held"] for entry in CORPUS) / len(CORPUS) < 0.4
    named = {entry["signature"] for entry in CORPUS} - {OPTIONAL}
    assert named == set(signatures.__all__) - {"ErrorRule"}
    assert sum(bool(entry.get("unread")) for entry in CORPUS) <= 2


# What is well formed.

PIECES = (
    "Observation: the door is open", "Action: wait", "```json", "```", '{"action": "wait"}', "[[ # action # ]]",
    "## action ##", "[[action]]", "**Thought**: hm", "<think>", "</think>", "1. ", "- ", "none", "I'm sorry, I can't",
    "<action>", "[1]", "don't", "\\n", "Next action: look", "：", "\u200b", "{thought}", "a & b < c", '"', "'", "}",
    "{",
)  # fmt: skip
PRINTABLE = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12)
TEXT = st.lists(st.sampled_from(PIECES) | PRINTABLE, max_size=8).map("\n".join)
MARKS = st.lists(st.sampled_from("{}[]<>/\"'`:#*\\\n, aT1") | st.characters(), max_size=60).map("".join)
SIGNATURES = (signatures.FlatActor, signatures.SkillActor, signatures.Reflect, signatures.WriteRules)


def values(signature):
    rule = st.builds(signatures.ErrorRule, mistake=TEXT, solution=TEXT)
    kinds = {str: TEXT, list[str]: st.lists(TEXT, max_size=3), list[signatures.ErrorRule]: st.lists(rule, max_size=2)}
    return st.fixed_dictionaries({name: kinds[info.annotation] for name, info in signature.output_fields.items()})


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.__name__)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_well_formed_answer_is_read_as_dspy_reads_it(adapter, signature, data):
    theirs = THEIRS[adapter]()
    answer = theirs.format_assistant_message_content(signature, data.draw(values(signature)))
    try:
        meant = theirs.parse(signature, answer)
    except AdapterParseError:
        return
    last = next(reversed(meant))
    assume(not is_echoed_placeholder(meant[last], last))
    assert ADAPTERS[adapter]().parse(signature, answer) == meant


@pytest.mark.parametrize("adapter", ADAPTERS)
@settings(deadline=None, max_examples=100)
@given(
    text=TEXT | st.text() | MARKS,
    signature=st.sampled_from([vars(signatures)[name] for name in signatures.__all__ if name != "ErrorRule"]),
)
def test_no_text_raises_anything_but_the_parse_error(adapter, text, signature):
    read(ADAPTERS[adapter](), signature, text)


@settings(deadline=None, max_examples=200)
@given(entry=st.sampled_from(CORPUS), cut=st.integers(0, 400), noise=TEXT)
def test_a_cut_or_soiled_answer_raises_nothing_and_reads_the_same_twice(entry, cut, noise):
    signature = signature_of(entry)
    for text in (entry["answer"][:cut], noise + entry["answer"], entry["answer"] + noise):
        assert repair_answer(signature, text) == repair_answer(signature, text)


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_an_action_that_was_cut_off_before_it_began_is_not_made_up(cut):
    for answer in (
        says(thought="The door is closed, and I am outside.", action="").partition("[[ ## action")[0],
        '{"thought": "The door is closed, and I am outside.", "action": ',
        "<thought>The door is closed, and I am outside.</thought>",
        "Thought: The door is closed, and I am outside.\nAction:",
    ):
        for adapter in ADAPTERS.values():
            assert read(adapter(), signatures.FlatActor, answer[: len(answer) - cut]) is None


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("answer", ["{" * 5000, "[" * 5000, "<a>" * 3000, "((((" * 2000, "[[ ## thought ## ]]\n" * 500])
def test_deep_and_long_answers_come_back(answer, adapter):
    read(ADAPTERS[adapter](), signatures.FlatActor, answer)


@pytest.mark.parametrize("answer", ['{"' * 3000, '{"thought": ' + '{"' * 3000, '{"thought": "' + 'a "b" ' * 3000])
def test_an_endless_broken_object_is_given_up(answer):
    assert repair_answer(signatures.FlatActor, answer) is None


def test_a_signature_without_output_fields_is_no_error():
    nothing = dspy.Signature("question -> answer").delete("answer")
    for name, adapter in ADAPTERS.items():
        text = "{}" if name == "json" else "It is done."
        assert adapter().parse(nothing, text) == THEIRS[name]().parse(nothing, text) == {}


# Real calls.


class Counting:
    """A usage tracker that counts repaired answers."""

    def __init__(self):
        self.count = 0

    def count_repaired(self):
        self.count += 1

    def unread(self, text):
        """What could not be read is kept by the real one."""


def ask(adapter, *answers, tracker=None):
    """What a Predict with this adapter makes of these answers in turn, and how often the model was asked."""
    left = iter(answers)
    engine = Engine(lambda _: next(left))
    lm = dspy.LM("embedded/explorer", engine=engine, cache=False, num_retries=0)
    regions = dict.fromkeys(signatures.FlatActor.input_fields, "x")
    with dspy.context(adapter=adapter, disable_history=True), playing(ledger=tracker):
        try:
            said = dspy.Predict(signatures.FlatActor)(lm=lm, **regions)
        except AdapterParseError:
            return None, len(engine.prompts)
    return said.action, len(engine.prompts)


REPAIRABLE = "Thought: It is closed.\nAction: open door"
UNREADABLE = "I'm sorry, I can't."
BEYOND_JSON = "**Thought**: It is closed.\n**Action**: open door"


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_repairable_answer_takes_one_call_and_is_counted(adapter):
    tracker = Counting()
    assert ask(ADAPTERS[adapter](), REPAIRABLE, tracker=tracker) == ("open door", 1)
    assert tracker.count == 1


@pytest.mark.parametrize(("adapter", "calls"), [("chat", 2), ("json", 1), ("xml", 2)])
def test_an_unreadable_answer_is_asked_for_again_where_dspy_asks_again(adapter, calls):
    tracker = Counting()
    assert ask(ADAPTERS[adapter](), UNREADABLE, UNREADABLE, tracker=tracker) == (None, calls)
    assert ask(THEIRS[adapter](), UNREADABLE, UNREADABLE) == (None, calls)
    assert tracker.count == 0


def test_the_second_answer_is_read_as_tolerantly_as_the_first():
    tracker = Counting()
    assert ask(ChatAdapter(), UNREADABLE, BEYOND_JSON, tracker=tracker) == ("open door", 2)
    assert tracker.count == 1


def test_a_second_call_can_be_switched_off():
    assert ask(ChatAdapter(use_json_adapter_fallback=False), UNREADABLE) == (None, 1)


def test_a_well_formed_answer_is_not_counted_and_nobody_need_count():
    tracker = Counting()
    assert ask(ChatAdapter(), says(thought="Closed.", action="open door"), tracker=tracker) == ("open door", 1)
    assert tracker.count == 0
    assert ask(ChatAdapter(), REPAIRABLE, tracker=None) == ("open door", 1)


def test_thinking_ahead_of_a_well_formed_answer_is_not_counted_as_a_repair():
    tracker = Counting()
    answer = "<think>\nHm.\n</think>\n\n" + says(thought="Closed.", action="open door")
    assert ask(ChatAdapter(), answer, tracker=tracker) == ("open door", 1)
    assert tracker.count == 0


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_error_is_the_one_that_dspy_raises(adapter):
    errors = []
    for kinds in (ADAPTERS, THEIRS):
        with pytest.raises(AdapterParseError) as caught:
            kinds[adapter]().parse(signatures.FlatActor, UNREADABLE)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("interface", ["sso", "complete"])
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("signature", [signatures.WriteRules, signatures.SkillActor, signatures.Reflect])
def test_prompts_are_those_of_dspy_and_under_complete_of_the_same_fields_in_fewer_words(adapter, signature, interface):
    regions = dict.fromkeys(signature.input_fields, "x")
    with playing(interface=interface):
        ours, theirs = (kinds[adapter]().format(signature, [], regions) for kinds in (ADAPTERS, THEIRS))
    if interface == "sso" or signature is signatures.WriteRules:
        assert ours == theirs
        return
    asked, wanted = ours[0]["content"], list(signature.output_fields)
    for name, field in signature.fields.items():
        assert f"`{name}`: {field.json_schema_extra['desc']}" in asked
    assert "".join(signature.instructions.split()) in "".join(asked.split())
    assert len(asked) < 0.82 * len(theirs[0]["content"])
    assert len(ours[1]["content"]) < len(theirs[1]["content"])
    found = parse_request(Request("m", (Message.user(ours[1]["content"]),), system=asked))
    assert (list(found.layout.wanted), found.layout.style) == (wanted, adapter)
    assert found.regions == regions
    assert found.instruction.split() == signature.instructions.split()
    said = ADAPTERS[adapter]().format_assistant_message_content(signature, dict.fromkeys(wanted, "so"))
    assert ADAPTERS[adapter]().parse(signature, said) == dict.fromkeys(wanted, "so")
    shown = asked.partition("Your answer has this form:\n")[2].partition("\n\nYour objective is:")[0]
    for text in (shown, said.replace("so", "{next_action}")):
        assert "next_action" not in wanted or read_action(ADAPTERS[adapter](), signature, text) is None


def read_action(adapter, signature, text):
    """The action that is read of a text; None when none is, or it is a placeholder."""
    found = read(adapter, signature, text)
    return found and found["next_action"]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_backend_reads_tolerantly_and_streaming_knows_its_adapter(adapter):
    configured = Backend(BackendConfig(model="openai/x", adapter=adapter)).adapter
    assert type(configured) is ADAPTERS[adapter]
    assert type(configured).__name__ == THEIRS[adapter].__name__
    assert isinstance(configured, THEIRS[adapter])


@pytest.mark.parametrize("stuck", ['{"', "[", '{"a": ['])
@pytest.mark.parametrize("adapter", [ChatAdapter, JSONAdapter, XMLAdapter])
@pytest.mark.timeout(20)
def test_a_model_that_got_stuck_on_a_bracket_holds_nobody_up(adapter, stuck):
    with pytest.raises(AdapterParseError):
        adapter().parse(signatures.SkillActor, stuck * 3000)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_system_message_is_dspys_also_when_the_signature_was_changed_in_place(adapter):
    ours, theirs = ADAPTERS[adapter](), THEIRS[adapter]()
    changed = signatures.FlatActor.append("extra", dspy.InputField(desc="before"), str)
    for name in signatures.__all__:
        signature = getattr(signatures, name)
        if isinstance(signature, type) and issubclass(signature, dspy.Signature):
            for _ in range(2):
                assert ours.format_system_message(signature) == theirs.format_system_message(signature)
    said = []
    for change in (
        lambda: None,
        lambda: setattr(changed, "instructions", "Do something else."),
        lambda: changed.input_fields["extra"].json_schema_extra.update(desc="after"),
    ):
        change()
        assert ours.format_system_message(changed) == theirs.format_system_message(changed)
        said.append(ours.format_system_message(changed))
    assert len(set(said)) == 3
