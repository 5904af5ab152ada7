import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, environment, tasks
from rsso_dspy.records import State


@pytest.fixture(scope="module")
def states(env: ScienceWorld) -> list[State]:
    """A short walk on find-plant 229: greenhouse, a mistake, a focus, something picked up, hallway."""
    return [
        env.reset(tasks.parse("find-plant::229")),
        *(
            env.step(action).state
            for action in ("dance", "focus on banana tree", "pick up jug", "teleport to hallway", "look around")
        ),
    ]


def test_a_listing_of_the_room_stands_in_the_surroundings_only(states: list[State]):
    start = states[0]
    assert start.observation == "This room is called the greenhouse."
    assert start.look.startswith("This room is called the greenhouse. In it, you see:")
    assert states[-1].observation == "This room is called the hallway."


def test_features_are_the_lines_that_are_seen_and_carried(states: list[State]):
    features = environment.list_features(states[3])
    assert "a flower pot 1 (containing a banana tree in the adult stage, soil)" in features
    assert "a sink, which is turned off. in the sink is: nothing" in features
    assert "a door to the hallway (that is open)" in features
    assert "this room is called the greenhouse" in features
    assert "a jug (containing nothing) in your inventory" in features
    assert "a jug (containing nothing)" not in features
    assert not [one for one in features if "you see" in one or "also see" in one]
    # Nothing is lost: the room's name, every indented line of the surroundings, every line carried.
    carried = len(states[3].inventory.splitlines()) - 1
    assert len(features) == 1 + states[3].look.count("\n\t") + carried


def test_outside_is_read_like_a_room(env: ScienceWorld):
    env.reset(tasks.parse("find-plant::229"))
    env.step("teleport to outside")
    state = env.step("look around").state
    assert "see" not in state.observation
    assert "the ground" in environment.list_features(state)


def test_the_first_state_is_shown_whole_and_later_ones_by_what_is_new(states: list[State]):
    first, mistake, focus, picked, moved, looked = environment.render_states(states)
    assert first.startswith("This room is called the greenhouse.\nYou also observe:\n\t")
    assert first.count("\n\t") == len(environment.list_features(states[0])) - 1  # the room's name is the observation
    assert mistake == actions.NOT_KNOWN
    assert focus.startswith("You focus on the plant.\nYou also observe:")  # pots water themselves, time has passed
    assert "(containing a substance called water)" in focus
    assert "nothing" not in focus
    assert picked.startswith("You move the jug to the inventory.\nYou also observe:\n\t")
    assert "a jug (containing nothing) in your inventory" in picked
    assert "a shovel" not in picked
    assert "\n\tthis room is called the hallway" in moved
    assert "a jug" not in moved
    assert looked == "This room is called the hallway."


def test_a_window_that_begins_later_shows_its_first_state_whole(states: list[State]):
    assert environment.render_states(states[1:])[0].startswith(actions.NOT_KNOWN + "\nYou also observe:\n\t")
    assert environment.render_states(states[4:])[0].count("\n\t") == len(environment.list_features(states[4]))
    assert environment.render_states([]) == []


def test_long_lines_come_first_and_parts_of_them_are_left_out():
    look = (
        "This room is called the x. In it, you see: \n\ta cup\n\ta cup (containing a cup, milk)\n"
        "You also see:\n\ta door"
    )
    shown = environment.render_states([State("Hello.", look, "In your inventory, you see:\n\tmilk\n")])
    assert shown == [
        "Hello.\nYou also observe:\n\ta cup (containing a cup, milk)\n\tthis room is called the x\n\ta door"
    ]


def test_the_focus_is_remembered_when_it_has_left_the_window(env: ScienceWorld):
    start = env.reset(tasks.parse("find-plant::229"))
    focused = env.step("focus on banana tree").state
    later = [env.step(action).state for action in ("pick up jug", "wait1")]
    line = "\n\tyou focus on the plant"
    assert focused.observation == "You focus on the plant."
    assert line not in "".join(env.render([start, focused, *later]))
    assert line in env.render(later)[0]
    assert line not in env.render(later)[1]
    assert line not in env.render([env.reset(tasks.parse("find-plant::229"))])[0]


def test_an_ambiguous_focus_is_none(env: ScienceWorld):
    env.reset(tasks.parse("find-plant::229"))
    env.step("focus on soil")
    state = env.step("cancel").state
    assert "you focus" not in env.render([state])[0]
