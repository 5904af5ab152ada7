"""The constitution as a file: what is read of it, what is refused by name, and what a person may edit."""

import json

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.constitution.file import ConstitutionFile, read_constitution
from tests.memory.lessons import error, fact

RULES = '{"kind": "rsso-dspy constitution", "schema": 1, "rules": '


def test_a_file_round_trips(tmp_path):
    book = ConstitutionFile(
        Constitution().with_lessons([fact("Doors open."), error("x failed", "do y")], "boil", "boil::3"),
        {"variants": ["boil::3"]},
        ("an example",),
    )
    file = tmp_path / "book.json"
    file.write_text(book.to_json(), encoding="utf-8")
    assert read_constitution(file) == book
    assert read_constitution(file).variants == ("boil::3",)


def test_rules_written_by_hand_need_category_and_text_only(tmp_path):
    file = tmp_path / "book.json"
    rows = [{"category": "abstract", "text": "Doors open."}, {"category": "error", "text": "x", "solution": "y"}]
    file.write_text(json.dumps({"kind": "rsso-dspy constitution", "schema": 1, "rules": rows}))
    book = read_constitution(file).constitution
    assert [rule.id for rule in book.rules] == ["A1", "E2"]
    assert {rule.source for rule in book.rules} == {"written by hand"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[]", "is not a constitution"),
        ('{"kind": "rsso-dspy constitution", "schema": 2, "rules": []}', "schema 2"),
        ('{"kind": "rsso-dspy constitution", "schema": 1, "rules": {}}', "is damaged"),
        (RULES + '["x"]}', "rule 1 must be an object"),
        (RULES + '[{"category": "x"}]}', "category 'x'"),
        (RULES + '[{"category": "abstract"}]}', "no text"),
        (RULES + '[{"id": "X1", "category": "abstract", "text": "t"}]}', "id 'X1'"),
        (RULES + '[{"category": "abstract", "text": "t", "count": 0}]}', "count 0"),
        (
            RULES + '[{"id": "A1", "category": "abstract", "text": "t"}, '
            '{"id": "A1", "category": "abstract", "text": "u"}]}',
            "two rules the same id",
        ),
        (RULES + '[], "edits": [{"x": 1}]}', "is damaged"),
    ],
)
def test_a_file_that_is_no_constitution_is_refused_by_name(tmp_path, content, said):
    file = tmp_path / "book.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"book\.json") as refused:
        read_constitution(file)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [({"solution": ""}, "no solution"), ({"source": 5}, "source must be text"), ({"task": ["a"]}, "task must be text")],
)
def test_a_rule_that_would_break_a_run_later_is_refused_at_once(tmp_path, change, wrong):
    file = tmp_path / "book.json"
    row = {"category": "error", "text": "x", "solution": "y", **change}
    file.write_text(RULES + json.dumps([row]) + "}")
    with pytest.raises(UsageError, match=wrong):
        read_constitution(file)


@pytest.mark.parametrize("more", ['"provenance": {"variants": 5}', '"numbered": Infinity', '"edits": [{"id": "A"}]'])
def test_what_stands_beside_the_rules_is_checked_too(tmp_path, more):
    file = tmp_path / "book.json"
    file.write_text(RULES + f"[], {more}" + "}")
    with pytest.raises(UsageError, match=r"book\.json"):
        read_constitution(file)


def test_a_number_that_was_given_is_not_given_again(tmp_path):
    file = tmp_path / "book.json"
    file.write_text(RULES + '[{"category": "abstract", "text": "t"}], "edits": [{"what": "drop", "id": "A7"}]}')
    assert [rule.id for rule in read_constitution(file).constitution.rules] == ["A8"]
