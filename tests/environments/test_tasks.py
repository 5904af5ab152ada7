import pytest

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import SplitError, UnknownName, UsageError


def test_eighteen_tasks_and_164_held_out_variants():
    assert len(tasks.tasks()) == 18
    assert sum(len(tasks.held_out(task)) for task in tasks.tasks()) == 164
    assert sum(len(tasks.held_out(task, "first")) for task in tasks.tasks()) == 164


@pytest.mark.parametrize("task", ["identify-life-stages-2", "boil", "grow-fruit"])
def test_splits_are_those_of_the_simulator(simulator: Jvm, task: str):
    simulator.call("load", task, 0, "easy", False)
    for split, name in (("train", "Train"), ("dev", "Dev"), ("test", "Test")):
        drawn = {simulator.call(f"getRandomVariation{name}") for _ in range(1000)}
        assert sorted(drawn) == list(tasks.indices(task, split))  # type: ignore[arg-type]


def test_the_sso_selection_is_the_reference_sample_in_its_order():
    assert [v.index for v in tasks.held_out("find-plant")] == [229, 228, 236, 252, 254, 289, 298, 250, 278, 253]
    assert [v.index for v in tasks.held_out("find-plant", n=3)] == [229, 228, 236]
    assert [v.index for v in tasks.held_out("find-plant", "first", 3)] == [225, 226, 227]
    assert [v.index for v in tasks.held_out("identify-life-stages-2", n=10)] == [7, 6, 8, 9]


def test_samples_stay_in_their_split_and_small_ones_are_part_of_large_ones():
    ten = tasks.train_sample("find-plant")
    assert [v.index for v in ten] == [28, 6, 70, 62, 57, 35, 26, 139, 22, 108]
    assert tasks.train_sample("find-plant", 4) == ten[:4]
    assert tasks.train_sample("find-plant", seed=1) != ten
    assert {v.split for v in ten} == {"train"}
    assert {v.split for v in tasks.dev_sample("find-plant")} == {"dev"}
    assert len(tasks.dev_sample("identify-life-stages-2")) == 2


def test_parse_finds_the_split():
    assert tasks.parse("boil::22").split == "test"
    assert tasks.parse(" boil::0 ").split == "train"
    assert tasks.parse("boil::14", "dev").key == "boil::14"


@pytest.mark.parametrize("key", ["boil", "boil:22", "boil::", "boil::x", "boil::-1", ""])
def test_a_text_that_names_no_variant_is_refused_with_an_example(key: str):
    with pytest.raises(UsageError, match="find-plant::228"):
        tasks.parse(key)


def test_errors_name_the_fix():
    with pytest.raises(UnknownName, match="did you mean find-plant"):
        tasks.parse("find-plants::3")
    with pytest.raises(SplitError, match="run from 0 to 29"):
        tasks.parse("boil::30")
    with pytest.raises(SplitError, match=r"train variant, not test.*test is 21 to 29"):
        tasks.parse("boil::3", "test")
    with pytest.raises(SplitError, match="use selection 'first'"):
        tasks.held_out("find-plant", "sso", 11)
    with pytest.raises(UnknownName, match="selection"):
        tasks.held_out("find-plant", "random")  # type: ignore[arg-type]
    with pytest.raises(SplitError, match="at least 1"):
        tasks.train_sample("find-plant", 0)
