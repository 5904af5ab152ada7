"""Skills as Agent Skills folders, constitutions as marked blocks: round trips are exact."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.portable_formats import import_constitution, import_skill_folder, write_constitution_block
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.constitution.agents_md import BEGIN, END, parse_block, render_block
from rsso_dspy.memory.constitution.file import ConstitutionFile
from rsso_dspy.memory.skills.agent_skill import LIBRARY_FILE, SKILL_FILE, read_skill_folder, render_skill_folder
from rsso_dspy.memory.skills.library import SkillLibraryFile
from rsso_dspy.records import Lesson
from tests.memory.taught import FOUR, taught

ABOUT = {
    "protocol": "adapt/2",
    "model": "a/b: c",
    "variants": ["boil::3", "melt::4"],
    "made_by": {"commit": "0123abc --- x"},
}
LESSONS = [
    Lesson("abstract", "Doors open; 'quotes', \"more\" & <b>."),
    Lesson("abstract", f"A text with {BEGIN} and {END} and --\\> in it."),
    Lesson("error", "Mistake => arrow. Instead: no.", "open the door --> then wait"),
]


@pytest.fixture
def library() -> SkillLibraryFile:
    return SkillLibraryFile(ABOUT, json.loads(json.dumps(taught(FOUR).snapshot())))


def write_folder(folder: Path, library: SkillLibraryFile) -> Path:
    for path, text in render_skill_folder(library, folder.name, 62.5).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_library_comes_back_byte_for_byte_and_its_folder_is_valid(tmp_path, library):
    folder = write_folder(tmp_path / "boil-and-melt", library)
    skill, back = read_skill_folder(folder)
    assert back.to_json() == library.to_json()
    assert skill.metadata == {
        "protocol": "adapt/2", "score": "62.5", "commit": "0123abc -- x", "learned-on": "boil::3 melt::4",
        "model": "a/b: c",
    }  # fmt: skip
    assert skill.body.count("\n## ") == len(library.snapshot["library"]) == 4
    assert import_skill_folder(folder, tmp_path / "out.json") == "boil-and-melt"
    assert (tmp_path / "out.json").read_text() == library.to_json()
    validator = pytest.importorskip("skills_ref.validator", reason="skills-ref is not installed")
    assert validator.validate(folder) == []


def test_a_folder_whose_two_files_differ_or_that_holds_no_library_is_refused(tmp_path, library):
    folder = write_folder(tmp_path / "boil", library)
    text = (folder / SKILL_FILE).read_text()
    (folder / SKILL_FILE).write_text(text.replace("Target: ", "Target: not ", 1))
    with pytest.raises(UsageError, match="differ; export the library again"):
        read_skill_folder(folder)
    (folder / SKILL_FILE).write_text(text)
    (folder / LIBRARY_FILE).unlink()
    with pytest.raises(UsageError, match="constitution import"):
        read_skill_folder(folder)


@pytest.mark.parametrize("name", ["Boil", "a--b", "-a", "a_b", "x" * 65, "", "../up"])
def test_a_name_that_the_format_does_not_take_is_refused(name, library):
    with pytest.raises(UsageError, match="cannot name an Agent Skill"):
        render_skill_folder(library, name)


def test_a_constitution_comes_back_exactly_and_a_second_export_replaces_the_block(tmp_path):
    book = ConstitutionFile(
        Constitution().with_lessons(LESSONS, "boil", "boil::3"), {"variants": ["boil::3"], "n": "-->"}
    )
    file = tmp_path / "AGENTS.md"
    file.write_text("# Ours\n\nKeep this.\n")
    write_constitution_block(book, file)
    back = import_constitution(file)
    assert [rule.lesson for rule in back.constitution.rules] == LESSONS
    assert back.provenance == book.provenance
    assert render_block(back) == render_block(book)
    once = file.read_text()
    assert once.startswith("# Ours\n\nKeep this.\n\n<!--")
    file.write_text(f"{once}\nAnd this.\n")
    fewer = replace(book, constitution=book.constitution.drop_categories(["error"]))
    write_constitution_block(fewer, file)
    text = file.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.endswith("\nAnd this.\n")
    assert [rule.lesson for rule in import_constitution(file).constitution.rules] == LESSONS[:2]


def test_a_text_without_a_block_is_read_by_its_list_items(tmp_path):
    file = tmp_path / "AGENTS.md"
    file.write_text("# How we work\n- Run the tests.\n2. Keep it small.\n```\n- not this\n```\nprose\n")
    rules = import_constitution(file).constitution.rules
    assert [rule.lesson for rule in rules] == [
        Lesson("abstract", "Run the tests."),
        Lesson("abstract", "Keep it small."),
    ]


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n{END}\n"])
def test_marks_that_do_not_match_are_refused(tmp_path, text):
    file = tmp_path / "AGENTS.md"
    file.write_text(text)
    with pytest.raises(UsageError, match="do not match"):
        write_constitution_block(ConstitutionFile(Constitution()), file)
    with pytest.raises(UsageError, match="do not match"):
        parse_block(text, "it")
    assert file.read_text() == text
