"""`rsso-dspy show` of a file that a compile left and of copies that people have changed; and of a unit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST
from tests.records import record, save

ADVICE = "\n\nAdvice from earlier attempts:\n- Visit another room first.\n- Do not focus on the rock."
DEMO = {
    "task": "Find a plant. " * 30, "history": "A hall.", "reasoning": "I look.", "current_subgoal": "none",
    "next_action": "look around", "augmented": True,
}  # fmt: skip


@pytest.fixture
def edited(compiled, tmp_path) -> Callable[..., Path]:
    """A copy of the compiled file, with its program alone, after an edit of its content, and with the fingerprint of
    what it then says."""

    def write(edit: Callable[[dict[str, Any]], Any], name: str = "edited.json", stamped: bool = True) -> Path:
        content = compiled.content | {"candidate": None}
        edit(content)
        if stamped:
            agent = Agent(content["method"])
            agent.load_state(content["state"])
            content["program"] = fingerprint_program(agent)
        (tmp_path / name).write_text(json.dumps(content))
        return Path(name)

    return write


def advised(content: dict[str, Any]) -> None:
    content["state"]["actor"]["signature"]["instructions"] += ADVICE
    content["state"]["actor"]["demos"] = [DEMO]


def test_a_program_tells_where_it_came_from_and_what_it_says(rsso, compiled):
    code, out, err = rsso("show", compiled.file)
    there, flat = load(compiled.file), " ".join(out.split())
    assert (code, err) == (0, "")
    spent = f"spent: {there.rollouts} of 8 rollouts, {there.lm_calls} model calls"
    for text in (*there.calibration, there.model, spent, "say nothing about language models"):
        assert text in flat
    for name, state in there.state.items():
        assert f"\n{name}: " in out
        assert state["signature"]["instructions"].split(".")[0].split("\n")[0][:60] in flat


def test_every_program_that_was_tried_has_a_row_and_what_was_not_played_on_all_of_val_a_reason(rsso, compiled):
    """The row tells the number, where it came from, what it changes, on how many val variants it was played, and its
    mean there; the kept candidate is marked."""
    there, out = load(compiled.file), rsso("show", compiled.file)[1]
    assert len(there.tried) > 1
    assert f"\n{len(there.tried)} programs tried; scores from 0 to 100" in out
    for tried in there.tried:
        (row,) = [line for line in out.splitlines() if line.startswith(tried.program[:12])]
        kept = ", kept" if tried.program == there.candidate.program else ""
        assert row.split()[1:3] == [str(tried.number), tried.origin + kept[:1]]
        assert kept in row
        assert all(change.role in row and change.counts in row for change in tried.changes)
        assert f"{tried.val_played}/{len(there.val)} " in row
        assert (f" {100 * tried.scores.metric:.1f} " if tried.scores else " n/a ") in row
        assert (f"\n  {tried.number}: {tried.left[:30]}" in out) == bool(tried.left)


def test_what_was_changed_is_marked_and_demonstrations_are_abridged(rsso, edited):
    out = rsso("show", edited(advised))[1]
    for text in (
        "\nactor: changed\n", "\nreflector: the zero-shot instruction\n", "  + - Do not focus on the rock.\n",
        "\n  You act in ", "demonstration 1 of 1", f"({len(DEMO['task'])} characters)",
    ):  # fmt: skip
        assert text in out
    assert out.count("Find a plant.") < 30
    assert "augmented" not in out

    def reword(content):
        words = content["state"]["actor"]["signature"]
        words["instructions"] = words["instructions"].replace("Name things the way", "Call things the way")

    out = rsso("show", edited(reword))[1]
    assert out.index("  - Name things the way") < out.index("  + Call things the way")


def test_a_program_made_from_an_agent_is_shown_as_that_and_not_as_a_compile(rsso, tmp_path):
    agent = Agent("react-sso")
    agent.actor.signature = agent.actor.signature.with_instructions("Look twice.")
    agent.save(tmp_path / "mine.json")
    code, out, err = rsso("show", "mine.json")
    flat = " ".join(out.split())
    assert (code, err) == (0, "")
    for text in (
        "mine.json react-sso, made from an agent It was not scored or confirmed here; to compare it",
        "use rsso-dspy evaluate mine.json differs from the zero-shot program in: instruction of actor",
        "nobody knows here on which variants actor: changed",
    ):
        assert text in flat
    for text in ("ended before", "nothing better", "optimizer finished", "rollouts", "compared, on"):
        assert text not in flat


THOUGHTS = [
    "Any kitchen has tin cups.",
    "Look again.",
    "Where else?",
    "Tin cups are no tin: try the workshop.",
    "Now heat it.",
]
"""What the actor of `boil::22` may have thought in each of its trials."""


@pytest.fixture
def traced(tmp_path) -> Path:
    """The unit that rSSO's Appendix B traces, with the paper's scores: 0, 0, 0, 75, 100."""
    unit = record("rsso", "boil", 22, [[0], [0], [0], [75], [100]])
    trials = []
    for result, thought in zip(unit.trials, THOUGHTS, strict=True):
        (step,) = result.trajectory.steps
        thinking = replace(result.trajectory, steps=(replace(step, reasoning=thought, subgoal="tin is hot"),))
        trials.append(replace(result, trajectory=thinking))
    store = Store(tmp_path / "traced")
    store.open({}, {"rsso": "1"})
    save(store, replace(unit, trials=tuple(trials)))
    return store.folder


def test_the_trace_of_a_unit_has_the_scores_of_its_trials_and_what_the_actor_thought(rsso, traced):
    assert "boil::22  rsso  seed 0: 0 0 0 75 100\n" in rsso("show", traced)[1]
    shown = rsso("show", traced, "boil::22")[1]
    _, *trials = shown.split("\nTrial ")
    assert len(trials) == 5
    for trial, thought in zip(trials, THOUGHTS, strict=True):
        action, shown_thought, subgoal, *_ = trial.partition("  1 > ")[2].splitlines()
        assert (action.split()[0], shown_thought, subgoal) == (
            "look",
            f"      thought: {thought}",
            "      subgoal: tin is hot",
        )
    assert "  1 > look  +75\n" in trials[3]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_unit_keeps_to_the_window(rsso, traced, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = rsso("show", traced, "boil::22")[1].splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(THOUGHTS[3].split()) in " ".join(" ".join(lines).split())


def test_a_unit_shows_the_words_that_each_trial_taught(rsso, tmp_path):
    """Its one unit learned plans and a skill, read in its third trial."""
    words = ["run", "--methods", "rsso", "--variants", "use-thermometer::428", "--trials", "3", *FAST]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")]).exit_code == 0
    (record,) = Store(tmp_path / "run", read_only=True).units()
    scores = " ".join(str(trajectory.accumulator) for trajectory in record.trajectories)
    assert rsso("show", "run")[:2] == (0, f"{record.key}  rsso  seed 0: {scores}\n")
    code, out, _ = rsso("show", "run", record.key)
    assert code == 0
    flat = " ".join(out.split())
    (skill,) = record.memories["skills"]["skills"]
    plans = [plan["plan"] for plan in record.memories["reflections"]["plans"]]
    for text in (f"Summary: {skill['summary']}", f"Target: {skill['target']}", *skill["instructions"], *plans):
        assert " ".join(text.split()) in flat
    first, second, third = (part.partition("\n")[2] for part in out.split("\nTrial ")[1:])
    assert "learned, plan Attempt 1 " in first
    assert "learned, skill " in second
    assert f"read at trial 3 steps 1-{len(record.trajectories[2].steps)}" in " ".join(second.split())
    assert "written 1" not in out, "no counters"
    assert "learned, skill " not in third
