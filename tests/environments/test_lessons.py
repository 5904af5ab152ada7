"""The symbolic rule writer of ScienceWorld: every row of its table on episodes made by hand, and what an episode in the
simulator teaches."""

from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, tasks
from rsso_dspy.environments.scienceworld.lessons import LESSONS, is_wrong_focus
from rsso_dspy.records import State, Step

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
NOTHING = "In your inventory, you see:\n\tan orange"
CHOICE = (
    f"{actions.AMBIGUOUS} Please enter the number for the action you intended:\n0:\topen drawer (in desk)\n1:\topen box"
)
UNKNOWN = f"{actions.NO_EFFECT}  Type 'help' for a list of actions."


def lines(task, states, steps, *categories):
    """Drawn lessons as the lines that stand for them in a prompt."""
    return [lesson.line for lesson in LESSONS(task, states, steps) if lesson.category in categories]


def episode(*moves, look=KITCHEN, inventory=NOTHING):
    """States and steps of an episode in one room: pairs of an action and what it gave, or triples with a look."""
    states = [State("It begins.", look, inventory)]
    steps = []
    for action, answer, *elsewhere in moves:
        states.append(State(answer, *(elsewhere or [look]), inventory))
        steps.append(Step(action, action, states[-1], 0, 0, understood=answer not in (actions.NOT_KNOWN, UNKNOWN)))
    return states, steps


WAITED = ("wait", "You decide to wait for 10 iterations.")
BROKEN = ("activate stove", "The stove appears broken, and can't be activated or deactivated.")
NO_TEMPERATURE = "That thing doesn't appear to have a temperature that the thermometer can read."
IN_HAND = "In your inventory, you see:\n\ta thermometer, currently\n\ta cup"
TABLE = [  # in the order of MISTAKES and FACTS
    (BOIL, ("", "Nothing happened: your answer held no action.")),
    (BOIL, ("open door", "The door is open."), ("open door", "The door is open.")),
    (BOIL, ("3", actions.NOT_KNOWN)),
    (BOIL, ("i will open the cupboard", actions.NOT_KNOWN)),
    (BOIL, ("go to moon", actions.NOT_KNOWN)),
    (BOIL, ("pick up spoon", actions.NOT_KNOWN)),
    (BOIL, ("pick spoon", actions.NOT_KNOWN)),
    (BOIL, ("connect wire to battery", actions.NOT_KNOWN)),
    (BOIL, ("open it", CHOICE), ("cancel", UNKNOWN)),
    (BOIL, ("open it", CHOICE)),
    (BOIL, ("focus on stove", "You focus on the stove.")),
    (BOIL, ("go outside", "The door is not open.")),
    (BOIL, ("look in cupboard", "The cupboard isn't open, so you can't see inside.")),
    (BOIL, ("pick up stove", "The stove is not moveable.")),
    (BOIL, BROKEN),
    (BOIL, ("open table", "The table is not openable.")),
    (BOIL, ("read stove", "It's not clear how to read that.")),
    (BOIL, ("open cupboard", "The cupboard is already open.")),
    (BOIL, ("use thermometer on stove", NO_TEMPERATURE)),
    (BOIL, ("mix cup", "There is only one thing (water)")),
    (BOIL, ("mix cup", "Mixing the contents of the cup does not appear to produce anything new.")),
    (BOIL, ("pour salt in cup", "I'm not sure how to pour a solid.")),
    (BOIL, ("go kitchen", "You move to the kitchen.")),
    (MEASURE, ("focus on thermometer", "You focus on the thermometer.")),
    (MEASURE, WAITED),
    (MEASURE, WAITED),
    (MEASURE, WAITED),
    (MEASURE, WAITED),
    (BOIL, ("move water to sink", "You move the water to the sink.")),
    (BOIL, ("use thermometer on cup", "the thermometer measures a temperature of 10 degrees celsius")),
    (BOIL, ("read recipe", "The recipe reads:\nTo make soup, mix water, salt.")),
    (BOIL, ("mix cup", "Salt and water mix to produce salt water.")),
    (BOIL, WAITED),
    (BOIL, BROKEN),
    (BOIL, WAITED),
    (BOIL, WAITED),
    (BOIL, WAITED),
]


@pytest.mark.parametrize(
    ("row", "task", "moves"),
    [(row, task, moves) for row, (task, *moves) in zip((*LESSONS.mistakes, *LESSONS.progress), TABLE, strict=True)],
    ids=[row.text[:40] for row in (*LESSONS.mistakes, *LESSONS.progress)],
)
def test_a_row_holds_where_it_should_and_no_step_is_two_mistakes(row, task, moves):
    states, steps = episode(*moves, inventory=IN_HAND if "in the inventory" in row.text else NOTHING)
    steps[-1] = replace(steps[-1], malformed=not moves[-1][0])
    drawn = LESSONS(task, states, steps)
    texts = [each.text for each in drawn if each.category == row.category]
    assert any(text.startswith(row.text.partition("{")[0]) for text in texts)
    assert len(lines(task, states, steps, "error")) <= 1


@pytest.mark.parametrize(
    ("task", "name", "wrong"),
    [
        (BOIL, "water", False),
        (BOIL, "steam", False),
        (MEASURE, "thermometer", False),
        (MEASURE, "unknown substance c", True),
        (MEASURE, "blue box", True),
        ("Your task is to find a(n) plant. First, focus on the thing.", "pea plant", False),
        ("Find the animal with the longest life span. Focus on the animal with the longest life span.", "bee", False),
        ("Your task is to focus on the 4 life stages of the moth.", "caterpillar", False),
        ("Your task is to determine an angle. After that, focus on the inclined plane with the least.", "axe", True),
        ("Your task is to use chemistry.", "axe", False),
    ],
)
def test_a_focus_counts_as_wrong_only_where_the_task_says_so(task, name, wrong):
    assert is_wrong_focus(task, name, frozenset({"steam"})) is wrong


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
        "go kitchen", "connect stove to sink", "open door", "the second", "open door", "1", "pick up thermometer",
        "use thermometer on sink", "activate stove", "go kitchen", "focus on table",
    )  # fmt: skip
    states, steps, lasting = play(env, "boil::3", *script)
    assert [(number, line.split(" Instead")[0]) for number, line in lasting] == [
        (0, "Devices in the kitchen: oven, sink, stove."),
        (1, "Mistake: Asked for 'connect X to Y', which this world does not know."),
        (2, "Mistake: Named an object in a way that fitted several."),
        (3, "Mistake: Answered an ambiguous request with something other than one of its numbers, so that neither "
         "action was done."),
        (4, "Mistake: Named an object in a way that fitted several."),
        (5, "Mistake: Asked for a state that was there already."),
        (8, "Mistake: Tried to switch on a device that is broken."),
        (9, "Mistake: Tried to go to what no door of this room leads to."),
        (10, "Mistake: Focused on an object other than those the task asks to focus on."),
    ]  # fmt: skip
    assert "Measured: sink 10 degrees celsius." in lines(env.task, states[:-1], steps[:-1], "progress")
