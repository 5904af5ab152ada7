"""The symbolic rule writer: every row of its table, whole episodes in the simulator, and the rules written by hand."""

import re
from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, tasks, tasktext
from rsso_dspy.environments.scienceworld.lessons import PATTERNS, RULES_OF_THUMB, drawn
from rsso_dspy.trajectory import State, Step

BOIL = "Your task is to boil water. First, focus on the substance. Then, take actions that will cause it to change."
MEASURE = (
    "Your task is to measure the temperature of unknown substance B, which is located around the living room. First, "
    "focus on the thermometer. Next, focus on the unknown substance B. If the temperature is above 1.0 degrees, focus "
    "on the red box. If it is below 1.0 degrees, focus on the green box."
)
KITCHEN = """\
This room is called the kitchen. In it, you see: 
\tthe agent
\ta cupboard. The cupboard door is closed. 
\ta glass cup (containing a substance called water)
\ta stove, which is turned off. On the stove is: nothing.
\ta sink, which is turned on. In the sink is: nothing.
\ta thermometer, currently reading a temperature of 10 degrees celsius
You also see:
\tA door to the hallway (that is open)
\tA door to the outside (that is closed)"""  # noqa: W291
HALLWAY = (
    "This room is called the hallway. In it, you see: \n\tthe agent\n"
    "You also see:\n\tA door to the kitchen (that is open)"
)
NOTHING = "In your inventory, you see:\n\tan orange"
CHOICE = (
    f"{actions.AMBIGUOUS} Please enter the number for the action you intended:\n0:\topen drawer (in desk)\n1:\topen box"
)
UNKNOWN = f"{actions.NO_EFFECT}  Type 'help' for a list of actions."


def episode(*moves, look=KITCHEN, inventory=NOTHING):
    """States and steps of an episode in one room: pairs of an action and what it gave, or triples with a look."""
    states = [State("It begins.", look, inventory)]
    steps = []
    for action, answer, *elsewhere in moves:
        states.append(State(answer, *(elsewhere or [look]), inventory))
        steps.append(Step(action, action, states[-1], 0, 0, understood=actions.understood(answer)))
    return states, steps


def lines(task, states, steps, *categories):
    return [lesson.line for lesson in drawn(task, states, steps) if lesson.category in categories]


def names_of(task, states, steps):
    """Which rows hold: those whose lesson was drawn."""
    found = drawn(task, states, steps)
    return [
        row.name
        for row in PATTERNS
        if any(
            lesson.text.startswith(row.text.partition("{")[0]) and lesson.category == row.category for lesson in found
        )
    ]


TABLE = {
    "no action": (BOIL, [("", "Nothing happened: your answer held no action.")]),
    "repeated": (BOIL, [("open door", "The door is open."), ("open door", "The door is open.")]),
    "wandering": (
        BOIL,
        [
            ("go hallway", "You move to the hallway.", HALLWAY),
            ("go kitchen", "You move to the kitchen.", KITCHEN),
        ]
        * 3,
    ),
    "number unasked": (BOIL, [("3", actions.NOT_KNOWN)]),
    "sentence": (BOIL, [("i will open the cupboard", actions.NOT_KNOWN)]),
    "no such place": (BOIL, [("go to moon", actions.NOT_KNOWN)]),
    "no such object": (BOIL, [("pick up spoon", actions.NOT_KNOWN)]),
    "wrong form": (BOIL, [("pick spoon", actions.NOT_KNOWN)]),
    "unknown action": (BOIL, [("connect wire to battery", actions.NOT_KNOWN)]),
    "choice not made": (BOIL, [("open it", CHOICE), ("cancel", UNKNOWN)]),
    "ambiguous request": (BOIL, [("open it", CHOICE)]),
    "wrong focus": (BOIL, [("focus on stove", "You focus on the stove.")]),
    "door closed": (BOIL, [("go outside", "The door is not open.")]),
    "container closed": (BOIL, [("look in cupboard", "The cupboard isn't open, so you can't see inside.")]),
    "fixed": (BOIL, [("pick up stove", "The stove is not moveable.")]),
    "broken": (BOIL, [("activate stove", "The stove appears broken, and can't be activated or deactivated.")]),
    "no such use": (BOIL, [("open table", "The table is not openable.")]),
    "nothing to read": (BOIL, [("read stove", "It's not clear how to read that.")]),
    "already so": (BOIL, [("open cupboard", "The cupboard is already open.")]),
    "not measurable": (
        BOIL,
        [
            (
                "use thermometer on stove",
                "That thing doesn't appear to have a temperature that the thermometer can read.",
            )
        ],
    ),
    "nothing to mix": (BOIL, [("mix cup", "There is only one thing (water)")]),
    "no product": (BOIL, [("mix cup", "Mixing the contents of the cup does not appear to produce anything new.")]),
    "pouring a solid": (BOIL, [("pour salt in cup", "I'm not sure how to pour a solid.")]),
    "devices": (BOIL, [("go kitchen", "You move to the kitchen.")]),
    "focused": (MEASURE, [("focus on thermometer", "You focus on the thermometer.")]),
    "to focus": (MEASURE, [("wait", "You decide to wait for 10 iterations.")]),
    "verdict": (MEASURE, [("wait", "You decide to wait for 10 iterations.")]),
    "seen": (MEASURE, [("wait", "You decide to wait for 10 iterations.")]),
    "moved": (BOIL, [("move water to sink", "You move the water to the sink.")]),
    "measured": (BOIL, [("use thermometer on cup", "the thermometer measures a temperature of 10 degrees celsius")]),
    "read": (BOIL, [("read recipe", "The recipe reads:\nTo make soup, mix water, salt.")]),
    "made": (BOIL, [("mix cup", "Salt and water mix to produce salt water.")]),
    "running": (BOIL, [("wait", "You decide to wait for 10 iterations.")]),
    "found broken": (BOIL, [("activate stove", "The stove appears broken, and can't be activated or deactivated.")]),
    "unsearched": (BOIL, [("open it", CHOICE), ("0", "The drawer is now open.")]),
    "closed": (BOIL, [("wait", "You decide to wait for 10 iterations.")]),
    "rooms": (BOIL, [("wait", "You decide to wait for 10 iterations.")]),
    "other rooms": (BOIL, [("wait", "You decide to wait for 10 iterations.")]),
}


def played(name):
    task, moves = TABLE[name]
    states, steps = episode(*moves)
    if name == "no action":
        steps[-1] = replace(steps[-1], malformed=True)
    return task, states, steps


@pytest.mark.parametrize("name", TABLE)
def test_a_row_holds_where_it_should(name):
    assert name in names_of(*played(name))


def test_every_row_is_tried_and_no_episode_has_two_mistakes_in_a_step():
    carried = "carried"  # needs an inventory of its own, below
    assert {row.name for row in PATTERNS} == {*TABLE, carried}
    for name in TABLE:
        assert len(lines(*played(name), "error")) <= 1, name


def test_what_is_carried_of_the_task_is_told():
    states, steps = episode(
        ("wait", "You wait."), inventory="In your inventory, you see:\n\ta thermometer, currently\n\ta cup"
    )
    assert "Of what the task names, in the inventory: thermometer." in lines(MEASURE, states, steps, "progress")


QUIET = (
    ("look around", "This room is called the kitchen."),
    ("wait", "You decide to wait for 10 iterations."),
    ("wait", "You decide to wait for 10 iterations."),
    ("open box", "The box is now open."),
    ("focus on water", "You focus on the water."),
    ("pick up cup", "You move the cup to the inventory."),
)


@pytest.mark.parametrize("until", range(1, len(QUIET) + 1))
def test_where_nothing_went_wrong_no_mistake_is_made_up(until):
    states, steps = episode(*QUIET[:until])
    assert lines(BOIL, states, steps, "error", "abstract") == []


def test_nothing_is_drawn_before_the_first_step():
    assert drawn(BOIL, episode()[0], []) == []


@pytest.mark.parametrize(
    ("task", "name", "wrong"),
    [
        (BOIL, "water", False),
        (BOIL, "metal pot", True),
        (BOIL, "steam", False),
        (MEASURE, "thermometer", False),
        (MEASURE, "unknown substance b", False),
        (MEASURE, "unknown substance c", True),
        (MEASURE, "green box", False),
        (MEASURE, "blue box", True),
        ("Your task is to find a(n) plant. First, focus on the thing.", "pea plant", False),
        ("Find the animal with the longest life span. Focus on the animal with the longest life span.", "bee", False),
        ("Your task is to focus on the 4 life stages of the moth.", "caterpillar", False),
        ("Your task is to determine an angle. After that, focus on the inclined plane with the least.", "axe", True),
        (
            "Your task is to determine an angle. After that, focus on the inclined plane with it.",
            "inclined plane c",
            False,
        ),
        ("Your task is to grow a apple plant from seed. First, focus on a seed.", "apple seed", False),
        ("Your task is to grow a apple. To complete the task, focus on the grown apple.", "apple", False),
        ("Your task is to use chemistry.", "axe", False),
    ],
)
def test_a_focus_counts_as_wrong_only_where_the_task_says_so(task, name, wrong):
    assert tasktext.wrong(task, name, frozenset({"steam"})) is wrong


# In the simulator.


def play(env, key, *script):
    """An episode, and the lasting lessons of each step: index of the step and line."""
    states, steps, lasting = [env.reset(tasks.parse(key))], [], []
    for number, action in enumerate(script):
        move = env.step(action)
        states.append(move.state)
        steps.append(Step(action, move.action, move.state, move.reward, move.score, move.understood))
        lasting += [(number, line) for line in lines(env.task, states, steps, "abstract", "error")]
    return states, steps, lasting


def test_an_episode_of_boiling_teaches_what_it_should(env: ScienceWorld):
    script = (
        "go kitchen",
        "connect stove to sink",
        "open door",
        "the second",
        "open door",
        "1",
        "pick up thermometer",
        "use thermometer on sink",
        "activate stove",
        "go kitchen",
        "focus on table",
    )
    states, steps, lasting = play(env, "boil::3", *script)
    assert lasting == [
        (0, "Devices in the kitchen: oven, sink, stove."),
        (
            1,
            "Mistake: Asked for 'connect X to Y', which this world does not know. Instead: Use the verbs of the action "
            "templates only, and reach the same end with those.",
        ),
        (
            2,
            "Mistake: Named an object in a way that fitted several. Instead: Answer with the number of the one that is "
            "meant. Next time use its full name as listed.",
        ),
        (
            3,
            "Mistake: Answered an ambiguous request with something other than one of its numbers, so that neither "
            "action was done. Instead: Answer with one of the numbers that were listed, and nothing else; then go on.",
        ),
        (
            4,
            "Mistake: Named an object in a way that fitted several. Instead: Answer with the number of the one that is "
            "meant. Next time use its full name as listed.",
        ),
        (
            5,
            "Mistake: Asked for a state that was there already. Instead: See in the surroundings whether a thing is "
            "open, closed, on or off before changing it.",
        ),
        (
            8,
            "Mistake: Tried to switch on a device that is broken. Instead: Do not try it again: find another device "
            "that serves the same purpose, also in other rooms.",
        ),
        (
            9,
            "Mistake: Tried to go to what no door of this room leads to. Instead: Use teleport, and the name of a "
            "room. What is in this room is within reach already.",
        ),
        (
            10,
            "Mistake: Focused on an object other than those the task asks to focus on. Instead: Focus only on what the "
            "task names, by that name, and find it first. Nothing else is worth a focus.",
        ),
    ]
    before_focus = states[:-1], steps[:-1]
    assert lines(env.task, *before_focus, "progress") == [
        "Not done yet: focus on the substance.",
        "Measured: sink 10 degrees celsius.",
        "Broken here: stove (kitchen).",
        "Still closed: cupboard (kitchen), freezer (kitchen), fridge (kitchen), oven (kitchen).",
        "Rooms seen: outside, kitchen.",
        "Rooms not seen yet: foundry, greenhouse, bathroom, hallway.",
    ]


def test_an_episode_that_goes_well_teaches_no_mistake(env: ScienceWorld):
    script = (
        "teleport kitchen",
        "pick up thermometer",
        "focus on thermometer",
        "teleport living room",
        "pick up unknown substance b",
        "use thermometer on unknown substance b",
        "teleport bathroom",
    )
    states, steps, lasting = play(env, "use-thermometer::0", *script)
    assert lasting == [
        (0, "Devices in the kitchen: oven, sink, stove."),
        (6, "Devices in the bathroom: bathtub, sink."),
    ]
    assert lines(env.task, states, steps, "progress") == [
        "Done: focused on thermometer.",
        "Not done yet: focus on unknown substance b.",
        "Where things that the task names were seen last: green box (bathroom), red box (bathroom).",
        "Of what the task names, in the inventory: thermometer, unknown substance B.",
        "Measured: unknown substance b 50 degrees celsius.",
        "Still closed: cupboard (kitchen), freezer (kitchen), fridge (kitchen), oven (kitchen).",
        "Rooms seen: hallway, kitchen, living room, bathroom.",
        "Rooms not seen yet: art studio, bedroom, greenhouse, workshop, outside.",
    ]


def test_lessons_are_the_same_again_and_whatever_the_rewards(env: ScienceWorld):
    script = (
        "go kitchen",
        "open cupboard",
        "fly",
        "open drawer",
        "1",
        "look in drawer",
        "0",
        "activate stove",
        "eat sink",
    )
    states, steps, _ = play(env, "boil::3", *script)
    for until in range(1, len(steps) + 1):
        told = drawn(env.task, states[: until + 1], steps[:until])
        others = [replace(step, reward=7 * n - 20, score=90 - n) for n, step in enumerate(steps[:until])]
        assert (
            drawn(env.task, states[: until + 1], others) == told == drawn(env.task, states[: until + 1], steps[:until])
        )
        assert [*env.lessons(states[: until + 1], steps[:until])] == told


def test_no_lasting_lesson_names_things_of_one_variant(env: ScienceWorld):
    script = (
        "open purple box 7",
        "pick zebra",
        "connect zebra to lamp",
        "go zebra",
        "focus on orange",
        "pick up zebra",
    )
    _, _, lasting = play(env, "boil::3", *script)
    assert len(lasting) == len(script)
    assert not any(word in line for _, line in lasting for word in ("purple", "zebra", "lamp", "orange"))


def test_the_devices_of_a_room_are_the_same_in_every_task(env: ScienceWorld):
    """Why they may be a lasting lesson."""
    found = set()
    for task in tasks.tasks()[::4]:
        rooms = [f"teleport {room}" for room in sorted(tasktext.ROOMS)]
        key = tasks.variant(task, tasks.indices(task, "train")[-1]).key
        found.add(tuple(line for _, line in play(env, key, *rooms)[2]))
    assert len(found) == 1


# The rules written by hand.


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
