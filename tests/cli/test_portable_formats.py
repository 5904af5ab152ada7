"""The verbs that write memories for other agents, and the example tables, as they are typed."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.constitution.file import BEGIN, ConstitutionFile
from rsso_dspy.records import Lesson
from rsso_dspy.store.run_folder import Store
from tests.memory.memory_cases import FOUR, taught
from tests.records import record, save

UNIT = "boil::22"
SKILLS = json.loads(json.dumps(taught(FOUR).snapshot()))
LESSONS = [Lesson("abstract", "Doors open."), Lesson("error", "A mistake.", "wait")]
BOOK = ConstitutionFile(Constitution().with_lessons(LESSONS, "boil", "boil::3"))


@pytest.fixture
def folder(tmp_path):
    """A run with a unit that kept four skills, a constitution of two rules, and an AGENTS.md with a text of its own."""
    store = Store(tmp_path / "run")
    store.open({}, {"sso": ""})
    save(store, replace(record("sso", "boil", 22, [[1, 2]]), memories={"skills": SKILLS}))
    (tmp_path / "book.json").write_text(BOOK.to_json())
    (tmp_path / "AGENTS.md").write_text("# Mine\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said", "file", "begins"),
    [
        (
            ("skills", "export", "run", UNIT, "--format", "skill", "-o", "boil"),
            "4 skills",
            "boil/SKILL.md",
            "---\nname: boil\n",
        ),
        (
            ("constitution", "export", "book.json", "-o", "AGENTS.md"),
            "2 rules",
            "AGENTS.md",
            f"# Mine\n\n{BEGIN}\n",
        ),
    ],
    ids=["skills", "constitution"],
)
def test_memories_are_written_for_other_agents(rsso, folder, words, said, file, begins):
    code, out, err = rsso(*words)
    assert (code, said in out + err) == (0, True), err
    assert (folder / file).read_text().startswith(begins)
    if "--format" in words:
        code, _, err = rsso(*("word" if word == "skill" else word for word in words))
        assert (code, "word" in err) == (2, True)


def test_example_tables_are_printed_by_name_as_text_and_as_json(rsso):
    code, out, _ = rsso("paper", "reflexion")
    assert (code, "Accuracy, trial by trial" in out, "never" in out) == (0, True, True)
    assert json.loads(rsso("paper", "reflexion", "--json")[1])
    code, _, err = rsso("paper", "nobody")
    assert (code, "reflexion" in err) == (2, True)
