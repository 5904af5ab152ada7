"""The compiled program as a file: what was written is read, and what does not fit is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

from rsso_dspy.config import load_config as configuration
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.optimize.program_file import (
    Compiled,
    ProgramScores,
    TriedProgram,
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
        versions={"dspy": version("dspy")},
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


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_program_that_saw_a_held_out_variant_is_refused_by_its_name(edited, part):
    path = edited(lambda content: content[part].append(HELD_OUT))
    with pytest.raises(SplitError, match=rf"edited\.json.*held-out test split: {HELD_OUT}; take train or dev"):
        load(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(lambda text: text[: len(text) // 2], "damaged", id="truncated"),
        pytest.param(lambda _: "", "damaged or no compiled program", id="empty"),
        pytest.param(lambda _: "Dear diary", "damaged or no compiled program", id="not JSON"),
        pytest.param(lambda _: "[1, 2]", r"no compiled program; `rsso-dspy compile -o FILE` makes one", id="a list"),
        pytest.param(lambda _: '{"units": 3}', "no compiled program", id="other JSON"),
        pytest.param(lambda text: text.encode("utf-16"), "damaged or no compiled program", id="other encoding"),
    ],
)
def test_a_file_that_is_no_compiled_program_is_refused(tmp_path, content, said):
    path = tmp_path / "odd.json"
    a_program().save(path)
    changed = content(path.read_text())
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(UsageError, match=rf"odd\.json.*{said}"):
        load(path)


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
        ({"before": {"metric": 1}}, r"damaged \(before\.mean: "),
        ({"ended_by": "magic"}, r"damaged \(ended_by: "),
        ({"rollouts": "many"}, r"damaged \(rollouts: "),
    ],
)
def test_content_that_does_not_hold_is_named_with_the_fix(edited, change, said):
    with pytest.raises(UsageError, match=said):
        load(edited(lambda content: content.update(change)))


@pytest.mark.parametrize("name", ["state", "method", "program", "environment", "identity"])
def test_a_missing_part_is_named(edited, name):
    with pytest.raises(UsageError, match=rf"edited\.json is damaged \({name}: "):
        load(edited(lambda content: content.pop(name)))


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        pytest.param(lambda state: state.update(planner=state["actor"]), "planner", id="another predictor"),
        pytest.param(lambda state: state.pop("reflector"), "reflector", id="a predictor less"),
        pytest.param(lambda state: state["actor"].update(lm={"model": "openai/x"}), "actor", id="a model"),
        pytest.param(lambda state: state["actor"].update(tools=[]), "actor", id="another key"),
        pytest.param(lambda state: state.update(actor=[]), "actor", id="a list"),
        pytest.param(lambda state: state.update(actor={}), "actor", id="nothing"),
        pytest.param(lambda state: state["actor"].update(demos=5), "actor", id="demonstrations that are none"),
        pytest.param(lambda state: state["actor"].update(demos=["look"]), "actor", id="a demonstration that is none"),
        pytest.param(lambda state: state["actor"].update(signature=None), "actor", id="no signature"),
        pytest.param(lambda state: state["actor"]["signature"].update(instructions=5), "actor", id="no instruction"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_says_where(edited, edit, named):
    with pytest.raises(UsageError, match=rf"edited\.json.*{named}.*compile again"):
        load(edited(lambda content: edit(content["state"])))


def test_the_hash_of_the_signatures_follows_fields_and_not_words():
    plain, compiled = Agent("rsso"), a_program().agent()
    assert hash_schema(plain) == hash_schema(compiled)
    fewer = Agent("rsso")
    fewer.actor.signature = fewer.actor.signature.delete("skills")
    assert hash_schema(fewer) != hash_schema(plain)
    assert hash_schema(Agent("react")) != hash_schema(plain)


def test_a_program_plays_its_method_with_a_constitution_too():
    compiled = a_program()
    agent = compiled.agent("rsso+constitution")
    assert agent.method.memories == ("constitution", "reflections", "skills")
    assert agent.actor.signature.instructions == compiled.agent().actor.signature.instructions
    with pytest.raises(UsageError, match="rename the file"):
        derive_program_name("constitution.json")
