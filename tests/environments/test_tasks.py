"""The 18 tasks of ScienceWorld, their splits and selections, and the gold lengths that determine step budgets."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import GoldUnknown, SplitError, UsageError
from rsso_dspy.records import Variant
from scripts.check_golds import find_wrong_lengths, shipped_lengths

SHIPPED = {"1.2.3": {"easy": {"lifespan-longest-lived": {"98": 8, "106": 5}}}}


def no_simulator(*_: object) -> None:
    raise AssertionError("a simulator was started")


def test_every_variant_a_run_may_take_is_shipped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks, "Jvm", no_simulator)
    for task in tasks.tasks():
        for variant in (*tasks.held_out(task), *tasks.held_out(task, "first"), *tasks.train_sample(task)):
            assert tasks.get_gold_length(variant) >= 2
    assert len(shipped_lengths()) == 569


def test_a_path_does_not_depend_on_what_was_solved_before():
    """The simulator's solver keeps the first random walk through the house that it needed, for as long as it runs."""
    boil = [tasks.parse(f"boil::{index}") for index in (25, 24, 25)]
    first, other, again = tasks.compute_gold_paths(boil)
    assert first == again != other


def test_recomputing_finds_the_wrong_entry_and_only_that(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks, "_read_shipped_table", lambda: SHIPPED)
    assert find_wrong_lengths(sample=10) == {"lifespan-longest-lived::106": (5, 4)}


def test_others_are_computed_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    variant = tasks.parse("find-plant::299")
    assert variant not in shipped_lengths()
    length = tasks.get_gold_length(variant)
    assert length == 12
    monkeypatch.setattr(tasks, "Jvm", no_simulator)
    assert tasks.get_gold_length(variant) == length
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_text("{")  # as a full disk, or another program, might leave it
    monkeypatch.setattr(tasks, "compute_gold_paths", lambda _: [("wait",) * 9])
    assert tasks.get_gold_length(variant) == 9
    assert tasks.get_gold_length(Variant("find-plant", 299, simplification="openDoors")) == 9
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


class Failing:
    """Answers as the simulator does when its solver fails: a path that is one line of apology."""

    def call(self, method: str, *_: object, **__: object) -> object:
        return "" if method == "load" else ["ERROR: Unable to find gold path."]

    def clear_path_cache(self) -> None: ...


def test_an_error_text_is_no_length(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    monkeypatch.setattr(tasks, "Jvm", lambda: nullcontext(Failing()))
    with pytest.raises(GoldUnknown, match=r"find-plant::299.*no step budget.*Unable to find"):
        tasks.get_gold_length(tasks.parse("find-plant::299"))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("task", ["identify-life-stages-2", "boil"])
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
    ten = tasks.train_sample("find-plant")
    assert [v.index for v in ten] == [28, 6, 70, 62, 57, 35, 26, 139, 22, 108]
    assert tasks.train_sample("find-plant", 4) == ten[:4]
    assert {v.split for v in ten} == {"train"}
    for selection in ("sso", "first"):
        assert sum(len(tasks.held_out(task, selection)) for task in tasks.tasks()) == 164


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: tasks.parse("boil"), "find-plant::229"),
        (lambda: tasks.parse("boil::x"), "find-plant::229"),
        (lambda: tasks.parse(""), "find-plant::229"),
        (lambda: tasks.parse("find-plants::3"), "did you mean find-plant"),
        (lambda: tasks.parse("boil::30"), "run from 0 to 29"),
        (lambda: tasks.parse("boil::3", "test"), r"train variant, not test.*test is 21 to 29"),
        (lambda: tasks.held_out("find-plant", "sso", 11), "use selection 'first'"),
        (lambda: tasks.held_out("find-plant", "random"), "selection"),
        (lambda: tasks.train_sample("find-plant", 0), "at least 1"),
    ],
)
def test_errors_name_the_fix(ask, says):
    with pytest.raises((SplitError, UsageError), match=says):
        ask()
