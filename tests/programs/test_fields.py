import dspy
import pytest

from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.fields import remove_fields


@pytest.mark.parametrize("actor", [FlatActor, SkillActor])
def test_a_signature_loses_the_fields_that_are_absent_and_nothing_else(actor):
    less = remove_fields(actor, ("constitution",))
    assert list(less.input_fields) == [name for name in actor.input_fields if name != "constitution"]
    assert less.output_fields == actor.output_fields
    assert less.instructions == actor.instructions
    assert all(less.input_fields[name] == actor.input_fields[name] for name in less.input_fields)


def test_an_instruction_that_was_changed_in_place_is_the_one_that_is_sent():
    changed = SkillActor.append("extra", dspy.OutputField(desc="more"), str)
    assert remove_fields(changed, ("skills",)).instructions == SkillActor.instructions
    changed.instructions = "Do something else."
    assert remove_fields(changed, ("skills",)).instructions == "Do something else."
