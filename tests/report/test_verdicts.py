"""The word on a comparison, from its evidence."""

import pytest

from rsso_dspy.report.doses import Dose
from rsso_dspy.report.intervals import MeanInterval
from rsso_dspy.report.statistics import FlipTest
from rsso_dspy.report.verdicts import Evidence, judge_difference, read_factorial


def weigh(low, high, p=0.5, tests=1, unlike=14, clusters=14, **options):
    interval = None if low is None else MeanInterval((low + high) / 2, low, high, (high - low) / 4, clusters)
    return Evidence(56, interval, FlipTest(p, unlike, clusters), p, tests, **options)


DOSE = Dose("sso", "skills", units=1, compared=56, trials=1, possible_trials=41, are_later=True, items=1, tokens=30)

VERDICTS = [
    (weigh(3.1, 21.2, 0.012), "better", "corrected p 0.0120"),
    (weigh(-21.2, -3.1, 0.012), "worse", "corrected p 0.0120"),
    (weigh(17.3, 23.4, 0.5, unlike=2), "undecided", "2 of 14 task types differ, and a test needs 6"),
    (weigh(17.3, 23.4, 0.5, tests=4, unlike=7), "undecided", "7 of 14 task types differ, and a test needs 8"),
    (weigh(3.1, 21.2, 0.12), "undecided", "corrected p 0.12"),
    (weigh(-100, 100, 0.5, unlike=2, clusters=2), "undecided", "too few task types: 2 of 2 task types differ"),
    (weigh(-0.1, 21.2, 0.04), "undecided", "the interval holds 0"),
    (weigh(-0.1, 0.0, 0.3), "no difference of 10 points or more", "the interval reaches from -0.1 to +0.0"),
    (weigh(-9.9, 9.9, None), "no difference of 10 points or more", "-9.9 to +9.9"),
    (weigh(-10.1, 2.0, 0.5), "undecided", "the interval holds 0"),
    (weigh(3.1, 21.2, 0.012, unplayed=128), "undecided", "128 units are not played, or ended in an error"),
    (weigh(-1, 1, unplayed=1), "undecided", "1 unit is not played, or ended in an error"),
    (weigh(3.1, 21.2, 0.012, doses=(DOSE,)), "not tested", "skills in 1"),
    (weigh(None, None), "undecided", "a task type of one variant"),
    (weigh(3.1, 21.2, 0.012, over="variants"), "undecided", "one task type says nothing of others"),
]


@pytest.mark.parametrize(("evidence", "word", "reason"), VERDICTS)
def test_the_word_follows_from_test_and_interval_together(evidence, word, reason):
    found = judge_difference(evidence)
    assert str(found) == word
    assert reason in "; ".join(found.reasons)
    assert found.has_winner == (word in ("better", "worse"))


def test_the_margin_is_the_users():
    assert judge_difference(weigh(-4, 4)).word == "no difference"
    assert judge_difference(weigh(-4, 4), margin=3).word == "undecided"
    assert str(judge_difference(weigh(-4, 4), margin=4.5)) == "no difference of 4.5 points or more"


def test_both_together_are_redundant_only_where_they_lose_no_margin():
    interaction = weigh(-30, -5, 0.01)
    assert read_factorial(interaction, weigh(-4, 6), weigh(-9, 2)) == "redundant"
    assert read_factorial(interaction, weigh(-4, 6), weigh(-11, 2)) == "undecided", "it may lose 11 points"
    assert read_factorial(weigh(-30, -5, 0.2), weigh(-4, 6), weigh(-9, 2)) == "undecided"
    assert read_factorial(interaction, weigh(-9, -1, 0.01), weigh(-9, -1, 0.01)) == "adversarial"
    assert read_factorial(weigh(-5, 5), weigh(1, 9, 0.01), weigh(1, 9, 0.01)) == "compose"
    assert read_factorial(weigh(-5, 5), weigh(1, 9, 0.01), weigh(1, 9, 0.06)) == "undecided"
    assert read_factorial(weigh(-5, 5), weigh(1, 9, 0.01), weigh(1, 9, 0.01, unplayed=1)) == "undecided"
