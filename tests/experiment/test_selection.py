import pytest

from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.plan import choose_variants


def test_the_papers_sample_has_164_variants_of_18_tasks():
    chosen = choose_variants(None, ["sso"])
    assert len(chosen) == len(set(chosen)) == 164
    assert len({variant.task for variant in chosen}) == 18
    assert {variant.split for variant in chosen} == {"test"}


def test_per_task_takes_the_first_of_the_same_order():
    assert [v.index for v in choose_variants(["boil"], ["sso"], 2)] == [
        v.index for v in choose_variants(["boil"], ["sso"])
    ][:2]
    assert [v.index for v in choose_variants(["boil"], ["first"], 2)] == [21, 22]


def test_variants_are_listed_by_index_or_by_name():
    assert [v.key for v in choose_variants(["boil"], ["22", "25"])] == ["boil::22", "boil::25"]
    assert [v.key for v in choose_variants(None, ["boil::22", "freeze::21"])] == ["boil::22", "freeze::21"]


def test_a_training_variant_is_no_held_out_variant():
    with pytest.raises(SplitError, match="train"):
        choose_variants(["boil"], ["3"])


def test_a_variant_that_does_not_exist_says_which_do():
    with pytest.raises(SplitError, match="0 to 29"):
        choose_variants(["boil"], ["999"])


def test_an_index_without_its_task_asks_for_it():
    with pytest.raises(UsageError, match="task::22, such as find-plant::228"):
        choose_variants(None, ["22"])


def test_a_selection_of_no_task_that_is_no_index_is_told_what_there_is():
    with pytest.raises(UnknownName, match=r"known: first, sso\. Or list variants, such as find-plant::228"):
        choose_variants(None, ["abc"])


def test_a_variant_of_another_task_is_refused():
    with pytest.raises(UsageError, match="freeze::21"):
        choose_variants(["boil"], ["freeze::21"])


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownName, match="boil"):
        choose_variants(["boll"], ["sso"])
    with pytest.raises(UnknownName, match="first"):
        choose_variants(["boil"], ["frist"])


def test_the_simplification_is_carried():
    assert {variant.simplification for variant in choose_variants(["boil"], ["sso"], simplification="")} == {""}
