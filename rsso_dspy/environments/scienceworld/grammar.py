"""The grammar of ScienceWorld's actions in prose: the templates, and everyday wordings of people and models."""

import re

from rsso_dspy.environments.grammar import Grammar, Verb
from rsso_dspy.environments.naming import Naming
from rsso_dspy.records import State

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

_NAMING = Naming(
    names=r"\b(?:(?:an?|the) (?:substance called )?|substance called )([a-z][a-z0-9' -]{1,40}?)"
    r"(?=\s*(?:[(.,:;\n]|$)| (?:which|that|in|on|is|to|of|appears|has|directly)\b)",
    places=r"\bdoors? to (?:the )?[a-z -]+|\broom is called (?:the )?[a-z -]+",
    no_names=r"agent|air|room|substance|inventory|liquid|ground|temperature|.* door",
    roles=frozenset({"substance", "animal", "plant", "box", "container", "device", "component", "place", "thing"}),
    kinds=("substance", "animal", "plant", "living thing", "thing"),
    variety=r"(?:(?:baby|adult|juvenile|hatchling|egg)\s+)+(?=\w)",
    empty="containing nothing",
    listed="every ingredient of the recipe",
)
_PLACE = re.compile(
    r"(?:room|location) is called (?:the )?([a-z0-9 ]+)|You (?:arrive at|teleport to|move to) (?:the )?([a-z0-9 ]+)",
    re.I,
)

GRAMMAR = Grammar(
    _VERBS,
    synonyms={"go to ": "teleport to "},
    travel=r"(?:teleport|go)(?: to)? (.+)",
    search=r"(?:teleport|go|open) .+",
    commits=r"focus .+",
    caution="Before you focus on anything, make sure that the task asks for it.",
    naming=_NAMING,
)


def name_place(state: State) -> str:
    """The room that a state's texts name last; empty if they name none."""
    named = _PLACE.findall(f"{state.observation}\n{state.look}")
    return next((called or led for called, led in reversed(named)), "").strip().lower()
