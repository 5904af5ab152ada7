"""ScienceWorld's action templates, repair of an action's wording, and the possible actions.

The simulator's parser is strict about small words: it knows "look in bag" but not "look into the bag.". An action is
first sent as written. If the parser does not know it, which takes no time and changes nothing in the world, it is
compared with the valid actions. So their list, the most expensive request to the simulator, is rarely needed. (The SSO
reference compares first. The outcome is the same, see the tests, except for chance: listing draws random numbers, which
changes the flight of bees in the genetics tasks.)

The simulator's list of possible actions also names things in closed containers and drains, which its parser does not
know and an actor cannot have seen: a third of the actions in the kitchen. So every name in an action must be one that
can be referred to: ``keep_in_sight(keep_templates(valid, templates), templates, names, look)``.
"""

import re
from collections.abc import Collection, Iterable

from rsso_dspy.records import State

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

_FIRST_WORDS = (
    "activate close connect deactivate disconnect dunk eat examine flush focus get go inventory look mix move open "
    "pick pour put read take task teleport turn use wait wait1 walk"
)
VERBS = tuple(_FIRST_WORDS.split())
"""Possible first words of an action, including words of no template."""

NOT_KNOWN = "No known action matches that input."
"""The parser's answer to an unknown text. Nothing has happened and no time has passed."""

AMBIGUOUS = "Ambiguous request:"
"""Text of an answer that asks to choose among numbered readings of the action."""

NO_EFFECT = "Unknown action."
"""Start of the answer to an action without an effect text, usually an unresolved ambiguous request."""

CANCEL = "cancel"
"""Answer that cancels an ambiguous request; any text without a number would do."""

FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})

OPTION = re.compile(r"^\s*(\d+):", re.M)
"""Start of a line of a numbered question."""
CLOSED = re.compile(r"The ([\w ]+?) door is closed")
EVERYWHERE = ("teleport", "go")
"""Verbs whose objects need not be in sight."""
JOINS = re.compile(r" (?:in|into|to|on|with|from|containing) ")
"""Words between the names of an action: ``move cup containing water in sink to bowl``."""
ALWAYS = frozenset({"nothing", "inventory"})
"""Words of a name that are not things."""
_PUNCTUATION = ".,!?\"')(}{][:; \t\n"


LONGEST = 300
"""Maximum characters sent per action; the longest valid actions have less than half as many."""


def clean_action(action: str) -> str:
    """Sanitize an action: one lower-case line of printable characters of bounded length."""
    line = " ".join(action[: 10 * LONGEST].encode("utf-8", "replace").decode().lower().split())
    return "".join(character for character in line if character.isprintable())[:LONGEST]


def normalize_action(action: str) -> str:
    """Normalize an action for comparison: no case, punctuation around words, or fill words."""
    words = (word.strip(_PUNCTUATION) for word in action.lower().split())
    return " ".join(word for word in words if word and word not in FILL_WORDS)


def find_equal_action(action: str, valid: Iterable[str]) -> str | None:
    """Return the valid action, in the simulator's spelling, that equals the given one after normalization, or None."""
    wanted = normalize_action(action)
    return next((candidate for candidate in valid if normalize_action(candidate) == wanted), None)


def resolve_ambiguity(action: str) -> str:
    """Return the answer to an ambiguous request: the first integer in the action, or a word that cancels it."""
    digits = re.search(r"\d+", action, re.ASCII)
    return digits.group() if digits else CANCEL


def is_task_reset(action: str) -> bool:
    """Return whether the simulator or the repair could read this as ``reset task``.

    That input resets reached goals, so their points could be earned repeatedly; no actor may send it. The parser skips
    white space, control characters and articles, so only letters are compared.
    """
    words = re.findall(r"[a-z]+", action.lower())
    return "".join(word for word in words if word not in FILL_WORDS) == "resettask"


def is_understood(answer: str) -> bool:
    """Return whether the simulator understood the action. A question about an ambiguity counts as understood."""
    return not answer.startswith((NOT_KNOWN, NO_EFFECT))


def keep_templates(valid: Iterable[str], templates: str) -> list[str]:
    """Keep the valid actions that fit a template. Small words may differ: the simulator says ``pour OBJ into OBJ``."""
    forms = _read_forms(templates)
    begin = tuple(words + " " for words, filled in forms if filled)
    whole = {words for words, filled in forms if not filled}
    return [action for action in valid if action in whole or action.startswith(begin)]


def keep_in_sight(kept: Iterable[str], templates: str, names: Collection[str], look: str = "") -> list[str]:
    """Keep the actions whose things can all be referred to.

    `names` are the simulator's names of things; `look`, the listing of the room, shows closed containers.
    """
    verbs = sorted((words for words, filled in _read_forms(templates) if filled), key=len, reverse=True)
    known = {*names, *ALWAYS}
    closed = "|".join(re.escape(name.split()[-1]) for name in CLOSED.findall(look))
    shut_in = re.compile(rf"\bin (?:\w+ )?(?:{closed})\b") if closed else None

    def in_sight(action: str) -> bool:
        verb = next((verb for verb in verbs if action.startswith(f"{verb} ")), None)
        if verb is None or verb in EVERYWHERE:
            return True
        words = action[len(verb) + 1 :]
        if shut_in and shut_in.search(words):
            return False
        return all(name in known for name in _split_names(words, known))

    return [action for action in kept if in_sight(action)]


def list_numbers(question: str) -> list[str]:
    """Return the numbers that answer a question about an action."""
    return OPTION.findall(question)


def _split_names(words: str, known: Collection[str]) -> list[str]:
    """Split the names after a verb: ``orange in bowl to door to hallway`` is orange, bowl and door to hallway."""
    parts, names = JOINS.split(words), []
    joins = JOINS.findall(words)
    while parts:
        name, used = parts[0], 1
        for more in range(1, len(parts)):  # a name may contain such a word itself
            longer = "".join(part for pair in zip(parts, [*joins[:more], ""], strict=False) for part in pair)
            if longer in known:
                name, used = longer, more + 1
        names.append(name)
        parts, joins = parts[used:], joins[used:]
    return names


def _read_forms(templates: str) -> list[tuple[str, bool]]:
    """Return the words of each template before its first placeholder, and whether it has one."""
    lines = [line.strip() for line in templates.partition("Templates:\n")[2].splitlines() if line.strip()]
    split = [re.split(r"\s*\b[A-Z]{2,}\b", line, maxsplit=1) for line in lines]
    return [(parts[0], len(parts) > 1) for parts in split]


_PLACE = re.compile(
    r"(?:room|location) is called (?:the )?([a-z0-9 ]+)|You (?:arrive at|teleport to|move to) (?:the )?([a-z0-9 ]+)",
    re.I,
)


def name_place(state: State) -> str:
    """The room that a state's texts name last; empty if they name none."""
    named = _PLACE.findall(f"{state.observation}\n{state.look}")
    return next((called or led for called, led in reversed(named)), "").strip().lower()
