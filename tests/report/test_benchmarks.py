"""Results by benchmark, from records made by hand."""

from dataclasses import replace

import pytest

from rsso_dspy.records import PART
from rsso_dspy.report.analysis import RunRecords, analyze_run
from rsso_dspy.report.headline import write_headline
from rsso_dspy.report.statistical_tests import bootstrap_mean, bootstrap_mean_of_means
from rsso_dspy.report.tables import build_tables
from tests.records import record

SCORES = {
    "small": {"a": (0, 100), "b": (20, 60)},
    "large": {"c": (50, 40), "d": (50, 20), "e": (50, 60), "f": (50, 20)},
}


def units(scores, left_out=()):
    """Two units of each task type; react has the first score of its pair, rsso the second."""
    return [
        replace(record(arm, task, index, [[pair[place]]]), provenance={PART: name})
        for place, arm in enumerate(("react", "rsso"))
        for name, tasks in scores.items()
        for task, pair in tasks.items()
        for index in (1, 2)
        if (arm, name) not in left_out
    ]


def test_together_every_benchmark_counts_alike_whatever_its_size():
    found = analyze_run(RunRecords(units(SCORES)))
    assert found.benchmarks is not None
    assert {part.name: [row.mean for row in part.arms] for part in found.benchmarks.each} == {
        "small": [10, 80],
        "large": [50, 35],
    }
    assert found.benchmarks.means == {"react": 30, "rsso": 57.5}
    assert found.benchmarks.solved == {"react": 0, "rsso": 0.25}
    (together,) = found.benchmarks.differences
    assert together.difference == (70 - 15) / 2
    assert together.interval is not None
    assert together.interval.mean == together.difference
    assert [part.comparisons[0].difference for part in found.benchmarks.each] == [-15, 70]
    sheets = {sheet.name: sheet for sheet in build_tables(found)}
    assert [cell.text for cell in sheets["contrasts"].rows[-1][:4]] == ["rsso - react", "together", "12", "+27.50"]
    assert "as the mean of large and small, rsso scored highest with 57.50" in write_headline(found)


def test_an_arm_without_scores_in_one_of_them_has_no_mean_together():
    found = analyze_run(RunRecords(units(SCORES, left_out={("rsso", "small")}))).benchmarks
    assert found is not None
    assert (found.means, found.differences[0].difference) == ({"react": 30, "rsso": None}, None)
    assert found.differences[0].interval is None
    assert analyze_run(RunRecords(units({"small": SCORES["small"]}))).benchmarks is None


@pytest.mark.parametrize(
    ("strata", "known"),
    [
        ({"x": {"a": [1, 2], "b": [5]}, "y": {"c": [0], "d": [9], "e": [4]}}, True),
        ({"x": {"a": [1, 2], "b": [5]}, "y": {"c": [3]}}, False),
        ({"x": {"a": [1, 2], "b": [5]}, "y": {"c": [3], "d": [3]}}, False),
        ({"x": {}, "y": {"c": [0], "d": [9]}}, False),
        ({}, False),
    ],
)
def test_the_mean_of_means_has_an_interval_where_each_has_one(strata, known):
    found = bootstrap_mean_of_means(strata)
    assert (found is not None) == (known and all(bootstrap_mean(each) for each in strata.values()))
    if found:
        wide = [bootstrap_mean(each) for each in strata.values()]
        assert found.low <= found.mean <= found.high
        assert found.error == pytest.approx(sum(each.error**2 for each in wide if each) ** 0.5 / len(wide), rel=0.05)


def test_of_one_stratum_it_is_the_plain_interval():
    groups = {"a": [1.0, 4.0], "b": [9.0], "c": [2.0, 2.0]}
    assert bootstrap_mean_of_means({"x": groups}) == bootstrap_mean(groups)
