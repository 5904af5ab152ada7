"""What a page's figures are drawn from: the numbers of the analysis, in the words of the tables."""

from dataclasses import replace

import pytest

from rsso_dspy.report.analysis import RunRecords, analyze
from rsso_dspy.report.compare import FACTORIAL_METHODS, Question, compare_all
from rsso_dspy.report.drawings import DESIGNED, Drawings, Point, build_drawings
from rsso_dspy.report.metrics import group_by_arm
from rsso_dspy.report.page import build_page_sections
from rsso_dspy.report.sheets import build_sheet, format_text, merge_columns
from rsso_dspy.report.tables import build_tables
from tests.records import record

SCORES = {"react": [10, 20, 30], "reflexion": [20, 40, 100], "sso": [10, 20, 30], "rsso": [0, 50, 100]}
RUN = [
    record(arm, f"task-{number}", number, [[score // 2], [score]])
    for arm, scores in SCORES.items()
    for number, score in enumerate(scores)
]


def draw(units=RUN, **options) -> Drawings:
    return build_drawings(analyze(units), units, **options)


def test_the_forest_says_what_the_table_of_differences_says():
    found = analyze(RUN)
    rows = draw().forests[DESIGNED].rows
    pairs = found.comparisons
    assert [(row.second, row.first, row.units) for row in rows] == [
        (pair.second, pair.first, pair.pairs) for pair in pairs
    ]
    (table,) = (sheet for sheet in build_tables(found) if sheet.name == "differences")
    for row, cells in zip(rows, table.rows, strict=True):
        points, low, high = (cells[table.columns.index(name)].text for name in ("points", "95% from", "to"))
        assert row.text in (f"{points} ({low} to {high})", f"{points} (no interval)")
        assert f"{row.second} - {row.first}" == cells[0].text


def test_there_is_a_forest_against_each_arm_as_the_report_against_it():
    forests = draw().forests
    assert list(forests) == [DESIGNED, *SCORES]
    for arm in SCORES:
        pairs = compare_all(group_by_arm(RUN), Question(against=arm)).comparisons
        assert [(row.first, row.second, row.difference) for row in forests[arm].rows] == [
            (arm, pair.second, pair.difference) for pair in pairs
        ]
    (row,) = (row for row in forests["reflexion"].rows if row.second == "rsso")
    assert row.difference == pytest.approx((0 + 50 + 100 - 20 - 40 - 100) / 3)


def test_an_interaction_stands_below_the_differences_of_the_methods_alone():
    units = [record(arm, f"task-{n}", n, [[10 * n + k]]) for k, arm in enumerate(FACTORIAL_METHODS) for n in range(6)]
    forests = draw(units).forests
    assert [row.is_interaction for row in forests[DESIGNED].rows][-1]
    assert forests[DESIGNED].rows[-1].difference == pytest.approx(3 - 2 - 1 + 0)
    assert not any(row.is_interaction for name in FACTORIAL_METHODS for row in forests[name].rows)


def test_units_that_no_other_arm_finished_give_no_forest():
    alone = draw(RUN[:3])
    assert (alone.forests, alone.has_grid, alone.names) == ({}, False, {"best-of-t", "success", "survival"})
    assert build_page_sections(analyze(RUN[:3]), alone)[0].figures == ("best-of-t",)


def test_a_row_has_the_verdict_and_the_dose_of_its_memory():
    """Three units of two trials, all with a text in every prompt; then none with one."""
    (row, *_) = draw().forests[DESIGNED].rows
    assert (row.verdict, row.dose) == ("undecided", "reflections shown in 6 of 6 trials")
    bare = [replace(unit, trials=tuple(replace(trial, shown={}) for trial in unit.trials)) for unit in RUN]
    (row, *_) = draw(bare).forests[DESIGNED].rows
    assert (row.verdict, row.dose) == ("not tested", "reflections shown in 0 of 3 later trials")
    assert row.text.endswith("(no interval)")


def test_curves_have_the_means_of_the_table_and_their_bars():
    charts = draw().charts
    curve = next(curve for curve in charts["best-of-t"].curves if curve.name == "reflexion")
    assert [(point.x, point.y) for point in curve.points] == [(1, pytest.approx(80 / 3)), (2, pytest.approx(160 / 3))]
    assert all(point.low < point.y < point.high for point in curve.points)
    sem = draw(bars="sem").charts["best-of-t"].curves[1].points[1]
    assert sem.high - sem.y == pytest.approx(24.04, abs=0.01)  # stdev of 20, 40, 100 by the root of 3
    solved = next(curve for curve in charts["success"].curves if curve.name == "rsso")
    assert [point.y for point in solved.points] == [0, pytest.approx(100 / 3)]


def test_a_share_holds_up_to_its_score():
    curves = {curve.name: curve.points for curve in draw().charts["survival"].curves}
    third, two = pytest.approx(100 / 3), pytest.approx(200 / 3)
    assert [(point.x, point.y) for point in curves["rsso"]] == [(0, 100), (50, two), (100, third)]


def test_published_curves_stand_beside_those_of_the_run():
    chart = draw(with_paper=True).charts["best-of-t"]
    published = {curve.name: curve for curve in chart.curves if curve.is_published}
    assert published["rsso, published"].points[-1] == Point(5, 88.41)
    assert published["react, published"].points == (Point(1, 58.37),), "its ReAct is one trial"
    assert "another model" in chart.notes[0]
    assert not any(curve.is_published for curve in draw().charts["best-of-t"].curves)


def test_a_difference_without_an_interval_says_so():
    units = [record(arm, "boil", 1, [[score]]) for arm, score in (("react", 10), ("reflexion", 30))]
    (row,) = draw(units).forests[DESIGNED].rows
    assert (row.second, row.first, row.asks) == ("reflexion", "react", "memory over none")
    assert (row.units, row.difference, row.text) == (1, 20, "+20.00 (no interval)")
    assert (row.low, row.high, row.verdict) == (None, None, "not tested"), "one unit tests no memory"


@pytest.mark.parametrize(
    ("tested", "untested", "reasons"),
    [(True, False, "one variant does not show how much others would differ"),
     (False, True, "the memory was not tested"),
     (True, True, "one variant does not show how much others would differ, or the memory was not tested")],
)  # fmt: skip
def test_a_ring_says_why_it_has_no_interval(tested, untested, reasons):
    scaffolds = [record(arm, "boil", 1, [[score]]) for arm, score in (("react", 10), ("react-sso", 30))]
    memories = [record(arm, "boil", 1, [[20]], shown={}) for arm in ("react", "reflexion")]
    units = scaffolds * tested + memories[tested:] * untested
    assert draw(units).forests[DESIGNED].notes[0] == f"A ring has no interval: {reasons}."


def test_no_verdict_of_a_page_is_decided_while_a_shard_is_not_here():
    units = [record(arm, f"type {n}", 1, [[score + n]]) for arm, score in (("sso", 0), ("rsso", 50)) for n in range(8)]
    for shards, verdict in (((), "better"), (("2/2",), "undecided")):
        found = analyze(RunRecords(units, missing_shards=shards))
        forests = build_drawings(found, units).forests
        assert [forests[name].rows[0].verdict for name in (DESIGNED, "sso")] == [verdict, verdict]


def test_bars_over_variants_are_said_to_be_those_of_these_task_types():
    units = [
        record(arm, task, index, [[score * index]])
        for arm, score in (("sso", 1), ("rsso", 5))
        for task in ("boil", "freeze")
        for index in range(1, 9)
    ]
    found = analyze(units, question=Question(over="variants"))
    over = "Bars: 95% intervals, over variants of these task types, which say nothing about other tasks."
    assert build_drawings(found, units).forests[DESIGNED].notes[0] == over
    (sheet,) = (sheet for sheet in build_tables(found) if sheet.name == "differences")
    assert not any("are over task types" in note for note in sheet.notes)
    assert any("on other variants of these task types" in note for note in sheet.notes)


# Columns that say the same.


def test_columns_that_are_equal_in_all_rows_are_one_with_a_note():
    columns = ("arm", "units", "Mean", "+reset", "env", "Solve", "Acc100", "pass")
    rows = [("a", 3, 1.5, 1.5, 1.5, (1, 3), (1, 3), None), ("b", 3, 2.5, 2.5, 2.75, (2, 3), (2, 3), None)]
    merged = merge_columns(build_sheet("means", "Means", columns, rows, ["A note."]))
    assert merged.columns == ("arm", "units", "Mean", "env", "Solve")
    assert [[cell.text for cell in row] for row in merged.rows] == [
        ["a", "3", "1.50", "1.50", "1/3"],
        ["b", "3", "2.50", "2.75", "2/3"],
    ]
    assert merged.notes == (
        "+reset: as Mean in every row.",
        "Acc100: as Solve in every row.",
        "pass: n/a in every row.",
        "A note.",
    )


def test_columns_that_are_equal_by_chance_stay():
    whole = build_sheet("counts", "Counts", ("arm", "trials", "steps"), [("a", 3, 3), ("b", 4, 4)])
    words = build_sheet("words", "Words", ("arm", "role", "model"), [("a", format_text("x.y"), format_text("x.y"))] * 2)
    single = build_sheet("one", "One", ("arm", "Mean", "env"), [("a", 1.5, 1.5)])
    ends = build_sheet("ends", "Ends", ("pair", "95% from", "to"), [("a", 0.5, 0.5), ("b", 1.5, 1.5)])
    zeros = build_sheet("zeros", "Zeros", ("arm", "Mean", "env"), [("a", 0.0, 0.0), ("b", 0.0, 0.0)])
    for sheet in (whole, words, single, ends, zeros):
        assert merge_columns(sheet) == sheet
