"""Reads answers that lack inessential fields: a bare action, no reasoning or subgoal, a plan as plain prose.

repair_leniently(SkillActor, "teleport outside", frozenset({"teleport"}))
# {"reasoning": "", "current_subgoal": "none", "next_action": "teleport outside"}
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import dspy

from rsso_dspy.lm.adapters.answer_parser import parse_sections
from rsso_dspy.lm.adapters.field_names import ENVIRONMENT, PROSE, SPARED, map_names_to_fields, normalize_field_name
from rsso_dspy.lm.adapters.field_values import is_optional_field
from rsso_dspy.lm.adapters.literals import parse_literal
from rsso_dspy.lm.adapters.repair import EVERY, LEAD_IN, is_placeholder, repair_answer
from rsso_dspy.signatures.fields import cache_by_words

LONGEST_LINE = 120
"""Maximum characters of a line that can be an action."""
FEWEST_WORDS = 4
"""Minimum words of a text that can be a plan."""

_LETTERS = re.compile(r"[\W_]+")
_FENCE = re.compile(r"^\s*```\w*\s*$", re.M)
_THINKING = re.compile(r"<(think|thinking|reasoning|reflection)>.*?</\1>", re.I | re.S)
_MARKS = re.compile(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?[*_`\"'“‘]*")
_REFUSAL = re.compile(
    r"\W*(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|as an (?:ai|assistant|language)"
    r"|i (?:can(?:'?t|not)|won'?t|would rather not))\b",
    re.I,
)
_ANSWER = re.compile(r"<(answer|final_answer)>\s*(.*?)\s*</\1>", re.I | re.S)
_SENTENCE = re.compile(r"\bnext action (?:is|will be|should be)(?: to)?\s*:?\s+(.+)", re.I)
_CODE = re.compile(r"(?:\b(?:i|action|so|therefore)\b|['’]ll\b)[^`\n]*`([^`\n]+)`[.!]*$", re.I)
_INPUT = re.compile(r"\n\s*\**Action Input:?\**:?[ \t]*(?:(?:none|null|n/a|\"\"|\{\})[ \t]*$)?", re.I | re.M)
_CALLED, _GIVEN = ("action", "name", "tool", "function"), ("action_input", "parameters", "arguments", "args", "input")
_RULER = re.compile(r"^[\s|:-]+$")
_TURN = re.compile(rf"\W{{0,3}}(?:{'|'.join(sorted(map(re.escape, ENVIRONMENT)))})\W{{0,3}}[:：]", re.I)


def repair_leniently(signature: type[dspy.Signature], completion: str, verbs: Collection[str]) -> dict[str, Any] | None:
    """Repair an answer like `repair_answer`, but allow the fields of `SPARED` to be missing.

    A text without any form is the value of the only required field: an action if its last line begins with one of
    `verbs`, a plan if it is prose. None if the signature has no such fields or nothing can be read.
    """
    spared = _spare(signature)
    if spared is None:
        return None
    required = [name for name, info in spared.output_fields.items() if not is_optional_field(info)]
    if len(required) != 1:
        return repair_answer(spared, completion)
    bare = (
        _prose(completion, spared)
        if required[0] in PROSE
        else _line(completion, verbs) or _find_told_action(completion, verbs, map_names_to_fields(spared), required[0])
    )
    if (fields := repair_answer(spared, completion)) is not None:
        value = fields[required[0]]
        # A value that is the whole answer has no form.
        if not (isinstance(value, str) and _LETTERS.sub("", value) == _LETTERS.sub("", completion)):
            return fields
    if bare is None:
        return None
    before, said = bare
    first = next(iter(spared.output_fields))
    return {
        name: said if name == required[0] else (before if name == first and name in SPARED and before else SPARED[name])
        for name in spared.output_fields
        if name == required[0] or name in SPARED
    } | {
        name: info.get_default()
        for name, info in spared.output_fields.items()
        if name not in SPARED and name != required[0]
    }


def join_tool_call(signature: type[dspy.Signature], completion: str, verbs: Collection[str]) -> str:
    """Join the parts of an action that an answer gives as a tool and its input, where `verbs` begin an action:
    `Action: open` above `Action Input: door`, or an object with name and arguments."""
    if not verbs or "action" not in map_names_to_fields(signature):
        return completion
    joined = _INPUT.sub(" ", completion)
    text = joined[joined.find("{") : joined.rfind("}") + 1]
    call = parse_literal(text) if any(f'"{name}"' in text for name in _GIVEN) else None
    if not isinstance(call, Mapping):
        return joined
    verb = next((str(call[name]) for name in _CALLED if name in call), "").replace("_", " ")
    given = next((call[name] for name in _GIVEN if name in call), None)
    if verb.lower().split(" ")[0] not in verbs:
        return joined
    said = f"({', '.join(map(str, given.values()))})" if isinstance(given, Mapping) and given else f" {given or ''}"
    return json.dumps(
        {str(name): value for name, value in {**call, "action": f"{verb}{said}".strip()}.items()}, default=str
    )


@cache_by_words
def _spare(signature: type[dspy.Signature]) -> Any:
    """Return the signature with the fields of `SPARED` optional; None if it has none of these fields."""
    names = [name for name in signature.output_fields if name in SPARED]
    if not names:
        return None
    fields = {}
    for name, info in signature.fields.items():
        kind = dspy.InputField if name in signature.input_fields else dspy.OutputField
        extra = {"default": SPARED[name]} if name in names else {} if info.is_required() else {"default": info.default}
        fields[name] = (info.annotation, kind(desc=info.json_schema_extra["desc"], **extra))
    return dspy.Signature(fields, signature.instructions)


def _line(completion: str, verbs: Collection[str]) -> tuple[str, str] | None:
    """Return the text before the last line, and that line, if it is an action; otherwise None."""
    lines = [line for line in _FENCE.sub("", _THINKING.sub("", completion)).splitlines() if line.strip()]
    if not lines or any(_TURN.match(line) for line in lines):
        return None
    said = _MARKS.sub("", lines[-1]).strip(" \t*_`\"'“”‘’")
    word = re.match(r"[a-z0-9]+", said.lower())
    number = re.fullmatch(r"\d{1,3}\W*", said) is not None and len(lines) == 1
    fits = len(said) <= LONGEST_LINE and not re.search(r"[{}<>:?]|\[\[", said)
    talk = re.match(r"wait,", said, re.I)
    if not fits or talk or not (number or (word and word.group() in verbs)):
        return None
    return "\n".join(line.strip() for line in lines[:-1]), said


def _find_told_action(
    completion: str, verbs: Collection[str], known: Mapping[str, str], field: str
) -> tuple[str, str] | None:
    """Return an empty text and the action in an `<answer>` tag, in the last sentence ("My next action is to ...", "I'll
    `...`") or in the field's column of a table with one row; None if there is none, or more than one."""
    text = _THINKING.sub("", completion).strip()
    if any(_TURN.match(line) for line in text.splitlines()):
        return None
    found = [match.group(2) for match in _ANSWER.finditer(text)]
    found += _SENTENCE.findall(text) if _SENTENCE.search(text.splitlines()[-1] if text else "") else []
    found += _CODE.findall(text) if text.count("`") == 2 else []
    found += _cells(text, known, field)
    said = _MARKS.sub("", found[0]).strip(" \t*_`\"'“”‘’.!") if len(found) == 1 else ""
    word = re.match(r"[a-z0-9]+", said.lower())
    fits = len(said) <= LONGEST_LINE and not re.search(r"[{}<>:?|\n]|\[\[", said)
    return ("", said) if fits and word and word.group() in verbs else None


def _cells(text: str, known: Mapping[str, str], field: str) -> list[str]:
    """List the cells of the field's column in a Markdown table."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.strip().startswith("|") and not _RULER.match(line)
    ]
    names = [known.get(normalize_field_name(name)) for name in rows[0]] if rows else []
    place = names.index(field) if names.count(field) == 1 and len(names) > 1 else None
    return [] if place is None else [row[place] for row in rows[1:] if len(row) == len(names)]


def _prose(completion: str, signature: type[dspy.Signature]) -> tuple[str, str] | None:
    """Return the text as a plan if it has more than a few words, is no refusal and names no field; otherwise None."""
    text = _FENCE.sub("", _THINKING.sub("", completion)).strip()
    if parse_sections(text, map_names_to_fields(signature), EVERY).said:
        return None
    lines = text.splitlines()
    while (
        lines and LEAD_IN.fullmatch(lines[0].strip()) and normalize_field_name(lines[0]) not in PROSE and len(lines) > 1
    ):
        lines.pop(0)
    text = "\n".join(lines).strip()
    if (
        len(text.split()) < FEWEST_WORDS
        or _REFUSAL.match(text)
        or is_placeholder(text)
        or re.search(r"[{}<>]|\[\[", text)
    ):
        return None
    return "", text
