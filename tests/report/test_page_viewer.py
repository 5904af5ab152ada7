"""The viewer of trials, in a real browser: steps, prompts, addresses, keys, the list, and texts that mean harm."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Call, text_of
from rsso_dspy.cli.results import load_calls, open_runs, write_html
from rsso_dspy.records import TrialResult, UnitRecord
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.page import Page, PageCalls, PageSection, write_page
from rsso_dspy.report.terminal import replace_controls
from tests.records import record
from tests.report.page_reading import (
    EVIL_ARM,
    MARKUP,
    NARROW,
    STEPS,
    at_address,
    at_step,
    evil_address,
    open_unit,
    unit_address,
)

RECORDED = Path(__file__).parents[2] / "examples/recorded"
RUNS = sorted(file.parent.name for file in RECORDED.glob("*/run.json"))


def test_a_step_shows_the_answer_and_what_came_of_it(visit, played):
    step = played.trials[0].trajectory.steps[3]
    assert step.reward > 0
    page = visit(unit_address(1, 4))
    answer, result = page.get_by_label("Answer", exact=True), page.get_by_label("What came of it")
    assert answer.locator("code").inner_text() == step.action
    assert answer.locator("pre").text_content() == f"{step.reasoning}\nAction: {step.proposed}", "as it was answered"
    assert f"+{step.reward} points" in result.inner_text()
    assert step.state.observation in result.locator("pre").first.inner_text()
    assert not result.get_by_text("not understood").count()
    result.get_by_text("Surroundings").click()
    assert result.locator("details[open] pre").text_content() == step.state.look
    assert page.locator(".region.r-observation pre").text_content() == "Observation: It is step 4."
    page.get_by_label("Next step (right arrow)").click()
    at_step(page, 5)
    assert result.locator("details[open]").count() == 1, "what was opened stays open"


def test_addresses_survive_a_reload_and_the_way_back(visit):
    page = visit(unit_address(3, 7))
    at_step(page, 7)
    page.keyboard.press("ArrowRight")
    at_address(page, unit_address(3, 8))
    page.reload()
    at_step(page, 8)
    page.locator(".steps").get_by_role("link").nth(1).click()
    at_step(page, 2)
    page.get_by_role("link", name="Tasks").click()
    page.get_by_text("By task").wait_for()
    page.go_back()
    at_step(page, 2)
    page.go_back()
    at_step(page, 8)
    page.go_forward()
    at_step(page, 2)
    for wrong in ("#/trials/rsso/none::1/s0", "#/trials/%E0%A4%A/x", "#/trials/rsso"):
        page.evaluate("address => { location.hash = address }", wrong)
        page.get_by_text("There is no such unit in this file").wait_for()
    page.evaluate(f"location.hash = '{unit_address(3, 999)}'")
    at_step(page, STEPS)


def send(trial: int, step: int, *messages: tuple[str, str], role: str = "actor", **more: Any) -> Call:
    sent = [{"role": who, "content": text} for who, text in messages]
    request = {"model": "openai/m", "parameters": {"temperature": 0.5}, "messages": sent}
    return Call(trial, 0, step, role, request, **more)


SYSTEM = ("system", f"You act. {MARKUP}\n\nAnswer with the action alone.")


def test_parts_of_a_prompt_are_marked_where_they_changed_and_bad_answers_too(visit, tmp_path):
    unit = record("omnireflect-symbolic", "boil", 22, [[0, 0, 0, 0]])
    trial = unit.trials[0]
    one, two, three, four = trial.trajectory.steps
    bad = replace(three, malformed=True, action="", unread="Hm?")
    steps = (one, replace(two, proposed="Look!"), bad, replace(four, understood=False))
    unit = replace(unit, trials=(replace(trial, trajectory=replace(trial.trajectory, steps=steps)),))
    task = "Task: wait\n\n"
    prompts = [
        ("Constitution: - Old.\n\n", ""),
        ("Constitution: - Old.\n\n", "Progress: - Done: 1.\n\n"),
        ("Constitution:\n- Old.\n- New.\n\n", "Progress: - Done: 1.\n\n"),
        ("Constitution:\n- Old.\n- New.\n\n", ""),
    ]
    calls = [
        send(1, number, SYSTEM, ("user", f"{rules}{task}{progress}Observation: {number}."), answer=["Hm?"])
        for number, (rules, progress) in enumerate(prompts, start=1)
    ]
    write_page(tmp_path / "rules.html", Page("Rules"), [unit], lambda _: PageCalls({1: calls}))
    page = visit("#/trials/omnireflect-symbolic/boil::22/s0/t1", file=tmp_path / "rules.html")
    at_step(page, 1, of=4)
    marks = [[], ["new since step 1"], ["changed since step 2"], []]
    answers = [
        "Action\n",
        "Action as written\nLook!\nAction as sent\nlook",
        "malformed: it held no action, nothing was sent",
        "Action\nlook",
    ]
    for (rules, progress), marked, answer in zip(prompts, marks, answers, strict=True):
        assert page.locator(".r-constitution pre").all_text_contents() == [rules]
        assert page.locator(".r-progress pre").all_text_contents() == [progress][: len(progress)]
        assert page.locator(".region .badge").all_text_contents() == marked
        assert answer in page.get_by_label("Answer", exact=True).inner_text()
        page.keyboard.press("ArrowRight")
    assert page.get_by_label("What came of it").get_by_text("not understood").is_visible()
    assert page.get_by_text("No longer there since step 3: Progress").is_visible()
    names = ["Instruction", "Form of the answer", "Constitution", "Task", "Observation"]
    assert page.locator(".region b").all_text_contents() == names


def read_prompt(page: Any) -> list[tuple[str, str]]:
    """Role and text of every message in the panel."""
    return page.locator(".prompt .message").evaluate_all(
        """all => all.map(message => {
          const texts = [...message.querySelectorAll("pre")].map(part => part.textContent);
          return [message.dataset.role, texts.join("")];
        })"""
    )


Place = tuple[UnitRecord, TrialResult, int]  # unit, trial and step


def check_panel(visit: Any, folder: Path, file: Path, choose: Callable[[Sequence[UnitRecord]], list[Place]]) -> None:
    """Check that the panel shows, at these steps of units, what the log holds as sent."""
    pool = open_runs([folder])
    played = collect_played(pool)
    write_html(pool, played, analyze(played), False, "interval", file)
    (store,) = pool.stores
    page = visit("#/trials", file=file)
    for unit, trial, number in choose(played.records):
        calls = load_calls(store, unit)[trial.trial]
        call = [call for call in calls if (call.step, call.role) == (number, "actor")][-1]
        page.evaluate(
            "place => { location.hash = place }",
            f"#/trials/{unit.arm}/{unit.key}/s{unit.seed}/t{trial.trial}/n{number}",
        )
        open_unit(page, unit.key, unit.arm)
        page.locator(f".strip [data-trial='{trial.trial}'][aria-current=true]").wait_for()
        at_step(page, number, of=len(trial.trajectory.steps))
        sent = [[said["role"], replace_controls(text_of(said["content"]))] for said in call.request["messages"]]
        assert read_prompt(page) == sent


@pytest.mark.parametrize("name", RUNS)
def test_the_panel_of_a_recorded_run_is_the_logged_request(visit, tmp_path, name):
    def choose(units: Sequence[UnitRecord]) -> list[Place]:
        longest = max(units, key=lambda unit: len(unit.trials[-1].trajectory.steps))
        last = len(longest.trials[-1].trajectory.steps)
        return [(units[0], units[0].trials[0], 1), *((longest, longest.trials[-1], step) for step in (1, 2, last))]

    check_panel(visit, RECORDED / name, tmp_path / "page.html", choose)


def test_the_panel_of_each_memory_is_the_logged_request(visit, memories_run, tmp_path):
    def choose(units: Sequence[UnitRecord]) -> list[Place]:
        last = {unit.arm: unit for unit in units}  # the second of a stream, and the last trial of it
        assert len(last) == 16
        return [(unit, unit.trials[-1], len(unit.trials[-1].trajectory.steps)) for unit in last.values()]

    check_panel(visit, memories_run, tmp_path / "page.html", choose)


def test_earlier_messages_of_a_conversation_fold_up_and_other_requests_stand_below(visit, tmp_path):
    unit = record("sso", "boil", 22, [[10, 20]])
    turns = [
        SYSTEM,
        ("user", "Task: wait\n\nObservation: A."),
        ("assistant", "look"),
        ("user", "Observation: B.\n\n\nEnd."),
    ]
    busy = {"kind": "LMServerError", "message": "busy"}
    longer = [*turns, ("assistant", "Hm."), ("user", "Answer again.")]
    calls = [
        send(1, 2, SYSTEM, ("user", "One.\n\nadvisor."), role="advisor", error=busy),
        send(1, 1, *turns[:2], answer=["look"], served="m-2", seconds=1.5, failed=[("LMServerError", [])]),
        send(1, 2, *turns, answer=["Hm."]),
        send(1, 2, *longer, answer=["Hm.\n\n look"]),
    ]
    write_page(
        tmp_path / "sent.html", Page("Sent"), [unit], find_calls=lambda _: PageCalls({1: calls}, seconds={1: 3.25})
    )
    page = visit("#/trials/sso/boil::22/s0/t1", file=tmp_path / "sent.html")
    at_step(page, 1, of=2)
    assert "3.25 s in all" in page.locator(".spent").text_content()
    assert page.get_by_label("Answer", exact=True).locator("pre").text_content() == "look"
    cost = page.get_by_label("Answer", exact=True).locator(".cost").inner_text()
    assert cost == "m-2, 1.5 s, 1 request failed before"
    assert read_prompt(page) == [["system", replace_controls(SYSTEM[1])], list(turns[1])]
    assert '"temperature": 0.5' in page.get_by_label("Prompt").inner_text()
    assert not page.get_by_label("Other requests at this step").count()

    page.keyboard.press("ArrowRight")
    at_step(page, 2, of=2)
    assert read_prompt(page) == [[role, replace_controls(text)] for role, text in longer], (
        "the request that was acted on"
    )
    earlier = page.locator(".turns")
    assert earlier.locator("> summary").inner_text() == "3 messages of the steps before"
    assert not earlier.locator("pre").first.is_visible()
    assert page.get_by_label("Answer", exact=True).locator("pre").text_content() == "Hm.\n\n look"
    others = page.get_by_label("Other requests at this step")
    assert others.locator("summary b").all_text_contents() == ["actor", "advisor"]
    others.locator("summary").last.click()
    assert others.locator("pre.answered").all_text_contents() == ["Hm.", "LMServerError: busy"]
    assert others.locator("pre.sent").last.text_content() == "One.\n\nadvisor."


def test_units_are_found_by_words_and_choices(visit):
    page = visit("#/tasks")
    page.get_by_role("link", name="boil").click()
    at_address(page, "#/trials?task=boil")
    status, rows = page.locator(".units .status"), page.locator(".rows a")
    page.locator(".units .status", has_text="4 of 5").wait_for()
    page.locator("#filter-outcome").select_option("errored")
    assert status.inner_text() == "1 of 5"
    assert "errored, no score" in rows.inner_text()
    at_address(page, "#/trials?task=boil&outcome=errored")
    page.reload()
    assert status.inner_text() == "1 of 5"
    rows.click()
    open_unit(page, "boil::22", "rsso")
    assert status.inner_text() == "1 of 5"
    for name in ("outcome", "task"):
        page.locator(f"#filter-{name}").select_option("")
    page.locator("#filter-q").fill("rsso find")
    assert status.inner_text() == "1 of 5"
    page.locator("#filter-q").fill("nothing like it")
    assert page.get_by_text("No unit is like this").is_visible()
    page.locator("#filter-q").fill("")
    page.locator("#filter-arm").select_option("sso")
    assert rows.count() == 1


def test_what_was_learnt_leads_to_where_it_was_read_and_back(visit, played):
    page = visit(unit_address(2, 5))
    learnt = page.get_by_label("What was learned")
    skill = learnt.locator(".item", has_text="Target:").first
    assert "1 written" in learnt.locator(".counts").inner_text()
    assert re.search(r"Drawn from\s*trial 1, steps", skill.inner_text())
    reads = skill.locator("dl > div", has_text="Read in").get_by_role("link").first
    trial, step = map(int, re.findall(r"\d+", reads.inner_text())[:2])
    assert trial == 3
    reads.click()
    at_step(page, step)
    assert page.locator(".region.r-skills pre").text_content().startswith("Skills: ")
    back = page.locator(".region.r-skills").get_by_role("link", name="learned after trial 2").first
    back.click()
    at_step(page, STEPS)
    assert page.locator(".strip [aria-current=true]").inner_text().startswith("2")
    assert page.locator("#learnt:focus").count() == 1
    plan = page.locator(".region.r-plans_from_past_attempts").get_by_role("link", name="learned after trial 1")
    plan.click()
    text = played.memories["reflections"]["plans"][0]["plan"]
    page.locator(".item pre", has_text=text.splitlines()[0]).first.wait_for()


def test_an_errored_trial_has_no_score_and_a_training_lists_its_episodes(visit):
    page = visit("#/trials/rsso/boil::22/s0/t2")
    page.get_by_role("heading", name="Trial 2: error, no score").wait_for()
    assert page.locator(".error").inner_text() == "LMServerError: 500"
    assert "points" not in page.locator("#trial").inner_text()
    page.keyboard.press("[")
    at_step(page, 1, of=1)
    assert page.locator(".others").inner_text().split("\n")[:2] == ["Also played by:", "sso 100"]
    page.locator(".rows a", has_text="training").click()
    page.get_by_role("navigation", name="Episodes").get_by_role("link").nth(1).click()
    page.get_by_role("heading", name="Trial 2 (boil::3): 100 points, solved").wait_for()
    at_address(page, "#/trials/rsso/boil/s0/t2/n1")


def test_what_means_harm_is_shown_and_does_none(visit):
    page = visit("#/trials")
    page.locator(".rows a", has_text="a/b#c").click()
    at_step(page, 1, of=2)
    assert page.locator("#unit .arm").inner_text() == EVIL_ARM.replace("\u202e", "\ufffd")
    at_address(page, evil_address())
    page.reload()
    at_step(page, 1, of=2)
    seen = MARKUP
    for unseen in ("\0", "\ud800", "\u2028"):
        seen = seen.replace(unseen, "\ufffd")
    task, *_ = [text for role, text in read_prompt(page) if role == "user"]
    assert task.count(seen) == 5, "task, skills, progress, and a region of its own with its name"
    assert page.locator(".region.r-task pre").text_content() == f"Task: {seen}\n\n"
    assert page.locator(".answer pre").text_content() == f"{seen}\nAction: {seen}"
    assert page.locator(".answer code").first.text_content() == seen
    assert page.locator(".answer code").last.text_content() == f"{seen} sent"
    assert page.locator(".result pre").first.text_content() == seen + "A" * 1_000_000
    assert page.title().startswith("Run </script>")


@pytest.fixture
def two_arms(tmp_path):
    """Two arms on two variants, without the calls of their models."""
    learned = record("rsso", "boil", 1, [[10, 20], [30, 100]])
    first, second = learned.trials
    one, two = second.trajectory.steps
    played = replace(second.trajectory, steps=(replace(one, proposed="go", action="go"), two))
    learned = replace(learned, trials=(first, replace(second, trajectory=played)))
    units = [record("sso", "boil", 1, [[10, 20], [20]]), record("sso", "boil", 2, [[5, 6]]), learned]
    sections = [PageSection("overview", "Overview", "Means.")]
    why = PageCalls(why_not="it is a test")
    write_page(tmp_path / "two.html", Page("Two", sections, "rsso beats sso."), units, lambda _: why)
    return tmp_path / "two.html"


def test_keys_lead_through_the_filtered_units_and_two_arms_stand_side_by_side(visit, two_arms):
    page = visit("", file=two_arms)
    assert page.get_by_text("rsso beats sso.").is_visible()
    page = visit("#/trials?arm=sso", file=two_arms)
    page.locator(".rows a").first.click()
    for key, unit in (("", "boil::1"), ("n", "boil::2"), ("n", "boil::2"), ("p", "boil::1")):
        page.keyboard.press(key) if key else None
        open_unit(page, unit, "sso")
    page = visit("#/trials/rsso/boil::1/s0/t2/n1", file=two_arms, viewport=NARROW)
    at_step(page, 1, of=2)
    assert "The request of this step is not in the page: it is a test." in page.locator("#step").inner_text()
    page.get_by_label("Side by side with").select_option("sso")
    part = page.get_by_label("Side by side", exact=True)
    part.get_by_text("the actions differ from step 1 on").wait_for()
    rows = part.locator("tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [["1", "go", "+30", "look", "+20"], ["2", "look", "+70"]]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.wait_for_url("**beside=sso**")  # the address is written a moment after the choice
    page.reload()
    part.locator("tbody a").nth(1).click()
    open_unit(page, "boil::1", "sso")
    part.locator("thead", has_text="rsso").wait_for(state="detached")
