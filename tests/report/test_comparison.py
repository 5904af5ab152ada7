"""Arms against each other: pairs, exclusions, the square of two memories, and strata."""

import pytest

from rsso_dspy.report.comparison import SQUARE, compare, corrected, gains, square
from tests.records import record

TASKS = ("boil", "freeze", "find-plant", "grow-plant", "use-thermometer", "chemistry-mix")


def arm(name: str, scores) -> list:
    """Two units of each task; `scores` gives the score of unit n of task t."""
    return [record(name, task, n, [[scores(t, n)]]) for t, task in enumerate(TASKS) for n in range(2)]


def test_pairs_are_matched_by_unit_and_what_errored_is_excluded_and_counted():
    ours, theirs = arm("sso", lambda t, _: 10 * t), arm("rsso", lambda t, n: 10 * t + 5 * n)
    theirs[0] = record("rsso", "boil", 0, [[50], None])
    ours.append(record("sso", "boil", 9, [[70]]))
    found = compare("sso", ours, "rsso", theirs)
    assert (found.pairs, found.excluded) == (11, 2)
    assert found.interval.mean == pytest.approx(6 * 5 / 11)
    assert found.interval.clusters == 6
    assert (found.sign.up, found.sign.down, found.sign.ties) == (6, 0, 0)
    assert found.wilcoxon.effect == 1


def test_who_solves_more():
    ours, theirs = arm("sso", lambda t, _: 100 if t < 2 else 50), arm("rsso", lambda t, _: 100 if t != 1 else 60)
    found = compare("sso", ours, "rsso", theirs)
    assert (found.mcnemar.gained, found.mcnemar.lost) == (8, 2)


def test_several_comparisons_are_corrected():
    base = arm("a", lambda _t, _n: 50)
    pairs = [
        compare("a", base, "b", arm("b", lambda t, _: 60 + t)),
        compare("a", base, "c", arm("c", lambda t, _: 50 - t)),
    ]
    first, second = corrected(pairs)
    assert first == pytest.approx(2 * pairs[0].wilcoxon.p)
    assert second == pytest.approx(max(first, pairs[1].wilcoxon.p))


def corners(neither, reflections, skills, both):
    return {
        name: arm(name, lambda t, _n, v=v: v + t % 2)
        for name, v in zip(SQUARE, (neither, reflections, skills, both), strict=True)
    }


@pytest.mark.parametrize(
    ("scores", "interaction", "reading"),
    [
        ((20, 40, 30, 50), 0, "compose"),
        ((20, 40, 30, 70), 20, "compose"),
        ((20, 40, 30, 40), -10, "redundant"),
        ((20, 40, 30, 25), -25, "adversarial"),
        ((20, 40, 20, 40), 0, "undecided"),
    ],
)
def test_the_square_is_read_out(scores, interaction, reading):
    found = square(corners(*scores))
    assert found.pairs == 12
    assert found.better == "reflexion-sso"
    assert found.interaction.mean == pytest.approx(interaction)
    assert found.over_better.mean == pytest.approx(scores[3] - scores[1])
    assert found.reading == reading


def test_a_square_with_noise_is_undecided_at_this_n():
    arms = corners(20, 40, 30, 41)
    arms["rsso"] = arm("rsso", lambda t, _: 41 + 30 * (-1) ** t)
    found = square(arms)
    assert found.over_better.low < 0 < found.over_better.high
    assert found.reading == "undecided"


def test_without_a_corner_there_is_no_square():
    arms = corners(20, 40, 30, 50)
    assert square({name: arms[name] for name in SQUARE[:3]}) is None
    assert square({**arms, "rsso": [record("rsso", "boil", 0, [None])]}) is None


def test_gains_by_what_became_of_the_unit_before():
    ours = [
        record("sso", "boil", 0, [[100]]),
        record("sso", "boil", 1, [[40], [40]]),
        record("sso", "boil", 2, [[40], [60]]),
    ]
    theirs = [record("rsso", "boil", n, [[70]]) for n in range(3)]
    found = {gain.stratum: (gain.units, gain.difference) for gain in gains(ours, theirs)}
    assert found == {"solved at trial 1": (1, -30), "plateau": (1, 30), "other": (1, 10)}
    assert [gain.difference for gain in gains([], [])] == [None] * 3
