"""What can be done from a view, as lists of minigrid's moves, and what is answered to some that cannot."""

from collections import Counter
from dataclasses import dataclass, field

from rsso_dspy.environments.babyai.paths import AHEAD, LEFT, RIGHT, Paths
from rsso_dspy.environments.babyai.view import Thing, View

PICKUP, DROP, TOGGLE = 3, 4, 5
CHECK = "check available actions"
BARRIER = "There is a barrier in front of you, you can't move forward."
_CANNOT = "You cannot"
_NO_PATH = "as there is no path leading to it."
_IN_THE_WAY = ("wall", "box", "lava", "ball", "key")


@dataclass(frozen=True, eq=False)
class Offer:
    """What can be done now."""

    moves: dict[str, list[int]] = field(default_factory=dict)
    """Action to moves, in the order in which they are listed."""
    messages: dict[str, str] = field(default_factory=dict)
    """Action that cannot be done to what is answered."""


def list_actions(view: View) -> Offer:
    """The actions of a view."""
    offer = Offer({"turn left": [LEFT], "turn right": [RIGHT]})
    paths = Paths(view)
    if view.barrier is not None and view.barrier.ahead <= 1:
        offer.messages["move forward"] = BARRIER
    else:
        offer.moves["move forward"] = [AHEAD]
    if not view.carrying:
        _offer_things(offer, view, paths, "pickup", [PICKUP])
    _offer_drop(offer, view)
    counts: Counter[str] = Counter()
    for thing, number in view.listed:
        if thing.kind == "door":
            counts[thing.name] += 1
            _offer_door(offer, view, paths, thing, number, dict(counts))
    for thing, _ in view.listed:
        if thing.kind == "goal":
            path = paths.find_path_into(view.locate(thing))
            if path is not None:
                offer.moves["go to goal"] = path
    _offer_things(offer, view, paths, "go to", [])
    offer.moves[CHECK] = []
    return offer


def _offer_things(offer: Offer, view: View, paths: Paths, verb: str, last: list[int]) -> None:
    """The action for every thing that can be reached; only those are counted."""
    counts: Counter[str] = Counter()
    for thing, number in view.listed:
        if verb == "pickup" and thing.kind not in ("key", "ball", "box"):
            continue
        path = paths.find_path_before(view.locate(thing))
        if path is None:
            action = f"{verb} {thing.name} {number}"
            offer.messages[action] = f"{_CANNOT} {action}, {_NO_PATH}"
        else:
            counts[thing.name] += 1
            offer.moves[f"{verb} {thing.name} {counts[thing.name]}"] = path + last


def _offer_drop(offer: Offer, view: View) -> None:
    ahead = view.facing_thing
    if not view.carrying:
        offer.messages["drop"] = f"{_CANNOT} drop the object, as you are not carrying anything."
    elif ahead is not None and ahead.kind in _IN_THE_WAY:
        offer.messages["drop"] = f"{_CANNOT} drop the object, as there is already an object in front of you."
    else:
        offer.moves["drop"] = [DROP]


def _offer_door(offer: Offer, view: View, paths: Paths, door: Thing, number: int, counts: dict[str, int]) -> None:
    through, toggle = f"go through {door.name} {number}", f"toggle and go through {door.name} {number}"
    cell = view.locate(door)
    if door.state == "open":
        path = paths.find_path_into(cell)
        if path is None:
            offer.messages[through] = f"{_CANNOT} {through}, {_NO_PATH}"
        else:
            offer.moves[through] = path
        return
    if door.state == "closed":
        offer.messages[through] = f"{_CANNOT} {through}, as it is closed. You should toggle it first."
    elif not view.carrying.endswith(" key"):
        offer.messages[toggle] = f"{_CANNOT} {toggle}, as you are not carrying a key."
        return
    elif view.carrying != f"{door.color} key":
        offer.messages[toggle] = (
            f"{_CANNOT} {toggle}, as the color of the key you are carrying does not match the color of door."
        )
        return
    path = paths.find_path_before(cell)
    if path is None:  # the recorded games print the counts in place of the number
        offer.messages[toggle] = f"{_CANNOT} toggle and go through {door.name} {counts}, {_NO_PATH}"
        return
    offer.moves[toggle] = [*path, TOGGLE, AHEAD]
    if not path:
        offer.moves["toggle"] = [TOGGLE]
