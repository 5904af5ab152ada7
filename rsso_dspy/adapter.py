"""How a signature becomes a conversation, and an answer its fields. Models that follow no form are read all the same.

    with dspy.context(adapter=ChatAdapter()):
        dspy.Predict("task -> thought, action")(...)        # also reads "Thought: ...\\nAction: open door"

An input of type `dspy.History` makes a conversation: the inputs declared before it are said once, those after it in
every turn. A wrong answer is worse than an unreadable one: a missing required field is never invented. Of several
answers the first complete one counts; the model plays on alone in others.
"""

import json
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache, wraps
from html import unescape
from itertools import chain, pairwise
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import dspy
import json_repair
from dspy.adapters.utils import annotation_allows_none, parse_value, serialize_for_json
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, ValidationError

from rsso_dspy.playing import get_playing

__all__ = ["ChatAdapter", "JSONAdapter", "join_items", "label"]

Fields = dict[str, Any]
Signature = type[dspy.Signature]
F = TypeVar("F", bound=Callable[..., Any])

OPTIONAL = {"thought": "", "reasoning": "", "subgoal": "none", "what_went_wrong": ""}
"""Output fields that an answer may lack, with their defaults, because they decide nothing."""
PRESENT = ("notice", "observation", "possible_actions")
"""Inputs that stand behind the history where all is one message."""
SAID = "said"
"""Key of a turn and of a prediction with a history: what the model answered, word for word."""
LONGEST_IN_A_ROW = 60
"""Most characters of an item that stands beside others in one line."""


# What is sent.


def cache_by_words(build: F) -> F:
    """Cache what is made of a signature, by its words too, because a signature can be changed in place. Building a
    signature class costs more than a simulator step."""
    build_once = lru_cache(maxsize=256)(lambda signature, _words, *rest: build(signature, *rest))

    @wraps(build)
    def build_cached(signature: Any, *rest: Any) -> Any:
        words = tuple((name, field.json_schema_extra["desc"]) for name, field in signature.fields.items())
        return build_once(signature, (signature.instructions, words), *rest)

    return cast(F, build_cached)


@cache_by_words
def _remove_fields(signature: Signature, names: tuple[str, ...]) -> Signature:
    for name in names:
        signature = signature.delete(name)
    return signature


def label(name: str) -> str:
    """Return a field's name as it is shown: `possible_actions` as "Possible actions"."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def join_items(items: Sequence[Any]) -> str:
    """Join short texts in one row, others one a line behind dashes."""
    texts = [_show(item) for item in items]
    short = all(not re.search("[\n;]", text) and len(text) <= LONGEST_IN_A_ROW for text in texts)
    plain = not any(isinstance(item, BaseModel | Mapping) for item in items)
    return "; ".join(texts) if short and plain else _list_items(texts)


def _list_items(texts: Sequence[str]) -> str:
    return "\n".join("- " + text.replace("\n", "\n  ") for text in texts)


def _show(value: Any) -> str:
    """Return a value as text: an object in one line, a label ahead of each of its fields."""
    if value in (None, [], (), {}) or isinstance(value, str | int | float):
        return "" if value in (None, [], (), {}) else str(value)
    if isinstance(value, BaseModel | Mapping):
        fields = value.model_dump() if isinstance(value, BaseModel) else value
        parts = [f"{label(str(name))}: {text}" for name, each in fields.items() if (text := _show(each))]
        return " ".join(part if part.endswith((".", "!", "?")) else f"{part};" for part in parts).removesuffix(";")
    return join_items(value) if isinstance(value, list | tuple) else json.dumps(serialize_for_json(value))


def _show_field(name: str, text: str) -> str:
    return f"{name}:\n{text}" if "\n" in text or text.startswith("- ") else f"{name}: {text}"


def _join_blocks(blocks: Sequence[str]) -> str:
    """Join blocks on lines of their own, with an empty line beside a block of several lines."""
    text = "".join(blocks[:1])
    for before, block in pairwise(blocks):
        text += ("\n\n" if "\n" in before + block else "\n") + block
    return text


def _read_description(name: str, field: Any) -> str:
    told = (field.json_schema_extra.get("desc") or "").strip()
    return "" if told == f"${{{name}}}" else told


def _list_turns(history: Any) -> list[Fields]:
    """Return the turns of a History, of one that was saved, or none of anything else."""
    turns = history.get("messages") if isinstance(history, Mapping) else getattr(history, "messages", None)
    return list(turns or [])


class ChatAdapter(dspy.Adapter):
    """Labels and plain text. One output is the whole answer; several stand behind their labels, one a line."""

    unread: str | None = None
    """While an answer is asked for once more: the one that could not be read."""

    def __call__(self, lm: dspy.BaseLM, lm_kwargs: Fields, *asked: Any, **named: Any) -> list[Fields]:
        try:
            return super().__call__(lm, lm_kwargs, *asked, **named)
        except AdapterParseError as error:
            return super(ChatAdapter, self._ask_again(lm, error)).__call__(lm, lm_kwargs, *asked, **named)

    async def acall(self, lm: dspy.BaseLM, lm_kwargs: Fields, *asked: Any, **named: Any) -> list[Fields]:
        try:
            return await super().acall(lm, lm_kwargs, *asked, **named)
        except AdapterParseError as error:
            return await super(ChatAdapter, self._ask_again(lm, error)).acall(lm, lm_kwargs, *asked, **named)

    def _ask_again(self, lm: dspy.BaseLM, error: AdapterParseError) -> "ChatAdapter":
        """Return an adapter that asks once more in the same conversation, if the model's backend allows it
        (`backends.NAME.ask_again`)."""
        if not getattr(lm, "asks_again", True):
            raise error
        again = copy(self)
        again.unread = error.lm_response or ""
        return again

    def _call_preprocess(self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, inputs: Fields) -> Signature:
        rollout, usual = get_playing().rollout, getattr(lm, "kwargs", {}).get("temperature")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", usual):
            lm_kwargs.setdefault("rollout_id", rollout)  # otherwise DSPy's cache would merge all retries
        processed: Any = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        return _remove_fields(processed, self._list_unasked(processed))

    def _list_unasked(self, signature: Signature) -> tuple[str, ...]:
        unasked: Collection[str] = getattr(get_playing(), "unasked", ())
        names = tuple(name for name in signature.output_fields if name in unasked)
        return names[:-1] if len(names) == len(signature.output_fields) else names

    def _call_postprocess(
        self, processed_signature: Any, original_signature: Any, outputs: list[Any], *rest: Any
    ) -> list[Fields]:
        """As DSPy's, with fields that were not asked for as empty texts, and beside a history with what was said."""
        texts = [(output.get("text") if isinstance(output, dict) else output) or "" for output in outputs]
        calls = [isinstance(output, dict) and output.get("tool_calls") for output in outputs]
        if any(not text.strip() and not call for text, call in zip(texts, calls, strict=True)):
            raise AdapterParseError(type(self).__name__, original_signature, "", "The answer is empty.")
        values: list[Fields] = super()._call_postprocess(processed_signature, original_signature, outputs, *rest)
        unasked = self._list_unasked(original_signature)
        for value, text in zip(values, texts, strict=True):
            value.update({name: "" for name in unasked if value.get(name) is None})
            if self._get_history_field_name(original_signature):
                value[SAID] = text
        return values

    def format(self, signature: Signature, demos: list[Fields], inputs: Fields) -> list[Fields]:
        system = _tell_task(signature, type(self))
        shown = [text for demo in demos if (text := self._format_demo(signature, demo))]
        if shown:
            examples = [f"Example {number}\n{text}" for number, text in enumerate(shown, 1)]
            system = "\n\n".join([system, "Examples:", *examples])
        messages = [{"role": "system", "content": system}]
        for role, text in self._list_messages(signature, inputs):
            if text and messages[-1]["role"] == role == "user":
                messages[-1]["content"] += f"\n\n{text}"
            elif text:
                messages.append({"role": role, "content": text})
        return messages

    def _list_messages(self, signature: Signature, inputs: Fields) -> Iterator[tuple[str, str]]:
        """Yield role and text of each message after the system's; texts may be empty."""
        history, names = self._get_history_field_name(signature), list(signature.input_fields)
        at = names.index(history) if history else len(names)
        once, each = names[:at], names[at + 1 :]
        turns = _list_turns(inputs.get(history)) if history else []
        opening, now = self._list_inputs(signature, once, inputs), self._list_inputs(signature, each, inputs)
        if turns and history and getattr(get_playing(), "layout", "conversation") == "paper":
            past = [
                text
                for turn in turns
                for text in (_join_blocks(self._list_inputs(signature, each, turn)), self._get_said(signature, turn))
                if text
            ]
            ahead = [name for name in each if name not in PRESENT]
            opening += self._list_inputs(signature, ahead, inputs)
            now = self._list_inputs(signature, [name for name in each if name in PRESENT], inputs)
            yield "user", _join_blocks([*opening, _show_field(label(history), "\n\n".join(past)), *now])
        else:
            for turn in turns:
                yield "user", _join_blocks([*opening, *self._list_inputs(signature, each, turn)])
                yield "assistant", self._get_said(signature, turn)
                opening = []
            yield "user", _join_blocks([*opening, *now])
        if self.unread is not None:
            yield "assistant", self.unread.strip()
            yield "user", _ask_for_form(signature)

    def _list_inputs(self, signature: Signature, names: Collection[str], values: Mapping[str, Any]) -> list[str]:
        """List the inputs that are there, each with its label."""
        blocks = []
        for name in names:
            text = _show(values.get(name))
            told = _read_description(name, signature.input_fields[name])
            if text.strip():
                blocks.append(_show_field(f"{label(name)} ({told})" if told else label(name), text))
        return blocks

    def _get_said(self, signature: Signature, turn: Mapping[str, Any]) -> str:
        return turn[SAID] or "" if SAID in turn else self.format_assistant_message_content(signature, dict(turn))

    def _format_demo(self, signature: Signature, demo: Fields) -> str:
        """Return an example as text; nothing if it has no output, as examples of a training set."""
        said = self.format_assistant_message_content(signature, demo)
        history = self._get_history_field_name(signature)
        given = self._list_inputs(signature, [name for name in signature.input_fields if name != history], demo)
        return "\n\n".join(filter(None, (_join_blocks(given), said))) if said else ""

    def format_assistant_message_content(
        self,
        signature: Signature,
        outputs: Fields,
        missing_field_message: Any = None,  # noqa: ARG002
    ) -> str:
        blocks = []
        for name in signature.output_fields:
            text = _show(value := outputs.get(name))
            if isinstance(value, list | tuple):
                text = _list_items([_show(item) for item in value]) or "none"
            if text.strip():
                blocks.append(text if len(signature.output_fields) == 1 else _show_field(label(name), text))
        return "\n".join(blocks)

    @staticmethod
    def tell_form(signature: Signature) -> str:
        """Say in which form to answer."""
        outputs = {name: (_read_description(name, field), field) for name, field in signature.output_fields.items()}
        if len(outputs) == 1:
            ((name, (told, field)),) = outputs.items()
            form = _tell_kind(field.annotation, "one a line", "one a line, each in the form `{}`")
            words = ": ".join(filter(None, (", ".join(filter(None, (f"{name.replace('_', ' ')} alone", form))), told)))
            return f"Answer with the {words.removesuffix('.')}."
        lines = ["Answer in this form:"]
        for name, (told, field) in outputs.items():
            form = _tell_kind(field.annotation, 'one a line, each after "- "', "one a line, each in the form `- {}`")
            lines.append(f"{label(name)}: {': '.join(filter(None, (form, told))) or '...'}")
        return "\n".join(lines)

    def parse(self, signature: Signature, completion: str) -> Fields:
        ledger = get_playing().ledger
        fields = read_answer(signature, completion)
        if fields is None:
            if ledger:
                ledger.unread(completion)
            raise AdapterParseError(type(self).__name__, signature, completion)
        if ledger and _squeeze(self.format_assistant_message_content(signature, fields)) != _squeeze(completion):
            ledger.count_repaired()
        return fields


class JSONAdapter(ChatAdapter):
    """The same, with the answer as one JSON object."""

    def format_assistant_message_content(
        self,
        signature: Signature,
        outputs: Fields,
        missing_field_message: Any = None,  # noqa: ARG002
    ) -> str:
        said = {name: outputs[name] for name in signature.output_fields if outputs.get(name) not in (None, "")}
        return json.dumps(said, ensure_ascii=False, default=lambda value: value.model_dump()) if said else ""

    @staticmethod
    def tell_form(signature: Signature) -> str:
        lines = ["Answer with one JSON object that has these keys:"]
        for name, field in signature.output_fields.items():
            form = _tell_kind(field.annotation, "a list", "a list of objects in the form `{}`", as_json=True)
            told = (form or "text", _read_description(name, field))
            lines.append(f'"{name}": {": ".join(filter(None, told))}')
        return "\n".join(lines)


@cache_by_words
def _tell_task(signature: Signature, adapter: type[ChatAdapter]) -> str:
    return f"{textwrap.dedent(signature.instructions).strip()}\n\n{adapter.tell_form(signature)}".strip()


def _tell_kind(annotation: Any, of_texts: str, of_objects: str, as_json: bool = False) -> str:
    """Say shortly what is asked for besides a text."""
    core = _unwrap(annotation)
    if get_origin(core) is list:
        item = (get_args(core) or (str,))[0]
        if not _is_class(item):
            return of_texts
        shown = {name: _tell_kind(field.annotation, "...", "...") or "..." for name, field in item.model_fields.items()}
        if as_json:
            return of_objects.format("{" + ", ".join(f'"{name}": {told}' for name, told in shown.items()) + "}")
        return of_objects.format(" ".join(f"{label(name)}: {told}" for name, told in shown.items()))
    if get_origin(core) is Literal:
        return "/".join(map(str, get_args(core)))
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(core, "")


def _ask_for_form(signature: Signature) -> str:
    required = [name.replace("_", " ") for name, kind in _list_kinds(signature).items() if not kind.optional]
    if len(required) != 1:
        return "That could not be read. Answer again in the form asked for."
    return f"No {required[0]} could be read from that. Answer with the {required[0]} alone."


def _squeeze(text: str) -> str:
    return re.sub(r"[\s\-]+", "", text)


# What is read.

FAMILIES = (
    "thought thoughts think thinking reasoning reason rationale analysis pensamiento 思考 想法 推理 理由",
    "action nextaction actions act command nextcommand nextmove bestaction chosenaction finalaction acción 行动 动作",
    "subgoal currentsubgoal currentgoal chosensubgoal selectedsubgoal 子目标",
    "summary skillsummary description",
    "skillname nameoftheskill skill name",
    "steps instructions step",
    "target targetstate goal",
    "equivalent equivalents equivalentskills equivalentto matches",
    "whatwentwrong mistakes mistake problems",
    "plan newplan nextplan revisedplan planfornextattempt plannextattempt",
    "abstractrules abstractrule generalrules abstract",
    "errorrules errorrule errors mistakes",
    "progressrules progressrule progress",
    "mistake error problem wrong issue mistakemade errormade whatwentwrong mistakes errors",
    "solution fix correction instead correct remedy resolution whattodoinstead insteaddo correctaction solutions fixes",
)
"""Names that models use as synonyms, normalized."""
TURNS = (
    "observation observations obs environment env result user human assistant system feedback response completed "
    "gameresponse output score reward history 观察 观察结果"
)
"""Names that end an answer: after them the model plays the other side's part."""
TEXT_KEYS = ("text", "value", "content", "rule", "step", "action", "instruction", "description", "progress", "fact")
"""Keys of an object that may hold the text that is asked for."""
ABOUT = "id category type kind priority confidence importance status index number source"
"""Keys of metadata about a text."""
THINKING = re.compile(r"<(think|thinking|thought_process|reflection)>(.*?)</\1>", re.I | re.S)
UNCLOSED = re.compile(r"\s*<(?:think|thinking|thought_process|reflection)>", re.I)
INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060\u00ad"))
FULL_WIDTH = {ord(wide): narrow for wide, narrow in zip("：［］｛｝＂，＃【】＜＞“”", ':[]{}",#[]<>""', strict=True)}
TOKENS = re.compile(
    r"\A.*<\|channel\|>final<\|message\|>|<\|im_start\|>(?:assistant)?|<\|start_header_id\|>assistant<\|end_header_id\|>"
    r"|<start_of_turn>(?:model)?|<\|\w+\|>|<end_of_turn>|</?s>|\[/?INST\]",
    re.S,
)
PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype|html|head|body)\b", re.I)
REFUSAL = re.compile(
    r"\W*(?:(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|as an (?:ai|assistant|language)"
    r"|unfortunately|i (?:can(?:'?t|not)|won'?t|would rather not))\b|(?:null|error)\W*\Z)",
    re.I,
)
TALK = re.compile(r"\W*(?:i'?m|i|we|my|sorry|as an|unfortunately|apologies|no|none|null|n/a|error|please)\b", re.I)
LEAD_IN = re.compile(r"(?:sure|okay|ok|certainly|of course|here|below|based on|great|alright|understood)\b.*|.*:", re.I)
TURN = re.compile(rf"^\s*\W{{0,3}}(?:{TURNS.replace(' ', '|')})(?:\s+\d+)?\W{{0,3}}[:：]", re.I | re.M)
FENCE = re.compile(r"^[ \t]*(?:```|~~~)\w*[ \t]*\n?|(?:```|~~~)\Z", re.M)
BULLET = re.compile(r"^[ \t]*(?:[-*•–+]|\(?\d+[.):]|\(?[a-z]\)|(?:step|rule)\s*\d+[.:)])\s+", re.I | re.M)
NOTHING = re.compile(r"(?:none|null|nil|n/?a|nothing|empty|no (?:rules|errors|mistakes)|\[\s*\]|-)[.!]?", re.I)
NAME = r"[^\W\d_][\w \-]{0,40}?"
HEADER = re.compile(
    r"(?:^[ \t]*(?:\#{1,6}[ \t]+|[*_]{1,3}|[->][ \t]+))?(?<![`\[])(?:\[\[|\[(?=\s*\#\#))"
    rf"\s*\#{{0,3}}\s*(?P<mark>{NAME})"
    r"\s*:?\s*\#{0,3}\s*\]\]?[*_]{0,3}[ \t]*:?"
    rf"|</?(?P<tag>[^\W\d][\w\-]{{0,40}})(?:\s[^<>]{{0,99}})?>"
    r"|^[ \t]*(?:[-*•>+]\s+|\(?(?:\d+[.):]|[a-z]\))\s+)?(?:\#{1,6}[ \t]*)?[*_`\"']{0,3}"
    rf"(?P<label>{NAME})"
    r"(?:[ \t_]*\d+)?[*_`\"']{0,3}(?:[ \t]*[:：=]|[ \t]+[-–—](?=[ \t]))[ \t]*[*_]{0,3}"
    rf"|^[ \t]*(?:\#{{1,6}}[ \t]*\*{{0,2}}|\*\*)(?P<heading>{NAME})[ \t\#*]*$"
    rf"|(?<=[.!?;|,(。！？-])[ \t]*[*_`]{{0,3}}(?P<inline>{NAME})[*_`]{{0,3}}[:：][*_]{{0,3}}",
    re.M,
)
"""Where a field begins: `[[ ## name ## ]]`, `<name>`, `**Name:**`, `### Name`, and after a sentence `Name:`."""


class Kind(NamedTuple):
    """What a field holds: its type, its description, whether the answer may lack it, and what it is then."""

    annotation: Any
    told: str
    optional: bool
    default: Any


class Header(NamedTuple):
    """Where a section begins: of a field, or of none (""). `ends`: whether it ends the answer."""

    start: int
    end: int
    name: str
    ends: bool


def _unwrap(annotation: Any) -> Any:
    """Return the type without None."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if get_origin(annotation) in (Union, UnionType) and len(kinds) == 1 else annotation


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


@cache_by_words
def _list_kinds(signature: Signature) -> dict[str, Kind]:
    """Return the kinds of the output fields; at least one is required."""
    kinds = {}
    for name, field in signature.output_fields.items():
        optional = not field.is_required() or annotation_allows_none(field.annotation)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if not optional and name in OPTIONAL and field.annotation is str:
            optional, default = True, OPTIONAL[name]
        told = _read_description(name, field) or ("one action" if name == "action" else "")
        kinds[name] = Kind(_unwrap(field.annotation), told, optional, default)
    if kinds and all(kind.optional for kind in kinds.values()):
        kinds[name] = kinds[name]._replace(optional=False)
    return kinds


def read_answer(signature: Signature, completion: str) -> Fields | None:
    """Return the fields of the answer in the signature's order; None if they are unclear."""
    kinds = _list_kinds(signature)
    text = TOKENS.sub("", completion).translate(INVISIBLE).strip()
    if all(re.match(r"\s*(?:>|$)", line) for line in text.splitlines()):
        text = re.sub(r"^\s*>\s?", "", text, flags=re.M)
    thinking, rest = "\n".join(match[1].strip() for match in THINKING.findall(text)), THINKING.sub("\n", text).strip()
    if "</think>" in rest and "<think>" not in rest:  # chat templates write the opening tag
        thinking, _, rest = rest.partition("</think>")
    cut, text = bool(UNCLOSED.match(rest)), UNCLOSED.sub("", rest).strip()
    if not kinds or not text or PAGE.match(text):
        return None
    if "action" in kinds and (action := _find_possible(text)):
        return _complete(kinds, {"action": action}, thinking)
    known = _map_names(tuple(kinds))
    forms = dict.fromkeys((text, text.translate(FULL_WIDTH)))
    answers = [answer for form in forms for answer in _iter_answers(form, known)]
    for most in (False, True):
        for said, before in answers:
            if (fields := _convert_fields(kinds, said, most)) is not None:
                return _complete(kinds, fields, before, thinking)
    return None if cut else _read_bare(kinds, FENCE.sub("", text).strip(), thinking)


def _complete(kinds: Mapping[str, Kind], fields: Fields, *before: str) -> Fields:
    """Fill fields that an answer may lack; what stands before the answer, or its thinking, is the missing thought."""
    for text in before:
        lines = [line for line in FENCE.sub("", text).strip().splitlines() if not LEAD_IN.fullmatch(line.strip())]
        thought = "\n".join(lines).strip()
        if "thought" in kinds and "thought" not in fields and re.search(r"\w", thought) and not REFUSAL.match(thought):
            fields = fields | {"thought": thought}
    return {name: fields.get(name, kind.default) for name, kind in kinds.items()}


def _convert_fields(kinds: Mapping[str, Kind], said: Mapping[str, Any], most: bool) -> Fields | None:
    """Convert the fields to their types; None unless all required ones are there. With `most`, missing or unreadable
    lists count as empty if more than half of the required fields are there."""
    fields: Fields = {}
    missing = []
    for name, kind in kinds.items():
        value = said.get(name)
        if name in said and not _is_placeholder(value, kind.told):
            value = _convert(value, kind.annotation, kind.told)
            if value is None and said[name] and get_origin(kind.annotation) is list:
                return None  # a list that is there, and unclear, is not empty
            if value is not None and not _is_placeholder(value, kind.told):
                fields[name] = _find_possible(value) or _first_line(value) if name == "action" else value
                continue
        if not kind.optional:
            fields[name] = []
            missing.append(get_origin(kind.annotation) is list)
    required = sum(not kind.optional for kind in kinds.values())
    return fields if said and (not missing or (most and all(missing) and 2 * len(missing) < required)) else None


def _is_placeholder(said: Any, told: str = "") -> bool:
    """Return whether a text is a placeholder, also with remains of an object around it, or the form's own words."""
    bare = re.sub(r"\n\s*\}$", "", said.strip()).strip("[]()`\"'*, ") if isinstance(said, str) else None
    shown = r"[.…]+|(?:your|insert|write|put|enter)\b.*\bhere\W*|\{[^{}\"']*\}(?:\s*# note:.*)?|<[^<>]*>"
    return bare is not None and (re.fullmatch(shown, bare, re.I) is not None or (" " in bare and told.startswith(bare)))


# An answer without any form.

LONGEST_ACTION, FEWEST_WORDS = 120, 3
"""Most characters of an action, and fewest words of a text that lacks the other fields."""
MARKS = " \t*_`\"'“”‘’"


def _read_bare(kinds: Mapping[str, Kind], text: str, thinking: str) -> Fields | None:
    """Read an answer that is only the value of the only required field."""
    required = [(name, kind) for name, kind in kinds.items() if not kind.optional]
    if len(required) != 1 or not text:
        return None
    ((name, kind),) = required
    value: Any = None
    before = ""
    if name == "action" and kind.annotation is str:
        before, value = _find_action(text)
    elif kind.annotation is str:
        few = len(kinds) > 1 and len(text.split()) < FEWEST_WORDS
        value = "" if few or _find_sections(text, _map_names(tuple(kinds)), False)[0] else _find_prose(text, kind)
    elif get_origin(kind.annotation) is list:
        listed = len(text.splitlines()) > 1 and (len(kinds) == 1 or BULLET.match(text) or ":\n" in text)
        plain = re.fullmatch(r"(?:\d+|[\s,;&]|and)*", text) or NOTHING.fullmatch(text) or re.match(r"\[|- ", text)
        if plain or (listed and not REFUSAL.match(text)):
            value = _convert(text, kind.annotation, kind.told)
    else:
        value = _convert(text, kind.annotation, kind.told)
    return None if value is None or value == "" else _complete(kinds, {name: value}, before, thinking)


def _find_prose(text: str, kind: Kind) -> str:
    lines = text.splitlines()
    while len(lines) > 1 and LEAD_IN.fullmatch(lines[0].strip()):
        lines.pop(0)
    text = "\n".join(lines).strip()
    refused = REFUSAL.match(text) or text[0] in "{[<" or _is_placeholder(text, kind.told)
    return "" if refused or not re.search(r"[^\W\d]", text) else _strip_marks(text)


def _first_line(text: str) -> str:
    """Return an action's line without what may surround it."""
    line = next((line for line in text.splitlines() if line.strip(MARKS)), "")
    return re.sub(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?", "", line).strip(MARKS)


def _find_possible(text: str) -> str:
    """Return the possible action that a text is, marks aside; an empty text if it is none."""
    said = _first_line(text).lower() if len(FENCE.sub("", text).strip().splitlines()) == 1 else ""
    possible = {action.lower(): action for action in getattr(get_playing(), "possible", None) or ()} if said else {}
    return possible.get(said) or possible.get(said.rstrip(".!"), "")


def _find_action(text: str) -> tuple[str, str]:
    """Return the text before the action and the action: the only line that is a possible one, the first line if it is
    nothing but an action, or the last. Without known verbs only a text of one such line is an action."""
    verbs = get_playing().verbs
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or TURN.search(text):
        return "", ""
    possible = list(dict.fromkeys(filter(None, map(_find_possible, lines))))
    if possible and (len(possible) == 1 or _find_possible(lines[0])):
        return "", possible[0]
    if len(lines) == 1 and (re.fullmatch(r"\W*\d{1,3}\W*", text) or (not verbs and not TALK.match(text))):
        return "", _fit_action(text).strip("()[]") if text[-1] not in ".!" or text[0].isdigit() else ""
    if (first := _fit_action(lines[0], verbs)) and first[-1] not in ".!":
        return "", first
    if (last := _fit_action(lines[-1], verbs)) and not re.match(r"\W*wait,", lines[-1], re.I):
        return "\n".join(lines[:-1]), last
    return "", ""


def _fit_action(said: str, verbs: Collection[str] | None = None) -> str:
    """Return a line without its marks if it can be an action, otherwise an empty text."""
    said = _first_line(said)
    word = re.match(r"\w+", said.lower())
    fits = len(said) <= LONGEST_ACTION and not re.search(r"[{}<>:?|=\n]|\[\[", said)
    return said if fits and word and (verbs is None or word.group() in verbs) else ""


# Fields by name, in sections and objects.


def _normalize(name: Any) -> str:
    """Return the name in lower case without spaces, underscores, hyphens, final number and `my` (`My thought 1`)."""
    return re.sub(r"^my\s+|[\W_]+|\d+\s*$", "", str(name).lower())


@lru_cache(maxsize=256)
def _map_names(fields: tuple[str, ...]) -> dict[str, str]:
    """Map normalized names to fields: each field's own name, and its synonyms unless two fields share them."""
    own = {_normalize(name): name for name in fields}
    names = dict(own)
    for family in map(str.split, FAMILIES):
        meant = [own[word] for word in family if word in own]
        if len(meant) == 1:
            names |= {word: meant[0] for word in family if word not in names}
    return names


def _iter_answers(text: str, known: Mapping[str, str]) -> Iterator[tuple[Fields, str]]:
    """Yield the ways to read the text, strictest first: objects, whole or broken, and sections. Each is the raw values
    of fields and the text before the first."""
    bare = "{" + text + "}" if re.match(r"\s*[\"']\w+[\"']\s*:", text) else text
    for match in list(re.finditer(r"\{(?=\s*[\"'“\w/#\\])", bare))[:10]:
        answers = _collect_answers(parse_literal(bare[match.start() :]), known)
        if answers:
            yield answers[0] if len(answers) == 1 else {}, bare[: match.start()]
            break
    yield _find_sections(text, known, False)
    yield _find_sections(text, known, True)


def _collect_answers(value: Any, known: Mapping[str, str], depth: int = 0) -> list[Fields]:
    """Collect the answers in an object: itself, or those below its keys; of a list, the first that has any. A field's
    own name takes precedence over its synonyms; `error` also names `error_rules`."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parse_literal(value.lstrip())
    if isinstance(value, list):
        return next((answers for item in value if (answers := _collect_answers(item, known, depth + 1))), [])
    if not isinstance(value, Mapping) or depth > 4:
        return []
    own: Fields = {}
    for key in sorted(value, key=lambda key: key not in known.values()):
        if name := known.get(_normalize(key)) or known.get(f"{_normalize(key)}rules"):
            own.setdefault(name, value[key])
    below = [answer for child in value.values() for answer in _collect_answers(child, known, depth + 1)]
    return [answer for answer in below if len(answer) > len(own)] or ([own] if own else below)


def _find_sections(text: str, known: Mapping[str, str], loose: bool) -> tuple[Fields, str]:
    """Find the first answer in sections below headers."""
    headers = _find_headers(text, known, loose)
    fields = list(dict.fromkeys(known.values()))
    said: Fields = {}
    for header, after in zip(headers, [*headers[1:], None], strict=False):
        if said and header.ends and (header.name or fields[-1] in said or text[header.start] != "["):
            break
        section = text[header.end : after.start if after else len(text)].strip()
        if not header.name:
            continue
        if header.name not in said:
            said[header.name] = unescape(section) if text[header.start] == "<" else section
        elif said.keys() >= set(fields):
            break
        elif header.name == fields[-1] and said[header.name] != section:
            return {}, ""
    return said, next((text[: header.start] for header in headers if header.name), "")


def _find_headers(text: str, known: Mapping[str, str], loose: bool) -> list[Header]:
    """Find the headers, in order; inner tags of an element are its content."""
    headers: list[Header] = []
    free, one = 0, len(set(known.values())) == 1
    for match in HEADER.finditer(text):
        kind = match.lastgroup or ""
        word, closing = _normalize(match[kind]), match.group().startswith("</")
        name = known.get(word) or (known.get(re.sub(r"^the(?=.)|(?<=.)is$", "", word)) if one else None) or ""
        ends = not name and not closing and (kind == "mark" or word in TURNS.split())
        if match.start() < free or not (name or ends) or (kind == "inline" and not loose):
            continue
        headers.append(Header(match.start(), match.end(), "" if closing else name, ends))
        if kind == "tag" and name and not closing:
            free = text.find(f"</{match[kind]}>", match.end())
    return headers


# Values by type.

NO_MISTAKES = re.compile(r"(?:none\b|no (?:real |clear )?(?:mistakes?|errors?)\b)[^\n]{0,120}", re.I)
CONDITION = re.compile(r"(?:if|when|while|once|after|before|in|to|for|since|as|because|unless|until|with)\b", re.I)
NUMBERS = re.compile(r"(?:[\s,;&#\[\]().*-]|\b(?:and|skills?|numbers?|steps?|no)\b|\d+)*", re.I)
ARROW = re.compile(r"\s?(?:-{1,3}>|→|={1,3}>|⇒)\s?")
SIDES = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):])?\s*", re.M)
HEADER_LINE = re.compile(r"[\s#*_]*(?:error|mistake|rule|item)s?(?:\s+rules?)?\s*#?\d*[\s*_:]*", re.I)
TRAILING = re.compile(r"[\s|;,(-]{0,20}(?:\n\s{0,20}(?:[-*•–+]|\(?\d+[.):]))?[\s*_`\"']{0,20}\Z")


def _convert(said: Any, annotation: Any, told: str = "") -> Any:
    """Convert whatever a model wrote for a field to the field's type; None if it is missing or unclear."""
    core = _unwrap(annotation)
    if core is str:
        return _convert_text(said, told)
    if get_origin(core) is list:
        return _convert_list(said, (get_args(core) or (str,))[0])
    if _is_class(core):
        return _convert_object(said, core)
    if isinstance(said, Mapping) and len(said) == 1:
        (said,) = said.values()
    if isinstance(said, str):
        said = said.strip(MARKS + "\n.,;")
        if get_origin(core) is Literal:
            said = {str(choice).lower(): choice for choice in get_args(core)}.get(said.lower())
        elif core is int:
            numbers = re.findall(r"-?\d+", said) if NUMBERS.fullmatch(said) else []
            said = int(numbers[0]) if len(numbers) == 1 else None
        elif core is bool:
            said = {"yes": True, "true": True, "no": False, "false": False}.get(said.lower())
    try:
        return None if said is None or said == "" else parse_value(said, core)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _convert_text(said: Any, told: str) -> str | None:
    """Return the text. Where the description asks for one thing, several contradict each other, and nothing is none."""
    one, none = re.match(r"(?:one|a|an)\b", told, re.I), re.search(r"\bnone\b", told, re.I)
    if isinstance(said, Mapping):
        said = _get_text(said)
    if isinstance(said, list):
        texts = [text for item in said if (text := _convert_text(item, told))]
        if len(texts) < len(said) or (one and len(set(texts)) > 1):
            return None
        said = texts[0] if one and texts else "\n".join(texts)
    text = "" if said is None else str(said).strip()
    text = _strip_marks(TURN.split(text)[0] if one else text)
    if not text or (one and not none and NOTHING.fullmatch(text)):
        return "none" if none else None
    return text


def _strip_marks(text: str) -> str:
    """Strip a pair of marks around a text that has no such mark inside."""
    text = re.sub(r"^```\w*\n|\n?```\s*$|^[|>][-+]?[ \t]*\n", "", text.strip()).strip()
    wrapped = re.fullmatch(r"(`{1,3}|\*{1,2}|\"|'|“)(.+)(?:\1|”),?", text)
    return wrapped[2].strip() if wrapped and wrapped[1] not in wrapped[2] else text


def _get_text(said: Mapping[str, Any]) -> str | None:
    """Return the text of an object with a text key, or with a text as its only value; None otherwise."""
    lower = {str(key).lower(): value for key, value in said.items() if str(key).lower() not in ABOUT.split()}
    texts = [lower[key] for key in TEXT_KEYS if isinstance(lower.get(key), str)]
    if not texts and len(lower) == 1:
        texts = [text for text in lower.values() if isinstance(text, str)]
    return texts[0] if texts else None


def _convert_list(said: Any, kind: Any) -> list[Any] | None:
    """Convert a list in any form; None if it is unclear. Objects with a missing field are left out, unless there are
    no others."""
    objects = _is_class(kind)
    if said is None:
        return []
    if isinstance(said, str):
        said = _split_items(re.sub(r"^>[ \t]?", "", _strip_marks(FENCE.sub("", said)), flags=re.M), kind)
    if isinstance(said, Mapping):
        said = _unwrap_mapping(said, kind)
    if said is None:
        return None
    said = said if isinstance(said, list) else [said]
    if objects and said and all(isinstance(item, str) for item in said):
        said = _read_objects("\n".join(said), kind) or said
    if said and all(isinstance(item, list) for item in said):
        said = [*chain(*said)]
    items = [item for item in said if not _is_placeholder(item)]
    if said and not items:
        return None
    items = [item for item in items if not _is_empty(item, objects)]
    read = [_convert(item, kind) for item in items]
    if objects and any(read):
        return [item for item in read if item is not None]
    return None if None in read else read


def _is_empty(item: Any, objects: bool = False) -> bool:
    if isinstance(item, Mapping):
        return not item or (objects and all(map(_is_empty, item.values())))
    nothing = isinstance(item, str) and (NOTHING.fullmatch(item.strip()) or (objects and NO_MISTAKES.fullmatch(item)))
    return item is None or item == "" or bool(nothing)


def _unwrap_mapping(said: Mapping[str, Any], kind: Any) -> list[Any]:
    """Return the items in an object: those of the list it wraps, itself, those with numbered keys, or its values."""
    if len(said) == 1 and isinstance(only := next(iter(said.values())), list):
        return only
    if not _is_class(kind):
        return [said] if kind is not str or any(key in said for key in TEXT_KEYS) else list(said.values())
    known = _map_names(tuple(kind.model_fields))
    named = {key: known[_normalize(key)] for key in said if _normalize(key) in known}
    if named and not any(isinstance(said[key], Mapping) for key in named):
        return [said]
    texts = all(isinstance(value, str) for value in said.values())
    return [{key: value} for key, value in said.items()] if texts else list(said.values())


def _split_items(text: str, kind: Any) -> Any:
    """Split a text into items: JSON or Python, nothing at all, tags, lines, or a row with separators."""
    text = re.sub(r"\A[^\[{\n\"']*:[ \t]*\n\s*(?=[\[{])", "", text)
    if _is_empty(text, _is_class(kind)):
        return []
    if text[0] in "[{(\"'" and (read := _parse_literals(text)) is not None:
        return read
    if re.match(r"[\[{(]\s*(?:[\"'{\[(]|$)", text):
        return None
    if text[0] == "|":
        return None  # a table
    if kind is int:
        return [int(number) for number in re.findall(r"\d+", text)] if NUMBERS.fullmatch(text) else [text]
    if text.startswith("<"):
        elements = re.findall(r"<([\w-]+)(?:\s[^<>]*)?>\s*(.*?)\s*</\1>", text, re.S)
        inner = _is_class(kind) and elements and _normalize(elements[0][0]) in _map_names(tuple(kind.model_fields))
        nested = len(elements) == 1 and kind is str and elements[0][1].startswith("<")
        if not inner or "<" in elements[0][1]:
            return _split_items(elements[0][1], kind) if nested else [item for _, item in elements]
    if _is_class(kind) and (read := _read_objects(text, kind)):
        return read
    lines = [line for line in text.splitlines() if line.strip()]
    if any(BULLET.match(line) for line in lines):
        items = [re.split(r"\n\s*\n", item.strip())[0] for item in BULLET.split(text)[1:]]
        return ["\n".join(map(str.strip, item.splitlines())) for item in items]
    if len(lines) > 1 or _is_class(kind):
        return lines
    parts = [part.strip() for part in re.split("[;；]", text) if part.strip()]
    if len(parts) == 1 and not text.endswith(".") and not CONDITION.match(text):
        row = [part.strip() for part in text.split(",")]
        parts = row if all(2 <= len(part.split()) <= 6 for part in row) else parts
    return parts


def _convert_object(said: Any, kind: type[BaseModel]) -> BaseModel | None:
    """Convert an object, or a line such as ``Mistake: ... Solution: ...`` or ``... -> ...``."""
    if isinstance(said, str):
        rows = [parse_literal(said)] if said.lstrip().startswith("{") else _read_objects(said, kind)
        said = rows[0] if len(rows) == 1 else None
    if isinstance(said, Mapping) and len(said) == 1:  # below its key, or a sentence as key with another as value
        ((key, value),) = said.items()
        if isinstance(value, Mapping):
            return _convert_object(value, kind)
        if isinstance(value, str) and len(str(key).split()) > 2 and len(kind.model_fields) == 2:
            said = dict(zip(kind.model_fields, (key, value), strict=True))
    if not isinstance(said, Mapping):
        return None
    names = _map_names(tuple(kind.model_fields))
    fields: Fields = {}
    for key, value in said.items():
        if name := names.get(_normalize(key)):
            if name in fields:
                return None  # several objects in one
            core = kind.model_fields[name].annotation
            fields[name] = "" if value in (None, "") and core is str else _convert(value, core, "one, or none")
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError:
        return None


def _read_objects(text: str, kind: type[BaseModel]) -> list[dict[str, str]]:
    """Read the objects in a text whose fields have labels, or arrows between them."""
    names, required = list(kind.model_fields), {n for n, field in kind.model_fields.items() if field.is_required()}
    headers = [header for header in _find_headers(text, _map_names(tuple(names)), True) if header.name]
    ends = [*(header.start for header in headers[1:]), len(text)]
    said = [(header.name, _trim_value(text[header.end : end])) for header, end in zip(headers, ends, strict=False)]
    said = [(name, value) for name, value in said if value]
    before = text[: headers[0].start] if headers else text
    if said and all(HEADER_LINE.fullmatch(line) for line in before.splitlines() if SIDES.sub("", line)):
        rows: list[dict[str, str]] = [{}]
        for name, value in said:
            if name in rows[-1]:
                rows.append({})
            rows[-1][name] = value
        return rows if all(row.keys() >= required and next(iter(row)) == said[0][0] for row in rows) else []
    if [name for name, _ in said] == names[1:] and len(names) == 2:
        return [{names[0]: _trim_value(SIDES.sub("", before, count=1)), **dict(said)}]
    arrows = [ARROW.split(SIDES.sub("", line).strip()) for line in text.splitlines() if line.strip()]
    if all(len(row) == len(names) and all(row) for row in arrows):
        return [dict(zip(names, map(_trim_value, row), strict=True)) for row in arrows]
    return []


def _trim_value(text: str) -> str:
    """Trim a value: marks, the separator, and the header of the next object after it."""
    lines = re.sub(r"</[\w-]+>", "", text).strip().splitlines()
    while len(lines) > 1 and HEADER_LINE.fullmatch(lines[-1]):
        lines.pop()
    text = TRAILING.sub("", "\n".join(lines)).strip()
    return text.removesuffix(")").strip("\"'`") if text.count(")") > text.count("(") else text.strip("\"'`")


# Literals.

LONGEST_LITERAL, DEEPEST_LITERAL = 20_000, 12
"""Longer texts and texts with more brackets in each other are not repaired: json_repair takes the cube of their
number."""
PIECE = re.compile(
    r"""(["'])(?P<string>(?:\\.|[^\\])*?)\1(?=\s*(?:[,:;\]})]|$|//|\#|/\*|\\n|\s["'{\[]))"""
    r"""|(?P<gap>//[^\n]*|\#[^\n]*|/\*.*?\*/|\\[nrt]|\.\.\.)|(?P<open>[\[{]|(?:[^\W\d]\w*)?\()|(?P<close>[\]})])"""
    r"""|(?P<key>[^\W\d]\w*)\s*=(?!=)|(?P<comma>[,;])""",
    re.S,
)
"""A quote ends a string only before what can follow one; an object may be the call that creates it."""


def parse_literal(text: str) -> Any:
    """Parse the JSON or Python value, whole or broken, that a text begins with; None if there is none. Tuples and sets
    become lists; a list that was cut off keeps its complete items."""
    return _parse_literal(text)[0]


def _parse_literal(text: str) -> tuple[Any, int]:
    """Return the value that a text begins with, and where it ends."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        pass
    if len(text) > LONGEST_LITERAL:
        return None, 0
    try:
        rewritten, end = _rewrite(text)
        return (json_repair.loads(rewritten) or None) if rewritten else None, end
    except Exception:  # json_repair may raise anything on arbitrary text
        return None, 0


def _parse_literals(text: str) -> Any:
    """Parse a text of one literal or several in sequence; None if it holds none. What follows a bracket is left out."""
    values, rest = [], text
    while rest[:1] in ("[", "{", "(", '"', "'"):
        value, end = _parse_literal(rest)
        if value is None:
            return [] if rest == "[]" else None
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            value = parse_literal(value.lstrip())
        values.append(value)
        rest = rest[end:].lstrip(" \t\r\n,;")
    if rest and text[0] in "\"'":
        return None
    return values[0] if len(values) == 1 else values


def _rewrite(text: str) -> tuple[str, int]:
    """Write the value that a text begins with more like JSON: without comments, strings in double quotes, a list that
    was cut off ended after its last complete item. Return it and where it ends."""
    out, stack, kept, position = "", "", "", 0
    while position < len(text) and len(stack) <= DEEPEST_LITERAL:
        match = PIECE.match(text, position)
        if match is None and text[position] in "\"'" and (not out.strip() or out.rstrip()[-1] in "[{(,:"):
            break  # a text without an end
        piece = match.group() if match else text[position]
        position += len(piece)
        kind = match.lastgroup if match else ""
        if match and kind == "string":
            plain = match["string"].replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n")
            piece = json.dumps(plain, ensure_ascii=False)
        elif match and kind == "open":
            call = len(piece) > 1
            piece = "{" if call else piece.replace("(", "[")
            stack += {"[": "]", "{": "}"}[piece]
        elif kind == "close":
            piece, stack = stack[-1:], stack[:-1]
        elif match:
            piece = {"gap": " ", "comma": ","}.get(kind or "") or f'"{match["key"]}":'
        missing = kind in ("string", "open", "key") and out.rstrip().endswith(('"', "}", "]"))
        out += f",{piece}" if missing else piece
        if match and not stack:
            break
        if match and stack.find("]") == len(stack) - 1 and kind not in ("comma", "gap"):
            kept = out + stack[::-1]
    if not stack or len(stack) > DEEPEST_LITERAL:
        return "" if stack else out, position
    return kept if "]" in stack else out + text[position:], len(text)
