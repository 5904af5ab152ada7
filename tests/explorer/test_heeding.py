"""What the reflector and the verbalizer do because their instruction says so, and what they do without it."""

import pytest

from rsso_dspy.signatures import NameTarget, Reflect, WriteInstructions
from tests.explorer.conftest import EXAMPLES, OUTCOME

MANY = "".join(
    f"Step {number}. > {action}\n{seen}\n"
    for number, (action, seen) in enumerate(
        [
            ("teleport to bedroom", "You teleport to the bedroom."),
            *((f"open wall {n}", "No known action matches that input.") for n in range(1, 9)),
            ("focus on red box", "You focus on the red box."),
        ],
        1,
    )
)
COST = "Failed: the attempt ended. The score changed at: step 10 (-100)."
LONG = EXAMPLES.replace("Action 1:", "Action 0: open fridge\nObservation 0: The fridge is now open.\nAction 1:")


@pytest.mark.parametrize(
    ("sentence", "holds", "lacks"),
    [
        ("", "Avoid teleporting to bedroom", "open wall 8"),
        ("Always name every action that cost points or was not understood.", "Do not open wall 8", "nothing"),
        ("Do not advise against rooms.", "Do not open wall 1", "Avoid teleporting"),
        ("Only forbid what cost points.", "Do not focus on red box", "Avoid teleporting"),
        ("Write at most two sentences.", "Do not focus on red box", "open wall 2"),
    ],
)
def test_a_plan_is_written_as_the_instruction_asks(ask, sentence, holds, lacks):
    told = Reflect.with_instructions(f"{Reflect.instructions}\n{sentence}")
    plan = ask(told, transcript=MANY, outcome=COST, earlier_plans=None).plan
    assert holds in plan
    assert lacks not in plan


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("", ["open fridge", "teleport to LOCATION", "pick up cup"]),
        ("Only keep the steps that the points depended on.", ["teleport to LOCATION", "pick up cup"]),
        ("Give at most one step.", ["pick up cup"]),
    ],
)
def test_steps_are_written_as_the_instruction_asks(ask, sentence, expected):
    told = WriteInstructions.with_instructions(f"{WriteInstructions.instructions}\n{sentence}")
    assert ask(told, examples=LONG).steps == expected


def test_a_target_says_what_is_reached_when_the_instruction_asks_for_it(ask):
    same = EXAMPLES.replace("blue cup", "red cup")
    told = NameTarget.with_instructions(
        f"{NameTarget.instructions}\nAlways word a skill by what the player wants to reach, so that it is chosen."
    )
    assert ", after " in ask(NameTarget, examples=same).target
    assert ask(told, examples=same).target == "You move red cup to inventory."


def test_the_instructions_of_the_signatures_change_nothing(ask):
    """An instruction less its own words gives the same answer."""
    assert ask(Reflect, outcome=OUTCOME) == ask(Reflect.with_instructions("Reflect."), outcome=OUTCOME)
