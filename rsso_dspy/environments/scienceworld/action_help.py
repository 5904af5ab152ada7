"""The action templates of the interface `complete`: all that the simulator offers, with short explanations."""

from collections.abc import Iterable

WITHHELD = frozenset({"reset task"})
"""Templates of the simulator that no actor may use."""

SLOTS = {
    "dunk OBJ in OBJ": "dunk CONTAINER in OBJ",
    "go OBJ": "go LOCATION",
    "mix OBJ": "mix CONTAINER",
    "move OBJ to OBJ": "move OBJ to CONTAINER",
    "pour OBJ in OBJ": "pour OBJ in CONTAINER",
    "teleport OBJ": "teleport LOCATION",
}
"""The simulator's wording of a template to that in the prompt."""

NAMING = """\
Each action follows one of the templates below, one action at a time. OBJ stands for something that you can see or \
carry, CONTAINER for something that can hold things, LOCATION for a room.
Names are short: `tin` for "a substance called tin", `recipe` for "a recipe titled ...". Where things share a name, \
add what tells them apart without parentheses: `wood cup containing red paint`, `orange in inventory`. No parentheses, \
quotes or final period.
If the game asks which of several actions you mean, answer with the number of an option alone. Anything else takes the \
question back, which costs a moment."""

NOTES = {
    "focus on OBJ": "focus on tells the task which thing you mean; it is not a way to look at something. Use it only "
    "on what the task asks you to focus on: focusing on anything else fails the task for good.",
    "look around": "look around shows the room you are in and takes no time; look at shows one thing, look in what it "
    "holds.",
    "use OBJ on OBJ": "use is for tools: `use thermometer on OBJ` measures a temperature.",
    "mix OBJ": "mix combines what a container holds; pour and move bring things into one.",
    "connect OBJ to OBJ": "connect joins electrical parts, disconnect takes one off.",
    "teleport OBJ": "teleport reaches any room at once; go leads through an open door of this one.",
    "wait": "wait lets 10 moments pass and wait1 a single one, for example until something has heated up or grown.",
}
"""Template of the simulator to a note about it, in the order of the notes."""


USUAL = "\n".join([NAMING, *NOTES.values()])
"""The part of the text that all variants share."""


def describe_actions(offered: Iterable[str]) -> str:
    """Render the action_templates region for a variant with these templates of the simulator."""
    listed = [template for template in offered if template not in WITHHELD]
    notes = (note for template, note in NOTES.items() if template in listed)
    return "\n".join([NAMING, *notes, "Templates:", *(SLOTS.get(template, template) for template in listed)])
