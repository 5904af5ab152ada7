"""How a signature becomes a conversation, and an answer its fields. Models that follow no form are read all the same.

    with dspy.context(adapter=ChatAdapter()):
        dspy.Predict("task -> thought, action")(...)        # also reads "Thought: ...\\nAction: open door"

An input of type `dspy.History` makes a conversation: the inputs declared before it are said once, those after it in
every turn. A wrong answer is worse than an unreadable one: a missing required field is never invented. Of several
answers the first complete one counts; the model plays on alone in others.
"""

import ast
import json
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import dspy
import json_repair
from dspy.adapters.utils import annotation_allows_none, parse_value
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.answers import Separated, blank_barred, find_passage, has_mark, separate
from rsso_dspy.answers.actions import GIVEN, TALK, find_action, find_ahead, read_action
from rsso_dspy.answers.fences import find_fences, mask_fences
from rsso_dspy.answers.objects import close_cut, mask_objects
from rsso_dspy.playing import get_playing
from rsso_dspy.regions import list_items
from rsso_dspy.signatures.texts import label, read_description, show, show_field

__all__ = ["ChatAdapter", "JSONAdapter"]

Fields = dict[str, Any]
Signature = type[dspy.Signature]

OPTIONAL = {"thought": "", "reasoning": "", "subgoal": "none", "mistakes": ""}
"""Output fields that an answer may lack, with their defaults, because they decide nothing."""
SAID = "said"
"""Key of a turn and of a prediction with a history: what the model answered, word for word."""


# What is sent.


def _list_asked(signature: Signature) -> Fields:
    """Return the outputs that are asked for: at least the last."""
    fields = signature.output_fields
    unasked = get_playing().unasked
    outputs = {name: field for name, field in fields.items() if name not in unasked}
    if outputs:
        return outputs
    return dict([*fields.items()][-1:])


def _join_blocks(blocks: Sequence[str]) -> str:
    """Join blocks on lines of their own, with an empty line beside a block of several lines."""
    text = "".join(blocks[:1])
    for previous, block in pairwise(blocks):
        separator = "\n\n" if "\n" in previous + block else "\n"
        text += separator + block
    return text


class ChatAdapter(dspy.Adapter):
    """Labels and plain text. One output is the whole answer; several stand behind their labels, one a line.

    What cannot be read, or was cut off by the limit of tokens, is asked for once more in the same conversation, if
    `backends.NAME.ask_again` allows it. Where the limit went by without a word, it would do so again."""

    rejected: str | None = None
    """While an answer is asked for once more: the one that could not be used."""
    request: str = ""
    """What is said of it."""
    written: str = ""
    """The text of the last answer."""
    given: str | None = None
    """What it gave as its action."""

    def __call__(self, lm: dspy.BaseLM, lm_kwargs: Fields, *inputs: Any, **named: Any) -> list[Fields]:
        """As DSPy's."""
        first = copy(self)  # an adapter serves many threads, and a call notes its answer
        asks_again = getattr(lm, "asks_again", True)
        ledger = get_playing().ledger
        try:
            fields = first._ask(lm, lm_kwargs, *inputs, **named)
        except AdapterParseError as error:
            rejected = error.lm_response or ""
            if not asks_again or (ledger is not None and ledger.is_used_up):
                return _read_whole_lines(error)

            request = _request_readable(error.signature)
            was_cut = ledger is not None and ledger.was_cut
            if was_cut and request == REQUEST_FORM:
                request = request_shorter(rejected)
            try:
                return first._repeat(rejected, request)._ask(lm, lm_kwargs, *inputs, **named)
            except AdapterParseError as again:
                if ledger is None or ledger.was_cut or not was_cut:
                    return _read_whole_lines(again)
                ledger.was_cut = True  # as the answer is that is read
                return _read_whole_lines(error)

        if not asks_again or ledger is None or not ledger.was_cut or not _is_cut_short(first.written, fields[0]):
            return fields
        try:
            second = first._repeat(first.written, request_shorter(first.written))
            return second._ask(lm, lm_kwargs, *inputs, **named)
        except AdapterParseError:
            ledger.was_cut = True  # as the answer is that is taken
            return fields

    def _ask(self, *inputs: Any, **named: Any) -> list[Fields]:
        return super().__call__(*inputs, **named)

    def _repeat(self, rejected: str, request: str) -> "ChatAdapter":
        """Return an adapter that asks the same once more, below an answer and a request."""
        repeated = copy(self)
        repeated.rejected = rejected
        repeated.request = request
        return repeated

    def _call_preprocess(self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, inputs: Fields) -> Signature:
        rollout = get_playing().rollout
        is_cached = getattr(lm, "cache", False)
        temperature = lm_kwargs.get("temperature", getattr(lm, "kwargs", {}).get("temperature"))
        if rollout is not None and is_cached and temperature:
            lm_kwargs.setdefault("rollout_id", rollout)  # otherwise DSPy's cache would merge all retries

        processed: Signature = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        return processed

    def _call_postprocess(
        self, processed_signature: Any, original_signature: Any, outputs: list[Any], *rest: Any
    ) -> list[Fields]:
        """As DSPy's, with fields that were not asked for as empty texts, and beside a history with what was said."""
        parts: list[Any] = []
        for output in outputs:
            parts.append(output if isinstance(output, dict) else {"text": output})
        if not all(part.get("text") or part.get("tool_calls") for part in parts):
            raise AdapterParseError(type(self).__name__, original_signature, "", "The answer is empty.")
        self.written = parts[0].get("text") or ""
        values: list[Fields] = super()._call_postprocess(processed_signature, original_signature, outputs, *rest)

        for value, part in zip(values, parts, strict=True):
            if self.given is not None and self.given.strip() != value.get("action"):
                value[GIVEN] = self.given
            unasked = original_signature.output_fields.keys() - _list_asked(original_signature).keys()
            for name in unasked:
                if value.get(name) is None:
                    value[name] = ""
            if self._get_history_field_name(original_signature):
                value[SAID] = part.get("text") or ""

        if ledger := get_playing().ledger:
            _, _, last_line = self.written.rstrip().rpartition("\n")
            ledger.was_trimmed = HEAD_ALONE.fullmatch(last_line) is not None
        return values

    def format(self, signature: Signature, demos: list[Fields], inputs: Fields) -> list[Fields]:
        parts = [textwrap.dedent(signature.instructions).strip(), self.tell_form(signature)]
        parts += self._list_examples(signature, demos)
        system = "\n\n".join(part for part in parts if part)

        messages = [{"role": "system", "content": system}]
        for role, text in self._list_messages(signature, inputs):
            if not text:
                continue
            if messages[-1]["role"] == role == "user":
                messages[-1]["content"] += f"\n\n{text}"
            else:
                messages.append({"role": role, "content": text})
        return messages

    def _list_examples(self, signature: Signature, demos: list[Fields]) -> list[str]:
        """Return the parts of the system message that show demonstrations."""
        history = self._get_history_field_name(signature)
        names = [name for name in signature.input_fields if name != history]

        parts: list[str] = []
        number = 0
        for demo in demos:
            answer = self.tell_answer(signature, demo)
            if not answer:  # those of a training set have none
                continue
            number += 1
            if number == 1:
                parts.append("Examples:")
            demo_inputs = _join_blocks(self._list_inputs(signature, names, demo))
            parts.append(f"Example {number}\n{demo_inputs or answer}")
            if demo_inputs:
                parts.append(answer)
        return parts

    def _list_messages(self, signature: Signature, inputs: Fields) -> Iterator[tuple[str, str]]:
        """Yield role and text of each message after the system's; texts may be empty."""
        opening, in_each_turn = self._split_inputs(signature)
        blocks = self._list_inputs(signature, opening, inputs)
        for turn in self._list_turns(signature, inputs):
            blocks += self._list_inputs(signature, in_each_turn, turn)
            yield "user", _join_blocks(blocks)
            answer = turn.get(SAID, self.tell_answer(signature, turn))
            yield "assistant", answer or ""
            blocks = []

        blocks += self._list_inputs(signature, in_each_turn, inputs)
        yield "user", _join_blocks(blocks)
        if self.rejected is not None:
            yield "assistant", self.rejected.strip()
            yield "user", self.request

    def _split_inputs(self, signature: Signature) -> tuple[list[str], list[str]]:
        """Return the inputs that are said once, ahead of the history, and those that stand in every turn."""
        names = list(signature.input_fields)
        history = self._get_history_field_name(signature)
        if history is None:
            return names, []
        place = names.index(history)
        return names[:place], names[place + 1 :]

    def _list_turns(self, signature: Signature, inputs: Fields) -> Sequence[Fields]:
        history = inputs.get(self._get_history_field_name(signature) or "")
        if isinstance(history, Mapping):
            return history.get("messages") or ()
        return getattr(history, "messages", None) or ()

    def _list_inputs(self, signature: Signature, names: Collection[str], values: Mapping[str, Any]) -> list[str]:
        blocks = []
        for name in names:
            description = read_description(name, signature.input_fields[name])
            text = show_field(name, values.get(name), description)
            if text:
                blocks.append(text)
        return blocks

    def tell_answer(self, signature: Signature, outputs: Fields) -> str:
        fields = _list_asked(signature)
        blocks = []
        for name in fields:
            value = outputs.get(name)
            if isinstance(value, list | tuple):
                value = list_items([show(item) for item in value]) or "none"
            text = show(value)
            if text.strip():
                blocks.append(text if len(fields) == 1 else show_field(name, value))
        return "\n".join(blocks)

    @staticmethod
    def tell_form(signature: Signature) -> str:
        """The request for the answer. Of several outputs a sentence each says what they are, and the form has their
        labels alone: a small model copies whatever stands behind a label."""
        outputs = _list_asked(signature)
        if len(outputs) == 1:
            ((name, field),) = outputs.items()
            return _request_alone(name, field)

        lines = _describe_outputs(outputs)
        lines.append("Answer in this form:")
        for name, field in outputs.items():
            item = _show_item(field.annotation)
            if item:
                lines.append(f"{label(name)}:\n- {item}")
            else:
                lines.append(f"{label(name)}: {_tell_kind(field) or '...'}")
        return "\n".join(lines)

    def parse(self, signature: Signature, completion: str) -> Fields:
        ledger = get_playing().ledger
        fields = _read_with_given(signature, completion)
        self.given = None if fields is None else fields.pop(GIVEN, None)
        if fields is None:
            if ledger:
                ledger.unread(completion)
            raise AdapterParseError(type(self).__name__, signature, completion)

        form = _squeeze(self.tell_answer(signature, fields))
        answer = _squeeze(completion)
        if ledger and form != answer:
            ledger.count_repaired()
        return fields


class JSONAdapter(ChatAdapter):
    """The same, with the answer as one JSON object."""

    def tell_answer(self, signature: Signature, outputs: Fields) -> str:
        values = {}
        for name in _list_asked(signature):
            value = outputs.get(name)
            if value not in (None, ""):
                values[name] = value
        if not values:
            return ""
        return json.dumps(values, ensure_ascii=False, default=lambda value: value.model_dump())

    @staticmethod
    def tell_form(signature: Signature) -> str:
        outputs = _list_asked(signature)
        form = {}
        for name, field in outputs.items():
            item = _show_item(field.annotation, as_json=True)
            form[name] = [item] if item else _tell_kind(field) or "..."

        lines = _describe_outputs(outputs)
        lines.append("Answer with one JSON object in this form:")
        lines.append(json.dumps(form, ensure_ascii=False))
        return "\n".join(lines)


def _squeeze(text: str) -> str:
    """Return a text without spaces, ends of lines and hyphens."""
    return re.sub(r"[\s\-]+", "", text)


def _request_alone(name: str, field: Any) -> str:
    request = f"Answer with the {name.replace('_', ' ')} alone"
    item = _show_item(field.annotation)
    if item == "...":
        request += ", one a line"
    elif item:
        request += f", one a line, each in the form `{item}`"
    elif kind := _tell_kind(field):
        request += f", {kind}"
    if description := read_description(name, field):
        request += f": {description}"
    return f"{request.removesuffix('.')}."


def _describe_outputs(outputs: Fields) -> list[str]:
    """Return a sentence on each output that has a description."""
    sentences = []
    for name, field in outputs.items():
        description = read_description(name, field)
        if not description:
            continue
        is_plural = get_origin(_unwrap(field.annotation)) is list or name.endswith("s")
        verb = "are" if is_plural else "is"
        sentences.append(f"The {name.replace('_', ' ')} {verb} {description.removesuffix('.')}.")
    return sentences


def _show_item(annotation: Any, as_json: bool = False) -> Any:
    """Return how an item of a list looks, as a text or for JSON; an empty text for what is no list."""
    core = _unwrap(annotation)
    if get_origin(core) is not list:
        return ""
    item = _get_item_type(core)
    if not hasattr(item, "model_fields"):
        return "..."

    kinds = {name: _tell_kind(field) or "..." for name, field in item.model_fields.items()}
    if as_json:
        return kinds
    return " ".join(f"{label(name)}: {kind}" for name, kind in kinds.items())


def _get_item_type(list_type: Any) -> Any:
    """Return the type of a list's items: texts, where the list does not say."""
    arguments = get_args(list_type)
    return arguments[0] if arguments else str


def _tell_kind(field: Any) -> str:
    """Return what a value looks like that is neither a text nor a list."""
    core = _unwrap(field.annotation)
    if get_origin(core) is Literal:
        return "/".join(map(str, get_args(core)))
    kinds = {int: "a whole number", float: "a number", bool: "true or false"}
    return kinds.get(core, "")


HEAD_ALONE = re.compile(r"\W*(?:\w+(?:[ _]\w+){0,2}[*_]*:)?\W*")
"""A line with a label or the mark of a list, and nothing behind it."""


def _read_whole_lines(error: AdapterParseError) -> list[Fields]:
    """Read an answer of several lists that the limit of tokens cut off, without its last line: the lists that it did
    not come to are empty. Raises the error where another answer could not be read, or nothing is left."""
    ledger = get_playing().ledger
    kinds = _list_kinds(_list_asked(error.signature))
    has_lists_alone = all(get_origin(kind.annotation) is list for kind in kinds.values())
    if ledger is None or not ledger.was_cut or not has_lists_alone:
        raise error

    row = _find_whole_lists(error.lm_response or "", tuple(kinds))
    fields = {}
    for name, kind in kinds.items():
        items = _convert(row.get(name, ""), kind.annotation, kind.told)
        if items is None:
            raise error
        fields[name] = items
    if not any(fields.values()):
        raise error
    ledger.was_trimmed = True
    return [fields]


def _find_whole_lists(text: str, fields: tuple[str, ...]) -> Fields:
    """Return what stands of an answer ahead of the line, or of the item of an object, in which it was cut off."""
    bare = _strip_marks(text)
    if bare.startswith("{"):
        values = _load(close_cut(bare) or "{}")
        if values and isinstance(values[0], Mapping):
            return _take_fields(values[0], fields)
        return {}

    whole_lines, _, _ = text.rstrip().rpartition("\n")
    fields_by_name, _ = _spell(fields, HEADER)
    separated = separate(whole_lines, fields_by_name)
    rows, _ = _find_rows(blank_barred(separated.text), fields, HEADER)
    return rows[0] if len(rows) == 1 else {}


REQUEST_FORM = "That could not be read. Answer again in the form asked for."


def _request_readable(signature: Signature) -> str:
    kinds = _list_kinds(_list_asked(signature))
    required = [name.replace("_", " ") for name, kind in kinds.items() if not kind.optional]
    if len(required) > 1:
        return REQUEST_FORM
    return f"No {required[0]} could be read from that. Answer with the {required[0]} alone."


def request_shorter(written: str) -> str:
    """Return what is said of an answer that the limit of tokens cut off."""
    most_words = max(10, len(written.split()) // 2)
    return f"That was too long and was cut off. Answer again, in at most {most_words} words."


def _is_cut_short(written: str, fields: Fields) -> bool:
    """Whether an answer that was cut off lost a part: not where it ends with a whole sentence or object, nor where it
    had gone on behind the action."""
    if written.rstrip().endswith((".", "!", "?", "}", "]", ">")):
        return False
    action = fields.get("action")
    if not isinstance(action, str):
        return True
    behind = written[written.find(action) + len(action) :]
    return "\n" not in behind.strip(" \t")


# What is read.

SYNONYMS = {
    "thought": "thoughts|reasoning|analysis|think|thinking",
    "subgoal": "current_subgoal|chosen_subgoal",
    "action": "next_action|command|act",
    "target": "target_state",
    "mistakes": "what_went_wrong|mistake",
    "mistake": "error|problem|wrong|what_went_wrong",
    "solution": "instead|fix|correct|correction|what_to_do_instead",
}
"""Field to the other names that models give it."""
TURNS = "observations?|obs|env(?:ironment)?|result|user|human|assistant|system|feedback|response|output|reward|history"
"""Names that end an answer: after them the model plays the other side's part."""
HEADER = (
    r"(?im)(?:^[#* \t]+)?(?<![`\[])\[(?:\[|(?=\s*##))\s*#*\s*(?P<mark>[a-z][\w -]{0,40}?)\s*:?\s*#*\s*\]\]?[*: \t]*"
    r"|<(?P<tag>NAME)(?:\s[^<>]*)?>|</(?P<end>NAME)>"
    r"|^[ \t]*(?:[-*•+]\s+|\(?\d+[.):]\s+)?[# \t*_`\"']*(?:my |the )?(?P<label>NAME|TURNS)(?: is)?[ _]?\d*[*_`\"'#]*"
    r"(?:[ \t]*[:=]|[ \t]+[-–—](?=[ \t]))[*_ \t]*"
    r"|^(?=[#*_])#*[ \t]*[*_]*(?P<title>NAME)[*_# \t]*$"
).replace("TURNS", TURNS)
"""Where a field begins: `[[ ## name ## ]]`, `<name>`, `**Name:**`, `### Name`."""
INLINE = HEADER + r"|(?<=[.!?;|,(-])[ \t]*[*_]*(?P<inline>NAME)[*_]*:[*_]*"
"""The same, and after a sentence `Name:`."""
REFUSAL = re.compile(
    r"(?i)\W*(?:(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|unfortunately"
    r"|as an (?:ai|assistant|language)|i (?:can(?:'?t|not)|won'?t|would rather not))\b|(?:null|error)\W*\Z)"
)
NOTHING = re.compile(r"\s*(?:none|null|nil|n/?a|nothing|empty|no (?:rules|errors|mistakes)|\[\s*\]|-)?[.!]?\s*", re.I)
FINAL = re.compile(
    r"(?im)^[^\w\n]*(?:my |the )?(?:final(?:[ _](?:answer|action|choice))?|answer|decision)[*_ ]*:[*_ \t]*"
)
"""A label of an answer that is no name of a field."""
FORMATTED = re.compile(r"^(?:<(?:b|i|u|em|strong|code|span|p)>)+(.*?)(?:</(?:b|i|u|em|strong|code|span|p)>)+\s*$")
"""A line between marks that say how it looks."""
PLACEHOLDER = re.compile(r"(?i)[.…]+|(?:your|insert|write|put|enter)\b.*\bhere\W*|\{[^{}\"'“:]+\}(?:\s*#.*)?|<[^<>]*>")
BULLET = re.compile(r"^[ \t]*(?:[-*•–+]|\(?\d+[.):]|\(?[a-z]\)|(?:step|rule)\s*\d+[.:)])\s+", re.I | re.M)
MARKS = " \t*_`\"'“”‘’"
LONGEST_ACTION = 120  # characters
FEWEST_WORDS = 3  # of a text that lacks the other fields
MOST_OBJECTS = 10  # braces that are tried
LONGEST_LITERAL = 20_000  # characters of what is repaired
MOST_MARKS = 600  # quotes and brackets of what is repaired: json_repair takes the cube of their number


class Kind(NamedTuple):
    annotation: Any
    told: str  # the description
    optional: bool  # whether the answer may lack it
    default: Any


def _unwrap(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else annotation


def _list_kinds(fields: Mapping[str, Any]) -> dict[str, Kind]:
    """Return what output fields, or the fields of an object, hold; at least one is required."""
    kinds = {}
    for name, field in fields.items():
        required = field.is_required()
        optional = not required or annotation_allows_none(field.annotation)
        default = None if required else field.get_default(call_default_factory=True)
        if not optional and name in OPTIONAL and field.annotation is str:
            optional = True
            default = OPTIONAL[name]
        kinds[name] = Kind(_unwrap(field.annotation), _describe_content(name, field), optional, default)

    if kinds and all(kind.optional for kind in kinds.values()):
        last = list(kinds)[-1]
        kinds[last] = kinds[last]._replace(optional=False)
    return kinds


def _describe_content(name: str, field: Any) -> str:
    description = read_description(name, field) if field.json_schema_extra else "one"
    if not description and name == "action":
        return "one action"
    return description


def read_answer(signature: Signature, completion: str) -> Fields | None:
    """Return the fields of the answer in the signature's order; None if they are unclear, or if a mark of a chat
    template stands in the action."""
    fields = _read_with_given(signature, completion)
    if fields is not None:
        fields.pop(GIVEN, None)
    return fields


def _read_with_given(signature: Signature, completion: str) -> Fields | None:
    """Return the fields of the answer, and under `GIVEN` what was given as the action."""
    kinds = _list_kinds(_list_asked(signature))
    is_free = get_playing().free_form is not None
    fields_by_name, _ = _spell(tuple(kinds), HEADER)
    separated = separate(completion, fields_by_name, keeps_code=is_free)
    if "action" not in kinds:
        separated = replace(separated, text=blank_barred(separated.text))
    fields = _read_separated(kinds, _choose_frame(kinds, separated))
    if fields is None:
        return None

    action = str(fields["action"]) if "action" in kinds else ""
    is_marked = blank_barred(action) != action if is_free else has_mark(action)
    if is_marked and action not in get_playing().possible:
        return None

    if is_free and action:
        given = str(fields.get(GIVEN, action))
        fields |= _choose_writing(action, given, completion)
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = blank_barred(value)
    return fields


def _choose_writing(action: str, given: str, completion: str) -> Fields:
    """Return an action, and what was given as it, as the answer has them, marks of web pages and comments among them.
    The action stays as it was read if it is known so and not as it was written, or if it is a line and was written on
    several."""
    form = get_playing().free_form
    passage = find_passage(action, completion)
    is_longer = form.form == "line" and "\n" in passage
    is_known = form.knows(action) and not form.knows(passage)
    if is_longer or is_known:
        return {"action": action, GIVEN: passage}
    return {"action": passage, GIVEN: find_passage(given, completion)}


def _choose_frame(kinds: Mapping[str, Kind], separated: Separated) -> Separated:
    """Return the block alone that says it is the answer, if no fields stand elsewhere but a thought ahead of it."""
    frame = separated.frame
    if frame is None:
        return separated

    rows, preamble = _find_rows(frame.before, tuple(kinds), HEADER)
    rows_behind, _ = _find_rows(frame.after, tuple(kinds), HEADER)
    stands_before: Fields = {}
    for row in rows:
        stands_before |= row
    if any(rows_behind) or not _list_required(kinds).isdisjoint(stands_before):
        return replace(separated, text=frame.unframed)

    return replace(
        separated,
        text=frame.content.strip(),
        thinking=preamble or separated.thinking,
        named={**stands_before, **separated.named},
    )


def _list_required(kinds: Mapping[str, Kind]) -> set[str]:
    return {name for name, kind in kinds.items() if not kind.optional}


def _read_separated(kinds: Mapping[str, Kind], separated: Separated) -> Fields | None:
    """Read an answer's fields. The strictest way goes first: as the action that it is, as an object, below headers, as
    one value."""
    text = separated.text
    thinking = separated.thinking
    named_fields = separated.named
    if _list_required(kinds) <= named_fields.keys():
        fields = _convert_fields(kinds, named_fields)
        return _complete(kinds, fields, thinking) if fields else None

    if "action" in kinds and (action := _find_possible(text)):
        fields = {**_convert_named(kinds, named_fields), "action": action, GIVEN: text}
        return _complete(kinds, fields, thinking)
    if get_playing().free_form is not None and _list_required(kinds) == {"action"}:
        return _read_free_action(kinds, separated)

    braces = list(re.finditer(r"\{", text))
    for brace in braces[:MOST_OBJECTS]:
        values = _load(text[brace.start() : text.rfind("}") + 1], first=True)
        if not values or not isinstance(values[0], Mapping):
            continue
        object_fields = _take_fields(values[0], tuple(kinds))
        if object_fields:
            fields = _convert_fields(kinds, {**named_fields, **object_fields})
            return _complete(kinds, fields, text[: brace.start()], thinking) if fields else None
        inner_objects = sum(isinstance(item, Mapping) for item in values[0].values())
        if inner_objects > 1:
            return None  # several answers

    if not text or re.match(r"(?:```\w*\s*)?\{", text):
        return None
    return _read_labelled(kinds, separated)


def _read_labelled(kinds: Mapping[str, Kind], separated: Separated) -> Fields | None:
    """Read a text as fields below headers, or else as one value."""
    rows, preamble = _find_rows(separated.text, tuple(kinds), HEADER)
    if any(rows):
        rows[0] = _add_named(rows[0], separated.named)

    last = list(kinds)[-1]
    rows_with_last = [row for row in rows if last in row]
    row = rows_with_last[0] if rows_with_last else rows[0]
    last_values = {row[last] for row in rows_with_last}
    is_contradictory = len(row) < len(kinds) and len(last_values) > 1
    if not is_contradictory:
        fields = _convert_fields(kinds, row)
        if fields:
            return _complete(kinds, fields, preamble, separated.thinking)
    return _read_unlabelled(kinds, separated, row.get("thought", ""))


def _read_free_action(kinds: Mapping[str, Kind], separated: Separated) -> Fields | None:
    """Read an answer whose action may be anything: behind its label, in an object of the form that was asked for, or
    the whole answer. What looks like a label in a fenced block or an object is none."""
    form = get_playing().free_form
    text = separated.text
    row = _load_form(kinds, text) or {}
    preamble = ""
    begins_with_label = False
    if not row:
        masked = mask_objects(mask_fences(text))
        rows, preamble = _find_rows(text, tuple(kinds), HEADER, masked)
        begins_with_label = any(rows) and not preamble.strip()

        labelled = [row for row in rows if "action" in row]
        actions = {str(row["action"]) for row in labelled} - {""}
        if labelled and len(actions) != 1:
            return None
        row = next((row for row in labelled if row["action"]), {})

    raw_action = row.get("action") or separated.named.get("action") or ""
    if not isinstance(raw_action, str):
        raw_action = json.dumps(raw_action, ensure_ascii=False)
    if raw_action:
        is_placeholder = PLACEHOLDER.fullmatch(raw_action.strip("[]()`\"'*, ")) is not None
        action = "" if is_placeholder else read_action(raw_action, form)
    else:
        raw_action = text
        action = "" if REFUSAL.match(text) else find_action(text, form)
        ahead = find_ahead(text, action, form)
        (row, *_), preamble = _find_rows(ahead, tuple(kinds), HEADER)
        if begins_with_label and action == text.strip():
            return None  # a label of another field is none of an action
    if not action:
        return None

    other_fields = {name: content for name, content in row.items() if name != "action"}
    fields = _convert_named(kinds, {**separated.named, **other_fields})
    fields["action"] = action
    fields[GIVEN] = raw_action
    return _complete(kinds, fields, preamble, separated.thinking)


def _load_form(kinds: Mapping[str, Kind], text: str) -> Fields | None:
    """Return the fields of an answer that is one object with fields of the form alone; another object is an action, and
    so is one as the templates show it, if it holds no such object as its action."""
    bare = _strip_marks(text)
    if not bare.startswith("{"):
        return None
    values = _load(bare)
    if len(values) != 1 or not isinstance(values[0], Mapping):
        return None
    fields = _take_fields(values[0], tuple(kinds))
    if "action" not in fields or len(fields) < len(values[0]):
        return None

    form = get_playing().free_form
    inner = fields["action"]
    holds_action = isinstance(inner, Mapping) and form.fits(frozenset(inner))
    is_action = form.fits(frozenset(values[0])) and not holds_action
    return None if is_action else fields


def _read_unlabelled(kinds: Mapping[str, Kind], separated: Separated, labelled: str) -> Fields | None:
    """Read a text without the labels of required fields as the one that is required; None if it may be something else.
    `labelled` is what stands below the label of the thought, the action with it."""
    text = _strip_marks(separated.text)
    if _may_be_talk(kinds, separated, text):
        return None

    if "action" in kinds:
        text = _cut_at_final(text)
    elif all(kinds[name].annotation is str for name in _list_required(kinds)):
        text = _strip_text(separated.text)
    fields = _read_bare(kinds, text)
    if not fields:
        return None

    thought = _cut_at_action(labelled, fields.get("action", ""))
    if thought:
        fields["thought"] = thought
    fields.update(_convert_named(kinds, separated.named))
    return _complete(kinds, fields, separated.thinking)


def _may_be_talk(kinds: Mapping[str, Kind], separated: Separated, text: str) -> bool:
    """Whether what stands behind a block may speak of it, and be no answer."""
    if separated.named and "action" in kinds:
        return not (get_playing().verbs or get_playing().possible)  # nothing says that it is an action

    wants_list = any(get_origin(kind.annotation) is list for kind in kinds.values())
    is_sentence = "\n" not in text and not BULLET.match(text)
    return separated.is_guess and wants_list and is_sentence


def _cut_at_final(text: str) -> str:
    """Return what stands behind the label of a final answer; the whole text without one, and nothing if there are
    several."""
    labels = list(FINAL.finditer(text))
    if not labels:
        return text
    if len(labels) > 1:
        return ""
    return text[labels[0].end() :].strip()


def _cut_at_action(thought: str, action: str) -> str:
    """Return the lines of a thought above the action; nothing where the action is none of its lines."""
    lines = thought.splitlines()
    for number, line in enumerate(lines):
        if _read_action(line) == action:
            return "\n".join(lines[:number]).strip()
    return ""


def _read_action(text: str) -> str:
    """Return the possible action that a text is, or its first line without marks and full stop."""
    return _find_possible(text) or _strip_stop(_first_line(text))


def _add_named(row: Fields, named: Mapping[str, str]) -> Fields:
    """Add the fields whose blocks stand ahead of a row. Where the row begins with such a field, the row counts."""
    first = next(iter(row))
    fields: Fields = {**named, first: row[first]}
    for name, text in row.items():
        if name not in named:
            fields[name] = text
    return fields


def _convert_named(kinds: Mapping[str, Kind], named: Mapping[str, str]) -> Fields:
    """Return the fields whose blocks stand ahead of the answer, but those that are unclear."""
    fields = {}
    for name, text in named.items():
        value = _convert(text, kinds[name].annotation, kinds[name].told)
        if value is not None:
            fields[name] = value
    return fields


def _complete(kinds: Mapping[str, Kind], fields: Fields, *before: str) -> Fields:
    """Fill fields that an answer may lack; what stands before the answer, or its thinking, is the missing thought."""
    if "thought" in kinds:
        for text in before:
            thought = re.sub(r"<[^<>]*>|^```.*$", "", text, flags=re.M).strip()
            has_words = re.search(r"\w", thought) is not None
            if "thought" not in fields and has_words and not REFUSAL.match(thought):
                fields = fields | {"thought": thought}

    completed = {name: fields.get(name, kind.default) for name, kind in kinds.items()}
    if GIVEN in fields:
        completed[GIVEN] = fields[GIVEN]
    return completed


def _convert_fields(kinds: Mapping[str, Kind], said: Mapping[str, Any]) -> Fields:
    """Return the fields; {} if they are unclear. Only lists may be missing, and fewer than are there."""
    fields: Fields = {}
    missing = []
    for name, kind in kinds.items():
        content = said.get(name)
        if name == "action" and isinstance(content, str):
            content = _strip_marks(content)
        value = _convert(content, kind.annotation, kind.told) if name in said else None

        is_list = get_origin(kind.annotation) is list
        if value is not None and name == "action":
            fields[name] = _read_action(value)
            fields[GIVEN] = value
        elif value is not None:
            fields[name] = value
        elif said.get(name) and is_list:
            return {}  # a list that is there, and unclear, is not empty
        elif not kind.optional:
            fields[name] = []
            missing.append(is_list)

    required = len(_list_required(kinds))
    if said and all(missing) and 2 * len(missing) < required:
        return fields
    return {}


def _read_bare(kinds: Mapping[str, Kind], text: str) -> Fields:
    """Read a text as the one field that is required; {} if it may be something else."""
    required = [(name, kind) for name, kind in kinds.items() if not kind.optional]
    if len(required) != 1 or REFUSAL.match(text):
        return {}

    ((name, kind),) = required
    if name == "action":
        fields = _find_action(text)
        if not fields:
            return {}
        fields[GIVEN] = text.removeprefix(fields.get("thought", "")).strip()
        return fields

    is_clear = _is_clear_text(kinds, text) if kind.annotation is str else _is_clear_value(kind, text)
    if not is_clear:
        return {}
    value = _convert(text, kind.annotation, kind.told)
    return {} if value is None else {name: value}


def _is_clear_text(kinds: Mapping[str, Kind], text: str) -> bool:
    if len(kinds) > 1 and len(text.split()) < FEWEST_WORDS:
        return False
    if not re.match(r"[^{\[<]*[^\W\d]", text):
        return False
    _, header = _spell(tuple(kinds), HEADER)
    return header.search(text) is None


def _is_clear_value(kind: Kind, text: str) -> bool:
    """Whether a text may be a value: of a list of texts, only where it looks like a list, or like its one item."""
    is_list_of_texts = get_args(kind.annotation) == (str,)
    return not is_list_of_texts or "\n" in text or text[:1] == "[" or _is_item(text)


def _is_item(line: str) -> bool:
    """Whether a text of one line is a list of one item, or says that there is none: behind a mark of lists, or bare,
    where it is neither talk about the answer, nor a question, the head of a list, or several items told in a row."""
    if BULLET.match(line) or NOTHING.fullmatch(line):
        return True
    has_words = re.search(r"[^\W\d_]", line) is not None
    is_told_in_a_row = re.match(r"(?i)first\b|.*\band then\b", line) is not None
    return (
        has_words
        and not is_told_in_a_row
        and not TALK.match(line)
        and not line.endswith((":", "?"))
        and ": " not in line
    )


def _first_line(text: str) -> str:
    """Return an action's line without what may surround it."""
    line = next((line for line in text.splitlines() if line.strip(MARKS)), "")
    line = re.sub(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?", "", line)
    line = FORMATTED.sub(r"\1", line)

    closing = re.search(r"\s*</([\w:-]+)>\s*$", line)  # of a block around it
    if closing and f"<{closing[1]}>" not in line:
        line = line[: closing.start()]
    return line.strip(MARKS)


def _find_possible(text: str) -> str:
    """Return the possible action that a text is, marks aside; an empty text if it is none."""
    if len(_strip_marks(text).splitlines()) != 1:
        return ""
    line = _first_line(text).lower()
    if not line:
        return ""
    possible = {action.lower(): action for action in get_playing().possible}
    return possible.get(line) or possible.get(line.rstrip(".!"), "")


def _find_action(text: str) -> Fields:
    """Find the action: the only possible one, the first line if it is nothing else, or the last, after a thought.
    Without known verbs only a text of one such line is an action."""
    lines = _drop_empty(_first_line(line) for line in text.splitlines())
    if not lines or re.search(rf"(?im)^[^\w\n]*(?:{TURNS})[ \d*_]*:|\[\[", text):
        return {}

    possible = _drop_empty(_find_possible(line) for line in lines)
    if possible and (len(set(possible)) == 1 or _find_possible(lines[0])):
        return {"action": possible[0]}

    if len(lines) == 1:
        action = _strip_stop(lines[0])
        return {"action": _strip_bracket(action)} if _may_be_action(action, is_alone=True) else {}
    if _may_be_action(lines[0], is_alone=False):
        return {"action": _strip_bracket(lines[0])}
    last = _strip_stop(lines[-1])
    if _may_be_action(last, is_alone=False):
        return {"thought": "\n".join(lines[:-1]), "action": last}
    return {}


def _drop_empty(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text]


def _may_be_action(line: str, is_alone: bool) -> bool:
    """Whether a line may be an action: one that begins with a known verb, or, where none is known, the only line."""
    if len(line) > LONGEST_ACTION or line[-1] in ".!" or re.match(r"\W|.*([{}<>:?|=]|\[\[|, )", line):
        return False
    verbs = get_playing().verbs
    if line.split()[0].lower() in verbs:
        return True
    return is_alone and (not verbs or line.isdigit())


def _strip_bracket(action: str) -> str:
    """Return an action without closing brackets behind it that nothing opens."""
    is_bracketed = "(" in action or "[" in action
    return action if is_bracketed else action.rstrip(")]")


def _strip_stop(line: str) -> str:
    """Return an action without the full stop or exclamation mark behind it, if it begins with a known verb and is one
    sentence."""
    action = line.rstrip(".! ")
    is_one_sentence = re.search(r"[.!?]\s", action) is None
    is_known = action != "" and action.split()[0].lower() in get_playing().verbs
    return action if is_one_sentence and is_known else line


@lru_cache(maxsize=256)
def _spell(fields: tuple[str, ...], pattern: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Map names as models write them, normalized, to fields, and put them into the pattern of headers."""
    names = {}
    for field in fields:
        for name in _drop_empty(SYNONYMS.get(field, "").split("|")):
            names[name] = field
    names |= {field: field for field in fields}  # a field's own name is no other's synonym

    fields_by_name = {_normalize(name): field for name, field in names.items()}
    any_name = "|".join(names).replace("_", "[ _-]*")
    return fields_by_name, re.compile(pattern.replace("NAME", any_name))


def _normalize(name: str) -> str:
    return re.sub(r"[\W_]+|\d+\s*$", "", name.lower())


def _take_fields(value: Mapping[Any, Any], fields: tuple[str, ...]) -> Fields:
    """Take an object's fields by their names, or else by other names. What is said twice is unclear."""
    fields_by_name, _ = _spell(fields, HEADER)
    by_own_name: Fields = {}
    by_synonym: Fields = {}
    for key, content in value.items():
        name = _normalize(str(key))
        field = fields_by_name.get(name)
        if field:
            target = by_own_name if name == _normalize(field) else by_synonym
            target[field] = "" if field in target else content
    return {**by_synonym, **by_own_name}


def _find_begin(label: re.Match[str]) -> int:
    """Return where a value begins: marks right behind the colon belong to the label, and others to the value."""
    marks = re.search(r"[*_ \t]*\Z", label[0])
    text = marks[0] if marks else ""
    label_marks = re.match(r"[*_]*[ \t]*", text)
    length = len(label_marks[0]) if label_marks else 0
    return label.end() - len(text) + length


def _find_rows(text: str, fields: tuple[str, ...], pattern: str, masked: str | None = None) -> tuple[list[Fields], str]:
    """Find the objects whose fields stand below headers, and the text before. Names of other things end them. `masked`
    is the text in which headers are looked for, if it is another of the same length."""
    fields_by_name, compiled = _spell(fields, pattern)
    headers = []
    inside = 0
    for match in compiled.finditer(masked or text):
        if match.start() < inside:
            continue
        headers.append(match)
        inside = 0
        if match["tag"] and pattern == HEADER:
            inside = text.find(f"</{match['tag']}>", match.end())

    rows = [Fields()]
    preamble = text
    for header, next_header in zip_longest(headers, headers[1:]):
        name = fields_by_name.get(_normalize(header[header.lastgroup or 0]))
        if name and not header["end"]:
            if not any(rows):
                preamble = text[: header.start()]
            if rows[-1].get(name):
                rows.append({})
            begin = header.end() if masked is None else _find_begin(header)
            end = next_header.start() if next_header else len(text)
            around = " \t\n*_|;,-" if pattern == INLINE else None
            rows[-1][name] = text[begin:end].strip(around)
        elif not name and rows[-1] and (fields[-1] in rows[-1] or not header["mark"]):
            break
    return rows, preamble


def _convert(said: Any, kind: Any, told: str = "") -> Any:
    """Convert whatever a model wrote for a field to the field's type; None if it is missing or unclear."""
    if isinstance(said, str):
        stripped = _strip_text(said) if kind is str else _strip_marks(said)
        said = _cut_echo(stripped, told)
        bare = said.strip("[]()`\"'*, ")
        if PLACEHOLDER.fullmatch(bare) or (" " in bare and told.startswith(bare)):
            return None

    if get_origin(kind) is list:
        return _convert_list(said, _get_item_type(kind))
    if kind is str:
        return _convert_text(said, told)
    try:
        return _convert_object(said, kind) if hasattr(kind, "model_fields") else _convert_value(said, kind)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _convert_object(said: Any, kind: Any) -> Any:
    """Convert to an object of a class with fields. Raises `ValueError` where there are several."""
    if isinstance(said, str):
        (said,) = _split_items(said, kind) or [None]
    kinds = _list_kinds(kind.model_fields)
    fields = _convert_fields(kinds, _take_fields(said, tuple(kind.model_fields)))
    return kind.model_validate(fields) if fields else None


def _convert_value(said: Any, kind: Any) -> Any:
    if isinstance(said, str):
        said = said.strip(MARKS + "\n.,;")
    if get_origin(kind) is Literal:
        choices = {str(choice).lower(): choice for choice in get_args(kind)}
        said = choices.get(str(said).lower())
    if kind is int and isinstance(said, str):
        number = re.fullmatch(r"(?i)(?:\W|\b(?:skills?|numbers?|steps?|no)\b)*?(-?\d+)\W*", said)
        said = number[1] if number else ""
    return None if said in (None, "") else parse_value(said, kind)


def _cut_echo(text: str, description: str) -> str:
    """Return the text without the field's description at its beginning, which small models copy into their answers."""
    if len(description.split()) < FEWEST_WORDS or not text.lower().startswith(description.lower()):
        return text
    return text[len(description) :].lstrip(" \t\n.:;,-–—")


def _convert_text(said: Any, told: str) -> str | None:
    """Return the text. Where the description asks for one thing, several contradict each other, and nothing is none."""
    asks_for_one = re.match(r"(?:one|a|an)\b", told, re.I)
    allows_none = re.search(r"\bnone\b", told, re.I)
    if isinstance(said, list):
        texts = [_convert(item, str, told) for item in said]
        if None in texts or (asks_for_one and len(set(texts)) > 1):
            return None
        said = texts[0] if asks_for_one and texts else "\n".join(texts)

    text = "" if said is None else str(said).strip()
    if isinstance(said, Mapping) or re.match(r"[\[{][\[{\"']", text):
        return None  # what was not read as the list or object that it is
    if not text or (asks_for_one and not allows_none and NOTHING.fullmatch(text)):
        return "none" if allows_none else None
    return text


def _strip_marks(text: str) -> str:
    """Strip a pair of marks around a text that has no such mark inside."""
    text = re.sub(r"^```\w*\n|\n?```\s*$|^[|>][-+]?[ \t]*\n", "", text.strip()).strip()
    wrapped = re.fullmatch(r"(`{1,3}|\*{1,2}|\"|'|“)(.+)(?:\1|”),?", text)
    if wrapped and wrapped[1] not in wrapped[2]:
        return wrapped[2].strip()
    return text


def _strip_text(text: str) -> str:
    """Strip marks around a text. A fenced block beside other lines is a part of it, and keeps both of its fences."""
    text = text.strip()
    blocks = find_fences(text)
    if blocks:
        first = blocks[0]
        has_other_lines = first.start > 0 or first.end < len(text)
        if has_other_lines:
            return text
    return _strip_marks(text)


def _is_empty(said: Any) -> bool:
    if isinstance(said, Mapping):
        return all(map(_is_empty, said.values()))
    if isinstance(said, list):
        return all(map(_is_empty, said))
    return said is None or NOTHING.fullmatch(str(said)) is not None


def _convert_list(said: Any, kind: Any) -> list[Any] | None:
    """Convert a list's items, without empty ones; None if any is unclear."""
    if isinstance(said, str):
        said = _split_items(said, kind)
        if said is None:
            return None
    said = said if isinstance(said, list) else [said]
    while said and all(isinstance(item, list) for item in said):
        said = [*chain(*said)]

    items = [_convert(item, kind) for item in said if not _is_empty(item)]
    return None if None in items else items


def _split_items(text: str, kind: Any) -> list[Any] | None:
    """Split a text into items: JSON or Python, objects with labels, lines, or a row with separators."""
    fields = tuple(getattr(kind, "model_fields", ()))
    bare = BULLET.sub("", text).strip() if fields else text
    bare = re.sub(r"\A[^\[{\n\"']*:[ \t]*\n\s*(?=[\[{])", "", bare)
    if _is_empty(bare):
        return []
    if bare[0] in "[{(\"'":
        return _load(bare) or None
    if re.search(r"^[ \t]*[\[{<|]", text, re.M):  # elements, a table, or the field of another signature
        return None

    if fields:
        rows, preamble = _find_rows(bare, fields, INLINE)
        if re.search(r"[^\W\d]", preamble) or any(map(_is_empty, rows)):
            return None
        return rows
    if kind is int:
        parts = re.split(r"[,;&\n]|\band\b", text)
        return [part for part in parts if part.strip()]
    return _split_lines(text)


def _split_lines(text: str) -> list[str] | None:
    """Split a list of texts behind marks, one a line, or with semicolons between them; None if it may be one text."""
    lines = [line for line in text.splitlines() if line.strip()]
    if any(BULLET.match(line) for line in lines):
        return [_take_paragraph(item) for item in BULLET.split(text)[1:]]

    if len(lines) > 1 and lines[0].rstrip().endswith(":"):
        lines = lines[1:]  # the head of the list
    parts = lines if len(lines) > 1 else lines[0].split(";")
    if len(parts) == 1 and text.count(",") > 1 and text[-1] != ".":
        return None
    return parts


def _take_paragraph(item: str) -> str:
    """Return the first paragraph of an item, its lines without spaces around them."""
    first, *_ = re.split(r"\n\s*\n", item.strip())
    return "\n".join(line.strip() for line in first.splitlines())


def _load(text: str, first: bool = False) -> list[Any]:
    """Load the JSON or Python values that a text begins with, or only the first. Broken ones are repaired, but not
    what was cut off; a repair holds no text that does not stand in quotes."""
    with suppress(ValueError, RecursionError):
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
        more = r"[\s,;]*[\[{(\"']" if text[0] in "[{" else r"\s*\S"
        if first or not re.match(more, text[end:]):
            return [value]
    return _repair(re.sub("[“”]", '"', text.strip()))


def _repair(text: str) -> list[Any]:
    marks = re.findall(r"[\[{(\"']", text)
    is_long = len(text) > LONGEST_LITERAL or len(marks) > MOST_MARKS
    is_balanced = text.count("[") == text.count("]") and text.count("{") == text.count("}")
    if is_long or not is_balanced:
        return []

    readers: list[tuple[Any, str]] = [(ast.literal_eval, "'\""), (json_repair.loads, '"')]
    if "\\" in text:  # Python warns of what it does not know behind a backslash
        readers = readers[1:]
    for reader, quotes in readers:
        with suppress(Exception):  # on arbitrary text both may raise anything
            values = reader(f"[{text}]")
            dumped = json.dumps(values, ensure_ascii=False)
            strings = re.findall(r'"((?:[^"\\]|\\.)*)"(:?)', dumped)
            texts = [string for string, colon in strings if not colon]
            if values and all(_stands_in(text, string, quotes) for string in texts):
                return list(json.loads(dumped))
    return []


def _stands_in(text: str, string: str, quotes: str) -> bool:
    return any(f"{quote}{string}{quote}" in text for quote in quotes)
