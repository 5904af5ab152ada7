import dspy
import pytest

from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.fields import read_field_words, remove_fields


@pytest.mark.parametrize("actor", [FlatActor, SkillActor])
def test_a_signature_loses_the_fields_that_are_absent_and_nothing_else(actor):
    less = remove_fields(actor, ("constitution",))
    assert read_field_words(less) == tuple(each for each in read_field_words(actor) if each[0] != "constitution")
    assert less.instructions == actor.instructions
    assert all(field.annotation == actor.fields[name].annotation for name, field in less.fields.items())


def test_an_instruction_that_was_changed_in_place_is_the_one_that_is_sent():
    changed = SkillActor.append("extra", dspy.OutputField(desc="more"), str)
    assert remove_fields(changed, ("skills",)).instructions == SkillActor.instructions
    changed.instructions = "Do something else."
    assert remove_fields(changed, ("skills",)).instructions == "Do something else."
