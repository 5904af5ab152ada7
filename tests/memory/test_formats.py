"""Memories outside of a unit: libraries and constitutions as files."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.formats import ConstitutionFile, SkillLibraryFile, read_constitution, read_library
from rsso_dspy.memory.skill_windows import SkillSettings
from tests.memory.memory_cases import FOUR, error, fact, skill_memory, taught

ABOUT = {"model": "a/b: c", "embedder": "words", "variants": ["boil::3", "melt::4"], "made_by": {"commit": "0123 -- x"}}


@pytest.fixture
def library() -> SkillLibraryFile:
    return SkillLibraryFile(ABOUT, json.loads(json.dumps(taught(FOUR).snapshot())))


@pytest.fixture
def file(tmp_path, library):
    path = tmp_path / "memory.json"
    path.write_text(library.to_json(), encoding="utf-8")
    return path


def test_a_library_that_went_through_a_file_is_the_library_that_went_in(file, library):
    assert read_library(file) == library
    again, memory = skill_memory(), taught(FOUR)
    again.restore(read_library(file).snapshot)
    for state in memory.held.list_first_states():
        assert again.rank_skills(state) == memory.rank_skills(state)
        assert again.recall([state], []) == memory.recall([state], [])
    SkillLibraryFile({}, skill_memory().snapshot()).check("it", SkillSettings(), "any")


def test_other_settings_another_embedder_or_a_damaged_memory_are_refused(library):
    library.check("it", SkillSettings(past_reward=True), "words")
    with pytest.raises(RunMismatch, match="max_window 6"):
        library.check("it", SkillSettings(max_window=5), "words")
    with pytest.raises(RunMismatch, match=r"learned with the embedder words, not hash.*embedder\.model=words"):
        library.check("it", SkillSettings(), "hash")
    for damage in ({"texts": []}, {"settings": {**library.snapshot["settings"], "forgetting": 0.5}}, {"pieces": 5}):
        with pytest.raises(UsageError, match="damaged skill memory"):
            SkillLibraryFile({}, library.snapshot | damage).check("it", SkillSettings(), "words")
    with pytest.raises(UsageError, match="min_window <= max_window"):
        SkillSettings(min_window=7)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "rsso-dspy compiled program"}, "is not a skill library.*skills export"),
        ({"schema": 2}, "schema 2, but this program reads schema 1"),
        ({"memory": None}, "damaged"),
        ({"memory": {}}, "damaged.*settings"),
        ({"provenance": []}, "damaged"),
        ("{", "damaged"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_library_is_refused_by_name(file, change, said):
    if change is None:
        file.unlink()
    else:
        file.write_text(change if change == "{" else json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError, match=said) as refused:
        read_library(file).check(str(file), SkillSettings(), "words")
    assert str(file) in str(refused.value)


# Constitutions.

RULES = '{"kind": "rsso-dspy constitution", "schema": 1, "rules": '
DOUBLE = '{"id": "A1", "category": "abstract", "text": "t"}'
BOOK = ConstitutionFile(
    Constitution().with_lessons(
        [
            fact("Doors open; 'quotes', \"more\" & <b>."),
            fact("A text with <!-- marks --> in it."),
            error("Mistake => arrow. Instead: no.", "open the door --> then wait"),
        ],
        "boil",
        "boil::3",
    ),
    {"variants": ["boil::3"], "n": "-->"},
    ("an example",),
)


def test_a_constitution_round_trips_and_a_person_need_write_category_and_text_only(file):
    file.write_text(BOOK.to_json(), encoding="utf-8")
    assert read_constitution(file) == replace(BOOK, provenance={**BOOK.provenance, "digest": BOOK.digest})
    assert not read_constitution(file).is_edited
    assert read_constitution(file).variants == ("boil::3",)
    numbered = '"numbered": 7, "edits": ["of a version that kept a log"]'
    rows = '[{"category": "abstract", "text": "t"}, {"category": "error", "text": "x", "solution": "y"}]'
    file.write_text(f"{RULES}{rows}, {numbered}}}")
    rules = read_constitution(file).constitution.rules
    assert [(rule.id, rule.source) for rule in rules] == [("A8", "written by hand"), ("E9", "written by hand")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is damaged"),
        ("[]", "is not a constitution"),
        ('{"kind": "rsso-dspy constitution", "schema": 2, "rules": []}', "schema 2"),
        (RULES + "{}}", "rules: Input should be a valid list"),
        (RULES + '["x"]}', "rules 1: Input should be"),
        (RULES + '[{"category": "x", "text": "t"}]}', "rules 1 category: Input should be 'abstract' or 'error'"),
        (RULES + '[{"category": "abstract"}]}', "rules 1 text: Field required"),
        (RULES + '[{"category": "abstract", "text": " "}]}', "needs a text"),
        (RULES + f'[{{"category": "abstract", "text": "{"long " * 101}"}}]}}', "505 characters, and a rule has 500"),
        (RULES + '[{"id": "E1", "category": "abstract", "text": "t"}]}', "the id of a rule is A and a number"),
        (RULES + f"[{DOUBLE}, {DOUBLE}]}}", "two rules the same id"),
        (RULES + '[{"category": "error", "text": "x", "solution": ""}]}', "an error rule a solution"),
        (RULES + '[{"category": "error", "text": "x", "solution": "y", "task": ["a"]}]}', "rules 1 task"),
        (RULES + '[], "provenance": {"variants": 5}}', "provenance variants"),
    ],
)
def test_a_file_that_is_no_constitution_is_refused_with_the_place_of_the_fault(file, content, said):
    file.write_text(content)
    with pytest.raises(UsageError, match=r"memory\.json") as refused:
        read_constitution(file)
    assert said in str(refused.value)
