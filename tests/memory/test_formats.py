"""Memories outside of a unit: libraries and constitutions as files, Agent Skills folders, blocks in Markdown files."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.formats import (
    BEGIN,
    END,
    TITLE,
    ConstitutionFile,
    SkillLibraryFile,
    read_constitution,
    read_library,
)
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory_files import write_constitution_block
from tests.memory.memory_cases import FOUR, error, fact, skill_memory, taught

ABOUT = {
    "protocol": "adapt/3",
    "model": "a/b: c",
    "embedder": "words",
    "variants": ["boil::3", "melt::4"],
    "made_by": {"commit": "0123abc --- x"},
}


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
    for state in (window.states[0] for skill in memory.library for window in skill.windows):
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
            fact(f"A text with {BEGIN} and {END} and --\\> in it."),
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
    assert read_constitution(file) == BOOK
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


def test_a_constitution_stands_in_its_block_and_a_second_export_replaces_the_block(tmp_path):
    file = tmp_path / "AGENTS.md"
    file.write_text("# Ours\n\nKeep this.\n")
    write_constitution_block(BOOK, file)
    once = file.read_text()
    assert once == (
        f"# Ours\n\nKeep this.\n\n{BEGIN}\n{TITLE}\n"
        '<!-- provenance: {"n": "--\\u003e", "variants": ["boil::3"]} -->\n\n'
        "### How this world works:\n\n- Doors open; 'quotes', \"more\" & <b>.\n"
        "- A text with <\\!-- rsso-dspy constitution: begin --\\> and <\\!-- rsso-dspy constitution: end --\\> "
        "and --\\\\> in it.\n\n"
        "### Mistakes that were made, and what to do instead:\n\n- Mistake => arrow. Instead: no.\n"
        f"  Instead: open the door --\\> then wait\n{END}\n"
    )
    file.write_text(f"{once}\nAnd this.\n")
    write_constitution_block(replace(BOOK, constitution=BOOK.constitution.drop_categories(["error"])), file)
    text = file.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert (text.startswith("# Ours\n"), "Mistake" in text, text.endswith("\nAnd this.\n")) == (True, False, True)


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n{END}\n"])
def test_marks_that_do_not_match_are_refused(tmp_path, text):
    file = tmp_path / "AGENTS.md"
    file.write_text(text)
    with pytest.raises(UsageError, match="do not match"):
        write_constitution_block(ConstitutionFile(Constitution()), file)
    assert file.read_text() == text
