"""How much of a difference is noise, and the runs that would find a smaller one."""

from dataclasses import replace

import pytest

from rsso_dspy.power import Design, Spread, forecast_detectable_difference, list_larger_designs
from rsso_dspy.report.analysis import RunRecords, analyze
from rsso_dspy.report.intervals import UnitValue
from rsso_dspy.report.noise import measure_noise, measure_trial_noise
from rsso_dspy.report.tables import build_tables
from tests.records import record


def make_values(**differences):
    return [
        UnitValue(task, number, value) for task, values in differences.items() for number, value in enumerate(values)
    ]


def test_the_parts_are_those_of_an_analysis_of_variance():
    """By hand: within 50; between types 2 x 400 = 800; (800 - 50) / 2 = 375."""
    noise = measure_noise(make_values(boil=[10, 20], melt=[30, 40], grow=[50, 60]), [], [])
    assert noise.spread.units == pytest.approx(50**0.5)
    assert noise.spread.types == pytest.approx(375**0.5)
    assert (noise.task_types, noise.variants, noise.spread.trial) == (3, 2.0, None)


def test_types_of_unlike_sizes_are_weighted_by_them():
    """By hand: mean 20; between 3 x 100 + 100 + 2 x 400 over 2 = 600; usual size (6 - 14 / 6) / 2 = 11 / 6."""
    noise = measure_noise(make_values(boil=[0, 10, 20], melt=[10], grow=[30, 50]), [], [])
    within = (200 + 200) / 3
    assert noise.spread.units == pytest.approx(within**0.5)
    assert noise.spread.types == pytest.approx(((600 - within) / (11 / 6)) ** 0.5)


def test_types_that_differ_no_more_than_their_units_add_nothing():
    noise = measure_noise(make_values(boil=[-50, 50], melt=[50, -50]), [], [])
    assert noise.spread.types == 0.0
    assert noise.spread.units == pytest.approx(5000**0.5)


@pytest.mark.parametrize("values", [{"boil": [1, 2, 3]}, {"boil": [1], "melt": [2]}, {}])
def test_a_single_type_and_types_of_one_variant_show_nothing(values):
    assert measure_noise(make_values(**values), [], []) is None


def first_trials(arm, *scores, **options):
    return [record(arm, "boil", number, [[score]], **options) for number, score in enumerate(scores)]


def play_twice(one, other, **options):
    """First trials of two arms; what was done differs where the points do."""
    return first_trials("react", *one, shown={}), first_trials("reflexion", *other, **{"shown": {}, **options})


def test_first_trials_of_two_arms_are_two_draws_of_the_same():
    """By hand: differences 60, -30, 0, 0 have a mean square of 1,125."""
    one, other = play_twice((0, 50, 100, 0), (60, 20, 100, 0))
    other[0] = record("reflexion", "boil", 0, [[20, 60]], shown={})
    assert measure_trial_noise(one, other) == pytest.approx(1125**0.5)


def test_shared_first_trials_and_trials_with_a_memory_show_no_noise():
    assert measure_trial_noise(*play_twice((0, 50), (0, 50))) is None
    one, other = play_twice((0, 50), (60, 20), shown={"skills": "- Look first."})
    other[0] = record("reflexion", "boil", 0, [[20, 60]], shown={"skills": "- Look first."})
    assert measure_trial_noise(one, other) is None


@pytest.mark.parametrize("unlike", [{"program": "short"}, {"protocol": "adapt/5"}, {"model": "openai/other"}])
def test_first_trials_that_were_asked_in_another_way_are_no_two_draws_of_the_same(unlike):
    one, other = play_twice((0, 50), (60, 20))
    other[0] = record("reflexion", "boil", 0, [[20, 60]], shown={})
    assert measure_trial_noise(one, other) is not None
    assert measure_trial_noise(one, [replace(unit, **unlike) for unit in other]) is None


def test_scaffolds_are_two_ways_of_asking_but_in_a_conversation():
    for protocol, known in (("sso-adapt/3", False), ("adapt/4", True)):
        one = [replace(unit, protocol=protocol) for unit in first_trials("react", 0, 50, shown={})]
        other = [record("react-sso", "boil", number, [[0, 60]], shown={}) for number in range(2)]
        other = [replace(unit, protocol=protocol) for unit in other]
        assert (measure_trial_noise(one, other) is not None) == known


@pytest.mark.parametrize(
    ("points", "variants", "types"),
    [(10.0, 17, 52), (5.0, 66, 199), (20.24, 5, 15)],  # 50 / sqrt(238) x 3.031 = 9.82, of 16 variants 10.13
)
def test_the_smallest_run_that_finds_a_difference(points, variants, types):
    larger = list_larger_designs(Design(14, 4), Spread(), points)
    assert [(design.more, design.task_types, design.variants) for design in larger] == [
        ("variants", 14, variants),
        ("task types", types, 4),
    ]
    assert all(forecast_detectable_difference(design) <= points for design in larger)
    assert forecast_detectable_difference(Design(14, variants - 1)) > points


def test_what_a_run_of_this_size_finds_takes_no_larger_one():
    assert list_larger_designs(Design(14, 4), Spread(), 20.26) == ()
    assert list_larger_designs(Design(14, 4), Spread(units=20.0), 10.0) == ()


def test_a_run_of_too_few_task_types_for_any_test_needs_more_of_them():
    """With five types, or seven where a report has two tests, no p is significant, however many variants they have."""
    (only,) = list_larger_designs(Design(3, 4), Spread(units=5.0, trial=5.0), 10.0)
    assert (only.more, only.task_types, only.variants) == ("task types", 6, 4)
    (only,) = list_larger_designs(Design(6, 4), Spread(units=5.0), 10.0, fewest_types=7)
    assert only.task_types == 7


def test_no_number_of_variants_makes_up_for_types_that_differ():
    (only,) = list_larger_designs(Design(14, 4), Spread(types=40.0, units=50.0), 10.0)
    assert only.more == "task types"


def test_seeds_lessen_chance_in_playing_a_unit_alone():
    """With 30 points of variants and 40 of chance, 50 in all, an endless number of seeds leaves 30."""
    spread = Spread(units=50.0, trial=40.0)
    one, four = (forecast_detectable_difference(Design(14, 4, seeds), spread) for seeds in (1, 4))
    assert one == pytest.approx(20.25, abs=0.01)
    assert four == pytest.approx(20.25 * (900 + 1600 / 4) ** 0.5 / 50, abs=0.01)
    larger = {design.more: design for design in list_larger_designs(Design(14, 4), spread, 15.0)}
    assert larger["seeds"].seeds == 4
    assert larger["seeds"].units == 14 * 4 * 4
    assert "seeds" not in {design.more for design in list_larger_designs(Design(14, 4), spread, 10.0)}


def test_a_report_says_what_a_next_run_takes_with_its_calls():
    gains = {"boil": (20, -20), "melt": (40, 0), "grow": (-30, 10), "cool": (0, 0), "find": (0, 50), "mix": (0, -10)}
    units = []
    for task, values in gains.items():
        for number, gain in enumerate(values):
            units += [record("react", task, number, [[40]]), record("reflexion", task, number, [[40 + gain]])]
    found = analyze(RunRecords(units))
    (pair,) = found.comparisons
    (sheet,) = [sheet for sheet in build_tables(found) if sheet.name == "next"]
    first = dict(zip(sheet.columns, sheet.rows[0], strict=True))
    (larger, *_) = list_larger_designs(pair.noise.design, pair.noise.spread, 10.0)
    assert first["by"].text == "more variants"
    assert first["variants"].value == larger.variants
    assert first["units/arm"].value == 6 * larger.variants
    assert first["calls"].value == 4 * 6 * larger.variants, "2 calls a unit, in each of two arms"
    assert "reflexion - react: differences vary by" in " ".join(sheet.notes)


def test_where_no_unit_differed_nothing_is_planned():
    units = [
        record(arm, task, number, [[40]])
        for task in ("boil", "melt")
        for number in range(2)
        for arm in ("react", "reflexion")
    ]
    assert "next" not in {sheet.name for sheet in build_tables(analyze(RunRecords(units)))}
