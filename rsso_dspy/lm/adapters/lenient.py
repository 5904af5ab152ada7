"""Answers that lack what decides nothing: a bare action, one without reasoning or subgoal, a plan as plain prose.

repair_leniently(SkillActor, "teleport outside", frozenset({"teleport"}))
# {"reasoning": "", "current_subgoal": "none", "next_action": "teleport outside"}
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.lm.adapters.answer_parser import parse_sections
from rsso_dspy.lm.adapters.field_names import ENVIRONMENT, PROSE, SPARED, map_names_to_fields, normalize_field_name
from rsso_dspy.lm.adapters.field_values import is_optional_field
from rsso_dspy.lm.adapters.repair import EVERY, LEAD_IN, is_placeholder, repair_answer
from rsso_dspy.signatures.layouts import SignatureWords, read_words

LONGEST_LINE = 120
"""Characters of a line that is taken for an action."""
FEWEST_WORDS = 4
"""Of a text that is taken for a plan."""

_FENCE = re.compile(r"^\s*```\w*\s*$", re.M)
_THINKING = re.compile(r"<(think|thinking|reasoning|reflection)>.*?</\1>", re.I | re.S)
_MARKS = re.compile(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?[*_`\"'“‘]*")
_REFUSAL = re.compile(
    r"\W*(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|as an (?:ai|assistant|language)"
    r"|i (?:can(?:'?t|not)|won'?t|would rather not))\b",
    re.I,
)
_TURN = re.compile(rf"\W{{0,3}}(?:{'|'.join(sorted(map(re.escape, ENVIRONMENT)))})\W{{0,3}}[:：]", re.I)


def repair_leniently(signature: type[dspy.Signature], completion: str, verbs: Collection[str]) -> dict[str, Any] | None:
    """As `repair`, with the fields of `SPARED` allowed to be missing. A text in no form at all is the value of the only
    field that has to be there: an action when its one line, or its last, begins with one of `verbs`, a plan when it is
    prose. None when the signature has no such fields, or nothing can be read."""
    kind: Any = signature
    spared = _spare(kind, read_words(signature))
    if spared is None:
        return None
    required = [name for name, info in spared.output_fields.items() if not is_optional_field(info)]
    if len(required) != 1:
        return repair_answer(spared, completion)
    bare = _prose(completion, spared) if required[0] in PROSE else _line(completion, verbs)
    if (fields := repair_answer(spared, completion)) is not None and not _is_whole(fields[required[0]], completion):
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


@lru_cache(maxsize=64)
def _spare(signature: Any, _words: SignatureWords) -> Any:
    """The signature with the fields of `SPARED` optional; None when it has none, or nothing else that is required."""
    names = [name for name in signature.output_fields if name in SPARED]
    if not names:
        return None
    fields = {}
    for name, info in signature.fields.items():
        kind = dspy.InputField if name in signature.input_fields else dspy.OutputField
        extra = {"default": SPARED[name]} if name in names else {} if info.is_required() else {"default": info.default}
        fields[name] = (info.annotation, kind(desc=info.json_schema_extra["desc"], **extra))
    return dspy.Signature(fields, signature.instructions)


def _is_whole(said: Any, completion: str) -> bool:
    """Whether a field was given everything there is: a text in no form."""
    letters = re.compile(r"[\W_]+")
    return isinstance(said, str) and letters.sub("", said) == letters.sub("", completion)


def _line(completion: str, verbs: Collection[str]) -> tuple[str, str] | None:
    """The last line where it is an action, and what stands before it."""
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


def _prose(completion: str, signature: type[dspy.Signature]) -> tuple[str, str] | None:
    """A text that is more than a few words and no refusal, and names no field."""
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
