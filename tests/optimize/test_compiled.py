"""The compiled program as a file: what was written is read, and what does not fit is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rsso_dspy.config import load_config as configuration
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.optimize import program_file
from rsso_dspy.optimize.program_file import Compiled, ProgramScores, TriedProgram, align_sentences, compare_states, load
from rsso_dspy.optimize.verdict import Confirmation
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
        confirmation=Confirmation("confirmed", "better on confirm, with p < 0.05"),
        optimizer="gepa",
        trials=2,
        steps=60,
        max_rollouts=8,
        train=("lifespan-longest-lived::58",),
        val=("lifespan-longest-lived::7",),
        before=ProgramScores(0.25, 25.0),
        after=ProgramScores(0.5, 50.0),
        tried=(TriedProgram("a", ProgramScores(0.25, 25.0)), TriedProgram("b", ProgramScores(0.5, 50.0))),
        rollouts=8,
        usage={"actor": Usage(110, 1000, 100), "proposer": Usage(10, 100, 10, 1)},
        model="embedded/explorer",
        proposer="embedded/explorer",
        rule_based=True,
        environment=CompileEnvironment.of(config),
        signatures=program_file.hash_schema(agent),
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


def test_what_is_saved_is_loaded_and_is_the_same_program_that_people_can_read(tmp_path):
    compiled, file = a_program(), tmp_path / "new folder" / "compiled.json"
    compiled.save(file)
    there = load(file)
    assert there == compiled
    assert fingerprint_program(there.agent()) == compiled.program != fingerprint_program(Agent("rsso"))
    assert there.agent().actor.signature.instructions.endswith("Visit another room first.")
    assert there.changes == ("instruction of actor",)
    assert '"val": [\n  "lifespan-longest-lived::7"\n ]' in file.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged or no compiled program"),
        (b"[1, 2]", "no compiled program of version 1; `rsso-dspy"),
        ("{}".encode("utf-16"), "damaged or no compiled program"),
    ],
    ids=["empty", "a list", "other encoding"],
)
def test_a_file_that_is_no_compiled_program_is_refused(tmp_path, content, said):
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(UsageError, match=rf"odd\.json.*{said}"):
        load(tmp_path / "odd.json")


def state(edit: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda content: edit(content["state"])


def change(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content.update(values)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (change(schema=2), "no compiled program of version 1; `rsso-dspy compile -o FILE` makes one"),
        (change(signatures="0123456789ab"), "other signatures.*compile again"),
        (change(method="rss"), "unknown method 'rss': did you mean rsso"),
        (change(train=["boil"]), "'boil' does not name a variant"),
        (change(train=[]), "no calibration variants in train"),
        (change(val=[HELD_OUT]), f"held-out test split: {HELD_OUT}; take train or dev"),
        (change(before={"metric": 1}), r"damaged \(before\.mean: "),
        (change(state=None), r"damaged \(state: "),
        (state(lambda each: each.update(planner=each["actor"])), "its prompts were changed after compiling"),
        (state(lambda each: each.pop("reflector")), "its prompts were changed after compiling"),
        (state(lambda each: each["actor"].update(lm={"model": "openai/x"})), "actor.*compile again"),
        (state(lambda each: each["actor"].update(demos=["look"])), "actor.*compile again"),
        (state(lambda each: each["actor"]["signature"].update(instructions=5)), "actor.*compile again"),
    ],
)
def test_content_that_does_not_hold_is_named_with_the_fix(edited, edit, said):
    with pytest.raises(UsageError, match=rf"edited\.json.*{said}") as caught:
        load(edited(edit))
    assert isinstance(caught.value, SplitError) == ("held-out" in said)


def test_a_program_plays_its_method_with_a_constitution_too_and_the_hash_of_its_signatures_follows_fields_alone():
    compiled, fewer = a_program(), Agent("rsso")
    agent = compiled.agent("rsso+constitution")
    assert agent.method.memories == ("constitution", "reflections", "skills")
    assert agent.actor.signature.instructions == compiled.agent().actor.signature.instructions
    with pytest.raises(UsageError, match="rename the file"):
        program_file.derive_program_name("constitution.json")
    fewer.actor.signature = fewer.actor.signature.delete("skills")
    assert (
        program_file.hash_schema(Agent("rsso"))
        == program_file.hash_schema(compiled.agent())
        != program_file.hash_schema(fewer)
    )


@pytest.mark.parametrize(("metric", "lines"), [(0.5, 1), (0.9, 2)])
def test_what_a_placebo_gained_is_told_and_that_it_beat_every_candidate(metric, lines):
    tried = (*a_program().tried, TriedProgram("c", ProgramScores(metric, 0), placebo=True))
    noise, *warning = program_file.describe_noise(replace(a_program(), tried=tried))
    assert f"gained +{100 * (metric - 0.25):.1f} points on val" in noise
    assert ["WARNING: that placebo" in line for line in warning] == [True] * (lines - 1)


def test_a_placebo_tells_what_gain_could_have_been_confirmed():
    """That of a one-sided test at 5% with a power of 80%: (1.645 + 0.842) x 0.707 / sqrt(8)."""
    tried = [
        TriedProgram(name, ProgramScores(0.5, 0), dict(zip("abcd", scores, strict=True)), placebo=name == "placebo")
        for name, scores in {"before": (0, 1, 1, 0), "placebo": (1, 0, 1, 0)}.items()
    ]
    told = replace(a_program(), tried=tuple(tried), confirm=tuple("efghijkl"), rule_based=False)
    _, power = program_file.describe_noise(told)
    assert "on 2 of 4 variants, by 71 points" in power
    assert "of about 62 points" in power
    assert len(list(program_file.describe_noise(replace(told, rule_based=True)))) == 1


def test_confirm_pairs_tell_what_gain_such_pairs_confirm_in_place_of_a_placebo_that_hardly_differs():
    """A 90% interval of -6.0 to +9.5: its half, 7.75, is 1.645 standard errors, and (1.645 + 0.842) of them are 11.7.
    The placebo scores otherwise on one variant of 24 by 39 points: 8, and 2.487 x 8 / sqrt(72) would be 2 points."""
    before = dict.fromkeys(map(str, range(24)), 0.0)
    tried = (
        TriedProgram("before", ProgramScores(0.5, 0), before),
        TriedProgram("placebo", ProgramScores(0.5, 0), before | {"7": 0.39}, placebo=True),
    )
    confirm = tuple(map(str, range(100, 172)))
    compiled = replace(a_program(), tried=tried, confirm=confirm, rule_based=False, confirmation=None)
    _, power = program_file.describe_noise(compiled)
    assert "of about 2 points" in power

    test = Confirmation("unconfirmed", "", 0.016, -0.060, 0.095, 0.422, pairs=72, types=24)
    _, power = program_file.describe_noise(replace(compiled, confirmation=test))
    assert "by the spread of these confirm pairs" in power
    assert "of about 12 points" in power
    assert "(72 confirm variants, p < 0.05)" in power
    equal = replace(test, low=0.0, high=0.0)
    assert equal.smallest_gain is None


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
