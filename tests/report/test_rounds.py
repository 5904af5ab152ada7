"""Comparisons of a run in rounds: what its complete rounds say, and that looking between them changes nothing."""

from dataclasses import replace

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.records import REFUSED, Announcement, Failure
from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.compare import Question
from rsso_dspy.report.drawings import build_drawings
from rsso_dspy.report.metrics import group_by_arm
from rsso_dspy.report.rounds import NOT_ANNOUNCED, TURNED_ROUND, compare_rounds, count_complete_rounds, judge_so_far
from rsso_dspy.report.tables import build_tables, write_headline
from tests.records import record

TYPES = 14


def announce(rounds=10, types=TYPES, pairs=(("react", "reflexion"),), margin=10.0):
    variants = tuple(tuple(f"type-{task:02}::{number}" for task in range(types)) for number in range(rounds))
    return Announcement(variants, tuple(pairs), margin)


def play(gains, arms=("react", "reflexion"), types=TYPES, **options):
    """Units of the first rounds. `gains(arm, task, round)` is what an arm has in its second trial of two, in points."""
    rounds = options.pop("rounds", 1)
    return [
        record(arm, f"type-{task:02}", number, [[0], [gains(arm, task, number)]], allowed=2, **options)
        for number in range(rounds)
        for task in range(types)
        for arm in arms
    ]


def judge(records, announced, question=None):
    arms = group_by_arm(records)
    (pair,) = compare_rounds(arms, question or Question(margin=announced.margin), announced).comparisons
    return pair


def helps(arm, task, number):
    return 60 if arm == "reflexion" else (task + number) % 3 * 5


def ties(arm, task, number):
    """One unit in four differs, up as often as down."""
    place = (task + 3 * number) % 8
    return 50 + 20 * (arm == "reflexion") * ((place == 0) - (place == 4))


def test_a_memory_that_helps_is_better_after_few_rounds_and_stays_so():
    announced = announce(rounds=4)
    first = judge(play(helps, rounds=1), announced)
    early, late = (judge(play(helps, rounds=rounds), announced) for rounds in (2, 3))
    assert first.verdict.word == "undecided"
    assert early.verdict.word == late.verdict.word == "better"
    assert early.verdict.reasons == late.verdict.reasons == ("decided after round 2 of 4",)
    assert early.interval.is_always_valid
    assert early.interval.low > 0


def test_where_the_interval_and_the_flips_differ_the_reasons_say_so():
    """The interval needs two tests that agree, and mostly decides later; of few task types it may come first."""

    def helps_half(arm, task, _number):
        return 20 * (arm == "reflexion") * (task % 2)

    pair = judge(play(helps_half, rounds=4), announce(rounds=4))
    assert pair.verdict.word == "better"
    assert pair.interval.low == -1.0
    assert pair.verdict.reasons[1] == "by sign flips alone: the interval, of other tests, holds 0"

    def solves(arm, *_):
        return 100 * (arm == "reflexion")

    pair = judge(play(solves, rounds=1), announce(rounds=4))
    assert pair.verdict.word == "undecided"
    assert pair.interval.low > 0
    assert pair.verdict.reasons[1] == "the interval leaves out 0, but sign flips do not rule out equal arms"


def test_a_memory_that_harms_is_worse():
    swapped = play(lambda arm, *unit: helps("react" if arm == "reflexion" else "reflexion", *unit), rounds=4)
    assert judge(swapped, announce(rounds=4)).verdict.word == "worse"


def test_a_memory_without_a_gain_is_said_to_have_none_of_the_margin():
    pair = judge(play(ties, rounds=4), announce(margin=20.0))
    assert (pair.verdict.word, str(pair.verdict)) == ("no difference", "no difference of 20 points or more")

    def harms_a_little(arm, task, number):
        return ties(arm, task, number) - 12 * (arm == "reflexion") * ((task + number) % 2)

    pair = judge(play(harms_a_little, rounds=3), announce(margin=10.0))
    assert str(pair.verdict) == "no gain of 10 points or more"
    assert pair.interval.low < -10 < pair.interval.high <= 10


def test_what_is_open_is_told_with_what_it_takes():
    found = analyze(RunRecords(play(ties, rounds=4), announced=announce(margin=2.0)))
    (pair,) = found.comparisons
    ruled_out, left = pair.verdict.reasons
    assert pair.verdict.word == "undecided"
    assert ruled_out == f"after 4 of 10 rounds a gain of {pair.interval.high:.0f} is ruled out, one of 2 is not"
    assert left == "at most 6 rounds more, about 672 model calls", "2 calls x 2 trials x 2 arms x 14 types a round"
    assert f"Undecided on other task types: reflexion - react 0.00 points (56 units, always valid 95% interval {pair.interval.low:+.1f} to" in write_headline(found)  # fmt: skip  # noqa: E501
    assert ruled_out in write_headline(found)


def test_units_of_an_unfinished_round_are_left_out_of_differences_alone():
    whole = play(ties, rounds=2)
    more = play(helps, rounds=3)[-3:]
    announced = announce()
    assert count_complete_rounds(group_by_arm([*whole, *more]), announced) == 2
    assert judge([*whole, *more], announced).pairs == judge(whole, announced).pairs == 28
    found = analyze(RunRecords([*whole, *more], announced=announced))
    assert [row.units for row in found.arms] == [29, 30]


@pytest.mark.parametrize(("is_refused", "complete", "pairs"), [(False, 1, 14), (True, 3, 41)])
def test_an_errored_unit_leaves_its_round_open_and_a_refused_one_does_not(is_refused, complete, pairs):
    units = play(ties, rounds=3)
    place = next(n for n, unit in enumerate(units) if unit.key == "type-05::1" and unit.arm == "reflexion")
    units[place] = record("reflexion", "type-05", 1, [None], allowed=2)
    if is_refused:
        refusal = Failure(REFUSED, "no such room")
        units[place] = replace(units[place], trials=(replace(units[place].trials[0], failure=refusal),))
        assert units[place].is_refused
    announced = announce()
    assert count_complete_rounds(group_by_arm(units), announced) == complete
    assert judge(units, announced).pairs == pairs


def test_a_memory_that_reached_no_prompt_is_not_tested_and_nothing_is_decided():
    announced = announce(rounds=3)
    units = play(ties, rounds=3, shown={})
    pair = judge(units, announced)
    assert (pair.verdict.word, pair.interval) == ("not tested", None)
    assert not judge_so_far(group_by_arm(units), announced).is_decided


def test_a_run_is_decided_when_each_of_its_memories_is():
    pairs = (("react", "reflexion"), ("react", "last-trajectory"))
    announced = announce(rounds=6, pairs=pairs)

    def one_helps(arm, task, number):
        return helps(arm, task, number) if arm != "last-trajectory" else helps("react", task, number)

    rounds = [
        judge_so_far(group_by_arm(play(one_helps, ("react", "reflexion", "last-trajectory"), rounds=n)), announced)
        for n in (1, 3, 6)
    ]
    assert [judged.complete for judged in rounds] == [1, 3, 6]
    assert [judged.is_decided for judged in rounds] == [False, False, True]
    assert [pair.verdict.word for pair in rounds[-1].comparisons] == ["better", "no difference"]


def test_several_memories_share_the_level():
    """Six types of one sign have p = 2 / 64 at a single look: at most .05, and not at most .025."""
    up = play(lambda arm, *_: 90 if arm != "react" else 0, ("react", "reflexion", "last-trajectory"), types=6)
    alone, both = (("react", "reflexion"),), (("react", "reflexion"), ("react", "last-trajectory"))
    words = [
        judge_so_far(group_by_arm(up), announce(1, 6, pairs)).comparisons[0].verdict.word for pairs in (alone, both)
    ]
    assert words == ["better", "undecided"]


def test_too_few_task_types_are_told():
    pair = judge(play(helps, rounds=2, types=5), announce(types=5))
    assert pair.verdict.reasons[1] == "5 task types are too few to call a memory better"


def test_other_pairs_have_differences_and_no_verdict():
    announced = announce(rounds=4, pairs=(("react", "reflexion"),))
    units = play(lambda arm, *unit: helps("reflexion" if arm == "rsso" else arm, *unit), ("react", "reflexion", "rsso"), rounds=3)  # fmt: skip  # noqa: E501
    pairs = compare_rounds(group_by_arm(units), Question(against="reflexion"), announced).comparisons
    assert [(pair.name, pair.verdict.word) for pair in pairs] == [
        ("react - reflexion", "undecided"),
        ("rsso - reflexion", "undecided"),
    ]
    assert [pair.verdict.reasons for pair in pairs] == [(TURNED_ROUND,), (NOT_ANNOUNCED,)]
    assert all(pair.interval is None and pair.flips.p is None for pair in pairs)


def test_intervals_and_tests_for_a_planned_size_are_left_out():
    """Of strata too: when a run ends depends on its results."""
    units = play(lambda arm, task, number: 40 * (arm == "reflexion") * ((task + number) % 3), rounds=4)
    pair = judge(units, announce(rounds=4))
    assert next(gain.units for gain in pair.gains) == 56
    assert all(gain.interval is None for gain in pair.gains)
    assert (pair.flips.p, pair.wilcoxon.p, pair.sign.p, pair.holm) == (None, None, None, None)


def test_figures_say_that_intervals_are_always_valid_against_whichever_arm_a_reader_asks():
    units = play(helps, ("react", "reflexion", "rsso"), rounds=4)
    found = analyze(RunRecords(units, announced=announce(rounds=4)))
    forests = build_drawings(found, units).forests
    assert "Bars: always valid 95% intervals, over task types." in forests[""].notes
    (decided, other) = forests["react"].rows
    assert (decided.second, decided.verdict, decided.is_decided) == ("reflexion", "better", True)
    assert (other.second, other.verdict, other.low) == ("rsso", "undecided", None)
    assert {row.verdict for row in forests["rsso"].rows} == {"undecided"}
    assert f"A ring has no interval: {NOT_ANNOUNCED}." in forests["rsso"].notes


def test_a_margin_between_whole_points_is_tested_as_it_is():
    """After four rounds the least gain that is ruled out lies between 9.5 and 9.75 points: of whole ones it is 10."""
    below, above = (judge(play(ties, rounds=4), announce(margin=margin)) for margin in (9.5, 9.75))
    assert below.course.highs == (100.0, 18.0, 13.0, 10.0)
    assert below.verdict.reasons[0] == "after 4 of 10 rounds a gain of 10 is ruled out, one of 9.5 is not"
    assert above.course.highs == (100.0, 18.0, 13.0, 9.75)
    assert str(above.verdict) == "no difference of 9.75 points or more"


def test_the_question_of_rounds_is_about_other_task_types():
    with pytest.raises(UsageError, match="leave --over variants out"):
        judge(play(ties, rounds=2), announce(), Question(over="variants"))


def test_tables_and_data_say_how_the_verdict_was_reached():
    found = analyze(RunRecords(play(helps, rounds=3), announced=announce(rounds=4)))
    (notes,) = [sheet.notes for sheet in build_tables(found) if sheet.name == "differences"]
    assert any("4 rounds were announced, each of a variant of 14 task types" in note for note in notes)
    assert not any("Holm" in note for note in notes if "p:" in note)
    data = serialize_analysis(found)["comparisons"][0]
    assert data["verdict"]["word"] == "better"
    assert data["interval"]["is_always_valid"]
    assert data["course"]["crossed"] == 2
    assert serialize_analysis(found)["family"] == {
        "correction": "shared level, spent over rounds",
        "size": 1,
        "tests": [{"test": "reflexion - react", "level": 0.05}],
    }
    assert "beats react on other task types by 55" in write_headline(found)
    assert "decided after round 2 of 4" in write_headline(found)
