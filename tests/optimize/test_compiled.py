"""The compiled program as a file: what was written is read, and what does not fit is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rsso_dspy.config import load_config as configuration
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.optimize.program_file import (
    Compiled,
    ProgramScores,
    TriedProgram,
    align_sentences,
    compare_states,
    derive_program_name,
    hash_schema,
    load,
)
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import make_run_identity, resolve_protocol
from rsso_dspy.records import Usage
from rsso_dspy.store.guards import CompileEnvironment

HELD_OUT = "lifespan-longest-lived::98"


def a_program(method: str = "rsso", advice: str = "Visit another room first.") -> Compiled:
    """A compiled program as a search could leave it: one more sentence in the actor's instruction."""
    agent = Agent(method)
    agent.actor.signature = agent.actor.signature.with_instructions(f"{agent.actor.signature.instructions} {advice}")
    config = configuration()
    return Compiled(
        method=method,
        improved=True,
        optimizer="gepa",
        trials=2,
        steps=60,
        max_rollouts=8,
        train=("lifespan-longest-lived::58",),
        val=("lifespan-longest-lived::7",),
        before=ProgramScores(0.25, 25.0),
        after=ProgramScores(0.5, 50.0),
        tried=(
            TriedProgram("a", ProgramScores(0.25, 25.0)),
            TriedProgram(fingerprint_program(agent), ProgramScores(0.5, 50.0)),
        ),
        rollouts=8,
        usage={"actor": Usage(110, 1000, 100), "proposer": Usage(10, 100, 10, 1)},
        model="embedded/explorer",
        proposer="embedded/explorer",
        rule_based=True,
        environment=CompileEnvironment.of(config),
        signatures=hash_schema(agent),
        identity=make_run_identity(config, resolve_protocol(config)),
        program=fingerprint_program(agent),
        state=agent.dump_state(),
    )


@pytest.fixture
def edited(tmp_path):
    """The path of a compiled file after an edit of its content."""

    def write(edit: Callable[[dict[str, Any]], Any]):
        path = tmp_path / "edited.json"
        a_program().save(path)
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))
        return path

    return write


def test_what_is_saved_is_loaded_and_is_the_same_program(tmp_path):
    compiled = a_program()
    compiled.save(tmp_path / "new folder" / "compiled.json")
    there = load(tmp_path / "new folder" / "compiled.json")
    assert there == compiled
    assert fingerprint_program(there.agent()) == compiled.program != fingerprint_program(Agent("rsso"))
    assert there.agent().actor.signature.instructions.endswith("Visit another room first.")
    assert there.changes == ("instruction of actor",)


def test_the_file_can_be_read_by_people_and_holds_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted-secret")
    config = configuration(overrides=["backend=anthropic"])
    replace(a_program(), identity=make_run_identity(config, resolve_protocol(config))).save(tmp_path / "compiled.json")
    text = (tmp_path / "compiled.json").read_text()
    assert '"val": [\n  "lifespan-longest-lived::7"\n ]' in text
    assert "planted" not in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(lambda text: text[: len(text) // 2], "damaged or no compiled program", id="truncated"),
        pytest.param(lambda _: "", "damaged or no compiled program", id="empty"),
        pytest.param(lambda _: "[1, 2]", r"no compiled program; `rsso-dspy compile -o FILE` makes one", id="a list"),
        pytest.param(lambda text: text.encode("utf-16"), "damaged or no compiled program", id="other encoding"),
    ],
)
def test_a_file_that_is_no_compiled_program_is_refused(tmp_path, content, said):
    path = tmp_path / "odd.json"
    a_program().save(path)
    changed = content(path.read_text())
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(UsageError, match=said) as caught:
        load(path)
    assert "odd.json" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema version 2, this program reads 1.*compile again"),
        ({"schema": None}, "schema version None, this program reads 1"),
        ({"signatures": "0123456789ab"}, "other signatures.*compile again"),
        ({"method": "rss"}, "unknown method 'rss': did you mean rsso"),
        ({"train": "boil::0"}, r"damaged \(train: "),
        ({"train": ["boil"]}, "'boil' does not name a variant"),
        ({"train": []}, "no calibration variants in train"),
        ({"train": [HELD_OUT]}, f"held-out test split: {HELD_OUT}; take train or dev"),
        ({"val": [HELD_OUT]}, f"held-out test split: {HELD_OUT}; take train or dev"),
        ({"before": {"metric": 1}}, r"damaged \(before\.mean: "),
        ({"ended_by": "magic"}, r"damaged \(ended_by: "),
        *(({part: None}, rf"damaged \({part}: ") for part in ("state", "method", "program", "identity")),
    ],
)
def test_content_that_does_not_hold_is_named_with_the_fix(edited, change, said):
    with pytest.raises(UsageError, match=rf"edited\.json.*{said}") as caught:
        load(edited(lambda content: content.update(change)))
    assert isinstance(caught.value, SplitError) == ("held-out" in said)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        pytest.param(lambda state: state.update(planner=state["actor"]), "planner", id="another predictor"),
        pytest.param(lambda state: state.pop("reflector"), "reflector", id="a predictor less"),
        pytest.param(lambda state: state["actor"].update(lm={"model": "openai/x"}), "actor", id="a model"),
        pytest.param(lambda state: state["actor"].update(tools=[]), "actor", id="another key"),
        pytest.param(lambda state: state.update(actor={}), "actor", id="nothing"),
        pytest.param(lambda state: state["actor"].update(demos=["look"]), "actor", id="a demonstration that is none"),
        pytest.param(lambda state: state["actor"]["signature"].update(instructions=5), "actor", id="no instruction"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_says_where(edited, edit, named):
    with pytest.raises(UsageError, match=rf"edited\.json.*{named}.*compile again"):
        load(edited(lambda content: edit(content["state"])))


def test_the_hash_of_the_signatures_follows_fields_and_not_words():
    plain, fewer = Agent("rsso"), Agent("rsso")
    fewer.actor.signature = fewer.actor.signature.delete("skills")
    assert hash_schema(plain) == hash_schema(a_program().agent())
    assert len({hash_schema(each) for each in (plain, fewer, Agent("react"))}) == 3


def test_a_program_plays_its_method_with_a_constitution_too():
    compiled = a_program()
    agent = compiled.agent("rsso+constitution")
    assert agent.method.memories == ("constitution", "reflections", "skills")
    assert agent.actor.signature.instructions == compiled.agent().actor.signature.instructions
    with pytest.raises(UsageError, match="rename the file"):
        derive_program_name("constitution.json")


# What it changes, beside the zero-shot program


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("Go. Look.", "Go. Look. Wait.", ["same Go.", "same Look.", "added Wait."]),
        ("Go\nthere. Look.", "Go there.", ["same Go there.", "removed Look."]),
        ("Dogs bark.", "Cats do not.", ["removed Dogs bark.", "added Cats do not."]),
        ("Do:\n- One\n  two\n- three", "Do:\n- One two", ["same Do:", "same - One two", "removed - three"]),
        ("", "", []),
    ],
)
def test_sentences_are_aligned_however_lines_were_wrapped(before, after, rows):
    assert [f"{op} {text}" for op, text in align_sentences(before, after)] == rows


def test_two_programs_are_compared_role_by_role():
    zero_shot, state = Agent("rsso").dump_state(), a_program().state
    demo = {"action": "look around", "augmented": True, "skills": ["a", 1]}
    state["actor"]["demos"] = [demo]
    state["reflector"]["signature"]["fields"][-1]["description"] = "a poem"
    actor, reflector = (role for role in compare_states(zero_shot, state) if role.changed)
    assert [text for op, text in actor.rows if op != "same"] == ["Visit another room first."]
    assert actor.added == ({"action": "look around", "skills": '["a", 1]'},)
    assert (reflector.name, reflector.fields) == ("reflector", ("Plan",))
    assert not next(compare_states(state, zero_shot)).added
    assert not any(role.changed for role in compare_states(state, state))
