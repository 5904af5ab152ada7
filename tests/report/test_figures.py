"""The figures of a run: what they show and which there are, that they can be read, and their files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.compare import FACTORIAL_METHODS, Question
from rsso_dspy.report.drawings import DESIGNED, build_drawings
from rsso_dspy.report.figures import PICTURE, ReportFigure, assign_arm_styles, draw_figures, save_figure, shorten_name
from rsso_dspy.report.intervals import Bars
from tests.records import record
from tests.report.paper_run import BASELINE, REFLEXION, play_accuracies

FIRST = [record("first", "boil", 1, [[10], [40]]), record("first", "melt", 2, [[30], [20]])]
SECOND = [record("second", "boil", 1, [[100]]), record("second", "melt", 2, [[0], [10]])]
TWO = [*FIRST, *SECOND]
ERRORED = record("second", "melt", 3, [[90], None])


def draw(units: Sequence[UnitRecord], with_paper: bool = False, bars: Bars = "interval") -> dict[str, ReportFigure]:
    return {each.name: each for each in draw_figures(analyze(units), with_paper, bars)}


def list_bars(axes: Axes) -> list[list[float]]:
    """The ends of every vertical bar."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    return [[float(y) for y in line.get_ydata()] for line in lines]


def corners(scores: Sequence[Sequence[int]]) -> list[UnitRecord]:
    return [
        record(method, f"task-{n}", n, [[score]])
        for method, values in zip(FACTORIAL_METHODS, scores, strict=True)
        for n, score in enumerate(values)
    ]


def curve(axes: Axes, arms: Sequence[str], arm: str) -> list[float]:
    """The heights of the arm's line: that with its colour and its marker."""
    style = assign_arm_styles(arms)[arm]
    (line,) = (each for each in axes.lines if (each.get_color(), each.get_marker()) == (style.colour, style.marker))
    return [float(y) for y in line.get_ydata()]


def read_texts(figure: Figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    inside = [text.get_text() for axes in figure.axes for text in axes.texts]
    return " ".join(" ".join([*(text.get_text() for text in figure.texts), *legends, *inside]).split())


def test_a_unit_that_stopped_early_keeps_its_best_and_an_errored_one_is_left_out_and_counted():
    picture = draw([*TWO, ERRORED])["best-of-t"]
    (axes,) = picture.figure.axes
    assert curve(axes, ("first", "second"), "first") == [20, 35]
    assert curve(axes, ("first", "second"), "second") == [50, 55]
    assert "1 errored unit is left out" in read_texts(picture.figure)
    assert list_bars(axes)[0] == [0, 100]  # two units of two task types tell little


def test_bars_are_intervals_over_task_types_by_default_and_sem_over_variants_as_in_figure_2_where_wanted():
    """Trial 1 of the first arm: 10 and 30 points, so a standard deviation of 14.14 and an SEM of 10."""
    intervals, errors = draw(TWO)["best-of-t"].figure, draw(TWO, bars="sem")["best-of-t"].figure
    assert list_bars(intervals.axes[0])[0] == [0, 100]
    assert "Bars: 95% intervals of each mean by itself, over task types." in read_texts(intervals)
    assert list_bars(errors.axes[0])[0] == pytest.approx([10, 30])
    assert "Bars: one standard error over variants to either side (SEM, as in rSSO's Figure 2)" in read_texts(errors)


def test_seeds_of_a_variant_are_no_further_variants_of_an_sem():
    copies = [replace(unit, seed=seed) for unit in FIRST for seed in range(5)]
    assert list_bars(draw(copies, bars="sem")["best-of-t"].figure.axes[0])[0] == pytest.approx([10, 30])


def test_differences_have_intervals_whatever_the_bars_of_means_are():
    for bars in ("interval", "sem"):
        assert "Bars: 95% intervals, over task types." in read_texts(draw(TWO, bars=bars)["differences"].figure)


def test_published_figures_are_dashed_and_said_to_be_another_model():
    units = [record("sso", "boil", 1, [[10], [40]])]
    picture = draw(units, with_paper=True)["best-of-t"]
    dashed = [line for line in picture.figure.axes[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 4
    assert assign_arm_styles(["sso"])["sso"].colour in {line.get_color() for line in dashed}
    assert "sso, published" in read_texts(picture.figure)
    assert "another model. " in read_texts(picture.figure)
    assert "published" not in read_texts(draw(units)["best-of-t"].figure)


PUBLISHED = {
    "react, published, one trial": [58.37, 58.37],
    "reflexion, published": [58.37, 69.24, None, None, 82.13],
    "sso, published": [75.30, 76.63, 77.57, 78.09, 79.46],
    "rsso, published": [75.07, 84.49, 85.80, 87.55, 88.41],
}
"""The curves of rSSO's Figure 2, as far as the text of the paper has their values."""


def test_the_published_curves_have_the_papers_values_and_its_react_is_a_level_dashed_line():
    """75.07 is 84.49 - 9.42 and 69.24 is 58.37 + 10.87 (section 5), which is said below the figure."""
    figure = draw([record("sso", "boil", 1, [[10], [40]])], with_paper=True)["best-of-t"].figure
    lines = {str(line.get_label()): line for line in figure.axes[0].lines if line.get_linestyle() == "--"}
    heights = {name: [None if y != y else float(y) for y in line.get_ydata()] for name, line in lines.items()}
    assert heights == PUBLISHED
    filled = [line for line in figure.axes[0].lines if line.get_linestyle() == "None" and line.get_marker() == "o"]
    assert {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in filled} == {(1, 75.07), (2, 69.24)}
    for words in ("75.07 (rsso, t = 1) is 84.49 - 9.42", "69.24 (reflexion, t = 2) is 58.37 + 10.87"):
        assert words in read_texts(figure)


def test_success_is_drawn_by_trial_with_the_baseline_beside():
    (axes,) = draw([*TWO, record("first", "boil", 3, [[10], [100]])])["success"].figure.axes
    assert curve(axes, ("first", "second"), "first") == pytest.approx([0, 100 / 3])
    assert curve(axes, ("first", "second"), "second") == [50, 50]


def test_the_learning_curve_of_the_notes_is_drawn_with_the_baseline_beside_it():
    """Notes on Reflexion, analysis 1: accuracies of 134 environments over ten trials."""
    units = [*play_accuracies("react", BASELINE), *play_accuracies("reflexion", REFLEXION)]
    (axes,) = draw(units)["success"].figure.axes
    for arm, accuracies in (("react", BASELINE), ("reflexion", REFLEXION)):
        heights = curve(axes, ("react", "reflexion"), arm)
        assert [round(height / 100, 2) for height in heights] == list(accuracies)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("trials", "units solved so far, %")


def test_the_efficiency_of_an_arm_stands_at_its_calls_and_its_success():
    """Two calls a trial; the first arm plays two trials and solves nothing, the second solves one of two at once."""
    (axes,) = draw(TWO)["efficiency"].figure.axes
    dots = {
        (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.lines if len(line.get_xdata()) == 1
    }
    assert dots == {(4, 0), (3, 50)}
    assert axes.get_xlabel() == "model calls per task, all roles and trials"


def test_survival_is_the_share_that_reaches_a_score_and_falls_above_it():
    units = [record("a", "boil", index, [[score]]) for index, score in enumerate((0, 20, 20, 100))]
    (axes,) = draw(units)["survival"].figure.axes
    line = axes.lines[0]
    assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == {0: 100, 20: 75, 100: 25}
    assert line.get_drawstyle() == "steps-pre"


def test_differences_have_a_row_for_every_comparison_and_a_ring_without_interval():
    figure = draw([*TWO, record("third", "boil", 1, [[30]])])["differences"].figure
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["second − first", "third − first"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [20, 20]
    assert [dot.get_markerfacecolor() == "none" for dot in dots] == [False, True]
    for said in (
        "+20.0 (−100.0 to +100.0), n = 2 undecided",
        "+20.0 (no interval), n = 1 undecided",
        "as many trials as both arms may play",
    ):
        assert said in read_texts(figure)


SHIFTS = (-3, 2, -1, 1, -2, 3, -1, 1, 2, -2)
"""What ten task types add to a score: 0 on average, and unlike."""


def test_differences_have_the_verdicts_of_the_page():
    """Ten task types: one arm is better on all, one is as good on average, and one had no memory in its prompts."""
    units = [record("a", f"task-{n}", n, [[50]]) for n in range(10)]
    units += [record("b", f"task-{n}", n, [[60 + shift]]) for n, shift in enumerate(SHIFTS)]
    units += [record("c", f"task-{n}", n, [[50 + shift]]) for n, shift in enumerate(SHIFTS)]
    units += [record("sso", f"task-{n}", n, [[50]], shown={}) for n in range(10)]
    found = analyze(units, question=Question(against="a"))
    (axes,) = {each.name: each for each in draw_figures(found)}["differences"].figure.axes
    words = [text.get_text().partition("\n")[2] for text in axes.texts]
    assert words == [row.verdict for row in build_drawings(found, units).forests[DESIGNED].rows]
    assert words == ["better", "no difference of 10 points or more", "not tested"]


def test_the_interaction_says_how_the_square_is_read():
    """Either memory gains 20 points, and both together no more."""
    skills = [40 + shift for shift in SHIFTS]
    reflections = [40 + shift for shift in reversed(SHIFTS)]
    (axes,) = draw(corners([[20] * 10, reflections, skills, [40] * 10]))["differences"].figure.axes
    assert axes.texts[-1].get_text().partition("\n")[2] == "redundant"


ONE_TRIAL = [record(a, "boil", n, [[10 * n if a == "a" else 10]]) for a in "ab" for n in (1, 2)]
DRAWN = {
    "nothing": ([], []),
    "all errored": ([ERRORED], []),
    "one unit": ([record("a", "boil", 1, [[10]])], []),
    "one arm": (FIRST, ["best-of-t", "success", "survival"]),
    "one trial and task": (ONE_TRIAL, ["survival", "differences", "efficiency"]),
    "four corners, all 0": (corners([(0, 0)] * 4), ["survival", "differences", "efficiency"]),
}


@pytest.mark.parametrize(("units", "names"), DRAWN.values(), ids=DRAWN)
def test_what_cannot_be_drawn_is_left_out(units: list[UnitRecord], names: list[str]):
    assert list(draw(units)) == names


# That they can be read, whatever the arms are called.

HOSTILE = ["$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>", "\u202eturned\x1b[31m", 'a & b " --> ]]>', "日本"]


def learn(names: Sequence[str]) -> list[UnitRecord]:
    """Eight units of four tasks; each arm solves another unit, and gains by task."""
    return [
        record(
            name, f"task-{n % 4}", n, [[40 + 2 * n], [100 if n == place % 8 else 50 + n + place * (n % 4)]], allowed=2
        )
        for place, name in enumerate(names)
        for n in range(8)
    ]


LONG = f"first-{'x' * 100}-last"
RUNS = {names[0]: learn(names) for names in (FACTORIAL_METHODS, [*HOSTILE, LONG])}


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> dict[str, Figure]:
    return {name: picture.figure for name, picture in draw(RUNS[request.param], True).items()}


def test_notes_say_who_played_what_bars_are_and_where_an_axis_begins(drawn: dict[str, Figure]):
    for name, figure in drawn.items():
        assert RULE_BASED_NOTE in read_texts(figure), name
        if name in ("best-of-t", "success", "efficiency"):
            assert "Bars: 95% intervals of each mean by itself, over task types." in read_texts(figure), name
    assert "The vertical axis does not begin at 0." in read_texts(drawn["best-of-t"])
    assert "turns per task" in read_texts(drawn["efficiency"])


def test_names_are_drawn_as_they_are():
    pictures = draw(RUNS[HOSTILE[0]])
    for name in ("best-of-t", "success"):
        (legend,) = pictures[name].figure.legends
        names = legend.get_texts()
        assert {"$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>"} <= {text.get_text().strip() for text in names}
        assert not any(text.get_parse_math() for text in names)
        assert "first-xxxxxxxxxxxx…xxxxxxxxxxxx-last" in {text.get_text() for text in names}
    assert len({(style.colour, style.marker) for style in assign_arm_styles(map(str, range(40))).values()}) == 40
    assert shorten_name("a\x1b[31m\u202eb\nc\t d") == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b c d"


# Files.


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_analysis_gives_the_same_bytes_whatever_was_drawn_before(tmp_path: Path, ending: str):
    once = draw(TWO)["survival"]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        again = draw(TWO)["survival"]
        save_figure(again.figure, tmp_path / f"again.{ending}")
    save_figure(once.figure, tmp_path / f"once.{ending}")
    assert (tmp_path / f"once.{ending}").read_bytes() == (tmp_path / f"again.{ending}").read_bytes()
    assert PICTURE.holds(tmp_path / f"once.{ending}")
    (tmp_path / f"foreign.{ending}").write_bytes(b"%PDF-1.4 <svg/>")
    assert not PICTURE.holds(tmp_path / f"foreign.{ending}")
