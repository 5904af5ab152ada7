"""What a compiled program changes, beside the zero-shot program."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.optimize.program_file import Compiled
from rsso_dspy.optimize.program_text import align_sentences, compare_states
from rsso_dspy.programs.agent import Agent
from tests.optimize.test_compiled import a_program

WHOLE = {"task": "Find a plant.", "history": "A hall.", "reasoning": "I look.", "next_action": "look around"}
WHOLE |= {"current_subgoal": "none", "augmented": True, "skills": ["a", 1]}
ZERO_SHOT = Agent("rsso").dump_state()


def changed(state, **names):
    """A copy of a state in which something of the actor or the reflector is other."""
    other = json.loads(json.dumps(state))
    other["actor"]["demos"] = names.get("demos", [])
    if "field" in names:
        other["reflector"]["signature"]["fields"][-1]["description"] = names["field"]
    return other


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
    compiled: Compiled = replace(a_program(), state=changed(a_program().state, demos=[WHOLE], field="a poem"))
    actor, reflector = (role for role in compare_states(ZERO_SHOT, compiled.chosen_state) if role.changed)
    assert [text for op, text in actor.rows if op != "same"] == ["Visit another room first."]
    (demo,) = actor.added
    assert (demo["next_action"], demo["skills"], "augmented" in demo) == ("look around", '["a", 1]', False)
    assert (reflector.name, reflector.fields) == ("reflector", ("Plan",))
    back = compare_states(compiled.chosen_state, ZERO_SHOT)[0]
    assert (len(back.added), len(back.removed)) == (0, 1)
    assert not any(role.changed for role in compare_states(compiled.state, compiled.state))
