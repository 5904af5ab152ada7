"""The candidates of a compile."""

import sys

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures import ScoredCandidate, draw_candidates_figure

CANDIDATES = [
    ScoredCandidate("zero-shot", 0.6, {"boil::3": 1.0, "freeze::1": 0.2, "find-plant::2": 0.6}),
    ScoredCandidate("#1", 0.4, {"boil::3": 0.0, "freeze::1": 0.6, "find-plant::2": 0.6}),
    ScoredCandidate("#2", 0.7, {"boil::3": 1.0, "freeze::1": 0.5, "find-plant::2": 0.6}, chosen=True),
]


def test_every_candidate_its_variants_and_the_best_so_far_are_drawn():
    (axes,) = draw_candidates_figure(CANDIDATES, "title", "note").axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines["mean"] == [0.6, 0.4, 0.7]
    assert lines["best so far"] == [0.6, 0.6, 0.7]
    assert lines["chosen"] == [0.7]
    dots = sorted(float(line.get_ydata()[0]) for line in axes.lines if line.get_label().startswith("_"))
    assert dots == sorted(value for each in CANDIDATES for value in each.per_variant.values())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["zero-shot", "#1", "#2"]


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_candidates_figure([])


def test_without_matplotlib_the_fix_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"rsso-dspy\[figures\]"):
        draw_candidates_figure(CANDIDATES)
