"""The tables as a person sees them."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from rsso_dspy.pricing import Price
from rsso_dspy.report import sheets
from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.metrics import UNEVEN
from rsso_dspy.report.sheets import Sheet, to_csv, to_latex, to_markdown
from rsso_dspy.report.tables import build_methods_table, build_tables, render_analysis
from rsso_dspy.report.terminal import print_renderable
from tests.records import record

ARM = "rsso+compiled-with-gepa-on-four-tasks"


def records():
    return [record(arm, "boil", index, [[10], [33]]) for arm in ("rsso", ARM) for index in (22, 27)]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_whole_report_keeps_its_digits_and_its_notes_keep_to_the_window(monkeypatch, capsys, width):
    found = analyze(arms(LEARNING))
    whole = Console(width=500, file=StringIO())
    whole.print(render_analysis(found))
    monkeypatch.setenv("COLUMNS", str(width))
    print_renderable(render_analysis(found))
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert words(whole.file.getvalue()) <= words(printed) | {"-"}
    notes = [
        line
        for line in printed.splitlines()
        if line.startswith(("Intervals", "p: Wilcoxon", "The first arm", "Mean, "))
    ]
    assert len(notes) == 4
    assert all(len(line) <= width for line in notes)
    assert max(map(len, printed.splitlines())) <= width, "a table that is too wide is split"


NOTES = {
    "a difference that no run of this size can show": (
        [record(arm, task, 1, [[score]]) for arm, scores in (("react-sso", (50, 50)), ("rsso", (58, 100)))
         for task, score in zip(("boil", "freeze"), scores, strict=True)],
        "differences", ("min. detectable difference", ">100"),
        "rsso - react-sso: no result, 2 task types are too few. A run of this size may miss even the largest possible",
    ),
    "a difference that such a run could show": (
        [record(arm, task, 1, [[score]]) for arm, scores in (("react-sso", (50, 50)), ("rsso", (60, 61)))
         for task, score in zip(("boil", "freeze"), scores, strict=True)],
        "differences", ("min. detectable difference", "7.0"), "Intervals over fewer than 10 task types are rough.",
    ),
    "solved with fewer than 100 points": (
        [record("rsso", "find-plant", 1, [[100]], at_reset=8)], "methods", ("Solve", "1/1"),
        "a solved variant scores less than 100 if it holds points",
    ),
    "out of steps": (
        [record("rsso", "boil", 1, [[10], [20]])], "failures", ("out of steps", "2"), "out of steps: used up after",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("played", "name", "cell", "note"), NOTES.values(), ids=NOTES)
def test_a_table_says_what_its_numbers_mean_and_promises_no_more(played, name, cell, note):
    sheet = by_name(played)[name]
    assert dict(zip(sheet.columns, sheet.rows[-1], strict=True))[cell[0]].text == cell[1]
    assert note in " ".join(sheet.notes)


def test_csv_says_of_a_difference_what_the_table_says():
    played = NOTES["a difference that no run of this size can show"][0]
    sheet = by_name(played)["differences"]
    (told,) = csv.DictReader(StringIO(to_csv(sheet)))
    said = dict(zip(sheet.columns, (cell.text for cell in sheet.rows[0]), strict=True))
    assert (said["min. detectable difference"], told["min. detectable difference"]) == (">100", "")
    assert said["units +/-"] == told["units +/-"] == "+2 -0"


@pytest.mark.parametrize(
    ("seeds", "said"),
    [((1,), "seed 1"), ((1, 2), "seed 1, 2"), ((5, 1, 2, 3, 4), "seed 1-5"), ((10, 9, 2, 8), "seed 2, 8-10")],
)
def test_seeds_are_told_as_ranges(seeds, said):
    found = analyze([replace(record("rsso", "boil", 1, [[10]]), seed=seed) for seed in seeds])
    shown = Console(width=300, file=StringIO())
    shown.print(render_analysis(found))
    assert f"{said};" in shown.file.getvalue() or f"{said}." in shown.file.getvalue()
    assert found.facts["seed"] == tuple(sorted(map(str, seeds))), "data keep the seeds"


def words(text: str) -> set[str]:
    return set(re.findall(r"[\d,.%+/-]+", text))


def test_means_over_different_units_are_said_to_be_and_so_is_what_is_not_there():
    alike = by_name([*records(), record("react", "boil", 22, [None])])["methods"]
    assert len(alike.notes) == 1, "an arm without a score has no mean"
    uneven = analyze(RunRecords([*records(), record("react", "boil", 22, [[5]])], missing=1))
    notes = build_methods_table(uneven).notes
    assert any(note.startswith("Arms finished different units") for note in notes)
    assert "The run is incomplete: 1 planned unit has no record." in notes
    assert serialize_analysis(uneven)["missing"] == 1
    assert serialize_analysis(uneven)["alike"] is False
    said = {sheet.name for sheet in build_tables(uneven) if UNEVEN in sheet.notes}
    assert said == {"methods", "learning", "tasks"}


def test_trials_that_were_allowed_and_not_needed_have_columns():
    played = [record("sso", "boil", 1, [[100]], allowed=3), record("rsso", "boil", 1, [[40], [100]], allowed=3)]
    found = by_name(played)
    assert row(found["learning"], "sso")["to 50%"].text == "1"
    assert row(found["learning"], "sso")["best_of_3"].text == "100.00"
    assert row(found["learning"], "rsso")["best_of_3"].text == "100.00"


def test_the_mean_over_trials_is_that_of_unit_means_and_says_so():
    units = [record("sso", "boil", 1, [[100]], allowed=3), record("sso", "boil", 2, [[0], [0], [0]], allowed=3)]
    learning = by_name(units)["learning"]
    assert row(learning, "sso")["mean/trial"].value == 50, "the mean over all four trials is 25"
    assert "mean of unit means" in learning.notes[0]


def by_name(played, **options):
    return {sheet.name: sheet for sheet in build_tables(analyze(played, **options))}


def row(sheet, name):
    return dict(zip(sheet.columns, next(row for row in sheet.rows if row[0].text == name), strict=True))


def arms(scores):
    """Three trials in two variants of three tasks for each arm; `scores` gives those of a unit."""
    return [
        record(arm, task, index, trials)
        for arm, trials in scores.items()
        for task in ("boil", "freeze", "find-plant")
        for index in (1, 2)
    ]


LEARNING = {
    "react-sso": [[10], [20], [20]],
    "reflexion-sso": [[10], [60], [100]],
    "sso": [[10], [30], [40]],
    "rsso": [[100]],
}


def test_what_the_methods_were_made_for_is_asked_and_every_p_value_corrected_for_it():
    found = by_name(arms(LEARNING))
    asked = {each[0].text: each[-1].text for each in found["differences"].rows}
    assert asked == {
        "reflexion-sso - react-sso": "memory over equal retries",
        "sso - react-sso": "memory over equal retries",
        "rsso - sso": "reflections beside skills",
        "rsso - react-sso": "memory over equal retries",
    }
    assert row(found["differences"], "rsso - sso")["Holm"].value == 1
    assert "corrected for 4 tests" in " ".join(found["differences"].notes)
    assert [each[0].text for each in by_name(arms(LEARNING), against="rsso")["differences"].rows] == [
        "react-sso - rsso", "reflexion-sso - rsso", "sso - rsso",
    ]  # fmt: skip
    assert len(by_name(arms(LEARNING), every=True)["differences"].rows) == 6


def test_what_an_interval_is_worth_is_said_beside_it():
    alike = " ".join(by_name(arms(LEARNING))["differences"].notes)
    assert "n/a: one unit, or fewer than 6 that are all equal" in alike
    assert "over fewer than 10 task types" not in alike
    four = arms(LEARNING) + [record(arm, "chemistry-mix", 1, [[n]]) for n, arm in enumerate(LEARNING)]
    assert "over fewer than 10 task types" in " ".join(by_name(four)["differences"].notes)
    one = [*(e for e in arms(LEARNING) if e.variant.task == "boil"), *(record(a, "boil", 3, [[5]]) for a in LEARNING)]
    assert "says nothing about other tasks" in " ".join(by_name(one)["differences"].notes)


def test_an_arm_that_no_question_is_about_is_compared_with_the_first():
    found = by_name(arms({"sso": [[10]], "rsso": [[20]], "reflexion": [[30]]}))
    assert [each[0].text for each in found["differences"].rows] == ["rsso - sso", "reflexion - sso"]


def test_the_square_is_read_out_in_words():
    alike = arms({name: [[score]] for name, score in zip(LEARNING, (20, 40, 30, 70), strict=True)})
    found = by_name(alike)["square"]
    assert [each[0].text for each in found.rows][-1] == "no result: too few task types to tell"
    assert row(found, "rsso - reflexion-sso")["points"].value == 30
    more = [record(arm, "chemistry-mix", 1, [[score]]) for arm, score in zip(LEARNING, (20, 40, 30, 80), strict=True)]
    assert [each[0].text for each in by_name([*alike, *more])["square"].rows][-1].startswith("compose: ")


def test_who_was_solved_when_and_what_it_took():
    played = arms(LEARNING)
    found = analyze(played, lambda _: Price(0.01, 0.0, 0.0, 0.0))
    sheets = {sheet.name: sheet for sheet in build_tables(found)}
    first = next(place for place, cells in enumerate(sheets["success"].rows) if cells[0].text == "reflexion-sso")
    assert [cells[3].value for cells in sheets["success"].rows[first : first + 3]] == [0, 0, 6]
    late, cost = (row(sheets[name], "reflexion-sso") for name in ("learning", "measures"))
    assert (late["to 50%"].value, late["to 75%"].value) == (3, 3)
    assert cost["tokens/solved"].value == 39
    assert cost["USD/solved"].value == pytest.approx(0.3)
    never = row(sheets["learning"], "sso")["to 50%"], row(sheets["measures"], "sso")["USD/solved"]
    assert [cell.text for cell in never] == ["never", "n/a"]


def test_arms_of_unequal_trials_are_told_apart():
    found = by_name(arms({"react": [[10], [20], [70]], "omnireflect-symbolic": [[30]]}))
    assert "react 3, omnireflect-symbolic 1" in " ".join(found["methods"].notes)
    assert row(found["learning"], "omnireflect-symbolic")["best_of_2"].text == "n/a"
    assert row(found["tasks"], "boil")["omnireflect-symbolic - react"].value == 20


def test_a_constitution_is_compared_with_retries_that_read_it_too():
    found = by_name(
        arms({name: [[10]] for name in ("react-sso", "rsso", "react-sso+constitution", "rsso+constitution")})
    )
    asked = {each[0].text: each[-1].text for each in found["differences"].rows}
    assert asked["rsso+constitution - react-sso+constitution"] == "memory over none"
    assert asked["rsso+constitution - rsso"] == "constitution"
    assert "rsso+constitution - react-sso" not in asked


@pytest.mark.parametrize("arm", ["rsso+best[v2]", "rsso+a[/b]", "rsso+\x1b[31mred"])
def test_a_name_is_shown_as_it_is_and_moves_nothing(arm):
    shown = Console(width=300, file=StringIO())
    shown.print(render_analysis(analyze(arms({"rsso": [[10]], arm: [[20]]}))))
    assert arm.replace("\x1b", "\N{REPLACEMENT CHARACTER}") in shown.file.getvalue()


def test_errored_units_are_in_no_pair_and_counted_where_they_are_missed():
    played = arms({"sso": [[10]], "rsso": [[20]]})
    played[0] = record("sso", "boil", 1, [[50], None])
    found = by_name(played)
    assert row(found["methods"], "sso")["units"].text == "5 (1 err)"
    assert row(found["differences"], "rsso - sso")["pairs"].text == "5 (-1)"
    assert row(found["tasks"], "boil")["sso"].value == 10


def test_published_rows_are_marked_as_another_models():
    found = {s.name: s for s in build_tables(analyze(arms(LEARNING)), with_paper=True)}
    assert row(found["methods"], "published rsso")["Mean"].value == 88.41
    assert row(found["methods"], "published rsso")["macro"].text == "87.46"
    assert row(found["tasks"], "boil")["published rsso"].tone == "dim"
    assert any("another model" in note for note in found["tasks"].notes)


def test_a_table_keeps_its_numbers_in_csv_and_its_words_in_markdown_and_latex():
    sheet = Sheet(
        "x",
        "50% of a|b",
        ("arm", "Mean"),
        (
            (sheets.format_text("a|b_1%"), sheets.format_points(1 / 3)),
            (sheets.format_text("c"), sheets.format_difference(-0.001)),
        ),
    )
    rows = list(csv.reader(StringIO(to_csv(sheet))))
    assert rows == [["arm", "Mean"], ["a|b_1%", str(1 / 3)], ["c", "-0.001"]]
    assert r"| a\|b_1% | 0.33 |" in to_markdown(sheet)
    assert "| c | 0.00 |" in to_markdown(sheet)
    assert r"a|b\_1\% & 0.33 \\" in to_latex(sheet)


def test_latex_compiles_every_table_with_caption_and_label(tmp_path):
    tables = [to_latex(sheet) for sheet in by_name(records()).values()]
    for name, table in zip(by_name(records()), tables, strict=True):
        assert rf"\label{{tab:{name}}}" in table
        assert table.count("{") == table.count("}")
        assert r"\caption{" in table
    engine = shutil.which("pdflatex")
    if engine is None:
        pytest.skip("no pdflatex on PATH: the tables were checked, not compiled")
    body = "\n".join(tables)
    preamble = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
    (tmp_path / "all.tex").write_text(f"{preamble}\n{body}\n\\end{{document}}\n")
    done = subprocess.run(
        [engine, "-halt-on-error", "-interaction=nonstopmode", "all.tex"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
