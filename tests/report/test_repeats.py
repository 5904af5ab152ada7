"""pass^k: what counts as a repeat of a variant, and how likely k of them are all solved."""

import json
import zipfile
from dataclasses import replace
from itertools import combinations
from statistics import fmean

import pytest

from rsso_dspy.records import Source
from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.export import write_inspect_logs
from rsso_dspy.report.repeats import LEARNS, STOPS, WARMER, estimate_repeat_success, find_dependence
from rsso_dspy.report.tables import build_tables
from tests.records import record

WON, LOST = [100], [0]
PLAYED = {1: "wlw", 2: "lwl", 3: "lll"}
"""Variants of a task type with three trials each, w for a solved one."""


def play(arm, variants=PLAYED, task="boil", **options):
    return [
        record(arm, task, index, [WON if trial == "w" else LOST for trial in trials], **options)
        for index, trials in variants.items()
    ]


def list_shares(records, repeats):
    return [each.estimate.mean for each in estimate_repeat_success(records) if each.repeats == repeats]


def test_trials_of_equal_retries_are_repeats():
    """Of three trials the first variant solved two: two thirds of single draws, one of three pairs, no triple."""
    assert list_shares(play("react"), "trials") == pytest.approx([300 / 9, 100 / 9, 0])
    assert find_dependence(play("react")) == ""


def test_it_is_the_share_of_all_draws_whatever_the_number_of_repeats():
    """Counted draw by draw, of five trials."""
    variants = {1: "wwwlw", 2: "wlwlw", 3: "wwwww"}
    found = list_shares(play("react", variants), "trials")
    for k in range(1, 6):
        draws = [fmean("l" not in draw for draw in combinations(trials, k)) for trials in variants.values()]
        assert found[k - 1] == pytest.approx(100 * fmean(draws))


def test_trials_of_several_seeds_are_repeats_of_one_variant():
    """Six trials, of which the variant solved four: 4/6, then C(4,2)/C(6,2) = 6/15, 4/20, 1/15."""
    units = [*play("react", {1: "wlw"}), *play("react", {1: "lww"}, seed=1)]
    assert list_shares(units, "trials") == pytest.approx([400 / 6, 40, 20, 100 / 15, 0, 0])


def test_seeds_that_were_trained_apart_are_no_repeats_of_each_other():
    """Three trials of each: one seed solved two, and the other none. Pooled, 2 of 6 would give 1 of 15 pairs."""
    protocol = "sso-adapt/3 transfer=3x10 trials=3 stop_on_success=False"
    units = [*play("sso", {1: "wlw"}), *play("sso", {1: "lll"}, seed=1)]
    trained = [replace(unit, protocol=protocol, sources=(Source("skills", "training", "boil"),)) for unit in units]
    found = list(estimate_repeat_success(trained))
    assert [each.estimate.mean for each in found if each.repeats == "trials"] == pytest.approx([100 / 3, 100 / 6, 0])
    assert {each.variants for each in found} == {1}
    carried = [replace(unit, sources=(Source("skills", "file", "boil.json", "1f0c9a"),)) for unit in trained]
    assert list_shares(carried, "trials")[:2] == pytest.approx([100 / 3, 100 / 15]), "both began with the same file"


def test_units_of_one_trial_are_counted_once():
    units = [unit for seed in (0, 1) for unit in play("react", {1: "w", 2: "l"}, seed=seed)]
    found = estimate_repeat_success([replace(unit, protocol="release/2 trials=1") for unit in units])
    assert [(each.repeats, each.k) for each in found] == [("units", 1), ("units", 2)]


DEPENDENT = {
    "a reflection is written between trials": (play("reflexion"), LEARNS),
    "a constitution that is written too": (play("react+neural"), LEARNS),
    "an unknown method whose prompts held a memory": (play("mine", shown={"diary": "Dear diary"}), LEARNS),
    "units stop at a success": (play("react", {1: "w", 2: "lw", 3: "lll"}), STOPS),
    "no trial followed a success, and nobody says that one would": (play("react", {1: "lll", 2: "llw"}), STOPS),
    "one unit may play more": (play("react", allowed=4), STOPS),
    "a preset that would play on, but was told to stop": (
        [replace(unit, protocol="release/2 stop_on_success=True") for unit in play("react", {1: "lll"})],
        STOPS,
    ),
}


@pytest.mark.parametrize(("units", "why"), DEPENDENT.values(), ids=DEPENDENT)
def test_trials_that_depend_on_earlier_ones_are_no_repeats(units, why):
    assert find_dependence(units) == why
    assert not list(estimate_repeat_success(units))


INDEPENDENT = {
    "a constitution that is read alone": play("react+constitution"),
    "memories that do not change": [
        replace(unit, protocol="sso-adapt/3 stop_on_success=False frozen=True") for unit in play("sso")
    ],
    "an unknown method without a memory in its prompts": play("mine"),
    "nothing solved, and the protocol plays on": [
        replace(unit, protocol="adapt/4 stop_on_success=False") for unit in play("react", {1: "lll"})
    ],
    "the same, by its preset": [replace(unit, protocol="release/2 trials=3") for unit in play("react", {1: "lll"})],
}


@pytest.mark.parametrize("units", INDEPENDENT.values(), ids=INDEPENDENT)
def test_trials_that_depend_on_nothing_are_repeats(units):
    assert find_dependence(units) == ""
    assert len(list_shares(units, "trials")) == 3


def test_trials_of_other_settings_are_no_repeats_of_the_first():
    """Retries of a model at temperature 0 are sampled; another seed is no other setting."""

    def send(unit, temperatures):
        trials = zip(unit.trials, temperatures, strict=True)
        sent = [replace(trial, sent={"actor": {"temperature": each, "seed": trial.trial}}) for trial, each in trials]
        return replace(unit, trials=tuple(sent))

    assert find_dependence([send(unit, (0, 0.7, 0.7)) for unit in play("react")]) == WARMER
    assert find_dependence([send(unit, (0.7, 0.7, 0.7)) for unit in play("react")]) == ""


def test_whole_units_of_several_seeds_are_repeats_for_any_arm():
    """Three seeds: the first variant is solved in two, the second in all; the third was played in two of them."""
    seeds = ({1: "lw", 2: "w", 3: "ll"}, {1: "ll", 2: "lw", 3: "w"}, {1: "w", 2: "w"})
    units = [unit for seed, variants in enumerate(seeds) for unit in play("reflexion", variants, seed=seed)]
    found = list(estimate_repeat_success(units))
    assert [(each.repeats, each.k, each.variants) for each in found] == [
        ("units", 1, 3),
        ("units", 2, 3),
        ("units", 3, 2),
    ]
    means = [each.estimate.mean for each in found]
    assert means == pytest.approx([100 * (2 / 3 + 1 + 1 / 2) / 3, 100 * (1 / 3 + 1 + 0) / 3, 50])


def test_the_interval_is_over_task_types_and_has_a_width_where_all_are_alike():
    """Two task types with everything solved: with a type of 0 and one of 100 added the mean is 75 of 100, its error
    25, and t with one degree of freedom reaches over all possible values."""
    units = [unit for task in ("boil", "melt") for unit in play("react", {1: "www"}, task)]
    for each in estimate_repeat_success(units):
        interval = each.estimate.interval
        assert (interval.mean, interval.clusters, interval.over) == (100, 2, "task types")
        assert (interval.low, interval.high) == (0, 100)


def test_table_and_json_have_it_and_say_which_arms_have_none():
    units = [unit for task in ("boil", "melt") for arm in ("react", "reflexion") for unit in play(arm, task=task)]
    found = analyze(units)
    sheets = {sheet.name: sheet for sheet in build_tables(found)}
    assert [[cell.text for cell in row] for row in sheets["repeats"].rows] == [
        ["react", "trials", "1", "6", "33.3", "0.0", "100.0"],
        ["react", "trials", "2", "6", "11.1", "0.0", "100.0"],
        ["react", "trials", "3", "6", "0.0", "0.0", "100.0"],
    ]
    assert sheets["repeats"].notes[-1] == f"No pass^k of trials: reflexion: {LEARNS}."
    react, reflexion = serialize_analysis(found)["arms"]
    assert [(each["k"], each["repeats"], each["variants"]) for each in react["repeat_success"]] == [
        (k, "trials", 6) for k in (1, 2, 3)
    ]
    assert (react["dependence"], reflexion["dependence"], reflexion["repeat_success"]) == ("", LEARNS, ())


def test_logs_of_inspect_have_it_beside_the_share_solved(tmp_path):
    """Two epochs, which are whole units of two seeds: the first variant is solved in both, the second in one."""
    units = [*play("reflexion", {1: "w", 2: "lw"}), *play("reflexion", {1: "lw", 2: "ll"}, seed=1)]
    write_inspect_logs(tmp_path / "logs", "run", "babyai", RunRecords(units))
    with zipfile.ZipFile(tmp_path / "logs/reflexion.eval") as log:
        _, solved = json.loads(log.read("header.json"))["results"]["scores"]
    assert {name: metric["value"] for name, metric in solved["metrics"].items() if name.startswith("pass")} == {
        "pass^1": 0.75,
        "pass^2": 0.5,
    }
