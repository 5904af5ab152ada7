"""Reflexion's own measures: success trial by trial, by task type, and why trials failed."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from rsso_dspy.records import State, Step
from rsso_dspy.report.analysis import RunRecords, analyze_run
from rsso_dspy.report.analysis_json import serialize_analysis
from rsso_dspy.report.page_sections import build_page_sections
from rsso_dspy.report.success import FAILURES, classify_failure, compute_success
from rsso_dspy.report.terminal_report import render_analysis
from tests.records import record

UNITS = [
    record("reflexion", "boil", 1, [[0], [0], [100]]),
    record("reflexion", "boil", 2, [[100]]),
    record("reflexion", "melt", 1, [[10], [100]]),
    record("reflexion", "melt", 2, [[0], [0], [0]]),
]


def test_success_adds_up_and_tells_new_ones_apart():
    found = compute_success("reflexion", UNITS)
    assert [(t.solved, t.additional, t.accuracy) for t in found.trials] == [(1, 1, 0.25), (2, 1, 0.5), (3, 1, 0.75)]
    assert found.by_task == {"boil": (2, 2), "melt": (1, 2)}
    assert sum(found.failures.values()) == 6


def steps_of(*actions: str, rewards: int = 0, last: int = 0) -> tuple[Step, ...]:
    """Steps with these actions; the first earns `rewards`, the last one `last`."""
    points = [rewards, *[0] * (len(actions) - 2), last]
    return tuple(Step(a, a, State("", "", ""), p, 0, True) for a, p in zip(actions, points, strict=True))


@pytest.mark.parametrize(
    ("outcome", "steps", "why"),
    [
        ("failed", steps_of("a", "focus on cup", last=-100), "wrong answer"),
        ("failed", steps_of("a", "b"), "other"),
        ("stalled", steps_of("a", "b"), "other"),
        ("repeated", steps_of("a", "a"), "loops"),
        ("exhausted", steps_of("a", "a"), "loops"),
        ("budget", steps_of(*"abababababab"), "loops"),
        ("budget", steps_of(*"abcd"), "not found"),
        ("budget", steps_of(*"abcd", rewards=10), "out of steps"),
    ],
)
def test_every_failure_has_one_reason(outcome, steps, why):
    trajectory = UNITS[0].trajectories[0]
    assert classify_failure(replace(trajectory, outcome=outcome, steps=steps)) == why
    assert why in FAILURES


def test_tables_fit_80_columns_and_the_page_and_json_hold_them():
    found = analyze_run(RunRecords(UNITS))
    data = serialize_analysis(found)["arms"][0]["success"]
    assert data["trials"][1] == {"trial": 2, "solved": 2, "additional": 1, "accuracy": 0.5}
    assert data["by_task"]["melt"] == {"solved": 1, "units": 2}
    screen = io.StringIO()
    Console(file=screen, width=80).print(render_analysis(found))
    text = screen.getvalue()
    assert "Success, trial by trial" in text
    assert "Trials that were not solved, and why" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert any("accuracy" in line and "additional" in line for line in text.splitlines())
    sheets = {sheet.name for section in build_page_sections(found, {}) for sheet in section.sheets}
    assert {"success", "failures", "solved_by_task"} <= sheets
