"""Actions in the prose of advice, and names in their shortest form: `parse_command("Taking the lamp")`."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

CHOOSE = "choose"  # verb of a bare number, which answers an open question
_ARTICLES = frozenset({"the", "a", "an", "some"})


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed action: verb, thing and, if the verb needs one, place."""

    verb: str
    thing: str = ""
    place: str = ""
    head: str = ""  # first words of the action, if different from the verb
    join: str = ""  # the word before the place

    @property
    def text(self) -> str:
        if self.verb == CHOOSE:
            return self.thing
        tail = f" {self.join} {self.place}" if self.place else ""
        return f"{self.head or self.verb} {self.thing}{tail}".strip()


class Verb(NamedTuple):
    name: str
    pattern: str  # of the whole action in `normalize_words` form, with groups `thing` and `place`
    head: str = ""  # first words of the action, if different from the name
    join: str = ""  # the word before the place


_TWO_PLACES = r"(?P<thing>.+?) (?:to|in|into|on|onto|inside) (?P<place>.+)"
_VERBS = (
    Verb("teleport", r"teleport(?:ing)?(?: to)? (?P<thing>.+)", head="teleport to"),
    Verb("go", r"(?:go(?:ing)?|walk(?:ing)?) (?:to )?(?P<thing>.+)", head="go to"),
    Verb("open", r"open(?:ing)? (?P<thing>.+)"),
    Verb("close", r"clos(?:e|ing) (?P<thing>.+)"),
    Verb("pick up", r"(?:pick(?:ing)? up|tak(?:e|ing)|grab(?:bing)?) (?P<thing>.+)"),
    Verb("focus", r"focus(?:ing)?(?: on)? (?P<thing>.+)", head="focus on"),
    Verb("move", r"(?:mov(?:e|ing)|plac(?:e|ing)|put(?:ting)?) " + _TWO_PLACES, join="to"),
    Verb("pour", r"pour(?:ing)? " + _TWO_PLACES, join="in"),
    Verb("mix", r"mix(?:ing)? (?P<thing>.+)"),
    Verb("read", r"read(?:ing)? (?P<thing>.+)"),
    Verb("deactivate", r"(?:deactivat(?:e|ing)|turn(?:ing)? off) (?P<thing>.+)"),
    Verb("activate", r"(?:activat(?:e|ing)|turn(?:ing)? on) (?P<thing>.+)"),
    Verb("look in", r"look(?:ing)? (?:in|into|inside|at) (?P<thing>.+)"),
    Verb("use", r"us(?:e|ing) (?P<thing>.+?) on (?P<place>.+)", join="on"),
    Verb("choose", r"(?:choos(?:e|ing)|answer(?:ing)?) (?:option |number )?(?P<thing>\d+)"),
    Verb("wait", r"wait(?:ing)?(?:1|\b.*)"),
)

_BY_NAME = {verb.name: verb for verb in _VERBS}


def make_command(name: str, thing: str = "", place: str = "") -> Command:
    verb = _BY_NAME[name]
    return Command(name, thing, place, verb.head, verb.join)


@lru_cache(maxsize=8192)
def parse_command(text: str) -> Command | None:
    """Parse a clause that consists of a command; None otherwise."""
    said = normalize_words(re.sub(r"\((?:that|in|from|on)\b[^)]*\)", "", text))
    if said.isdigit():
        return Command(CHOOSE, said)
    for verb in _VERBS:
        if match := re.fullmatch(verb.pattern, said):
            parts = match.groupdict()
            thing, place = ((parts.get(name) or "").strip() for name in ("thing", "place"))
            return Command(verb.name, thing, place, verb.head, verb.join)
    return None


def normalize_words(text: str) -> str:
    """Normalize a name for comparison: lower case, without articles, punctuation and double spaces."""
    found = re.findall(r"[a-z0-9'%.-]+", text.lower())
    return " ".join(word.strip(".'-") for word in found if word not in _ARTICLES and word.strip(".'-"))
