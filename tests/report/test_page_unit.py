"""A unit in the browser: where the page opens, its neighbors, another arm beside it."""

from dataclasses import replace

import pytest

from rsso_dspy.report.page import PageSection, write_page
from rsso_dspy.report.page_records import PageCalls
from tests.records import record
from tests.report.page_reading import NARROW, at_step, open_unit


@pytest.fixture
def two_arms(tmp_path):
    """Two arms on two variants; one unit was failed and then solved, one answered without an action once."""
    learned = record("rsso", "boil", 1, [[10, 20], [30, 100]])
    first, second = learned.trials
    first = replace(first, learnt={"skills": {"written": 1}})
    steps = second.trajectory.steps
    taken = (replace(steps[0], proposed="go", action="go", reasoning="The Grail."), steps[1])
    second = replace(
        second, trajectory=replace(second.trajectory, steps=taken), shown={"skills@1": "Holy Grail skill."}
    )
    plain = record("sso", "boil", 2, [[5, 6]])
    bad = replace(plain.trials[0].trajectory.steps[0], malformed=True, action="")
    plain = replace(
        plain, trials=(replace(plain.trials[0], trajectory=replace(plain.trials[0].trajectory, steps=(bad,))),)
    )
    units = [record("sso", "boil", 1, [[10, 20], [20]]), plain, replace(learned, trials=(first, second))]
    sections = [PageSection("overview", "Overview", "Two arms.")]
    why = PageCalls(why_not="it is a test")
    write_page(tmp_path / "two.html", "Two", sections, units, calls=lambda _: why, headline="rsso beats sso.")
    return tmp_path / "two.html"


def test_it_opens_in_the_first_view_below_the_verdict_and_a_unit_tells_its_story(visit, two_arms):
    page = visit("", file=two_arms)
    assert page.get_by_role("heading", name="Overview").is_visible()
    assert page.get_by_text("rsso beats sso.").is_visible()
    page = visit("#/trials/rsso/boil::1/s0/t2/n1", file=two_arms)
    open_unit(page, "boil::1", "rsso")
    at_step(page, 1, of=2)
    assert page.locator(".strip [aria-current=true]").inner_text().startswith("2")
    assert page.locator(".story").inner_text().startswith("Trial 1: out of steps at 20 points; trial 2: solved")
    assert "The request is not in the page: it is a test." in page.locator("#step").inner_text()
    page.get_by_role("link", name="Overview").click()
    assert page.get_by_text("Two arms.").is_visible()


def test_keys_lead_to_the_next_unit_of_the_filtered_list(visit, two_arms):
    page = visit("#/trials?arm=sso", file=two_arms)
    page.locator(".rows a").first.click()
    open_unit(page, "boil::1", "sso")
    for key, unit in (("n", "boil::2"), ("n", "boil::2"), ("p", "boil::1")):
        page.keyboard.press(key)
        open_unit(page, unit, "sso")
    page.locator("#filter-arm").select_option("")
    for has, rows in {"m": [("boil::2", "sso")], "r": [("boil::1", "rsso")], "t": []}.items():
        page.locator("#filter-has").select_option(has)
        shown = [
            (row.locator(".key").text_content(), row.locator(".about").text_content())
            for row in page.locator(".rows a").all()
        ]
        assert shown == rows


def test_two_arms_stand_side_by_side_at_one_unit(visit, two_arms):
    page = visit("#/trials/rsso/boil::1/s0/t2/n1", file=two_arms, viewport=NARROW)
    at_step(page, 1, of=2)
    page.get_by_label("Compare with").select_option("sso")
    part = page.get_by_label("Side by side")
    part.get_by_text("the actions differ from step 1 on").wait_for()
    rows = part.locator("tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [["1", "go", "+30", "look", "+20"], ["2", "look", "+70"]]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.wait_for_url("**beside=sso**")  # the address is written a moment after the choice
    page.reload()
    part.locator("tbody a").nth(1).click()
    open_unit(page, "boil::1", "sso")
    part.locator("thead", has_text="rsso").wait_for(state="detached")


def test_words_are_found_in_all_texts(visit, two_arms):
    page = visit("#/trials", file=two_arms)
    page.locator("#filter-q").fill("GRAIL")
    page.keyboard.press("Enter")
    page.get_by_text("2 places in 3 of 3 units").wait_for()
    assert page.locator(".hits mark").all_inner_texts() == ["Grail", "Grail"]
    page.locator(".hits a", has_text="trial 2, step 1").first.click()
    at_step(page, 1, of=2)
