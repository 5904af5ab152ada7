"""The reflector keeps what earned points and names what did not."""

from rsso_dspy.explorer.reflector import parse_transcript, select_actions_to_repeat
from rsso_dspy.signatures import Reflect
from tests.explorer.conftest import OUTCOME, TRANSCRIPT

CHOICE = (
    "Your task is to measure the temperature of soap. First, focus on the thermometer. If the soap temperature is "
    "above 50.0 degrees celsius, focus on the red box. If it is below 50.0 degrees celsius, focus on the blue box."
)


def test_kept_actions_are_those_that_earned_and_those_they_rest_on():
    kept = select_actions_to_repeat(parse_transcript(TRANSCRIPT, OUTCOME))
    assert [act.text for act in kept] == ["teleport to kitchen", "focus on thermometer"]


def test_an_action_that_handled_a_needed_thing_is_kept():
    text = (
        "Step 1. > open fridge\nThe fridge is now open.\nStep 2. > pick up soap\nYou move the soap to the inventory.\n"
        "Step 3. > pick up fork\nYou move the fork to the inventory.\n"
        "Step 4. > move soap to red box\nYou move the soap to the red box."
    )
    kept = select_actions_to_repeat(parse_transcript(text, "The score changed at: step 4 (+50)."))
    assert [act.number for act in kept] == [1, 2, 4]


def test_a_wrong_choice_is_named_and_the_other_one_planned(ask):
    answer = ask(Reflect, task=CHOICE)
    assert "focus on red box" in answer.what_went_wrong
    assert "make the choice: focus on blue box" in answer.plan
    assert "Do not focus on red box" in answer.plan


def test_a_choice_that_was_never_made_is_planned(ask):
    unfinished = TRANSCRIPT.partition("Step 5.")[0]
    outcome = "Failed: the attempt ended with the task undone. The score changed at: step 2 (+8), step 4 (+25)."
    answer = ask(Reflect, task=CHOICE, transcript=unfinished, outcome=outcome)
    assert "never made" in answer.what_went_wrong
    assert "make the choice: focus on" in answer.plan


def test_a_choice_that_an_earlier_plan_ruled_out_is_not_planned_again(ask):
    answer = ask(Reflect, task=CHOICE, earlier_plans="Do not focus on blue box.")
    assert "make the choice" not in answer.plan


def test_actions_that_were_not_understood_are_avoided(ask):
    answer = ask(Reflect)
    assert "open cupbord" in answer.what_went_wrong
    assert "Do not open cupbord." in answer.plan
