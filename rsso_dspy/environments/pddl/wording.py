"""An action read out of a text, as AgentBoard's games read it.

The first word that is the name of an action that can be taken now says what is done; the names of objects, in the
order in which they stand anywhere in the text, say with what.
"""

import re
from collections.abc import Collection, Mapping

_APART = re.compile(r"[\[\](){}<>;@#$%&?!\"“”«»]|\.\.\.|--|[:,](?!\d)|\.(?=[\])}>\"'\s]|$)|``|''|…")
_ENDING = re.compile(r"(?:'(?:s|m|d|ll|re|ve)?|n't|')$")


def split_words(text: str) -> list[str]:
    """Words in lower case, as the usual tokenizer of the games splits them: punctuation stands apart, hyphens and
    underscores do not."""
    return [bare for word in _APART.sub(" ", text.lower()).split() if (bare := _ENDING.sub("", word))]


def read_action(text: str, arities: Mapping[str, int], objects: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Name and objects of the action that a text asks for. ``arities``: the actions that can be taken now, with how
    many objects they take. None when it names none of them, or too few objects."""
    words = split_words(text)
    name = next((word for word in words if word in arities), None)
    named = [word for word in words if word in objects]
    if name is None or len(named) < arities[name]:
        return None
    return name, tuple(named[: arities[name]])
