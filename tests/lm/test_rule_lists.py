"""Rule lists in no proper form: what is read of them, and that nothing is read which was not said.

The corpus is data/malformed_rules.json: answers of a rule writer or a summarizer, each with the rules that have to be
read of it, or null where nothing may be. Those marked `held` were written after the repair, to try it on.
"""

import json
from pathlib import Path

import pytest
from dspy.primitives import Prediction
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy import signatures
from rsso_dspy.lm.adapters import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.lm.adapters.literals import parse_literal
from rsso_dspy.programs.constitution_writer import list_lessons

CORPUS = json.loads((Path(__file__).parent / "data" / "malformed_rules.json").read_text(encoding="utf-8"))
ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter}
FIELDS = {"abstract": "abstract_rules", "error": "error_rules", "progress": "progress_rules"}
ABSTRACT = ["Water boils when it is heated.", "Don't open what is open."]
ERRORS = [{"mistake": "Tried the stove.", "solution": "Use the oven."}, {"mistake": "Waited.", "solution": "Look."}]
PROGRESS = ["The pot is filled.", "Still to do: heat the pot."]
WHOLE = dict(zip(FIELDS.values(), (ABSTRACT, ERRORS, PROGRESS), strict=True))


def read(adapter, signature, answer):
    try:
        fields = ADAPTERS[adapter]().parse(getattr(signatures, signature), answer)
    except AdapterParseError:
        return None
    plain = json.loads(json.dumps(fields, default=lambda model: model.model_dump()))
    return {kind: plain[name] for kind, name in FIELDS.items() if name in plain}


def sections(abstract, errors, progress):
    names = zip(FIELDS.values(), (abstract, errors, progress), strict=True)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{said}" for name, said in names)


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["kind"].replace(" ", "_"))
def test_rules_are_read_as_they_were_meant(entry, adapter):
    assert read(adapter, entry["signature"], entry["answer"]) == entry["expected"]


def test_the_corpus_is_of_many_kinds():
    assert len({entry["kind"] for entry in CORPUS}) == len(CORPUS) >= 48
    assert sum(entry["held"] for entry in CORPUS) >= 12
    assert sum(entry["expected"] is None for entry in CORPUS) >= 8


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry["kind"].replace(" ", "_"))
def test_what_is_read_makes_lessons_that_say_something(entry, adapter):
    try:
        fields = ADAPTERS[adapter]().parse(getattr(signatures, entry["signature"]), entry["answer"])
    except AdapterParseError:
        return
    lessons = list_lessons(Prediction(**fields))
    assert all(lesson.text.strip() and lesson.line.strip() and "\n" not in lesson.line for lesson in lessons)


FORMS = {
    "json": json.dumps(WHOLE),
    "json on lines": json.dumps(WHOLE, indent=2),
    "python": repr(WHOLE),
    "json in sections": sections(*map(json.dumps, (ABSTRACT, ERRORS, PROGRESS))),
    "python in sections": sections(ABSTRACT, ERRORS, PROGRESS),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_cut_answer_holds_whole_rules_or_none(form, adapter):
    """Wherever an answer breaks off, what is read of it is what stood before."""
    answer, some = FORMS[form], 0
    for end in range(0, len(answer), 11):
        got = read(adapter, "WriteRules", answer[:end])
        if got is not None:
            some += 1
            assert all(got[kind] == WHOLE[name][: len(got[kind])] for kind, name in FIELDS.items()), answer[:end]
    assert some > 10


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        ({"abstract_rules": ["A fact."]}, None),
        ({"abstract_rules": ["A fact."], "progress_rules": []}, {"abstract": ["A fact."], "error": [], "progress": []}),
        ({"error_rules": [], "progress_rules": ["Done."]}, {"abstract": [], "error": [], "progress": ["Done."]}),
    ],
)
def test_a_missing_list_is_empty_where_most_are_there(answer, rules):
    assert read("chat", "WriteRules", json.dumps(answer)) == rules


@pytest.mark.parametrize("name", ["abstract_rules", "error_rules"])
def test_half_a_summary_is_no_summary(name):
    """It would make the memory forget the other half."""
    assert read("json", "SummarizeConstitution", json.dumps({name: WHOLE[name]})) is None


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
