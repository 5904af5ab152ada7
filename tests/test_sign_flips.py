"""The exact sign-flip test, against counting every arrangement of signs."""

import random

import numpy as np
import pytest

from rsso_dspy.sign_flips import compute_one_sided_p, compute_two_sided_p, count_needed_differences

DRAWN = random.Random(0)


@pytest.mark.parametrize(
    ("differences", "off"),
    [
        *((few, 1e-12) for few in ([0.5, 0.5, -0.25], [0.1, 0, 0.3, -0.2, 0.45], [0.2] * 6, [-1, 0, 0], [0, 0])),
        ([round(DRAWN.gauss(0.1, 0.3), 2) for _ in range(18)], 1e-12),
        ([DRAWN.gauss(0.1, 0.3) for _ in range(18)], 1e-4),
        ([DRAWN.choice((0, 0.5, -0.5, 0.45)) for _ in range(18)], 1e-12),
        ([DRAWN.choice((-1, 1)) * 10 ** DRAWN.uniform(-6, 3) for _ in range(18)], 1e-4),
        ([1.0] + [0.0004] * 17, 1e-12),
        ([1.0, *[0.0006] * 9, *[-0.00049] * 8], 1e-12),
        ([DRAWN.gauss(0.1, 0.3) / 3 for _ in range(17)] + [40.0], 1e-4),
    ],
)
def test_p_is_the_share_of_all_arrangements_of_signs(differences, off):
    """Counted one by one here, sum by sum there, whether they are round, even or led by an outlier."""
    sums = np.zeros(1)
    for each in differences:
        sums = np.concatenate([sums + each, sums - each])
    counted = (sums >= sum(differences) - 1e-9 * sum(map(abs, differences))).mean()
    assert compute_one_sided_p(differences) == pytest.approx(counted, abs=off)


@pytest.mark.parametrize(
    ("differences", "p"),
    [([20, 20.67], 0.5), ([-20, -20.67], 0.5), ([0, 0], 1.0), ([5, -5], 1.0), ([30, 20, 10, -40], 0.875)],
)
def test_two_sided_p_is_the_share_that_is_as_far_from_0(differences, p):
    """Of 30, 20, 10 and -40 the sum is 20: of sixteen arrangements all but two, whose sum is 0, have a sum of 20 or
    more, either way."""
    assert compute_two_sided_p(differences) == pytest.approx(p)


@pytest.mark.parametrize(("tests", "needed"), [(1, 6), (2, 7), (3, 7), (4, 8), (10, 9)])
def test_so_many_differences_of_one_sign_are_needed(tests, needed):
    """The p of n equal signs is 2 / 2^n, times the number of tests: six for one, eight for four."""
    assert count_needed_differences(tests) == needed
    assert tests * 2 / 2**needed <= 0.05 < tests * 2 / 2 ** (needed - 1)
