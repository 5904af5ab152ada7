"""One prompt of every role, with texts as the simulator and the agent write them."""

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.offline import Explorer
from rsso_dspy.signatures import ErrorRule

TEMPLATES = "Templates:\nopen OBJ\npick up OBJ\nfocus on OBJ\nmove OBJ to CONTAINER\nteleport LOCATION\nwait"
HALLWAY = """\
This room is called the hallway.
You also observe:
\ta door to the workshop (that is open)
\ta door to the kitchen (that is open)
\ta door to the bedroom (that is open)
\ta picture
\tan orange in your inventory"""
KITCHEN = """\
This room is called the kitchen.
You also observe:
\ta counter. on the counter is: a bowl (containing a red apple, a banana), a drawer
\ta fridge. the fridge door is closed
\ta freezer. the freezer door is closed
\ta door to the hallway (that is open)
\ta red box (containing nothing)
\ta blue box (containing nothing)
\tan orange in your inventory"""
TRANSCRIPT = """\
This room is called the hallway. In it, you see:
\ta picture
You also see:
\tA door to the kitchen (that is open)
\tA door to the bedroom (that is open)
In your inventory, you see:
\tan orange
Step 1. > teleport to bedroom
You teleport to the bedroom.
Step 2. > teleport to kitchen
You teleport to the kitchen.
Step 3. > open cupbord
No known action matches that input.
Step 4. > focus on thermometer
You focus on the thermometer.
Step 5. > focus on red box
You focus on the red box."""
OUTCOME = (
    "Failed: the environment ended the attempt at an environment score of -100 of 100. "
    "The score changed at: step 2 (+8), step 4 (+25), step 5 (-133)."
)
EXAMPLES = """\
Excerpt 1
Initial state:
This room is called the hallway.
Action 1: teleport to kitchen
Observation 1: You teleport to the kitchen.
Action 2: pick up red cup
Observation 2: You move the red cup to the inventory.
Final state:
You move the red cup to the inventory.

Excerpt 2
Initial state:
This room is called the bedroom.
Action 1: teleport to workshop
Observation 1: You teleport to the workshop.
Action 2: pick up blue cup
Observation 2: You move the blue cup to the inventory.
Final state:
You move the blue cup to the inventory."""

REGIONS = {
    "constitution": ["A thermometer measures what it is used on."],
    "plans_from_past_attempts": [
        "Attempt 1: The steps after the last gain earned nothing.\nDo not teleport to bedroom."
    ],
    "task": "Your task is to find a(n) plant. First, focus on the thing. Then, move it to the red box in the kitchen.",
    "progress": "- Known: the thing is in the kitchen.",
    "action_templates": TEMPLATES,
    "skills": ["Subgoal 1: The fridge is open.\n1. teleport to kitchen\n2. open fridge"],
    "history": [],
    "observation": HALLWAY,
    "earlier_plans": [],
    "transcript": TRANSCRIPT,
    "outcome": OUTCOME,
    "examples": EXAMPLES,
    "summary": "Two cups & <what> is done with them",
    "skill_name": "pick up cup",
    "steps": ["teleport to LOCATION", "pick up cup"],
    "library": "1. Target: A cup is held. Instructions: pick up cup\n2. Target: A door opens. Instructions: open door",
    "new_skill": "Target: a door opens. Instructions: open door",
    "known_rules": [],
    "loops": "",
    "task_type": "find-plant",
    "known_never": [],
    "known_always": [],
    "known_strategy": "",
    "plans": "Attempt 1: Do not open wall.",
    "gathered_abstract_rules": ["Doors open.", "Doors open!", "Water boils."],
    "gathered_error_rules": [ErrorRule(mistake="open wall", solution="open the door")],
}

ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter}


@pytest.fixture
def ask():
    """``ask(signature, seed=, adapter=, temperature=, demos=, **regions)``: what the engine answers, parsed. A region
    given as None is removed from the signature; a history is a list of what was seen and the action that followed."""

    def call(signature, *, seed=0, adapter="chat", temperature=0.0, demos=(), **regions):
        for name in [name for name, text in regions.items() if text is None]:
            signature = signature.delete(name)
        given = {name: regions.get(name, REGIONS.get(name, "")) for name in signature.input_fields}
        if "history" in given:
            turns = [{"observation": seen, "thought": "-", "action": action} for seen, action in given["history"]]
            given["history"] = dspy.History(messages=turns)
        lm = dspy.LM("embedded/explorer", engine=Explorer(seed), cache=False, temperature=temperature)
        with dspy.context(lm=lm, adapter=ADAPTERS[adapter]()):
            return dspy.Predict(signature)(**given, demos=list(demos))

    return call
