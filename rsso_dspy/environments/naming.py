"""How the texts of a benchmark name things. The defaults are plain English; a benchmark gives what it words otherwise.

Grammar.from_templates(text, Naming(roles=frozenset({"door", "key", "thing"})))
"""

from dataclasses import dataclass

__all__ = ["Naming"]

_AFTER = r"(?=\s*(?:[(.,:;\n]|$)| (?:which|that|in|on|is|to|of|appears|has|directly)\b)"


@dataclass(frozen=True, slots=True)
class Naming:
    """The words around names. Regular expressions are matched against texts in lower case."""

    names: str = rf"\b(?:an?|the) ([a-z][a-z0-9' -]{{1,40}}?){_AFTER}"
    """Regular expression of a thing's name in an observation, the name in its first group."""
    places: str = r"\b(?:doors?|exits?|paths?) (?:leads?|leading|to)\b[a-z -]*"
    """Regular expression of words about places and the ways to them, which name no thing."""
    no_names: str = r"agent|player|room|inventory|floor|ground"
    """Regular expression of whole names that tell nothing."""
    roles: frozenset[str] = frozenset({"container", "place", "thing"})
    """Last words of names that tell what a thing is in a task: ``the container named in the task``."""
    kinds: tuple[str, ...] = ("thing",)
    """Roles of a thing whose own name does not tell its role, the most telling first."""
    variety: str = r"(?!)"
    """Regular expression of the beginning of a name that sets apart things which answer alike, as an age does; matches
    nothing by default."""
    empty: str = "empty"
    """What is said of a vessel that holds nothing."""
    listed: str = "everything that the text names"
    """Words for things that stand in a text which was read."""
