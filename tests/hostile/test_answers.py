"""Answers that lack what decides nothing are read, in both scaffolds alike; what cannot be read is kept and shown."""

import dspy
import pytest

from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import choose_target, read_answer
from rsso_dspy.programs.runtime import TrialRules
from tests.live import REWARDED, Engine, acting, model, says


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("Subgoal 2: The door is open.", "The door is open."),
        ("2", "The door is open."),
        ("Subgoal 3", None),
        ("The window is open.", None),
    ],
)
def test_a_subgoal_is_known_by_its_words_or_its_number(said, target):
    targets = ["The box is open.", "The door is open."]
    assert choose_target(said, targets) == target
    answer = read_answer(dspy.Prediction(thought="", subgoal=said, action="wait"), targets)
    assert answer.rejected == ("" if target else said)


def test_what_could_not_be_read_is_kept_with_the_step(live):
    def answer(prompt):
        if "What went wrong" in prompt:
            return "No."
        if "Nothing happened" in prompt:
            return says(thought="", subgoal="The moon is full.", action="wait1")
        return "I would rather not say."

    with acting(live, lambda *_: model(Engine(answer)), rules=TrialRules(2, layout="paper"), budget=lambda _: 2):
        first, _ = Agent("reflexion-sso")(variant=REWARDED).trials
    one, two = first.trajectory.steps
    assert (one.malformed, one.unread) == (True, "I would rather not say.")
    assert (two.rejected, two.unread) == ("The moon is full.", "")
    assert first.unread == {"reflector": ("No.",)}
