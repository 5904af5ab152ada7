"""What an advice says of an action depends on the task, on what the prompt shows, and on what was named before.

A table: sentence, task, scene, action, and whether the action is liked, disliked, or nothing is said of it.
"""

import pytest

from rsso_dspy.explorer.actor import update_notes
from rsso_dspy.explorer.advice import score_by_advice
from rsso_dspy.explorer.clauses import read_advice
from rsso_dspy.explorer.goals import parse_task_goals
from rsso_dspy.explorer.orders import read_orders
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, PromptLayout
from rsso_dspy.explorer.references import Situation
from rsso_dspy.explorer.scene_parser import build_scene

STATE = "First, focus on the substance. Then, take actions that will cause it to change its state of matter."
TASKS = {
    "boil": f"Your task is to boil water. {STATE}",
    "freeze": f"Your task is to freeze chocolate. {STATE}",
    "mix": "Your task is to use chemistry to create the substance 'salt water'. A recipe and some of the ingredients "
    "might be found near the kitchen. When you are done, focus on the salt water.",
    "paint": "Your task is to use chemistry to create green paint. When you are done, focus on the green paint.",
    "long": "Your task is to find the animal with the longest life span. The animals are in the 'outside' location. "
    "Focus on the animal with the longest life span.",
    "box": "Your task is to find a(n) plant. First, focus on the thing. Then, move it to the red box in the kitchen.",
    "heat": "Your task is to measure the temperature of lead, which is located around the workshop. First, focus on "
    "the thermometer. Next, focus on the lead. If the lead temperature is above 50 degrees celsius, place it in the "
    "blue box. If it is below, place it in the orange box.",
}  # fmt: skip
HALL = """This room is called the hallway.
You also observe:
\ta door to the kitchen (that is open)
\ta door to the workshop (that is open)
\tan orange in your inventory"""
KITCHEN = """This room is called the kitchen.
You also observe:
\ta fridge. the fridge door is closed
\ta freezer. the freezer door is closed
\ta stove, which is turned off. on the stove is: nothing
\ta sink, which is turned off
\ta bowl (containing nothing)
\ta glass cup (containing sodium chloride)
\ta thermometer
\ta chocolate
\ta recipe titled instructions to make salt water
\ta substance called water
\ta red box (containing nothing)
\ta door to the hallway (that is open)
\tan orange in your inventory"""
STUDIO = """This room is called the art studio.
You also observe:
\ta jug (containing nothing)
\ta wood cup (containing blue paint)
\ta tin cup (containing yellow paint)
\ta door to the hallway (that is open)"""
OUTSIDE = """This room is called the outside.
You also observe:
\ta giant tortoise
\ta dove
\ta parrot egg
\ta door to the kitchen (that is open)"""


def act(scene: str, *done: str) -> str:
    """The scene, and then actions with what each brought."""
    return scene + "".join(f"\n\nThought: -\nAction: {each.partition(' => ')[0]}\n\n{each.partition(' => ')[2]}"
                           for each in done)  # fmt: skip


OPENED = act(
    KITCHEN, "open fridge => The fridge is now open.\nYou also observe:\n\ta fridge. in the fridge is: nothing"
)
READ = act(
    KITCHEN,
    "read recipe => The recipe reads:\nTo make salt water, you need to mix sodium chloride, water.",
)
FOCUSED = act(KITCHEN, "focus on chocolate => You focus on the chocolate.")
BROKEN = act(KITCHEN, "activate stove => The stove appears broken, and can't be activated or deactivated.")
POURED = act(STUDIO, "pour blue paint in jug => You pour the blue paint into the jug.\nYou also observe:\n"
             "\ta jug (containing blue paint)")  # fmt: skip
BOTH = act(POURED, "pour yellow paint in jug => You pour the yellow paint into the jug.\nYou also observe:\n"
           "\ta jug (containing blue paint, yellow paint)")  # fmt: skip
FROZEN = act(KITCHEN, "move chocolate to freezer => You move the chocolate to the freezer.")
TAKEN = act(KITCHEN, "pick up thermometer => You move the thermometer to the inventory.")
MEASURED = act(TAKEN, "use thermometer on lead => the thermometer measures a temperature of 70 degrees celsius")
ASKED = act(KITCHEN, "open box => Ambiguous request: Please enter the number for the action you intended:\n"
            "0:\topen red box\n1:\topen red box")  # fmt: skip

LIKED, DISLIKED, NOTHING = "liked", "disliked", "nothing"
CASES = [
    # scopes of tasks
    ("In tasks about boiling: open the fridge.", "boil", KITCHEN, "open fridge", LIKED),
    ("In tasks about boiling: open the fridge.", "freeze", KITCHEN, "open fridge", NOTHING),
    ("In tasks about boiling, melting or freezing: open the fridge.", "freeze", KITCHEN, "open fridge", LIKED),
    ("For freezing tasks, open the fridge.", "freeze", KITCHEN, "open fridge", LIKED),
    ("For freezing tasks, open the fridge.", "boil", KITCHEN, "open fridge", NOTHING),
    ("Life span tasks: Focus on the tortoise. Do not wait.", "long", OUTSIDE, "wait", DISLIKED),
    ("Life span tasks: Focus on the tortoise. Do not wait.", "boil", KITCHEN, "wait", NOTHING),
    ("Life span tasks: Focus on the tortoise. Do not wait.", "long", OUTSIDE, "focus on giant tortoise", LIKED),
    ("In tasks about lifespan-longest-lived: do not wait.", "long", OUTSIDE, "wait", DISLIKED),
    ("In tasks about the shortest life span: do not wait.", "long", OUTSIDE, "wait", NOTHING),
    ("In tasks about chemistry-mix: open the fridge.", "mix", KITCHEN, "open fridge", LIKED),
    ("In tasks about mixing chemicals: open the fridge.", "mix", KITCHEN, "open fridge", LIKED),
    ("In tasks about mixing chemicals: open the fridge.", "freeze", KITCHEN, "open fridge", NOTHING),
    ("When the task asks you to freeze something, open the freezer.", "freeze", KITCHEN, "open freezer", LIKED),
    ("When the task asks you to freeze something, open the freezer.", "boil", KITCHEN, "open freezer", NOTHING),
    ("If you are asked to boil something, open the freezer.", "freeze", KITCHEN, "open freezer", NOTHING),
    ("To freeze a substance: open the freezer.", "freeze", KITCHEN, "open freezer", LIKED),
    ("Open the freezer in tasks about freezing.", "boil", KITCHEN, "open freezer", NOTHING),
    ("Freezing:\n- open the freezer\n- do not wait", "freeze", KITCHEN, "wait", DISLIKED),
    ("Freezing:\n- open the freezer\n- do not wait", "boil", KITCHEN, "wait", NOTHING),
    ("Freezing:\n- open the freezer\n\nDo not wait.", "boil", KITCHEN, "wait", DISLIKED),
    ("In tasks about games: do not wait.", "boil", KITCHEN, "wait", NOTHING),
    # what the scene, the inventory and the history show
    ("If the fridge is closed, open it.", "boil", KITCHEN, "open fridge", LIKED),
    ("If the fridge is closed, open it.", "boil", KITCHEN, "open freezer", NOTHING),
    ("If the fridge is open, do not wait.", "boil", KITCHEN, "wait", NOTHING),
    ("If you see a thermometer, pick it up.", "boil", KITCHEN, "pick up thermometer", LIKED),
    ("If you see a thermometer, pick it up.", "boil", KITCHEN, "pick up bowl", NOTHING),
    ("If you see a lamp, do not wait.", "boil", KITCHEN, "wait", NOTHING),
    ("If there is no lamp here, do not wait.", "boil", KITCHEN, "wait", DISLIKED),
    ("When you are in the kitchen, open the freezer.", "boil", KITCHEN, "open freezer", LIKED),
    ("When you are in the kitchen, do not wait.", "boil", HALL, "wait", NOTHING),
    ("Do not wait when you are holding an orange.", "boil", KITCHEN, "wait", DISLIKED),
    ("Do not wait when you hold the thermometer.", "boil", KITCHEN, "wait", NOTHING),
    ("Do not wait unless you hold the thermometer.", "boil", KITCHEN, "wait", DISLIKED),
    ("Do not wait unless you hold the thermometer.", "boil", TAKEN, "wait", NOTHING),
    ("Do not open the freezer until you have focused on the chocolate.", "freeze", KITCHEN, "open freezer", DISLIKED),
    ("Do not open the freezer until you have focused on the chocolate.", "freeze", FOCUSED, "open freezer", NOTHING),
    ("Do not open the freezer before you focus on the chocolate.", "freeze", KITCHEN, "open freezer", DISLIKED),
    ("Do not open the freezer before you focus on the chocolate.", "freeze", FOCUSED, "open freezer", NOTHING),
    ("After opening the fridge, wait.", "boil", KITCHEN, "wait", NOTHING),
    ("After opening the fridge, wait.", "boil", OPENED, "wait", LIKED),
    ("Once you have read the recipe, pick up the bowl.", "mix", KITCHEN, "pick up bowl", NOTHING),
    ("Once you have read the recipe, pick up the bowl.", "mix", READ, "pick up bowl", LIKED),
    ("If the stove is broken, open the freezer; otherwise wait.", "boil", KITCHEN, "open freezer", NOTHING),
    ("If the stove is broken, open the freezer; otherwise wait.", "boil", KITCHEN, "wait", LIKED),
    ("If the stove is broken, open the freezer; otherwise wait.", "boil", BROKEN, "open freezer", LIKED),
    ("If the stove is broken, open the freezer; otherwise wait.", "boil", BROKEN, "wait", NOTHING),
    ("If the temperature is above 50 degrees, do not wait.", "heat", MEASURED, "wait", DISLIKED),
    ("If the temperature is above 90 degrees, do not wait.", "heat", MEASURED, "wait", NOTHING),
    ("If the last action had no effect, do not wait.", "boil", BROKEN, "wait", DISLIKED),
    ("If the last action had no effect, do not wait.", "boil", OPENED, "wait", NOTHING),
    ("If the game asks with numbered options, do not wait.", "boil", ASKED, "wait", DISLIKED),
    ("If the game asks with numbered options, do not wait.", "boil", KITCHEN, "wait", NOTHING),
    # what cannot be told does nothing
    ("If you feel lucky, do not wait.", "boil", KITCHEN, "wait", NOTHING),
    ("When the water is hot enough, do not wait.", "boil", KITCHEN, "wait", NOTHING),
    ("Unless it has been tried, open the freezer.", "boil", KITCHEN, "open bowl", NOTHING),
    # placeholders mean what was named before, else nothing
    ("First teleport to that location.", "boil", HALL, "teleport to kitchen", NOTHING),
    ("Then focus on it.", "boil", KITCHEN, "focus on chocolate", NOTHING),
    ("Do not focus on it.", "boil", KITCHEN, "focus on chocolate", NOTHING),
    ("Open the container.", "boil", KITCHEN, "open fridge", NOTHING),
    ("Move OBJ to CONTAINER.", "boil", KITCHEN, "move chocolate to bowl", NOTHING),
    ("Pick up the thermometer. Do not focus on it.", "boil", KITCHEN, "focus on thermometer", DISLIKED),
    ("Pick up the thermometer. Do not focus on it.", "boil", KITCHEN, "focus on chocolate", NOTHING),
    # what the task names
    ("Focus on the substance named in the task.", "freeze", KITCHEN, "focus on chocolate", LIKED),
    ("Focus on the substance named in the task.", "freeze", KITCHEN, "focus on thermometer", NOTHING),
    ("Focus on what the task names.", "heat", KITCHEN, "focus on thermometer", LIKED),
    ("Move the thermometer to the box named in the task.", "box", KITCHEN, "move thermometer to red box", LIKED),
    ("Teleport to the location named in the task.", "long", HALL, "teleport to outside", LIKED),
    ("Teleport to the location named in the task.", "mix", HALL, "teleport to kitchen", LIKED),
    ("Move each ingredient to the bowl.", "mix", READ, "move sodium chloride to bowl", LIKED),
    ("Only focus on a thing when the task names it.", "freeze", KITCHEN, "focus on thermometer", DISLIKED),
    ("Only focus on a thing when the task names it.", "freeze", KITCHEN, "focus on chocolate", LIKED),
    ("Unless the task names it, avoid focusing on thermometer.", "freeze", KITCHEN, "focus on thermometer", DISLIKED),
    ("Unless the task names it, avoid focusing on the thermometer.", "heat", KITCHEN, "focus on thermometer", NOTHING),
    # sequences
    ("First open the fridge, then open the freezer.", "boil", KITCHEN, "open fridge", LIKED),
    ("First open the fridge, then open the freezer.", "boil", KITCHEN, "open freezer", NOTHING),
    ("First open the fridge, then open the freezer.", "boil", OPENED, "open freezer", LIKED),
    ("First open the fridge. Then open the freezer. Finally wait.", "boil", OPENED, "wait", NOTHING),
    ("In tasks about boiling:\n1. open the fridge\n2. open the freezer", "boil", KITCHEN, "open freezer", NOTHING),
    ("In tasks about boiling:\n1. open the fridge\n2. open the freezer", "boil", OPENED, "open freezer", LIKED),
    ("In tasks about freezing: teleport to the kitchen, focus on it.", "freeze", HALL, "teleport to kitchen", LIKED),
    ("In tasks about paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.",
     "paint", STUDIO, "pour blue paint in jug", LIKED),
    ("In tasks about paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.",
     "paint", STUDIO, "pour yellow paint in jug", NOTHING),
    ("In tasks about paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.",
     "paint", POURED, "pour yellow paint in jug", LIKED),
    ("In tasks about paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.",
     "paint", POURED, "mix jug", NOTHING),
    ("In tasks about paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.",
     "paint", BOTH, "mix jug", LIKED),
    ("In tasks about paint: do not leave the art studio.", "paint", STUDIO, "teleport to hallway", DISLIKED),
    ("In tasks about paint: do not leave the art studio.", "paint", HALL, "teleport to kitchen", NOTHING),
    ("Once the chocolate is in the freezer, wait.", "freeze", FROZEN, "wait", LIKED),
    ("Once the chocolate is in the freezer, wait.", "freeze", KITCHEN, "wait", NOTHING),
    # rankings
    ("Prefer the freezer to the fridge.", "freeze", KITCHEN, "open fridge", DISLIKED),
    ("Prefer the freezer to the fridge.", "freeze", KITCHEN, "open freezer", LIKED),
    ("Prefer the lamp to the fridge.", "freeze", KITCHEN, "open fridge", NOTHING),
    ("Open the freezer rather than the fridge.", "freeze", KITCHEN, "open fridge", DISLIKED),
    ("In tasks about boiling: prefer opening the fridge to waiting.", "boil", KITCHEN, "wait", DISLIKED),
    ("In tasks about boiling: prefer opening the fridge to waiting.", "freeze", KITCHEN, "wait", NOTHING),
    ("Open every closed container before you leave the room.", "mix", KITCHEN, "teleport to hallway", DISLIKED),
    ("Open every closed container before you leave the room.", "mix", KITCHEN, "open freezer", LIKED),
    ("Open every closed container before you leave the room.", "mix", STUDIO, "teleport to hallway", NOTHING),
    # repeating
    ("Do not repeat an action that had no effect.", "boil", BROKEN, "activate stove", DISLIKED),
    ("Do not repeat an action that had no effect.", "boil", OPENED, "open fridge", NOTHING),
    ("Do not repeat an action that had no effect.", "boil", KITCHEN, "wait", NOTHING),
]  # fmt: skip
POSSIBLE = ["open fridge", "open freezer", "wait", "teleport to hallway", "focus on chocolate"]


@pytest.mark.parametrize(("advice", "task", "history", "action", "expected"), CASES)
def test_what_an_advice_says_of_an_action(advice, task, history, action, expected):
    goals, scene = parse_task_goals(TASKS[task]), build_scene(f"Step #1:\n{history}")
    update_notes(scene, goals, ParsedPrompt(PromptLayout("", {}, "chat"), {}, (), ""))
    read = read_advice(advice)
    said = read_orders([read], Situation(goals, scene)).score(action, POSSIBLE)
    said += score_by_advice(action, read.plain)
    assert {True: LIKED, False: DISLIKED}.get(said > 0.6 if abs(said) > 0.6 else None, NOTHING) == expected


@pytest.mark.parametrize("text", ["the " * 20_000, "if a, " * 5_000, "open " * 20_000, "a, " * 20_000])
def test_a_text_that_is_no_sentence_orders_nothing(text):
    """And is read in a time that grows with its length alone."""
    assert not any(clause.command for clause in read_advice(f"Then {text}.").clauses)
