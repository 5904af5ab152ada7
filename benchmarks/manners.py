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


def _each(change: Callable[[str, str], str]) -> Restate:
    """A manner of naming things, applied to each thing of the action."""

    def restate(action: str, seen: str) -> str:
        verb, things, joins = things_of(action)
        if not things:
            return action
        named = [change(thing, seen) for thing in things]
        return f"{verb} {named[0]}" + "".join(f" {join} {name}" for join, name in zip(joins, named[1:], strict=True))

    return restate


def _bare(thing: str) -> str:
    return re.sub(r" in inventory$", "", thing)


def _observed(thing: str, seen: str) -> str:
    """The name as it was shown last, with what stands in parentheses after it; where what it contains tells it from
    others, that in parentheses."""
    name = _bare(thing)
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
    name = _bare(thing)
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
    "names as observed": _each(_observed),
    "with 'the'": _each(_article),
    "with 'a' or 'an'": _each(_indefinite),
    "parentheses": _each(_parenthesised),
    "titled": _each(_titled),
    "substance called": _each(_substance),
    "a substance called": _each(
        lambda thing, seen: _substance(thing, seen).replace("substance called", "a substance called", 1)
    ),
    "final period": lambda action, _: f"{action}.",
    "exclamation": lambda action, _: f"{action}!",
    "double quotes": lambda action, _: f'"{action}"',
    "quotes and period": lambda action, _: f"'{action}.'",
    "names in quotes": _each(lambda thing, _: f'"{thing}"'),
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


_JOINED = re.compile(r"^(look|pick|put|focus|go|teleport) (at|in|up|down|on|to|around)\b")


def _verb_first(action: str, _seen: str) -> str:
    return re.sub(r"^(pick) up (.+)", r"\1 \2 up", action)


def _call(action: str, _seen: str) -> str:
    """An action without an object as a call."""
    return action if things_of(action)[1] else f"{action.replace(' ', '_')}()"


UNSEEN_RESTATED: dict[str, Restate] = {
    "I will": lambda action, _: f"I will {action}",
    "I'll": lambda action, _: f"I'll {action}.",
    "Let's": lambda action, _: f"Let's {action}",
    "I should now": lambda action, _: f"I should {action} now.",
    "please": lambda action, _: f"please {action}",
    "First": lambda action, _: f"First, {action}",
    "Now": lambda action, _: f"Now {action}",
    "Final answer:": lambda action, _: f"Final answer: {action}",
    "Agent:": lambda action, _: f"Agent: {action}",
    "because": lambda action, _: f"{action} because it is the next thing to do",
    "comma and because": lambda action, _: f"{action}, because it is the next thing to do.",
    "hyphen and to see": lambda action, _: f"{action} - to see what happens",
    "dash and to see": lambda action, _: f"{action} — to see what happens",
    "colon and a reason": lambda action, _: f"{action}: this gets me closer to the goal",
    "a comment": lambda action, _: f"{action} # next",
    "in order to": lambda action, _: f"{action} in order to make progress",
    "so that": lambda action, _: f"{action} so that I can go on with the task",
    "boxed": lambda action, _: f"\\boxed{{{action}}}",
    "HTML bold": lambda action, _: f"<b>{action}</b>",
    "hyphen in the verb": lambda action, _: _JOINED.sub(r"\1-\2", action),
    "pick X up": _verb_first,
    "emoji before": lambda action, _: f"\N{ROCKET} {action}",
    "angle brackets": lambda action, _: f"<{action}>",
    "guillemets": lambda action, _: f"«{action}»",
    "call": _call,
    "square brackets": lambda action, _: f"[{action}]",
    "my inventory": lambda action, _: action.replace("in inventory", "in my inventory"),
}
"""Name to how the action is worded, as `RESTATED`. No repair had seen these when they were first tried."""

UNSEEN_ANSWERS: dict[str, Answer] = {
    "answer tag": lambda _, action: f"<answer>{action}</answer>",
    "my next action is to": lambda why, action: f"{why} So my next action is to {action}.",
    "my next action is in quotes": lambda why, action: f'{why} My next action is "{action}".',
    "table row": lambda why, action: f"| Reasoning | Next action |\n|---|---|\n| {why} | {action} |",
}
"""Name to the form of the whole answer, as `ANSWERS`. No repair had seen these when they were first tried."""


_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ITEM = re.compile(r"( (?:in|to|on|containing) )")


def _call_with(named: bool) -> Restate:
    """An action as a call with its things, which may be named."""

    def restate(action: str, _seen: str) -> str:
        verb, things, _ = things_of(action)
        names = ("object", "target") if named else ("", "")
        inside = ", ".join(f'{name}{"=" if name else ""}"{thing}"' for name, thing in zip(names, things, strict=False))
        return f"{verb.replace(' ', '_')}({inside})"

    return restate


def _underscored(thing: str, _seen: str) -> str:
    return "".join(part if _ITEM.fullmatch(part) else part.replace(" ", "_") for part in _ITEM.split(thing))


def _verb_changed(verbs: dict[str, str]) -> Restate:
    """Other words for the verb, `{}` standing for the thing."""

    def restate(action: str, _seen: str) -> str:
        for verb, other in verbs.items():
            if action.startswith(f"{verb} "):
                return other.format(action[len(verb) + 1 :])
        return action

    return restate


def _placed(action: str, _seen: str) -> str:
    verb, things, joins = things_of(action)
    return f"place {things[0]} inside {things[1]}" if verb == "move" and joins else action


def _with(action: str, _seen: str) -> str:
    verb, things, joins = things_of(action)
    return f"use {things[0]} with {things[1]}" if verb == "use" and joins else action


def _after_verb(sign: str) -> Restate:
    """A sign between the verb and the first thing."""

    def restate(action: str, _seen: str) -> str:
        verb, things, _ = things_of(action)
        return f"{verb}{sign} {action[len(verb) + 1 :]}" if things else action

    return restate


def _langchain(why: str, action: str) -> str:
    verb, things, _ = things_of(action)
    return f"Thought: {why}\nAction: {verb}\nAction Input: {action[len(verb) + 1 :] if things else 'None'}"


def _tool(_why: str, action: str) -> str:
    verb, things, _ = things_of(action)
    named = dict(zip(("OBJ", "target"), things, strict=False))
    return json.dumps({"name": verb, "parameters": named})


HELD_OUT_RESTATED: dict[str, Restate] = {
    "placeholder kept": _each(lambda thing, _: f"OBJ {thing}"),
    "colon after the verb": _after_verb(":"),
    "We need to": lambda action, _: f"We need to {action}.",
    "I'm going to": lambda action, _: f"I'm going to {action}.",
    "The best next action is to": lambda action, _: f"The best next action is to {action}.",
    "Let me": lambda action, _: f"Let me {action}.",
    "I, in the present": lambda action, _: f"I {action}.",
    "I choose to": lambda action, _: f"I choose to {action}.",
    "so I will": lambda action, _: f"I see what I need, so I will {action}.",
    "Since": lambda action, _: f"Since it is the next thing to do, {action}.",
    "curly quotes": lambda action, _: f"\N{LEFT DOUBLE QUOTATION MARK}{action}\N{RIGHT DOUBLE QUOTATION MARK}",
    "arrow": lambda action, _: f"\N{RIGHTWARDS ARROW} {action}",
    "arrow of two signs": lambda action, _: f"-> {action}",
    "italics": lambda action, _: f"_{action}_",
    "Step n": lambda action, _: f"Step 4: {action}",
    "number in parentheses": lambda action, _: f"(1) {action}",
    "letter before it": lambda action, _: f"a) {action}",
    "ellipsis": lambda action, _: f"{action}...",
    "check mark after": lambda action, _: f"{action} \N{WHITE HEAVY CHECK MARK}",
    "Chinese label and stop": lambda action, _: f"动作\N{FULLWIDTH COLON}{action}\N{IDEOGRAPHIC FULL STOP}",
    "stop token": lambda action, _: f"{action}<|im_end|>",
    "boxed text": lambda action, _: f"$\\boxed{{\\text{{{action}}}}}$",
    "invented observation": lambda action, _: f"{action}\nObservation: It worked.\nAction: look around",
    "fenced in its field": lambda action, _: f"```\n{action}\n```",
    "JSON in its field": lambda action, _: json.dumps({"action": action}),
    "list in its field": lambda action, _: json.dumps([action]),
    "call with things": _call_with(named=False),
    "call with named things": _call_with(named=True),
    "names with underscores": _each(_underscored),
    "pickup": _verb_changed({"pick up": "pickup {}"}),
    "take and drop": _verb_changed({"pick up": "take {}", "put down": "drop {}"}),
    "switch on and off": _verb_changed({"activate": "switch on {}", "deactivate": "switch off {}"}),
    "turn X on and off": _verb_changed({"activate": "turn {} on", "deactivate": "turn {} off"}),
    "place inside": _placed,
    "use with": _with,
    "from my inventory": lambda action, _: action.replace("in inventory", "from my inventory"),
}
"""Name to how the action is worded, as `RESTATED`. Written before anything of the repairs was read; nothing of it was
mended before it was measured."""

HELD_OUT_ANSWERS: dict[str, Answer] = {
    "Action Input": _langchain,
    "Thought n, Action n": lambda why, action: f"Thought 4: {why}\nAction 4: {action}\nObservation 4:",
    "headings": lambda why, action: f"### Reasoning\n\n{why}\n\n### Next Action\n\n{action}",
    "bold headings": lambda why, action: f"**Reasoning**\n{why}\n\n**Next Action**\n{action}",
    "thinking with a draft": lambda why, action: (
        f"<think>\nMaybe:\nAction: look around\nNo, I saw the room already.\n</think>\n\n{chat(why, action)}"
    ),
    "thinking without its first tag": lambda why, action: f"Okay, so {why}\n</think>\n\n{chat(why, action)}",
    "tool call": lambda _, action: (
        f"<tool_call>\n{json.dumps({'name': 'act', 'arguments': {'next_action': action}})}\n</tool_call>"
    ),
    "tool's name and parameters": _tool,
    "JSON inside of JSON": lambda why, action: json.dumps({"response": {"reasoning": why, "next_action": action}}),
    "Python dictionary": lambda why, action: repr({"reasoning": why, "next_action": action}),
    "JSON without its end": lambda why, action: json.dumps({"reasoning": why, "next_action": action})[:-1],
    "JSON with a last comma": lambda why, action: (
        json.dumps({"reasoning": why, "next_action": action}, indent=2)[:-2] + ",\n}"
    ),
    "fenced YAML": lambda why, action: f"```yaml\nreasoning: >\n  {why}\nnext_action: {action}\n```",
    "marks without brackets": lambda why, action: chat(why, action).replace("[[ ", "").replace(" ]]", ""),
    "marks without hashes": lambda why, action: chat(why, action).replace(" ## ", ""),
    "marks in words": lambda why, action: chat(why, action).replace("next_action", "Next Action"),
    "bold marks": lambda why, action: chat(why, action).replace("[[ ", "**[[ ").replace(" ]]", " ]]**"),
    "beside its mark": lambda why, action: chat(why, action).replace(" ]]\n", " ]]: "),
    "preface and offer": lambda why, action: f"Sure! Here is my next move:\n\n{chat(why, action)}\n\nLet me know!",
    "all of it fenced": lambda why, action: f"```\n{chat(why, action)}\n```",
    "plays on": lambda why, action: (
        f"{chat(why, action)}\n\n[[ ## history ## ]]\nIt worked.\n\n{chat('Next.', 'look around')}"
    ),
    "action before its reasoning": lambda why, action: (
        f"[[ ## next_action ## ]]\n{action}\n\n[[ ## reasoning ## ]]\n{why}\n\n[[ ## completed ## ]]"
    ),
    "tags inside of a tag": lambda why, action: (
        f"<response>\n<reasoning>{why}</reasoning>\n<next_action>{action}</next_action>\n</response>"
    ),
    "code in prose": lambda why, action: f"{why} Therefore, I will `{action}`.",
    "bold below a rule": lambda why, action: f"{why}\n\n---\n\n**{action}**",
}
"""Name to the form of the whole answer, as `ANSWERS`. Held out as `HELD_OUT_RESTATED`."""

HELD_OUT_CHOICES: dict[str, Choose] = {
    "bold number": lambda number, _text: f"**{number}**",
    "[n]": lambda number, _text: f"[{number}]",
    "#n": lambda number, _text: f"#{number}",
    "The answer is n": lambda number, _text: f"The answer is {number}.",
    "n because": lambda number, _text: f"{number}, because this is the one I mean.",
    "number in words": lambda number, _text: _NUMBERS[int(number)],
    "option's text in quotes": lambda _number, text: f'"{text}"',
    "n in parentheses": lambda number, text: f"{text} ({number})",
}
"""Name to how the number of an option is given. Held out as `HELD_OUT_RESTATED`."""


_SURFACES = ("stove", "table", "counter", "chair", "bed", "desk")


def _gerund(action: str, _seen: str) -> str:
    verb, _, rest = action.partition(" ")
    return f"{verb.removesuffix('e').capitalize()}ing {rest}." if rest else action


def _put(action: str, _seen: str) -> str:
    verb, things, joins = things_of(action)
    if verb != "move" or not joins:
        return action
    return f"put {things[0]} {'on' if things[1] in _SURFACES else 'in'} {things[1]}"


def _measure(action: str, _seen: str) -> str:
    verb, things, joins = things_of(action)
    if verb != "use" or not joins or not things[0].startswith("thermometer"):
        return action
    return f"use {_bare(things[0])} to measure the temperature of {things[1]}"


def _unquoted_call(action: str, _seen: str) -> str:
    verb, things, _ = things_of(action)
    return f"{verb.replace(' ', '_')}({', '.join(things)})"


FOURTH_RESTATED: dict[str, Restate] = {
    "field's name before it": lambda action, _: f"next_action: {action}",
    "braces": lambda action, _: f"{{{action}}}",
    "tag in its field": lambda action, _: f"<next_action>{action}</next_action>",
    "label and code marks": lambda action, _: f"Action: `{action}`",
    "label and action in bold": lambda action, _: f"**Next action: {action}**",
    "end of sequence": lambda action, _: f"{action}</s>",
    "Next": lambda action, _: f"Next, {action}.",
    "Okay let's": lambda action, _: f"Okay, let's {action}.",
    "The agent should": lambda action, _: f"The agent should {action}.",
    "The next step is to": lambda action, _: f"The next step is to {action}.",
    "gerund": _gerund,
    "to and a purpose": lambda action, _: f"{action} to get closer to the goal",
    "explanation below": lambda action, _: f"{action}\n\nExplanation: This is what the task asks for next.",
    "numbered plan": lambda action, _: f"1. {action}\n2. Check what has changed\n3. Continue with the task",
    "call without quotes": _unquoted_call,
    "names in square brackets": _each(lambda thing, _: f"[{thing}]"),
    "enter": _verb_changed({"go to": "enter {}"}),
    "kitchen door": lambda action, _: re.sub(r"\bdoor to (.+)", r"\1 door", action),
    "the door to the kitchen": lambda action, _: action.replace("door to ", "the door to the "),
    "put on and in": _put,
    "short names": _each(lambda thing, _: re.sub(r" (?:containing .+|in inventory)$", "", thing)),
    "use to measure": _measure,
    "look around the room": lambda action, _: re.sub(r"^look around$", "look around the room", action),
    "grab and inspect": _verb_changed({"pick up": "grab {}", "examine": "inspect {}"}),
}
"""Name to how the action is worded, as `RESTATED`. Chosen by how often models write so, the repairs unread."""

FOURTH_ANSWERS: dict[str, Answer] = {
    "list of labels": lambda why, action: f"- Reasoning: {why}\n- Current subgoal: none\n- Next action: {action}",
    "numbered bold labels": lambda why, action: (
        f"1. **Reasoning**: {why}\n2. **Current Subgoal**: none\n3. **Next Action**: {action}"
    ),
    "names of fields as labels": lambda why, action: f"reasoning: {why}\ncurrent_subgoal: none\nnext_action: {action}",
    "values below labels": lambda why, action: f"Reasoning:\n{why}\n\nCurrent Subgoal:\nNone\n\nNext Action:\n{action}",
    "no end mark": lambda why, action: chat(why, action).removesuffix("\n\n[[ ## completed ## ]]"),
    "end mark on the line": lambda why, action: chat(why, action).replace("\n\n[[ ## completed", " [[ ## completed"),
    "reasoning without its mark": lambda why, action: chat(why, action).removeprefix("[[ ## reasoning ## ]]\n"),
    "JSON with names in words": lambda why, action: json.dumps(
        {"Reasoning": why, "Current Subgoal": "none", "Next Action": action}, indent=2
    ),
    "prose around fenced JSON": lambda why, action: (
        f"{why} Here is my answer:\n\n```json\n"
        f"{json.dumps({'reasoning': why, 'current_subgoal': 'none', 'next_action': action}, indent=2)}\n```\n\n"
        "This should bring me closer to the goal."
    ),
    "thinking and the line": lambda why, action: f"<think>\n{why}\n</think>\n\n{action}",
}
"""Name to the form of the whole answer, as `ANSWERS`. Chosen as `FOURTH_RESTATED`."""

FOURTH_CHOICES: dict[str, Choose] = {
    "n. and text": lambda number, text: f"{number}. {text}",
    "Option n: text": lambda number, text: f"Option {number}: {text}",
    "n and a reason below": lambda number, _text: f"{number}\n\nThis is the one that I mean.",
    "I'll go with option n": lambda number, _text: f"I'll go with option {number}.",
    "option's text as a sentence": lambda _number, text: f"{text[:1].upper()}{text[1:]}.",
    "n in quotes": lambda number, _text: f'"{number}"',
}
"""Name to how the number of an option is given. Chosen as `FOURTH_RESTATED`."""
