"""How scores are distributed.

survival_figure(by_arm(records))
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures.canvas import WIDTH, below, drawing, entry, settled
from rsso_dspy.report.figures.labels import fits, name_ends
from rsso_dspy.report.figures.scores import Arms, notes, origin, scored, scores
from rsso_dspy.report.figures.style import said, styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.6
LEVELS = (50, 75, 100)
"""Said in words."""


def survival_figure(arms: Arms) -> "Figure":
    """The survival function of best scores (rSSO, Figure 3): per arm the share of units whose best accumulator is at
    least x. Raises `UsageError` when no unit has a score."""
    kept, look = scored(arms), styles(arms)
    if not kept:
        raise UsageError("no unit has a score, so there is nothing to draw")
    with drawing() as new_figure:
        figure = new_figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        ends = []
        for place, (arm, records) in enumerate(kept.items()):
            style, values = look[arm], sorted(scores(records).values())
            steps = sorted({0.0, 100.0, *(value for value in values if 0 < value < 100)})
            # at a score the share still holds, just above it no longer
            axes.step(steps, [_share(values, x) for x in steps], where="pre", linewidth=1.4, **style.line)
            marks = [5 + 20 * (number + place / len(kept)) for number in range(5) if number + place / len(kept) < 4.75]
            axes.plot(marks, [_share(values, x) for x in marks], style.marker, color=style.colour, markersize=5, mew=0)
            ends.append((100.0, _share(values, 100), style.name, style.colour))
        axes.set_xlim(0, 100)
        axes.set_ylim(-2, 102)
        axes.set_xlabel("x: best accumulator of the unit, points of 100")
        axes.set_ylabel("units that reach x, %")
        axes.grid(axis="y")
        direct = fits(len(ends), HEIGHT - 0.9)
        if direct:
            name_ends(axes, ends, HEIGHT - 0.9)
        below(figure, [*notes(arms, best=True), *origin(arms)], () if direct else [entry(look[arm]) for arm in kept])
        return settled(figure)


def survival_words(arms: Arms) -> str:
    """The picture in words."""
    lines = []
    for arm, records in scored(arms).items():
        values = list(scores(records).values())
        shares = [f"{_share(values, level):.0f}% reach {level}" for level in LEVELS]
        lines.append(f"{said(arm)}: {', '.join(shares)}")
    return f"Step chart: share of units whose best accumulator is at least x, for x from 0 to 100. {'; '.join(lines)}."


def _share(values: Sequence[float], x: float) -> float:
    """Percent of values that are at least x."""
    return 100 * sum(value >= x for value in values) / len(values)
