"""A memory that went through a file is the memory that went in; where skills came from and what became of them, on
trials small enough to count by hand."""

import json
import random

import pytest

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory.skills.library import (
    KIND,
    SkillLibraryFile,
    load_library,
    read_library,
)
from rsso_dspy.records import State
from tests.memory.memory_cases import Writer, hash_embed, plain, skill_memory, walk, words_embed

ROUND = "a b c+5 d e f g+5 h i j k+5 l m n o+5"
OTHER = "p q c+5 d r f g+5 s i j k+5 t"
PROVENANCE = {"protocol": "sso-adapt/2", "method": "sso", "embedder": "words", "variants": ["boil::22"], "trials": 3}


def taught(embed=words_embed, settings=None):
    memory = skill_memory(settings, Writer(), embed=embed)
    for trial, text in enumerate((ROUND, OTHER, ROUND), start=1):
        memory.learn(walk(text, trial))
    assert len(memory.library) >= 3
    return memory


@pytest.fixture
def exported(tmp_path):
    """A memory and its file."""
    memory = taught()
    file = tmp_path / "library.json"
    file.write_text(SkillLibraryFile(PROVENANCE, memory.snapshot()).to_json(), encoding="utf-8")
    return memory, file


def places(number: int) -> list[State]:
    """States unlike each other: one, two or three rooms of the trials, in any order, with something to hold."""
    dice = random.Random(7)
    rooms = [f"room {letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    return [
        State(" and ".join(dice.sample(rooms, dice.randint(1, 3))), "", f"holding thing {dice.randint(0, 9)}")
        for _ in range(number)
    ]


@pytest.mark.parametrize("settings", [SkillSettings(), SkillSettings.sso_release(), SkillSettings(retrieved=1)])
@pytest.mark.parametrize("embed", [words_embed, hash_embed])
def test_a_restored_library_retrieves_the_same_in_the_same_order(tmp_path, settings, embed):
    memory = taught(embed, settings) if settings.build_repeats else skill_memory(settings, embed=embed)
    if not settings.build_repeats:
        for trial, text in enumerate((ROUND, OTHER, ROUND.replace("o+5", "z+5")), start=1):
            memory.learn(walk(text, trial))
    (tmp_path / "file.json").write_text(SkillLibraryFile(PROVENANCE, memory.snapshot()).to_json(), encoding="utf-8")
    restored = load_library(tmp_path / "file.json", embed)
    states = places(200)
    firsts = {memory.rank_skills(state)[0][0].id for state in states}
    assert len(firsts) > 1, "the states must tell skills apart, or any order would do"
    for state in states:
        assert restored.rank_skills(state) == memory.rank_skills(state)
        assert restored.recall([state], []) == memory.recall([state], [])


def test_the_file_says_what_it_is_and_where_it_came_from(exported):
    memory, file = exported
    data = json.loads(file.read_text(encoding="utf-8"))
    assert list(data) == ["kind", "schema", "provenance", "memory"]
    assert (data["kind"], data["schema"], data["provenance"]) == (KIND, 1, PROVENANCE)
    assert read_library(file) == SkillLibraryFile(PROVENANCE, memory.snapshot())
    assert load_library(file, words_embed).snapshot() == memory.snapshot()


def test_a_library_loaded_with_a_writer_learns_on_as_the_original_would(exported):
    memory, file = exported
    writer = Writer()
    writer.asked = [()] * len(memory.snapshot()["skills"])
    restored = load_library(file, words_embed, verbalize=writer.verbalize, equivalent=writer.equivalent)
    more = walk("u v w c+5 d e x g+5", 4)
    assert restored.learn(more)["verbalize_calls"] == memory.learn(more)["verbalize_calls"]
    assert [skill.id for skill in restored.library] == [skill.id for skill in memory.library]


def test_a_library_loaded_for_reading_refuses_to_word_a_new_skill(exported):
    memory = load_library(exported[1], words_embed)
    before = memory.library
    memory.learn(walk("nothing gained here", 4))
    assert memory.library == before
    with pytest.raises(UsageError, match="read-only; pass `verbalize`"):
        memory.learn(walk("u v w c+5 d e x g+5", 5))


def test_other_settings_or_another_embedder_are_refused(exported):
    _, file = exported
    with pytest.raises(RunMismatch, match="max_window 6"):
        load_library(file, words_embed, SkillSettings(max_window=5))
    with pytest.raises(RunMismatch, match=r"learned with the embedder words, not hash.*embedder\.model=words"):
        load_library(file, hash_embed, embedder="hash")
    load_library(file, words_embed, SkillSettings(), embedder="words")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "rsso-dspy compiled program"}, "is not a skill library.*skills export"),
        ({"schema": 2}, "schema 2, but this program reads schema 1"),
        ({"memory": None}, "damaged"),
        ({"memory": {}}, "damaged.*settings"),
        ({"provenance": []}, "damaged"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(exported, change, said):
    _, file = exported
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError, match=said) as refused:
        load_library(file, words_embed)
    assert str(file) in str(refused.value)


def test_a_damaged_memory_is_refused_and_settings_of_another_version_are_named(exported):
    _, file = exported
    data = json.loads(file.read_text())
    data["memory"]["texts"] = data["memory"]["texts"][:3]
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="damaged skill memory"):
        load_library(file, words_embed)
    data["memory"]["settings"]["forgetting"] = 0.5
    file.write_text(json.dumps(data))
    with pytest.raises(RunMismatch, match=r"forgetting.*update rsso-dspy"):
        load_library(file, words_embed)
    file.write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        load_library(file, words_embed)
    with pytest.raises(UsageError, match="No such file"):
        load_library(file.with_name("none.json"), words_embed)


def test_an_empty_library_goes_through_a_file_too(tmp_path):
    (tmp_path / "file.json").write_text(SkillLibraryFile({}, skill_memory().snapshot()).to_json())
    assert load_library(tmp_path / "file.json", words_embed, embedder="any").rank_skills(plain("room a")) == []
