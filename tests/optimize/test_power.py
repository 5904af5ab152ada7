"""The power that the plan of a compile tells is that of the test which decides."""

import random

import pytest

from rsso_dspy.optimize.confirming import (
    FLIP,
    FLIPPED,
    LARGEST_GAIN,
    compute_p,
    compute_power,
    count_needed_pairs,
    find_smallest_gain,
)


def confirm_by_dice(gain, pairs, seeds, draws=300):
    """The share of confirmations by dice of the test's own, every one through `compute_p`."""
    dice, confirmed = random.Random(7), 0
    up = 0.5 + gain / (2 * FLIPPED * FLIP)

    def flip():
        return (dice.random() < FLIPPED) * dice.uniform(0.4, 0.5) * (1 if dice.random() < up else -1)

    for _ in range(draws):
        differences = [round(sum(flip() for _ in range(seeds)) / seeds, 2) for _ in range(pairs)]
        confirmed += compute_p(differences) < 0.05
    return confirmed / draws


@pytest.mark.parametrize(("pairs", "seeds"), [(53, 1), (12, 3), (30, 2)])
def test_the_smallest_gain_is_confirmed_in_four_of_five(pairs, seeds):
    gain = find_smallest_gain(pairs, seeds)
    assert confirm_by_dice(gain, pairs, seeds) == pytest.approx(0.8, abs=0.07)
    assert compute_power(gain, pairs, seeds) >= 0.8 > compute_power(gain - 0.001, pairs, seeds)


@pytest.mark.parametrize(
    ("pairs", "seeds", "power"), [(4, 1, 0), (6, 1, 0.01), (9, 1, 0.09), (6, 3, 0.29), (18, 1, 0.6)]
)
def test_no_gain_is_promised_where_the_largest_is_seldom_confirmed(pairs, seeds, power):
    assert find_smallest_gain(pairs, seeds) is None
    assert compute_power(LARGEST_GAIN, pairs, seeds) == pytest.approx(power, abs=0.05)
    assert confirm_by_dice(LARGEST_GAIN, pairs, seeds) == pytest.approx(power, abs=0.07)


@pytest.mark.parametrize("seeds", [1, 3])
def test_so_many_pairs_are_needed_and_one_less_is_too_few(seeds):
    needed = count_needed_pairs(0.1, seeds)
    assert compute_power(0.1, needed, seeds) >= 0.8 > compute_power(0.1, needed - 1, seeds)
    assert count_needed_pairs(0.05, seeds) > 3 * needed


def test_equal_programs_are_seldom_confirmed():
    assert compute_power(0.0, 53) <= 0.075


def test_more_pairs_and_more_seeds_confirm_smaller_gains():
    gains = [find_smallest_gain(pairs) for pairs in (30, 53, 141)]
    assert gains == sorted(gains, reverse=True)
    assert find_smallest_gain(53, 3) < find_smallest_gain(53, 1)
