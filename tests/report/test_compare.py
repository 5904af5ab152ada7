"""Arms against each other: pairs, exclusions, the square of two memories, and strata."""

from dataclasses import replace

import pytest

from rsso_dspy.programs.methods import METHODS
from rsso_dspy.report.analysis import analyze, serialize_analysis
from rsso_dspy.report.compare import (
    BESIDE_REFLECTIONS,
    FACTORIAL_METHODS,
    OVER_RETRIES,
    USUAL,
    Question,
    compare_all,
    compare_arms,
    compute_factorial,
    select_contrasts,
)
from rsso_dspy.report.metrics import group_by_arm
from rsso_dspy.report.tables import build_tables
from tests.records import record
from tests.report.paper_run import play_table_2

TASKS = ("boil", "freeze", "find-plant", "grow-plant", "use-thermometer", "chemistry-mix")
TEN_TYPES = tuple(f"type-{number}" for number in range(10))  # enough for the tests of a 2x2 and its comparisons


def arm(name: str, scores, tasks=TASKS) -> list:
    """Two units of each task; `scores` gives the score of unit n of task t."""
    return [record(name, task, n, [[scores(t, n)]]) for t, task in enumerate(tasks) for n in range(2)]


def test_pairs_are_matched_by_unit_and_what_errored_is_excluded_and_counted():
    ours, theirs = arm("sso", lambda t, _: 10 * t), arm("rsso", lambda t, n: 10 * t + 5 * n)
    theirs[0] = record("rsso", "boil", 0, [[50], None])
    ours.append(record("sso", "boil", 9, [[70]]))
    found = compare_arms("sso", ours, "rsso", theirs)
    assert (found.pairs, found.excluded, found.higher, found.lower) == (11, 2, 6, 0)
    assert found.difference == pytest.approx(found.interval.mean) == pytest.approx(6 * 5 / 11)
    assert (found.interval.clusters, found.sign.up, found.sign.down, found.sign.ties) == (6, 6, 0, 0)
    assert found.wilcoxon.effect == 1


def test_several_comparisons_are_corrected():
    units = [*arm("a", lambda _t, _n: 50), *arm("b", lambda t, _: 60 + t), *arm("c", lambda t, _: 50 - t)]
    one, other = analyze(units).comparisons
    assert one.flips.p == 2 / 2**6
    assert one.holm == pytest.approx(2 * one.flips.p)
    assert other.holm == pytest.approx(max(one.holm, other.flips.p))


def test_json_lists_every_test_of_the_report_with_both_ps():
    """Seven types all up, and seven that cancel out: p is 2/2^7, times two tests; and 1."""
    tasks = [f"type-{number}" for number in range(7)]
    ups = [record("b", task, 1, [[60]]) for task in tasks]
    mixed = [record("c", task, 1, [[50 + shift]]) for task, shift in zip(tasks, (-3, -2, -1, 0, 1, 2, 3), strict=True)]
    units = [*(record("a", task, 1, [[50]]) for task in tasks), *ups, *mixed]
    assert serialize_analysis(analyze(units))["family"] == {
        "correction": "Holm",
        "size": 2,
        "tests": [
            {"test": "b - a", "p": 2 / 2**7, "holm": 4 / 2**7, "pairs": 7, "trials": 1},
            {"test": "c - a", "p": 1.0, "holm": 1.0, "pairs": 7, "trials": 1},
        ],
    }


def test_json_lists_the_tests_of_a_square_that_are_no_comparison_once():
    """Its interaction is a test of its own; both over skills is the comparison rsso - sso, which stands there once."""
    units = [unit for records in corners(20, 40, 30, 50).values() for unit in records]
    family = serialize_analysis(analyze(units))["family"]
    names = [each["test"] for each in family["tests"]]
    assert family["size"] == len(names) == len(set(names))
    assert "rsso - sso - reflexion-sso + react-sso" in names
    assert "rsso - sso" in names
    assert "rsso - sso (2x2)" not in names


UNLIKE = {
    "react-sso": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "reflexion-sso": (-4, 3, -1, 0, 2, 1, 0, -2, 4, -3),
    "sso": (1, -3, 4, -2, 0, 3, -1, 0, 2, -4),
    "rsso": (2, 0, -4, 4, -1, -3, 1, 3, 0, -2),
}
"""What the ten types add to an arm's score: nothing on average, so that no two types are alike."""


def corners(*scores):
    return {
        name: arm(name, lambda t, _n, score=score, name=name: score + UNLIKE[name][t], TEN_TYPES)
        for name, score in zip(FACTORIAL_METHODS, scores, strict=True)
    }


def read_square(arms, question=USUAL):
    (square,) = compare_all(arms, question).squares.values()
    return square


@pytest.mark.parametrize(
    ("scores", "interaction", "reading"),
    [
        ((20, 40, 30, 50), 0, "compose"),
        ((20, 40, 30, 70), 20, "compose"),
        ((20, 40, 30, 40), -10, "redundant"),
        ((20, 40, 40, 37), -23, "redundant"),
        ((20, 40, 30, 31), -19, "undecided"),
        ((20, 40, 40, 25), -35, "adversarial"),
        ((20, 40, 20, 40), 0, "undecided"),
    ],
)
def test_the_square_is_read_out(scores, interaction, reading):
    """Redundant only where both together do not lose the margin of 10 points against either alone."""
    found = read_square(corners(*scores))
    assert (found.pairs, found.reading) == (20, reading)
    assert found.interaction.difference == pytest.approx(interaction)
    assert found.over_one.difference == pytest.approx(scores[3] - scores[1])
    assert found.over_other.difference == pytest.approx(scores[3] - scores[2])


def test_the_square_of_a_single_task_type_is_not_read_out():
    """Eight variants of boiling on which both memories together have 30 points more than either alone."""
    scores = dict(zip(FACTORIAL_METHODS, (20, 40, 30, 70), strict=True))
    arms = {name: [record(name, "boil", index, [[score]]) for index in range(8)] for name, score in scores.items()}
    found = read_square(arms)
    assert (found.over_one.difference, found.over_one.interval.over) == (30, "variants")
    assert (found.over_one.flips.p, found.reading) == (None, "undecided")


def test_a_square_whose_skills_reached_no_prompt_is_not_tested():
    arms = corners(20, 40, 30, 70)
    arms["sso"] = [replace_shown(unit, {}) for unit in arms["sso"]]
    found = compare_all(arms)
    (square,) = found.squares.values()
    assert square.reading == "not tested"
    assert (square.interaction.interval, square.interaction.flips.p, square.interaction.holm) == (None, None, None)
    assert square.over_other.interval is not None, "reflections beside skills were tested"
    (skills,) = (pair for pair in found.comparisons if pair.name == "sso - react-sso")
    assert (skills.verdict.word, skills.interval, skills.holm) == ("not tested", None, None)


def replace_shown(unit, shown):
    return replace(unit, trials=tuple(replace(trial, shown=shown) for trial in unit.trials))


def test_what_a_square_asks_of_two_arms_that_are_compared_is_one_test():
    """Of the four arms of the SSO scaffold: four comparisons, the square's interaction, and rsso - reflexion-sso; the
    square's rsso - sso is one of the four."""
    found = compare_all(corners(20, 40, 30, 70))
    assert [pair.name for pair in found.comparisons] == [
        "reflexion-sso - react-sso", "sso - react-sso", "rsso - sso", "rsso - react-sso",
    ]  # fmt: skip
    assert found.tests == 6


def test_the_same_test_asked_in_the_other_direction_counts_once():
    """Three comparisons with rsso, and the interaction; the square's other two are among the three, turned round."""
    units = [unit for units in corners(20, 40, 30, 70).values() for unit in units]
    found = analyze(units, question=Question(against="rsso"))
    assert found.tests == 4
    (sheet,) = (sheet for sheet in build_tables(found) if sheet.name == "differences")
    assert [row[0].text for row in sheet.rows][3:] == ["rsso - sso - reflexion-sso + react-sso"]


def test_a_square_over_fewer_units_than_a_comparison_has_a_test_of_its_own():
    arms = corners(20, 40, 30, 70)
    arms["reflexion-sso"] = arms["reflexion-sso"][::2]
    found = compare_all(arms)
    (square,) = found.squares.values()
    (pair,) = (pair for pair in found.comparisons if pair.name == "rsso - sso")
    assert (pair.pairs, square.pairs, found.tests) == (20, 10, 7)
    for effect in (square.over_one, square.over_other, square.interaction):
        assert effect.holm >= effect.flips.p


@pytest.mark.parametrize(
    ("protocol", "shown"),
    [("adapt/4 trials=3", True), ("release/2 layout=conversation", True), ("sso-adapt/3", False),
     ("adapt/4 steps=9 layout=paper", False)],
)  # fmt: skip
def test_a_conversation_has_a_square_of_either_scaffold(protocol, shown):
    names = ("react", "reflexion", "sso", "rsso")
    units = [replace(unit, protocol=protocol) for name in names for unit in arm(name, lambda t, _: t)]
    assert [square.corners for square in compare_all(group_by_arm(units)).squares.values()] == [names] * shown
    asked = select_contrasts(group_by_arm(units))
    over_retries = {second for (first, second), asks in asked.items() if (first, asks) == ("react", OVER_RETRIES)}
    assert over_retries == ({"reflexion", "sso", "rsso"} if shown else {"reflexion"})
    units = [replace(unit, method=f"{unit.method}+constitution") for unit in units]
    names = [name for name, _ in select_contrasts(group_by_arm(units))]
    assert (names.count("react") == 3) == shown


def test_arms_under_other_rules_are_compared_and_the_rules_named():
    ours = arm("sso", lambda t, _: t)
    theirs = [replace(unit, arm="rsso", protocol="adapt/4", budget=unit.budget + unit.variant.index) for unit in ours]
    assert compare_arms("sso", ours, "rsso", ours).unlike == ""
    said = "protocols sso-adapt/3 and adapt/4; 6 of 12 pairs with other numbers of steps per trial"
    assert compare_arms("sso", ours, "rsso", theirs).unlike == said
    notes = next(sheet.notes for sheet in build_tables(analyze([*ours, *theirs])) if sheet.name == "differences")
    assert f"rsso - sso: the arms differ in more than the method: {said}." in notes


FOUR = ("react", "reflexion", "sso", "rsso")
DEFAULT = {
    "adapt/3": {
        ("react", "reflexion"): "memory over equal retries",
        ("react", "sso"): "memory over equal retries",
        ("sso", "rsso"): "reflections beside skills",
        ("reflexion", "rsso"): "skills beside reflections",
        ("react", "rsso"): "memory over equal retries",
    },
    "sso-adapt/2": {
        ("react", "reflexion"): "memory over equal retries",
        ("sso", "rsso"): "reflections beside skills",
        ("reflexion", "rsso"): "skills beside reflections",
    },
}
"""Protocol to the comparisons of the paper's four arms: both headlines of its abstract are among them."""


@pytest.mark.parametrize("protocol", DEFAULT)
def test_both_headlines_of_the_paper_are_compared_by_default(protocol):
    units = [replace(unit, protocol=protocol) for name in FOUR for unit in arm(name, lambda t, _: t)]
    assert select_contrasts(group_by_arm(units)) == DEFAULT[protocol]


def test_the_second_headline_is_asked_only_where_all_four_arms_are():
    for absent in FOUR:
        names = [name for name in FOUR if name != absent]
        contrasts = select_contrasts({name: arm(name, lambda t, _: t) for name in names})
        assert BESIDE_REFLECTIONS not in contrasts.values()


def test_the_points_of_table_2_give_both_headlines_and_the_gain_of_reflection_in_the_flat_scaffold():
    """rSSO, abstract: 8.95 points above SSO and 6.28 above Reflexion, differences of means of two digits. Section 5:
    58.37 to 82.13, 23.76 points."""
    found = {pair.name: pair.difference for pair in analyze(play_table_2()).comparisons}
    assert found == {
        "reflexion - react": pytest.approx(23.76, abs=0.01),
        "rsso - sso": pytest.approx(8.95, abs=0.01),
        "rsso - reflexion": pytest.approx(6.28, abs=0.01),
    }


def test_every_default_comparison_counts_for_the_correction():
    """Of the paper's three, each p is multiplied: the smallest by three."""
    pairs = analyze(play_table_2()).comparisons
    smallest = min(pairs, key=lambda pair: pair.flips.p)
    assert smallest.holm == pytest.approx(3 * smallest.flips.p)


def test_arms_of_two_scaffolds_are_said_to_be_unless_both_send_the_same():
    ours, theirs = arm("reflexion", lambda t, _: t), arm("rsso", lambda t, _: t)
    assert compare_arms("reflexion", ours, "rsso", theirs).unlike == "scaffolds flat and sso"
    talking = [[replace(unit, protocol="adapt/3") for unit in units] for units in (ours, theirs)]
    assert compare_arms("reflexion", talking[0], "rsso", talking[1]).unlike == ""


def test_units_that_failed_a_first_trial_which_both_arms_played_alike_are_a_stratum():
    ours = [record("react", task, 0, trials, allowed=2) for task, trials in zip(TASKS, ALIKE, strict=True)]
    theirs = [replace_second(record("reflexion", unit.variant.task, 0, [[0]], allowed=2), unit, 90) for unit in ours]
    failed, plateau = compare_arms("react", ours, "reflexion", theirs).gains
    assert (failed.stratum, failed.units, failed.difference) == ("failed the shared first trial", 4, 42.5)
    assert failed.interval.clusters == 4
    assert (plateau.stratum, plateau.units, plateau.difference) == ("paper's plateau", 3, 60)
    assert plateau.interval is None, "it is chosen by the first arm's own luck"


def replace_second(theirs, unit, score):
    """A unit of the other arm that played the same first trial and then had this score."""
    other = record(theirs.arm, unit.variant.task, 0, [[0], [score]], allowed=2)
    return replace(theirs, trials=(unit.trials[0], other.trials[1]))


ALIKE = [[[100]], [[100]], [[30], [100]], [[30], [30]], [[30], [30]], [[30], [30]]]
"""Scores of six units; all but two fail the first trial, and three of these the second."""


@pytest.mark.parametrize("known", [True, False])
def test_first_trials_of_which_only_success_is_known_make_no_stratum(known):
    units = [record(name, task, 0, [[0], [0]], allowed=2) for name in ("react", "reflexion") for task in TASKS]
    if not known:
        units = [replace(unit, trials=tuple(map(forget_steps, unit.trials))) for unit in units]
    found = compare_arms("react", units[: len(TASKS)], "reflexion", units[len(TASKS) :])
    assert [gain.stratum for gain in found.gains] == ["failed the shared first trial"] * known + ["paper's plateau"]


def forget_steps(result):
    return replace(result, trajectory=replace(result.trajectory, steps=()))


def test_arms_without_a_common_unit_have_no_strata():
    ours, theirs = record("react", "boil", 0, [[10], [20]]), record("reflexion", "boil", 1, [[10], [20]])
    assert compare_arms("react", [ours], "reflexion", [theirs]).gains == ()


def test_a_stratum_of_one_task_type_has_no_interval_among_those_over_task_types():
    """It would be about other variants of that type."""
    parts = [("large",)] * 5 + [("small",)]
    strata = dict(zip(TASKS, parts, strict=True))
    ours = [record("react", task, index, [[0]]) for task in TASKS for index in range(4)]
    theirs = [record("reflexion", task, index, [[20 * index]]) for task in TASKS for index in range(4)]
    ours, theirs = ([replace(unit, strata=strata[unit.variant.task]) for unit in units] for units in (ours, theirs))

    gains = {gain.stratum: gain for gain in compare_arms("react", ours, "reflexion", theirs).gains}
    assert gains["large"].interval is not None
    assert (gains["small"].units, gains["small"].interval) == (4, None)


def test_first_trials_that_differ_make_no_stratum():
    ours = [record("react", task, 0, [[10], [20]], allowed=2) for task in TASKS]
    theirs = [record("reflexion", task, 0, [[10 + (task == "boil")], [50]], allowed=2) for task in TASKS]
    (plateau,) = compare_arms("react", ours, "reflexion", theirs).gains
    assert (plateau.stratum, plateau.units) == ("paper's plateau", 6)


def test_an_arm_that_may_play_more_trials_is_compared_by_as_many_as_the_other():
    ours = [record("react", task, 0, [[10], [20], [70]]) for task in TASKS]
    theirs = [record("omnireflect-symbolic", task, 0, [[30]]) for task in TASKS]
    at_once = [record("omnireflect-symbolic", task, 0, [[100]], allowed=1) for task in TASKS]
    for other, difference in ((theirs, 20), (at_once, 90)):
        found = compare_arms("react", ours, "omnireflect-symbolic", other)
        assert (found.trials, found.may_play, found.difference) == (1, (3, 1), difference)
    assert [gain.units for gain in compare_arms("react", ours, "omnireflect-symbolic", theirs).gains] == [6]


@pytest.mark.parametrize("allowed", [3, 0])
def test_an_arm_that_was_solved_early_does_not_take_trials_from_the_other(allowed):
    ours = [record("react-sso", task, 0, [[100]], allowed=allowed) for task in TASKS]
    theirs = [record("rsso", task, 0, [[0], [50], [100]]) for task in TASKS]
    found = compare_arms("react-sso", ours, "rsso", theirs)
    assert (found.trials, found.difference) == (3, 0)
    late = [record("rsso", task, 0, [[0], [50], [90]]) for task in TASKS]
    assert compare_arms("react-sso", ours, "rsso", late).by_task == dict.fromkeys(TASKS, -10)
    corners = {"react-sso": late, "reflexion-sso": late, "sso": ours, "rsso": theirs}
    assert compute_factorial(corners).means == (90, 90, 100, 100)


def test_every_memory_is_compared_with_equal_retries_of_its_scaffold_wherever_it_stands():
    names = ["reflexion", *(name for name in METHODS if name != "reflexion")]
    asked = select_contrasts({name: [record(name, "boil", 0, [[1]])] for name in names})
    controls = {second: first for (first, second), asks in asked.items() if asks == OVER_RETRIES}
    kept = {name for name, row in METHODS.items() if row.memories}
    assert set(controls) == kept
    assert {controls[name] for name in kept if METHODS[name].scaffold == "sso"} == {"react-sso"}
    assert (controls["awm"], controls["exprag"]) == ("react-sso", "react")


def test_of_several_folders_each_has_its_own_comparisons_first():
    arms = {
        f"{method} temperature={temperature}": [record(method, "boil", 1, [[score]])]
        for temperature in (0, 1)
        for method, score in (("react", 10), ("reflexion", 60 - 50 * temperature))
    }
    assert list(select_contrasts(arms)) == [
        ("react temperature=0", "reflexion temperature=0"),
        ("react temperature=1", "reflexion temperature=1"),
        ("react temperature=0", "react temperature=1"),
        ("reflexion temperature=0", "reflexion temperature=1"),
    ]
    differences = [comparison.difference for comparison in compare_all(arms).comparisons]
    assert differences == [50, 0, 0, -50]
