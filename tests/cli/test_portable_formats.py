"""The verbs that carry memories to other agents and back, and the example tables, as they are typed."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.constitution.file import ConstitutionFile, read_constitution
from rsso_dspy.memory.skills.library import read_library
from rsso_dspy.records import Lesson
from rsso_dspy.store.unit_store import Store
from tests.memory.taught import FOUR, taught
from tests.records import record

UNIT = "boil::22"
SKILLS = json.loads(json.dumps(taught(FOUR).snapshot()))
LESSONS = [Lesson("abstract", "Doors open."), Lesson("error", "A mistake.", "wait")]
BOOK = ConstitutionFile(Constitution().with_lessons(LESSONS, "boil", "boil::3"))


@pytest.fixture
def folder(tmp_path):
    """A run with a unit that kept four skills, a constitution of two rules, and an AGENTS.md with a text of its own."""
    store = Store(tmp_path / "run")
    store.open({}, {"sso": ""})
    store.save(replace(record("sso", "boil", 22, [[1, 2]]), memories={"skills": SKILLS}))
    (tmp_path / "book.json").write_text(BOOK.to_json())
    (tmp_path / "AGENTS.md").write_text("# Mine\n")
    return tmp_path


@pytest.mark.parametrize(
    ("export", "back", "said", "restored"),
    [
        (
            ("skills", "export", "run", UNIT, "--format", "skill", "-o", "boil"),
            ("skills", "import", "boil", "-o", "again.json"),
            "4 skills",
            lambda at: read_library(at / "again.json").snapshot == SKILLS and (at / "boil/SKILL.md").exists(),
        ),
        (
            ("constitution", "export", "book.json", "--format", "agents-md", "-o", "AGENTS.md"),
            ("constitution", "import", "AGENTS.md", "-o", "again.json"),
            "2 rules",
            lambda at: (
                [rule.lesson for rule in read_constitution(at / "again.json").constitution.rules] == LESSONS
                and (at / "AGENTS.md").read_text().startswith("# Mine\n")
            ),
        ),
    ],
    ids=["skills", "constitution"],
)
def test_memories_travel_to_other_agents_and_back(rsso, folder, export, back, said, restored):
    code, out, err = rsso(*export)
    assert (code, said in out + err) == (0, True), err
    code, _, err = rsso(*back)
    assert code == 0, err
    assert restored(folder)
    wrong = [{"skill": "word", "agents-md": "word"}.get(word, word) for word in export]
    code, _, err = rsso(*wrong)
    assert (code, "word" in err) == (2, True)


def test_example_tables_are_printed_by_name_as_text_and_as_json(rsso):
    code, out, _ = rsso("paper", "reflexion")
    assert (code, "Accuracy, trial by trial" in out, "never" in out) == (0, True, True)
    assert json.loads(rsso("paper", "reflexion", "--json")[1])
    code, _, err = rsso("paper", "nobody")
    assert (code, "reflexion" in err) == (2, True)
