"""`rsso-dspy show` of a file that a compile left and of copies that people have changed; and of a unit."""

import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import dspy
import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.config import load_config
from rsso_dspy.offline import Explorer
from rsso_dspy.optimize.program_file import Compiled, load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store
from tests import live
from tests.cli.conftest import FAST

ADVICE = "\n\nAdvice from earlier attempts:\n- Visit another room first.\n- Do not focus on the rock."
DEMO = {
    "task": "Find a plant. " * 30, "history": "A hall.", "reasoning": "I look.", "current_subgoal": "none",
    "next_action": "look around", "augmented": True,
}  # fmt: skip


@pytest.fixture
def edited(compiled, tmp_path) -> Callable[..., Path]:
    """A copy of the compiled file after an edit of its content, with the fingerprint of what it then says."""

    def write(edit: Callable[[dict[str, Any]], Any], name: str = "edited.json", stamped: bool = True) -> Path:
        content = compiled.content
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
    assert [line for line in out.splitlines() if line.endswith("start") or "start, chosen" in line]
    for name, state in there.state.items():
        assert f"\n{name}: " in out
        assert state["signature"]["instructions"].split(".")[0].split("\n")[0][:60] in flat


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


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_nothing_is_wider_than_the_terminal(rsso, edited, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    long = "inclined-plane-friction-named-surfaces::25"

    def widen(content):
        advised(content)
        content["train"] = [long, *content["train"]]
        scores = {"scores": {"metric": 0.5, "mean": 50.0}, "per_variant": {long: 1.0}}
        content["tried"] = [{"program": f"{number:012x}", **scores} for number in range(12)]

    code, out, err = rsso("show", edited(widen))
    assert (code, err) == (0, ""), out
    assert max(map(len, out.splitlines())) <= columns


def test_a_program_made_from_an_agent_is_shown_as_that_and_not_as_a_compile(rsso, tmp_path):
    agent = Agent("react-sso")
    agent.actor.signature = agent.actor.signature.with_instructions("Look twice.")
    Compiled.from_agent(agent, trainset=["find-plant::0"]).save(tmp_path / "mine.json")
    code, out, err = rsso("show", "mine.json")
    flat = " ".join(out.split())
    assert (code, err) == (0, "")
    for text in (
        "mine.json react-sso, made from an agent",
        "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
        "rsso-dspy evaluate mine.json",
        "differs from the zero-shot program in: instruction of actor",
        "train, 1 variant: find-plant::0",
        "actor: changed",
    ):
        assert text in flat
    for text in ("ended before", "nothing better", "optimizer finished", "rollouts", "compared, on"):
        assert text not in flat


def _hold_out(content):
    content["train"].append("lifespan-longest-lived::98")


@pytest.mark.parametrize(
    ("edit", "stamped", "said"),
    [
        (_hold_out, True, "lifespan-longest-lived::98; take train or dev variants"),
        (advised, False, "its prompts were changed after compiling"),
    ],
)
def test_a_held_out_variant_and_an_edit_that_was_not_owned_up_to_are_refused(rsso, edited, edit, stamped, said):
    code, out, err = rsso("show", edited(edit, stamped=stamped))
    assert (code, out, said in " ".join(err.split())) == (2, "", True), err


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


def test_what_show_and_inspect_history_print_is_what_is_sent(rsso, edited, monkeypatch):
    """The system message of each role begins with the instruction that `show` prints, but for its line breaks."""

    def reword(content):
        for state in content["state"].values():
            state["signature"]["instructions"] += "\n\nBe brief, and do not guess."

    file, sent, answer = edited(reword), [], Explorer.complete
    monkeypatch.setattr(Explorer, "complete", lambda self, asked: sent.append(asked) or answer(self, asked))
    monkeypatch.setenv("COLUMNS", "10000")
    printed, inspected = rsso("show", file)[1], StringIO()
    with session(load_config(overrides=live.FAST)):
        agent = Agent(load(file).method)
        agent.load_state(load(file).state)
        agent(variant="find-plant::229", trials=2)
        dspy.inspect_history(len(sent), file=inspected)
    assert {"actor", "reflector"} <= agent.predictors_by_name.keys()
    for name, predictor in agent.predictors_by_name.items():
        section = re.search(rf"^{name}: changed\n((?:  .*\n|\n)+)", printed, re.M)
        rows = (row.strip() for row in section[1].splitlines())
        words = " ".join(row.removeprefix("+ ") for row in rows if not row.startswith("- ")).split()
        assert words == predictor.signature.instructions.split()
    instructions = {each.signature.instructions for each in agent.predictors_by_name.values()}
    for asked in sent:
        assert any(asked.system.startswith(f"{instruction}\n\nAnswer ") for instruction in instructions)
        for text in (asked.system, *(message.text for message in asked.messages)):
            assert text.strip() in inspected.getvalue()
