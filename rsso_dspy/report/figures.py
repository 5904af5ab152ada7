"""Pictures, drawn by matplotlib without a window, and the same bytes for the same numbers.

save(candidates_figure([Shown("zero-shot", 0.7, {"boil::3": 1.0}), ...]), Path("candidates.svg"))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT, CHOSEN = "#1a1a1a", "#9aa3ad", "#0b6e4f"

LETTERS = 13
"""Small letters that an inch of a note holds."""

FORMATS = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Shown:
    """A candidate program, in the order of trying."""

    name: str
    metric: float
    """Mean over the variants to choose by, 0 to 1."""
    per_variant: Mapping[str, float] = field(default_factory=dict)
    """Variant to choose by, to the metric there."""
    chosen: bool = False


def candidates_figure(candidates: Sequence[Shown], title: str = "", note: str = "") -> "Figure":
    """The candidates of a compile in the order of trying: a line through their metrics, the best so far, and a dot for
    every variant to choose by. Raises `UsageError` when matplotlib is not installed, or there is nothing to draw."""
    if not candidates:
        raise UsageError("no program was scored, so there is nothing to draw")
    figure_of = _matplotlib()
    figure = figure_of(figsize=(max(5.0, 0.7 * len(candidates) + 3.0), 3.6), layout="constrained")
    axes = figure.add_subplot()
    places = list(range(len(candidates)))
    means = [candidate.metric for candidate in candidates]
    for place, candidate in zip(places, candidates, strict=True):
        for offset, value in _spread(list(candidate.per_variant.values())):
            axes.plot(place + offset, value, ".", color=FAINT, markersize=5, zorder=1)
    best = [max(means[: place + 1]) for place in places]
    axes.step(places, best, where="post", color=CHOSEN, linewidth=1, linestyle="--", label="best so far", zorder=2)
    axes.plot(places, means, "-o", color=INK, linewidth=1.4, markersize=6, label="mean", zorder=3)
    for place in (place for place in places if candidates[place].chosen):
        axes.plot(place, means[place], "o", color=CHOSEN, markersize=10, label="chosen", zorder=4)
    if any(candidate.per_variant for candidate in candidates):
        axes.plot([], [], ".", color=FAINT, label="one variant")
    axes.set_xticks(places, [candidate.name for candidate in candidates], rotation=30 if len(places) > 4 else 0)
    axes.set_ylabel("metric on the variants to choose by")
    axes.set_ylim(-0.05, 1.05)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    if note:
        figure.supxlabel(fill(note, int(LETTERS * figure.get_figwidth())), fontsize="x-small", color=FAINT)
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG or PNG, by the name's ending. Raises `UsageError` for another ending."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path} is neither .svg nor .png, the two forms that figures are written in")
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "rsso-dspy", "svg.fonttype": "path"}):
        made = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=made)


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise
        raise UsageError("figures need matplotlib, which is not installed: pip install 'rsso-dspy[figures]'") from None
    return Figure


def _spread(values: Sequence[float]) -> list[tuple[float, float]]:
    """Dots with the same value side by side."""
    seen: dict[float, int] = {}
    placed = []
    for value in sorted(values):
        count = seen[value] = seen.get(value, -1) + 1
        placed.append(((-1) ** count * ((count + 1) // 2) * 0.06, value))
    return placed
