"""What holds for every figure of a run, at both widths."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.comparison import FACTORIAL_METHODS
from rsso_dspy.report.figures import FigureSize, draw_report_figures, use_figure_size
from rsso_dspy.report.figures.canvas import use_figure_style
from rsso_dspy.report.figures.figure_files import DOTS
from rsso_dspy.report.figures.style import DOWN, FAINT, INK, PALETTE, UP, assign_arm_styles
from tests.records import record

TASKS = (
    "boil",
    "find-plant",
    "lifespan-longest-lived-then-shortest-lived",
    "melt",
    "power-component",
    "test-conductivity",
)
NAMES = {
    "factorial": FACTORIAL_METHODS,
    "long": [f"method-number-{number}-with-a-long-name" for number in range(8)],
}
SCALED = {"trial", "trials", ""}
"""Labels of axes that show no amount: trials, arms."""
WITHOUT_ARMS = {"slopes", "differences"}
"""Figures whose marks are units or pairs of arms."""


def play(arm: str, place: int) -> list[UnitRecord]:
    """Units of six task types, which score the more the later the arm."""
    units = []
    for number, task in enumerate(TASKS):
        base = 40 + 5 * place + 3 * number
        unit = record(arm, task, number, [[base], [base + place], [100] if number % 4 < place else [base]])
        learnt = {"plans_from_past_attempts": {"held": 1 + place}, "skills": {"library": place}}
        units.append(replace(unit, trials=tuple(replace(trial, learnt=learnt) for trial in unit.trials)))
    return units


@pytest.fixture(scope="module", params=["page", "column"])
def size(request: pytest.FixtureRequest) -> FigureSize:
    return request.param


@pytest.fixture(scope="module", params=NAMES)
def arms(request: pytest.FixtureRequest) -> dict[str, list[UnitRecord]]:
    return {arm: play(arm, place) for place, arm in enumerate(NAMES[request.param])}


@pytest.fixture(scope="module")
def drawn(size: FigureSize, arms: dict[str, list[UnitRecord]]) -> dict[str, Figure]:
    with use_figure_size(size):
        found = {picture.name: picture.figure for picture in draw_report_figures(arms)}
    shared = {"best-of-t", "best-of-t-by-task", "survival", "differences", "slopes", "cost", "efficiency", "memories"}
    assert found.keys() - {"interaction"} == shared
    assert ("interaction" in found) == ("rsso" in arms)
    return found


def list_texts(figure: Figure) -> Iterator[Text]:
    """Every text that is seen."""
    yield from (text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip())


def measure_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is seen and where it stands in pixels; labels of ticks beyond the limits are not seen."""
    figure.set_dpi(DOTS)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    hidden = set()
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(limits)
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {id(tick.label1) for tick in ticks if not low <= tick.get_loc() <= high}
    return [
        (each.get_text(), each.get_window_extent(renderer)) for each in list_texts(figure) if id(each) not in hidden
    ]


def read_notes(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def test_no_letter_is_smaller_than_six_points(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        assert min(text.get_fontsize() for text in list_texts(figure)) >= 6, name


def test_no_text_covers_another_or_leaves_the_figure(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        with use_figure_style():  # as when a file is written
            found = measure_texts(figure)
        whole = figure.bbox.padded(1)
        for text, box in found:
            inside = whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
            assert inside, f"{name}: {text}"
        for (one, first), (other, second) in combinations(found, 2):
            shared = Bbox.intersection(first, second)
            assert shared is None or min(shared.width, shared.height) < 2, f"{name}: {one} and {other}"


def test_axes_have_room(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        width = sum(axes.get_position().width for axes in figure.axes) / len({a.get_position().y0 for a in figure.axes})
        assert width > 0.4, name


def test_colours_are_those_that_are_told_apart(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        colours = {to_hex(line.get_color()) for axes in figure.axes for line in axes.lines}
        colours |= {to_hex(each) for axes in figure.axes for part in axes.collections for each in part.get_facecolor()}
        assert colours <= {*PALETTE, INK, FAINT, UP, DOWN}, name


def test_an_arm_has_its_colour_and_its_marker(drawn: dict[str, Figure], arms: dict[str, list[UnitRecord]]):
    looks = {(style.colour, style.marker) for style in assign_arm_styles(arms).values()}
    for name, figure in drawn.items():
        if name not in WITHOUT_ARMS:
            lines = [line for axes in figure.axes for line in axes.lines if line.get_marker() in "os^DvPX"]
            assert {(line.get_color(), line.get_marker()) for line in lines if line.get_alpha() is None} == looks, name


def test_an_axis_begins_at_0_or_is_said_not_to(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        for axes in figure.axes:
            for which, axis, limits in (
                ("horizontal", axes.xaxis, axes.get_xlim()),
                ("vertical", axes.yaxis, axes.get_ylim()),
            ):
                if axis.get_label_text() not in SCALED and min(limits) > 0:
                    assert f"The {which} axis does not begin at 0." in read_notes(figure), name


def test_it_is_said_that_a_rule_based_model_played(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        assert RULE_BASED_NOTE in read_notes(figure), name


def test_bars_are_intervals_of_one_kind(drawn: dict[str, Figure]):
    for name in drawn.keys() & {"best-of-t", "interaction", "cost", "efficiency"}:
        assert "Bars: 95% intervals of each mean by itself, over task types." in read_notes(drawn[name]), name


def test_the_sizes_of_bubbles_are_in_a_legend(drawn: dict[str, Figure]):
    (axes,) = drawn["efficiency"].axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    sizes = [handle.get_markersize() for handle in axes.get_legend().legend_handles]
    turns = [float(name.removesuffix(" turns per task")) for name in names]
    bubbles = sorted(line.get_markersize() for line in axes.lines if line.get_alpha() == 0.3)
    assert names[-1].endswith(" turns per task")
    assert [size**2 / sizes[0] ** 2 for size in sizes] == pytest.approx([turn / turns[0] for turn in turns])
    assert bubbles[-1] ** 2 / sizes[-1] ** 2 == pytest.approx(3 / turns[-1]), "the arm with the most turns plays 3"
