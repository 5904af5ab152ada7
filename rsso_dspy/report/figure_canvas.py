"""How figures look: arms, axes, rows, legend and notes below the axes; and figures as files, and as SVG for a page.

Every colour has a contrast of 3 or more on white and on a dark page, and any two are distinguishable with colour
blindness. The marker is a second cue and repeats with another period than the colour.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import bidirectional

from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.files import FileKind, atomic_path, make_marked_kind
from rsso_dspy.report.statistics import MeanEstimate
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FigureSize = Literal["page", "column"]

WIDTHS: dict[FigureSize, float] = {"page": 7.2, "column": 3.5}
"""Width in inches: about that of a page's text, and of one of two columns."""

LETTER_SIZES: dict[FigureSize, float] = {"page": 9, "column": 7}
"""Size of letters in points."""

NOTE_SIZE = 6.25
"""Size of the letters of notes in points, at either width: about the least that a reader of paper can read."""

ROW = 0.3
"""Inches of a row of a figure of rows, and of every further line in it."""

NOTE_LINE, LEGEND_LINE, TOP = 0.135, 0.19, 0.05
"""Inches."""

NOTE_LETTERS, LABEL_LETTERS = 19, 13
"""Characters of a note, and of an axis label, per inch."""

WIDE: dict[FigureSize, int] = {"page": 34, "column": 24}
"""Letters of two names that stand on one line."""

INK = "#1a1a1a"
FAINT = "#777f87"
"""Notes, grid lines and what is not of this run; of equal contrast on white and on a dark page."""

PALETTE = ("#464afb", "#cb8218", "#319586", "#b777df", "#8e5c14", "#7457a6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)))

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws the same."""

LONGEST = 28
"""Letters of a name in a picture."""

SETTINGS: dict[str, Any] = {
    "font.family": FONT,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "text.hinting": "none",
    "svg.fonttype": "path",
    "svg.hashsalt": "rsso-dspy",
}
"""`text.parse_math` is off because names of arms may contain a dollar sign, and hinting because it widens letters by
another share at each resolution, so that what fits in the layout would not fit in the file."""


# What arms look like.


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """The style of one arm."""

    name: str
    """As written in pictures: safe, not longer than `LONGEST`, and no other arm's."""
    colour: str
    marker: str
    dashes: Any = "-"
    """Of its lines; another one when the colours come round."""

    @property
    def line(self) -> dict[str, Any]:
        """How matplotlib is to draw its lines."""
        return {"color": self.colour, "linestyle": self.dashes}


def assign_arm_styles(arms: Iterable[str]) -> dict[str, ArmStyle]:
    """Assign a style to each arm by its place among the arms of the run."""
    found: dict[str, ArmStyle] = {}
    taken: set[str] = set()
    for place, arm in enumerate(arms):
        name, again = shorten_name(arm), 2
        while name in taken:
            tail = f" ({again})"
            name, again = shorten_name(arm, LONGEST - len(tail)) + tail, again + 1
        taken.add(name)
        dashes = DASHES[place // len(PALETTE) % len(DASHES)]
        found[arm] = ArmStyle(name, PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)], dashes)
    return found


def shorten_name(text: str, longest: int = LONGEST) -> str:
    """A name as it may stand in a picture: on one line, no character that acts or that the font lacks, the middle of a
    long one left out, because names differ at either end."""
    known, missing = _load_font_characters(), "\N{REPLACEMENT CHARACTER}"
    drawn = "".join(each if ord(each) in known else missing for each in clean_name(text))
    if len(drawn) <= longest:
        return drawn or missing
    ending = (longest - 1) // 2
    return f"{drawn[: longest - 1 - ending]}…{drawn[-ending:]}"


def clean_name(text: str) -> str:
    """A name as it may stand in a text: whole, on one line, no character that acts."""
    return " ".join(replace_controls(text).split())


def join_names(second: str, first: str, size: FigureSize) -> str:
    """The name of a row: on two lines when long, or when a name runs from right to left and would draw in the other."""
    turned = any(bidirectional(letter) in ("R", "AL") for letter in first + second)
    return f"{second}\n− {first}" if turned or len(first + second) > WIDE[size] else f"{second} − {first}"


@cache
def _load_font_characters() -> frozenset[int]:
    import_figure_class()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())


def import_figure_class() -> "type[Figure]":
    """Return matplotlib's class of figures. Raises `NotInstalled` without matplotlib."""
    require_extra("matplotlib.figure", "figures need matplotlib", "figures")
    from matplotlib.figure import Figure

    return Figure


# The canvas: layout, rows, legend and notes below the axes.


@contextmanager
def use_figure_style(size: FigureSize = "page") -> Iterator[type["Figure"]]:
    """Use matplotlib's defaults with `SETTINGS`, ignoring the user's configuration. Raises `UsageError` if it is not
    installed."""
    new_figure = import_figure_class()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update({**SETTINGS, "font.size": LETTER_SIZES[size]})
        yield new_figure


@contextmanager
def open_axes(size: FigureSize, height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """Open a figure of this height in inches with one pair of axes, in the style of all figures."""
    with use_figure_style(size) as new_figure:
        figure = new_figure(figsize=(WIDTHS[size], height), layout="constrained")
        yield figure, figure.add_subplot()


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A row of a figure: a mean with its interval under a name, and its numbers in words."""

    name: str
    estimate: MeanEstimate
    words: str
    colour: str = INK
    marker: str = "o"


@contextmanager
def open_rows(rows: Sequence[FigureRow], label: str, size: FigureSize) -> Iterator[tuple["Figure", "Axes"]]:
    """Open a figure of rows from the top, each with its numbers beside the axes, or below its name in a column, whose
    axes they would leave no room. A ring has no interval."""
    column = size == "column"
    names = [f"{row.name}\n{row.words}" if column else row.name for row in rows]
    sizes = [1 + 0.5 * name.count("\n") for name in names]
    places = [sum(sizes[:number]) + each / 2 for number, each in enumerate(sizes)]
    with open_axes(size, ROW * sum(sizes) + 0.75) as (figure, axes):
        for row, place in zip(rows, places, strict=True):
            found = row.estimate
            if found.interval:
                axes.plot([found.low, found.high], [place, place], color=row.colour, linewidth=1.4)
            filling = row.colour if found.interval else "none"
            axes.plot([found.mean], [place], row.marker, color=row.colour, markersize=5, markerfacecolor=filling)
            if not column:
                axes.text(1.02, place, row.words, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        axes.set_yticks(places, names)
        axes.set_ylim(places[-1] + 0.7, places[0] - 0.7)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        beside: dict[str, Any] = {"x": 1, "ha": "right"} if column else {}
        axes.set_xlabel(wrap_label(label, size), **beside)
        axes.margins(x=0.06)
        axes.grid(axis="x")
        widen_points_axis(axes, "x")
        yield figure, axes


LegendEntry = tuple[Any, str]
"""A legend entry: symbol and name."""


def make_arm_entry(style: ArmStyle) -> LegendEntry:
    """Return the legend entry of an arm."""
    return make_legend_line(style.colour, linestyle=style.dashes, marker=style.marker, markeredgewidth=0), style.name


def make_legend_line(colour: str, **more: Any) -> Any:
    """Return a line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, **{"linewidth": 1.4, "markersize": 5, **more})


def finish_figure(figure: "Figure", notes: Sequence[str] = (), entries: Sequence[LegendEntry] = ()) -> None:
    """Add legend and notes below the axes, enlarge the figure accordingly, and fix the layout, so that its bytes do not
    depend on earlier drawing."""
    width, height = figure.get_size_inches()
    said = "\n".join(fill(note, int(NOTE_LETTERS * width), break_on_hyphens=False) for note in notes)
    columns = _count_legend_columns([name for _, name in entries], width)
    noted = NOTE_LINE * (said.count("\n") + 1) + 0.12 if said else 0.05
    listed = LEGEND_LINE * -(-len(entries) // columns) + 0.1 if entries else 0.0
    whole = height + TOP + noted + listed
    figure.set_size_inches(width, whole)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, (noted + listed) / whole, 1, height / whole))
    left = 0.08 / width
    if said:
        figure.text(left, 0.06 / whole, said, fontsize=NOTE_SIZE, color=FAINT, va="bottom", linespacing=1.25)
    if entries:
        # names come after the legend is made: it would hide those that begin with an underscore
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (left, noted / whole), "ncols": columns}
        handles = [handle for handle, _ in entries]
        legend = figure.legend(handles, ["-"] * len(entries), borderaxespad=0, borderpad=0.2, **place)
        for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
            text.set_text(name)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _count_legend_columns(names: Sequence[str], width: float) -> int:
    """Return the number of columns that fit, without needless ones."""
    if not names:
        return 1
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family=FONT)
    longest = max(TextPath((0, 0), name, size=8, prop=font).get_extents().width for name in names) / 72
    most = max(1, int((width - 0.1) / (longest + 0.62)))
    return -(-len(names) // -(-len(names) // most))


def widen_points_axis(axes: "Axes", which: Literal["x", "y"] = "y") -> None:
    """Make the axis span at least two points, so that equal scores look equal."""
    low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
    if high - low < 2:
        middle = (low + high) / 2
        axes.set(**{f"{which}lim": (middle - 1, middle + 1)})


def wrap_label(text: str, size: FigureSize) -> str:
    """Break a label of an axis that is as wide as the figure."""
    return fill(text, int(LABEL_LETTERS * WIDTHS[size]), break_on_hyphens=False)


def mark_axis_start(axes: "Axes", which: Literal["x", "y"] = "y") -> list[str]:
    """Mark an axis that does not begin at 0 with a break at its foot; return the note that says so."""
    low = axes.get_ylim()[0] if which == "y" else axes.get_xlim()[0]
    if low <= 0:
        return []
    break_: dict[str, Any] = {"transform": axes.transAxes, "color": INK, "linewidth": 1, "clip_on": False}
    for place in (0.012, 0.034):
        along, across = [place - 0.01, place + 0.01], [-0.012, 0.012]
        axes.plot(*((across, along) if which == "y" else (along, across)), **break_)
    return [f"The {'vertical' if which == 'y' else 'horizontal'} axis does not begin at 0."]


def compute_side_offsets(names: Sequence[str]) -> Mapping[str, float]:
    """Return horizontal offsets by name, so that error bars do not overlap."""
    step = min(0.05, 0.3 / max(1, len(names)))
    return {name: (place - (len(names) - 1) / 2) * step for place, name in enumerate(names)}


# Files, and SVG for a page.

FORMATS = (".svg", ".pdf", ".png")

WRITER = "rsso-dspy"
"""Creator named in a figure's file."""

DOTS = 150
"""Per inch, of a PNG."""

MOST_READ = 1 << 24
"""Bytes of a PDF that are searched for its mark, which stands at its end."""

_METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": WRITER},
    ".pdf": {"CreationDate": None, "Creator": WRITER},
    ".png": {"Software": WRITER},
}

_MARKED = make_marked_kind("figure", b"<dc:title>%s<" % WRITER.encode(), b"Software\0%s" % WRITER.encode())


def _is_picture(path: Path) -> bool:
    if path.suffix.lower() != ".pdf":
        return _MARKED.holds(path)
    with path.open("rb") as file:
        return b"/Creator (%s)" % WRITER.encode() in file.read(MOST_READ)


PICTURE = FileKind("figure", _is_picture)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG, PDF or PNG, by suffix, atomically; letters stay text in SVG and PDF. Raises `UsageError`
    for another suffix."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{path} is neither .svg, .pdf nor .png, the forms that figures are written in")
    with use_figure_style(), atomic_path(path) as temporary:
        import matplotlib

        text: Any = {"svg.fonttype": "none", "pdf.fonttype": 42}
        matplotlib.rcParams.update(text)
        figure.savefig(temporary, format=ending[1:], dpi=DOTS, metadata=_METADATA[ending])


_DROPPED = re.compile(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>|<defs>\s*</defs>", re.DOTALL)
_NAMES = re.compile(r'(\bid="|href="#|url\(#)')
_STYLE = re.compile(r' style="([^"]*)"')
_BOX = re.compile(r'\bviewBox="0 0 ([\d.]+) ([\d.]+)"')
_POINT = 4 / 3
"""Pixels of a point."""


def render_svg(figure: "Figure", name: str) -> str:
    """Render a figure as an SVG element for an HTML page that allows no inline style and no script; the same figure
    gives the same bytes.

    Ids begin with `name`, so that a page can hold several; ink is the page's text colour, and the picture shrinks with
    the page. Letters are shapes, so the page needs `ReportFigure.alt` beside it.
    """
    text = StringIO()
    with use_figure_style():
        made = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", metadata=made, transparent=True)
    drawn = _DROPPED.sub("", text.getvalue())
    prefix = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-") or "figure"
    drawn = _STYLE.sub(_write_attributes, _NAMES.sub(rf"\g<1>{prefix}-", drawn[drawn.index("<svg ") :]))
    opening, closing = drawn[: drawn.index(">")], drawn[drawn.index(">") + 1 :]
    box = _BOX.search(opening)
    assert box is not None, "matplotlib names the size of a picture"
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box[0]} width="{float(box[1]) * _POINT:.0f}" stroke-linejoin="round" stroke-linecap="butt" '
        'aria-hidden="true" focusable="false">'
    )
    return re.sub(r"\s*\n\s*", "\n", head + closing).strip().replace(INK, "currentColor") + "\n"


def _write_attributes(style: re.Match[str]) -> str:
    """Write the declarations of an inline style as attributes."""
    parts = (part.partition(":") for part in style[1].split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in parts)
