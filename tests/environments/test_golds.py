from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import GoldUnknown
from rsso_dspy.records import Variant
from scripts.check_golds import find_wrong_lengths

SHIPPED = {"1.2.3": {"easy": {"lifespan-longest-lived": {"98": 8, "106": 5}}}}


def no_simulator(*_: object) -> None:
    raise AssertionError("a simulator was started")


def test_every_variant_a_run_may_take_is_shipped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks, "Jvm", no_simulator)
    for task in tasks.tasks():
        for variant in (
            *tasks.held_out(task),
            *tasks.held_out(task, "first"),
            *tasks.train_sample(task),
            *tasks.dev_sample(task),
        ):
            assert tasks.get_gold_length(variant) >= 2
    assert len(tasks.shipped_lengths()) == 569


def test_shipped_lengths_are_those_of_the_paths(gold_paths: dict[str, tuple[str, ...]]):
    for key, path in gold_paths.items():
        assert tasks.get_gold_length(tasks.parse(key)) == len(path)


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
    assert variant not in tasks.shipped_lengths()
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


def test_several_may_compute_the_same_length(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    monkeypatch.setattr(tasks, "compute_gold_paths", lambda _: [("wait",) * 9])
    with ThreadPoolExecutor(8) as threads:
        lengths = list(threads.map(tasks.get_gold_length, [tasks.parse("find-plant::299")] * 40))
    assert lengths == [9] * 40
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_an_error_text_is_no_length(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Failing:
        """Answers as the simulator does when its solver fails: a path that is one line of apology."""

        def call(self, method: str, *_: object, **__: object) -> object:
            return "" if method == "load" else ["ERROR: Unable to find gold path."]

        def clear_path_cache(self) -> None: ...

        def __enter__(self) -> "Failing":
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    monkeypatch.setattr(tasks, "Jvm", Failing)
    with pytest.raises(GoldUnknown, match=r"find-plant::299.*no step budget.*Unable to find"):
        tasks.get_gold_length(tasks.parse("find-plant::299"))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("variant", [Variant("boil", 9999), Variant("no-such-task", 0)])
def test_the_real_simulator_fails_without_a_length(variant: Variant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    with pytest.raises(GoldUnknown, match=variant.key):
        tasks.get_gold_length(variant)
