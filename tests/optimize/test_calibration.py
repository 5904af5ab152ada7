from collections import Counter

import pytest

import rsso_dspy
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.optimize.calibration import Calibration, build_examples, draw_calibration, split_pool
from rsso_dspy.records import Variant
from scripts.check_golds import shipped_lengths

TRAIN = tasks.parse("boil::0")
VAL = tasks.parse("boil::14")
FOUR = "identify-life-stages-2"  # the task with the fewest training variants
HELD_OUT = r"held-out test split: boil::22;.*train or dev"


@pytest.mark.parametrize(
    ("train", "val", "error", "said"),
    [
        ((TRAIN, Variant("boil", 22, "test")), (VAL,), SplitError, HELD_OUT),
        ((TRAIN,), (Variant("boil", 22, "train"), VAL), SplitError, HELD_OUT),
        (
            (TRAIN,),
            (Variant("boil", 0, "train", "teleportAction"), VAL),
            SplitError,
            "both in train and in val: boil::0;",
        ),
        ((), (VAL,), UsageError, "in train: both"),
        ((), (), UsageError, "none in val"),
    ],
)
def test_no_held_out_variant_calibrates_none_twice_and_both_parts_are_needed(train, val, error, said):
    with pytest.raises(error, match=said):
        Calibration(train, val)


@pytest.mark.parametrize(("k", "short"), [(1, 1), (3, 4)])
def test_k_variants_of_every_task_and_three_times_as_many_to_confirm(k: int, short: int):
    calibration = draw_calibration(f"{k}-per-task", None, seed=0)
    for part, wanted in (("train", k), ("val", k), ("confirm", 3 * k)):
        counted = Counter(variant.task for variant in getattr(calibration, part))
        assert set(counted) == set(tasks.tasks())
        roomy = {task for task in tasks.tasks() if len(tasks.indices(task, "train")) >= 5 * k}
        assert {task for task, n in counted.items() if n == wanted} >= roomy
    assert len({variant.key for variant in calibration.variants}) == len(calibration.variants)
    assert {tasks.split_of(v.task, v.index) for v in calibration.variants} == {"train"}
    assert len(calibration.notes) == short
    assert k > 1 or not {*calibration.variants} - shipped_lengths().keys()


def test_rules_are_learnt_from_train_alone_and_half_of_a_task_is_there_for_them():
    calibration = draw_calibration("3-per-task", [FOUR, "find-plant"], 0, confirm_share=0)
    assert [len(part) for part in (calibration.train, calibration.val, calibration.confirm)] == [5, 5, 0]
    assert calibration.notes == (f"{FOUR} has 4 train variants: 2 for train and 2 for val instead of 3 and 3",)


def test_seed_and_task_decide_which_and_the_run_how_they_are_simplified():
    def indices(task: str, seed: int) -> list[int]:
        return [variant.index for variant in draw_calibration("2-per-task", [task], seed).train]

    assert indices("find-plant", 0) == indices("find-plant", 0)
    assert len({tuple(indices("find-plant", seed)) for seed in range(5)}) == 5
    # The two tasks have the same pool, and do not walk through it alike.
    assert indices("find-plant", 0) != indices("find-living-thing", 0)
    alone = draw_calibration("1-per-task", ["grow-fruit"], seed=7).train
    assert draw_calibration("1-per-task", ["boil", "grow-fruit", "boil"], seed=7).train[1:] == alone
    for wanted, given in (("easy", None), ("openDoors", "openDoors")):
        assert {v.simplification for v in draw_calibration("1-per-task", ["boil"], 0, given).variants} == {wanted}


@pytest.mark.parametrize(
    ("pool", "k", "parts"),
    [
        *[(0, 1, ()), (1, 1, ()), (2, 1, (1, 1, 0)), (3, 1, (1, 1, 1)), (4, 1, (1, 1, 2)), (5, 1, (1, 1, 3))],
        *[(4, 3, (1, 1, 2)), (14, 3, (3, 2, 9))],
    ],
)
def test_a_task_with_few_variants_shares_them_out_and_says_so(pool: int, k: int, parts: tuple[int, ...]):
    drawn, note = split_pool("boil", tasks.train_sample("boil", 14)[:pool], k, seed=0)
    assert tuple(len(drawn[part]) for part in ("train", "val", "confirm") if drawn) == parts
    assert len({variant for part in drawn.values() for variant in part}) == sum(parts)
    assert (note is None) == (pool >= 5 * k)
    if pool < 2:
        assert note.startswith(f"boil is left out: of {pool} train variant")
    if pool == 2:
        assert note == "boil has 2 train variants: 1 for train, 1 for val and none for confirm instead of 1, 1 and 3"


def test_a_text_of_another_form_and_an_unknown_task_are_refused():
    for text in ("1per-task", "0-per-task", "1.5-per-task", "", "9" * 5000 + "-per-task"):
        with pytest.raises(UsageError, match=r"is not K-per-task with K from 1 to 1,000"):
            draw_calibration(text, None, seed=0)
    with pytest.raises(UnknownName, match="did you mean find-plant"):
        draw_calibration("1-per-task", ["find-plants"], seed=0)


def test_an_example_is_a_key_and_nothing_else():
    (first,) = build_examples([TRAIN])
    assert first.toDict() == first.inputs().toDict() == {"variant": "boil::0"}
    drawn, given = draw_calibration("1-per-task", ["boil", "find-plant"], 3), ("1-per-task", ["boil", "find-plant"], 3)
    assert rsso_dspy.trainset("scienceworld", *given) == build_examples(drawn.train)
    assert rsso_dspy.valset("scienceworld", *given) == build_examples(drawn.val)
