"""The interface `complete`: how actions are understood, how questions are answered."""

import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, tasks
from rsso_dspy.environments.scienceworld.actions import Question, strip_action


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("**action:** `open door`", "open door"),
        ("- open door.", "open door"),
        ("2) open door", "open door"),
        ("12", "12"),
        ("pour wood cup (containing red paint) in bowl", "pour wood cup (containing red paint) in bowl"),
        ("the cupboard is closed. open cupboard", "the cupboard is closed. open cupboard"),
        ("...", ""),
    ],
)
def test_what_surrounds_an_action_is_not_sent_and_no_word_is_changed(said, sent):
    assert strip_action(said) == sent


CUPS = f"{actions.AMBIGUOUS} Please enter the number\n0:\tpour cup (in studio) in bowl (in table, in studio)\n" + (
    "1:\tpour cup (in studio) in bowl (in table, in studio)\n2:\tpour cup (in inventory, in agent, in studio) in bowl "
    "(in table, in studio)\n"
)
LOOK = (
    "This room is called the studio. In it, you see: \n\ta cup (containing red paint)\n\ta cup (containing nothing)\n"
)
CARRIED = "In your inventory, you see:\n\ta cup (containing milk)\n"


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("1", "1"),
        ("option 2", "2"),
        ("1:\tpour cup (in studio) in bowl (in table, in studio)", "1"),
        ("pour cup (in inventory, in agent, in studio) in bowl (in table, in studio)", "2"),
        ("pour cup in inventory in bowl", "2"),
        ("pour cup containing red paint in bowl", "0"),
        ("pour cup in bowl", None),
        ("3", None),
        ("I don't want option 0", None),
        ("0 - no, 1", None),
        ("I will wait1", None),
    ],
)
def test_a_question_is_answered_by_number_or_text(said, number):
    assert Question(CUPS, LOOK, CARRIED).choose(said) == number


def test_options_of_the_same_words_are_told_apart_by_what_the_listing_shows():
    question = Question(CUPS, LOOK, CARRIED)
    assert question.marks == {"0": "cup (containing red paint)", "1": "cup (containing nothing)"}
    shown = "\n1:\tpour cup (in studio) in bowl (in table, in studio): the cup (containing nothing)\n"
    assert shown in question.render()
    assert not question.is_idle
    twice = "\n".join(CUPS.splitlines()[:3])
    assert Question(twice, LOOK.replace("red paint", "nothing"), CARRIED).is_idle


def test_another_action_takes_the_question_back_and_is_carried_out(env: ScienceWorld):
    env.choose_interface("complete")
    env.reset(tasks.parse("find-plant::229"))
    assert env.step("move soil to flower pot").asked_back
    went = env.step("**Open bee hive.**")
    assert (went.action, went.state.observation) == ("open bee hive", "The bee hive is now open.")
    assert env.step("move soil to flower pot").asked_back
    assert env.step("cancel").state.observation.startswith(actions.NO_EFFECT)
    assert env.step("move soil to flower pot").asked_back
    assert env.step("12").state.observation.startswith("You move the soil to the")
