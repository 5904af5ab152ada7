import pytest

from rsso_dspy.environments.scienceworld import actions


def test_normalization_drops_case_punctuation_and_fill_words():
    assert actions.normalize(' "Move the jug, to a (metal) POT!" ') == "move jug metal pot"
    assert actions.normalize("pour water into cup") == "pour water into cup"


def test_an_equal_action_is_given_in_the_simulators_spelling():
    valid = ["look in jug", "move jug to pot", "open door to hallway"]
    assert actions.equal_action("Open the door, to the hallway.", valid) == "open door to hallway"
    assert actions.equal_action("look on jug", valid) == "look in jug"
    assert actions.equal_action("look in pot", valid) is None


@pytest.mark.parametrize(
    ("answer", "sent"), [("12", "12"), ("option 3: cup 2", "3"), ("the cup", "cancel"), ("٣", "cancel")]
)
def test_an_ambiguity_is_resolved_by_the_first_integer(answer: str, sent: str):
    assert actions.resolve(answer) == sent


def test_reset_task_is_recognized_and_its_neighbours_are_not():
    assert actions.resets_task("to reset the task")
    for harmless in ("task", "reset", "reset tasks", "read task", "reset task list"):
        assert not actions.resets_task(harmless)


def test_clean_gives_one_line_that_can_be_sent():
    assert actions.clean(" Pick  up\n\tCup \ud800") == "pick up cup ?"
