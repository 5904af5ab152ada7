"""What prompts say of actions, in the wording of either interface."""

_HELP = (
    "Each action is one line in the form of a template. OBJECT and PLACE are names with their numbers as observed, "
    "e.g. mug 1 or cabinet 3.\n"
    "go to: walk to a place, and see what is on it, or in it when it is open. Everything else happens where one is.\n"
    "take: pick up one thing; only one can be carried. {put}: leave the carried thing; the place has to be open.\n"
    "clean, heat, cool: with the carried thing in hand, at a sinkbasin, a microwave or a fridge, which need not be "
    "opened for it.\n"
    "use: turn on a lamp. slice: needs a knife in hand.\n"
    "An action that cannot be done is answered 'Nothing happens.' and costs a step.\n"
    "Templates:\ngo to PLACE\nopen PLACE\nclose PLACE\ntake OBJECT from PLACE\n{form}\nclean OBJECT with PLACE\n"
    "heat OBJECT with PLACE\ncool OBJECT with PLACE\nuse OBJECT\nslice OBJECT with OBJECT\nexamine OBJECT\n"
    "examine PLACE\nlook\ninventory\nhelp\ncheck valid actions"
)

PUBLISHED = _HELP.format(put="put", form="put OBJECT in/on PLACE")
"""As in everything published."""

RECENT = _HELP.format(put="move", form="move OBJECT to PLACE")
"""As games since 2.1.2 say it."""
