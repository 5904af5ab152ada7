import json
import os

import pytest

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import SCHEMA_VERSION, Usage, Variant
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.units import Arm, Unit
from tests.records import record, save

IDENTITY = {"protocol": "sso-adapt/1", "config": {"seed": 0, "backends": {"embedded": {"temperature": 0.5}}}}


def test_a_unit_comes_back_as_it_was(tmp_path):
    store = Store(tmp_path / "run")
    store.open(IDENTITY)
    unit = record("rsso", "boil", 22, [[10, 40], None], at_reset=3)
    save(store, unit)
    assert list(store.units()) == [unit]
    assert [path.name for path in (tmp_path / "run/units/rsso/boil").iterdir()] == ["22-s0.json"]


def test_the_same_identity_continues_and_another_is_refused_with_the_difference(tmp_path):
    Store(tmp_path).open(IDENTITY)
    Store(tmp_path).open(IDENTITY)
    other = {"protocol": "release", "config": {"seed": 0, "backends": {"embedded": {"temperature": 0.9}}}}
    with pytest.raises(RunMismatch) as refused:
        Store(tmp_path).open(other)
    assert "protocol: there 'sso-adapt/1', now 'release'" in str(refused.value)
    assert "config.backends.embedded.temperature: there 0.5, now 0.9" in str(refused.value)
    assert "seed" not in str(refused.value)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not overwrite")
    with pytest.raises(UsageError, match="not empty"):
        Store(tmp_path).open(IDENTITY)


def test_a_folder_without_a_run_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError, match="rsso-dspy run --out"):
        list(Store(tmp_path).units())


def test_a_damaged_unit_is_set_aside_and_counts_as_missing(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    path = save(store, record("rsso", "boil", 22, [[10]]))
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert list(store.units()) == []
    assert store.set_aside == [path.with_suffix(".json.damaged")]
    assert store.set_aside[0].read_text() == whole[: len(whole) // 2]


def test_a_copy_under_the_name_of_another_unit_counts_as_neither(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    path = save(store, record("rsso", "boil", 22, [[10]]))
    copy = path.with_name("23-s0.json")
    copy.write_bytes(path.read_bytes())
    other = store.path_of(record("sso", "boil", 22, [[10]]))
    other.parent.mkdir(parents=True)
    other.write_bytes(path.read_bytes())
    assert [unit.key for unit in store.units()] == ["boil::22"]
    assert set(store.set_aside) == {each.with_name(f"{each.name}.misplaced") for each in (copy, other)}
    save(store, record("rsso", "boil", 24, [[10]]), begun=True)
    assert [begun.key for begun in store.load_begun()] == ["boil::24"]


def test_a_unit_of_a_newer_version_is_set_aside_and_never_overwritten(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    path = save(store, record("rsso", "boil", 22, [[10]]))
    data = json.loads(path.read_text())
    data["schema"] = SCHEMA_VERSION + 1
    path.write_text(json.dumps(data))
    assert list(store.units()) == []
    assert store.set_aside == [path.with_name("22-s0.json.newer")]
    save(store, record("rsso", "boil", 22, [[20]]))
    assert json.loads(store.set_aside[0].read_text()) == data


def test_a_run_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    Store(tmp_path).open(IDENTITY)
    file = tmp_path / "run.json"
    file.write_text(file.read_text().replace(f'"schema": {SCHEMA_VERSION}', f'"schema": {SCHEMA_VERSION + 1}'))
    before = file.read_bytes()
    with pytest.raises(UsageError, match="update rsso-dspy"):
        Store(tmp_path).open(IDENTITY)
    assert file.read_bytes() == before


def test_what_a_killed_trial_cost_is_noted_by_the_next_attempt(tmp_path):
    store, unit = Store(tmp_path), Unit(Arm(METHODS["rsso"]), Variant("boil", 22), 0, 60)
    for _ in range(2):
        store.note_under_way(unit, "actor", Usage(calls=1, input=5))
    store.note_under_way(unit, "reflector", Usage(calls=1))
    with next(tmp_path.rglob("*.under-way")).open("a") as file:
        file.write('["actor", {"cal')
    Store(tmp_path).recover_under_way(unit)
    assert store.read_abandoned() == [
        ("rsso", "actor", Usage(calls=2, input=10)),
        ("rsso", "reflector", Usage(calls=1)),
    ]
    Store(tmp_path).recover_under_way(unit)
    assert len(store.read_abandoned()) == 2


@pytest.mark.parametrize("line", [b'{"arm":"x","usage":[]}\n', b'{"calls":"5"}\n', b"\xff\n", b'{"arm": "x", "us'])
def test_a_damaged_line_takes_no_other_with_it(tmp_path, line):
    store = Store(tmp_path)
    (tmp_path / "abandoned.jsonl").write_bytes(line)
    store.note_abandoned("rsso", "u", {"actor": Usage(calls=1)})
    assert store.read_abandoned() == [("rsso", "actor", Usage(calls=1))]


def test_costs_that_no_record_tells_of_are_kept_and_a_line_cut_off_by_a_kill_is_left_out(tmp_path):
    store = Store(tmp_path)
    store.note_abandoned("rsso", "rsso/boil::22/s0", {"actor": Usage(calls=2, input=10), "reflector": Usage(calls=1)})
    store.note_abandoned("rsso", "rsso/boil::22/s0", {})
    with (tmp_path / "abandoned.jsonl").open("a") as file:
        file.write('{"arm": "rsso", "usa')
    assert store.read_abandoned() == [
        ("rsso", "actor", Usage(calls=2, input=10)),
        ("rsso", "reflector", Usage(calls=1)),
    ]


@pytest.mark.parametrize(("text", "why"), [("{", "Expecting"), ("{}", "no object with schema"), ("[]", "no object")])
def test_a_damaged_run_file_is_named(tmp_path, text, why):
    Store(tmp_path).open(IDENTITY)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError, match=rf"run\.json is damaged \(.*{why}"):
        Store(tmp_path).open(IDENTITY)


def test_a_folder_of_runs_names_them(tmp_path):
    Store(tmp_path / "a").open(IDENTITY)
    with pytest.raises(UsageError, match=r"holds several runs; name one of them: .*/a$"):
        Store(tmp_path).read_identity()


def test_a_second_process_is_kept_out(tmp_path):
    with Store(tmp_path).lock(), pytest.raises(UsageError, match="another process"), Store(tmp_path).lock():
        pass
    with Store(tmp_path).lock():
        Store(tmp_path).open(IDENTITY)


def test_what_a_killed_process_was_writing_keeps_nobody_out_and_is_removed(tmp_path):
    store = Store(tmp_path)
    (tmp_path / ".run.json.12-34").write_text('{"sche')
    assert store.check_identity(IDENTITY) == {}
    with store.lock():
        store.open(IDENTITY)
    unit = save(store, record("rsso", "boil", 22, [[10]]))
    for name in (".22-s0.json.12-34", ".notes"):
        unit.with_name(name).write_text('{"sche')
    with store.lock():
        assert sorted(file.name for file in unit.parent.iterdir()) == [".notes", unit.name]
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "run.json", "units"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        Store(tmp_path / "file").check_identity(IDENTITY)


def test_a_read_only_look_changes_nothing(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    path = save(store, record("rsso", "boil", 22, [[10]]))
    path.write_text("{")
    store.read_only = True
    assert store.load(path) is None
    assert path.read_text() == "{"


def test_files_that_are_no_units_are_left_alone(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    path = save(store, record("rsso", "boil", 22, [[10]]))
    (path.parent / "notes.json").write_text("mine")
    assert len(list(store.units())) == 1
    assert (path.parent / "notes.json").read_text() == "mine"


def test_others_may_read_a_run(tmp_path):
    Store(tmp_path).open(IDENTITY)
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.open(IDENTITY)
    before = record("rsso", "boil", 22, [[10]])
    path = save(store, before)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(store, record("rsso", "boil", 22, [[99]]))
    assert list(store.units()) == [before]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_units_come_in_numeric_order(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY)
    for index in (100, 9, 22):
        save(store, record("rsso", "boil", index, [[10]]))
    assert [unit.variant.index for unit in store.units()] == [9, 22, 100]


def test_arms_keep_the_order_they_were_asked_for_also_when_more_are_added(tmp_path):
    store = Store(tmp_path)
    store.open(IDENTITY, {"sso": "1", "rsso": "2"})
    store.open(IDENTITY, {"react": "3", "rsso": "2"})
    for arm in ("react", "rsso", "sso"):
        save(store, record(arm, "boil", 22, [[10]]))
    assert [unit.arm for unit in store.units()] == ["sso", "rsso", "react"]


def test_an_arm_keeps_its_program(tmp_path):
    Store(tmp_path).open(IDENTITY, {"rsso": "1", "rsso+mine": "2"})
    with pytest.raises(RunMismatch, match=r"rsso\+mine that another program played"):
        Store(tmp_path).check_identity(IDENTITY, {"rsso": "1", "rsso+mine": "3"})
    assert Store(tmp_path).check_identity(IDENTITY) == {"rsso": "1", "rsso+mine": "2"}
