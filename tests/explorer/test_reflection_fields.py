"""The typed outputs of the reflector's improvements, and the distiller, answered from the prompt alone."""

import pytest

from rsso_dspy.memory.improvements import IMPROVEMENTS
from rsso_dspy.signatures import DistillReflections, Reflect
from rsso_dspy.signatures.reflection import add_reflection_fields
from tests.explorer.conftest import ADAPTERS

LOOPS = (
    "Steps 1 to 10: 10 actions were of only 2 kinds: open door, look around.\n"
    "Steps 3 to 4: the same action, wait, 2 times."
)
PLANS = "Attempt 1: Slow. Do not open stove.\n\nAttempt 2: Repeat what earned 10 points: open door. Do not eat soap."


def test_without_improvements_the_signature_is_the_same_object():
    assert add_reflection_fields(Reflect, frozenset()) is Reflect
    assert add_reflection_fields(Reflect, frozenset({"adaptive", "novelty"})) is Reflect


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_field_of_the_improvements_is_answered_in_its_type(ask, adapter):
    signature = add_reflection_fields(Reflect, frozenset(IMPROVEMENTS))
    assert list(signature.output_fields)[-1] == "plan"
    answer = ask(signature, adapter=adapter, loops=LOOPS)
    assert answer.critical_step == 5
    assert "open 1 times" in answer.failed_action_pattern.replace(",", "")
    assert isinstance(answer.priority_locations, list)
    assert "Do not open door." in answer.plan
    assert "Do not wait" not in answer.plan
    plain = ask(Reflect, adapter=adapter)
    assert answer.what_went_wrong == plain.what_went_wrong
    assert answer.plan.startswith(plain.plan)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_distilled_plans_merge_with_what_stands(ask, adapter):
    answer = ask(
        DistillReflections,
        adapter=adapter,
        task_type="boil",
        known_never=["Do not eat soap."],
        known_always=[],
        known_strategy="",
        plans=PLANS,
    )
    assert answer.never == ["Do not eat soap.", "Do not open stove."]
    assert answer.always == ["Repeat what earned 10 points: open door."] == [answer.strategy]
