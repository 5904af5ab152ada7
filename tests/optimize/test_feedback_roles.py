"""Blame goes to the role that earned it: constructed trajectories and calls, one fault in each."""

import re
from dataclasses import replace
from pathlib import Path

import dspy
import pytest

from rsso_dspy.backends.embedded.proposing import feedback_lines
from rsso_dspy.environments.scienceworld.progress import Goal
from rsso_dspy.optimize.advice import circles
from rsso_dspy.optimize.feedback import RULES, feedback
from rsso_dspy.optimize.feedback.constitution import LONGEST_RULE, MOST_RULES
from rsso_dspy.optimize.feedback.goals import _PHRASE, BY_KIND, progress
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.signatures import ErrorRule
from tests.optimize.test_feedback import PLAYED, actor, reflector, trial

DOORS = [("open door", 0), ("close door", 0)]


def told(action, *results, plans=""):
    """What the actor hears of an action, having read these plans."""
    given = {"plans_from_past_attempts": plans}
    return feedback("actor", given, dspy.Prediction(reasoning=f"I will {action}.", next_action=action), results)


# The actor: circles


def test_a_circle_is_found_with_its_rounds_and_what_it_cost():
    went = trial(("look around", 0), *DOORS, ("open door", 0), ("close door", -5), *DOORS, ("wait", 0))
    (circle,) = circles(went.trajectory)
    assert (circle.start, circle.end, circle.rounds, circle.lost) == (1, 7, 3, 5)
    assert circle.actions == ("open door", "close door")
    text = actor("wait", went)
    assert (
        "The actions open door and close door were taken in turn, 3 times each, earned nothing and cost 5 points."
        in (text.splitlines())
    )
    assert "Never do the same few actions in a circle." in feedback_lines(text)


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
    assert circles(trial(*acts).trajectory) == []


def test_answers_that_change_are_no_circle():
    """Measuring and waiting in turn is how one watches something boil."""
    path = trial(*[("wait", 0), ("look around", 0)] * 3).trajectory
    warmer = [
        replace(step, state=replace(step.state, observation=f"It is {index} degrees."))
        for index, step in enumerate(path.steps)
    ]
    assert circles(path)
    assert circles(replace(path, steps=tuple(warmer))) == []


def test_the_first_round_is_not_blamed_and_the_second_is():
    again = [(action, reward, {"reasoning": "Once more."}) for action, reward in DOORS]
    went = trial(*DOORS, *again)
    first = told("close door", went).partition("Trial 1")[0]
    given = dspy.Prediction(reasoning="Once more.", next_action="close door")
    second = feedback("actor", {}, given, [went])
    assert "circle" not in first
    assert second.startswith("This action went on with a circle: the same 2 actions again, with the same answers.")


def test_three_actions_make_a_circle_too():
    went = trial(*[("go to hall", 0), ("go to kitchen", 0), ("go to yard", 0)] * 2)
    assert [circle.actions for circle in circles(went.trajectory)] == [("go to hall", "go to kitchen", "go to yard")]


# The actor: goals by kind


def test_goals_reached_and_missed_are_told_by_kind_and_never_by_class():
    plant, here, helps = Goal("GoalFocusOnPlant", False, True), Goal("GoalMoveToLocation", True, True), False
    text = actor("open closet", PLAYED, goals=((plant, here, Goal("GoalContainerOpen", False, helps)),))
    assert "The trials reached 1 of 2 goals that the task requires." in text
    assert "These kinds of goals were reached: a place to be in." in text
    assert "These kinds of goals were missed: the thing asked for in focus." in text
    assert not re.search(r"Goal[A-Z]", text)
    assert list(progress(())) == []


def test_every_kind_with_advice_has_a_phrase_that_is_no_advice():
    assert _PHRASE.keys() == BY_KIND.keys()
    for phrase in set(_PHRASE.values()):
        assert feedback_lines(f"These kinds of goals were reached: {phrase}.") == []


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
    said = feedback("actor", {"plans_from_past_attempts": plans}, dspy.Prediction(**A_ROCK), [PLAYED, AGAIN])
    assert "A plan from a past attempt forbids this very action, and it was taken all the same." in said
    assert "Never do what a plan from past attempts forbids." in feedback_lines(said)
    of_the_plan = reflector(FORBIDDING, PLAYED, AGAIN)
    assert "the next one 33: the player did not follow the plan." in of_the_plan
    assert "The plan forbids the mistake focus on rock; that it was made again is the player's fault." in of_the_plan
    assert feedback_lines(of_the_plan) == [], "nothing to do better"


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
    assert any(line.startswith("Always forbid a mistake") for line in feedback_lines(of_the_plan))
    assert "the plan did not help" in of_the_plan
    said = feedback("actor", {"plans_from_past_attempts": plan}, dspy.Prediction(**A_ROCK), [PLAYED, AGAIN])
    assert "A plan from a past attempt forbids" not in said


def test_a_plan_whose_orders_were_not_carried_out_is_the_actors_fault():
    idle = trial(("wait", 0), number=2)
    plan = "Teleport to the greenhouse, then pick up the fern."
    of_the_plan = reflector(plan, PLAYED, idle)
    assert "earned 33 points, the next one 0: the player did not follow the plan." in of_the_plan
    assert "leaves out" not in of_the_plan
    said = told("wait", PLAYED, idle, plans=f"Attempt 1: {plan}")
    assert "A plan orders teleport to greenhouse, pick up fern, as that had earned points" in said
    assert "First carry out what the plans from past attempts order." in feedback_lines(said)


def test_a_followed_plan_after_which_less_was_earned_did_harm():
    worse = trial(("teleport to greenhouse", 0), ("pick up fern", 0), ("wait", 0), number=2)
    assert "the plan did harm" in reflector("Teleport to greenhouse. Pick up fern.", PLAYED, worse)


def test_the_reflector_is_not_judged_by_a_transcript_that_is_none_of_the_trials():
    text = feedback("reflector", {"transcript": "?"}, dspy.Prediction(what_went_wrong="", plan=""), [PLAYED])
    assert text == "Trial 1 was ended by the environment, at -100 of 100 points."


# The verbalizer

SHOWN = {"skills:abc": "Subgoal 1: A fern is held.\n  1. teleport to greenhouse\n  2. pick up fern"}
EXCERPTS = "Excerpt 1\nInitial state:\nA hall.\nAction 1: teleport to greenhouse\nObservation 1: You teleport.\n" + (
    "Action 2: pick up {}\nObservation 2: You hold it.\nFinal state:\nA greenhouse."
)
TWO = f"{EXCERPTS.format('fern')}\n\n{EXCERPTS.format('moss').replace('Excerpt 1', 'Excerpt 2')}"
STEPS = ["teleport to greenhouse", "pick up fern"]


def worded(*acts):
    """Feedback on the instructions and on the target of the skill that these steps saw."""
    used = trial(*acts, shown=SHOWN)
    return (
        feedback("skill_instructions", {"examples": TWO}, dspy.Prediction(steps=STEPS), [used]),
        feedback("skill_target", {"examples": TWO}, dspy.Prediction(target="A fern is held."), [used]),
    )


OFFERED = {"recalled": ("abc",)}
PURSUED = {"recalled": ("abc",), "subgoal": "A fern is held."}


def test_a_skill_that_was_offered_and_not_pursued_blames_its_target():
    steps, target = worded(("wait", 0, OFFERED), ("wait", 0, OFFERED))
    assert "offered at 2 steps and pursued at 0" in steps
    assert feedback_lines(steps) == []
    assert feedback_lines(target) == ["Always word a skill by what the player wants to reach, so that it is chosen."]


def test_a_skill_that_was_pursued_in_vain_blames_its_steps():
    steps, target = worded(("wait", 0, PURSUED), ("wait", 0))
    assert "pursued at 1; points followed on 0." in target
    assert feedback_lines(target) == []
    assert feedback_lines(steps) == [
        "Only keep the steps that the points depended on, and end with the one that earned them."
    ]


def test_a_skill_that_paid_is_praised_and_one_that_was_never_offered_is_nobodys_fault():
    steps, target = worded(("wait", 0, PURSUED), ("pick up fern", 25))
    assert feedback_lines(steps) == ["Keep skills as short and concrete as this one."]
    assert feedback_lines(target) == ["Keep targets as plain as this one."]
    assert [feedback_lines(text) for text in worded(("wait", 0))] == [[], []]


def test_steps_that_are_no_actions_are_counted():
    given = {"examples": TWO, "action_templates": "TEMPLATES:\nteleport to LOC\npick up OBJ"}
    text = feedback("skill_instructions", given, dspy.Prediction(steps=[*STEPS, "be patient"]), [PLAYED])
    assert text.startswith("Of 3 steps 1 are no actions.\nAlways write each step as one action")


def summarized(summary, name):
    return feedback("skill_summary", {"examples": TWO}, dspy.Prediction(summary=summary, skill_name=name), [PLAYED])


def test_a_summary_is_judged_by_what_the_excerpts_share():
    good = summarized("Teleport to the greenhouse and pick up a plant.", "get a plant")
    assert good == "Trial 1 was ended by the environment, at -100 of 100 points."
    vague = summarized("Something is done.", "doing something")
    assert vague.startswith("The summary holds 0 of 4 words that the actions of all excerpts share.")
    assert feedback_lines(vague) == ["Always say what all excerpts have in common, in the words of their actions."]
    narrow = summarized("Teleport to the greenhouse and pick up a plant.", "get a fern")
    assert "The name holds words that not all excerpts share: fern." in narrow
    long = summarized("Teleport to the greenhouse and pick up a plant.", "how one gets hold of a plant")
    assert "The name has 7 words." in long


# Equivalence

FERN = "Target: A fern is in the pot. Instructions: teleport to greenhouse; pick up fern; move fern to pot"
FERN_REWORDED = (
    "Target: The fern is now in a pot. Instructions: teleport to the greenhouse; pick up fern; move fern to pot"
)
MOSS = FERN.replace("fern", "moss")
LAMP = "Target: The lamp is lit. Instructions: connect wire to battery; activate switch"


def judged(new, library, *numbers):
    given = {"library": "\n".join(f"{n}. {text}" for n, text in enumerate(library, start=1)), "new_skill": new}
    return feedback("skill_equivalence", given, dspy.Prediction(equivalent=list(numbers)), [PLAYED])


def test_a_near_duplicate_that_was_kept_is_named():
    text = judged(FERN_REWORDED, [LAMP, FERN])
    assert text.startswith("The new skill was called new.\nNumber 2 says the same in nearly the same words")
    assert any(line.startswith("Always call two skills the same") for line in feedback_lines(text))


def test_a_distinct_skill_that_was_lost_is_named():
    text = judged(LAMP, [FERN], 1)
    assert "called the same as number 1." in text
    assert re.search(r"shares \d of its \d+ words with number 1: a skill was lost", text)
    assert any(line.startswith("Only call skills the same when") for line in feedback_lines(text))


@pytest.mark.parametrize(
    ("new", "numbers"),
    [
        pytest.param(MOSS, (), id="another object, called new"),
        pytest.param(FERN_REWORDED, (2,), id="reworded, called the same"),
        pytest.param(LAMP, (1,), id="itself"),
    ],
)
def test_a_right_judgement_is_left_alone(new, numbers):
    assert feedback_lines(judged(new, [LAMP, FERN], *numbers)) == []


# Constitutions

STRETCH = "A hall.\nStep 1. > open door\nThe door is open.\nStep 2. > focus on rock\nYou lose."


def written(abstract=(), errors=(), rules_of_progress=(), known=""):
    said = dspy.Prediction(
        abstract_rules=list(abstract), error_rules=list(errors), progress_rules=list(rules_of_progress)
    )
    return feedback("rule_writer", {"known_rules": known, "transcript": STRETCH, "task": ""}, said, [PLAYED])


def merged(gathered, made, gathered_errors=(), errors=()):
    given = {"gathered_abstract_rules": list(gathered), "gathered_error_rules": list(gathered_errors)}
    said = dspy.Prediction(abstract_rules=list(made), error_rules=list(errors))
    return feedback("constitution_summarizer", given, said, [PLAYED])


ROCK = ErrorRule(mistake="focus on rock", solution="Focus on what the task names.")


def test_rules_that_are_new_and_right_hear_the_result_alone():
    text = written(["Doors have to be opened before one can pass."], [ROCK], ["Done: the door is open."])
    assert text == "Trial 1 was ended by the environment, at -100 of 100 points."


def test_rules_that_repeat_are_named_by_their_place():
    known = "A closed door has to be opened before one can pass."
    text = written(["The closed door has to be opened before one can pass.", "Wait.", "Wait."], known=known)
    assert "The abstract rule 1 says again what a known rule says." in text
    assert "The abstract rule 3 says again what the abstract rule 2 says." in text
    assert feedback_lines(text) == ["Only write rules that are not known already, each of them once."]


@pytest.mark.parametrize(
    ("rules", "known", "found"),
    [
        (["Always open the door."], "Never open the door.", True),
        (["Open the door.", "Do not open door."], "", True),
        (["Teleport to the hall."], "Avoid going to the hall.", True),
        (["When it is hot, open the door."], "When it is cold, do not open the door.", False),
        (["Open the door."], "Do not open the window.", False),
        (["Open the door."], "Open the window.", False),
    ],
)
def test_a_contradiction_is_one_action_ordered_and_forbidden(rules, known, found):
    text = written(rules, known=known)
    assert ("contradict each other" in text) == found
    assert ("Always say, where two rules differ" in text) == found
    assert "says again" not in text or not found


def test_an_error_rule_contradicts_the_order_to_make_its_mistake():
    assert "The error rule 1 and the abstract rule 1 contradict" in written(["Focus on rock."], [ROCK])


def test_mistakes_that_were_not_made_are_predictions():
    text = written(errors=[ROCK, ErrorRule(mistake="drink acid", solution="Leave it alone.")])
    assert "No action of this stretch has a word of the mistake of error rule 2." in text
    assert feedback_lines(text) == [
        "Only write down mistakes that were really made, and leave the list empty when there was none."
    ]


def test_more_and_longer_rules_than_fit_are_counted():
    many = written([f"Room {number} holds thing {number}." for number in range(MOST_RULES + 1)])
    assert f"There are {MOST_RULES + 1} abstract rules, and {MOST_RULES} is the most" in many
    long = written(["A rule " + "without end " * 40])
    assert f"Longer than {LONGEST_RULE} characters: abstract rule 1." in long


def test_what_a_summary_drops_invents_or_leaves_doubled_is_named():
    gathered = ["Thermometers measure temperature.", "Stoves heat pots.", "A stove heats a pot quickly."]
    good = merged(gathered, ["Thermometers measure temperature.", "A stove heats a pot quickly."])
    assert feedback_lines(good) == []
    dropped = merged(gathered, ["A stove heats a pot quickly."])
    assert "Nothing is left of what was gathered as abstract rule 1." in dropped
    assert feedback_lines(dropped) == ["Keep every fact that any of the gathered rules holds."]
    invented = merged(gathered, [*gathered[:2], "Beavers build dams from wood."])
    assert "Most words of abstract rule 3 stand in no rule that was gathered." in invented
    doubled = merged(gathered, [gathered[0], gathered[1], gathered[1]])
    assert "The abstract rule 3 says again what the abstract rule 2 says." in doubled
    assert feedback_lines(doubled) == ["Always merge rules that say the same into one."]


def test_the_side_that_a_contradiction_was_settled_against_may_go():
    text = merged(["Open the door.", "Do not open the door."], ["Do not open the door."])
    assert "Nothing is left" not in text
    both = merged(["Open the door.", "Do not open the door."], ["Open the door.", "Do not open the door."])
    assert "contradict each other" in both


def test_error_rules_may_be_records_or_data_and_lists_may_be_damaged():
    data = {"mistake": "focus on rock", "solution": "Focus on what the task names."}
    assert merged([], [], [data], [ROCK]) == merged([], [], [ROCK], [data])
    for damaged in (None, "Wait.", 5, [5], [None], [{}]):
        said = dspy.Prediction(abstract_rules=damaged, error_rules=damaged, progress_rules=damaged)
        for name in ("rule_writer", "constitution_summarizer"):
            assert "Trial 1" in feedback(name, {"known_rules": None}, said, [PLAYED])


# All


def test_every_predictor_has_a_rule():
    assert RULES.keys() == ROLE_OF.keys()
    assert {name for method in METHODS for name, _ in Agent(method).named_predictors()} <= RULES.keys()


def test_the_page_explains_every_rule_under_its_own_heading():
    page = (Path(__file__).parents[2] / "docs" / "FEEDBACK.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## .*`(\w+)`", page, re.M)
    assert set(headings) == RULES.keys()
    assert len(headings) == len(set(headings))
    for text in page.split("\n## ")[1:]:
        if "`" in text.splitlines()[0]:
            assert "\n|" in text, f"no table under {text.splitlines()[0]}"
