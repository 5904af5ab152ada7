import re

import pytest

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.records import SCHEMA_VERSION
from rsso_dspy.store.run_folder import Store
from tests.records import record, save

IDENTITY = {"protocol": "sso-adapt/3", "config": {"seed": 0, "backends": {"embedded": {"temperature": 0.5}}}}


def test_a_unit_comes_back_as_it_was_and_other_files_are_left_alone(tmp_path):
    store, unit = Store(tmp_path), record("rsso", "boil", 22, [[10, 40], None], at_reset=3)
    store.open(IDENTITY)
    path = save(store, unit)
    (path.parent / "notes.jsonl").write_text("mine")
    assert list(store.units()) == [unit]
    assert sorted(each.name for each in path.parent.iterdir()) == ["22-s0.jsonl", "notes.jsonl"]


def test_another_identity_or_program_is_refused_with_the_difference(tmp_path):
    Store(tmp_path).open(IDENTITY, {"rsso": "1", "rsso+mine": "2"})
    other = {"protocol": "release", "config": {"seed": 0, "backends": {"embedded": {"temperature": 0.9}}}}
    with pytest.raises(RunMismatch) as refused:
        Store(tmp_path).open(other)
    assert "protocol: there 'sso-adapt/3', now 'release'" in str(refused.value)
    assert "config.backends.embedded.temperature: there 0.5, now 0.9" in str(refused.value)
    assert "seed" not in str(refused.value)
    with pytest.raises(RunMismatch, match=r"rsso\+mine that another program played"):
        Store(tmp_path).check_identity(IDENTITY, {"rsso": "1", "rsso+mine": "3"})
    assert Store(tmp_path).check_identity(IDENTITY) == {"rsso": "1", "rsso+mine": "2"}


def test_a_folder_that_holds_no_run_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="rsso-dspy run --out"):
        Store(tmp_path).read_identity()
    (tmp_path / "a").mkdir()
    (tmp_path / "a/run.json").write_text("do not overwrite")
    with pytest.raises(UsageError, match=r"holds several runs; name one of them: .*/a$"):
        Store(tmp_path).read_identity()
    with pytest.raises(UsageError, match="not empty"):
        Store(tmp_path).open(IDENTITY)
    with pytest.raises(UsageError, match="is a file"):
        Store(tmp_path / "a/run.json").check_identity(IDENTITY)


def spoil(old: str, new: str, times: int = -1):
    return lambda text: text.replace(old, new, times)


FAULTS = {
    "a broken line": (spoil('{"trial"', '{"tri', 1), "line 2 is no JSON object"),
    "a list": (spoil("\n", "\n[]\n", 1), "line 2 is no JSON object"),
    "a newer version": (spoil(f'"schema": {SCHEMA_VERSION}', '"schema": 99'), "is the head of no unit"),
    "a text for a number": (spoil('"reward":10', '"reward":"many"'), "is no record of one"),
    "a text that looks like a number": (spoil('"reward":10', '"reward":"10"'), "is no record of one"),
    "a list for a memory": (spoil('"memories": {}', '"memories": {"skills": []}'), "memories.skills"),
    "a trial of another number": (spoil('{"trial": 1', '{"trial": 2'), "line 2 is trial 2, where trial 1 follows"),
    "another protocol": (spoil("sso-adapt/3", "release"), "its protocol is release"),
    "another unit": (
        lambda text: re.sub('"index":( ?)22', r'"index":\g<1>23', text),
        "another unit than its name says",
    ),
    "a trial of another variant": (spoil('"index":22', '"index":23'), "a trial of boil::23, and is of boil::22"),
    "another arm": (spoil('"arm": "rsso"', '"arm": "sso"'), "another unit|has no arm"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_log_of_this_unit_is_set_aside_and_counts_as_missing(tmp_path, fault):
    change, why = FAULTS[fault]
    store = Store(tmp_path)
    store.open(IDENTITY, {"rsso": "1"})
    path = save(store, record("rsso", "boil", 22, [[10]]))
    text = change(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    looking = Store(tmp_path, read_only=True)
    assert list(looking.units()) == []
    assert path.read_text() == text, "a look changes nothing"
    assert list(store.units()) == []
    assert store.set_aside == looking.set_aside
    ((aside, said),) = store.set_aside.items()
    assert aside == path.with_name("22-s0.jsonl.damaged")
    assert re.search(why, said)
    assert aside.read_text() == text
    save(store, record("rsso", "boil", 22, [[20]]))
    assert [unit.trajectories[0].accumulator for unit in store.units()] == [20]


def test_half_a_line_at_the_end_is_dropped(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    unit = record("rsso", "boil", 22, [[10], [20]])
    path = save(store, unit, begun=True)
    whole = path.read_bytes()
    for cut in range(1, len(whole) - whole[:-1].rfind(b"\n") - 1):
        path.write_bytes(whole[:-cut])
        assert [len(begun.trials) for begun in store.load_begun()] == [1]
    log = store.open_log(unit)
    assert len(log.results) == 1
    log.add_trial(unit.trials[1], unit.memories, 1.0)
    assert [begun.trials for begun in store.load_begun()] == [unit.trials]
    assert not store.set_aside


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", r"run\.json is damaged \(.*Expecting"),
        ("{}", r"run\.json is damaged \(schema: Field required"),
        ("[]", r"run\.json is damaged \(: Input should be a valid dictionary"),
        ('{"schema": 1, "identity": {}, "arms": {"sso": 3}}', r"damaged \(arms.sso: Input should be"),
        ('{"schema": 1, "identity": {}, "arms": {}, "planned": 3}', r"damaged \(planned: Input should be"),
        ('{"schema": 99, "identity": {}, "arms": {}}', "update rsso-dspy"),
    ],
)
def test_a_run_file_that_is_damaged_or_newer_is_named_and_left_alone(tmp_path, text, why):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError, match=why):
        Store(tmp_path).open(IDENTITY)
    assert (tmp_path / "run.json").read_text() == text


def test_a_second_process_is_kept_out_and_what_a_killed_one_was_writing_is_removed(tmp_path):
    store = Store(tmp_path)
    (tmp_path / ".run.json.12-34").write_text('{"sche')
    assert store.check_identity(IDENTITY) == {}
    with store.lock():
        store.open(IDENTITY)
        with pytest.raises(UsageError, match="another process"), Store(tmp_path).lock():
            pass
    unit = save(store, record("rsso", "boil", 22, [[10]]))
    for name in (".22-s0.jsonl.12-34", ".notes"):
        unit.with_name(name).write_text('{"sche')
    with store.lock():
        assert sorted(file.name for file in unit.parent.iterdir()) == [".notes", unit.name]
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "run.json", "units"]


def test_arms_keep_the_order_they_were_asked_for_also_when_more_are_added(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY, {"sso": "1", "rsso": "2"})
    store.open(IDENTITY, {"react": "3", "rsso": "2"})
    for arm in ("react", "rsso", "sso"):
        for index in (100, 9):
            save(store, record(arm, "boil", index, [[10]]))
    assert [(unit.arm, unit.variant.index) for unit in store.units()] == [
        (arm, index) for arm in ("sso", "rsso", "react") for index in (9, 100)
    ]
