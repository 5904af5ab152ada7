"""Figures as files and as SVG for a page."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.figure import Figure

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures import PICTURE, render_figure_svg, save_figure, use_figure_size
from rsso_dspy.report.figures.paired_differences import draw_slope_figure
from rsso_dspy.report.figures.style import INK
from rsso_dspy.report.figures.survival import draw_survival_figure
from rsso_dspy.report.figures.trial_curves import draw_best_of_t_figure
from tests.records import record

HOSTILE = ["$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>", "\u202eturned\x1b[31m", 'a & b " --> ]]>', "日本"]
ARMS = {name: [record(name, "boil", n, [[10 * n], [50]]) for n in range(2)] for name in HOSTILE}


@pytest.fixture(scope="module")
def shown() -> dict[str, Figure]:
    lines = draw_best_of_t_figure(ARMS, {"_hidden": [50.0]}, "$\\beta$ <b>")
    return {
        "lines": lines,
        "steps": draw_survival_figure(ARMS),
        "slopes": draw_slope_figure(ARMS, (HOSTILE[0], HOSTILE[2])),
    }


@pytest.fixture(scope="module")
def texts(shown: dict[str, Figure]) -> dict[str, str]:
    return {name: render_figure_svg(figure, f"{name} <1>") for name, figure in shown.items()}


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_records_give_the_same_bytes_whatever_was_drawn_before(
    tmp_path: Path, shown: dict[str, Figure], ending: str
):
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        again = draw_survival_figure(ARMS)
        render_figure_svg(again, "first", themed=True)
        save_figure(again, tmp_path / f"again.{ending}")
    save_figure(shown["steps"], tmp_path / f"once.{ending}")
    assert (tmp_path / f"once.{ending}").read_bytes() == (tmp_path / f"again.{ending}").read_bytes()
    assert render_figure_svg(shown["steps"], "name") == render_figure_svg(again, "name")


def test_letters_stay_text_and_a_column_is_half_as_wide(tmp_path: Path):
    arms = {"rsso": [record("rsso", "boil", n, [[70 + n], [80]]) for n in range(3)]}
    with use_figure_size("column"):
        figure = draw_best_of_t_figure(arms)
    assert figure.get_size_inches()[0] == 3.5
    assert draw_best_of_t_figure(arms).get_size_inches()[0] == 7.2
    save_figure(figure, tmp_path / "figure.svg")
    words = "".join(ElementTree.parse(tmp_path / "figure.svg").getroot().itertext())
    assert "The vertical axis does not begin at 0." in " ".join(words.split())
    save_figure(figure, tmp_path / "figure.pdf")
    assert b"/FontFile2" in (tmp_path / "figure.pdf").read_bytes(), "letters are TrueType, which can be searched"
    assert PICTURE.holds(tmp_path / "figure.pdf")
    (tmp_path / "foreign.pdf").write_bytes(b"%PDF-1.4")
    assert not PICTURE.holds(tmp_path / "foreign.pdf")


def test_another_form_is_refused(tmp_path: Path, shown: dict[str, Figure]):
    with pytest.raises(UsageError, match=r"neither \.svg, \.pdf nor \.png"):
        save_figure(shown["lines"], tmp_path / "figure.gif")


def test_several_stand_in_one_page_and_share_no_id(texts: dict[str, str]):
    ids = [re.findall(r'\bid="([^"]*)"', text) for text in texts.values()]
    everything = [name for each in ids for name in each]
    assert len(everything) == len(set(everything)) > 100
    for text, mine in zip(texts.values(), ids, strict=True):
        used = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text))
        assert {one or other for one, other in used} <= set(mine)


def test_it_is_an_element_that_changes_nothing_else_on_the_page(texts: dict[str, str]):
    for text in texts.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert text.startswith("<svg ")
        assert not re.search(r"<style|<script|<metadata|<!--|<!DOCTYPE|<text", text)


def test_themed_ink_follows_the_page(shown: dict[str, Figure], texts: dict[str, str]):
    plain, themed = texts["lines"], render_figure_svg(shown["lines"], "lines <1>", themed=True)
    assert INK in plain
    assert "#ffffff" in plain
    assert INK not in themed
    assert "#ffffff" not in themed
    assert themed.count("currentColor") == plain.count(INK)


def test_hostile_names_are_drawn_as_they_are(shown: dict[str, Figure]):
    (legend,) = shown["lines"].legends
    beside, below, note = shown["steps"].axes[0].texts, legend.get_texts(), shown["lines"].texts
    ticks = shown["slopes"].axes[0].get_xticklabels()
    for texts in (beside, below):
        assert {"$\\alpha$ $x^", "_hidden", "<script>alert(1)</script>"} <= {text.get_text() for text in texts}
    assert [text.get_text() for text in ticks] == ["$\\alpha$ $x^", "<script>alert(1)</script>"]
    assert not any(text.get_parse_math() for text in (*beside, *below, *note, *ticks))
