"""The symbolic rule writer: every row of its table, on episodes made by hand."""

from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld.episode import is_wrong_focus
from rsso_dspy.environments.scienceworld.lessons import FACTS, MISTAKES, draw_lessons
from rsso_dspy.records import State, Step
from tests.environments.lesson_lines import lines

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
        steps.append(Step(action, action, states[-1], 0, 0, understood=actions.is_understood(answer)))
    return states, steps


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


NAMES = [*TABLE]
NAMES.insert(NAMES.index("moved"), "carried")  # needs an inventory of its own, below
ROWS = dict(zip(NAMES, (*MISTAKES, *FACTS), strict=True))
"""The rows of the table, which stand in the order of these episodes."""


def played(name):
    task, moves = TABLE[name]
    states, steps = episode(*moves)
    if name == "no action":
        steps[-1] = replace(steps[-1], malformed=True)
    return task, states, steps


@pytest.mark.parametrize("name", TABLE)
def test_a_row_holds_where_it_should(name):
    row = ROWS[name]
    drawn = [lesson.text for lesson in draw_lessons(*played(name)) if lesson.category == row.category]
    assert any(text.startswith(row.text.partition("{")[0]) for text in drawn)


def test_no_episode_has_two_mistakes_in_a_step():
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
    assert draw_lessons(BOIL, episode()[0], []) == []


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
    assert is_wrong_focus(task, name, frozenset({"steam"})) is wrong
