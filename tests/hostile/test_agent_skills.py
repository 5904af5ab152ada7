"""A SKILL.md of another's making: limits are kept, nothing is run, nothing outside is read."""

from pathlib import Path

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.portable_formats import import_constitution, import_skill_folder
from rsso_dspy.memory.skills.agent_skill import read_agent_skill

GOOD = "---\nname: web\ndescription: How to shop.\n---\n- Look first.\n"


def skill_of(tmp_path: Path, text: str, name: str = "web") -> Path:
    file = tmp_path / name / "SKILL.md"
    file.parent.mkdir()
    file.write_text(text)
    return file


def test_a_foreign_skill_is_read_by_its_list_items_and_scripts_are_left_alone(tmp_path):
    more = "license: MIT\nallowed-tools: Bash(*)\ntags:\n  - a\n  - b\nmetadata:\n  author: \"x: y\"\n  v: 'it''s'\n"
    file = skill_of(tmp_path, GOOD.replace("---\n-", f"{more}---\n-", 1))
    scripts = file.parent / "scripts"
    scripts.mkdir()
    (scripts / "run.sh").write_text(f"touch {tmp_path / 'ran'}")
    (rule,) = import_constitution(file).constitution.rules
    assert rule.lesson.text == "Look first."
    assert read_agent_skill(file).metadata == {"author": "x: y", "v": "it's"}
    with pytest.raises(UsageError, match="not an exported library"):
        import_skill_folder(file.parent, tmp_path / "out.json")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("name: web\ndescription: !!python/object/apply:os.system ['touch ran']", "tags of YAML are refused"),
        ("name: &a web\ndescription: *a", "refused"),
        ("name: web\ndescription: x\nmetadata:\n  <<: *base", "no `key: value`"),
        ("name: web\nname: web\ndescription: x", "stands there twice"),
        ("name: web\ndescription: " + "x" * 1025, "longer than 1,024"),
        ("name: web\ndescription: x\nother: " + "y" * 20_000, "front matter is longer"),
        ("name: web", "needs the texts"),
        ("name: web\ndescription:\n  a: b", "needs the texts"),
        ("name: ../../etc\ndescription: x", "cannot name"),
        ("name: other\ndescription: x", "its folder is web"),
        ('name: web\ndescription: "x', "quotes"),
        ("name: web\ndescription: x\n{}: {}", "no `key: value`"),
    ],
)
def test_hostile_front_matter_is_refused_and_says_where(tmp_path, monkeypatch, front, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        read_agent_skill(skill_of(tmp_path, f"---\n{front}\n---\nbody\n"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with ---"),
        ("---\nname: web\n", "no closing"),
        (GOOD + "line\n" * 501, "longer than 500 lines"),
        (GOOD + "x" * 1_000_001, "larger than"),
        ("---\nname: web\ndescription: x\n---\nprose\n", "no block of rsso-dspy and no list"),
    ],
)
def test_a_body_out_of_bounds_is_refused(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        import_constitution(skill_of(tmp_path, text))


def test_alias_bombs_and_binary_files_end_at_once(tmp_path):
    bomb = "\n".join(f"k{n}: [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 200))
    file = skill_of(tmp_path, f"---\nname: web\ndescription: x\n{bomb[:15_000]}\n---\n- a\n")
    assert read_agent_skill(file).body == "- a", "aliases inside of lists are text"
    file.write_bytes(b"---\nname: \xff\xfe\n---\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_agent_skill(file)
