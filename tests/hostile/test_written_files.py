"""What names, models and texts say stays text in every file that is written: tables, pages, exports."""

import csv
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from rsso_dspy.report.sheets import Cell, build_sheet, to_csv, to_latex, to_markdown
from rsso_dspy.report.terminal import escape_controls, replace_controls
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso
from tests.records import record, save
from tests.report.test_page import opened

__all__ = ["rsso"]

UNSEEN = "\x1b[2J\x07\x9b31m\x7f\u202eevil\u2066\u200e\u200f\u061c\u200b\u200d\u2028\u2029\u2060\ufeff\U000e0041"
ACTS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
MARKUP = "<script>alert(1)</script>|**b**|[x](javascript:1)|`c`|_d_|&lt;|~~e~~|\\e"
FORMULAS = ("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", "-x", "\uff1d1+1")
NUMBERS = ("-5.3", "+13.3", "-1", "+0", "12%", "-12.5%")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run whose arms, models, tasks and texts hold what a terminal, a browser or a spreadsheet might act on."""
    store = Store(tmp_path / "run")
    arms = [name.replace("/", "|") for name in (f"=1+1{UNSEEN}", f"{MARKUP}{UNSEEN}", "[red]*x")]
    store.open({"protocol": "sso-adapt/3"}, dict.fromkeys(arms, "1"))
    for arm in arms:
        unit = record(arm, f"=task{UNSEEN}", 22, [[10, 40], [100]], allowed=2)
        (first, second) = unit.trials
        assert first.trajectory is not None
        step = first.trajectory.steps[0]
        spoiled = replace(
            step,
            proposed=f"=go{UNSEEN}{MARKUP}",
            action=f"=go{UNSEEN}{MARKUP}",
            reasoning=UNSEEN,
            unread=UNSEEN,
            state=replace(step.state, observation=f"seen{UNSEEN}{MARKUP}"),
        )
        trajectory = replace(first.trajectory, task=f"task{UNSEEN}", steps=(spoiled, *first.trajectory.steps[1:]))
        unit = replace(
            unit,
            model=f"model{UNSEEN}{MARKUP}",
            models={"actor": f"model{UNSEEN}{MARKUP}"},
            provenance={"commit": f"commit{UNSEEN}{MARKUP}"},
            start=f"start{UNSEEN}",
            trials=(replace(first, trajectory=trajectory), second),
        )
        save(store, unit)
    return store.folder


def test_a_run_with_such_names_is_read_and_printed(rsso, folder):
    assert len(list(Store(folder, read_only=True).units())) == 3
    for words in (("report", folder), ("report", folder, "--json"), ("show", folder)):
        code, out, err = rsso(*words)
        assert code == 0, err
        assert not ACTS.search(out + err), words


def test_no_table_holds_a_formula_markup_or_what_nobody_sees(rsso, folder, tmp_path):
    assert rsso("report", folder, "--tables", tmp_path / "tables")[0] == 0
    for path in (tmp_path / "tables").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not ACTS.search(text), path
        if path.suffix == ".csv":
            for row in csv.reader(text.splitlines()):
                assert not [cell for cell in row if cell.startswith("=")], path
        if path.suffix == ".md":
            assert not re.search(r"(?<!\\)<script|(?<!\\)\*\*b|(?<!\\)\[x\]|(?<!\\)`c|(?<!\\)~~e", text), path
            rows = [line for line in text.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "no name begins a cell"
        if path.suffix == ".tex":
            assert not re.search(r"(?<!\\)[&]lt|\\\\\n\s*[\[*]|^[\[*]", text, re.M), path


def test_no_page_holds_a_tag_or_what_nobody_sees(rsso, folder, tmp_path):
    assert rsso("report", folder, "--html", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert not ACTS.search(page)
    for number in range(3):
        data = json.dumps(opened(page, number), ensure_ascii=False)
        assert "evil" in data
        assert not ACTS.search(data.replace("\\u0001", "")), "but the mark of a long text"


@pytest.mark.parametrize("rows", ["trials", "steps"])
def test_no_parquet_file_holds_what_nobody_sees(rsso, folder, tmp_path, rows):
    assert rsso("export", folder, "--format", rows, "-o", tmp_path / "rows.parquet")[0] == 0
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    text = json.dumps(table.to_pylist(), ensure_ascii=False)
    assert "evil" in text
    assert not ACTS.search(text)


def test_no_log_of_inspect_holds_what_nobody_sees(rsso, folder, tmp_path):
    assert rsso("export", folder, "--format", "inspect", "-o", tmp_path / "logs")[0] == 0
    files = list((tmp_path / "logs").iterdir())
    assert len(files) == 3
    for path in files:
        with zipfile.ZipFile(path) as log:
            for name in log.namelist():
                assert not ACTS.search(name)
                assert not ACTS.search(log.read(name).decode())


# One cell.


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_like_a_formula_stays_text_in_a_spreadsheet(text):
    sheet = build_sheet("t", "T", ("arm", text), [(text, 1.5), ("react", -5.3)])
    head, first, second = csv.reader(to_csv(sheet).splitlines(keepends=True))
    assert head[1] == first[0] == f"'{replace_controls(text)}"
    assert second == ["react", "-5.3"]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_no_formula(text):
    sheet = build_sheet("t", "T", ("arm", "mean"), [(text, Cell("-5.3", -5.3))])
    assert to_csv(sheet) == f"arm,mean\n{text},-5.3\n"


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("a|b", r"a\|b"),
        ("**b**", r"\*\*b\*\*"),
        ("_b_", r"\_b\_"),
        ("a_b_c", "a_b_c"),
        ("[x](y)", r"\[x\](y)"),
        ("`x`", r"\`x\`"),
        ("<b>", r"\<b>"),
        ("</b>", r"\</b>"),
        ("<!--", r"\<!--"),
        ("<0.0001", "<0.0001"),
        ("&lt;", r"\&lt;"),
        ("a & b", "a & b"),
        ("a\\|b", r"a\\\|b"),
        ("~~x~~", r"\~\~x\~\~"),
        ("two\nlines", "two lines"),
        ("\x1b[2J", "�\\[2J"),
    ],
)
def test_a_cell_of_markdown_says_what_the_text_says(text, markdown):
    sheet = build_sheet("t", text, ("arm",), [(text,)], [text])
    assert to_markdown(sheet) == f"**{markdown}**\n\n| arm |\n| :--- |\n| {markdown} |\n\n{markdown}\n"


@pytest.mark.parametrize(
    ("note", "markdown"),
    [
        ("# one", "\\# one"),
        ("> one", "\\> one"),
        ("- one", "\\- one"),
        ("1. one", "1\\. one"),
        ("-5 points", "-5 points"),
    ],
)
def test_a_note_begins_no_heading_and_no_list(note, markdown):
    assert to_markdown(build_sheet("t", "T", ("arm",), [], [note])).endswith(f"\n\n{markdown}\n")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("[red]", "{}[red]"),
        ("*x", "{}*x"),
        ("50% of $x_1 & {y}#~^\\", r"50\% of \$x\_1 \& \{y\}\#\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("\x1b", "?"),
        ("-5.3", "$-$5.3"),
    ],
)
def test_a_cell_of_latex_says_what_the_text_says(text, latex):
    assert f"\n{latex} \\\\\n" in to_latex(build_sheet("t", "T", ("arm",), [(text,)]))


def test_json_keeps_what_is_escaped():
    for character in UNSEEN:
        escaped = escape_controls(json.dumps(character, ensure_ascii=False))
        assert json.loads(escaped) == character
        assert not ACTS.search(escaped)
