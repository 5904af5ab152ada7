"""What part of the room below a ceiling an arm fills, and parts of a benchmark as strata."""

from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import UnknownName
from rsso_dspy.records import Variant
from rsso_dspy.report.analysis import analyze, serialize_analysis
from rsso_dspy.report.compare import Question, compare_arms
from rsso_dspy.report.room import estimate_ratio, measure_room
from rsso_dspy.report.tables import build_tables, write_headline
from tests.records import record

TASKS = [f"type-{number}" for number in range(8)]
GAINS = [40, 0, 50, 30, 60, 10, 45, 25]
CEILINGS = [80, 60, 50, 90, 70, 40, 95, 75]


def play(arm: str, scores: list[int]) -> list:
    return [record(arm, task, 1, [[score]]) for task, score in zip(TASKS, scores, strict=True)]


def test_a_share_is_the_gain_over_the_gain_of_the_ceiling():
    arms = {"react": play("react", [0] * 8), "learnt": play("learnt", GAINS), "hand": play("hand", CEILINGS)}
    room = measure_room("react", "hand", arms)
    (share,) = room.shares
    assert (share.arm, share.gain, room.highest, room.objection) == ("learnt", 260 / 8, 560 / 8, "")
    assert share.share == pytest.approx(260 / 560)


def test_the_ends_of_its_interval_are_ratios_that_a_t_test_just_rejects():
    for end in estimate_ratio(GAINS, CEILINGS):
        left = [gain - end * ceiling for gain, ceiling in zip(GAINS, CEILINGS, strict=True)]
        assert ttest_1samp(left, 0).pvalue == pytest.approx(0.05)


def test_a_ratio_to_what_may_be_zero_has_no_interval():
    assert estimate_ratio(GAINS, [90, -80, 70, -60, 50, -40, 30, -20]) is None
    assert estimate_ratio([10, 20], [30, 40]) is None


def test_a_ratio_that_is_the_same_in_every_task_type_has_no_interval():
    """Such as that of an arm that differs from the bottom nowhere: types that are alike tell nothing of others."""
    assert estimate_ratio([0] * 8, CEILINGS) is None
    assert estimate_ratio(CEILINGS, CEILINGS) is None
    assert estimate_ratio([points / 2 for points in CEILINGS], CEILINGS) is None
    assert estimate_ratio([1, *[0] * 7], CEILINGS) is not None


@pytest.mark.parametrize(
    ("bottom", "ceiling", "says"),
    [
        (81, 95, "react earns 81.0 of 100 points by itself, more than 80"),
        (5, 39, "the ceiling, hand, earns 39.0 of 100 points, less than 40"),
        (50, 45, "the ceiling, hand, is not above react"),
        (80, 95, ""),
        (5, 40, ""),
    ],
)
def test_a_report_says_where_its_units_cannot_tell(bottom, ceiling, says):
    units = [*play("react", [bottom] * 8), *play("hand", [ceiling] * 8), *play("learnt", [bottom] * 8)]
    found = analyze(units, question=Question("react", ceiling="hand"))
    assert found.room.objection == says
    assert ("cannot tell what a memory is worth" in write_headline(found)) == bool(says)
    assert serialize_analysis(found)["room"]["ceiling"] == "hand"
    (sheet,) = [sheet for sheet in build_tables(found) if sheet.name == "room"]
    assert any("cannot tell" in note for note in sheet.notes) == bool(says)


def test_a_report_says_where_no_unit_is_shared_by_all_arms():
    units = [*play("react", [0] * 8), *play("hand", [90] * 8), *play("learnt", [50] * 8)]
    apart = [unit for unit in units if (unit.arm == "hand") != unit.variant.task.endswith(("0", "2", "4", "6"))]
    sentence = "The room below hand is not measured: no unit is finished by all arms."

    assert sentence in write_headline(analyze(apart, question=Question("react", ceiling="hand")))
    assert sentence not in write_headline(analyze(units, question=Question("react", ceiling="hand")))
    assert sentence not in write_headline(analyze(apart, question=Question("react")))


def test_a_ceiling_is_an_arm_that_is_compared_with_another():
    units = [*play("react", [0] * 8), *play("hand", CEILINGS)]
    with pytest.raises(UnknownName, match="unknown ceiling 'react'"):
        analyze(units, question=Question("react", ceiling="react"))


def test_arms_are_also_compared_on_each_part_of_the_benchmark():
    def mark(units: list) -> list:
        parts = [("easy", "short") if place < 3 else ("hard",) for place in range(8)]
        return [replace(unit, strata=strata) for unit, strata in zip(units, parts, strict=True)]

    found = compare_arms("react", mark(play("react", [0] * 8)), "learnt", mark(play("learnt", GAINS)))
    parts = {gain.stratum: (gain.units, gain.difference) for gain in found.gains}
    assert (parts["easy"], parts["short"], parts["hard"]) == ((3, 30), (3, 30), (5, 34))


def test_house_rules_name_how_much_a_refusal_tells_and_whether_a_rule_is_usual():
    benchmark = get_benchmark("house-rules")
    parts = [benchmark.strata(Variant(task, 8), "one") for task in benchmark.tasks.names()]
    kinds = [kind for kind, _ in parts]
    for telling in ("remedy", "fact", "error"):
        assert kinds.count(f"refusal: {telling}") == 8
    assert [usual for _, usual in parts].count("usual rule") == 6
    assert {benchmark.count_guesses(task, "one") for task in benchmark.tasks.names()} == {6, 7}
