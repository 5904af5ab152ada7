"""Cells of tables: a computed number, or none, and how it is printed.

    cells.format_points(74.083).text, cells.format_share(3, 4).text        # "74.08", "3/4"

A cell keeps the number, so CSV files are not rounded.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rsso_dspy.report.statistical_tests import BootstrapInterval

NOTHING = "n/a"

Tone = Literal["", "good", "bad", "dim", "total"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    """Printed text."""
    value: float | int | str | None = None
    """Computed value, if any."""
    tone: Tone = ""
    task: str = ""
    """Task type of the row, if it has one."""
    counts: str = ""
    """Text for CSV in place of the value, for cells of several counts. It has no slash, which spreadsheets read as a
    date."""

    @property
    def is_numeric(self) -> bool:
        """Whether the cell is aligned to the right, as numbers are."""
        return not isinstance(self.value, str)


def format_text(said: str, tone: Tone = "", task: str = "") -> Cell:
    """Format a cell of a name or other text."""
    return Cell(said, said, tone, task)


def format_points(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """Format a cell of points, or of another measure."""
    return Cell(NOTHING if value is None else f"{value:.{digits}f}", value, tone)


def format_difference(value: float | None, digits: int = 2, tone: Tone = "") -> Cell:
    """Format a cell of a difference, without a sign if it is printed as 0."""
    if value is None:
        return Cell(NOTHING)
    said = f"{value:+.{digits}f}"
    return Cell(said if said.strip("+-0.") else said.lstrip("+-"), value, tone)


def format_count(value: int | None) -> Cell:
    """Format a cell of a count."""
    return Cell(NOTHING if value is None else f"{value:,}", value)


def format_share(part: int, of: int) -> Cell:
    """Format a cell of a share, printed as part/of."""
    return Cell(f"{part}/{of}", part / of if of else None, counts=f"{part} of {of}")


def format_sign_counts(up: int, down: int, ties: int | None = None) -> Cell:
    """Format a cell of numbers of units that went up, went down and, if given, stayed equal: "+3 -0 =1"."""
    said = f"+{up} -{down}" + ("" if ties is None else f" ={ties}")
    return Cell(said, up - down, counts=said)


def format_interval(found: "BootstrapInterval | None") -> tuple[Cell, Cell]:
    """Format the cells of both ends of an interval."""
    if found is None:
        return Cell(NOTHING), Cell(NOTHING)
    return format_difference(found.low, 1), format_difference(found.high, 1)


def format_percent(value: float | None) -> Cell:
    """Format a cell of a share as a percentage."""
    return Cell(NOTHING if value is None else f"{value:.1%}", value)


def format_p_value(value: float | None) -> Cell:
    """Format a cell of a p value."""
    return Cell(NOTHING if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}", value)
