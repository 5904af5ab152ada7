"""The page as a reader meets it, in a real browser: its views, tables, colours, on a phone, on paper."""

from dataclasses import replace
from pathlib import Path

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.cli.results import open_runs, write_html
from rsso_dspy.records import RULE_BASED_NOTE
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.page import Page, PageCalls, PageSection, write_page
from tests.records import record
from tests.report.page_reading import NARROW, PLACES, evil_address, make_drawings, turn_to

RECORDED = Path(__file__).parents[2] / "examples/recorded"

UNREADABLE_TEXTS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !element.checkVisibility() || element.closest("svg, script")) continue;
    const both = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const contrast = (both[0] + 0.05) / (both[1] + 0.05);
    if (contrast < 4.5) poor.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
  }
  return [...poor];
}"""


def test_each_view_shows_its_own_and_the_notes(visit):
    page = visit("#/overview")
    assert page.get_by_role("img", name="One curve falls. Last points: rsso 60.0").is_visible()
    for name, text in [("Overview", "What each arm reached."), ("Tasks", "By task"), ("Trials", "Choose a unit")]:
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        page.get_by_text(text).first.wait_for()
        assert page.locator(".view:visible").count() == 1
        assert page.locator("nav[aria-label=Views] [aria-current=page]").inner_text().startswith(name)
        assert page.get_by_text(RULE_BASED_NOTE).is_visible()
        assert page.get_by_text("c448d48cdb9c").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_in_both_colours(visit, scheme):
    page = visit(color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[scheme]
    for address, text in PLACES.items():
        turn_to(page, address, text)
        assert page.evaluate(UNREADABLE_TEXTS) == [], address


def test_nothing_scrolls_sideways_on_a_phone(visit):
    page = visit(viewport=NARROW)
    for address, text in (PLACES | {evil_address(): "Step 1 of 2"}).items():
        turn_to(page, address, text)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], address
        tab = page.locator("nav[aria-label=Views] [aria-current=page]").bounding_box()
        assert 0 <= tab["x"] <= NARROW["width"] - tab["width"], address
    assert not page.locator(".rows").is_visible(), "the list gives way to the unit"
    page.locator(".units summary").click()
    assert page.locator(".rows a").count() == 5
    turn_to(page, *next(iter(PLACES.items())))
    for part in page.locator(".view.current :is(.scroll, .drawing, .grid, svg)").all():
        assert part.evaluate("box => box.scrollWidth <= box.clientWidth + 1"), part
    cell = page.locator(".view.current .cards tbody tr").first.locator("td").nth(3)
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"column 0"', "a row is a card"


def test_differences_are_drawn_against_the_arm_that_is_chosen(visit):
    page = visit("#/overview")
    figure = page.locator("figure.differences")
    rows = figure.locator(".effect")
    evil, own, both = rows.all_inner_texts()
    assert "-2.50 (-9.0 to +4.0)" in evil
    assert "not tested; reflections shown in 37 of 56 later trials" in own
    assert "interaction" in both
    assert rows.nth(1).locator(".hole").count() == 1, "a ring has no interval"
    assert rows.nth(0).locator(".hole").count() == 0
    zero, line = (rows.nth(2).locator(path).bounding_box() for path in (".zero", ".bar-line"))
    assert zero["x"] < line["x"], "an interval above 0 stands right of it"
    assert page.get_by_label("Compare with").bounding_box()["y"] < 600, "on the first screen"

    page.keyboard.press("Tab")
    page.get_by_label("Compare with").focus()
    page.keyboard.type("sso")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('figure.differences .effect').length === 1")
    assert page.evaluate("document.activeElement.closest('.baseline') !== null"), "the control keeps the focus"


def test_a_chart_is_drawn_as_wide_as_there_is_room_and_stands_below_as_a_table(visit):
    page = visit("#/overview")
    figure = page.locator("figure.best-of-t")
    drawn = figure.locator("svg.chart")
    assert drawn.locator(".mark").count() == 5
    assert drawn.locator("path.curve[stroke-dasharray]").count() == 2, "a curve on another one, and a published one"
    wide = drawn.bounding_box()["width"]
    page.set_viewport_size(NARROW)
    page.wait_for_function("wide => document.querySelector('svg.chart').clientWidth < wide", arg=wide)
    figure.locator("summary").click()
    cells = [row.split() for row in figure.locator("table tbody tr").all_inner_texts()]
    assert cells[0] == ["rsso", "40.0", "60.0"]


def test_the_grid_has_the_best_score_of_every_arm_and_can_be_told_to_show_differences_alone(visit):
    page = visit("#/overview")
    grid = page.locator("figure.grid")
    rows = grid.locator("tbody tr")
    scores = {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows.all()}
    assert scores["boil::22"] == ["err", "100", "1"]
    assert grid.locator("td.level-4 a").first.inner_text() == "100"
    grid.get_by_label("Arms differ (1 of 2)").check()
    assert rows.count() == 1
    link = grid.get_by_role("link", name="sso, boil::22: best 100, solved")
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="boil::22 sso").wait_for()


def test_scores_of_many_arms_stand_on_cards_where_there_is_no_room_for_columns(visit, tmp_path):
    units = [record(f"a-method-with-a-name-{number}", "boil", 1, [[number]]) for number in range(14)]
    drawings = replace(make_drawings(), forests={}, charts={})
    sections = [PageSection("overview", "Overview", "Many.", (), (), ("grid",))]
    write_page(tmp_path / "many.html", Page("Many", sections, drawings=drawings), units)
    page = visit(file=tmp_path / "many.html")
    assert page.locator(".upright td").count() == 14
    page.set_viewport_size(NARROW)
    page.locator(".stacked").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert "boil::1" in page.locator(".stacked th[scope=row]").inner_text()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["babyai-demo", "babyai-2x2"])
def test_a_recorded_run_is_read_whole_on_a_wide_and_on_a_narrow_screen(visit, tmp_path, name, width):
    pool = open_runs([RECORDED / name])
    write_html(pool, (played := collect_played(pool)), analyze(played), False, "interval", tmp_path / "page.html")
    page = visit(file=tmp_path / "page.html", viewport={"width": width, "height": 850})
    figures = [page.locator(f".view.current .{each}").bounding_box() for each in ("differences", "best-of-t")]
    assert all(box["y"] < 850 for box in figures[: 2 if width > 1000 else 1])
    assert figures[1]["x"] > 600 or width < 1000, "the right half of a wide screen is used"
    assert page.locator(".view.current").get_by_label("Compare with").bounding_box()["y"] < 850
    for view in ("overview", "comparison", "tasks", "cost"):
        page.evaluate("view => { location.hash = `#/${view}` }", view)
        page.wait_for_function("view => document.body.dataset.view === view", arg=view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        cut = "parts => parts.filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.ariaLabel)"
        assert page.locator(".view.current .scroll:visible").evaluate_all(cut) == [], view


def test_a_trial_of_which_no_step_is_known_shows_none(visit, tmp_path):
    unit = record("reflexion", "env", 0, [[]])
    write_page(tmp_path / "page.html", Page("Logs"), [unit], lambda _: PageCalls(why_not="logs of Reflexion hold none"))
    page = visit("#/trials/reflexion/env::0/s0/t1", file=tmp_path / "page.html")
    page.get_by_text("No step of this trial is in the page: logs of Reflexion hold none.").wait_for()
    page.keyboard.press("ArrowRight")
    assert not page.get_by_label("Prompt").count()
    assert not page.get_by_label("Answer", exact=True).count()


def test_on_paper_and_without_scripts_the_tables_stand_one_under_the_other(visit):
    page = visit("#/tasks")
    page.emulate_media(media="print")
    shown = {name: page.locator(name).first.is_visible() for name in (".view", ".viewer", ".bar")}
    assert shown == {".view": True, ".viewer": False, ".bar": False}
    page = visit(java_script_enabled=False)
    for text in ("What each arm reached.", "By task", "The trials are read step by step with scripts"):
        assert page.get_by_text(text).first.is_visible()
    assert not page.get_by_role("button").count()
