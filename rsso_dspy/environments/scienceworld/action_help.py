"""The action templates of the interface `complete`: everything that the simulator offers, explained in few words."""

from collections.abc import Iterable

WITHHELD = frozenset({"reset task"})
"""What the simulator offers and no actor may send."""

SLOTS = {
    "dunk OBJ in OBJ": "dunk CONTAINER in OBJ",
    "go OBJ": "go LOCATION",
    "mix OBJ": "mix CONTAINER",
    "move OBJ to OBJ": "move OBJ to CONTAINER",
    "pour OBJ in OBJ": "pour OBJ in CONTAINER",
    "teleport OBJ": "teleport LOCATION",
}
"""How the simulator words a template to how it stands in the prompt."""

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
"""Template of the simulator's to what is to be known of it, in the order in which the notes stand."""


USUAL = "\n".join([NAMING, *NOTES.values()])
"""What the text says of actions in any variant."""


def describe_actions(offered: Iterable[str]) -> str:
    """The text of the action_templates region for a variant in which the simulator offers these templates."""
    listed = [template for template in offered if template not in WITHHELD]
    notes = (note for template, note in NOTES.items() if template in listed)
    return "\n".join([NAMING, *notes, "Templates:", *(SLOTS.get(template, template) for template in listed)])
