"""The candidates of a compile.

save(draw_candidates_figure([ScoredCandidate("zero-shot", 0.7, {"boil::3": 1.0}), ...]), Path("candidates.svg"))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures.canvas import finish_figure, open_axes
from rsso_dspy.report.figures.style import FAINT, INK, PALETTE, clean_name, shorten_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOSEN = PALETTE[2]


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate program, in the order of trying."""

    name: str
    metric: float
    """Mean over the validation variants, 0 to 1."""
    per_variant: Mapping[str, float] = field(default_factory=dict)
    """Validation variant to its metric."""
    chosen: bool = False


def draw_candidates_figure(candidates: Sequence[ScoredCandidate], title: str = "", note: str = "") -> "Figure":
    """Draw candidates in order: a line through their metrics, the best so far, and a dot per validation variant.

    Raises `UsageError` if matplotlib is not installed or there is nothing to draw.
    """
    if not candidates:
        raise UsageError("no program was scored, so there is nothing to draw")
    with open_axes(max(5.0, 0.7 * len(candidates) + 3.0), 3.4) as (figure, axes):
        _draw_candidates(axes, candidates)
        axes.set_ylabel("metric on the val variants")
        axes.set_ylim(-0.05, 1.05)
        axes.set_xlim(-0.5, len(candidates) - 0.5)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        if title:
            axes.set_title(shorten_name(title, 80), loc="left", fontsize="medium")
        return finish_figure(figure, [clean_name(note)] if note else [])


def _draw_candidates(axes: "Axes", candidates: Sequence[ScoredCandidate]) -> None:
    places = list(range(len(candidates)))
    means = [candidate.metric for candidate in candidates]
    for place, candidate in zip(places, candidates, strict=True):
        for offset, value in _spread_dots(list(candidate.per_variant.values())):
            axes.plot(place + offset, value, ".", color=FAINT, markersize=5, zorder=1)
    best = [max(means[: place + 1]) for place in places]
    axes.step(places, best, where="post", color=CHOSEN, linewidth=1, linestyle="--", label="best so far", zorder=2)
    axes.plot(places, means, "-o", color=INK, linewidth=1.4, markersize=6, label="mean", zorder=3)
    for place in (place for place in places if candidates[place].chosen):
        axes.plot(place, means[place], "o", color=CHOSEN, markersize=10, label="chosen", zorder=4)
    if any(candidate.per_variant for candidate in candidates):
        axes.plot([], [], ".", color=FAINT, label="one variant")
    names = [shorten_name(candidate.name) for candidate in candidates]
    axes.set_xticks(places, names, rotation=30 if len(places) > 4 else 0)


def _spread_dots(values: Sequence[float]) -> list[tuple[float, float]]:
    """Place dots with equal values side by side."""
    seen: dict[float, int] = {}
    placed = []
    for value in sorted(values):
        count = seen[value] = seen.get(value, -1) + 1
        placed.append(((-1) ** count * ((count + 1) // 2) * 0.06, value))
    return placed
