"""A page with all that a run can hold, and words for walking through it in a browser.

page = visit(unit_address(trial=2, step=5))        # `visit` is a fixture
at_step(page, 5)
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rsso_dspy.calls import Call
from rsso_dspy.records import RULE_BASED_NOTE, State, TrainingRecord, TrialResult, UnitRecord
from rsso_dspy.report.drawings import Chart, Curve, Drawings, Forest, ForestRow, Point
from rsso_dspy.report.page import MARK, Page, PageCalls, PageSection, write_page
from rsso_dspy.report.sheets import build_sheet, format_difference, format_text, make_cell
from tests.live import REWARDED, label
from tests.records import record

EVIL_ARM = 'a/b#c?d%e&f="x"<i>\'+\u202e'
MARKUP = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 1'><!-- ]]> \u2028 \0 \ud800"
STEPS = 12
NARROW = {"width": 360, "height": 740}


def page_of(unit: UnitRecord, target: Path) -> Path:
    """A page with this unit, an errored one, a training, and one that means harm."""
    rows = [
        (name, size, mean, format_difference(gain, tone="best" if gain > 0 else "bad"), *range(12))
        for name, size, mean, gain in [("rsso", 9, 80.5, 1.5), ("sso", 10, 9.25, -2.0), (MARKUP, 2, None, 0)]
    ]
    total = tuple(replace(make_cell(value), tone="total") for value in ("all", 21, 50.0, *[1] * 13))
    columns = ("arm", "units", "Mean", "gain", *(f"column {number}" for number in range(12)))
    means = build_sheet("means", "Means", columns, [*rows, total], [MARKUP])
    tasks = build_sheet("tasks", "By task", ("task", "Mean"), [(format_text("boil", task="boil"), 33.0)])
    sections = [
        PageSection(
            "overview", "Overview", "What each arm reached.", (means,), ("differences", "best-of-t"), ("grid",)
        ),
        PageSection("tasks", "Tasks", MARKUP, (tasks,)),
    ]
    units = [unit, record("rsso", "boil", 22, [[10], None]), record("sso", "boil", 22, [[100]]), training(), evil()]
    facts = [("Commit", "c448d48cdb9c"), ("Hash", "x" * 90)]
    notes = [RULE_BASED_NOTE, MARKUP]
    write_page(target, Page(f"Run {MARKUP}", sections, "", notes, facts, make_drawings()), units, find_calls)
    return target


def make_drawings() -> Drawings:
    """Figures whose names mean harm."""
    row = ForestRow(EVIL_ARM, "sso", MARKUP, 9, -2.5, "-2.50 (-9.0 to +4.0)", -9.0, 4.0)
    dose = "reflections shown in 37 of 56 later trials"
    own = ForestRow("rsso", "sso", "memory", 9, 3.0, "+3.00 (no interval)", dose=dose, verdict="not tested")
    both = ForestRow("interaction", "", "a", 9, 1.0, "+1.00 (+0.5 to +1.5)", 0.5, 1.5, is_interaction=True)
    forests = {"": Forest((row, own, both), (MARKUP,)), "sso": Forest((own,), ()), EVIL_ARM: Forest((row,), ())}
    curves = (
        Curve("rsso", "#464afb", (Point(1, 40.0, 30.0, 50.0), Point(2, 60.0))),
        Curve(EVIL_ARM, "#cb8218", (Point(1, 40.0), Point(2, 60.0))),
        Curve("rsso, published", "#464afb", (Point(1, 50.0),), is_published=True),
    )
    chart = Chart("Curves", "One curve falls.", "trials", "points", curves, (MARKUP,))
    titles = {
        "differences": {"title": "Differences", "alt": "Intervals."},
        "grid": {"title": "Every variant", "alt": ""},
    }
    return Drawings(forests, {"best-of-t": chart}, True, titles)


def find_calls(unit: UnitRecord | TrainingRecord) -> PageCalls:
    """A request for each step of a unit, with the texts that were shown at it."""
    return PageCalls({trial.trial: [make_call(trial, number) for number in list_steps(trial)] for trial in unit.trials})


def list_steps(trial: TrialResult) -> range:
    return range(1, len(trial.trajectory.steps) + 1 if trial.trajectory else 1)


def make_call(trial: TrialResult, number: int) -> Call:
    step = trial.trajectory.steps[number - 1]
    names = {f"skills:{','.join(step.recalled)}": "skills"} | {f"progress@{number}": "progress"}
    shown = {names.get(name, name): text for name, text in trial.shown.items() if name in names or ":" not in name}
    regions = {label(name): text for name, text in shown.items() if "@" not in name}
    regions |= {"Task": trial.trajectory.task, "Observation": f"It is step {number}."}
    sent = "\n\n".join(f"{name}: {text}" for name, text in regions.items())
    messages = [{"role": "system", "content": f"You act. {MARKUP}"}, {"role": "user", "content": sent}]
    request = {"model": "m", "parameters": {}, "messages": messages}
    said = step.unread or f"{step.reasoning}\nAction: {step.proposed}"
    return Call(trial.trial, 0, number, "actor", request, answer=[said])


def training() -> TrainingRecord:
    unit = record("rsso", "boil", 3, [[5], [100]])
    common = {
        name: getattr(unit, name)
        for name in ("protocol", "arm", "method", "program", "backend", "model", "rule_based", "seed", "trials")
    }
    return TrainingRecord(**common, task="boil", budgets=(9, 7))


def evil():
    unit = record(EVIL_ARM, "boil", 22, [[1, -100]])
    trial = unit.trials[0]
    state = State(MARKUP + "A" * 1_000_000, MARKUP, MARKUP)
    steps = tuple(
        replace(step, proposed=MARKUP, action=f"{MARKUP} sent", reasoning=MARKUP, state=state, recalled=("x",))
        for step in trial.trajectory.steps
    )
    shown = {"skills:x": MARKUP, MARKUP: MARKUP, "progress@1": MARKUP}
    trajectory = replace(trial.trajectory, task=MARKUP, start=state, steps=steps)
    return replace(unit, trials=(replace(trial, trajectory=trajectory, shown=shown, learnt={MARKUP: {MARKUP: 1}}),))


def unit_address(trial: int = 1, step: int | None = None) -> str:
    return f"#/trials/rsso/{REWARDED}/s0/t{trial}" + (f"/n{step}" if step else "")


def evil_address() -> str:
    arm = quote(EVIL_ARM.replace("\u202e", "\ufffd"), safe="!'()*~-_.")
    return f"#/trials/{arm}/boil::22/s0/t1/n1"


def at_step(page: Any, step: int, of: int = STEPS) -> None:
    page.get_by_text(f"Step {step} of {of}", exact=True).wait_for()


def turn_to(page: Any, address: str, text: str) -> None:
    page.evaluate("address => { location.hash = address }", address)
    page.locator(f":text('{text}'):visible, [aria-label='{text}']:visible").first.wait_for()


def open_unit(page: Any, key: str, arm: str) -> None:
    page.get_by_role("heading", name=re.compile(rf"^{re.escape(key)}\W+{re.escape(arm)}$")).wait_for()


def at_address(page: Any, address: str) -> None:
    page.wait_for_function("address => location.hash === address", arg=address)


PLACES = {
    "#/overview": "What each arm reached.",
    "#/tasks": "By task",
    "#/trials": "Choose a unit",
    unit_address(3, 4): f"Step 4 of {STEPS}",
    "#/trials/rsso/boil::22/s0/t2": "error, no score",
    "#/trials/rsso/boil/s0/t2": "Episodes",
}
"""Addresses, and what is to be seen there."""


def expand(data: dict[str, Any]) -> dict[str, Any]:
    """A record's data with its texts in place, as the page's scripts read it."""
    texts = data["texts"]

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            return "\n\n".join(texts[int(part)] for part in value[1:].split(" ")) if value[:1] == MARK else value
        if isinstance(value, dict):
            return {name: whole(each) for name, each in value.items()}
        return list(map(whole, value)) if isinstance(value, list | tuple) else value

    return {name: whole(value) for name, value in data.items() if name != "texts"}
