"""Skills as Agent Skills folders, constitutions as marked blocks in Markdown files."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.constitution.file import BEGIN, END, TITLE, ConstitutionFile
from rsso_dspy.memory.skills.library import LIBRARY_FILE, SKILL_FILE, SkillLibraryFile, render_skill_folder
from rsso_dspy.memory_files import write_constitution_block
from rsso_dspy.records import Lesson
from tests.memory.memory_cases import FOUR, taught

ABOUT = {
    "protocol": "adapt/3",
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


def test_a_folder_holds_the_whole_library_and_is_a_valid_agent_skill(tmp_path, library):
    folder = tmp_path / "boil-and-melt"
    for path, text in render_skill_folder(library, folder.name, 62.5).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    assert (folder / LIBRARY_FILE).read_text() == library.to_json()
    front, _, body = (folder / SKILL_FILE).read_text().partition("# Skills")
    assert front.startswith("---\nname: boil-and-melt\ndescription: ")
    assert front.endswith(
        '\nmetadata:\n  protocol: "adapt/3"\n  score: "62.5"\n  commit: "0123abc -- x"\n'
        '  learned-on: "boil::3 melt::4"\n  model: "a/b: c"\n---\n\n'
    )
    assert body.count("\n## ") == len(library.snapshot["library"]) == 4
    validator = pytest.importorskip("skills_ref.validator", reason="skills-ref is not installed")
    assert validator.validate(folder) == []


@pytest.mark.parametrize("name", ["Boil", "a--b", "-a", "a_b", "x" * 65, "", "../up"])
def test_a_name_that_the_format_does_not_take_is_refused(name, library):
    with pytest.raises(UsageError, match="cannot name an Agent Skill"):
        render_skill_folder(library, name)


def test_a_constitution_stands_in_its_block_and_a_second_export_replaces_the_block(tmp_path):
    book = ConstitutionFile(
        Constitution().with_lessons(LESSONS, "boil", "boil::3"), {"variants": ["boil::3"], "n": "-->"}
    )
    file = tmp_path / "AGENTS.md"
    file.write_text("# Ours\n\nKeep this.\n")
    write_constitution_block(book, file)
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
    fewer = replace(book, constitution=book.constitution.drop_categories(["error"]))
    write_constitution_block(fewer, file)
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
