"""How real models restate an action that they mean, for `wording.py`.

A manner is a function of a gold action and of what can be seen, and gives a whole answer as a model would write it.
"""

import json
import re
from collections.abc import Callable

Answer = Callable[[str, str], str]
"""(reasoning, action) to a whole answer."""

Restate = Callable[[str, str], str]
"""(action, what can be seen) to the action as the model words it."""

Choose = Callable[[str, str], str]
"""(number, text) of an option to the answer to a question."""

_VERB = re.compile(
    r"(?P<verb>use|look at|look in|focus on|pick up|put down|move|pour|open|close|activate|deactivate|read|mix|examine"
    r"|eat|flush|dunk|go to|teleport to|connect|disconnect) (?P<thing>.+)"
)
_JOINS = {"use": ("on",), "move": ("to",), "pour": ("into", "in"), "dunk": ("into", "in")}


def things_of(action: str) -> tuple[str, list[str], list[str]]:
    """Verb, things, and the words between them; no things for an action without an object."""
    match = _VERB.fullmatch(action)
    if match is None:
        return action, [], []
    verb, rest = match.group("verb"), match.group("thing")
    if verb in _JOINS and (two := _last_split(verb, rest)):
        return verb, [two[0], two[2]], [two[1]]
    return verb, [rest], []


def _last_split(verb: str, rest: str) -> tuple[str, str, str] | None:
    """The thing, the word between and the place; "in inventory" belongs to what stands before it."""
    for join in _JOINS[verb]:
        places = [match for match in re.finditer(rf" {join} ", rest) if not rest[match.end() :].startswith("inventory")]
        if places:
            at = places[-1] if verb == "move" else places[0]
            return rest[: at.start()], join, rest[at.end() :]
    return None


def restate_things(change: Callable[[str, str], str]) -> Restate:
    """A manner of naming things, applied to each thing of the action."""

    def restate(action: str, seen: str) -> str:
        verb, things, joins = things_of(action)
        if not things:
            return action
        named = [change(thing, seen) for thing in things]
        return f"{verb} {named[0]}" + "".join(f" {join} {name}" for join, name in zip(joins, named[1:], strict=True))

    return restate


def strip_state(thing: str) -> str:
    return re.sub(r" in inventory$", "", thing)


def _observed(thing: str, seen: str) -> str:
    """The name as it was shown last, with what stands in parentheses after it; where what it contains tells it from
    others, that in parentheses."""
    name = strip_state(thing)
    if " containing " in name:
        return _parenthesised(thing, seen)
    shown = re.findall(
        rf"\b(?:an?|some|the) ((?:substance called )?{re.escape(name)}(?: \([^()]*\))?)(?=[\s.,;)])", seen, re.I
    )
    whole = [each for each in shown if "(" in each or "called" in each]
    return whole[-1] if whole and whole[-1] in shown[-2:] else thing


def _parenthesised(thing: str, _seen: str) -> str:
    """What the thing contains, or where it is, in parentheses."""
    return re.sub(r" (containing .+?|in inventory)(?= in | to | on |$)", r" (\1)", thing, count=1)


def _titled(thing: str, seen: str) -> str:
    title = re.search(r"recipe titled ([^\n,.;]+)", seen, re.I)
    return thing.replace("recipe", f"recipe titled {title.group(1).lower()}", 1) if title else thing


def _substance(thing: str, seen: str) -> str:
    """ "substance called" before what is listed so."""
    name = strip_state(thing)
    return f"substance called {thing}" if re.search(rf"substance called {re.escape(name)}\b", seen, re.I) else thing


def _article(thing: str, _seen: str) -> str:
    return thing if re.match(r"(?:the|an?) ", thing) else f"the {thing}"


def _indefinite(thing: str, _seen: str) -> str:
    return f"{'an' if thing[:1] in 'aeiou' else 'a'} {thing}"


def _to_the(action: str, _seen: str) -> str:
    return re.sub(r"^(go|teleport) (?:to )?(?:the )?", r"\1 to the ", action)


def _into(action: str, _seen: str) -> str:
    verb, things, joins = things_of(action)
    if verb in ("move", "pour") and joins:
        return f"{'put' if verb == 'move' else verb} {things[0]} into {things[1]}"
    return action


def _turn(action: str, _seen: str) -> str:
    return re.sub(r"^deactivate ", "turn off ", re.sub(r"^activate ", "turn on ", action))


RESTATED: dict[str, Restate] = {
    "as the gold path has it": lambda action, _: action,
    "names as observed": restate_things(_observed),
    "with 'the'": restate_things(_article),
    "with 'a' or 'an'": restate_things(_indefinite),
    "parentheses": restate_things(_parenthesised),
    "titled": restate_things(_titled),
    "substance called": restate_things(_substance),
    "a substance called": restate_things(
        lambda thing, seen: _substance(thing, seen).replace("substance called", "a substance called", 1)
    ),
    "final period": lambda action, _: f"{action}.",
    "exclamation": lambda action, _: f"{action}!",
    "double quotes": lambda action, _: f'"{action}"',
    "quotes and period": lambda action, _: f"'{action}.'",
    "names in quotes": restate_things(lambda thing, _: f'"{thing}"'),
    "code marks": lambda action, _: f"`{action}`",
    "bold": lambda action, _: f"**{action}**",
    "label": lambda action, _: f"Next action: {action}",
    "bold label": lambda action, _: f"**Action:** {action}",
    "list mark": lambda action, _: f"- {action}",
    "number before it": lambda action, _: f"1. {action}",
    "quoted line": lambda action, _: f"> {action}",
    "capitals": lambda action, _: action.upper(),
    "title case": lambda action, _: action.title(),
    "first letter": lambda action, _: action[:1].upper() + action[1:],
    "to the": _to_the,
    "into": _into,
    "turn on and off": _turn,
    "two sentences": lambda action, _: f"{action[:1].upper()}{action[1:]}. Then I will see what has changed.",
    "reason first": lambda action, _: f"The situation calls for it. {action[:1].upper()}{action[1:]}.",
    "a remark in parentheses": lambda action, _: (
        f"{action} (to see what happens)" if not action.startswith("focus") else action
    ),
    "two lines": lambda action, _: f"{action}\nThat should do it.",
}
"""Name to how the action is worded inside of an answer that keeps to the format."""


def chat(reasoning: str, action: str) -> str:
    """An answer in the chat format."""
    values = {"reasoning": reasoning, "current_subgoal": "none", "next_action": action}
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()), "[[ ## completed ## ]]"])


ANSWERS: dict[str, Answer] = {
    "no subgoal": lambda why, action: chat(why, action).replace("[[ ## current_subgoal ## ]]\nnone\n\n", ""),
    "action alone in its field": lambda _, action: f"[[ ## next_action ## ]]\n{action}",
    "bare line": lambda _, action: action,
    "bold bare line": lambda _, action: f"**{action}**",
    "bare line after prose": lambda why, action: f"{why}\n\n{action}",
    "Action: alone": lambda _, action: f"Action: {action}",
    "labels": lambda why, action: f"Reasoning: {why}\nCurrent subgoal: none\nNext action: {action}",
    "bold labels": lambda why, action: f"**Reasoning:** {why}\n**Current subgoal:** none\n**Next action:** {action}",
    "JSON": lambda why, action: json.dumps({"reasoning": why, "next_action": action}),
    "JSON with the action alone": lambda _, action: json.dumps({"next_action": action}),
    "fenced JSON": lambda why, action: f"```json\n{json.dumps({'reasoning': why, 'action': action})}\n```",
    "code block": lambda _, action: f"```\n{action}\n```",
    "tags": lambda why, action: f"<reasoning>{why}</reasoning>\n<action>{action}</action>",
    "thinking before": lambda why, action: f"<think>{why}</think>\n{chat(why, action)}",
}
"""Name to the form of the whole answer."""

CHOICES: dict[str, Choose] = {
    "option's text": lambda _number, text: text,
    "number and text": lambda number, text: f"{number}: {text}",
    "Option n": lambda number, _text: f"Option {number}",
    "Answer: n": lambda number, _text: f"Answer: {number}",
    "n.": lambda number, _text: f"{number}.",
    "I choose n": lambda number, _text: f"I choose option {number}.",
}
"""Name to how the number of an option is given."""
