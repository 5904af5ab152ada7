"""The page as a reader meets it, in a real browser: its views, tables, colours, on a phone, on paper."""

import pytest

from rsso_dspy.records import RULE_BASED_NOTE
from tests.report.page_reading import NARROW, PLACES, evil_address, turn_to

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
    assert page.get_by_role("img", name="One curve falls.").is_visible()
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
    table = page.locator(".scroll").first
    assert table.evaluate("box => box.scrollWidth > box.clientWidth")
    table.evaluate("box => { box.scrollLeft = 200 }")
    first = page.locator("tbody th").first
    assert first.bounding_box()["x"] >= 0, "the first column stays"


def test_on_paper_and_without_scripts_the_tables_stand_one_under_the_other(visit):
    page = visit("#/tasks")
    page.emulate_media(media="print")
    shown = {name: page.locator(name).first.is_visible() for name in (".view", ".viewer", ".bar")}
    assert shown == {".view": True, ".viewer": False, ".bar": False}
    page = visit(java_script_enabled=False)
    for text in ("What each arm reached.", "By task", "The trials are read step by step with scripts"):
        assert page.get_by_text(text).first.is_visible()
    assert not page.get_by_role("button").count()
