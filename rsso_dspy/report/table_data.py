"""Tables as values: what a table says, whoever prints it.

    sheet = Sheet("methods", "Best of t", ("arm", "Mean"), ((make_text_cell("rsso"), make_points_cell(74.083)),))
    to_markdown(sheet), to_latex(sheet), to_csv(sheet), to_rich_table(sheet)

A cell holds the number as it was computed and as it is printed, so that CSV loses nothing to rounding.
"""

import csv as csv_module
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from rich.table import Table

from rsso_dspy.report.terminal import create_named_table, replace_controls, to_plain_text

NOTHING = "n/a"

Tone = Literal["", "good", "bad", "dim", "total"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    """As printed."""
    value: float | int | str | None = None
    """As computed; None where there is none."""
    tone: Tone = ""
    task: str = ""
    """Task type that the row is about, where it is about one."""
    counts: str = ""
    """What CSV holds in place of the value, where that is made of counts. No slash: a spreadsheet would read a date."""

    @property
    def is_numeric(self) -> bool:
        """Whether it is set to the right, as numbers are."""
        return not isinstance(self.value, str)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table. The first column names its rows. Raises `ValueError` for a row that has not a cell for each column."""

    name: str
    """Of a file that holds it, without ending."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: {len(row)} cells under {len(self.columns)} columns, {row[0].text}")


def make_text_cell(text: str, tone: Tone = "", task: str = "") -> Cell:
    """A name, or other words."""
    return Cell(text, text, tone, task)


def make_points_cell(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """Points of 100, or another measure."""
    return Cell(NOTHING if value is None else f"{value:.{digits}f}", value, tone)


def make_difference_cell(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """A difference; no sign on what is printed as nothing."""
    if value is None:
        return Cell(NOTHING)
    text = f"{value:+.{digits}f}"
    return Cell(text if text.strip("+-0.") else text.lstrip("+-"), value, tone)


def make_count_cell(value: int | None) -> Cell:
    """A count."""
    return Cell(NOTHING if value is None else f"{value:,}", value)


def make_share_cell(part: int, of: int) -> Cell:
    """So many of so many."""
    return Cell(f"{part}/{of}", part / of if of else None, counts=f"{part} of {of}")


def make_sign_counts_cell(up: int, down: int, ties: int | None = None) -> Cell:
    """So many up, down and, maybe, equal."""
    last = [] if ties is None else [ties]
    signs = [f"+{up}", f"-{down}", *(f"={number}" for number in last)]
    return Cell("/".join(map(str, [up, down, *last])), up - down, counts=" ".join(signs))


def make_percent_cell(value: float | None) -> Cell:
    """A share as percentage."""
    return Cell(NOTHING if value is None else f"{value:.1%}", value)


def make_p_value_cell(value: float | None) -> Cell:
    """A p value."""
    return Cell(NOTHING if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}", value)


def to_rich_table(sheet: Sheet) -> Table:
    """For the terminal, without its title: a title wider than the table would be wrapped."""
    words = tuple(
        column for place, column in enumerate(sheet.columns) if place and not _is_numeric_column(sheet, place)
    )
    table = create_named_table("", *sheet.columns, words=words)
    for row in sheet.rows:
        style = "bold" if any(cell.tone == "total" for cell in row) else None
        table.add_row(*(to_plain_text(cell.text) for cell in row), style=style)
    return table


def to_markdown(sheet: Sheet) -> str:
    """A pipe table with its title and notes."""
    lines = [f"**{_flatten_text(sheet.title)}**", ""] if sheet.title else []
    lines += [
        _format_markdown_row(sheet.columns),
        _format_markdown_row(
            [":---", *("---:" if _is_numeric_column(sheet, n) else ":---" for n in _get_value_columns(sheet))]
        ),
    ]
    lines += [_format_markdown_row([cell.text for cell in row]) for row in sheet.rows]
    return "\n".join([*lines, *(f"\n{_flatten_text(note)}" for note in sheet.notes)]) + "\n"


def to_latex(sheet: Sheet) -> str:
    """A tabular with booktabs' rules, ready to be put into a table."""
    form = "l" + "".join("r" if _is_numeric_column(sheet, place) else "l" for place in _get_value_columns(sheet))
    lines = [
        f"% {_flatten_text(sheet.title)}",
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        _format_latex_row(sheet.columns),
    ]
    lines += [r"\midrule", *(_format_latex_row([cell.text for cell in row]) for row in sheet.rows), r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", *(f"% {_flatten_text(note)}" for note in sheet.notes)]) + "\n"


def to_csv(sheet: Sheet) -> str:
    """Numbers as computed, not as printed; what is none is empty."""
    text = StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow(sheet.columns)
    writer.writerows([cell.counts or ("" if cell.value is None else cell.value) for cell in row] for row in sheet.rows)
    return text.getvalue()


FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
"""Ending of a file to what writes a sheet so."""


def _get_value_columns(sheet: Sheet) -> range:
    return range(1, len(sheet.columns))


def _is_numeric_column(sheet: Sheet, place: int) -> bool:
    return all(row[place].is_numeric for row in sheet.rows)


def _flatten_text(text: str) -> str:
    return " ".join(replace_controls(text).split())


def _format_markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_flatten_text(cell).replace('|', chr(92) + '|') for cell in cells)} |"


_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
"""Before a number, not within a name."""

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def _format_latex_row(cells: Sequence[str]) -> str:
    marked = (_MINUS.sub("$-$", _flatten_text(cell).translate(_LATEX)) for cell in cells)
    return f"{' & '.join(marked)} \\\\"
