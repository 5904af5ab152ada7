"""Reads an answer's fields from a text that follows no format. Deterministic: the same text gives the same fields.

    repair_answer(FlatActor, "Thought: It is closed.\\nAction: open door")
    # {"thought": "It is closed.", "action": "open door"}

A wrong answer is worse than an unreadable one: a missing required field is never invented, and a missing optional one
gets its default. The only exception is required reasoning, for which thinking tags or prose before the first field may
serve, because that is reasoning. Of several answers the first complete one counts; the model plays on alone in others.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import dspy
from dspy.adapters.utils import apply_output_field_defaults

from rsso_dspy.lm.adapters.answer_parser import ParsedAnswer, iter_object_answers, parse_sections
from rsso_dspy.lm.adapters.field_names import ENVIRONMENT, REASONING, map_names_to_fields, normalize_field_name
from rsso_dspy.lm.adapters.field_values import (
    convert_value,
    is_list_field,
    is_optional_field,
    is_single_value,
    is_text_field,
)
from rsso_dspy.lm.adapters.list_values import BULLET, NOTHING, split_bullets

INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060\u00ad"))
FULL_WIDTH = {ord(wide): narrow for wide, narrow in zip("：［］｛｝＂，＃【】＜＞“”", ':[]{}",#[]<>""', strict=True)}
THINKING = r"(?:think|thinking|thought_process|reasoning_process|reflection)"
OPENING = re.compile(rf"\s*<{THINKING}>", re.I)
CLOSED = re.compile(rf"<{THINKING}>(.*?)</{THINKING}>", re.I | re.S)
STRAY = re.compile(rf"</?{THINKING}>", re.I)
FIRST_FIELD = re.compile(r"^\s*(?:\[\[|\{|<|\*\*|#|\w[\w ]{0,25}:)", re.M)
"""A line that can begin an answer; unclosed thinking without such a line was cut off."""
TOKENS = re.compile(
    r"<\|im_start\|>(?:assistant)?|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>(?:model)?"
    r"|<\|\w+\|>|<end_of_turn>|</?s>|\[/?INST\]"
)
FINAL = "<|channel|>final<|message|>"
LAST_TOKENS = re.compile(r"(?:\s*(?:<\|\w+\|>|<end_of_turn>|</s>))+\s*\Z")
LAST_MARK = "[[ ## completed ## ]]"
PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype|html|head|body)\b", re.I)
REFUSAL = re.compile(
    r"(?:\W*(?:i'?m|i am|i|we|sorry|as an|unfortunately|apologies|my apologies|no answer|none|n/a|error|please)\b)",
    re.I,
)
LEAD_IN = re.compile(r"(?:sure|okay|ok|certainly|of course|here|below|based on|great|alright|understood)\b.*|.*:", re.I)
TURN = re.compile(rf"\n\s*\W{{0,3}}(?:{'|'.join(sorted(ENVIRONMENT))})(?:\s+\d+)?\W{{0,3}}[:：]", re.I)
ROW = re.compile(r"^[ \t]*\|[ \t]*([^|\n]+?)[ \t]*\|[ \t]*([^|\n]*?)[ \t]*\|[ \t]*$", re.M)
EVERY = "bracket tag label heading"
LONGEST_BARE = 200


def repair_answer(signature: type[dspy.Signature], completion: str) -> dict[str, Any] | None:
    """Return the fields of the answer in the signature's order; None if they are unclear."""
    text = TOKENS.sub("", completion.rpartition(FINAL)[2]).translate(INVISIBLE)
    if not signature.output_fields or not text.strip() or PAGE.match(text):
        return None
    text = _strip_quote_marks(text)
    forms = dict.fromkeys((text, text.translate(FULL_WIDTH), ROW.sub(r"\1: \2", text)))
    for most in (False, True):
        for form in forms:
            if (fields := _parse_text(signature, form, most)) is not None:
                return fields
    return None


def trim_answer(completion: str) -> str:
    """Remove what is provably no part of the answer: thinking at its start, a chat template's tokens at its end,
    and DSPy's last mark on a line of something else."""
    text = completion
    if (body := text.rstrip()).endswith(LAST_MARK) and body.rpartition("\n")[2] != LAST_MARK:
        text = body.removesuffix(LAST_MARK).rstrip()
    if text.endswith((">", ">\n", "> ")):
        text = LAST_TOKENS.sub("", text)
    if OPENING.match(text):
        text = CLOSED.sub("", text, count=1).strip()
    return text or completion


def is_echoed_placeholder(said: Any, name: str) -> bool:
    """Return whether a text is the prompt's placeholder of the field: ``{action}``, dots, ``[your action here]``."""
    shown = rf"\{{{name}\}}\s*(?:# note:.*)?|\.\.\.|…|[\[<{{(]?(?:your|insert) [\w ]{{1,40}} here[\]>}})]?"
    return isinstance(said, str) and re.fullmatch(shown, said.strip(), re.I) is not None


def is_placeholder(said: Any) -> bool:
    """Return whether a text is any placeholder: ``{anything}``, ``<anything>``, ``your action here``, dots; also with
    remains of an object around it."""
    if not isinstance(said, str):
        return False
    bare = re.sub(r"\n\s*\}$", "", said.strip()).strip("[]()`\"'*, ")
    return (
        re.fullmatch(r"[.…]+|(?:your|insert|write|put|enter)\b.*\bhere\W*|\{[^{}\"']*\}|<[^<>]*>", bare, re.I)
        is not None
    )


def _strip_quote_marks(text: str) -> str:
    lines = text.strip().splitlines()
    quoted = all(line.lstrip().startswith(">") or not line.strip() for line in lines)
    return "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines) if quoted else text


def _parse_text(signature: type[dspy.Signature], text: str, most: bool) -> dict[str, Any] | None:
    """Parse the fields with the first form that holds all of them, or most of them if `most`."""
    thinking, text = _split_thinking(text)
    known = map_names_to_fields(signature)
    for form in _iter_parsed_answers(text, known):
        if (fields := _convert_fields(signature, form.said, form.loose, most)) is not None:
            return fields
    for form in (*iter_object_answers(text, known), parse_sections(text, known, EVERY)):
        if (
            fields := _convert_fields(signature, _add_reasoning(signature, form, known, thinking), form.loose, most)
        ) is not None:
            return fields
    return _parse_bare_value(signature, text)


def _split_thinking(text: str) -> tuple[str, str]:
    """Split a text into its thinking and the rest. The opening tag may be missing because chat templates write it. If
    the closing tag is missing, the end of the thinking is unknown."""
    inside = [match.group(1).strip() for match in CLOSED.finditer(text)]
    rest = CLOSED.sub("\n", text)
    before, tag, after = rest.partition("</think>")
    if tag and "<think>" not in before:
        return "\n".join([before.strip(), *inside]), after
    open_ended = OPENING.match(rest) is not None
    rest = STRAY.sub("\n", rest)
    return "\n".join(inside), "" if open_ended and not FIRST_FIELD.search(rest) else rest


def _iter_parsed_answers(text: str, known: Mapping[str, str]) -> Iterator[ParsedAnswer]:
    """Yield the ways to read the text, strictest first."""
    yield parse_sections(text, known, "bracket")
    yield from iter_object_answers(text, known)
    for kinds in ("tag", "label heading", EVERY, f"{EVERY} inline"):
        yield parse_sections(text, known, kinds)


def _add_reasoning(
    signature: type[dspy.Signature], form: ParsedAnswer, known: Mapping[str, str], thinking: str
) -> Mapping[str, Any]:
    """Add to the fields of a form what comes before them: fields in another form, or missing reasoning."""
    ahead = parse_sections(form.before, known, EVERY).said
    first = next(iter(signature.output_fields))
    missing = first not in form.said and first not in ahead
    if (
        not form.said
        or not missing
        or normalize_field_name(first) not in REASONING
        or is_optional_field(signature.output_fields[first])
    ):
        return {**ahead, **form.said}
    return {**ahead, **form.said, first: _extract_reasoning(form.before) or thinking}


def _convert_fields(
    signature: type[dspy.Signature], said: Mapping[str, Any], loose: bool, most: bool
) -> dict[str, Any] | None:
    """Convert the fields to their types; None unless all required ones are there. With `most`, missing or unreadable
    lists count as empty if more than half of the required fields are there."""
    if not said:
        return None
    fields: dict[str, Any] = {}
    missing: list[str] = []
    for name, info in signature.output_fields.items():
        value = said.get(name)
        if isinstance(value, str) and is_text_field(info):
            value = _strip_decoration(value, is_single_value(info), loose)
        given = name in said
        if is_placeholder(value) or is_echoed_placeholder(value, name):
            value, given = None, given and not is_list_field(info)
        if (value := convert_value(value, info) if given else None) is not None:
            fields[name] = value
        elif most and is_list_field(info) and not is_optional_field(info):
            fields[name] = []
            missing.append(name)
        elif not is_optional_field(info):
            return None
    if missing and 2 * len(missing) >= sum(not is_optional_field(info) for info in signature.output_fields.values()):
        return None
    return apply_output_field_defaults(signature, fields)


def _extract_reasoning(before: str) -> str:
    """Return the prose before the first field without polite lead-ins."""
    lines = [line for line in before.strip().splitlines() if not LEAD_IN.fullmatch(line.strip())]
    prose = re.sub(r"^```\w*$", "", "\n".join(lines), flags=re.M).strip()
    return "" if REFUSAL.match(prose) and re.search(r"can(?:'|no)t|sorry|unable", prose) else prose


def _strip_decoration(text: str, one: bool, loose: bool) -> str:
    """Strip the marks around a text; from a single value also the other side's part after it."""
    text = TURN.split("\n" + text)[0].strip() if one else text.strip()
    if not loose:
        return text
    text = re.sub(r"^```\w*\n|\n?```\s*$|^[|>][-+]?[ \t]*\n", "", text).strip()
    wrapped = re.fullmatch(r"(`{1,3}|\*{1,2}|\"|')(.+)\1", text)
    return wrapped.group(2).strip() if wrapped and wrapped.group(1) not in wrapped.group(2) else text


def _parse_bare_value(signature: type[dspy.Signature], text: str) -> dict[str, Any] | None:
    """Parse an answer that is only the value of the only required field."""
    required = [name for name, info in signature.output_fields.items() if not is_optional_field(info)]
    if len(required) != 1:
        return None
    name, info = required[0], signature.output_fields[required[0]]
    text = re.sub(r"^```\w*\s*\n|\n?```\s*$", "", text.strip()).strip()
    if is_text_field(info):
        text = _strip_decoration(BULLET.sub("", re.sub(r"^>\s+", "", text)), True, True)
        plausible = len(text.splitlines()) == 1 and len(text) <= LONGEST_BARE and re.match(r"[^\W_]", text)
        talk = REFUSAL.match(text) or LEAD_IN.fullmatch(text) or is_placeholder(text)
        if not plausible or talk or re.search(r"[{}<>:?]|\[\[", text):
            return None
    elif is_list_field(info):
        lines = [line for line in text.splitlines() if line.strip()]
        listed = (
            bool(lines) and (BULLET.match(lines[0]) or lines[0].rstrip().endswith(":")) and len(split_bullets(text)) > 1
        )
        numbers = text and re.fullmatch(r"(?:\d+|[\s,;&]|and)*", text)
        if REFUSAL.match(text) and not NOTHING.fullmatch(text):
            return None
        if not (listed or text.startswith("[") or NOTHING.fullmatch(text) or numbers):
            return None
    else:
        return None
    value = convert_value(text, info)
    return None if value is None else apply_output_field_defaults(signature, {name: value})
