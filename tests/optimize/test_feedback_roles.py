"""Blame goes to the role that earned it: constructed trajectories and calls, one fault in each."""

import re
from dataclasses import replace
from pathlib import Path

import dspy
import pytest

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.offline.proposer import extract_feedback_lines
from rsso_dspy.optimize.action_advice import find_circles
from rsso_dspy.optimize.feedback import RULES, build_feedback
from rsso_dspy.optimize.feedback.goals import report_goal_progress
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS, ROLE_OF
from tests.optimize.test_feedback import PLAYED, actor, reflector, trial

DOORS = [("open door", 0), ("close door", 0)]


def told(action, *results, plans=""):
    """What the actor hears of an action, having read these plans."""
    given = {"plans_from_past_attempts": plans}
    return build_feedback("actor", given, dspy.Prediction(reasoning=f"I will {action}.", next_action=action), results)


# The actor: circles


def test_a_circle_is_found_with_its_rounds_and_what_it_cost():
    went = trial(("look around", 0), *DOORS, ("open door", 0), ("close door", -5), *DOORS, ("wait", 0))
    (circle,) = find_circles(went.trajectory)
    assert (circle.start, circle.end, circle.rounds, circle.lost) == (1, 7, 3, 5)
    assert circle.actions == ("open door", "close door")
    text = actor("wait", went)
    assert (
        "The actions open door and close door were taken in turn, 3 times each, earned nothing and cost 5 points."
        in (text.splitlines())
    )
    assert "Never do the same few actions in a circle." in extract_feedback_lines(text)


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param([*DOORS, ("open door", 0)], id="one round and a half"),
        pytest.param([("wait", 0)] * 6, id="one action, a loop of its own rule"),
        pytest.param([*DOORS, ("open door", 0), ("close door", 7)], id="it earned points"),
        pytest.param([("open door", 0), ("look around", 0), ("close door", 0)], id="no round"),
    ],
)
def test_what_is_no_circle(acts):
    assert find_circles(trial(*acts).trajectory) == []


def test_answers_that_change_are_no_circle():
    """Measuring and waiting in turn is how one watches something boil."""
    path = trial(*[("wait", 0), ("look around", 0)] * 3).trajectory
    warmer = [
        replace(step, state=replace(step.state, observation=f"It is {index} degrees."))
        for index, step in enumerate(path.steps)
    ]
    assert find_circles(path)
    assert find_circles(replace(path, steps=tuple(warmer))) == []


def test_the_first_round_is_not_blamed_and_the_second_is():
    again = [(action, reward, {"reasoning": "Once more."}) for action, reward in DOORS]
    went = trial(*DOORS, *again)
    first = told("close door", went).partition("Trial 1")[0]
    given = dspy.Prediction(reasoning="Once more.", next_action="close door")
    second = build_feedback("actor", {}, given, [went])
    assert "circle" not in first
    assert second.startswith(
        "Facts:\nThis action went on with a circle: the same 2 actions again, with the same answers."
    )


def test_three_actions_make_a_circle_too():
    went = trial(*[("go to hall", 0), ("go to kitchen", 0), ("go to yard", 0)] * 2)
    assert [circle.actions for circle in find_circles(went.trajectory)] == [
        ("go to hall", "go to kitchen", "go to yard")
    ]


# The actor: goals by kind


def test_goals_reached_and_missed_are_told_by_kind_and_never_by_class():
    plant, here, helps = Goal("GoalFocusOnPlant", False, True), Goal("GoalMoveToLocation", True, True), False
    text = actor("open closet", PLAYED, goals=((plant, here, Goal("GoalContainerOpen", False, helps)),))
    assert "The trials reached 1 of 2 goals that the task requires." in text
    assert "These kinds of goals were reached: a place to be in." in text
    assert "These kinds of goals were missed: the thing asked for in focus." in text
    assert not re.search(r"Goal[A-Z]", text)
    assert list(report_goal_progress((), get_benchmark())) == []


def test_every_kind_with_advice_has_a_phrase_that_is_no_advice():
    phrases = get_benchmark().goal_phrases
    assert phrases.keys() == get_benchmark().goal_advice.keys()
    for phrase in set(phrases.values()):
        assert extract_feedback_lines(f"These kinds of goals were reached: {phrase}.") == []


# The actor or the reflector


FORBIDDING = "Teleport to greenhouse. Pick up fern. Do not opne door. Never focus on rock again."
AGAIN = trial(
    ("teleport to greenhouse", 8, {"reasoning": "I will go."}),
    ("pick up fern", 25, {"reasoning": "I will take it."}),
    ("focus on rock", -133, {"reasoning": "A rock it is."}),
    number=2,
    outcome="failed",
)
A_ROCK = {"reasoning": "A rock it is.", "next_action": "focus on rock"}


def test_a_right_plan_that_was_ignored_is_the_actors_fault():
    plans = f"Attempt 1: A rock was chosen.\n{FORBIDDING}"
    said = build_feedback("actor", {"plans_from_past_attempts": plans}, dspy.Prediction(**A_ROCK), [PLAYED, AGAIN])
    assert "A plan from a past attempt forbids this very action, and it was taken all the same." in said
    assert "Never do what a plan from past attempts forbids." in extract_feedback_lines(said)
    of_the_plan = reflector(FORBIDDING, PLAYED, AGAIN)
    assert "the next one earned 33 and ended at -100: the player did not follow the plan." in of_the_plan
    assert "The plan forbids the mistake focus on rock; that it was made again is the player's fault." in of_the_plan
    assert extract_feedback_lines(of_the_plan) == [], "nothing to do better"


@pytest.mark.parametrize(
    ("plan", "wrong"),
    [
        pytest.param("Teleport to greenhouse. Pick up fern.", "I should not have focused. focus on rock", id="named"),
        pytest.param("Teleport to greenhouse. Pick up fern. Then focus on rock. Do not focus on rock.", "", id="both"),
    ],
)
def test_a_mistake_that_the_plan_does_not_forbid_is_the_reflectors_fault(plan, wrong):
    of_the_plan = reflector(plan, PLAYED, AGAIN, wrong=wrong)
    assert (
        "The answer names the mistake focus on rock, its plan does not forbid it, and it was made again." in of_the_plan
    )
    assert any(line.startswith("Always forbid a mistake") for line in extract_feedback_lines(of_the_plan))
    assert "the plan did not help" in of_the_plan
    said = build_feedback("actor", {"plans_from_past_attempts": plan}, dspy.Prediction(**A_ROCK), [PLAYED, AGAIN])
    assert "A plan from a past attempt forbids" not in said


def test_a_plan_whose_orders_were_not_carried_out_is_the_actors_fault():
    idle = trial(("wait", 0), number=2)
    plan = "Teleport to the greenhouse, then pick up the fern."
    of_the_plan = reflector(plan, PLAYED, idle)
    assert "the next one earned 0 and ended at 0: the player did not follow the plan." in of_the_plan
    assert "leaves out" not in of_the_plan
    said = told("wait", PLAYED, idle, plans=f"Attempt 1: {plan}")
    assert "A plan orders teleport to greenhouse, pick up fern, as that had earned points" in said
    assert "First carry out what the plans from past attempts order." in extract_feedback_lines(said)


def test_a_followed_plan_after_which_less_was_earned_did_harm():
    worse = trial(("teleport to greenhouse", 0), ("pick up fern", 0), ("focus on rock", -150), number=2)
    assert "the plan did harm" in reflector("Teleport to greenhouse. Pick up fern. Do not wait.", PLAYED, worse)


def test_the_reflector_is_not_judged_by_a_transcript_that_is_none_of_the_trials():
    text = build_feedback("reflector", {"transcript": "?"}, dspy.Prediction(what_went_wrong="", plan=""), [PLAYED])
    assert text == "Facts:\nTrial 1 was ended by the environment, at -100 of 100 points."


# All


def test_every_predictor_has_a_rule():
    assert RULES.keys() == ROLE_OF.keys()
    assert {name for method in METHODS for name, _ in Agent(method).named_predictors()} <= RULES.keys()


def test_the_page_explains_every_rule_under_its_own_heading():
    page = (Path(__file__).parents[2] / "docs" / "FEEDBACK.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## .*`([\w.]+)`", page, re.M)
    assert set(headings) == RULES.keys()
    assert len(headings) == len(set(headings))
    for text in page.split("\n## ")[1:]:
        if "`" in text.splitlines()[0]:
            assert "\n|" in text, f"no table under {text.splitlines()[0]}"
