"""`rsso-dspy show` of a file that a compile left and of copies that people or disks have changed; and of a unit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.optimize.program_file import Compiled, load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST

ADVICE = "\n\nAdvice from earlier attempts:\n- Visit another room first.\n- Do not focus on the rock."
DEMO = {
    "task": "Find a plant. " * 30,
    "history": "A hall.",
    "reasoning": "I look.",
    "current_subgoal": "none",
    "next_action": "look around",
    "augmented": True,
}


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


def scored(content: dict[str, Any]) -> None:
    """Twelve candidates with a score on every calibration variant but one each."""
    keys = [*content["val"], *content["train"]]
    scores = {"metric": 0.5, "mean": 50.0}
    content["tried"] = [
        {"program": f"{number:012x}", "scores": scores, "per_variant": dict.fromkeys(keys[number % 2 :], number / 12)}
        for number in range(12)
    ]


def test_a_program_tells_where_it_came_from_and_what_it_says(rsso, compiled):
    code, out, err = rsso("show", compiled.file)
    there, flat = load(compiled.file), " ".join(out.split())
    assert (code, err) == (0, "")
    for text in (
        *there.calibration,
        there.model,
        f"spent: {there.rollouts} of 8 rollouts, {there.lm_calls} model calls",
    ):
        assert text in flat
    assert "say nothing about language models" in flat
    assert [line for line in out.splitlines() if line.endswith("start") or "start, chosen" in line]
    for name, state in there.state.items():
        assert f"\n{name}: " in out
        assert state["signature"]["instructions"].split(".")[0].split("\n")[0][:60] in flat


def test_what_was_changed_is_marked_and_demonstrations_are_abridged(rsso, edited):
    out = rsso("show", edited(advised))[1]
    assert "\nactor: changed\n" in out
    assert "\nreflector: the zero-shot instruction\n" in out
    assert "  + - Do not focus on the rock.\n" in out
    assert "\n  You are playing " in out, "sentences that stayed stand there too"
    assert "demonstration 1 of 1" in out
    assert f"({len(DEMO['task'])} characters)" in out
    assert out.count("Find a plant.") < 30
    assert "augmented" not in out

    def reword(content):
        words = content["state"]["actor"]["signature"]
        words["instructions"] = words["instructions"].replace("You may be offered", "At times you are offered")

    out = rsso("show", edited(reword))[1]
    assert out.index("  - You may be offered subgoals") < out.index("  + At times you are offered subgoals")


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_nothing_is_wider_than_the_terminal(rsso, edited, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))

    def both(content):
        advised(content)
        scored(content)
        content["train"] = ["inclined-plane-friction-named-surfaces::25", *content["train"]]
        content["tried"][0]["per_variant"]["inclined-plane-friction-named-surfaces::25"] = 1.0

    code, out, err = rsso("show", edited(both))
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
    assert json.loads(rsso("show", "mine.json", "--json")[1])["improved"] is False


def _held_out(content):
    content["train"].append("lifespan-longest-lived::98")


def test_a_held_out_variant_and_an_edit_that_was_not_owned_up_to_are_refused(rsso, edited):
    for file, said in (
        (edited(_held_out), "lifespan-longest-lived::98; take train or dev variants"),
        (edited(advised, "other.json", stamped=False), "its prompts were changed after compiling"),
    ):
        code, out, err = rsso("show", file)
        assert (code, out) == (2, "")
        assert said in " ".join(err.split())


VALUES = [None, "", "text", 5, -1.5, [], {}, [[]], [None], {"x": None}, True, "\ud800", 10**30]


def _places(content: Any, path: tuple = ()) -> list[tuple]:
    """Every place of a JSON document, as keys and indices; of lists the first entry."""
    inside = (
        content.items() if isinstance(content, dict) else enumerate(content[:1]) if isinstance(content, list) else ()
    )
    return [path, *(place for key, part in inside for place in _places(part, (*path, key)))]


def test_no_damage_makes_a_traceback(rsso, edited, tmp_path, monkeypatch):
    """Every value of the file exchanged for others: `load` refuses it in words, or it is shown."""
    monkeypatch.setenv("COLUMNS", "40")
    whole = json.loads(edited(lambda content: (advised(content), scored(content))).read_text())
    places = [place for place in _places(whole) if place and place[:2] != ("identity", "config")]
    for number, place in enumerate(places):
        content = json.loads(json.dumps(whole))
        holder = content
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = VALUES[number % len(VALUES)]
        (tmp_path / "odd.json").write_text(json.dumps(content))
        code, _, err = rsso("show", "odd.json")
        assert code in (0, 1, 2), place
        assert "Traceback" not in err, place


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"NaN", b'{"kind": 5}', None])
def test_files_that_are_something_else_or_not_there_are_refused(rsso, tmp_path, content):
    if content is not None:
        (tmp_path / "odd.json").write_bytes(content)
    code, out, err = rsso("show", "odd.json")
    assert (code, out) == (2, "")
    assert "compiled program" in " ".join(err.split())


# A unit


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """A run whose one unit learned plans and a skill, read in its third trial."""
    folder = tmp_path_factory.mktemp("played") / "run"
    words = ["run", "--methods", "rsso", "--tasks", "use-thermometer", "--per-task", "1", "--trials", "3", *FAST]
    done = CliRunner().invoke(app, [*words, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


def test_a_unit_shows_the_words_that_each_trial_taught(rsso, played):
    (record,) = Store(played, read_only=True).units()
    code, out, _ = rsso("show", played, record.key)
    assert code == 0
    flat = " ".join(out.split())
    (skill,) = record.memories["skills"]["skills"]
    for text in (f"Summary: {skill['summary']}", f"Target: {skill['target']}", *skill["instructions"]):
        assert " ".join(text.split()) in flat
    for plan in record.memories["reflections"]["plans"]:
        assert " ".join(plan["plan"].split()) in flat
    first, second, third = (part.partition("\n")[2] for part in out.split("\nTrial ")[1:])
    assert "learned, plan Attempt 1 " in first
    assert "learned, skill " in second
    assert f"read at trial 3 steps 1-{len(record.trajectories[2].steps)}" in " ".join(second.split())
    assert "written 1" not in out, "no counters"
    assert "learned, skill " not in third


def test_units_are_listed_and_given_as_data(rsso, played):
    (record,) = Store(played, read_only=True).units()
    scores = " ".join(str(trajectory.accumulator) for trajectory in record.trajectories)
    assert rsso("show", played)[:2] == (0, f"{record.key}  rsso  seed 0: {scores}\n")
    data = json.loads(rsso("show", played, record.key, "--json")[1])
    assert {item["kind"] for item in data["taught"]} == {"plan", "skill"}
    assert len(data["trials"]) == 3
