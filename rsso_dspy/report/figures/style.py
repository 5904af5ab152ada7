"""What an arm looks like in every picture of a run: its name, a colour, the shape of its marker.

styles(["sso", "rsso"])["rsso"].colour

Every colour has a contrast of 3 or more on white and on a dark page, and any two stay apart when one kind of colour
vision is missing; the shape is the second cue, and comes round at another arm than the colour does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from rsso_dspy.report.figures.installed import figure_class
from rsso_dspy.report.terminal import visible

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
class Style:
    """How one arm is drawn."""

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


def styles(arms: Iterable[str]) -> dict[str, Style]:
    """Arm to how it is drawn, by its place among the arms of the run."""
    found: dict[str, Style] = {}
    taken: set[str] = set()
    for place, arm in enumerate(arms):
        name, again = shown(arm), 2
        while name in taken:
            tail = f" ({again})"
            name, again = shown(arm, LONGEST - len(tail)) + tail, again + 1
        taken.add(name)
        dashes = DASHES[place // len(PALETTE) % len(DASHES)]
        found[arm] = Style(name, PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)], dashes)
    return found


def shown(text: str, longest: int = LONGEST) -> str:
    """A name as it may stand in a picture: on one line, no character that acts or that the font lacks, the middle of a
    long one left out, because names differ at either end."""
    known = _characters()
    drawn = "".join(each if ord(each) in known else _MISSING for each in said(text))
    if len(drawn) <= longest:
        return drawn or _MISSING
    ending = (longest - 1) // 2
    return f"{drawn[: longest - 1 - ending]}…{drawn[-ending:]}"


def said(text: str) -> str:
    """A name as it may stand in a text: whole, on one line, no character that acts."""
    return " ".join(visible(text).split())


@cache
def _characters() -> frozenset[int]:
    figure_class()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())
