"""The rules written by hand: few, short, and true of what the simulator does."""

import re

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, tasks
from rsso_dspy.environments.scienceworld.lessons import RULES_OF_THUMB


def answers(env, key, *script):
    env.reset(tasks.parse(key))
    return [env.step(action) for action in script]


def rule(part):
    assert sum(part in lesson.text for lesson in RULES_OF_THUMB) == 1, part


def test_the_rules_name_no_action_that_the_templates_do_not():
    assert not [lesson.text for lesson in RULES_OF_THUMB if re.search(r"\b(use|connect|wait1|eat|dunk)\b", lesson.text)]


def test_the_rules_are_few_and_short_and_abstract():
    assert 8 <= len(RULES_OF_THUMB) <= 12
    assert all(lesson.category == "abstract" and len(lesson.text) < 250 for lesson in RULES_OF_THUMB)


def test_what_is_not_understood_takes_no_time(env: ScienceWorld):
    rule("Any other is not understood, and nothing happens")
    before, after = answers(env, "boil::3", "go kitchen", "sing to stove")
    assert not after.understood
    assert after.ticks == before.ticks


def test_an_ambiguous_request_wants_a_number(env: ScienceWorld):
    rule("answer with the number alone")
    asked, chosen = answers(env, "boil::3", "go kitchen", "open door", "1")[1:]
    assert asked.state.observation.startswith(actions.AMBIGUOUS)
    assert chosen.state.observation == "The door is already open."
    lost = answers(env, "boil::3", "go kitchen", "open door", "open cupboard")[-1]
    assert "The cupboard door is closed" in lost.state.look


def test_everything_in_a_room_is_within_reach(env: ScienceWorld):
    rule("Moving about is between rooms, never between objects")
    moves = answers(env, "boil::3", "go kitchen", "go table", "open cupboard", "open fridge")
    assert [move.state.observation for move in moves[1:]] == [
        "Its not clear how to go to/through a table.",
        "The cupboard is now open.",
        "The fridge is now open.",
    ]


def test_teleport_leads_anywhere_and_go_through_open_doors(env: ScienceWorld):
    rule("by go only the next one, through an open door")
    said = [
        move.state.observation
        for move in answers(env, "boil::3", "teleport bedroom", "go bathroom", "close door to hallway", "go hallway")
    ]
    assert said[0] == "You teleport to the bedroom."
    assert said[1] == actions.NOT_KNOWN
    assert said[3] == "The door is not open."


def test_what_a_closed_container_holds_is_out_of_reach(env: ScienceWorld):
    rule("What a closed container holds")
    before, _, after = answers(env, "boil::3", "teleport kitchen", "open cupboard", "pick up metal pot")
    assert "metal pot" not in before.state.look
    assert after.understood
    assert not answers(env, "boil::3", "teleport kitchen", "pick up metal pot")[-1].understood


def test_a_wrong_focus_ends_the_attempt(env: ScienceWorld):
    rule("On a wrong object it ends the attempt")
    assert answers(env, "boil::3", "focus on axe")[-1].done


def test_what_is_carried_comes_along_and_what_is_fixed_stays(env: ScienceWorld):
    rule("A thing that was picked up comes along")
    rule("can be moved into or onto another one")
    moves = answers(
        env, "boil::3", "teleport kitchen", "pick up lighter", "pick up stove", "teleport bathroom",
        "move lighter to sink", "teleport kitchen", "pick up lighter", "move thermometer to cupboard",
    )  # fmt: skip
    assert moves[2].state.observation == "The stove is not moveable."
    assert moves[4].understood
    assert not moves[6].understood
    assert "isn't open" in moves[7].state.observation


def test_a_thermometer_works_where_it_is(env: ScienceWorld):
    rule("A thermometer tells the temperature")
    here, _, _, carried = answers(
        env, "boil::3", "teleport kitchen", "use thermometer on sink", "pick up thermometer", "teleport bathroom",
        "use thermometer on sink",
    )[1:]  # fmt: skip
    assert "measures a temperature" in here.state.observation
    assert "measures a temperature" in carried.state.observation
    assert not answers(env, "boil::3", "teleport bathroom", "use thermometer on sink")[-1].understood


def test_waiting_lets_time_pass(env: ScienceWorld):
    rule("each wait is ten moments")
    moves = answers(env, "boil::3", "wait", "wait1")
    assert ["10 iterations" in moves[0].state.observation, "1 iterations" in moves[1].state.observation] == [True, True]
    assert moves[0].ticks > moves[1].ticks - moves[0].ticks > 0


def test_a_device_runs_until_it_is_switched_off_and_a_broken_one_stays_broken(env: ScienceWorld):
    rule("A device works from the moment")
    moves = answers(env, "boil::0", "teleport kitchen", "activate oven", "wait", "deactivate oven")
    assert ["oven, which is turned on" in move.state.look for move in moves] == [False, True, True, False]
    moves = answers(env, "boil::3", "teleport kitchen", "activate stove", "wait", "activate stove")
    assert "appears broken" in moves[1].state.observation
    assert moves[1].state.observation == moves[3].state.observation


def test_mixing_makes_something_new_of_what_goes_together(env: ScienceWorld):
    rule("is mixed at once")
    moves = answers(
        env, "chemistry-mix::0", "teleport kitchen", "open cupboard", "open glass jar", "pour glass jar in ceramic cup",
        "mix ceramic cup", "move ceramic cup to sink", "activate sink", "deactivate sink", "mix ceramic cup",
        "mix bowl",
    )  # fmt: skip
    assert moves[4].state.observation.startswith("There is only one thing")
    assert "mix to produce" in moves[8].state.observation
    assert "does not appear to produce" in moves[9].state.observation
