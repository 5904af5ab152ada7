"""Placement of labels without overlaps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rsso_dspy.report.figures.style import FAINT, INK, measure_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

LINE = 0.155
"""Inches from one name to the next below it."""

SIZE = 8
"""Points."""

FAR = (18.0, -18.0, 30.0, -30.0, 42.0, -42.0, 54.0, -54.0)
"""Points upwards, from which on a hair leads from a point to its name."""

_AROUND = (
    (8.0, 0.0, "left", "center"),
    (-8.0, 0.0, "right", "center"),
    (6.0, 5.0, "left", "bottom"),
    (6.0, -5.0, "left", "top"),
    (-6.0, 5.0, "right", "bottom"),
    (-6.0, -5.0, "right", "top"),
    (0.0, 9.0, "center", "bottom"),
    (0.0, -9.0, "center", "top"),
    *((side * 12.0, up, across, "center") for up in FAR for side, across in ((1, "left"), (-1, "right"))),
)
"""Where a name may stand: points to the right and upwards, and what part of it stands there."""


BESIDE = 0.32
"""Share of a figure's width that names beside its axes may take."""


def has_label_room(names: Sequence[str], height: float, width: float) -> bool:
    """Return whether these names fit beside axes of this height in a figure of this width, in inches."""
    return 0 < len(names) * LINE <= height and measure_names(names, SIZE) <= BESIDE * width


def separate_values(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move values as little as possible so that they are `gap` apart and within bounds."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    placed: list[list[float]] = []  # blocks of names that touch: sum of wished places, how many
    for count, place in enumerate(order):
        placed.append([values[place] - count * gap, 1])
        while len(placed) > 1 and placed[-2][0] / placed[-2][1] > placed[-1][0] / placed[-1][1]:
            total, size = placed.pop()
            placed[-1][0] += total
            placed[-1][1] += size
    found, count = [0.0] * len(values), 0
    room = high - low - (len(values) - 1) * gap
    for total, size in placed:
        start = min(max(total / size, low), low + max(0.0, room))
        for _ in range(int(size)):
            found[order[count]] = start + count * gap
            count += 1
    return found


def label_line_ends(axes: "Axes", ends: Sequence[tuple[float, float, str, str]], height: float) -> None:
    """Names at the right of lines, a hair from the end of each to its name. `ends` are x, y, name and colour; `height`
    is that of the axes in inches, about. Limits of the axes must stand."""
    low, high = axes.get_ylim()
    right = axes.get_xlim()
    gap = LINE / height * (high - low)
    wide = right[1] - right[0]
    places = separate_values([y for _, y, _, _ in ends], gap, low + gap / 3, high - gap / 3)
    for (x, y, name, colour), place in zip(ends, places, strict=True):
        bend = [x, right[1], right[1] + 0.03 * wide]
        axes.plot(bend, [y, y, place], color=colour, linewidth=0.6, clip_on=False, zorder=1)
        axes.text(right[1] + 0.04 * wide, place, name, fontsize=SIZE, va="center", color=INK)
    axes.set_xlim(right)
    axes.set_ylim(low, high)


def label_points(
    figure: "Figure",
    axes: "Axes",
    points: Sequence[tuple[float, float, str]],
    taken: Sequence[tuple[float, float, float]] = (),
) -> bool:
    """A name beside every point: x, y, name. `taken` are vertical bars that no name may cover: x, from, to. False, and
    no name at all, when one of them finds no place."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    dot = figure.dpi / 72
    at = axes.transData.transform
    filled = [Bbox([at((x, y)) - 5 * dot, at((x, y)) + 5 * dot]) for x, y, _ in points]
    filled += [Bbox([at((x, low)) - 2 * dot, at((x, high)) + 2 * dot]) for x, low, high in taken]
    room, texts = axes.get_window_extent().padded(dot), []
    for x, y, name in points:
        text = axes.annotate(name, (x, y), (8, 0), textcoords="offset points", fontsize=SIZE, color=INK)
        text.set_in_layout(False)
        texts.append(text)
        size = text.get_window_extent(canvas.get_renderer())
        where = _find_free_place(at((x, y)), size, dot, room, filled)
        if where is None:
            for each in texts:
                each.remove()
            return False
        right, up, across, along = where[0]
        text.set_position((right, up))
        text.set_horizontalalignment(across)
        text.set_verticalalignment(along)
        if up in FAR:
            bound = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4}
            hair = axes.annotate("", (x, y), (right * 0.9, up), textcoords="offset points", arrowprops=bound)
            hair.set_in_layout(False)
            texts.append(hair)
        filled.append(where[1])
    return True


def _find_free_place(
    at: Any, size: "Bbox", dot: float, room: "Bbox", filled: Sequence["Bbox"]
) -> "tuple[tuple[float, float, Any, Any], Bbox] | None":
    from matplotlib.transforms import Bbox

    before = {"left": 0.0, "center": 0.5, "right": 1.0, "bottom": 0.0, "top": 1.0}
    for offset in _AROUND:
        right, up, across, along = offset
        left = at[0] + right * dot - before[across] * size.width
        base = at[1] + up * dot - before[along] * size.height
        box = Bbox.from_bounds(left - dot, base - dot, size.width + 2 * dot, size.height + 2 * dot)
        inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
        if inside and not box.count_overlaps(filled):
            return offset, box
    return None
