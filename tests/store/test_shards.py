from dataclasses import replace

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Place
from rsso_dspy.config import load_config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.plan import plan_held_out, select_shard
from rsso_dspy.records import Usage
from rsso_dspy.store.commands import Invocation, Shard, add_command
from rsso_dspy.store.pooled_runs import PooledRuns, merge_shards
from rsso_dspy.store.run_folder import Store
from tests.records import record, save
from tests.store.test_store import IDENTITY


@pytest.mark.parametrize("settings", [[], ["protocol.setting=transfer", "protocol.train_trials=1"]])
@pytest.mark.parametrize("of", [1, 2, 3])
def test_shards_are_the_run_each_unit_once_and_arms_stay_together(settings, of):
    plan = plan_held_out(
        load_config(overrides=settings), ["react-sso", "sso"], ["boil", "find-plant", "freeze"], per_task=3
    )
    parts = [select_shard(plan, Shard(number, of)) for number in range(1, of + 1)]
    assert sorted(unit.key for part in parts for unit in part.units) == sorted(unit.key for unit in plan.units)
    assert sorted(t.key for part in parts for t in part.trainings) == sorted(t.key for t in plan.trainings)
    for part in parts:
        for variant in {unit.variant for unit in part.units}:
            assert {unit.arm.name for unit in part.units if unit.variant == variant} == {"react-sso", "sso"}
        assert all(part.get_training(unit) == plan.get_training(unit) for unit in part.units)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"])
def test_what_is_no_shard_is_refused_by_form(text):
    with pytest.raises(UsageError, match="expected i/n"):
        Shard.parse(text)


def test_a_shard_without_units_is_refused():
    plan = plan_held_out(load_config(), ["sso"], ["boil"], per_task=2)
    with pytest.raises(UsageError, match="at most 2 parts"):
        select_shard(plan, Shard(3, 3))


def part(folder, *records, identity=IDENTITY, arms=None):
    store = Store(folder)
    store.open(identity, arms or {"sso": "1"})
    for each in records:
        save(store, each)
    return folder


def test_shards_of_different_selections_are_refused_and_a_folder_knows_its_shards(tmp_path):
    stores = []
    for number, per_task in ((1, 2), (2, 4), (3, 2)):
        store = Store(tmp_path / f"{number}")
        asked = Invocation(methods=("sso",), per_task=per_task, shard=f"{number}/3")
        store.open(IDENTITY, {"sso": "1"}, f"{number}/3", **add_command(store, asked, {}))
        stores.append(store)
    whole = Store(tmp_path / "whole")
    with pytest.raises(RunMismatch, match=r"different variants:\n.*--per-task 2\n.*--per-task 4\nPlay one"):
        merge_shards([store.folder for store in stores], whole)
    assert not whole.folder.exists()
    merge_shards([stores[0].folder, stores[2].folder], whole)
    assert (whole.read_shards(), stores[1].read_shards()) == (("1/3", "3/3"), ("2/3",))
    whole.open(IDENTITY, {"sso": "1"}, "2/3")
    assert len(whole.read_shards()) == 3
    whole.open(IDENTITY, {"sso": "1"})
    assert whole.read_shards() == (), "the whole run was asked for"


def test_a_whole_run_stays_whole_and_shards_of_other_splits_are_refused(tmp_path):
    for name, shard in (("whole", ""), ("a", "1/2"), ("b", "1/3")):
        Store(tmp_path / name).open(IDENTITY, {"sso": "1"}, shard)
    said = []
    merge_shards([tmp_path / "a"], Store(tmp_path / "whole"), said.append)
    merge_shards([tmp_path / "whole", tmp_path / "a"], Store(tmp_path / "new"), said.append)
    assert said == []
    assert Store(tmp_path / "whole").read_shards() == Store(tmp_path / "new").read_shards() == ()
    with pytest.raises(RunMismatch, match=r"a is one of 2, .*b is one of 3"):
        merge_shards([tmp_path / "a", tmp_path / "b"], Store(tmp_path / "more"))


def test_planned_units_of_shards_without_a_record_stay_missing(tmp_path):
    said = []
    first = part(tmp_path / "a", record("sso", "boil", 22, [[10]]))
    second = part(tmp_path / "b", record("sso", "boil", 27, [[10]]))
    Store(first).open(IDENTITY, planned=["sso/boil::22/s0", "sso/boil::30/s0"])
    whole = Store(tmp_path / "whole")
    for _ in (1, 2):
        merge_shards([first, second], whole, said.append)
        assert said[-1] == "1 planned unit has no record yet"
        assert collect_played(PooledRuns([whole])).missing == 1


def note_calls(folder, unit, trial, calls):
    """Add calls of a trial to a unit's log, without its end."""
    log = Store(folder).open_log(unit)
    for number in range(calls):
        asked = {"model": "m", "messages": [{"role": "user", "content": f"{number}"}], "parameters": {}}
        place = Place(trial, 0, number + 1, "actor")
        log.end(log.begin(place, asked), answer=["go"], usage=[{"prompt_tokens": 10, "completion_tokens": number}])


def test_parts_become_a_whole_and_merging_again_changes_nothing(tmp_path):
    longer, errored = record("sso", "boil", 27, [[10], [30]]), record("sso", "boil", 27, [[10], None])
    first = part(tmp_path / "a", record("sso", "boil", 22, [[10]]), errored)
    second = part(tmp_path / "b", longer, record("sso", "freeze", 21, [[5]]))
    note_calls(first, errored, 3, 2)
    whole = Store(tmp_path / "whole")
    for _ in (1, 2):
        assert merge_shards([first, second], whole) == 3
        assert [(unit.variant.key, unit.has_errors) for unit in whole.units()] == [
            ("boil::22", False),
            ("boil::27", False),
            ("freeze::21", False),
        ]
        assert whole.read_abandoned() == [("sso", "actor", Usage(calls=2, input=20, output=1))]


def test_parts_of_different_runs_are_refused_and_nothing_is_written(tmp_path):
    first = part(tmp_path / "a", record("sso", "boil", 22, [[10]]))
    other = part(tmp_path / "b", record("sso", "boil", 27, [[10]]), identity={**IDENTITY, "protocol": "release"})
    program = part(tmp_path / "c", record("sso", "boil", 27, [[10]]), arms={"sso": "2"})
    unlike = part(tmp_path / "d", record("sso", "boil", 22, [[90]]))
    for wrong, words in (
        (other, "protocol: there"),
        (program, "program: there '1', now '2'"),
        (unlike, "is another record than"),
    ):
        with pytest.raises(RunMismatch, match=words):
            merge_shards([first, wrong], Store(tmp_path / "whole"))
        assert not (tmp_path / "whole").exists()


def test_the_same_unit_played_by_two_commits_is_one_unit(tmp_path):
    unit = record("sso", "boil", 22, [[10]])
    first = part(tmp_path / "a", unit)
    second = part(tmp_path / "b", replace(unit, provenance={"commit": "another"}))
    assert merge_shards([first, second], Store(tmp_path / "whole")) == 1
