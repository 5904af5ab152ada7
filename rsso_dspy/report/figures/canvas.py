"""The canvas of a figure: layout, legend and notes below the axes.

with open_axes(get_width(), 3.6) as (figure, axes):
    ...
    return finish_figure(figure, ["2 errored units are left out."], entries)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from rsso_dspy.report.figures.style import FAINT, FONT, INK, ArmStyle, import_figure_class, measure_names

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

_size: ContextVar[FigureSize] = ContextVar("size", default="page")

LETTERS = 19
"""Characters of a note per inch."""

LABEL_LETTERS = 13
"""Characters of an axis label per inch."""

NOTE_LINE, LEGEND_LINE, TOP = 0.135, 0.19, 0.05
"""Inches."""

SETTINGS: dict[str, Any] = {
    "font.family": FONT,
    "font.size": 9,
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


@contextmanager
def use_figure_size(size: FigureSize) -> Iterator[None]:
    """Draw the figures of the block for this width."""
    before = _size.set(size)
    try:
        yield
    finally:
        _size.reset(before)


def is_column() -> bool:
    """Return whether figures are drawn for one of two columns."""
    return _size.get() == "column"


def get_width() -> float:
    """Return the width of figures in inches."""
    return WIDTHS[_size.get()]


@contextmanager
def use_figure_style() -> Iterator[type["Figure"]]:
    """Use matplotlib's defaults with `SETTINGS`, ignoring the user's configuration.

    Raises `UsageError` if it is not installed.
    """
    new_figure = import_figure_class()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(SETTINGS)
        settings.update({"font.size": LETTER_SIZES[_size.get()]})
        yield new_figure


@contextmanager
def open_axes(width: float, height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """Open a figure of this size in inches with one pair of axes, in the style of all figures.

    Raises `UsageError` if matplotlib is not installed.
    """
    with use_figure_style() as new_figure:
        figure = new_figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


LegendEntry = tuple[Any, str]
"""A legend entry: symbol and name."""


def make_legend_entry(style: ArmStyle) -> LegendEntry:
    """An arm in a legend."""
    return make_legend_line(style.colour, linestyle=style.dashes, marker=style.marker, markeredgewidth=0), style.name


def make_legend_line(colour: str, **more: Any) -> Any:
    """A line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, **{"linewidth": 1.4, "markersize": 5, **more})


def add_legend_and_notes(figure: "Figure", notes: Sequence[str] = (), entries: Sequence[LegendEntry] = ()) -> float:
    """Add a legend and notes below the axes and enlarge the figure accordingly.

    Returns the middle of the axes as a share of the height.
    """
    width, height = figure.get_size_inches()
    said = "\n".join(fill(note, int(LETTERS * width), break_on_hyphens=False) for note in notes)
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
        handles = [handle for handle, _ in entries]
        anchor = (left, noted / whole)
        legend = figure.legend(
            handles,
            ["-"] * len(entries),
            loc="lower left",
            bbox_to_anchor=anchor,
            ncols=columns,
            borderaxespad=0,
            borderpad=0.2,
        )
        for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
            text.set_text(name)
    return (noted + listed + height / 2) / whole


def finish_figure(figure: "Figure", notes: Sequence[str] = (), entries: Sequence[LegendEntry] = ()) -> "Figure":
    """Add legend and notes below the axes, and fix the layout."""
    add_legend_and_notes(figure, notes, entries)
    return freeze_layout(figure)


def freeze_layout(figure: "Figure") -> "Figure":
    """Fix the layout of the finished figure, so that its bytes do not depend on earlier drawing."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def set_trial_axis(axes: "Axes", trials: int) -> None:
    """Whole trials on the x axis."""
    step = max(1, -(-trials // 10))
    axes.set_xticks(sorted({1, *range(step, trials + 1, step)}) if step > 1 else list(range(1, trials + 1)))
    axes.set_xlim(0.7, trials + 0.3)


def widen_points_axis(axes: "Axes", which: Literal["x", "y"] = "y") -> None:
    """Make the axis span at least two points, so that equal scores look equal."""
    low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
    if high - low < 2:
        middle = (low + high) / 2
        axes.set(**{f"{which}lim": (middle - 1, middle + 1)})


def wrap_label(text: str) -> str:
    """Break a label of an axis that is as wide as the figure."""
    return fill(text, int(LABEL_LETTERS * get_width()), break_on_hyphens=False)


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


def _count_legend_columns(names: Sequence[str], width: float) -> int:
    """Return the number of columns that fit, without needless ones."""
    most = max(1, int((width - 0.1) / (measure_names(names) + 0.62)))
    return -(-len(names) // -(-len(names) // most)) if names else 1
