"""The tables as a person sees them."""

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from rsso_dspy.pricing import Price
from rsso_dspy.records import Source, Usage
from rsso_dspy.report import sheets
from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.published import load_data
from rsso_dspy.report.sheets import build_sheet, print_parts, to_csv, to_latex, to_markdown
from rsso_dspy.report.tables import build_tables, render_analysis
from rsso_dspy.report.terminal import replace_controls
from rsso_dspy.store.run_folder import Store
from tests.records import record
from tests.report.paper_run import BASELINE, REFLEXION, play_accuracies, play_reflexion, play_successes, play_table_2

RECORDED = Path(__file__).parents[2] / "examples/recorded/babyai-2x2"
UNEVEN = load_data("texts.toml")["notes"]["uneven"]
ARM = "rsso+compiled-with-gepa-on-four-tasks"


def records():
    return [record(arm, "boil", index, [[10], [33]]) for arm in ("rsso", ARM) for index in (22, 27)]


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


def by_name(played, **options):
    return {sheet.name: sheet for sheet in build_tables(analyze(played, **options))}


def find_row(sheet, name):
    return dict(zip(sheet.columns, next(row for row in sheet.rows if row[0].text == name), strict=True))


def ask(sheet):
    """The rows of a table of differences to their questions, without those of a square."""
    asked = {each[0].text: each[-1].text for each in sheet.rows}
    return {name: question for name, question in asked.items() if not question.startswith("skills x")}


def render(found) -> str:
    print_parts(render_analysis(found), shown := StringIO(), 500)
    return shown.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_whole_report_keeps_its_digits_and_its_notes_keep_to_the_window(monkeypatch, capsys, width):
    found = analyze(arms(LEARNING))
    monkeypatch.setenv("COLUMNS", str(width))
    print_parts(render_analysis(found))
    printed = capsys.readouterr().out
    assert "…" not in printed
    numbers = [set(re.findall(r"[\d,.%+/-]+", text)) for text in (render(found), printed)]
    assert numbers[0] <= numbers[1] | {"-"}
    starts = ("Intervals (", "p: exact", "Units whose first", "Mean: ")
    assert sum(line.startswith(starts) for line in printed.splitlines()) == len(starts)
    assert max(map(len, printed.splitlines())) <= width, "a table that is too wide is split"


def pair(first, second):
    return [
        record(arm, task, 1, [[score]])
        for arm, scores in (("react-sso", first), ("rsso", second))
        for task, score in zip(("boil", "freeze"), scores, strict=True)
    ]


FOUR = {"react-sso": 20, "reflexion-sso": 40, "sso": 30, "rsso": 70}
ONE_ERRORED = [record("sso", "boil", 1, [[50], None]), *arms({"sso": [[10]], "rsso": [[20]]})[1:]]
SOLVED_EARLY = [record("sso", "boil", 1, [[100]], allowed=3), record("sso", "boil", 2, [[0], [0], [0]], allowed=3)]
UNEQUAL = arms({"react": [[10], [20], [70]], "omnireflect-symbolic": [[30]]})
ONE_TASK = [record(arm, "boil", index, [[score * index]]) for arm, score in FOUR.items() for index in (1, 2, 3)]
HOPELESS, ROUGH = pair((50, 50), (58, 100)), pair((50, 50), (60, 61))
DETECTABLE, PAIR = "min. detectable difference", "rsso - react-sso"
CELLS = [
    (HOPELESS, "differences", PAIR, DETECTABLE, ">100", "a run of this size may miss every difference"),
    (HOPELESS, "differences", PAIR, "units +/-", "+2 -0", ""),
    (ROUGH, "differences", PAIR, DETECTABLE, ">100", "Intervals over fewer than 10 task types, or variants"),
    ([record("rsso", "find-plant", 1, [[100]], at_reset=8)], "methods", "rsso", "Solve", "1/1", "points held at reset"),
    ([record("rsso", "boil", 1, [[10], [20]])], "failures", "rsso", "out of steps", "2", "out of steps: used up after"),
    (SOLVED_EARLY[:1], "learning", "sso", "to 50%", "1", ""),
    (SOLVED_EARLY[:1], "learning", "sso", "best_of_3", "100.00", ""),
    (SOLVED_EARLY, "learning", "sso", "mean/trial", "50.00", "mean of unit means"),
    (UNEQUAL, "learning", "omnireflect-symbolic", "best_of_2", "n/a", ""),
    (UNEQUAL, "methods", "react", "Mean", "70.00", "react 3, omnireflect-symbolic 1"),
    (UNEQUAL, "tasks", "boil", "omnireflect-symbolic - react", "+20.0", "scores are those of the first trial"),
    (ONE_ERRORED, "methods", "sso", "units", "5 (1 err)", ""),
    (ONE_ERRORED, "differences", "rsso - sso", "pairs", "5 (-1)", "(-n): number of pairs left out"),
    (ONE_ERRORED, "tasks", "boil", "sso", "10.0", ""),
    (arms(LEARNING), "methods", "rsso", "scaffold", "sso", "Best in bold, second best underlined"),
    (arms(LEARNING), "tasks", "boil", "reflexion-sso - react-sso", "+80.0", ""),
    (arms(LEARNING), "tasks", "Overall", "rsso - sso", "+60.00", ""),
    (arms(LEARNING), "tasks", "Overall", "n", "6", ""),
    (arms(LEARNING), "learning", "reflexion-sso", "gain of trial 2", "+50.00", "best of two trials minus trial 1"),
    (SOLVED_EARLY, "success", "sso", "accuracy", "50.0%", "protocol.stop_on_success=false"),
    (arms(LEARNING), "learning", "reflexion-sso", "to 75%", "3", ""),
    (arms(LEARNING), "learning", "sso", "to 50%", "never", ""),
    (arms(LEARNING), "measures", "sso", "USD/solved", "n/a", ""),
    (arms(LEARNING), "measures", "reflexion-sso", "tokens/solved", "39", ""),
    (arms(LEARNING), "differences", "rsso - sso", "Holm", "1.0000", "corrected for the report's 5 tests"),
    (arms(LEARNING), "differences", "rsso - sso", "to", "+100.0", "too few task types"),
    (arms({name: [[score]] for name, score in FOUR.items()}), "differences", "rsso - sso - reflexion-sso + react-sso",
     "asks", "skills x reflections: undecided", "all four arms finished: no result."),
    (ONE_TASK, "differences", "rsso - sso", "pairs", "3", "says nothing about other tasks"),
    (ONE_TASK, "differences", "rsso - sso", "p", "n/a", "there is no p, and no winner"),
    (ONE_TASK, "differences", "rsso - sso", "Holm", "n/a", "p corrected for the report's 0 tests"),
]  # fmt: skip
"""Units, and of one of their tables: a row, a column, what stands there, and words of a note."""


@pytest.mark.parametrize(("played", "name", "row", "column", "text", "note"), CELLS)
def test_a_table_says_what_its_numbers_mean_and_promises_no_more(played, name, row, column, text, note):
    sheet = by_name(played)[name]
    assert find_row(sheet, row)[column].text == text
    assert note in " ".join(sheet.notes)


def test_means_over_different_units_are_said_to_be_and_so_is_what_is_not_there():
    alike = by_name([*records(), record("react", "boil", 22, [None])])["methods"]
    assert UNEVEN not in alike.notes, "an arm without a score has no mean"
    uneven = analyze(RunRecords([*records(), record("react", "boil", 22, [[5]])], missing={"react": 1}))
    found = {sheet.name: sheet for sheet in build_tables(uneven)}
    assert "The run is incomplete: 1 planned unit has no record." in found["methods"].notes
    assert {name for name, sheet in found.items() if UNEVEN in sheet.notes} == {"methods", "learning", "tasks"}
    data = serialize_analysis(uneven)
    assert (data["missing"], data["alike"]) == (1, False)


def test_what_the_methods_were_made_for_is_asked_and_every_p_value_corrected_for_it():
    found = by_name(arms(LEARNING))["differences"]
    assert ask(found) == {
        "reflexion-sso - react-sso": "memory over equal retries",
        "sso - react-sso": "memory over equal retries",
        "rsso - sso": "reflections beside skills",
        "rsso - react-sso": "memory over equal retries",
    }
    others = by_name(arms({"sso": [[10]], "rsso": [[20]], "reflexion": [[30]]}))["differences"]
    assert list(ask(others)) == ["rsso - sso", "reflexion - sso"], "any other arm is compared with the first"
    four = ("react-sso", "rsso", "react-sso+constitution", "rsso+constitution")
    asked = ask(by_name(arms({name: [[10]] for name in four}))["differences"])
    assert asked["rsso+constitution - react-sso+constitution"] == "memory over none", "of retries that read it too"
    assert asked["rsso+constitution - rsso"] == "constitution"
    assert "rsso+constitution - react-sso" not in asked


def test_calls_and_tokens_have_dollars_models_and_rare_counts_where_there_are_any():
    free = by_name(arms(LEARNING), price_of=lambda _: Price(0.0, 0.0, 0.0, 0.0))["tokens"]
    assert free.columns == ("arm", "role", "calls", "in", "out", "malformed", "invalid", "asked back", "no effect")
    units = [replace(unit, models={"actor": unit.variant.task}) for unit in arms({"sso": [[10]]})]
    cached = replace(units[0].trials[0], usage={"actor": Usage(calls=1, input=10, cached=8)})
    sheet = by_name([replace(units[0], trials=(cached,)), *units[1:]], price_of=lambda _: Price(2.0, 0.0, 1.0, 0.0))[
        "tokens"
    ]
    assert [cells[2].text for cells in sheet.rows] == ["boil", "find-plant", "freeze", ""]
    assert {**find_row(sheet, "sso")}["cached"].value == 8
    all_ = find_row(sheet, "all")
    assert (all_["billed"].value, all_["uncached"].value) == (12 + 5 * 20, 6 * 20)


def test_published_rows_are_marked_as_another_models():
    found = {s.name: s for s in build_tables(analyze(arms(LEARNING)), with_paper=True)}
    assert find_row(found["methods"], "published rsso")["Mean"].value == 88.41
    assert find_row(found["methods"], "published rsso")["macro"].text == "87.46"
    assert find_row(found["tasks"], "boil")["published rsso"].tone == "dim"
    assert find_row(found["tasks"], "boil")["published reflexion - react"].text == "+36.4", (
        "as printed, not 77.8 - 41.3"
    )
    assert find_row(found["tasks"], "Overall")["published reflexion - react"].text == "+23.76"
    assert find_row(found["learning"], "published rsso")["best_of_2"].text == "84.49"
    assert find_row(found["learning"], "published rsso")["gain of trial 2"].text == "+9.42"
    assert find_row(found["learning"], "published rsso")["trial-1"].text == "75.07*"
    assert find_row(found["learning"], "published reflexion")["best_of_2"].text == "69.24*"
    assert any("69.24 (reflexion, t = 2) is 58.37 + 10.87" in note for note in found["learning"].notes)
    for name in ("methods", "learning", "tasks"):
        assert any("another model" in note for note in found[name].notes)


TABLE_2 = """
    boil                   9  41.3   77.8  64.6   89.8  +25.2  +36.4
    chemistry-mix          8  71.2   81.6  82.0   82.0    0.0  +10.4
    identify-life-stages-1 5  61.6  100.0  95.4   82.0  -13.4  +38.4
    lifespan-longest-lived 10 62.5   95.0  87.5  100.0  +12.5  +32.5
    use-thermometer        10 86.8   96.1  97.3   99.1   +1.8   +9.3"""
"""Rows of rSSO's Table 2: variants, means of ReAct, Reflexion, SSO and rSSO, and both differences."""


def test_a_run_with_the_points_of_table_2_has_its_rows():
    sheet = by_name(play_table_2())["tasks"]
    names = ("task", "n", "react", "reflexion", "sso", "rsso", "rsso - sso", "reflexion - react")
    rows = [[dict(zip(sheet.columns, row, strict=True))[name].text for name in names] for row in sheet.rows]
    assert [line.split() for line in TABLE_2.strip().splitlines()] == [row for row in rows if row[0] in TABLE_2]
    assert rows[-1] == ["Overall", "164", "58.37", "82.13", "79.46", "88.41", "+8.96", "+23.76"]


def test_a_run_with_the_points_of_table_2_has_the_means_of_table_1():
    sheet = by_name(play_table_2())["methods"]
    rows = {row[0].text: dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows}
    found = {name: (row["scaffold"].text, row["Mean"].text, row["Mean"].tone) for name, row in rows.items()}
    assert found == {
        "react": ("flat", "58.37", ""),
        "reflexion": ("flat", "82.13", "second"),
        "sso": ("sso", "79.46", ""),
        "rsso": ("sso", "88.41", "best"),
    }


def test_success_of_each_trial_is_that_of_the_notes():
    """Notes on Reflexion, metrics: 45, 67 and 85 of 134 environments."""
    sheet = by_name(play_successes("reflexion", (45, 67, 85)))["success"]
    names = ("trial", "solved", "additional", "fail", "accuracy")
    rows = [[dict(zip(sheet.columns, row, strict=True))[name].text for name in names] for row in sheet.rows]
    assert rows == [
        ["1", "45", "45", "89", "33.6%"],
        ["2", "67", "22", "67", "50.0%"],
        ["3", "85", "18", "49", "63.4%"],
    ]


TYPES = {
    "pick_and_place": (20, 24), "pick_clean_then_place": (25, 31), "pick_heat_then_place": (17, 23),
    "pick_cool_then_place": (18, 21), "look_at_obj": (15, 18), "pick_two_obj": (13, 17),
}  # fmt: skip
"""The six task types of the notes on Reflexion, with environments solved and all of them, 134 together."""


def test_success_is_counted_by_the_task_types_of_the_notes():
    units = [unit for task, (solved, of) in TYPES.items() for unit in play_successes("reflexion", [solved], of, task)]
    sheet = by_name(units)["tasks"]
    found = {row[0].text: dict(zip(sheet.columns, row, strict=True))["reflexion solved"].text for row in sheet.rows}
    assert found == {task: f"{solved}/{of}" for task, (solved, of) in TYPES.items()} | {"Overall": "108/134"}


def test_trials_to_75_percent_are_those_of_the_notes():
    """Notes on Reflexion, table: never without a memory, "5-6" with reflections. After the fifth 100 of 134 are solved,
    which the notes round to 0.75."""
    sheet = by_name([*play_accuracies("react", BASELINE), *play_accuracies("reflexion", REFLEXION)])["learning"]
    assert [find_row(sheet, arm)["to 75%"].text for arm in ("react", "reflexion")] == ["never", "6"]


def test_the_papers_react_is_trial_1_of_reflexion_and_has_a_row_beside_it():
    """rSSO, note of Table 1: 58.37 is the mean of the first trials of the Reflexion run, which ends at 82.13."""
    (sheet, *_) = build_tables(analyze(play_reflexion()), with_paper=True)
    rows = [find_row(sheet, name) for name in ("reflexion", "trial 1 of reflexion", "published react")]
    assert [row["Mean"].text for row in rows] == ["82.13", "58.37", "58.37"]
    assert any(note.startswith("trial 1 of reflexion is what the paper prints as react") for note in sheet.notes)
    assert "trial 1 of reflexion" not in to_csv(by_name(play_reflexion())["methods"]), "with the published rows alone"


def test_a_memory_that_was_hardly_shown_is_named_with_its_counts():
    """In the recorded run a skill stood in a prompt in 1 of 97 trials of sso, and in 2 of 102 of rsso."""
    units = [unit for unit in Store(RECORDED, read_only=True).units() if unit.arm in ("sso", "rsso")]
    sheet = by_name(units)["shown"]
    assert [[cell.text for cell in row] for row in sheet.rows] == [
        ["sso", "skills", "1/97", "1/41", "5/981"],
        ["rsso", "reflections", "46/102", "46/46", "581/1141"],
        ["rsso", "skills", "2/102", "2/46", "31/1141"],
    ]
    assert "skills of sso, skills of rsso." in sheet.notes[-1]


def test_a_run_of_other_tasks_has_no_columns_of_published_tasks():
    (sheet,) = (
        sheet for sheet in build_tables(analyze([record("rsso", "GoToDoor", 1, [[10]])]), True) if sheet.name == "tasks"
    )
    assert not [column for column in sheet.columns if column.startswith("published")]


def test_best_and_second_best_are_marked_where_means_can_be_compared():
    def marks(played):
        sheet = by_name(played)["methods"]
        return [row[sheet.columns.index("Mean")].tone for row in sheet.rows]

    assert marks(arms({"a": [[50]], "b": [[80]], "c": [[80]], "d": [[20]]})) == ["second", "best", "best", ""]
    assert set(marks(UNEQUAL)) == set(marks(arms({"a": [[50]], "b": [[50]]}))) == {""}
    assert set(marks([*arms({"a": [[50]]}), *arms({"b": [[80]]})[1:]])) == {""}


def test_rows_of_advised_arms_name_the_advisor_the_factor_and_the_size_of_the_set():
    learnt = ("boil::1", "boil::2", "melt::3", "melt::4")
    source = (Source("constitution", "file", "2-per-task.json"),)
    units = [replace(unit, sources=source, learnt_on=learnt) for unit in arms({"react+constitution": [[10]]})]
    played = RunRecords([*units, *arms({"react": [[10]]})], advisors={"react+constitution": "gpt-4"})
    sheet = by_name(played)["measures"]
    told = [[find_row(sheet, arm)[name].text for name in sheet.columns[-3:]] for arm in ("react+constitution", "react")]
    assert sheet.columns[-3:] == ("advisor", "calibration factor", "calibration set")
    assert told == [["gpt-4", "2", "4"], ["", "", ""]]


def test_a_table_keeps_its_numbers_in_csv_and_its_words_in_markdown_and_latex():
    rows = [("a|b_1%", 1 / 3), ("c", sheets.format_difference(-0.001)), ("d", None), ("e", (1, 4))]
    best, second = sheets.mark_best([(2.0,), (1.0,)])
    marked = build_sheet("x", "x", ("arm", "Mean"), [("f", *best), ("g", *second)])
    assert {"| f | **2.00** |", "| g | <u>1.00</u> |"} <= set(to_markdown(marked).splitlines())
    assert r"f & \textbf{2.00} \\" in to_latex(marked)
    assert r"g & \underline{1.00} \\" in to_latex(marked)
    sheet = build_sheet("x", "50% of a|b", ("arm", "Mean"), rows)
    assert list(csv.reader(StringIO(to_csv(sheet)))) == [
        ["arm", "Mean"], ["a|b_1%", str(1 / 3)], ["c", "-0.001"], ["d", ""], ["e", "1 of 4"],
    ]  # fmt: skip
    for line in (r"| a\|b_1% | 0.33 |", "| c | 0.00 |", "| d | n/a |", "| e | 1/4 |"):
        assert line in to_markdown(sheet)
    assert r"a|b\_1\% & 0.33 \\" in to_latex(sheet)
    (told,) = csv.DictReader(StringIO(to_csv(by_name(HOPELESS)["differences"])))
    assert (told[DETECTABLE], told["units +/-"]) == ("", "+2 -0")
    for name, sheet in by_name(records()).items():
        table = to_latex(sheet)
        assert rf"\label{{tab:{name}}}" in table
        assert table.count("{") == table.count("}")


def test_nothing_that_a_terminal_acts_on_is_left_and_no_cell_is_cut_off():
    for mark in "\x1b\x07\x9b\r\x08\u202e\x00\x7f\ud83d":
        assert replace_controls(f"a{mark}b") == "a\ufffdb"
    assert replace_controls("one\n\ttwo é 中文 🙂") == "one\n\ttwo é 中文 🙂"
    table = build_sheet("x", "", ("second - first", "95% interval"), [("rsso - sso", sheets.Cell("-11.11 to +10.58"))])
    print_parts([table], told := StringIO(), 12)
    assert "-11.11 to +10.58" in told.getvalue()


def test_a_part_of_a_wide_table_keeps_what_belongs_together():
    """An interval with its mean, the trial of a row; and no row without a value."""
    first, second = ("rsso", 1, 50, 1.5, -2.5, 5.5, "of all"), ("rsso", 2, 60, 2.5, -1.5, 6.5, "")
    rows = [first, second, ("all", *[""] * 5, "x y")]
    table = build_sheet("x", "", ("arm", "trial", "solved", "gain", *sheets.INTERVAL, "asks"), rows)
    print_parts([table], told := StringIO(), 30)
    assert [" ".join(line.split()) for line in told.getvalue().splitlines()] == [
        "arm trial solved", "rsso 1 50", "rsso 2 60",
        "arm trial gain 95% from to", "rsso 1 1.50 -2.50 5.50", "rsso 2 2.50 -1.50 6.50",
        "arm trial asks", "rsso 1 of all", "all x y",
    ]  # fmt: skip


def test_of_an_arm_with_rules_of_a_file_it_is_said_which_task_types_it_solved():
    """Rules of one's own are task types: which were followed."""
    source = Source("constitution", "file", "AGENTS.md")
    scores = {"ports": [100, 100], "packages": [100, 0], "pushes": [0, 50]}
    units = [
        replace(record(arm, task, index, [[score]]), sources=(source,) if arm == "react+constitution" else ())
        for arm in ("react", "react+constitution")
        for task, both in scores.items()
        for index, score in enumerate(both)
    ]

    (sheet,) = [sheet for sheet in build_tables(analyze(units)) if sheet.name == "tasks"]

    assert sheet.notes[0] == "react+constitution solved all of ports; some of packages (1 of 2); none of pushes."
    assert not any(note.startswith("react solved") for note in sheet.notes)
