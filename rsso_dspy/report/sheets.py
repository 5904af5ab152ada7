"""Tables as values: cells hold a computed number, or none, and how it is printed. Sheets become Markdown, LaTeX, CSV,
whose numbers are not rounded, and terminal tables."""

import csv as csv_module
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import takewhile
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsso_dspy.files import HEAD, FileKind, open_regular
from rsso_dspy.power import LEVEL
from rsso_dspy.pricing import format_dollars
from rsso_dspy.report.intervals import MOST_POINTS, MeanInterval
from rsso_dspy.report.terminal import replace_controls

NOTHING = "n/a"
NAME_WIDTH = 13  # to which a column of words may shrink; that of the rows' names, to three tenths of the window
INTERVAL = (f"{LEVEL:.0%} from", "to")  # columns of the ends of an interval; its mean stands before them
Tone = Literal["", "bad", "dim", "total", "best", "second"]
MARKS = {"best": ("bold", "**%s**", r"\textbf{%s}"), "second": ("underline", "<u>%s</u>", r"\underline{%s}")}
"""Tone of a cell to its style in a terminal, in Markdown and in LaTeX."""


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
        part, of = value
        share = part / of if of else None
        return Cell(f"{part}/{of}", share, counts=f"{part} of {of}")

    form = "," if isinstance(value, int) else ".2f"
    return format_number(value, form)


def format_text(text: str, tone: Tone = "", task: str = "") -> Cell:
    return Cell(text, text, tone, task)


def format_number(value: float | None, form: str, tone: Tone = "") -> Cell:
    text = NOTHING if value is None else format(value, form)
    return Cell(text, value, tone)


def format_difference(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """Format a cell of a difference, without a sign if it is printed as 0."""
    if value is None:
        return Cell(NOTHING)
    text = f"{value:+.{digits}f}"
    is_zero = not text.strip("+-0.")
    if is_zero:
        text = text.lstrip("+-")
    return Cell(text, value, tone)


def format_interval(found: MeanInterval | None) -> tuple[Cell, Cell, Cell]:
    """Format the cells of both ends of an interval and of the least difference that such a run detects."""
    if found is None:
        return (Cell(NOTHING),) * 3

    difference = found.detectable_difference
    if difference is not None and difference > MOST_POINTS:
        detectable = Cell(f">{MOST_POINTS:.0f}")  # no scores differ as much: CSV, too, holds no number for it
    else:
        detectable = format_number(difference, ".1f")
    return format_difference(found.low, 1), format_difference(found.high, 1), detectable


def format_p_value(value: float | None) -> Cell:
    if value is None:
        return Cell(NOTHING)
    if value < 0.0001:
        return Cell("<0.0001", value)
    return Cell(f"{value:.4f}", value)


def format_dollar_amount(amount: float | None) -> Cell:
    return Cell(format_dollars(amount), amount)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table, whose first column names the rows."""

    name: str  # file name of the table, without ending
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def numeric(self) -> list[bool]:
        """Whether each column is aligned to the right: all but the first, if no row holds a text there."""
        return [place > 0 and not self._holds_text(place) for place in range(len(self.columns))]

    def _holds_text(self, place: int) -> bool:
        return any(isinstance(row[place].value, str) for row in self.rows)


def build_sheet(
    name: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()
) -> Sheet:
    """Build a table whose cells are given as `Value`."""
    cells = tuple(tuple(map(make_cell, row)) for row in rows)
    return Sheet(name, title, tuple(columns), cells, tuple(notes))


def mark_best(rows: Sequence[Sequence[Value]]) -> list[Sequence[Value]]:
    """Mark the highest and the second highest value of each column; values that are printed alike share a mark."""
    columns = [_mark_best_cells(column) for column in zip(*rows, strict=True)]
    return list(zip(*columns, strict=True))


def _mark_best_cells(column: Sequence[Value]) -> list[Cell]:
    cells = list(map(make_cell, column))
    values = {cell.text: float(cell.value) for cell in cells if cell.value is not None}
    if len(values) < 2:
        return cells

    best = sorted(values, key=lambda text: -values[text])
    tones: dict[str, Tone] = {best[0]: "best", best[1]: "second"}
    return [replace(cell, tone=tones.get(cell.text, cell.tone)) for cell in cells]


def merge_columns(sheet: Sheet) -> Sheet:
    """Return the sheet with one column in place of several that say the same in every row, and without those that say
    `NOTHING` in every row; notes name what is left out. Ends of intervals stay, as do whole numbers and zeros, which
    are alike by chance."""
    texts = [_list_texts(sheet, place) for place in range(len(sheet.columns))]
    kept_places = [0]
    same: dict[int, list[str]] = {}  # place of a column to the names of those that say the same
    empty = []
    for place, name in enumerate(sheet.columns[1:], start=1):
        if NOTHING in texts[place] and set(texts[place]) <= {NOTHING, ""}:
            empty.append(name)
            continue

        twins = [earlier for earlier in kept_places if texts[earlier] == texts[place]]
        if twins and _is_measured(sheet, place):
            same.setdefault(twins[0], []).append(name)
        else:
            kept_places.append(place)

    notes = [f"{join_words(names)}: as {sheet.columns[twin]} in every row." for twin, names in same.items()]
    if empty:
        notes.append(f"{join_words(empty)}: {NOTHING} in every row.")
    return replace(
        sheet,
        columns=tuple(sheet.columns[place] for place in kept_places),
        rows=tuple(tuple(row[place] for place in kept_places) for row in sheet.rows),
        notes=(*notes, *sheet.notes),
    )


def _list_texts(sheet: Sheet, place: int) -> list[str]:
    return [row[place].text for row in sheet.rows]


def _is_measured(sheet: Sheet, place: int) -> bool:
    """Whether a column holds fractions, shares or means of at least two rows, and not zeros alone."""
    if sheet.columns[place] in INTERVAL or len(sheet.rows) < 2 or not sheet.numeric[place]:
        return False
    cells = [row[place] for row in sheet.rows]
    all_zero = not any(cell.value for cell in cells)
    has_fractions = any(set("./%") & set(cell.text) for cell in cells)
    return has_fractions and not all_zero


def join_words(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def print_parts(parts: Iterable[Sheet | Text], file: IO[str] | None = None, width: int | None = None) -> None:
    """Print tables without titles, and texts, to `file` (default: stdout), as wide as the terminal, or `width`."""
    console = Console(file=file, width=width)
    for part in parts:
        if not isinstance(part, Sheet):
            Console(file=file, width=console.width).print(part)
            continue

        for table in _fit_sheet(part, console.width):
            table_width = sum((column.width or 0) + 2 for column in table.columns)
            Console(file=file, width=max(console.width, table_width)).print(table)


def _fit_sheet(sheet: Sheet, width: int) -> Iterator[Table]:
    """Yield the sheet as a table. One that is too wide is narrowed, then split into several, so that no digit is cut
    off; an interval stays with its mean, and a part names the rows that it says something of."""
    columns = _measure_columns(sheet, width)
    names = _choose_names(sheet, columns, width)
    groups = _group_intervals(sheet, len(names))
    blocks = _fill_blocks(columns, names, groups, width)

    full_width = sum(columns.longest) + 2 * (len(columns.longest) - 1)
    apart = 2 if full_width <= width else 1

    for block in blocks:
        places = [*names, *block]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, apart, 0, 0))
        widths = _share_width(columns, places, width)
        for place in places:
            justify: Literal["left", "right"] = "right" if columns.numeric[place] else "left"
            header = Text(columns.texts[place][0])
            table.add_column(header, justify=justify, overflow="fold", width=widths[place])

        for number, row in enumerate(sheet.rows, start=1):
            if len(blocks) == 1 or any(columns.texts[place][number] for place in block):
                cells = [Text(columns.texts[place][number], _find_style(row[place].tone)) for place in places]
                is_total = any(cell.tone == "total" for cell in row)
                table.add_row(*cells, style="bold" if is_total else None)
        if table.rows:
            yield table


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a sheet, and how wide they are in a terminal."""

    texts: list[list[str]]  # of the header and of every row
    numeric: list[bool]
    longest: list[int]  # width in which nothing folds
    narrowest: list[int]  # width below which something would be cut

    def sum_narrowest(self, places: Iterable[int]) -> int:
        """Return the least width of these columns, each with a space after it."""
        return sum(self.narrowest[place] + 1 for place in places)


def _measure_columns(sheet: Sheet, width: int) -> _Columns:
    rows = _list_rows(sheet)
    numeric = sheet.numeric
    texts = [list(map(replace_controls, column)) for column in zip(*rows, strict=True)]
    longest = [max(map(_measure, column)) for column in texts]
    narrowest = [_measure_least(*column) for column in zip(texts, numeric, strict=True)]
    narrowest[0] = max(narrowest[0], min(longest[0], width * 3 // 10))
    return _Columns(texts, numeric, longest, narrowest)


def _list_rows(sheet: Sheet) -> list[Sequence[str]]:
    """Return the texts of the header and of every row."""
    rows: list[Sequence[str]] = [sheet.columns]
    for row in sheet.rows:
        rows.append([cell.text for cell in row])
    return rows


def _choose_names(sheet: Sheet, columns: _Columns, width: int) -> list[int]:
    """Return the places of the first columns, those that name the rows in every part of a table."""
    rows = _list_rows(sheet)
    last = len(columns.texts) - 1
    names = list(takewhile(lambda place: not columns.numeric[place], range(last)))
    while len(names) < last and not _tell_apart(rows, len(names)):
        names.append(len(names))  # a number that tells rows apart, as that of a trial
    while len(names) > 1 and columns.sum_narrowest(names) > width * 2 // 3:
        names.pop()
    return names


def _tell_apart(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Whether so many first columns differ from row to row."""
    beginnings = {tuple(row[:count]) for row in rows}
    return len(beginnings) == len(rows)


def _group_intervals(sheet: Sheet, first: int) -> list[list[int]]:
    """Return the places of the columns from `first` on, the ends of an interval in one group with its mean."""
    groups: list[list[int]] = []
    for place in range(first, len(sheet.columns)):
        if groups and sheet.columns[place] in INTERVAL:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _fill_blocks(
    columns: _Columns, names: Sequence[int], groups: Iterable[Sequence[int]], width: int
) -> list[list[int]]:
    """Return the places of the columns that stand in each part of the table, beside its names."""
    blocks: list[list[int]] = []
    for group in groups:
        if blocks and columns.sum_narrowest([*names, *blocks[-1], *group]) - 1 <= width:
            blocks[-1] += group
        else:
            blocks.append(list(group))
    return blocks


def _share_width(columns: _Columns, places: Sequence[int], width: int) -> dict[int, int]:
    """Return the width of each of these columns, which are widened as far as there is room."""
    spare = max(0, width + 1 - columns.sum_narrowest(places))
    widths: dict[int, int] = {}
    for place in sorted(places, key=columns.numeric.__getitem__):  # words first, then the headers of numbers
        widths[place] = min(columns.longest[place], columns.narrowest[place] + spare)
        spare -= widths[place] - columns.narrowest[place]
    return widths


def _find_style(tone: Tone) -> str:
    return MARKS[tone][0] if tone in MARKS else ""


def _measure(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)


def _measure_least(column: Sequence[str], numeric: bool) -> int:
    """Return the width below which a number, or a word of the header, would be cut; names and words fold."""
    head = max(map(cell_len, column[0].split()), default=0)
    cells = max(map(_measure, column[1:]), default=0)
    return max(head, cells if numeric else min(cells, NAME_WIDTH))


def _escape_rows(sheet: Sheet, escape: Callable[[str], str], form: int) -> list[list[str]]:
    """Return the texts of the header and of every row, with the marks of a form of `MARKS`."""
    rows = [list(map(escape, sheet.columns))]
    for row in sheet.rows:
        rows.append([_mark_text(cell.tone, escape(cell.text), form) for cell in row])
    return rows


def _mark_text(tone: Tone, text: str, form: int) -> str:
    if tone not in MARKS:
        return text
    return MARKS[tone][form] % text


def to_markdown(sheet: Sheet) -> str:
    head, *rows = _escape_rows(sheet, _escape_markdown, 1)
    ruler = ["---:" if numeric else ":---" for numeric in sheet.numeric]
    lines = [f"**{_escape_markdown(sheet.title)}**", ""]
    lines += [f"| {' | '.join(row)} |" for row in (head, ruler, *rows)]
    lines += [f"\n{_escape_block(_escape_markdown(note))}" for note in sheet.notes]
    return "\n".join(lines) + "\n"


def to_latex(sheet: Sheet) -> str:
    """Render the sheet with a caption of title and notes, shrunk where it is wider than the text."""
    head, *rows = [" & ".join(row) + r" \\" for row in _escape_rows(sheet, _escape_latex, 2)]
    sentences = [text.rstrip(".") + "." for text in (sheet.title, *sheet.notes)]
    caption = " ".join(map(_escape_latex, sentences))
    form = "".join("r" if numeric else "l" for numeric in sheet.numeric)
    body = "\n".join(rows)
    return rf"""% {_flatten_text(sheet.title)}
% needs \usepackage{{booktabs,graphicx}}
\begin{{table}}
\centering
\caption{{{caption}}}
\label{{tab:{sheet.name}}}
\sbox0{{%
\begin{{tabular}}{{{form}}}
\toprule
{head}
\midrule
{body}
\bottomrule
\end{{tabular}}}}
\ifdim\wd0>\linewidth\resizebox{{\linewidth}}{{!}}{{\usebox0}}\else\usebox0\fi
\end{{table}}
"""


def to_csv(sheet: Sheet) -> str:
    """Render the sheet as CSV with unrounded numbers; cells without a value are empty."""
    text = StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow([_write_csv_name(name) for name in sheet.columns])
    for row in sheet.rows:
        writer.writerow([_write_csv_value(cell) for cell in row])
    return text.getvalue()


def _write_csv_name(name: str) -> str:
    return name if _OWN_NAME.fullmatch(name) else _escape_formula(name)


def _write_csv_value(cell: Cell) -> float | int | str:
    if cell.counts:
        return cell.counts
    if cell.value is None:
        return ""
    if isinstance(cell.value, str):
        return _escape_formula(cell.value)
    return cell.value


_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # how a spreadsheet's formulas begin, wide ones too
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?%?")
_OWN_NAME = re.compile(r"\+[a-z]+")  # of a column, such as `+reset`: one word is no formula


def _escape_formula(text: str) -> str:
    """Return the text as one that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    plain = replace_controls(text)
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{plain}"
    return plain


FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}  # by file ending


def make_kind(name: str, *marks: bytes) -> FileKind:
    """Return the kind of files that hold one of these marks, at any place."""

    def holds(path: Path) -> bool:
        with open_regular(path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return any(data.find(mark) >= 0 for mark in marks)

    return FileKind(name, holds)


def build_table_kind(text: str) -> FileKind:
    """Return the kind of files that hold the same table as `text`: their first lines begin alike."""

    def is_same_table(path: Path) -> bool:
        with open_regular(path) as file:
            line = file.readline(HEAD).decode("utf-8", "replace").rstrip("\r\n")
        first_line = text.partition("\n")[0]
        return line.split(",")[:2] == first_line.split(",")[:2]

    return FileKind("table", is_same_table)


_MARKDOWN = re.compile(
    r"""
    [\\`*\[\]|~]            # code, emphasis, links, cells
    | (?<!\w)_ | _(?!\w)     # emphasis; within a word it is none
    | <(?=[A-Za-z/!?])       # tags
    | &(?=\#?\w+;)           # entities
    """,
    re.VERBOSE,
)


def _escape_markdown(text: str) -> str:
    """Return the text in one line, in which nothing is taken for Markdown or HTML."""
    return _MARKDOWN.sub(r"\\\g<0>", _flatten_text(text))


def _escape_block(line: str) -> str:
    """Return a line that begins no heading, list or quotation."""
    if re.match(r"[#>+=-]+\s", line):
        return f"\\{line}"
    return re.sub(r"^(\d+)([.)]\s)", r"\1\\\2", line)


def _flatten_text(text: str) -> str:
    return " ".join(replace_controls(text).split())


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
        "\N{REPLACEMENT CHARACTER}": "?",  # which few fonts of TeX have
    }
)


def _escape_latex(text: str) -> str:
    escaped = _MINUS.sub("$-$", _flatten_text(text).translate(_LATEX))
    if escaped.startswith(("[", "*")):  # an option of the row's end before it
        return f"{{}}{escaped}"
    return escaped
