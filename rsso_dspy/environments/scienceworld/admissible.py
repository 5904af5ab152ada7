"""The possible actions: those of the simulator's list that fit the prompt's templates and visible things.

    keep_in_sight(keep_templates(valid, templates), templates, names, look)

The simulator's list also names things in closed containers and drains, which its parser does not know and an actor
cannot have seen: a third of the actions in the kitchen. So every name in an action must be one that can be referred to.
"""

import re
from collections.abc import Collection, Iterable

OPTION = re.compile(r"^\s*(\d+):", re.M)
"""Start of a line of a numbered question."""
CLOSED = re.compile(r"The ([\w ]+?) door is closed")
EVERYWHERE = ("teleport", "go")
"""Verbs whose objects need not be in sight."""
JOINS = re.compile(r" (?:in|into|to|on|with|from|containing) ")
"""Words between the names of an action: ``move cup containing water in sink to bowl``."""
ALWAYS = frozenset({"nothing", "inventory"})
"""Words of a name that are not things."""


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
