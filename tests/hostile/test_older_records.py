"""What older versions wrote in words is data once it is read; what is written now is read by both."""

import json
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from rsso_dspy.lm.error_policy import lookup_recorded_policy
from rsso_dspy.records import Failure, Source, UnitRecord
from rsso_dspy.store.memory_sources import describe, sources_of
from rsso_dspy.store.older_records import read_failure, read_sources, upgrade
from rsso_dspy.store.unit_store import Store
from tests.records import record

A, B = "0123456789ab", "ba9876543210"
SKILLS, BOOK = Source("skills", "file", "boil.json", A), Source("constitution", "file", "book.json", B)
STREAM = Source("constitution", "stream", "3/36 of 1f0c9a", place=3)


def trained(task: str, *memories: str) -> tuple[Source, ...]:
    return tuple(Source(memory, "training", task) for memory in memories)


WORDS: dict[str, tuple[str, str, tuple[Source, ...]]] = {
    "nothing": ("", "rsso", ()),
    "a library": (f"boil.json ({A})", "rsso", (SKILLS,)),
    "a constitution": (f"book.json ({B})", "react+constitution", (BOOK,)),
    "both": (f"boil.json ({A}) and book.json ({B})", "sso+constitution", (SKILLS, BOOK)),
    "a name that reads like words": (
        f"rock and roll (2) after {B}.json ({A}) and book.json ({B})",
        "sso+constitution",
        (replace(SKILLS, name=f"rock and roll (2) after {B}.json"), BOOK),
    ),
    "a training": ("training on boil", "rsso", trained("boil", "reflections", "skills")),
    "a training after a library": (
        f"training on boil after boil.json ({A})",
        "sso",
        (SKILLS, *trained("boil", "skills")),
    ),
    "a stream": ("stream 3/36 of 1f0c9a", "omnireflect-neural", (STREAM,)),
    "a stream after a constitution": (f"stream 3/36 of 1f0c9a after boil.json ({A})", "sso+neural", (SKILLS, STREAM)),
    "a stream after a training after a library": (
        f"stream 3/36 of 1f0c9a after training on boil after boil.json ({A})",
        "sso+neural",
        (SKILLS, *trained("boil", "constitution", "skills"), STREAM),
    ),
    "an unknown method": ("training on boil", "mine", trained("boil", "constitution", "reflections", "skills")),
}


@pytest.mark.parametrize(("start", "method", "sources"), WORDS.values(), ids=WORDS)
def test_where_memories_came_from_is_read_from_words_that_say_the_same_again(start, method, sources):
    assert tuple(read_sources(start, method)) == sources
    assert describe(sources) == start


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ("LMServerError: 500: SimulatorDied: x", Failure("LMServerError", "500: SimulatorDied: x")),
        ("LMServerError: two\nlines", Failure("LMServerError", "two\nlines")),
        ("TimeoutError: ", Failure("TimeoutError", "")),
        ("a sentence: without a name", Failure("", "a sentence: without a name")),
        ("", Failure("", "")),
    ],
)
def test_why_a_trial_failed_is_read_from_the_words_of_older_versions(tmp_path, error, failure):
    assert read_failure(error) == failure
    store = Store(tmp_path)
    path = store.save(record("react", "boil", 22, [[10], None]))
    data = json.loads(path.read_text())
    del data["trials"][1]["failure"]
    data["trials"][1]["error"] = error
    path.write_text(json.dumps(data))
    read = store.load(path)
    assert read.trials[1].error == error
    assert read.trials[1].failure == failure
    assert read.trials[0].failure is None


def test_a_failure_is_written_for_older_versions_too_and_a_success_says_nothing_of_it(tmp_path):
    store = Store(tmp_path)
    path = store.save(record("react", "boil", 22, [[10], None]))
    good, bad = json.loads(path.read_text())["trials"]
    assert bad["error"] == "LMServerError: 500"
    assert bad["failure"] == {"kind": "LMServerError", "message": "500"}
    assert (good["error"], "failure" in good) == (None, False)
    assert "sources" not in json.loads(path.read_text())
    assert store.load(path) == record("react", "boil", 22, [[10], None])


def test_the_kind_decides_whatever_the_message_says():
    assert lookup_recorded_policy(Failure("LMServerError", "LMAuthError: no")) == "retry"
    assert lookup_recorded_policy(Failure("LMAuthError", "LMServerError: no")) == "stop"
    assert lookup_recorded_policy(Failure("SimulatorDied", "LMAuthError: no")) is None
    assert lookup_recorded_policy(None) is None
    made = record("react", "boil", 22, [None])
    made = replace(made, trials=(replace(made.trials[0], failure=Failure("Odd", "the prompt: hello"), error=None),))
    assert made.trials[0].error == "Odd: the prompt: hello"


def held(tmp_path: Path, rsso, *records: UnitRecord) -> list[list[float]]:
    """Reflections and skills at the start of each unit's first trial, as exported."""
    store = Store(tmp_path / "run")
    store.open({}, {each.arm: "1" for each in records})
    for each in records:
        store.save(each)
    code, _, err = rsso("export", tmp_path / "run", "-o", tmp_path / "t.parquet")
    assert code == 0, err
    rows = pandas.read_parquet(tmp_path / "t.parquet")
    rows = rows[rows.trial == 1].sort_values("index")
    return rows[["reflections_held", "library_size"]].fillna(-1).to_numpy().tolist()


def test_exports_count_what_a_unit_started_with_where_its_record_says_so(tmp_path, rsso):
    library = {"skills": {"library": [1, 2, 3]}}
    plans = {"reflections": {"plans": [1]}}
    kept = {"skills": {"library": []}, "reflections": {"plans": []}}
    arms = ("nothing", "file", "training", "older")
    made = [replace(record("rsso", "boil", n, [[10]]), arm=arm, memories=kept) for n, arm in enumerate(arms)]
    file = sources_of(library, "file", "boil.json", A)
    after = sources_of({"skills": {"library": [1] * 5}, **plans}, "training", "boil")
    assert held(
        tmp_path,
        rsso,
        made[0],
        replace(made[1], start=describe(file), sources=file),
        replace(made[2], start=describe((*file, *after)), sources=(*file, *after), memories={}),
        replace(made[3], start=f"boil.json ({A})"),  # an older version said no more
    ) == [[0, 0], [0, 3], [1, 5], [0, -1]]


def test_what_is_upgraded_stays_so():
    made = upgrade(replace(record("rsso", "boil", 1, [[10]]), start=f"boil.json ({A})"))
    assert made.sources == (SKILLS,)
    assert upgrade(made) is made
