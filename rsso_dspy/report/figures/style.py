"""The look of an arm in every figure of a run: name, colour, marker.

assign_arm_styles(["sso", "rsso"])["rsso"].colour

Every colour has a contrast of 3 or more on white and on a dark page, and any two are distinguishable with colour
blindness. The marker is a second cue and repeats with another period than the colour.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import require_extra
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1a1a1a"
FAINT = "#777f87"
"""Notes, grid lines and what is not of this run; of equal contrast on white and on a dark page."""

PALETTE = ("#464afb", "#cb8218", "#319586", "#b777df", "#8e5c14", "#7457a6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)))
UP, DOWN = PALETTE[0], PALETTE[1]

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws the same."""

LONGEST = 28
"""Letters of a name in a picture."""

_MISSING = "\N{REPLACEMENT CHARACTER}"


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
    def line_options(self) -> dict[str, Any]:
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
    known = _load_font_characters()
    drawn = "".join(each if ord(each) in known else _MISSING for each in clean_name(text))
    if len(drawn) <= longest:
        return drawn or _MISSING
    ending = (longest - 1) // 2
    return f"{drawn[: longest - 1 - ending]}…{drawn[-ending:]}"


def clean_name(text: str) -> str:
    """A name as it may stand in a text: whole, on one line, no character that acts."""
    return " ".join(replace_controls(text).split())


def measure_names(names: Iterable[str], size: float = 8) -> float:
    """Return the width in inches of the widest name in letters of `size` points; 0 without names."""
    import_figure_class()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family=FONT)
    widths = (TextPath((0, 0), name, size=size, prop=font).get_extents().width for name in names)
    return max(widths, default=0.0) / 72


def import_figure_class() -> "type[Figure]":
    """Return matplotlib's class of figures. Raises `NotInstalled` without matplotlib."""
    require_extra("matplotlib.figure", "figures need matplotlib", "figures")
    from matplotlib.figure import Figure

    return Figure


@cache
def _load_font_characters() -> frozenset[int]:
    import_figure_class()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())
