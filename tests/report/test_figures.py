"""The figures of a run: what they show and which there are, that they can be read at both widths, and their files."""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from rsso_dspy.errors import UsageError
from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.compare import FACTORIAL_METHODS
from rsso_dspy.report.figure_canvas import (
    DOTS,
    FAINT,
    INK,
    LONGEST,
    PALETTE,
    PICTURE,
    assign_arm_styles,
    render_svg,
    save_figure,
    shorten_name,
    use_figure_style,
)
from rsso_dspy.report.figures import (
    draw_best_of_t_figure,
    draw_differences_figure,
    draw_efficiency_figure,
    draw_figures,
    draw_survival_figure,
)
from tests.records import record

# What the pictures of a run show, and which there are.

FIRST = [record("first", "boil", 1, [[10], [40]]), record("first", "melt", 2, [[30], [20]])]
SECOND = [record("second", "boil", 1, [[100]]), record("second", "melt", 2, [[0], [10]])]
TWO = [*FIRST, *SECOND]
ERRORED = record("second", "melt", 3, [[90], None])


def curve(axes: Axes, arms: Sequence[str], arm: str) -> list[float]:
    """The heights of the arm's line: that with its colour and its marker."""
    style = assign_arm_styles(arms)[arm]
    (line,) = (each for each in axes.lines if (each.get_color(), each.get_marker()) == (style.colour, style.marker))
    return [float(y) for y in line.get_ydata()]


def texts(figure: Figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    inside = [text.get_text() for axes in figure.axes for text in axes.texts]
    return "\n".join([*(text.get_text() for text in figure.texts), *legends, *inside])


def test_a_unit_that_stopped_early_keeps_its_best_and_an_errored_one_is_left_out_and_counted():
    figure = draw_best_of_t_figure(analyze([*TWO, ERRORED])).figure
    (axes,) = figure.axes
    assert curve(axes, ("first", "second"), "first") == [20, 35]
    assert curve(axes, ("first", "second"), "second") == [50, 55]
    assert "1 errored unit is left out" in texts(figure)
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    assert [float(y) for y in bars[0].get_ydata()] == [0, 100]  # two units of one task type tell little


def test_published_figures_are_dashed_and_said_to_be_another_model():
    found = analyze([record("sso", "boil", 1, [[10], [40]])])
    figure = draw_best_of_t_figure(found, with_paper=True).figure
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2
    assert assign_arm_styles(["sso"])["sso"].colour in {line.get_color() for line in dashed}
    assert "sso, published" in texts(figure)
    assert "another model. " in texts(figure)
    assert "published of another model: " in draw_best_of_t_figure(found, with_paper=True).alt
    assert "published" not in texts(draw_best_of_t_figure(found).figure)


def test_survival_is_the_share_that_reaches_a_score_and_falls_above_it():
    units = [record("a", "boil", index, [[score]]) for index, score in enumerate((0, 20, 20, 100))]
    (axes,) = draw_survival_figure(analyze(units)).figure.axes
    line = axes.lines[0]
    assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == {0: 100, 20: 75, 100: 25}
    assert line.get_drawstyle() == "steps-pre"


def test_a_picture_of_arms_with_different_units_says_so_unless_it_is_of_pairs():
    uneven = draw_figures(analyze([*TWO, record("second", "melt", 7, [[30], [40]])]))
    said = {picture.name: "Arms finished different units" in picture.alt for picture in uneven}
    assert said == {"best-of-t": True, "survival": True, "differences": False, "scores": True, "efficiency": True}
    assert not any("Arms finished different units" in picture.alt for picture in draw_figures(analyze(TWO)))


def test_differences_have_a_row_for_every_comparison_and_a_ring_without_interval():
    alone = [record("third", "boil", 1, [[30]])]
    figure = draw_differences_figure(analyze([*TWO, *alone])).figure
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["second − first", "third − first"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [20, 20]
    assert [dot.get_markerfacecolor() == "none" for dot in dots] == [False, True]
    assert "+20.0 (−100.0 to +100.0), n = 2" in texts(figure)
    assert "+20.0 (no interval), n = 1" in texts(figure)
    assert "as many trials as both arms may play" in texts(figure)


def corners(scores: Sequence[Sequence[int]]) -> list[UnitRecord]:
    return [
        record(method, f"task-{n}", n, [[score]])
        for method, values in zip(FACTORIAL_METHODS, scores, strict=True)
        for n, score in enumerate(values)
    ]


def test_the_square_is_a_row_of_its_own_over_the_units_that_all_four_finished():
    picture = draw_differences_figure(analyze(corners([(10, 30, 90), (20, 40), (30, 50), (80, 100)])))
    assert [label.get_text() for label in picture.figure.axes[0].get_yticklabels()][-1] == "interaction"
    assert "+40.0 (no interval), n = 2" in texts(picture.figure)
    assert "interaction: rsso − sso − reflexion-sso + react-sso; undecided." in " ".join(texts(picture.figure).split())
    assert "react-sso 20.0, reflexion-sso 30.0, sso 40.0, rsso 90.0" in picture.alt


ONE_TRIAL = [record(a, "boil", n, [[10 * n if a == "a" else 10]]) for a in "ab" for n in (1, 2)]


@pytest.mark.parametrize(
    ("units", "names"),
    [
        ([], []),
        ([ERRORED], []),
        ([record("a", "boil", 1, [[10]])], []),
        (FIRST, ["best-of-t", "survival"]),
        (ONE_TRIAL, ["survival", "differences", "scores", "efficiency"]),
        (corners([(0, 0)] * 4), ["survival", "scores", "efficiency"]),
    ],
    ids=["nothing", "all errored", "one unit", "one arm", "one trial and task", "four corners, all 0"],
)
def test_what_cannot_be_drawn_is_left_out(units: list[UnitRecord], names: list[str]):
    assert [picture.name for picture in draw_figures(analyze(units))] == names


def test_the_alternative_text_says_what_is_seen_in_numbers():
    said = {picture.name: picture.alt for picture in draw_figures(analyze([*TWO, ERRORED]))}
    assert "first: 20.0, 35.0 (0.0 to 80.8); second: 50.0, 55.0 (0.0 to 100.0)" in said["best-of-t"]
    assert "second: 50% reach 50, 50% reach 75, 50% reach 100" in said["survival"]
    assert "second minus first: +20.0 (−100.0 to +100.0), 2 pairs" in said["differences"]
    assert "first: 35.0 (0.0 to 80.8), 2 units" in said["scores"]
    assert "second: 1 of 2 tasks, 50.0 (0.0 to 100.0) percent" in said["efficiency"]
    assert all("1 errored unit is left out" in words for words in said.values())


def test_nothing_to_draw_is_said_and_without_matplotlib_the_fix_is_named(monkeypatch: pytest.MonkeyPatch):
    for draw in (draw_best_of_t_figure, draw_survival_figure, draw_differences_figure, draw_efficiency_figure):
        with pytest.raises(UsageError, match="nothing to draw"):
            draw(analyze([ERRORED]))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"rsso-dspy\[figures\]"):
        draw_figures(analyze(TWO))


# What holds for every figure of a run, at both widths.

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
SCALED = {"trials", ""}
"""Labels of axes that show no amount: trials, arms."""


def play(arm: str, place: int) -> Iterator[UnitRecord]:
    """Units of six task types, which score the more the later the arm."""
    for number, task in enumerate(TASKS):
        base = 40 + 5 * place + 3 * number
        yield record(arm, task, number, [[base], [base + place], [100] if number % 4 < place else [base]])


@pytest.fixture(scope="module", params=[(size, names) for size in ("page", "column") for names in NAMES], ids=str)
def drawn(request: pytest.FixtureRequest) -> dict[str, Figure]:
    size, names = request.param
    found = analyze([unit for place, arm in enumerate(NAMES[names]) for unit in play(arm, place)])
    figures = {picture.name: picture.figure for picture in draw_figures(found, size)}
    assert list(figures) == ["best-of-t", "survival", "differences", "scores", "efficiency"]
    assert all(figure.get_size_inches()[0] == {"page": 7.2, "column": 3.5}[size] for figure in figures.values())
    return figures


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
        assert colours <= {*PALETTE, INK, FAINT}, name


def test_an_arm_has_its_colour_and_its_marker(drawn: dict[str, Figure]):
    arms = NAMES["factorial"] if len(drawn["scores"].axes[0].get_yticks()) == 4 else NAMES["long"]
    looks = {(style.colour, style.marker) for style in assign_arm_styles(arms).values()}
    for name, figure in drawn.items():
        if name != "differences":  # its marks are pairs of arms
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
    for name in ("best-of-t", "scores", "efficiency"):
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


# Files, and SVG for a page.

HOSTILE = ["$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>", "\u202eturned\x1b[31m", 'a & b " --> ]]>', "日本"]
HARM = analyze([record(name, "boil", n, [[10 * n], [50 + n]]) for name in HOSTILE for n in range(2)])


@pytest.fixture(scope="module")
def hostile() -> dict[str, Figure]:
    return {picture.name: picture.figure for picture in draw_figures(HARM)}


@pytest.fixture(scope="module")
def elements(hostile: dict[str, Figure]) -> dict[str, str]:
    return {name: render_svg(figure, f"{name} <1>") for name, figure in hostile.items()}


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_analysis_gives_the_same_bytes_whatever_was_drawn_before(
    tmp_path: Path, hostile: dict[str, Figure], ending: str
):
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        again = draw_survival_figure(HARM).figure
        render_svg(again, "first")
        save_figure(again, tmp_path / f"again.{ending}")
    save_figure(hostile["survival"], tmp_path / f"once.{ending}")
    assert (tmp_path / f"once.{ending}").read_bytes() == (tmp_path / f"again.{ending}").read_bytes()
    assert render_svg(hostile["survival"], "name") == render_svg(again, "name")


def test_letters_of_files_stay_text_and_foreign_files_are_told_apart(tmp_path: Path):
    found = analyze([record("rsso", "boil", n, [[70 + n], [80]]) for n in range(3)])
    figure = draw_best_of_t_figure(found, "column").figure
    save_figure(figure, tmp_path / "figure.svg")
    words = "".join(ElementTree.parse(tmp_path / "figure.svg").getroot().itertext())
    assert "The vertical axis does not begin at 0." in " ".join(words.split())
    save_figure(figure, tmp_path / "figure.pdf")
    assert b"/FontFile2" in (tmp_path / "figure.pdf").read_bytes(), "letters are TrueType, which can be searched"
    assert PICTURE.holds(tmp_path / "figure.pdf")
    (tmp_path / "foreign.pdf").write_bytes(b"%PDF-1.4")
    assert not PICTURE.holds(tmp_path / "foreign.pdf")
    with pytest.raises(UsageError, match=r"neither \.svg, \.pdf nor \.png"):
        save_figure(figure, tmp_path / "figure.gif")


def test_several_stand_in_one_page_and_share_no_id(elements: dict[str, str]):
    ids = [re.findall(r'\bid="([^"]*)"', text) for text in elements.values()]
    everything = [name for each in ids for name in each]
    assert len(everything) == len(set(everything)) > 100
    for text, mine in zip(elements.values(), ids, strict=True):
        used = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text))
        assert {one or other for one, other in used} <= set(mine)


def test_a_page_shows_it_in_its_own_ink_without_inline_style_and_changes_by_nothing_else(elements: dict[str, str]):
    for text in elements.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert re.match(r'<svg [^>]*viewBox="0 0 518\.4 [\d.]+" width="691"[^>]*aria-hidden="true"[^>]*>', text)
        assert not re.search(r"style|<script|<metadata|<!--|<!DOCTYPE|<text|\bheight=\"\d+pt", text)
        assert 'fill="none"' in text
        assert INK not in text
        assert "#ffffff" not in text
        assert "currentColor" in text


def test_hostile_names_are_drawn_as_they_are(hostile: dict[str, Figure]):
    (legend,) = hostile["best-of-t"].legends
    below, ticks = legend.get_texts(), hostile["scores"].axes[0].get_yticklabels()
    for names in (below, ticks):
        assert {"$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>"} <= {text.get_text() for text in names}
        assert not any(text.get_parse_math() for text in names)


# What arms look like: told apart on any page, by any eye, whatever they are called.

# Machado, Oliveira, Fernandes 2009: what linear RGB becomes when one kind of cone is missing.
SIGHT = {
    "full": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
LMS = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
OKLAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#14171a"])
def test_colours_are_read_on_white_and_on_dark_pages(page: str):
    assert min(contrast(colour, page) for colour in PALETTE) >= 3
    assert contrast(FAINT, page) >= 4


@pytest.mark.parametrize("sight", SIGHT)
def test_no_two_colours_look_alike(sight: str):
    seen = [OKLAB @ np.cbrt(LMS @ np.clip(np.array(SIGHT[sight]) @ linear(colour), 0, 1)) for colour in PALETTE]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 0.09


def test_an_arm_looks_the_same_whatever_becomes_of_the_others_and_like_no_other():
    found = assign_arm_styles([f"arm {number}" for number in range(40)])
    assert len({(style.colour, style.marker) for style in found.values()}) == 40
    assert len({(style.colour, style.dashes) for style in list(found.values())[:18]}) == 18


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("rsso+constitution", "rsso+constitution"),
        ("a\x1b[31m\u202eb\nc\t d", "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b c d"),
        ("日本", "\N{REPLACEMENT CHARACTER}" * 2),
        ("", "\N{REPLACEMENT CHARACTER}"),
        ("first-" + "x" * 100 + "-last", "first-xxxxxxxx…xxxxxxxx-last"),
    ],
)
def test_a_name_is_one_short_line_of_letters_that_can_be_drawn(name: str, drawn: str):
    assert shorten_name(name) == drawn
    assert len(drawn) <= LONGEST


def test_names_that_differ_only_where_they_are_cut_stay_apart():
    arms = ["x" * 60 + str(number) + "x" * 60 for number in range(3)]
    names = [style.name for style in assign_arm_styles(arms).values()]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= LONGEST
