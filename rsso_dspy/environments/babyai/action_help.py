"""What prompts say of actions."""

ACTION_TEMPLATES = (
    "Each action is one line in the form of a template. NAME is colour and kind as observed, e.g. red ball; that of a "
    "door has its state, e.g. red closed door. N is a number, 1 for the nearest: of doors that to go through as "
    "observed, of other actions among those of that name that can be reached.\n"
    "go to, pickup: walk up to a thing that is seen, and face it or take it. Only one thing is carried at a time.\n"
    "drop: puts what is carried into the empty cell ahead.\n"
    "toggle: opens or closes the door ahead; toggle and go through: walks up to a door, opens it and steps into the "
    "doorway. A locked door needs the key of its colour in hand.\n"
    "Only what is in sight and not behind a closed door is observed: turn, move on and open doors to see more.\n"
    "Templates:\nturn left\nturn right\nmove forward\npickup NAME N\ndrop\ntoggle\ngo through NAME N\n"
    "toggle and go through NAME N\ngo to NAME N\ncheck available actions"
)
