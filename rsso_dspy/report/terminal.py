"""Tables for terminals of any width, and text that is safe to print."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from textwrap import wrap
from typing import IO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on or cannot show: control characters, changes of direction, unpaired surrogates.
Newlines and tabs stay."""

NAME_WIDTH = 13
"""Minimum width of the column of arms."""

HEAD_WIDTH = 6
"""Minimum width of columns whose header is wrapped."""

WORDS = ("role", "model")
"""Columns of words; all others hold numbers."""


def replace_controls(text: str) -> str:
    """Return the text with a visible mark for every control character, so that the text of a model or a server cannot
    move the cursor, change colours or hide a line."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_controls(text: str) -> str:
    """Return JSON text with every control character escaped; the data stay the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeConsole(Console):
    """A console that passes all text through `replace_controls`, but keeps its own colours and cursor moves."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with control characters replaced."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(replace_controls(part.text), part.style)


def to_plain_text(text: str) -> Text:
    """Return the text without interpreting markup or control characters."""
    return Text(replace_controls(text))


def create_named_table(title: str, *columns: str, words: Sequence[str] = WORDS) -> Table:
    """Create a table whose first column, of names, shrinks in narrow terminals, so that no digit is cut off."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.add_column(to_plain_text(columns[0]), overflow="fold", min_width=NAME_WIDTH)
    for column in columns[1:]:
        table.add_column(to_plain_text(column), justify="left" if column in words else "right", no_wrap=True)
    return table


def print_renderable(shown: RenderableType, file: IO[str] | None = None, width: int | None = None) -> None:
    """Print to `file` (default: stdout), as wide as the terminal, or `width`.

    A table that is too wide is narrowed, then split into several below one another, so that no digit is cut off.
    """
    console = SafeConsole(file=file, width=width)
    for part in shown.renderables if isinstance(shown, Group) else [shown]:
        needed = console.width
        if not isinstance(part, Text) and compute_needed_width(console, part) > needed:
            for table in _iterate_tables(part):
                _narrow_table(console, table)
                for column in (each for each in table.columns if not each.no_wrap):
                    if (over := compute_needed_width(console, table) - needed) > 0:
                        column.max_width = max(NAME_WIDTH, _measure_column(console, column) - over)
        split = _split_table(console, part, needed) if isinstance(part, Table) else [part]
        for piece in split:
            least = needed if isinstance(piece, Text) else compute_needed_width(console, piece)
            SafeConsole(file=file, width=max(needed, least)).print(piece)


def _split_table(console: Console, table: Table, width: int) -> list[Table]:
    """Split the columns over as many tables as the width asks for, each with the names of the rows."""
    if len(table.columns) < 2 or compute_needed_width(console, table) <= width:
        return [table]
    names = list(takewhile(lambda column: column.justify == "left", table.columns[:-1]))
    while len(names) > 1 and _needs(console, table, names) > width * 2 // 3:
        names.pop()
    blocks: list[list[Column]] = []
    for column in table.columns[len(names) :]:
        if blocks and _needs(console, table, [*names, *blocks[-1], column]) <= width:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return [_copy_columns(table, [*names, *block]) for block in blocks]


def _needs(console: Console, table: Table, columns: Sequence[Column]) -> int:
    return compute_needed_width(console, _copy_columns(table, columns))


def _copy_columns(table: Table, columns: Sequence[Column]) -> Table:
    """Return a table of these columns."""
    copied = Table(box=None, pad_edge=False, header_style=table.header_style, padding=table.padding)
    copied.title, copied.title_justify, copied.title_style = table.title, table.title_justify, table.title_style
    for column in columns:
        copied.add_column(
            column.header,
            justify=column.justify,
            no_wrap=column.no_wrap,
            overflow=column.overflow,
            min_width=column.min_width,
            max_width=column.max_width,
        )
    for row, cells in zip(table.rows, zip(*(column.cells for column in columns), strict=True), strict=True):
        copied.add_row(*cells, style=row.style)
    return copied


def _narrow_table(console: Console, table: Table) -> None:
    """Reduce the padding to one space, and wrap headers and words."""
    table.padding = (0, 1, 0, 0)
    for column in (each for each in table.columns if each.no_wrap):
        longest = max(_measure_column(console, column), HEAD_WIDTH)
        if column.justify == "left":
            column.no_wrap, column.overflow, column.min_width = False, "fold", min(longest, NAME_WIDTH)
        column.header = to_plain_text(_wrap_header(str(column.header), longest))


def _wrap_header(head: str, width: int) -> str:
    """Wrap a header to `width` or its longest word; a slash ends a word."""
    words = re.sub(r"(?<=\w)/", "/ ", head).split()
    return "\n".join(wrap(" ".join(words), max([width, *map(len, words)]), break_on_hyphens=False)).replace("/ ", "/")


def _measure_column(console: Console, column: Column) -> int:
    """Return the width of the longest word in a column of names, or of the longest cell in a column of numbers."""
    sizes = (Measurement.get(console, console.options, cell) for cell in column.cells)
    return max((size.maximum if column.no_wrap else size.minimum for size in sizes), default=0)


def compute_needed_width(console: Console, tables: RenderableType) -> int:
    """Return the width below which digits would be cut off. Sets the minimum width of columns that must not wrap."""
    for table in _iterate_tables(tables):
        for column in (each for each in table.columns if each.no_wrap):
            texts = [column.header, *column.cells]
            column.min_width = max(Measurement.get(console, console.options, text).maximum for text in texts)
    return Measurement.get(console, console.options.update(max_width=1000), tables).minimum


def _iterate_tables(shown: RenderableType) -> Iterator[Table]:
    if isinstance(shown, Table):
        yield shown
    elif isinstance(shown, Group):
        for each in shown.renderables:
            yield from _iterate_tables(each)
