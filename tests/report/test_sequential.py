"""Tests that hold however often one looks between announced rounds: of arrays, against their sources' own values."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from rsso_dspy.report.sequential import (
    BETS,
    bet_on_no_gain,
    check_no_gain,
    find_crossing,
    follow_rounds,
    list_margins,
    spend_level,
)
from rsso_dspy.report.verdicts import RoundEvidence, judge_rounds
from rsso_dspy.sign_flips import compute_two_sided_p

MARGINS = np.array([5.0, 10.0, 20.0, 40.0])


def draw(types, rounds, shift=0.0, seed=0, ties=0.5):
    """Differences like those of a small model: ties, and jumps of 20 to 100 points."""
    rng = np.random.default_rng(seed)
    jumps = rng.choice([20, 33, 50, 66, 100], size=(types, rounds)) * rng.choice([-1, 1], size=(types, rounds))
    return np.clip(np.where(rng.random((types, rounds)) < ties, 0.0, jumps) + shift, -100, 100)


@pytest.mark.parametrize(("share", "spent"), [(0.25, 0.0001), (0.5, 0.0056), (0.75, 0.0236), (1.0, 0.05)])
def test_the_level_is_spent_as_lan_and_demets_spend_it(share, spent):
    """Lan and DeMets 1983: 2 - 2 Phi(z / sqrt(t)), with z = 1.96 for a level of 5%."""
    assert spend_level(share, 0.05) == pytest.approx(spent, abs=5e-5)


@pytest.mark.parametrize(("types", "crossed"), [(5, 0), (6, 1), (7, 1)])
def test_a_single_look_is_the_exact_test_of_signs(types, crossed):
    """All of n signs alike have p = 2 / 2^n: .0625 of five, .03125 of six."""
    assert find_crossing(np.full((types, 1), 20.0), announced=1) == crossed
    assert find_crossing(np.full((types, 1), -20.0), announced=1) == crossed
    assert (compute_two_sided_p([20.0] * types) <= 0.05) == bool(crossed)


def follow_every_arrangement(differences, announced, level):
    """The same, written out: every arrangement is followed through the looks by itself."""
    types, rounds = differences.shape
    paths = [
        [abs(sum(sign * row[: look + 1].sum() for sign, row in zip(signs, differences, strict=True)))
         for look in range(rounds)]
        for signs in product([1, -1], repeat=types)
    ]  # fmt: skip
    gone: set[int] = set()
    for look in range(rounds):
        allowed = int(spend_level((look + 1) / announced, level) * len(paths))
        staying = sorted(
            ((path[look], number) for number, path in enumerate(paths) if number not in gone), reverse=True
        )
        for size, _ in staying:
            alike = [number for other, number in staying if abs(other - size) < 1e-9]
            if size == 0 or len(gone) + len(set(alike) - gone) > allowed:
                break
            gone |= set(alike)
        if 0 in gone:
            return look + 1
    return 0


@pytest.mark.parametrize("seed", range(12))
def test_arrangements_leave_as_if_each_were_followed_by_itself(seed):
    differences = draw(7, 4, shift=12.0 * (seed % 3), seed=seed)
    assert find_crossing(differences, 4) == follow_every_arrangement(differences, 4, 0.05)


def test_a_type_keeps_its_sign_through_all_rounds():
    """Two types that differ in every round are two differences, however many rounds there are."""
    differences = np.zeros((8, 10))
    differences[:2] = 100.0
    assert find_crossing(differences, 10) == 0


def test_little_is_spent_at_first_so_that_a_large_difference_crosses_early_and_a_small_one_late():
    large = np.full((14, 4), 50.0)
    assert find_crossing(large, 4) == 2, "of 8,192 arrangements one may leave after half of the rounds, none before"
    assert follow_rounds(large, 4).direction == "better"
    assert follow_rounds(-large, 4).direction == "worse"


def test_what_crossed_stays_crossed_whatever_comes_later():
    differences = np.hstack([np.full((14, 2), 50.0), np.full((14, 2), -50.0)])
    course = follow_rounds(differences, 4)
    assert (course.direction, course.crossed, course.mean) == ("better", 2, 0.0)


def test_more_task_types_than_can_be_arranged_are_drawn_alike_every_time():
    differences = draw(30, 4, shift=25.0)
    assert find_crossing(differences, 4) == find_crossing(differences, 4) > 0
    assert find_crossing(draw(30, 4, seed=3), 4) == 0


@pytest.mark.parametrize("margin", [5.0, 40.0])
@pytest.mark.parametrize("rounds", [1, 2])
def test_money_is_the_mean_over_bets_of_a_product_over_units(rounds, margin):
    """A bet is won where the money reached 1 / level after any round, and nowhere below."""
    differences = np.array([[0.0, 50.0], [-20.0, 0.0]])
    moneys = []
    for number in range(1, rounds + 1):
        units = differences[:, :number].ravel() / 100
        stakes = BETS / (1 - margin / 100)
        moneys.append(np.mean([np.prod(1 + stake * (margin / 100 - units)) for stake in stakes]))
    won, lost = (
        bet_on_no_gain(differences[:, :rounds], np.array([margin]), level)[-1, 0]
        for level in (1.001 / max(moneys), 0.999 / max(moneys))
    )
    assert won
    assert not lost


def test_a_bet_that_was_won_stays_won():
    differences = np.hstack([np.full((14, 2), -30.0), np.full((14, 6), 60.0)])
    won = bet_on_no_gain(differences, MARGINS, 0.025)
    assert won[1].all()
    assert won[-1].all()


def test_a_single_look_of_means_is_the_t_test():
    """One-sided over the means of task types, where six or more differ."""
    differences = draw(14, 1, seed=5, ties=0.2)
    for margin in MARGINS:
        p = ttest_1samp(differences[:, 0], margin, alternative="less").pvalue
        for level in (p * 0.99, p * 1.01):
            if level < 0.5:
                assert check_no_gain(differences, np.array([margin]), 1, level)[0, 0] == (p <= level)


def test_where_fewer_than_six_types_differ_the_means_are_not_taken_for_certain():
    """All ties: two units of +100 and -100 are assumed, whose means are 50 after two rounds of sixteen types."""
    ties = np.zeros((14, 4))
    spread = np.array([*[0.0] * 14, 50.0, -50.0]).std(ddof=1) / 4
    ruled_out = check_no_gain(ties[:, :2], np.array([40.0]), 2, 0.025)
    assert spread == pytest.approx(4.564, abs=1e-3)
    assert ruled_out[1, 0], "40 is 8.8 errors away"
    assert not check_no_gain(ties[:, :2], np.array([9.0]), 2, 0.025)[1, 0], "9 is 1.97 errors away, and 2.16 are needed"


def test_the_always_valid_interval_only_narrows_and_holds_the_mean():
    course = follow_rounds(draw(14, 10, seed=2), 10)
    assert list(course.highs) == sorted(course.highs, reverse=True)
    assert list(course.lows) == sorted(course.lows)
    assert course.low <= course.mean <= course.high
    assert course.find_ruled_out(course.high) == 1 + course.highs.index(course.high)
    assert course.find_ruled_out(course.high - 1) == 0


def test_a_gain_that_no_run_can_rule_out_leaves_the_whole_range():
    course = follow_rounds(draw(3, 1, seed=1, ties=0.0), 4)
    assert (course.low, course.high) == (-100.0, 100.0)


def test_a_margin_between_whole_points_is_an_end_of_the_interval_too():
    differences = draw(14, 10, seed=3, ties=0.8)
    coarse = follow_rounds(differences, 10)
    fine = follow_rounds(differences, 10, margins=list_margins(coarse.high - 0.5))
    just = bet_on_no_gain(differences, np.array([coarse.high - 0.5]), 0.025)
    agrees = check_no_gain(differences, np.array([coarse.high - 0.5]), 10, 0.025)
    assert (fine.high == coarse.high - 0.5) == bool(just[-1, 0] and agrees[-1, 0])
    assert bool(fine.find_ruled_out(coarse.high - 0.5)) == bool(just[-1, 0] and agrees[-1, 0])
    assert list_margins(2.5)[[0, -1]].tolist() == [-99.0, 99.0]
    assert {-2.5, 2.0, 2.5, 3.0} <= set(list_margins(2.5).tolist())
    assert 0.1 in list_margins(0.1)


def test_the_largest_possible_gain_is_not_ruled_out_before_anything_is_known():
    """An interval of -100 to +100 says nothing, of a gain of 100 points neither."""
    course = follow_rounds(draw(3, 1, seed=1, ties=0.0), 4, margins=list_margins(100.0))
    assert (course.low, course.high) == (-100.0, 100.0)
    assert course.find_ruled_out(100.0) == 0
    assert not course.rules_out_loss(100.0)
    assert judge_rounds(RoundEvidence(course), margin=100.0).word == "undecided"


LATER = {"undecided": {"better", "worse", "no gain", "no difference"}, "no gain": {"no difference", "worse"}, "no difference": {"worse"}}  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("seed", range(20))
def test_a_verdict_changes_between_looks_only_where_more_is_known(seed):
    """Drawn with a gain that turns round half way; a winner stays, and nothing becomes undecided again."""
    differences = np.hstack([draw(9, 3, 15 * (seed % 3 - 1), seed), draw(9, 3, 15 * (1 - seed % 3), seed + 100)])
    words = [
        judge_rounds(RoundEvidence(follow_rounds(differences[:, :rounds], 6)), margin=20.0).word
        for rounds in range(1, 7)
    ]
    for earlier, later in pairwise(words):
        assert later == earlier or later in LATER.get(earlier, set())


def test_directions_mirror_each_other():
    differences = draw(14, 6, shift=6.0, seed=9)
    one, other = follow_rounds(differences, 6), follow_rounds(-differences, 6)
    assert (one.low, one.high) == (-other.high, -other.low)
    assert one.crossed == other.crossed


def test_refused_units_are_left_out_and_no_round_is_nothing():
    differences = draw(14, 4, seed=4)
    differences[3, 1] = np.nan
    course = follow_rounds(differences, 4)
    assert course.mean == pytest.approx(np.nanmean(differences))
    assert follow_rounds(np.zeros((14, 0)), 4) is None
    assert follow_rounds(np.full((2, 1), np.nan), 4) is None


@pytest.mark.parametrize("spread", [0.0, 40.0])
def test_equal_arms_are_rarely_called_different(spread):
    """At most 5% in either direction, also where task types differ and their mean does not; 200 runs, fixed seed."""
    rng = np.random.default_rng(7)
    crossed = 0
    for seed in range(200):
        differences = draw(14, 4, seed=seed) + rng.choice([-spread, spread], size=(14, 1))
        crossed += find_crossing(differences, 4) > 0
    assert crossed <= 20, "11 or more have a probability of 1 in 7 where the level is kept; 21 of less than 1 in 1,000"
