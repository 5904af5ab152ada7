import json
from collections import Counter
from pathlib import Path

import pytest

import rsso_dspy
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.optimize.calibration import Calibration, build_examples, draw_calibration, split_pool
from rsso_dspy.records import Variant

TRAIN = tasks.parse("boil::0")
VAL = tasks.parse("boil::14")
FOUR = "identify-life-stages-2"
"""The task with the fewest training variants."""


def keys(variants: tuple[Variant, ...]) -> list[str]:
    return [variant.key for variant in variants]


@pytest.fixture
def write(tmp_path: Path):
    def write(content: object) -> str:
        file = tmp_path / "calib.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(file)

    return write


# Calibration


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_held_out_variant_cannot_calibrate_whatever_it_says(split):
    stray = Variant("boil", 22, split)
    for train, val in (((TRAIN, stray), (VAL,)), ((TRAIN,), (stray, VAL))):
        with pytest.raises(SplitError, match=r"held-out test split: boil::22;.*train or dev"):
            Calibration(train, val)


def test_no_variant_is_learnt_from_and_chosen_by():
    other = Variant("boil", 0, "train", "teleportAction")  # the same variant, played otherwise
    with pytest.raises(SplitError, match=r"both in train and in val: boil::0;"):
        Calibration((TRAIN,), (other, VAL))


def test_both_parts_are_needed():
    with pytest.raises(UsageError, match="in val: both parts"):
        Calibration((TRAIN,), ())
    with pytest.raises(UsageError, match="in train: both parts"):
        Calibration((), (VAL,))
    with pytest.raises(UsageError, match="in train and none in val"):
        Calibration((), ())
    assert Calibration((TRAIN,), (VAL,)).confirm_rollouts == 0


# K-per-task


@pytest.mark.parametrize(("k", "short"), [(1, 1), (2, 2), (3, 4)])
def test_k_variants_of_every_task_and_three_times_as_many_to_confirm(k: int, short: int):
    calibration = draw_calibration(f"{k}-per-task", None, seed=0)
    for part, wanted in (("train", k), ("val", k), ("confirm", 3 * k)):
        counted = Counter(variant.task for variant in getattr(calibration, part))
        assert set(counted) == set(tasks.tasks())
        roomy = {task for task in tasks.tasks() if len(tasks.indices(task, "train")) >= 5 * k}
        assert {task for task, n in counted.items() if n == wanted} >= roomy
    assert len(set(calibration.keys)) == len(calibration.keys)
    assert not set(calibration.spare) & {*calibration.train, *calibration.val, *calibration.confirm}
    assert {tasks.split_of(v.task, v.index) for v in calibration.variants} == {"train"}
    assert len(calibration.notes) == short
    shipped = tasks.shipped_lengths()
    played = {*calibration.variants} - ({*calibration.spare} if k > 1 else set())
    assert k > 2 or not played - shipped.keys()
    spare = Counter(variant.task for variant in calibration.spare)
    rest = {task: len(tasks.indices(task, "train")) - 5 * k for task in tasks.tasks()}
    assert {task: min(left, 5) for task, left in rest.items() if left > 0} == dict(spare)


def test_rules_are_learnt_from_train_alone_and_half_of_a_task_is_there_for_them():
    calibration = draw_calibration("3-per-task", [FOUR, "find-plant"], 0, confirm_share=0)
    assert [len(part) for part in (calibration.train, calibration.val, calibration.confirm)] == [5, 5, 0]
    assert calibration.notes == (f"{FOUR} has 4 train variants: 2 for train and 2 for val instead of 3 and 3",)


def test_seed_and_task_decide_which():
    def indices(task: str, seed: int) -> list[int]:
        return [variant.index for variant in draw_calibration("2-per-task", [task], seed).train]

    assert indices("find-plant", 0) == indices("find-plant", 0)
    assert len({tuple(indices("find-plant", seed)) for seed in range(5)}) == 5
    # The two tasks have the same pool, and do not walk through it alike.
    assert indices("find-plant", 0) != indices("find-living-thing", 0)
    alone = draw_calibration("1-per-task", ["grow-fruit"], seed=7).train
    assert draw_calibration("1-per-task", ["boil", "grow-fruit"], seed=7).train[1:] == alone


@pytest.mark.parametrize(
    ("pool", "k", "parts"),
    [(2, 1, (1, 1, 0)), (3, 1, (1, 1, 1)), (4, 1, (1, 1, 2)), (5, 1, (1, 1, 3)), (4, 3, (1, 1, 2)), (14, 3, (3, 2, 9))],
)
def test_a_task_with_few_variants_shares_them_out_and_says_so(pool: int, k: int, parts: tuple[int, ...]):
    drawn, note = split_pool("boil", tasks.train_sample("boil", 14)[:pool], k, seed=0)
    assert tuple(len(drawn[part]) for part in ("train", "val", "confirm")) == parts
    assert len({variant for part in drawn.values() for variant in part}) == pool
    assert (note is None) == (pool >= 5 * k)
    if pool == 2:
        assert note == "boil has 2 train variants: 1 for train, 1 for val and none for confirm instead of 1, 1 and 3"


@pytest.mark.parametrize("n", [0, 1])
def test_a_task_that_cannot_be_divided_is_left_out(n: int):
    drawn, note = split_pool("boil", tasks.train_sample("boil")[:n], 1, seed=0)
    assert drawn == {}
    assert note is not None
    assert note.startswith(f"boil is left out: of {n} train variant")


def test_tasks_are_named_and_taken_once():
    assert draw_calibration("1-per-task", ["boil", "boil"], seed=0) == draw_calibration("1-per-task", ["boil"], seed=0)
    for text in ("1-per-task", "missing.json"):
        with pytest.raises(UnknownName, match="did you mean find-plant"):
            draw_calibration(text, ["find-plants"], seed=0)


def test_the_simplification_is_that_of_the_run(write):
    file = write({"train": ["boil::0"], "val": ["boil::14"]})
    for text in ("1-per-task", file):
        assert {v.simplification for v in draw_calibration(text, ["boil"], 0).variants} == {"easy"}
        assert {v.simplification for v in draw_calibration(text, ["boil"], 0, "openDoors").variants} == {"openDoors"}


@pytest.mark.parametrize(
    "text", ["1per-task", "0-per-task", "-1-per-task", "one-per-task", "1.5-per-task", "nowhere.json", "", "."]
)
def test_a_text_of_neither_form_is_told_both(text: str):
    with pytest.raises(UsageError) as caught:
        draw_calibration(text, None, seed=0)
    assert "1-per-task" in str(caught.value)
    assert '{"train": ["task::index", ...], "val"' in str(caught.value)


# A file


def test_a_file_lists_train_and_dev_variants(write):
    file = write({"train": ["boil::0", "find-plant::150"], "val": ["find-plant::3", "boil::14"]})
    calibration = draw_calibration(file, None, seed=0)
    assert keys(calibration.train) == ["boil::0", "find-plant::150"]
    assert keys(calibration.val) == ["find-plant::3", "boil::14"]
    assert [variant.split for variant in calibration.variants] == ["train", "dev", "train", "dev"]
    assert draw_calibration(file, None, seed=1) == calibration
    assert calibration.notes == (f"{file} lists nothing to confirm by: what is found stays unconfirmed",)


def test_of_a_file_only_the_named_tasks_are_kept(write):
    file = write({"train": ["boil::0", "find-plant::150", "freeze::1"], "val": ["find-plant::3", "boil::14"]})
    assert draw_calibration(file, ["boil"], seed=0).keys == ("boil::0", "boil::14")
    with pytest.raises(UsageError, match=r"calib.json has no variant of grow-fruit in 'train' and 'val'.*boil, find"):
        draw_calibration(file, ["grow-fruit"], seed=0)
    with pytest.raises(UsageError, match="no variant of freeze in 'val':"):
        draw_calibration(file, ["freeze"], seed=0)


@pytest.mark.parametrize("names", [None, ["find-plant"]])
def test_held_out_variants_in_a_file_are_refused_by_name(write, names):
    file = write({"train": ["boil::22", "find-plant::0"], "val": ["find-plant::1", "find-plant::229"]})
    with pytest.raises(SplitError, match=r"calib.json: .*test split: boil::22, find-plant::229; take train or dev"):
        draw_calibration(file, names, seed=0)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "is not JSON"),
        ("boil::0", "is not JSON"),
        ([], "valid dictionary"),
        ("null", "valid dictionary"),
        ({}, "train: Field required"),
        ({"train": ["boil::0"]}, "val: Field required"),
        ({"train": "boil::0", "val": ["boil::1"]}, "train: Input should be a valid list"),
        ({"train": ["boil::0", 7, None], "val": ["boil::1"]}, "train.1: Input should be a valid string"),
        ({"train": ["boil::0"], "val": ["boil::1"], "learn": []}, "learn: Extra inputs are not permitted"),
    ],
)
def test_a_file_of_another_form_is_told_the_form(write, content, wrong):
    with pytest.raises(UsageError) as caught:
        draw_calibration(write(content), None, seed=0)
    assert "calib.json" in str(caught.value)
    assert wrong in str(caught.value)
    assert 'expected {"train": ["task::index", ...], "val": ["task::index", ...], "confirm":' in str(caught.value)


def test_a_file_lists_every_variant_once_and_some_in_each_part(write):
    with pytest.raises(UsageError, match=r"calib.json lists boil::0, boil::9 more than once"):
        draw_calibration(
            write({"train": ["boil::0", "boil::0", "boil::1"], "val": ["boil::9", " boil::09"]}), None, seed=0
        )
    with pytest.raises(UsageError, match=r"calib.json: no calibration variants in val"):
        draw_calibration(write({"train": ["boil::0"], "val": []}), None, seed=0)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ("boil", UsageError, "expected task::index"),
        ("boils::3", UsageError, "did you mean boil"),
        ("boil::30", SplitError, "run from 0 to 29"),
    ],
)
def test_an_entry_that_names_no_variant_is_refused(write, key, error, words):
    with pytest.raises(error, match=words):
        draw_calibration(write({"train": ["boil::0"], "val": [key]}), None, seed=0)


# What leaves this file


def test_an_example_is_a_key_and_nothing_else():
    first, second = build_examples([TRAIN, VAL])
    assert first.toDict() == {"variant": "boil::0"}
    assert first.inputs().toDict() == {"variant": "boil::0"}
    assert first.labels().toDict() == {}
    assert second.variant == "boil::14"
    given = {"tasks": ["boil", "find-plant"], "seed": 3}
    drawn = draw_calibration("1-per-task", given["tasks"], 3)
    assert rsso_dspy.trainset("scienceworld", "1-per-task", **given) == build_examples(drawn.train)
    assert rsso_dspy.valset("scienceworld", "1-per-task", **given) == build_examples(drawn.val)
