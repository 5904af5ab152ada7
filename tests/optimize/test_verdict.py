"""Racing, choosing and confirming, with scores that a table gives; the test behind a verdict, its power, and `confirm`
for any two programs: no simulator and no model."""

import random
from collections import Counter
from dataclasses import replace

import dspy
import pytest

from benchmarks.junk import SimulatedRollouts, make_candidates, make_trier
from rsso_dspy.config import load_config
from rsso_dspy.errors import UsageError
from rsso_dspy.optimize import confirm
from rsso_dspy.optimize import verdict as judging
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.compile import build_request, describe_power, play_phases
from rsso_dspy.optimize.optimizers import OPTIMIZERS, Search, UnsolvedBatches, get_optimizer
from rsso_dspy.optimize.rollouts import CompileStopped, choose_candidate
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import get_method
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.report.intervals import UnitValue, estimate_interval, estimate_mean
from rsso_dspy.report.statistics import run_flip_test, run_sign_test, run_wilcoxon_test
from rsso_dspy.sign_flips import compute_one_sided_p

TWO = ["boil", "freeze"]
THREE = [*TWO, "find-plant"]


def request(tasks=None, **changes):
    calibration = draw_calibration("1-per-task", tasks, 0)
    return build_request(get_method("rsso"), resolve_protocol(load_config()), calibration, **changes)


class Table(SimulatedRollouts):
    """Rollouts whose scores a function of candidate number and variant gives."""

    def __init__(self, wanted, score):
        super().__init__(wanted, {}, 0)
        self.score, self.told = score, []

    def _play_variant(self, program, job):  # noqa: ARG002
        name, variant, repeat = job
        number = self.candidates[name].number
        self.told.append((number, variant, repeat))
        return judging.Rollout(variant, self.score(number, variant, repeat), (), (), ())


def play(wanted, score, candidates=2):
    wanted = replace(wanted, optimizer=make_trier(make_candidates(candidates)))
    return play_all(Table(wanted, score))


def play_all(rollouts):
    play_phases(Agent("rsso"), rollouts)
    start, chosen = next(iter(rollouts.candidates.values())), choose_candidate(rollouts)
    kept = (rollouts.wanted.calibration.confirm, rollouts.seeds, rollouts.unconfirmed)
    return rollouts, judging.judge_candidate(start, chosen, *kept)


# A compile


@pytest.mark.parametrize(
    ("on_val", "on_confirm", "verdict"),
    [
        *((0.9, score, verdict) for score, verdict in ((0.5, "not better"), (0.4, "not better"), (0.6, "confirmed"))),
        *((score, 0.9, "not better") for score in (0.5, 0.4)),
    ],
)
def test_what_looked_better_on_val_has_to_be_so_on_confirm_which_nothing_else_plays(on_val, on_confirm, verdict):
    wanted = request(TWO)
    val, confirm = wanted.calibration.val, wanted.calibration.confirm
    scores = {**dict.fromkeys(val, on_val), **dict.fromkeys(confirm, on_confirm)}
    rollouts, found = play(wanted, lambda number, variant, _: scores[variant] if number == 3 else 0.5)
    chosen = on_val > 0.5
    assert (found.verdict, choose_candidate(rollouts) is not None) == (verdict, chosen)
    assert found.difference == (pytest.approx(on_confirm - 0.5) if chosen else None)
    met = [number for number, variant, _ in rollouts.told if variant in confirm]
    assert met == [0, 3] * len(confirm) * chosen, "by the program to improve and the chosen one alone"
    assert rollouts.spent <= wanted.max_rollouts


def test_a_hopeless_candidate_is_dropped_and_its_score_estimated():
    wanted = request()
    rollouts, _ = play(wanted, lambda number, *_: 0.0 if number == 2 else 0.5)
    start, _, bad, other = rollouts.candidates.values()
    val = wanted.calibration.val
    assert (bad.dropped, other.dropped) == (True, False)
    assert len([v for v in val if v in bad.rollouts]) == 5, "one block of four"
    assert judging.estimate_score(bad, start, next(v for v in val if v not in bad.rollouts), 1) == 0.0


@pytest.mark.parametrize(("placebo", "played"), [(0.5, 5), (0.0, 15)])
def test_how_much_equal_programs_differ_is_read_off_the_placebo(placebo, played):
    wanted = request()
    first = wanted.calibration.val[:5]
    scores = {1: placebo, 2: 0.2}
    rollouts, _ = play(
        wanted, lambda number, variant, _: scores.get(number, 0.5) if variant in first or number == 1 else 0.5
    )
    _, _, unlucky, *_ = rollouts.candidates.values()
    assert (unlucky.dropped, len(unlucky.rollouts)) == (True, played)


@pytest.mark.parametrize(
    ("scores", "chosen", "verdict"),
    [({1: 0.9, 2: 0.6}, 2, "confirmed"), ({1: 0.9}, None, "not better"), ({}, None, "not better")],
)
def test_a_placebo_that_wins_is_never_chosen(scores, chosen, verdict):
    rollouts, found = play(request(TWO), lambda number, *_: scores.get(number, 0.5))
    assert [each.placebo for each in rollouts.candidates.values()] == [False, True, False, False]
    assert (getattr(choose_candidate(rollouts), "number", None), found.verdict) == (chosen, verdict)


def test_seeds_are_means_of_val_and_confirm():
    wanted = request(TWO, seeds=2)
    rollouts, found = play(wanted, lambda number, _, repeat: 0.5 + (0.4 if number == 2 and repeat else 0.0))
    assert (found.difference, found.seeds, found.pairs) == (pytest.approx(0.2), 2, len(wanted.calibration.confirm))
    assert {repeat for _, variant, repeat in rollouts.told if variant in wanted.calibration.val} == {0, 1}
    assert rollouts.spent <= wanted.max_rollouts


def test_junk_is_seldom_confirmed_and_a_true_gain_of_10_points_mostly():
    """A few of the compiles of `benchmarks/junk.py`, with the same dice."""
    programs = make_candidates(3)
    good = fingerprint_program(programs[0])
    confirmed = {0.0: 0, 0.1: 0}
    for gain in confirmed:
        for number in range(8):
            trier = make_trier(random.Random(number).sample(programs, 3))
            _, found = play_all(SimulatedRollouts(replace(request(), optimizer=trier), {good: gain}, number))
            confirmed[gain] += found.verdict == "confirmed"
    assert confirmed[0.0] <= 1
    assert confirmed[0.1] >= 5


def test_gepa_leaves_out_what_is_solved_and_ends_with_the_last():
    wanted = request(THREE, max_rollouts=1000)
    calibration = wanted.calibration
    rollouts = Table(wanted, lambda _, variant, __: 0.3 if variant == calibration.train[1] else 1.0)
    agent = Agent("rsso")
    rollouts.play_all(agent, calibration.val)
    batches = UnsolvedBatches(Search(agent, rollouts))
    assert sorted(batches.next_minibatch_ids(None, None)) == [0, 1, 2]
    rollouts.play_all(agent, calibration.train)
    assert [batches.next_minibatch_ids(None, None) for _ in range(2)] == [[1], [1]], "the only one that is not solved"
    rollouts.score = lambda *_: 1.0
    rollouts.play_all(make_candidates(1)[0], calibration.variants)
    next(iter(rollouts.candidates.values())).dropped = True
    with pytest.raises(CompileStopped):
        batches.next_minibatch_ids(None, None)
    assert "every train variant was solved" in rollouts.search_end


# Budgets, and what they can confirm


def test_the_default_budget_of_every_optimizer_leaves_room_to_confirm_and_a_smaller_one_says_so_afterwards():
    for name in (name for name, row in OPTIMIZERS.items() if row.searches):
        wanted = request(THREE, optimizer=name)
        assert wanted.reserved == wanted.calibration.confirm_rollouts == 18
        assert wanted.max_rollouts - wanted.reserved >= get_optimizer(name).least(wanted.calibration)
    _, found = play(replace(request(TWO, max_rollouts=12), placebos=0), lambda number, *_: 0.9 if number else 0.5)
    assert (found.verdict, found.pairs, "too few rollouts" in found.why) == ("unconfirmed", 0, True)


@pytest.mark.parametrize(
    ("tasks", "changes", "said"),
    [
        (None, {}, ["a true gain of 7.9 points or more is confirmed in four of five"]),
        (TWO, {}, ["a true gain of 12.6 points", "is confirmed in 0 of 100"]),
        (THREE, {}, ["28% of rollouts flip by 45 points", "in 9 of 100", "; a larger --calib"]),
        (TWO, {"seeds": 3}, ["in 30 of 100", "6 confirm variants with 3 seeds each"]),
        (TWO, {"max_rollouts": 12}, ["it can confirm nothing: 12 rollouts are too few"]),
        (["boil"], {}, ["it can confirm nothing: 3 confirm variants", "it takes at least 5"]),
    ],
)
def test_a_plan_tells_the_smallest_gain_or_what_would_do(tasks, changes, said):
    (line,) = describe_power(request(tasks, **changes), rule_based=True)
    assert [part for part in said if part not in line] == [], line
    assert not list(describe_power(request(optimizer="none"), rule_based=True))


def test_the_plan_of_a_models_compile_promises_what_its_spread_allows():
    """42 confirm variants on which equally good programs differ by 50 points: (1.645 + 0.842) * 50 / sqrt(42), 19.2."""
    (line,) = describe_power(request(FOURTEEN), rule_based=False)
    assert "a true gain of about 19.2 points or more is confirmed in four of five" in line
    assert "42 confirm variants" in line
    assert "a standard deviation of 50 points" in line


CONFIRM = Counter(variant.task for variant in draw_calibration("1-per-task", None, 0).confirm)
FOURTEEN = [task for task, variants in CONFIRM.items() if variants == 3][:14]


def confirm_by_dice(gain, pairs, seeds, draws=300):
    """The share of confirmations by dice of the test's own, every one through `compute_one_sided_p`."""
    dice, confirmed = random.Random(7), 0
    up = 0.5 + gain / (2 * judging.FLIPPED * judging.FLIP)

    def flip():
        return (dice.random() < judging.FLIPPED) * dice.uniform(0.4, 0.5) * (1 if dice.random() < up else -1)

    for _ in range(draws):
        differences = [round(sum(flip() for _ in range(seeds)) / seeds, 2) for _ in range(pairs)]
        confirmed += compute_one_sided_p(differences) < 0.05
    return confirmed / draws


@pytest.mark.parametrize(
    ("pairs", "seeds", "power"), [(53, 1, 0.8), (12, 3, 0.8), (4, 1, 0), (6, 3, 0.29), (18, 1, 0.6)]
)
def test_the_smallest_gain_is_confirmed_in_four_of_five_and_none_is_promised_where_that_is_too_much(
    pairs, seeds, power
):
    gain = judging.find_smallest_gain(pairs, seeds)
    assert (gain is None) == (power < 0.8)
    assert confirm_by_dice(gain or judging.LARGEST_GAIN, pairs, seeds) == pytest.approx(power, abs=0.07)
    assert judging.compute_power(gain or judging.LARGEST_GAIN, pairs, seeds) == pytest.approx(power, abs=0.05)
    if gain:
        assert judging.compute_power(gain, pairs, seeds) >= 0.8 > judging.compute_power(gain - 0.001, pairs, seeds)
        assert confirm_by_dice(0, pairs, seeds) <= 0.08 >= judging.compute_power(0.0, pairs, seeds)
        assert judging.find_smallest_gain(2 * pairs, seeds) < gain > judging.find_smallest_gain(pairs, seeds + 2)


# The test


VERDICTS = [
    *(([0.5] * 5, "confirmed"), ([0.5] * 4 + [0.4], "confirmed"), ([0.5] * 4, "unconfirmed")),
    *(([0.5] * 5 + [-0.5], "unconfirmed"), ([0.0] * 9, "not better"), ([-0.5] * 9, "not better")),
    ([-0.5] * 5 + [0.4] * 4 + [0.0] * 5, "unconfirmed"),  # a loss that does not rule out a gain
]


@pytest.mark.parametrize(("differences", "verdict"), VERDICTS)
def test_the_interval_holds_0_unless_it_is_confirmed(differences, verdict):
    found = judging.compare_pairs(differences)
    assert found.verdict == verdict
    if len(differences) < 6 and len(set(differences)) == 1:
        assert found.interval is None, "so few pairs exclude nothing, or nothing but themselves"
    else:
        low, high = found.interval
        assert (low > 1e-6) == (verdict == "confirmed")
        assert low - 1e-6 <= found.difference <= high + 1e-6


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ([1, 1, 1, 1, 1], 1 / 2**5),  # five types of three variants each, all up: of 32 arrangements one
        ([1, 1, 1, 1, -1], 6 / 2**5),
        ([1, 1, 1, 1], 1 / 2**12),  # of four types the twelve variants are flipped
    ],
)
def test_of_five_task_types_or_more_the_signs_of_a_type_are_flipped_together(gains, p):
    """Three variants a type gain alike, so a sign each would call nearly everything confirmed."""
    variants = [Variant(f"type-{number}", index) for number in range(len(gains)) for index in range(3)]
    start, chosen = (judging.CandidateProgram(name, {}) for name in ("start", "chosen"))
    for variant in variants:
        for program, score in ((start, 0.4), (chosen, 0.4 + 0.3 * gains[int(variant.task[5:])])):
            program.rollouts[variant] = {0: judging.Rollout(variant, score, (), (), ())}
    found = judging.judge_candidate(start, chosen, variants)
    assert found.p == pytest.approx(p, abs=1e-6)
    assert found.types == (len(gains) if len(gains) >= 5 else 0)
    assert (f"variants of {len(gains)} task types" in str(found)) == (len(gains) >= 5)


# Any two programs


class Knows(dspy.Module):
    """Is right below a bound."""

    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, number):
        return dspy.Prediction(right=number < self.bound)


def right(_, prediction):
    return prediction.right


EXAMPLES = [dspy.Example(number=n).with_inputs("number") for n in range(20)]


@pytest.mark.parametrize("threads", [1, 3])
def test_two_programs_are_compared_example_by_example_and_an_error_is_no_score(threads):
    found = confirm(Knows(5), Knows(12), EXAMPLES, right, num_threads=threads)
    assert (found.verdict, found.difference, found.p) == ("confirmed", pytest.approx(0.35), 0.5**7)
    assert found.scores_b == (1.0,) * 12 + (0.0,) * 8
    assert str(confirm(Knows(12), Knows(5), EXAMPLES, right)).startswith("not better: -0.350 on 20 examples, 90% ")
    assert confirm(Knows(5), Knows(7), EXAMPLES, right).verdict == "unconfirmed"
    with pytest.raises(ZeroDivisionError):
        confirm(Knows(5), Knows(6), EXAMPLES, lambda *_: 1 / 0, num_threads=threads)


@pytest.mark.parametrize(
    ("examples", "options", "metric", "said"),
    [
        ([], {}, right, "no examples"),
        ([EXAMPLES[0]] * 5, {}, right, "4 of the 5 examples equal an earlier one"),
        (EXAMPLES, {"level": 1.0}, right, "between 0 and 0.5"),
        (EXAMPLES, {}, lambda *_: "good", "score of example 1 is 'good': only numbers from"),
    ],
)
def test_what_cannot_be_compared_is_refused(examples, options, metric, said):
    with pytest.raises(UsageError, match=said):
        confirm(Knows(5), Knows(6), examples, metric, **options)


@pytest.mark.parametrize(("bad", "shown"), [("nan", "nan"), ("1e308", r"1e\+308"), (9**999, "inf")])
def test_a_score_that_cannot_be_compared_is_refused_by_its_number(bad, shown):
    """The only one that is bad is the third."""
    scores = [0.5, 0.0, bad if isinstance(bad, int) else float(bad), *[0.25] * 17]
    freeze = [UnitValue("freeze", number, score) for number, score in enumerate(scores)]
    for statistic, name in (
        (lambda: confirm(Knows(5), Knows(6), EXAMPLES, lambda one, _: scores[one.number]), "score of example 3"),
        (lambda: judging.compare_pairs(scores), "difference of pair 3"),
        (lambda: run_wilcoxon_test(scores), "value 3"),
        (lambda: run_sign_test(scores), "value 3"),
        (lambda: run_flip_test(scores), "value 3"),
        (lambda: estimate_interval([UnitValue("boil", 0, 1.0), *freeze]), "value 4 of freeze::2"),
        (lambda: estimate_mean(freeze), "value 3 of freeze::2"),
    ):
        with pytest.raises(UsageError, match=f"{name} is {shown}.*: only numbers from -1"):
            statistic()
