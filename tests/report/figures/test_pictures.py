"""What the pictures of a run show, and which there are."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.pricing import Price
from rsso_dspy.records import TrialResult, UnitRecord, Usage
from rsso_dspy.report.comparison import FACTORIAL_METHODS, compare_arms
from rsso_dspy.report.figures import draw_report_figures
from rsso_dspy.report.figures.cost_vs_score import compute_unit_costs, draw_cost_figure
from rsso_dspy.report.figures.factorial_2x2 import draw_interaction_figure
from rsso_dspy.report.figures.memory_counts import draw_memories_figure
from rsso_dspy.report.figures.paired_differences import draw_forest_figure, draw_slope_figure
from rsso_dspy.report.figures.style import assign_arm_styles
from rsso_dspy.report.figures.survival import draw_survival_figure
from rsso_dspy.report.figures.trial_curves import draw_best_of_t_figure, draw_tasks_figure
from tests.records import record

Arms = Mapping[str, Sequence[UnitRecord]]

FIRST = [record("first", "boil", 1, [[10], [40]]), record("first", "melt", 2, [[30], [20]])]
SECOND = [record("second", "boil", 1, [[100]]), record("second", "melt", 2, [[0], [10]])]
TWO: Arms = {"first": FIRST, "second": SECOND}
ERRORED = record("second", "melt", 3, [[90], None])


def curve(axes: Axes, arms: Arms, arm: str) -> list[float]:
    """The heights of the arm's line: that with its colour and its marker."""
    style = assign_arm_styles(arms)[arm]
    (line,) = (each for each in axes.lines if (each.get_color(), each.get_marker()) == (style.colour, style.marker))
    return [float(y) for y in line.get_ydata()]


def texts(figure: Figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    inside = [text.get_text() for axes in figure.axes for text in axes.texts]
    return "\n".join([*(text.get_text() for text in figure.texts), *legends, *inside])


def spending(arm: str, tokens: int, score: int = 50) -> list[UnitRecord]:
    units = [record(arm, "boil", index, [[score], [score]]) for index in range(2)]
    usage = {"actor": Usage(calls=1, input=tokens)}
    return [replace(u, trials=tuple(replace(trial, usage=usage) for trial in u.trials)) for u in units]


def test_a_unit_that_stopped_early_keeps_its_best_and_an_errored_one_is_left_out_and_counted():
    arms = {"first": FIRST, "second": [*SECOND, ERRORED]}
    figure = draw_best_of_t_figure(arms)
    (axes,) = figure.axes
    assert curve(axes, arms, "first") == [20, 35]
    assert curve(axes, arms, "second") == [50, 55]
    assert "1 errored unit is left out" in texts(figure)
    bars = [line for line in axes.lines if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    assert [float(y) for y in bars[0].get_ydata()] == [0, 100]  # two units of one task type tell little


def test_published_figures_are_dashed_and_said_to_be_another_model():
    figure = draw_best_of_t_figure(TWO, {"first": [None, 70.0, 80.0]}, "A paper; Some Model 1")
    (line,) = (each for each in figure.axes[0].lines if list(each.get_ydata()) == [70.0, 80.0])
    assert list(line.get_xdata()) == [2, 3]
    assert line.get_linestyle() == "--"
    assert line.get_color() == assign_arm_styles(TWO)["first"].colour
    assert "first, published" in texts(figure)
    assert "another model. A paper; Some Model 1" in texts(figure)


def test_a_panel_for_every_task_type_with_one_legend():
    figure = draw_tasks_figure(TWO)
    boil, melt = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["boil", "melt"]
    assert curve(boil, TWO, "first") == [10, 40]
    assert curve(boil, TWO, "second") == [100, 100]  # solved at once, where others of the arm went on
    assert boil.get_ylim() == melt.get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["first", "second"]


def test_survival_is_the_share_that_reaches_a_score_and_falls_above_it():
    units = [record("a", "boil", index, [[score]]) for index, score in enumerate((0, 20, 20, 100))]
    (axes,) = draw_survival_figure({"a": units}).axes
    line = axes.lines[0]
    assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == {0: 100, 20: 75, 100: 25}
    assert line.get_drawstyle() == "steps-pre"


def test_slopes_are_told_apart_by_colour_and_by_line():
    arms = {
        "a": [record("a", "boil", index, [[score]]) for index, score in enumerate((10, 50, 50, 70))],
        "b": [record("b", "boil", index, [[score]]) for index, score in enumerate((30, 20, 20, 70))],
    }
    figure = draw_slope_figure(arms, ("a", "b"))
    lines = {tuple(map(float, line.get_ydata())): line for line in figure.axes[0].lines}
    up, down, equal, mean = (lines[pair] for pair in ((10, 30), (50, 20), (70, 70), (45, 35)))
    assert len({line.get_color() for line in (up, down, equal, mean)}) == 4
    assert len({line.get_linestyle() for line in (up, down, equal)}) == 3
    assert down.get_linewidth() > up.get_linewidth()
    assert mean.get_linewidth() > down.get_linewidth()
    said = texts(figure)
    assert all(words in said for words in ("1 up", "2 down", "1 equal", "45.0", "35.0", "several units"))


def test_a_picture_of_arms_with_different_units_says_so_unless_it_is_of_pairs():
    arms = {**TWO, "second": [*TWO["second"], record("second", "melt", 7, [[30], [40]])]}
    said = {picture.name: "Arms finished different units" in picture.alt for picture in draw_report_figures(arms)}
    assert said["best-of-t"]
    assert said["survival"]
    assert not said["differences"]
    assert not said["slopes"]
    assert not any("Arms finished different units" in picture.alt for picture in draw_report_figures(TWO))


def test_slopes_compare_as_many_trials_as_both_may_play():
    arms = {"once": [record("once", "boil", 1, [[20]])], "again": [record("again", "boil", 1, [[30], [90]])]}
    figure = draw_slope_figure(arms, ("once", "again"))
    assert [float(y) for y in figure.axes[0].lines[0].get_ydata()] == [20, 30]
    assert "Best of the first 1" in texts(figure)


def test_slopes_of_an_arm_that_is_not_there_name_the_near_one():
    with pytest.raises(UnknownName, match="first"):
        draw_report_figures(TWO, against=("frist", "second"))


def test_a_forest_has_a_row_for_every_comparison_and_a_ring_without_interval():
    alone = compare_arms("a", [record("a", "boil", 1, [[10]])], "b", [record("b", "boil", 1, [[30]])])
    figure = draw_forest_figure([compare_arms("first", FIRST, "second", SECOND), alone])
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["second − first", "b − a"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [20, 20]
    assert [dot.get_markerfacecolor() == "none" for dot in dots] == [False, True]
    assert "+20.0 (−100.0 to +100.0), n = 2" in texts(figure)
    assert "+20.0 (no interval), n = 1" in texts(figure)


def corners(scores: Sequence[Sequence[int]]) -> dict[str, list[UnitRecord]]:
    return {
        method: [record(method, f"task-{n}", n, [[score]]) for n, score in enumerate(values)]
        for method, values in zip(FACTORIAL_METHODS, scores, strict=True)
    }


def test_the_square_is_two_lines_over_the_units_that_all_four_finished():
    arms = corners([(10, 30, 90), (20, 40), (30, 50), (80, 100)])
    figure = draw_interaction_figure(arms, arms)
    heights = [[float(y) for y in line.get_ydata()] for line in figure.axes[0].lines]
    assert [20, 30] in heights
    assert [40, 90] in heights
    assert "Interaction +40.0 points (no interval)" in texts(figure)


def test_a_dot_stands_at_dollars_where_every_model_has_a_price_else_at_tokens():
    arms = {"cheap": spending("cheap", 1000), "dear": spending("dear", 2000)}
    price = Price(1e-3, 0.0, 0.0, 0.0)
    assert compute_unit_costs(arms, lambda _: price).of == {"cheap": pytest.approx(2.0), "dear": pytest.approx(4.0)}
    assert "US dollars" in draw_cost_figure(arms, lambda _: price).axes[0].get_xlabel()
    assert "tokens per unit" in draw_cost_figure(arms).axes[0].get_xlabel()


def test_costs_far_apart_are_logarithmic_and_names_cover_no_other():
    arms = {f"method-{number}": spending(f"method-{number}", 5**number, 50 + number) for number in range(6)}
    figure = draw_cost_figure(arms)
    (axes,) = figure.axes
    assert "logarithmic" in axes.get_xlabel()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(boxes) == 6
    assert not any(box.count_overlaps([other for other in boxes if other is not box]) for box in boxes)


def test_more_names_than_find_a_place_become_a_legend():
    arms = {f"method-number-{number}": spending(f"method-number-{number}", 1000) for number in range(30)}
    figure = draw_cost_figure(arms)
    assert not figure.axes[0].texts
    assert len(figure.legends[0].get_texts()) == 30


def remembering(start: str = "", shown: str = "") -> UnitRecord:
    unit = record("rsso", "boil", 1, [[10], [20, 20], [30]])
    learnt = [
        {"plans_from_past_attempts": {"held": 1}, "skills": {"library": 0}},
        {"plans_from_past_attempts": {"held": 2}, "skills": {"library": 4}},
        {},
    ]
    trials: list[TrialResult] = []
    for result, said, recalled in zip(unit.trials, learnt, (["z"] if shown else [], ["a"], ["a", "b"]), strict=True):
        assert result.trajectory
        steps = tuple(replace(step, recalled=tuple(recalled)) for step in result.trajectory.steps)
        region = {shown: "text"} if shown else {}
        trials.append(replace(result, learnt=said, trajectory=replace(result.trajectory, steps=steps), shown=region))
    return replace(unit, trials=tuple(trials), start=start)


def test_memories_are_those_that_a_trial_began_with_and_what_it_was_shown():
    arms = {"react": FIRST, "rsso": [remembering()]}
    panels = {axes.get_title(loc="left"): curve(axes, arms, "rsso") for axes in draw_memories_figure(arms).axes}
    assert panels == {
        "reflections held at start": [0, 1, 2],
        "skills in library at start": [0, 0, 4],
        "distinct skills shown": [0, 1, 2],
    }


def test_a_library_learnt_elsewhere_is_not_said_to_be_empty():
    figure = draw_memories_figure({"rsso": [remembering("boil.json", "skills:z")]})
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "reflections held at start",
        "distinct skills shown",
    ]
    assert "learned elsewhere" in texts(figure)


@pytest.mark.parametrize(
    ("arms", "names"),
    [
        ({}, []),
        ({"a": [ERRORED], "b": []}, []),
        ({"a": [record("a", "boil", 1, [[10]])]}, []),
        ({"first": FIRST}, ["best-of-t", "best-of-t-by-task", "survival"]),
        (
            {a: [record(a, "boil", n, [[10 * n if a == "a" else 10]]) for n in (1, 2)] for a in "ab"},
            ["survival", "differences", "slopes", "cost", "efficiency"],
        ),
        (corners([(0, 0)] * 4), ["survival", "slopes", "interaction", "cost", "efficiency"]),
        ({"rsso": [remembering()]}, ["best-of-t", "memories"]),
    ],
    ids=["nothing", "all errored", "one unit", "one arm", "one trial and task", "four corners, all 0", "memories"],
)
def test_what_cannot_be_drawn_is_left_out(arms: Arms, names: list[str]):
    assert [picture.name for picture in draw_report_figures(arms)] == names


def test_the_alternative_text_says_what_is_seen_in_numbers():
    arms = {"first": FIRST, "second": [*SECOND, ERRORED]}
    said = {picture.name: picture.alt for picture in draw_report_figures(arms)}
    assert "first: 20.0, 35.0 (0.0 to 80.8); second: 50.0, 55.0 (0.0 to 100.0)" in said["best-of-t"]
    assert "boil: from 40.0 (first) to 100.0 (second)" in said["best-of-t-by-task"]
    assert "second: 50% reach 50, 50% reach 75, 50% reach 100" in said["survival"]
    assert "second minus first: +20.0 (−100.0 to +100.0), 2 pairs" in said["differences"]
    assert "1 up, 1 down, 0 equal. Mean 35.0 in first, 55.0 in second." in said["slopes"]
    assert "first: 26 tokens, Mean 35.0 (0.0 to 80.8)" in said["cost"]
    assert all("1 errored unit is left out" in words for words in said.values())


def test_arms_keep_their_look_when_others_errored():
    arms = {"gone": [ERRORED], **TWO}
    style = assign_arm_styles(arms)["second"]
    for figure in (draw_best_of_t_figure(arms), draw_survival_figure(arms)):
        looks = {(line.get_color(), line.get_marker()) for axes in figure.axes for line in axes.lines}
        assert (style.colour, style.marker) in looks


def test_without_matplotlib_the_fix_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"rsso-dspy\[figures\]"):
        draw_report_figures(TWO)
