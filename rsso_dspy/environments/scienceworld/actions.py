"""ScienceWorld's action templates, repair of an action's wording, and its wording in prose. The simulator's parser is
strict about small words. An action is first sent as written; if the parser does not know it, which takes no time and
changes nothing, it is compared with the valid actions, whose list is the most expensive request. (The SSO reference
compares first. The outcome is the same, see the tests, except for chance: listing draws random numbers, which changes
the flight of bees in the genetics tasks.)"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rsso_dspy.environments.lessons import read_texts
from rsso_dspy.records import State

_TEXTS = read_texts(__package__)["templates"]
ACTION_TEMPLATES: str = _TEXTS["sso"]
USUAL = "\n".join([_TEXTS["complete"], *_TEXTS["notes"].values()])  # what all variants share under `complete`


def describe_actions(offered: Iterable[str]) -> str:
    """Render the action_templates region of `complete` for a variant with these templates of the simulator: all but
    the one that no actor may use, with notes about some."""
    listed = [template for template in offered if template != "reset task"]
    notes = (note for template, note in _TEXTS["notes"].items() if template in listed)
    named = (_TEXTS["slots"].get(template, template) for template in listed)
    return "\n".join([_TEXTS["complete"], *notes, "Templates:", *named])


_FIRST_WORDS = (
    "activate close connect deactivate disconnect dunk eat examine flush focus get go inventory look mix move open "
    "pick pour put read take task teleport turn use wait wait1 walk"
)
VERBS = tuple(_FIRST_WORDS.split())  # possible first words of an action, including words of no template
NOT_KNOWN = "No known action matches that input."  # nothing has happened, no time has passed

AMBIGUOUS = "Ambiguous request:"  # text of an answer that asks to choose among numbered readings of the action
NO_EFFECT = "Unknown action."  # of an answer without an effect text, usually an unresolved ambiguous request

CANCEL = "cancel"  # answer that cancels an ambiguous request; any text without a number would do
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})
OPTION = re.compile(r"^\s*(\d+):", re.M)  # start of a line of a numbered question
_PUNCTUATION = ".,!?\"')(}{][:; \t\n"


LONGEST = 300  # maximum characters sent per action; the longest valid actions have less than half as many


def clean_action(action: str) -> str:
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
    """Return whether the simulator or the repair could read this as ``reset task``, which resets reached goals, so that
    their points could be earned again. The parser skips all but letters and articles."""
    words = re.findall(r"[a-z]+", action.lower())
    return "".join(word for word in words if word not in FILL_WORDS) == "resettask"


def is_understood(answer: str) -> bool:
    """Return whether the simulator understood the action. A question about an ambiguity counts as understood."""
    return not answer.startswith((NOT_KNOWN, NO_EFFECT))


_PLACE = re.compile(
    r"(?:room|location) is called (?:the )?([a-z0-9 ]+)|You (?:arrive at|teleport to|move to) (?:the )?([a-z0-9 ]+)",
    re.I,
)


def name_place(state: State) -> str:
    """The room that a state's texts name last; empty if they name none."""
    named = _PLACE.findall(f"{state.observation}\n{state.look}")
    return next((called or led for called, led in reversed(named)), "").strip().lower()


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
