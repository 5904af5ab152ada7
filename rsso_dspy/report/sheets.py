"""Tables as values: cells hold a computed number, or none, and how it is printed. Sheets become Markdown, LaTeX, CSV,
whose numbers are not rounded, and terminal tables."""

import csv as csv_module
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from rsso_dspy.files import FileKind
from rsso_dspy.pricing import format_dollars
from rsso_dspy.report.statistics import BootstrapInterval
from rsso_dspy.report.terminal import create_named_table, replace_controls, to_plain_text

NOTHING = "n/a"
Tone = Literal["", "good", "bad", "dim", "total"]


@dataclass(frozen=True, slots=True)
class Cell:
    text: str  # printed text
    value: float | int | str | None = None  # computed value, if any
    tone: Tone = ""
    task: str = ""  # task type of the row, if it has one
    counts: str = ""  # text for CSV, without a slash, which spreadsheets read as a date


Value = Cell | str | float | tuple[int, int] | None  # points, a count, a share (part, of)


def make_cell(value: Value) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return format_text(value) if value else Cell("")
    if isinstance(value, tuple):
        return format_share(*value)
    return format_count(value) if value is None or isinstance(value, int) else format_points(value)


def format_text(text: str, tone: Tone = "", task: str = "") -> Cell:
    return Cell(text, text, tone, task)


def format_points(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    return Cell(NOTHING if value is None else f"{value:.{digits}f}", value, tone)


def format_difference(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """Format a cell of a difference, without a sign if it is printed as 0."""
    if value is None:
        return Cell(NOTHING)
    text = f"{value:+.{digits}f}"
    return Cell(text if text.strip("+-0.") else text.lstrip("+-"), value, tone)


def format_interval(found: BootstrapInterval | None) -> tuple[Cell, Cell]:
    low, high = (found.low, found.high) if found else (None, None)
    return format_difference(low, 1), format_difference(high, 1)


def format_count(value: int | None) -> Cell:
    return Cell(NOTHING if value is None else f"{value:,}", value)


def format_share(part: int, of: int) -> Cell:
    return Cell(f"{part}/{of}", part / of if of else None, counts=f"{part} of {of}")


def format_sign_counts(up: int, down: int) -> Cell:
    """Format a cell of numbers of units that went up and down: "+3 -0"."""
    return Cell(f"+{up} -{down}", up - down, counts=f"+{up} -{down}")


def format_percent(share: float | None) -> Cell:
    return Cell(NOTHING if share is None else f"{share:.1%}", share)


def format_p_value(value: float | None) -> Cell:
    return Cell(NOTHING if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}", value)


def format_dollar_amount(amount: float | None) -> Cell:
    return Cell(format_dollars(amount), amount)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table, whose first column names the rows. Raises `ValueError` if a row has not one cell per column."""

    name: str  # file name of the table, without ending
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def numeric(self) -> list[bool]:
        """Whether each column is aligned to the right: all but the first, if no row holds a text there."""
        return [
            place > 0 and not any(isinstance(row[place].value, str) for row in self.rows)
            for place in range(len(self.columns))
        ]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: {len(row)} cells under {len(self.columns)} columns, {row[0].text}")


def build_sheet(
    name: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()
) -> Sheet:
    """Build a table whose cells are given as `Value`."""
    return Sheet(name, title, tuple(columns), tuple(tuple(map(make_cell, row)) for row in rows), tuple(notes))


def to_rich_table(sheet: Sheet) -> Table:
    """Render the sheet for a terminal, without its title, which would be wrapped to the width of the table."""
    words = [column for column, numeric in zip(sheet.columns, sheet.numeric, strict=True) if not numeric]
    table = create_named_table("", *sheet.columns, words=words)
    for row in sheet.rows:
        style = "bold" if any(cell.tone == "total" for cell in row) else None
        table.add_row(*(to_plain_text(cell.text) for cell in row), style=style)
    return table


def to_markdown(sheet: Sheet) -> str:
    lines = [f"**{_flatten_text(sheet.title)}**", ""] if sheet.title else []
    ruler = ["---:" if numeric else ":---" for numeric in sheet.numeric]
    rows = ([cell.text for cell in row] for row in sheet.rows)
    lines += map(_format_markdown_row, [sheet.columns, ruler, *rows])
    return "\n".join([*lines, *(f"\n{_flatten_text(note)}" for note in sheet.notes)]) + "\n"


def to_latex(sheet: Sheet) -> str:
    """Render the sheet as a table with rules of booktabs, a caption of title and notes, and the label ``tab:NAME``. It
    needs the packages booktabs and graphicx, which shrinks a table that is wider than the text."""
    form = "".join("r" if numeric else "l" for numeric in sheet.numeric)
    caption = " ".join(_escape_latex(part.rstrip(".") + ".") for part in (sheet.title, *sheet.notes) if part)
    return "\n".join(
        [
            f"% {_flatten_text(sheet.title)}",
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{sheet.name}}}",
            r"\sbox0{%",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            _format_latex_row(sheet.columns),
            r"\midrule",
            *(_format_latex_row([cell.text for cell in row]) for row in sheet.rows),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
            r"\end{table}",
            "",
        ]
    )


def to_csv(sheet: Sheet) -> str:
    """Render the sheet as CSV with unrounded numbers; cells without a value are empty."""
    text = StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow(sheet.columns)
    writer.writerows([cell.counts or ("" if cell.value is None else cell.value) for cell in row] for row in sheet.rows)
    return text.getvalue()


FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}  # by file ending


def build_table_kind(text: str) -> FileKind:
    """Return the kind of files that hold the same table as `text`: their first lines begin alike, except numbers."""

    def parse_header(of: str) -> list[str]:
        return re.sub(r"[0-9,]+(?= )", "#", of.partition("\n")[0]).split(",")[:2]

    def is_same_table(path: Path) -> bool:
        with path.open(encoding="utf-8", errors="replace") as file:
            return parse_header(file.readline()) == parse_header(text)

    return FileKind("table", is_same_table)


def _flatten_text(text: str) -> str:
    return " ".join(replace_controls(text).split())


def _format_markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_flatten_text(cell).replace('|', chr(92) + '|') for cell in cells)} |"


_MINUS = re.compile(r"(?<![\w.])-(?=\d)")  # A minus sign before a number, not within a name

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\N{MINUS SIGN}": "$-$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "…": r"\ldots{}",
    }
)


def _format_latex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(map(_escape_latex, cells))} \\\\"


def _escape_latex(text: str) -> str:
    return _MINUS.sub("$-$", _flatten_text(text).translate(_LATEX))
