"""A compiled program as data: what is in it, how two differ, and what a sound one is."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.optimize.program_file import Compiled, ProgramScores, TriedProgram
from rsso_dspy.optimize.program_text import (
    align_sentences,
    build_side,
    check_program,
    compare_programs,
    describe_program,
    split_paragraphs,
)
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from tests.optimize.test_compiled import a_program

DEMO = {"task": "Find a plant.", "history": "A hall.", "reasoning": "I look.", "next_action": "look around"}
WHOLE = {**DEMO, "current_subgoal": "none", "augmented": True}


def with_demos(compiled: Compiled, *demos: dict) -> Compiled:
    """The program with demonstrations for its actor."""
    state = json.loads(json.dumps(compiled.state))
    state["actor"]["demos"] = list(demos)
    return replace(compiled, state=state)


def test_a_description_marks_what_compiling_changed():
    compiled = a_program()
    found = describe_program(compiled)
    assert [role.name for role in found.roles.values() if role.changed] == ["actor"]
    actor, zero_shot = found.roles["actor"], Agent("rsso").actor.signature.instructions
    assert actor.instruction == f"{zero_shot} Visit another room first."
    assert actor.zero_shot == zero_shot
    assert [(c.program, c.chosen, c.zero_shot) for c in found.candidates] == [
        ("a", False, False),
        (compiled.program, True, False),
    ]
    assert json.loads(json.dumps(found.to_json_data()))["after"] == {"metric": 0.5, "mean": 50.0}


def test_the_zero_shot_program_and_scores_per_variant_are_recognised():
    start = fingerprint_program(Agent("rsso"))
    tried = (TriedProgram(start, ProgramScores(0.25, 25.0), {"lifespan-longest-lived::7": 0.25}), a_program().tried[1])
    first, second = describe_program(replace(a_program(), tried=tried)).candidates
    assert first.zero_shot
    assert first.per_variant == {"lifespan-longest-lived::7": 0.25}
    assert second.per_variant == {}


def test_demonstrations_are_texts_without_dspys_mark():
    compiled = with_demos(a_program(), {**WHOLE, "skills": ["a", 1]})
    (demo,) = describe_program(compiled).roles["actor"].demonstrations
    assert demo["next_action"] == "look around"
    assert demo["skills"] == '["a", 1]'
    assert "augmented" not in demo


def test_words_of_fields_that_were_changed_are_named():
    compiled = a_program()
    state = json.loads(json.dumps(compiled.state))
    state["reflector"]["signature"]["fields"][-1]["description"] = "a poem"
    other = replace(compiled, state=state)
    assert describe_program(other).roles["reflector"].fields == ("Plan",)
    assert describe_program(other).roles["reflector"].changed
    assert [
        role.fields for role in compare_programs(build_side(compiled, "a"), build_side(other, "b")) if role.changed
    ] == [("Plan",)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One two\nthree.\n\nFour.", ["One two three.", "Four."]),
        ("Advice:\n- One\n  two\n- three", ["Advice:", "- One two", "- three"]),
        ("Do:\n1. this\n2) that", ["Do:", "1. this", "2) that"]),
        ("", []),
    ],
)
def test_paragraphs_forget_how_lines_were_wrapped(text, parts):
    assert split_paragraphs(text) == parts


def ops(a: str, b: str) -> list[tuple[str, str, str]]:
    return [(row.op, row.a, row.b) for row in align_sentences(a, b)]


def test_sentences_are_aligned():
    assert ops("Go. Look.", "Go. Look. Wait.") == [
        ("same", "Go.", "Go."),
        ("same", "Look.", "Look."),
        ("added", "", "Wait."),
    ]
    assert ops("Go\nthere. Look.", "Go there.") == [("same", "Go there.", "Go there."), ("removed", "Look.", "")]
    assert ops("Dogs bark.", "Cats do not.") == [("added", "", "Cats do not."), ("removed", "Dogs bark.", "")]


def test_alignment_loses_nothing():
    a = "One is here. Two is there. Three is gone now. Four."
    b = "Zero. Two is there, too. Four. One is here."
    rows = list(align_sentences(a, b))
    assert " ".join(row.a for row in rows if row.a) == a
    assert " ".join(row.b for row in rows if row.b) == b


def test_two_programs_are_compared_role_by_role():
    a, b = a_program(), with_demos(a_program(advice="Be quick."), WHOLE)
    roles = {role.name: role for role in compare_programs(build_side(a, "a"), build_side(b, "b"))}
    assert [name for name, role in roles.items() if role.changed] == ["actor"]
    actor = roles["actor"]
    assert {(row.op, row.a, row.b) for row in actor.rows if row.op != "same"} == {
        ("removed", "Visit another room first.", ""),
        ("added", "", "Be quick."),
    }
    assert len(actor.added) == 1


def test_a_program_differs_from_itself_in_nothing_and_from_zero_shot_in_what_was_compiled():
    compiled = with_demos(a_program(), WHOLE)
    same = compare_programs(build_side(compiled, "a"), build_side(compiled, "b"))
    assert not any(role.changed for role in same)
    start = compare_programs(build_side(None, "zero-shot", "rsso"), build_side(compiled, "b"))
    assert [row.b for role in start for row in role.rows if row.op != "same"] == ["Visit another room first."]


def test_other_line_breaks_are_a_difference_without_words():
    a, b = a_program(advice="Go. Look."), a_program(advice="Go.  Look.")
    (role,) = [role for role in compare_programs(build_side(a, "a"), build_side(b, "b")) if role.changed]
    assert role.respaced
    assert all(row.op == "same" for row in role.rows)


def test_programs_of_two_methods_are_compared_where_they_have_the_same_roles():
    flat, sso = build_side(None, "react", "react"), build_side(None, "rsso", "rsso")
    roles = {role.name: role for role in compare_programs(flat, sso)}
    assert roles["actor"].changed
    assert not roles.get("reflector", roles["actor"]).respaced


def problems(compiled: Compiled) -> dict[str, str]:
    return {check.what: check.problem for check in check_program(compiled) if check.problem}


def test_a_compiled_program_is_sound():
    assert problems(a_program()) == {}
    assert problems(with_demos(a_program(), WHOLE)) == {}
    assert not any(check.note for check in check_program(a_program()))


@pytest.mark.parametrize(
    ("demo", "said"),
    [
        (DEMO, "demonstration 1 of actor lacks current_subgoal"),
        ({**WHOLE, "next_action": " "}, "lacks next_action"),
        ({key: WHOLE[key] for key in ("reasoning", "next_action", "current_subgoal")}, "lacks any input"),
    ],
)
def test_a_demonstration_without_the_fields_of_an_answer_is_wrong(demo, said):
    (problem,) = problems(with_demos(a_program(), demo)).values()
    assert said in problem
    assert "compile again" in problem


def test_an_empty_instruction_is_wrong():
    state = json.loads(json.dumps(a_program().state))
    state["reflector"]["signature"]["instructions"] = " \n"
    (problem,) = problems(replace(a_program(), state=state)).values()
    assert problem.startswith("reflector has none")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"before": ProgramScores(1.5, 25.0)}, "a metric outside of 0 to 1"),
        ({"before": ProgramScores(float("nan"), 25.0)}, "a metric outside of 0 to 1"),
        ({"before": ProgramScores(0.5, float("inf"))}, "a Mean outside of 0 to 100"),
        ({"after": ProgramScores(0.9, 90.0)}, "`after` is not the score of its own program"),
        (
            {"tried": (TriedProgram("a", ProgramScores(0.5, 50.0), {"boil::29": 0.5}),)},
            "it was not compiled on: boil::29",
        ),
    ],
)
def test_scores_that_cannot_be_are_wrong(changes, said):
    (problem,) = problems(replace(a_program(), **changes)).values()
    assert said in problem


def test_an_edited_program_is_told_that_its_scores_are_anothers():
    notes = [check.note for check in check_program(replace(a_program(), program="0" * 12)) if check.note]
    assert notes == [
        "its program is none of those compared, as after an edit by hand: its scores are another program's"
    ]


def test_versions_that_matter_are_wrong_and_others_are_noted():
    compiled = a_program()
    elsewhere = replace(compiled, environment=replace(compiled.environment, version="1.1.3"))
    (problem,) = problems(elsewhere).values()
    assert "compiled in scienceworld 1.1.3" in problem
    other = replace(compiled, environment=replace(compiled.environment, name="alfworld"))
    assert "alfworld" in "".join(problems(other).values())
    old = replace(compiled, versions={"dspy": "2.0"}, identity={**compiled.identity, "prompts": "0" * 12})
    assert problems(old) == {}
    (note,) = [check.note for check in check_program(old) if check.note]
    assert "compiled with dspy 2.0" in note
    assert "zero-shot prompts have changed" in note
