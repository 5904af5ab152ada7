"""Blame goes to the roles that write memories: skills, what is the same as another skill, and constitutions."""

import re

import dspy
import pytest

from rsso_dspy.offline.proposer import extract_feedback_lines
from rsso_dspy.optimize.feedback import build_feedback
from rsso_dspy.optimize.feedback.constitution import LONGEST_RULE, MOST_RULES
from rsso_dspy.signatures import ErrorRule
from tests.optimize.test_feedback import PLAYED, trial

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
        build_feedback("skill_verbalizer.instructions", {"examples": TWO}, dspy.Prediction(steps=STEPS), [used]),
        build_feedback("skill_verbalizer.target", {"examples": TWO}, dspy.Prediction(target="A fern is held."), [used]),
    )


OFFERED = {"recalled": ("abc",)}
PURSUED = {"recalled": ("abc",), "subgoal": "A fern is held."}


def test_a_skill_that_was_offered_and_not_pursued_blames_its_target():
    steps, target = worded(("wait", 0, OFFERED), ("wait", 0, OFFERED))
    assert "offered at 2 steps and pursued at 0" in steps
    assert extract_feedback_lines(steps) == []
    assert extract_feedback_lines(target) == [
        "Always word a skill by what the player wants to reach, so that it is chosen."
    ]


def test_a_skill_that_was_pursued_in_vain_blames_its_steps():
    steps, target = worded(("wait", 0, PURSUED), ("wait", 0))
    assert "pursued at 1; points followed on 0." in target
    assert extract_feedback_lines(target) == []
    assert extract_feedback_lines(steps) == [
        "Only keep the steps that the points depended on, and end with the one that earned them."
    ]


def test_a_skill_that_paid_is_praised_and_one_that_was_never_offered_is_nobodys_fault():
    steps, target = worded(("wait", 0, PURSUED), ("pick up fern", 25))
    assert "they are as they should be" in steps
    assert "its words are as they should be" in target
    assert extract_feedback_lines(steps) == extract_feedback_lines(target) == []
    assert [extract_feedback_lines(text) for text in worded(("wait", 0))] == [[], []]


def test_steps_that_are_no_actions_are_counted():
    given = {"examples": TWO, "action_templates": "TEMPLATES:\nteleport to LOC\npick up OBJ"}
    text = build_feedback(
        "skill_verbalizer.instructions", given, dspy.Prediction(steps=[*STEPS, "be patient"]), [PLAYED]
    )
    assert text.startswith("Facts:\nOf 3 steps 1 are no actions.")
    assert extract_feedback_lines(text) == ["Always write each step as one action in the form of a template."]


def summarized(summary, name):
    return build_feedback(
        "skill_verbalizer.summary", {"examples": TWO}, dspy.Prediction(summary=summary, skill_name=name), [PLAYED]
    )


def test_a_summary_is_judged_by_what_the_excerpts_share():
    good = summarized("Teleport to the greenhouse and pick up a plant.", "get a plant")
    assert good == "Facts:\nTrial 1 was ended by the environment, at -100 of 100 points."
    vague = summarized("Something is done.", "doing something")
    assert vague.startswith("Facts:\nThe summary holds 0 of 4 words that the actions of all excerpts share.")
    assert extract_feedback_lines(vague) == [
        "Always say what all excerpts have in common, in the words of their actions."
    ]
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
    return build_feedback("skill_equivalence", given, dspy.Prediction(equivalent=list(numbers)), [PLAYED])


def test_a_near_duplicate_that_was_kept_is_named():
    text = judged(FERN_REWORDED, [LAMP, FERN])
    assert text.startswith("Facts:\nThe new skill was called new.\nNumber 2 says the same in nearly the same words")
    assert any(line.startswith("Always call two skills the same") for line in extract_feedback_lines(text))


def test_a_distinct_skill_that_was_lost_is_named():
    text = judged(LAMP, [FERN], 1)
    assert "called the same as number 1." in text
    assert re.search(r"shares \d of its \d+ words with number 1: a skill was lost", text)
    assert any(line.startswith("Only call skills the same when") for line in extract_feedback_lines(text))


@pytest.mark.parametrize(
    ("new", "numbers"),
    [
        pytest.param(MOSS, (), id="another object, called new"),
        pytest.param(FERN_REWORDED, (2,), id="reworded, called the same"),
        pytest.param(LAMP, (1,), id="itself"),
    ],
)
def test_a_right_judgement_is_left_alone(new, numbers):
    assert extract_feedback_lines(judged(new, [LAMP, FERN], *numbers)) == []


# Constitutions

STRETCH = "A hall.\nStep 1. > open door\nThe door is open.\nStep 2. > focus on rock\nYou lose."


def written(abstract=(), errors=(), rules_of_progress=(), known=""):
    said = dspy.Prediction(
        abstract_rules=list(abstract), error_rules=list(errors), progress_rules=list(rules_of_progress)
    )
    return build_feedback(
        "constitution_writer.write", {"known_rules": known, "transcript": STRETCH, "task": ""}, said, [PLAYED]
    )


def merged(gathered, made, gathered_errors=(), errors=()):
    given = {"gathered_abstract_rules": list(gathered), "gathered_error_rules": list(gathered_errors)}
    said = dspy.Prediction(abstract_rules=list(made), error_rules=list(errors))
    return build_feedback("constitution_writer.summarize", given, said, [PLAYED])


ROCK = ErrorRule(mistake="focus on rock", solution="Focus on what the task names.")


def test_rules_that_are_new_and_right_hear_the_result_alone():
    text = written(["Doors have to be opened before one can pass."], [ROCK], ["Done: the door is open."])
    assert text == "Facts:\nTrial 1 was ended by the environment, at -100 of 100 points."


def test_rules_that_repeat_are_named_by_their_place():
    known = "A closed door has to be opened before one can pass."
    text = written(["The closed door has to be opened before one can pass.", "Wait.", "Wait."], known=known)
    assert "The abstract rule 1 says again what a known rule says." in text
    assert "The abstract rule 3 says again what the abstract rule 2 says." in text
    assert extract_feedback_lines(text) == ["Only write rules that are not known already, each of them once."]


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
    assert extract_feedback_lines(text) == [
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
    assert extract_feedback_lines(good) == []
    dropped = merged(gathered, ["A stove heats a pot quickly."])
    assert "Nothing is left of what was gathered as abstract rule 1." in dropped
    assert extract_feedback_lines(dropped) == ["Keep every fact that any of the gathered rules holds."]
    invented = merged(gathered, [*gathered[:2], "Beavers build dams from wood."])
    assert "Most words of abstract rule 3 stand in no rule that was gathered." in invented
    doubled = merged(gathered, [gathered[0], gathered[1], gathered[1]])
    assert "The abstract rule 3 says again what the abstract rule 2 says." in doubled
    assert extract_feedback_lines(doubled) == ["Always merge rules that say the same into one."]


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
        for name in ("constitution_writer.write", "constitution_writer.summarize"):
            assert "Trial 1" in build_feedback(name, {"known_rules": None}, said, [PLAYED])
