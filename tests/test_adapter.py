"""Answers that keep to no format: what is read of them, what is left unread, and that well-formed ones stay as DSPy
reads them. Requests are DSPy's.

The corpora are lm/data/malformed_answers.json and malformed_rules.json: what small models say in place of an answer or
of lists of rules, each with what has to be read of it, or null where nothing may be. An entry marked `unread` is beyond
the repair: it may be left unread. Those marked `held` were written after the repair, to try it on.
"""

import json

import dspy
import pytest
from dspy.lm15 import Message, Request
from dspy.primitives import Prediction
from dspy.utils.exceptions import AdapterParseError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.parsing import CORPUS, extract_used_fields
from rsso_dspy import signatures
from rsso_dspy.adapter import (
    ChatAdapter,
    JSONAdapter,
    XMLAdapter,
    is_echoed_placeholder,
    parse_literal,
    repair_answer,
)
from rsso_dspy.config import BackendConfig
from rsso_dspy.lm import Backend
from rsso_dspy.offline.prompt import parse_request
from rsso_dspy.playing import playing
from rsso_dspy.programs.constitution_writer import list_lessons
from tests.live import Engine, says

ANSWERS = json.loads(CORPUS.read_text(encoding="utf-8"))
RULES = json.loads(CORPUS.with_name("malformed_rules.json").read_text(encoding="utf-8"))
ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter}
THEIRS = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter, "xml": dspy.XMLAdapter}
OURS = [getattr(signatures, name) for name in signatures.__all__ if name != "ErrorRule"]
ABSTRACT = ["Water boils when it is heated.", "Don't open what is open."]
ERRORS = [{"mistake": "Tried the stove.", "solution": "Use the oven."}, {"mistake": "Waited.", "solution": "Look."}]
WHOLE = {
    "abstract_rules": ABSTRACT,
    "error_rules": ERRORS,
    "progress_rules": ["The pot is filled.", "Still to do: heat the pot."],
}
every_adapter = pytest.mark.parametrize("adapter", ADAPTERS)


def signature_of(entry):
    return getattr(signatures, entry["signature"], None) or dspy.Signature(entry["signature"])


def read(adapter, signature, answer):
    """Fields as plain data, of an action what the agent takes of it; None if the answer is unreadable."""
    try:
        return extract_used_fields(ADAPTERS[adapter]().parse(signature, answer))
    except AdapterParseError:
        return None


def list_names(corpus):
    return pytest.mark.parametrize("entry", corpus, ids=[entry["kind"].replace(" ", "_") for entry in corpus])


@every_adapter
@list_names(ANSWERS)
def test_an_answer_is_read_as_it_was_meant_or_not_at_all(entry, adapter):
    got = read(adapter, signature_of(entry), entry["answer"])
    assert got == entry["expect"] or (got is None and entry.get("unread"))


@every_adapter
@list_names(RULES)
def test_rules_are_read_as_they_were_meant_and_make_lessons_that_say_something(entry, adapter):
    got, meant = read(adapter, signature_of(entry), entry["answer"]), entry["expected"]
    assert got == (meant and {f"{kind}_rules": rules for kind, rules in meant.items()})
    if got is not None:
        fields = ADAPTERS[adapter]().parse(signature_of(entry), entry["answer"])
        lessons = list_lessons(Prediction(**fields))
        assert all(lesson.text.strip() and lesson.line.strip() and "\n" not in lesson.line for lesson in lessons)


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
RULE = st.builds(signatures.ErrorRule, mistake=TEXT, solution=TEXT)
KINDS = {str: TEXT, list[str]: st.lists(TEXT, max_size=3), list[signatures.ErrorRule]: st.lists(RULE, max_size=2)}


@every_adapter
@pytest.mark.parametrize("name", ["FlatActor", "SkillActor", "Reflect", "WriteRules"])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_well_formed_answer_is_read_as_dspy_reads_it(adapter, name, data):
    signature, theirs = getattr(signatures, name), THEIRS[adapter]()
    kinds = {name: KINDS[info.annotation] for name, info in signature.output_fields.items()}
    answer = theirs.format_assistant_message_content(signature, data.draw(st.fixed_dictionaries(kinds)))
    try:
        meant = theirs.parse(signature, answer)
    except AdapterParseError:
        return
    last = next(reversed(meant))
    assume(not is_echoed_placeholder(meant[last], last))
    assert ADAPTERS[adapter]().parse(signature, answer) == meant


@every_adapter
@settings(deadline=None, max_examples=100)
@given(text=TEXT | st.text() | MARKS, signature=st.sampled_from(OURS))
def test_no_text_raises_anything_but_the_parse_error(adapter, text, signature):
    read(adapter, signature, text)


def sections(*rules):
    return "\n\n".join(f"[[ ## {name} ## ]]\n{said}" for name, said in zip(WHOLE, rules, strict=True))


CUT_RULES = {
    "json": json.dumps(WHOLE),
    "json on lines": json.dumps(WHOLE, indent=2),
    "python": repr(WHOLE),
    "json in sections": sections(*map(json.dumps, WHOLE.values())),
    "python in sections": sections(*WHOLE.values()),
}


@every_adapter
@pytest.mark.parametrize("form", CUT_RULES)
def test_a_cut_answer_holds_whole_rules_or_none(form, adapter):
    """Wherever an answer breaks off, what is read of it is what stood before."""
    answer, some = CUT_RULES[form], 0
    for end in range(0, len(answer), 11):
        got = read(adapter, signatures.WriteRules, answer[:end])
        if got is not None:
            some += 1
            assert all(got[name] == WHOLE[name][: len(got[name])] for name in WHOLE), answer[:end]
    assert some > 10


@pytest.mark.parametrize(
    ("signature", "said", "rest"),
    [
        ("WriteRules", {"abstract_rules": ["A fact."]}, None),
        ("WriteRules", {"abstract_rules": ["A fact."], "progress_rules": []}, {"error_rules": []}),
        ("WriteRules", {"error_rules": [], "progress_rules": ["Done."]}, {"abstract_rules": []}),
        ("SummarizeConstitution", {"abstract_rules": ABSTRACT}, None),  # the memory would forget the other half
        ("SummarizeConstitution", {"error_rules": ERRORS}, None),
    ],
)
def test_a_missing_list_is_empty_where_most_are_there(signature, said, rest):
    for adapter in ("chat", "json"):
        got = read(adapter, getattr(signatures, signature), json.dumps(said))
        assert got == (None if rest is None else said | rest)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['it's here', 'there']", ["it's here", "there"]),
        ('["say "go" twice", "stop"]', ['say "go" twice', "stop"]),
        ("{'b', 'a'}", ["b", "a"]),
        ("('a', 'b')", ["a", "b"]),
        ('["a" "b"]', ["a", "b"]),
        ('["a"\n"b"]', ["a", "b"]),
        ('["a", // first\n "b" /* last */]', ["a", "b"]),
        ("[Pair(left='a', right=None)]", [{"left": "a", "right": None}]),
        ('["a", "b', ["a"]),
        ('[{"a": 1, "b": 2}, {"a": 3, "b": ', [{"a": 1, "b": 2}]),
        ("[1, 2, true, None]", [1, 2, True, None]),
    ],
)
def test_broken_literals(text, value):
    assert parse_literal(text) == value


ENDLESS = ['{"thought": ' + '{"' * 3000, '{"thought": "' + 'a "b" ' * 3000, "[" * 3000]


@every_adapter
@pytest.mark.parametrize("answer", [*ENDLESS, "<a>" * 3000, "((((" * 2000])
@pytest.mark.timeout(20)
def test_a_model_that_got_stuck_holds_nobody_up(answer, adapter):
    got = [read(adapter, signature, answer) for signature in (signatures.FlatActor, signatures.SkillActor)]
    assert answer not in ENDLESS or got == [None, None] == [repair_answer(signatures.FlatActor, answer), None]


# Real calls.


class Counting:
    """A ledger that counts repaired answers."""

    def __init__(self):
        self.count = 0

    def count_repaired(self):
        self.count += 1

    def unread(self, text):
        """What could not be read is kept by the real one."""


def ask(adapter, *answers):
    """What a Predict with this adapter makes of these answers in turn, how often the model was asked, and how many
    answers were repaired; the same without a ledger."""
    results = []
    for ledger in (Counting(), None):
        left = iter(answers)
        engine = Engine(lambda _, left=left: next(left))
        lm = dspy.LM("embedded/explorer", engine=engine, cache=False, num_retries=0)
        regions = dict.fromkeys(signatures.FlatActor.input_fields, "x")
        with dspy.context(adapter=adapter, disable_history=True), playing(ledger=ledger):
            try:
                action = dspy.Predict(signatures.FlatActor)(lm=lm, **regions).action
            except AdapterParseError:
                action = None
        results.append((action, len(engine.prompts), ledger and ledger.count))
    assert results[0][:2] == results[1][:2]
    return results[0]


REPAIRABLE = "Thought: It is closed.\nAction: open door"
UNREADABLE = "I'm sorry, I can't."
MARKED = says(thought="Closed.", action="open door")


@pytest.mark.parametrize(
    ("adapter", "answers", "result"),
    [
        (ChatAdapter(), [REPAIRABLE], ("open door", 1, 1)),
        (JSONAdapter(), [REPAIRABLE], ("open door", 1, 1)),
        (XMLAdapter(), [REPAIRABLE], ("open door", 1, 1)),
        (ChatAdapter(), [UNREADABLE] * 2, (None, 2, 0)),
        (JSONAdapter(), [UNREADABLE] * 2, (None, 1, 0)),
        (XMLAdapter(), [UNREADABLE] * 2, (None, 2, 0)),
        (dspy.ChatAdapter(), [UNREADABLE] * 2, (None, 2, 0)),
        (dspy.JSONAdapter(), [UNREADABLE] * 2, (None, 1, 0)),
        (dspy.XMLAdapter(), [UNREADABLE] * 2, (None, 2, 0)),
        (ChatAdapter(), [UNREADABLE, "**Thought**: It is closed.\n**Action**: open door"], ("open door", 2, 1)),
        (ChatAdapter(use_json_adapter_fallback=False), [UNREADABLE], (None, 1, 0)),
        (ChatAdapter(), [MARKED], ("open door", 1, 0)),
        (ChatAdapter(), [f"<think>\nHm.\n</think>\n\n{MARKED}"], ("open door", 1, 0)),
    ],
)
def test_a_second_answer_is_asked_for_where_dspy_asks_and_repairs_are_counted(adapter, answers, result):
    assert ask(adapter, *answers) == result


@pytest.mark.parametrize("interface", ["sso", "complete"])
@every_adapter
@pytest.mark.parametrize("name", ["WriteRules", "WriteInstructions", "SkillActor", "Reflect"])
def test_prompts_are_those_of_dspy_and_under_complete_of_the_same_fields_in_fewer_words(adapter, name, interface):
    signature = getattr(signatures, name)
    regions = dict.fromkeys(signature.input_fields, "x")
    with playing(interface=interface):
        ours, theirs = (kinds[adapter]().format(signature, [], regions) for kinds in (ADAPTERS, THEIRS))
    if interface == "sso" or name.startswith("Write"):  # brief where all fields are plain text
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
        got = read(adapter, signature, text)
        assert "next_action" not in wanted or not (got and got["next_action"])


@every_adapter
def test_a_backend_reads_tolerantly_and_streaming_knows_its_adapter(adapter):
    configured = Backend(BackendConfig(model="openai/x", adapter=adapter)).adapter
    assert type(configured) is ADAPTERS[adapter]
    assert type(configured).__name__ == THEIRS[adapter].__name__
    assert isinstance(configured, THEIRS[adapter])


@every_adapter
def test_the_system_message_is_dspys_also_when_the_signature_was_changed_in_place(adapter):
    ours, theirs = ADAPTERS[adapter](), THEIRS[adapter]()
    for signature in OURS:
        for _ in range(2):
            assert ours.format_system_message(signature) == theirs.format_system_message(signature)
    changed = signatures.FlatActor.append("extra", dspy.InputField(desc="before"), str)
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
