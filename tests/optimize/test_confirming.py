"""Paired differences, and `confirm` for any DSPy program."""

import random
from itertools import product

import dspy
import numpy as np
import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.optimize import confirm
from rsso_dspy.optimize.confirming import (
    compare_pairs,
    compute_p,
)
from rsso_dspy.report.statistics import (
    bootstrap_mean,
    bootstrap_scores,
    run_sign_test,
    run_wilcoxon_test,
)


@pytest.mark.parametrize("differences", [[0.5, 0.5, -0.25], [0.1, 0, 0.3, -0.2, 0.45], [0.2] * 6, [-1, 0, 0], [0, 0]])
def test_p_is_the_share_of_all_arrangements_of_signs(differences):
    """Counted one by one here, sum by sum there."""
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    seen = sum(differences)
    assert compute_p(differences) == pytest.approx(sum(each >= seen - 1e-9 for each in sums) / len(sums))


DRAWN = random.Random(0)


@pytest.mark.parametrize(
    ("differences", "off"),
    [
        ([round(DRAWN.gauss(0.1, 0.3), 2) for _ in range(18)], 1e-12),
        ([DRAWN.gauss(0.1, 0.3) for _ in range(18)], 1e-4),
        ([DRAWN.choice((0, 0.5, -0.5, 0.45)) for _ in range(18)], 1e-12),
        ([DRAWN.choice((-1, 1)) * 10 ** DRAWN.uniform(-6, 3) for _ in range(18)], 1e-4),
        ([1.0] + [0.0004] * 17, 1e-12),
        ([1.0, *[0.0006] * 9, *[-0.00049] * 8], 1e-12),
        ([DRAWN.gauss(0.1, 0.3) / 3 for _ in range(17)] + [40.0], 1e-4),
    ],
)
def test_p_is_as_near_whether_differences_are_round_even_or_led_by_an_outlier(differences, off):
    sums = np.zeros(1)
    for each in differences:
        sums = np.concatenate([sums + each, sums - each])
    counted = (sums >= sum(differences) - 1e-9 * sum(map(abs, differences))).mean()
    assert compute_p(differences) == pytest.approx(counted, abs=off)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.5] * 5, "confirmed"),
        ([0.5] * 4 + [0.4], "confirmed"),
        ([0.5] * 4, "unconfirmed"),
        ([0.5] * 5 + [-0.5], "unconfirmed"),
        ([0.0] * 9, "not better"),
        ([-0.5] * 9, "not better"),
    ],
)
def test_the_interval_holds_0_unless_it_is_confirmed(differences, verdict):
    found = compare_pairs(differences)
    assert found.verdict == verdict
    if len(differences) < 6 and len(set(differences)) == 1:
        assert (found.low, found.high) == (None, None), "so few pairs exclude nothing, or nothing but themselves"
    else:
        assert (found.low > 1e-6) == (verdict == "confirmed")
        assert found.low - 1e-6 <= found.difference <= found.high + 1e-6


def test_equal_programs_are_confirmed_no_more_often_than_the_level_says():
    dice = random.Random(0)
    flips = [
        [dice.choice((-1, 1)) * dice.uniform(0.4, 0.5) * (dice.random() < 0.28) for _ in range(54)] for _ in range(400)
    ]
    assert sum(compute_p(each) < 0.05 for each in flips) / len(flips) <= 0.075


class Knows(dspy.Module):
    """Is right below a bound; with a seed, the bound moves."""

    def __init__(self, bound, wobble=0):
        super().__init__()
        self.bound, self.wobble = bound, wobble

    def forward(self, number, seed=0):
        return dspy.Prediction(right=number < self.bound + self.wobble * seed)


def right(_, prediction):
    return prediction.right


EXAMPLES = [dspy.Example(number=n).with_inputs("number") for n in range(20)]


@pytest.mark.parametrize("threads", [1, 3])
def test_two_programs_are_compared_example_by_example(threads):
    found = confirm(Knows(5), Knows(12), EXAMPLES, right, num_threads=threads)
    assert (found.verdict, found.difference, found.p) == ("confirmed", pytest.approx(0.35), 0.5**7)
    assert found.scores_b == (1.0,) * 12 + (0.0,) * 8
    assert confirm(Knows(12), Knows(5), EXAMPLES, right).verdict == "not better"
    assert confirm(Knows(5), Knows(7), EXAMPLES, right).verdict == "unconfirmed"


def test_seeds_are_means_and_not_examples():
    found = confirm(Knows(5), Knows(5, wobble=2), EXAMPLES, right, seeds=3)
    assert found.pairs == 20
    assert found.scores_b[5:9] == pytest.approx((2 / 3, 2 / 3, 1 / 3, 1 / 3))


def test_the_model_of_a_program_without_seeds_is_asked_by_rollout():
    asked = []

    class Asks(dspy.Module):
        def forward(self, number):  # noqa: ARG002
            asked.append(dspy.settings.lm.kwargs.get("rollout_id"))
            return dspy.Prediction(right=True)

    with dspy.context(lm=dspy.LM("openai/none", temperature=1.0)):
        confirm(Asks(), Asks(), EXAMPLES[:1], right, seeds=3)
    assert sorted(asked, key=str) == [1, 1, 2, 2, None, None]


def test_an_error_is_raised_and_no_score():
    class Fails(dspy.Module):
        def forward(self, number):
            raise ConnectionError(f"no answer to {number}")

    with pytest.raises(ConnectionError, match="no answer"):
        confirm(Knows(5), Fails(), EXAMPLES, right)


@pytest.mark.parametrize(
    ("examples", "options", "metric", "said"),
    [
        ([], {}, right, "no examples"),
        ([EXAMPLES[0]] * 5, {}, right, "4 of the 5 examples equal an earlier one"),
        ([*EXAMPLES, dspy.Example(number=3).with_inputs("number")], {}, right, "1 of the 21 examples"),
        (EXAMPLES, {"seeds": 0}, right, "0 times; ask for 1 to"),
        (EXAMPLES, {"seeds": 10**9}, right, "ask for 1 to"),
        (EXAMPLES, {"level": 1.0}, right, "between 0 and 0.5"),
        (EXAMPLES, {}, lambda *_: "good", "score of example 1 is 'good': only numbers from"),
        (EXAMPLES, {}, lambda *_: None, "score of example 1 is None: only numbers from"),
    ],
)
def test_what_cannot_be_compared_is_refused(examples, options, metric, said):
    with pytest.raises(UsageError, match=said):
        confirm(Knows(5), Knows(6), examples, metric, **options)


@pytest.mark.parametrize(
    ("bad", "shown"),
    [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("1e308", r"1e\+308"), ("-1e8", "-1000"), (9**999, "inf")],
)
def test_a_score_that_cannot_be_compared_is_refused_by_its_number(bad, shown):
    """The only one that is bad is the third."""
    bad = bad if isinstance(bad, int) else float(bad)
    differences = [0.5, 0.0, bad, 0.25, 0.5, 1.0]

    def score_third_badly(example, prediction):
        return bad if example.number == 2 else prediction.right

    for statistic, name in (
        (lambda: confirm(Knows(5), Knows(6), EXAMPLES, score_third_badly, seeds=2), "score of example 3"),
        (lambda: compare_pairs(differences), "difference of pair 3"),
        (lambda: compute_p(differences), "difference of pair 3"),
        (lambda: run_wilcoxon_test(differences), "value 3"),
        (lambda: run_sign_test(differences), "value 3"),
        (lambda: bootstrap_mean({"boil": [1.0], "freeze": differences}), "value 3 of freeze"),
        (lambda: bootstrap_scores([("boil", each) for each in differences]), "value 3 of boil"),
    ):
        with pytest.raises(UsageError, match=f"{name} is {shown}.*: only numbers from -1"):
            statistic()
