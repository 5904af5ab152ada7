"""Tables for a terminal of any width, and texts that are safe to show there."""

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal acts on instead of showing it, or cannot show: control characters, changes of direction, halves of
characters. Lines and tabs stay."""

NAME_WIDTH = 13
"""Least width of the column of arms."""

HEAD_WIDTH = 6
"""Width that every column has for its header where that is in several lines."""

WORDS = ("role", "model")
"""Columns that hold words; the others hold numbers."""


def replace_controls(text: str) -> str:
    """The text with every control character as a visible mark: what a model or a server said cannot move the cursor,
    recolour the screen or hide a line."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_controls(text: str) -> str:
    """A text of JSON with every such character as JSON writes it: the data is the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeConsole(Console):
    """A console that shows every text as `replace_controls` does. Its own colours and moves are not among the texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of what is shown."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(replace_controls(part.text), part.style)


def to_plain_text(text: str) -> Text:
    """The text as it is: nothing in it is markup, or moves the cursor."""
    return Text(replace_controls(text))


def create_named_table(title: str, *columns: str, words: Sequence[str] = WORDS) -> Table:
    """A table whose first column, of names, gives way where it is narrow: no digit is cut off."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.add_column(to_plain_text(columns[0]), overflow="fold", min_width=NAME_WIDTH)
    for column in columns[1:]:
        table.add_column(to_plain_text(column), justify="left" if column in words else "right", no_wrap=True)
    return table


def print_renderable(shown: RenderableType) -> None:
    """Print it on stdout: texts as wide as the terminal is, every table as wide as its digits need. One that is wider
    than the terminal is drawn together first."""
    console = SafeConsole()
    for part in shown.renderables if isinstance(shown, Group) else [shown]:
        width = console.width
        if not isinstance(part, Text) and compute_needed_width(console, part) > width:
            for table in _iterate_tables(part):
                _narrow_table(console, table)
                for column in (each for each in table.columns if not each.no_wrap):
                    if (over := compute_needed_width(console, table) - width) > 0:
                        column.max_width = max(NAME_WIDTH, _measure_column(console, column) - over)
            width = max(width, compute_needed_width(console, part))
        SafeConsole(width=width).print(part)


def _narrow_table(console: Console, table: Table) -> None:
    """Columns one apart, their headers in several lines, their words too."""
    table.padding = (0, 1, 0, 0)
    for column in (each for each in table.columns if each.no_wrap):
        longest = max(_measure_column(console, column), HEAD_WIDTH)
        if column.justify == "left":
            column.no_wrap, column.overflow, column.min_width = False, "fold", min(longest, NAME_WIDTH)
        column.header = to_plain_text(_wrap_header(str(column.header), longest))


def _wrap_header(head: str, width: int) -> str:
    """A header in lines of so many characters, or of its longest word; a slash after one ends it."""
    words = re.sub(r"(?<=\w)/", "/ ", head).split()
    return "\n".join(wrap(" ".join(words), max([width, *map(len, words)]), break_on_hyphens=False)).replace("/ ", "/")


def _measure_column(console: Console, column: Column) -> int:
    """Width of the longest word of a column of names, or cell of numbers."""
    sizes = (Measurement.get(console, console.options, cell) for cell in column.cells)
    return max((size.maximum if column.no_wrap else size.minimum for size in sizes), default=0)


def compute_needed_width(console: Console, tables: RenderableType) -> int:
    """Columns below which digits would be cut off. Words of a cell that must not be wrapped count as one: the columns
    are told."""
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
