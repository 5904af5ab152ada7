"""Tables for terminals of any width, and text that is safe to print."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import IO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on or cannot show: control characters, changes of direction, unpaired surrogates.
Newlines and tabs stay."""

NAME_WIDTH = 13  # width to which a column of names or words may shrink
WORDS = ("role", "model")  # columns of words; all others hold numbers


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
    """Print to `file` (default: stdout), as wide as the terminal, or `width`. A table that is too wide is narrowed,
    then split into several below one another, so that no digit is cut off."""
    console = SafeConsole(file=file, width=width)
    for part in shown.renderables if isinstance(shown, Group) else [shown]:
        for piece in _fit_table(part, console.width) if isinstance(part, Table) else [part]:
            least = sum((column.width or 0) + 1 for column in piece.columns) - 1 if isinstance(piece, Table) else 0
            SafeConsole(file=file, width=max(console.width, least)).print(piece)


def _fit_table(table: Table, width: int) -> Iterator[Table]:
    """Yield the table, or its columns in several tables, each with the names of the rows, if it is too wide."""
    longest = [max(map(_measure, [column.header, *column.cells])) for column in table.columns]
    if sum(longest) + 2 * (len(longest) - 1) <= width:
        yield table
        return
    least = [_measure_least(column) for column in table.columns]
    names = list(takewhile(lambda place: table.columns[place].justify == "left", range(len(longest) - 1)))
    while len(names) > 1 and sum(least[place] + 1 for place in names) > width * 2 // 3:
        names.pop()
    blocks: list[list[int]] = []
    for place in range(len(names), len(longest)):
        if blocks and sum(least[each] + 1 for each in [*names, *blocks[-1], place]) - 1 <= width:
            blocks[-1].append(place)
        else:
            blocks.append([place])
    for block in blocks:
        places = [*names, *block]
        spare = max(0, width + 1 - sum(least[place] + 1 for place in places))
        copied = Table(box=None, pad_edge=False, header_style=table.header_style, padding=(0, 1, 0, 0))
        copied.title, copied.title_justify, copied.title_style = table.title, table.title_justify, table.title_style
        for place in places:
            column, wide = table.columns[place], min(longest[place], least[place] + spare)
            spare -= wide - least[place]
            copied.add_column(column.header, justify=column.justify, overflow="fold", width=wide)
        for number, row in enumerate(table.rows):
            copied.add_row(*(list(table.columns[place].cells)[number] for place in places), style=row.style)
        yield copied


def _measure(text: RenderableType) -> int:
    return max(map(cell_len, str(text).splitlines()), default=0)


def _measure_least(column: Column) -> int:
    """Return the width below which a number, or a word of the header, would be cut; names and words fold."""
    head = max(map(cell_len, str(column.header).split()), default=0)
    cells = max(map(_measure, column.cells), default=0)
    return max(head, min(cells, NAME_WIDTH) if column.justify == "left" else cells)
