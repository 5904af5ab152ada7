"""Plays a world of blocks that one arm builds into towers."""

import re
from collections.abc import Iterator, Sequence

from rsso_dspy.explorer.worlds.world import Deed, Habit, View, Wording, World, read_whole

_WORDING = Wording(
    {
        "table": "{} is on the table",
        "on": "{} is on {}",
        "clear": "the {} is clear",
        "hand": "you are holding {}",
        "empty": "your arm is empty",
    }
)
_DONE = re.compile(r"\b(stack|unstack) (\S+) (?:on|from) (\S+)")


def _propose(view: View) -> Iterator[tuple[str, str]]:
    wanted = {fact[1]: fact[2] for fact in _WORDING.read(view.task) if fact[0] == "on"}
    below = {fact[1]: fact[2] for fact in view.select("on")}
    held = next((fact[1] for fact in view.select("hand")), "")
    block = _choose_block(view, wanted, below)
    if not block:
        return
    base, ordered = wanted[block], "bottom first" in view.habits
    if held:
        own = wanted.get(held, "")
        if own and view.holds("clear", own) and (held == block or (ordered and _is_settled(own, wanted, below))):
            yield f"stack {held} on {own}", block
        yield f"putdown {held}", block
        return
    above = {under: over for over, under in below.items()}
    for buried in (base, block):
        top = buried
        while top in above:
            top = above[top]
        if top != buried:
            yield f"unstack {top} from {below[top]}", block
    yield (f"unstack {block} from {below[block]}" if block in below else f"pickup {block}"), block


def _choose_block(view: View, wanted: dict[str, str], below: dict[str, str]) -> str:
    """The block to move to its place. Without the habit the player keeps its aim, or picks a block at random."""
    left = [block for block in wanted if below.get(block) != wanted[block]]
    left.sort(key=view.draw)
    if "bottom first" in view.habits:
        standing = [block for block in wanted if not _is_settled(block, wanted, below)]
        return next((block for block in standing if _is_settled(wanted[block], wanted, below)), "")
    return view.aim if view.aim in left else next(iter(left), "")


def _is_settled(block: str, wanted: dict[str, str], below: dict[str, str]) -> bool:
    """Whether the block and all below it are in their places."""
    while block in wanted:
        if below.get(block) != wanted[block]:
            return False
        block = wanted[block]
    return True


def _took_down_again(deeds: Sequence[Deed]) -> bool:
    stacked: set[tuple[str, str]] = set()
    for deed in deeds:
        match = None if deed.failed else _DONE.search(deed.action)
        if match and match[1] == "stack":
            stacked.add((match[2], match[3]))
        elif match and (match[2], match[3]) in stacked:
            return True
    return False


WORLD = World(
    "blockworld",
    re.compile(
        r"(?m)your arm is empty|you are holding \w+\.\s+the |\b(?:unstack \w+ from|stack \w+ on) \w+"
        r"|^(?:pickup|putdown) \w+$"
    ),
    _WORDING,
    read_whole(_WORDING),
    _propose,
    (
        Habit(
            "bottom first",
            r"from the bottom|bottom (?:up|first|block)|lowest block first"
            r"|stack (\w+) on \w+\W+pickup (\w+)\W+stack \2 on \1",
            "Build each tower from the bottom up: the lowest block of the goal first.",
            _took_down_again,
        ),
    ),
)
