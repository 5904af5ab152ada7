"""What an actor may do in ScienceWorld, and how its wording is repaired.

The simulator's parser is strict about small words: it knows "look in bag" and not "look into the bag.". An action is
sent as written first. Only when the parser did not know it, which costs no time and changes nothing in the world, is it
compared with the valid actions, so that their list, the dearest thing to ask of the simulator, is rarely needed.
(The SSO reference compares first. The outcome is the same, see the tests, up to chance: listing draws random numbers,
after which bees, in the genetics tasks, fly another way.)
"""

import re
from collections.abc import Iterable

ACTION_TEMPLATES = """\
Each action follows one of the templates below. OBJ stands for an object that you can see or carry, CONTAINER for \
something that can hold objects, LOCATION for a room (an adjacent one for go).
Careful with focus on: it tells the task which object you mean, and is not a way to look at something. Use it only on \
what the task asks you to focus on; focusing on anything else fails the task for good.
Use wait to let time pass, for example until something has heated up or grown.
Templates:
read OBJ
activate OBJ
deactivate OBJ
open OBJ
close OBJ
pick up OBJ
look in OBJ
focus on OBJ
move OBJ to CONTAINER
pour OBJ in CONTAINER
mix CONTAINER
teleport LOCATION
go LOCATION
wait"""

VERBS = (
    *(
        "activate",
        "close",
        "connect",
        "deactivate",
        "disconnect",
        "dunk",
        "eat",
        "examine",
        "flush",
        "focus",
        "get",
        "go",
    ),
    *(
        "inventory",
        "look",
        "mix",
        "move",
        "open",
        "pick",
        "pour",
        "put",
        "read",
        "take",
        "task",
        "teleport",
        "turn",
        "use",
    ),
    *("wait", "wait1", "walk"),
)
"""Words that an action may begin with, those of no template among them."""

NOT_KNOWN = "No known action matches that input."
"""Answer of the parser to a text that it can make nothing of. Nothing has happened, no time has passed."""

AMBIGUOUS = "Ambiguous request:"
"""How an answer begins, or goes on, that asks to choose among numbered readings of the action."""

NO_EFFECT = "Unknown action."
"""How the answer begins when an action left no text: most often an ambiguous request that was not resolved."""

CANCEL = "cancel"
"""Answer to an ambiguous request that takes the action back; anything but a number would do."""

FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})

_PUNCTUATION = ".,!?\"')(}{][:; \t\n"


LONGEST = 300
"""Characters of an action that are sent at most; the longest valid ones have fewer than half as many."""


def clean_action(action: str) -> str:
    """The action as one lower-case line of printable characters, of bounded length, that can be sent: whatever a model
    says is data."""
    line = " ".join(action[: 10 * LONGEST].encode("utf-8", "replace").decode().lower().split())
    return "".join(character for character in line if character.isprintable())[:LONGEST]


def normalize_action(action: str) -> str:
    """The action without what does not matter when two are compared: case, punctuation around words, fill words."""
    words = (word.strip(_PUNCTUATION) for word in action.lower().split())
    return " ".join(word for word in words if word and word not in FILL_WORDS)


def find_equal_action(action: str, valid: Iterable[str]) -> str | None:
    """The valid action, in the simulator's spelling, that equals the given one after normalization, if any."""
    wanted = normalize_action(action)
    return next((candidate for candidate in valid if normalize_action(candidate) == wanted), None)


def resolve_ambiguity(action: str) -> str:
    """The answer to an ambiguous request: the first integer in the action, or else a word that cancels the request."""
    digits = re.search(r"\d+", action, re.ASCII)
    return digits.group() if digits else CANCEL


def is_task_reset(action: str) -> bool:
    """Whether the simulator, or the repair, could take this for ``reset task``. That input sets back the goals that
    were reached, so that their points can be won again and again; no actor may send it. The parser skips white space,
    control characters and articles, hence the comparison by letters alone."""
    words = re.findall(r"[a-z]+", action.lower())
    return "".join(word for word in words if word not in FILL_WORDS) == "resettask"


def is_understood(answer: str) -> bool:
    """Whether the simulator made something of the action. A request to resolve an ambiguity counts as understood."""
    return not answer.startswith((NOT_KNOWN, NO_EFFECT))
