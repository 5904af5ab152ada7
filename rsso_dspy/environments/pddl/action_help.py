"""What prompts say of actions, domain by domain: what each does and needs, then its form."""

COMMON = (
    "Each action is one line in the form of a template, with objects under the names that the observations give them. "
    "An action whose conditions are not met takes no effect and costs a step, and so does a question."
)
_QUESTIONS = "check valid actions"

_HELP = {
    "gripper": (
        "move: the robot goes from the room it is in to another one, with what it carries.\n"
        "pick up: takes a ball of the room the robot is in with an arm that is free. An arm carries one ball.\n"
        "drop: leaves a carried ball in the room the robot is in, and the arm is free again.",
        "move from ROOM to ROOM\npick up BALL at ROOM with arm ARM\ndrop BALL ROOM ARM",
    ),
    "blockworld": (
        "pickup: takes a clear block from the table; unstack: takes a clear block from the block it stands on. Either "
        "needs an empty arm.\n"
        "putdown: puts the held block on the table; stack: puts it on a clear block.",
        "pickup BLOCK\nputdown BLOCK\nstack BLOCK on BLOCK\nunstack BLOCK from BLOCK",
    ),
    "barman": (
        "grasp, leave: a hand takes a shot glass or the shaker from the table, or puts it back. A hand holds one.\n"
        "fill-shot: fills a clean, empty glass in one hand from a dispenser; refill-shot: an empty glass that held the "
        "same before. The other hand has to be empty, as it has for cleaning and shaking.\n"
        "empty-shot: pours a glass away; clean-shot: cleans an empty glass of what was in it.\n"
        "pour-shot-to-clean-shaker: pours a glass into a clean, empty shaker; pour-shot-to-used-shaker: adds to what "
        "is in it. Each raises its level by one.\n"
        "shake: makes the cocktail of its part1 and part2 ingredient, both in the shaker.\n"
        "pour-shaker-to-shot: pours it into a clean, empty glass, and the level falls by one. The drink is named "
        "before the glass.\n"
        "empty-shaker, clean-shaker: make the shaker ready for the next cocktail.",
        "left grasp CONTAINER\nright grasp CONTAINER\nleft leave CONTAINER\nright leave CONTAINER\n"
        "fill-shot glass SHOT with INGREDIENT with HAND and HAND holding DISPENSER\n"
        "refill-shot SHOT with INGREDIENT with HAND and HAND holding DISPENSER\n"
        "use hand HAND to empty-shot glass SHOT with beverage BEVERAGE\n"
        "clean-shot glass SHOT with BEVERAGE with hand HAND holding shot glass and HAND\n"
        "pour-shot-to-clean-shaker from a shot glass SHOT with INGREDIENT to a clean shaker SHAKER with hand HAND "
        "from level LEVEL to level LEVEL\n"
        "pour-shot-to-used-shaker from a shot glass SHOT with INGREDIENT to a used shaker SHAKER with hand HAND "
        "from level LEVEL to level LEVEL\n"
        "shake a cocktail COCKTAIL with ingredient PART1 and ingredient PART2 in a shaker SHAKER with hand HAND "
        "and hand HAND\n"
        "pour-shaker-to-shot to a shot glass BEVERAGE the ingredient SHOT with hand HAND from shaker SHAKER "
        "from level LEVEL to level LEVEL\n"
        "use hand HAND to empty-shaker SHAKER with ingredient COCKTAIL from level LEVEL to level LEVEL\n"
        "use hand HAND and hand HAND to clean-shaker SHAKER\nlook around",
    ),
    "tyreworld": (
        "open, close: a container that is not locked; fetch, put-away: only while it is open.\n"
        "loosen, tighten: a nut, with the wrench, while its hub is on the ground.\n"
        "jack-up: raises a hub with the jack, which stays under it until jack-down.\n"
        "undo, do-up: takes a loose nut off a raised hub, or puts it on, with the wrench.\n"
        "remove-wheel, put-on-wheel: on a raised hub whose nut is off.\n"
        "inflate: an intact wheel, with the pump.",
        "open CONTAINER\nclose CONTAINER\nfetch THING from CONTAINER\nput-away THING in CONTAINER\n"
        "loosen the nut NUT on the hub HUB\ntighten the nut NUT on the hub HUB\njack-up the hub HUB\n"
        "jack-down the hub HUB\nundo the fastening of the nut NUT on the hub HUB\ndo-up the nut NUT on the hub HUB\n"
        "remove-wheel WHEEL from the hub HUB\nput-on-wheel WHEEL on the hub HUB\ninflate the wheel WHEEL\nlook around",
    ),
}

ACTION_TEMPLATES = {
    domain: f"{COMMON}\n{told}\nTemplates:\n{forms}\n{_QUESTIONS}" for domain, (told, forms) in _HELP.items()
}
"""By domain."""
