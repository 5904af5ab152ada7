"""The list of what can be done in ScienceWorld: in the forms of the templates, of what is in sight."""

import pytest

from rsso_dspy.environments import list_verbs
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES, keep_in_sight, keep_templates, list_numbers


def test_what_can_be_done_has_the_forms_of_the_templates_and_no_reset(env):
    env.reset(tasks.parse("find-plant::228"))
    listed = env.admissible_actions()
    verbs = {line.split()[0] for line in ACTION_TEMPLATES.partition("Templates:\n")[2].splitlines()}
    assert "wait" in listed
    assert {action.split()[0] for action in listed} <= verbs
    assert not {"reset task", "wait1", "inventory", "task"} & set(listed)
    assert all(env.step(action).understood for action in ("wait", next(a for a in listed if a.startswith("pick up"))))


def test_where_a_question_is_open_its_numbers_are_what_can_be_done(env):
    env.reset(tasks.parse("find-plant::228"))
    env.step("teleport to kitchen")
    move = env.step("pick up orange")
    if not move.state.observation.startswith("Ambiguous request"):
        move = env.step("open door")
    assert move.state.observation.startswith("Ambiguous request")
    listed = env.admissible_actions()
    assert listed == list_numbers(move.state.observation)
    assert set(listed) <= list_verbs(env)  # a number after prose is an answer while the question is open
    assert listed[:2] == ["0", "1"]
    env.step(listed[0])
    assert len(env.admissible_actions()) > 100


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ("open door", True),
        ("pour tin cup into sink", True),
        ("look in bowl", True),
        ("look at bowl", False),
        ("look around", False),
        ("wait", True),
        ("wait1", False),
        ("waiting", False),
        ("reset task", False),
        ("use thermometer on water", False),
    ],
)
def test_only_the_forms_of_the_templates_are_kept(action, kept):
    assert keep_templates([action], ACTION_TEMPLATES) == [action] * kept


NAMES = ("apple", "bowl", "cup", "drawer", "counter", "cupboard", "door to hallway", "table", "water")


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ("pick up apple", True),
        ("pick up sodium chloride", False),  # in a jar that is closed
        ("move apple to sewer", False),
        ("move apple in bowl to table", True),
        ("pour cup containing water into bowl", True),
        ("pour cup containing juice into bowl", False),
        ("pick up cup containing nothing in table", True),
        ("open door to hallway", True),
        ("move apple to inventory", True),
        ("look in drawer in counter", True),
        ("look in drawer in cupboard", False),
        ("pick up cup containing water in cupboard", False),
        ("open cupboard", True),
        ("teleport to greenhouse", True),
        ("go to greenhouse", True),
        ("wait", True),
    ],
)
def test_only_what_is_in_sight_is_kept(action, kept):
    look = "In it, you see:\n\ta cupboard. The cupboard door is closed.\n\ta table. On the table is: nothing."
    assert keep_in_sight([action], ACTION_TEMPLATES, NAMES, look) == [action] * kept


def test_nothing_in_a_closed_cupboard_can_be_named(env):
    env.reset(tasks.parse("find-plant::228"))
    before = env.step("teleport to kitchen").state
    assert "The cupboard door is closed" in before.look
    assert not [action for action in env.admissible_actions() if "tin cup" in action or "sewer" in action]
    env.step("open cupboard")
    assert "pick up tin cup" in env.admissible_actions()
