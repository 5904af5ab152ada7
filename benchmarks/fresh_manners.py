"""Three more lists of manners, each written without a look at the repairs, and first tried before any was made for it.

    python -m benchmarks.wording --batch fourth

Repairs were then made for all three, so none of them is held out any longer.
"""

import json
import re

from benchmarks.manners import Answer, Choose, Restate, chat, restate_things, strip_state, things_of

_JOINED = re.compile(r"^(look|pick|put|focus|go|teleport) (at|in|up|down|on|to|around)\b")


def _verb_first(action: str, _seen: str) -> str:
    return re.sub(r"^(pick) up (.+)", r"\1 \2 up", action)


def _call(action: str, _seen: str) -> str:
    """An action without an object as a call."""
    return action if things_of(action)[1] else f"{action.replace(' ', '_')}()"


SECOND_RESTATED: dict[str, Restate] = {
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
"""Name to how the action is worded, as `RESTATED`."""

SECOND_ANSWERS: dict[str, Answer] = {
    "answer tag": lambda _, action: f"<answer>{action}</answer>",
    "my next action is to": lambda why, action: f"{why} So my next action is to {action}.",
    "my next action is in quotes": lambda why, action: f'{why} My next action is "{action}".',
    "table row": lambda why, action: f"| Reasoning | Next action |\n|---|---|\n| {why} | {action} |",
}
"""Name to the form of the whole answer, as `ANSWERS`."""


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


THIRD_RESTATED: dict[str, Restate] = {
    "placeholder kept": restate_things(lambda thing, _: f"OBJ {thing}"),
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
    "names with underscores": restate_things(_underscored),
    "pickup": _verb_changed({"pick up": "pickup {}"}),
    "take and drop": _verb_changed({"pick up": "take {}", "put down": "drop {}"}),
    "switch on and off": _verb_changed({"activate": "switch on {}", "deactivate": "switch off {}"}),
    "turn X on and off": _verb_changed({"activate": "turn {} on", "deactivate": "turn {} off"}),
    "place inside": _placed,
    "use with": _with,
    "from my inventory": lambda action, _: action.replace("in inventory", "from my inventory"),
}
"""Name to how the action is worded, as `RESTATED`."""

THIRD_ANSWERS: dict[str, Answer] = {
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
"""Name to the form of the whole answer, as `ANSWERS`."""

THIRD_CHOICES: dict[str, Choose] = {
    "bold number": lambda number, _text: f"**{number}**",
    "[n]": lambda number, _text: f"[{number}]",
    "#n": lambda number, _text: f"#{number}",
    "The answer is n": lambda number, _text: f"The answer is {number}.",
    "n because": lambda number, _text: f"{number}, because this is the one I mean.",
    "number in words": lambda number, _text: _NUMBERS[int(number)],
    "option's text in quotes": lambda _number, text: f'"{text}"',
    "n in parentheses": lambda number, text: f"{text} ({number})",
}
"""Name to how the number of an option is given."""


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
    return f"use {strip_state(things[0])} to measure the temperature of {things[1]}"


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
    "names in square brackets": restate_things(lambda thing, _: f"[{thing}]"),
    "enter": _verb_changed({"go to": "enter {}"}),
    "kitchen door": lambda action, _: re.sub(r"\bdoor to (.+)", r"\1 door", action),
    "the door to the kitchen": lambda action, _: action.replace("door to ", "the door to the "),
    "put on and in": _put,
    "short names": restate_things(lambda thing, _: re.sub(r" (?:containing .+|in inventory)$", "", thing)),
    "use to measure": _measure,
    "look around the room": lambda action, _: re.sub(r"^look around$", "look around the room", action),
    "grab and inspect": _verb_changed({"pick up": "grab {}", "examine": "inspect {}"}),
}
"""Name to how the action is worded, as `RESTATED`. Chosen by how often models write so."""

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
