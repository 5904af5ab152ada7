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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from itertools import chain, pairwise
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import dspy
import json_repair
from dspy.adapters.utils import annotation_allows_none, parse_value, serialize_for_json
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, ValidationError

from rsso_dspy.playing import get_playing
from rsso_dspy.regions import PRESENT, join_items, list_items

__all__ = ["ChatAdapter", "JSONAdapter"]

Fields = dict[str, Any]
Signature = type[dspy.Signature]

OPTIONAL = {"thought": "", "reasoning": "", "subgoal": "none", "what_went_wrong": ""}
"""Output fields that an answer may lack, with their defaults, because they decide nothing."""
SAID = "said"
"""Key of a turn and of a prediction with a history: what the model answered, word for word."""


# What is sent.


def label(name: str) -> str:
    """Return a field's name as it is shown: `possible_actions` as "Possible actions"."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def show(value: Any) -> str:
    """Return a value as text: an object in one line, a label ahead of each of its fields."""
    if value in (None, [], (), {}) or isinstance(value, str | int | float):
        return "" if value in (None, [], (), {}) else str(value)
    if isinstance(value, BaseModel | Mapping):
        fields = value.model_dump() if isinstance(value, BaseModel) else value
        parts = [f"{label(str(name))}: {text}" for name, each in fields.items() if (text := show(each))]
        return " ".join(part if part.endswith((".", "!", "?")) else f"{part};" for part in parts).removesuffix(";")
    if isinstance(value, list | tuple):
        objects = any(isinstance(item, BaseModel | Mapping) for item in value)
        return (list_items if objects else join_items)([show(item) for item in value])
    return json.dumps(serialize_for_json(value))


def _list_asked(signature: Signature) -> Fields:
    """Return the outputs that are asked for: at least the last."""
    fields = signature.output_fields
    asked = {name: field for name, field in fields.items() if name not in get_playing().unasked}
    return asked or dict([*fields.items()][-1:])


def _show_field(name: str, text: str) -> str:
    return f"{name}:\n{text}" if "\n" in text or text.startswith("- ") else f"{name}: {text}"


def _join_blocks(blocks: Sequence[str]) -> str:
    """Join blocks on lines of their own, with an empty line beside a block of several lines."""
    text = "".join(blocks[:1])
    for before, block in pairwise(blocks):
        text += ("\n\n" if "\n" in before + block else "\n") + block
    return text


def _read_description(name: str, field: Any) -> str:
    told = ((field.json_schema_extra or {}).get("desc") or "").strip()
    return "" if told == f"${{{name}}}" else told


class ChatAdapter(dspy.Adapter):
    """Labels and plain text. One output is the whole answer; several stand behind their labels, one a line."""

    unread: str | None = None
    """While an answer is asked for once more: the one that could not be read."""

    def __call__(self, lm: dspy.BaseLM, lm_kwargs: Fields, *asked: Any, **named: Any) -> list[Fields]:
        """As DSPy's; asks once more in the same conversation, if `backends.NAME.ask_again` allows it."""
        try:
            return super().__call__(lm, lm_kwargs, *asked, **named)
        except AdapterParseError as error:
            if not getattr(lm, "asks_again", True):
                raise
            again = copy(self)
            again.unread = error.lm_response or ""
        return super(ChatAdapter, again).__call__(lm, lm_kwargs, *asked, **named)

    def _call_preprocess(self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, inputs: Fields) -> Signature:
        rollout, usual = get_playing().rollout, getattr(lm, "kwargs", {}).get("temperature")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", usual):
            lm_kwargs.setdefault("rollout_id", rollout)  # otherwise DSPy's cache would merge all retries
        processed: Signature = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        return processed

    def _call_postprocess(
        self, processed_signature: Any, original_signature: Any, outputs: list[Any], *rest: Any
    ) -> list[Fields]:
        """As DSPy's, with fields that were not asked for as empty texts, and beside a history with what was said."""
        parts: list[Any] = [output if isinstance(output, dict) else {"text": output} for output in outputs]
        if not all(part.get("text") or part.get("tool_calls") for part in parts):
            raise AdapterParseError(type(self).__name__, original_signature, "", "The answer is empty.")
        values: list[Fields] = super()._call_postprocess(processed_signature, original_signature, outputs, *rest)
        for value, part in zip(values, parts, strict=True):
            unasked = original_signature.output_fields.keys() - _list_asked(original_signature).keys()
            value.update({name: "" for name in unasked if value.get(name) is None})
            if self._get_history_field_name(original_signature):
                value[SAID] = part.get("text") or ""
        return values

    def format(self, signature: Signature, demos: list[Fields], inputs: Fields) -> list[Fields]:
        parts = [textwrap.dedent(signature.instructions).strip(), self.tell_form(signature)]
        given = [name for name in signature.input_fields if name != self._get_history_field_name(signature)]
        parts += self._list_inputs(signature, [name for name in given if name in get_playing().in_system], inputs)
        answered = [(demo, said) for demo in demos if (said := self.tell_answer(signature, demo))]
        for number, (demo, said) in enumerate(answered, 1):  # those of a training set have no answer
            shown = _join_blocks(self._list_inputs(signature, given, demo))
            parts += [*(["Examples:"] if number == 1 else []), f"Example {number}\n{shown or said}"]
            parts += [said] if shown else []
        messages = [{"role": "system", "content": "\n\n".join(filter(None, parts))}]
        for role, text in self._list_messages(signature, inputs):
            if text and messages[-1]["role"] == role == "user":
                messages[-1]["content"] += f"\n\n{text}"
            elif text:
                messages.append({"role": role, "content": text})
        return messages

    def _list_messages(self, signature: Signature, inputs: Fields) -> Iterator[tuple[str, str]]:
        """Yield role and text of each message after the system's; texts may be empty."""
        name, placed = self._get_history_field_name(signature), get_playing().in_system
        names = [field for field in signature.input_fields if field not in placed]
        once, each = (names[: names.index(name)], names[names.index(name) + 1 :]) if name else (names, [])
        history = inputs.get(name or "")
        turns = (history.get("messages") if isinstance(history, Mapping) else getattr(history, "messages", None)) or ()
        tell = self.tell_answer
        talk = [(self._list_inputs(signature, each, turn), turn.get(SAID, tell(signature, turn))) for turn in turns]
        if talk and get_playing().layout == "paper":
            ahead = [*once, *(field for field in each if field not in PRESENT)]
            past = "\n\n".join(filter(None, chain(*((_join_blocks(given), said) for given, said in talk))))
            opening = [*self._list_inputs(signature, ahead, inputs), _show_field(label(name or ""), past)]
            talk, each = [], [field for field in each if field in PRESENT]
        else:
            opening = self._list_inputs(signature, once, inputs)
        for given, said in talk:
            yield "user", _join_blocks([*opening, *given])
            yield "assistant", said or ""
            opening = []
        yield "user", _join_blocks([*opening, *self._list_inputs(signature, each, inputs)])
        if self.unread is not None:
            yield "assistant", self.unread.strip()
            kinds = _list_kinds(_list_asked(signature))
            required = [field.replace("_", " ") for field, kind in kinds.items() if not kind.optional]
            again = f"No {required[0]} could be read from that. Answer with the {required[0]} alone."
            yield "user", again if len(required) == 1 else "That could not be read. Answer again in the form asked for."

    def _list_inputs(self, signature: Signature, names: Collection[str], values: Mapping[str, Any]) -> list[str]:
        blocks = []
        for name in names:
            told = _read_description(name, signature.input_fields[name])
            if (text := show(values.get(name))).strip():
                blocks.append(_show_field(f"{label(name)} ({told})" if told else label(name), text))
        return blocks

    def tell_answer(self, signature: Signature, outputs: Fields) -> str:
        blocks, asked = [], _list_asked(signature)
        for name in asked:
            text = show(value := outputs.get(name))
            if isinstance(value, list | tuple):
                text = list_items([show(item) for item in value]) or "none"
            if text.strip():
                blocks.append(text if len(asked) == 1 else _show_field(label(name), text))
        return "\n".join(blocks)

    @staticmethod
    def tell_form(signature: Signature) -> str:
        outputs = {name: (_read_description(name, field), field) for name, field in _list_asked(signature).items()}
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
        form, said = (re.sub(r"[\s\-]+", "", text) for text in (self.tell_answer(signature, fields), completion))
        if ledger and form != said:
            ledger.count_repaired()
        return fields


class JSONAdapter(ChatAdapter):
    """The same, with the answer as one JSON object."""

    def tell_answer(self, signature: Signature, outputs: Fields) -> str:
        said = {name: outputs[name] for name in _list_asked(signature) if outputs.get(name) not in (None, "")}
        return json.dumps(said, ensure_ascii=False, default=lambda value: value.model_dump()) if said else ""

    @staticmethod
    def tell_form(signature: Signature) -> str:
        lines = ["Answer with one JSON object that has these keys:"]
        for name, field in _list_asked(signature).items():
            form = _tell_kind(field.annotation, "a list", "a list of objects in the form `{}`", as_json=True)
            told = (form or "text", _read_description(name, field))
            lines.append(f'"{name}": {": ".join(filter(None, told))}')
        return "\n".join(lines)


def _tell_kind(annotation: Any, of_texts: str, of_objects: str, as_json: bool = False) -> str:
    core = _unwrap(annotation)
    if get_origin(core) is list:
        item = (get_args(core) or (str,))[0]
        if not hasattr(item, "model_fields"):
            return of_texts
        shown = {name: _tell_kind(field.annotation, "...", "...") or "..." for name, field in item.model_fields.items()}
        if as_json:
            return of_objects.format("{" + ", ".join(f'"{name}": {told}' for name, told in shown.items()) + "}")
        return of_objects.format(" ".join(f"{label(name)}: {told}" for name, told in shown.items()))
    if get_origin(core) is Literal:
        return "/".join(map(str, get_args(core)))
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(core, "")


# What is read.

FAMILIES = (
    "thought thoughts think thinking reasoning reason rationale analysis",
    "action nextaction actions act command nextcommand nextmove bestaction chosenaction finalaction",
    "subgoal currentsubgoal currentgoal chosensubgoal selectedsubgoal",
    "skillname skill name",
    "target targetstate",
    "steps instructions",
    "equivalent equivalentskills",
    "whatwentwrong mistakes mistake problems",
    "abstractrules generalrules abstract",
    "errorrules errorrule errors mistakes",
    "progressrules progress",
    "mistake error problem wrong issue whatwentwrong mistakes errors",
    "solution fix correction instead correct remedy whattodoinstead solutions fixes",
)
"""Names that models use as synonyms, normalized."""
TURNS = (
    "observation observations obs environment env result user human assistant system feedback response completed "
    "gameresponse output score reward history"
)
"""Names that end an answer: after them the model plays the other side's part."""
THINKING = re.compile(r"(?:<think(?:ing)?>|\A)(.*?)</think(?:ing)?>|<think(?:ing)?>.*", re.I | re.S)
TOKENS = re.compile(
    r"(?s)\A.*<\|channel\|>final<\|message\|>|<\|\w+\|>(?:assistant<\|\w+\|>|assistant)?|<start_of_turn>(?:model)?"
    r"|<end_of_turn>|</?s>|\[/?INST\]|[\ufeff\u200b\u200c\u200d\u2060\u00ad]"
)
"""Marks of chat templates, and characters that nobody sees."""
REFUSAL = re.compile(
    r"(?i)\W*(?:(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|unfortunately"
    r"|as an (?:ai|assistant|language)|i (?:can(?:'?t|not)|won'?t|would rather not))\b|(?:null|error)\W*\Z)"
)
LEAD_IN = re.compile(r"(?i:sure|okay|ok|certainly|of course|here|below|based on|great|alright|understood)\b.*|.*:")
NOTHING = re.compile(r"\s*(?:none|null|nil|n/?a|nothing|empty|no (?:rules|errors|mistakes)|\[\s*\]|-)?[.!]?\s*", re.I)
PLACEHOLDER = re.compile(r"(?i)[.…]+|(?:your|insert|write|put|enter)\b.*\bhere\W*|\{[^{}\"'“:]+\}(?:\s*#.*)?|<[^<>]*>")
BULLET = re.compile(r"^[ \t]*(?:[-*•–+]|\(?\d+[.):]|\(?[a-z]\)|(?:step|rule)\s*\d+[.:)])\s+", re.I | re.M)
NAME = r"[^\W\d_][\w \-]{0,40}?"
HEADER = re.compile(
    rf"(?m)(?:^[\#* \t]+)?(?<![`\[])(?:\[\[|\[(?=\s*\#\#))\s*\#*\s*(?P<mark>{NAME})\s*:?\s*\#*\s*\]\]?\**[ \t]*:?"
    r"|</?(?P<tag>[^\W\d][\w\-]{0,40})(?:\s[^<>]{0,99})?>"
    r"|^[ \t]*(?:[-*•>+]\s+|\(?(?:\d+[.):]|[a-z]\))\s+)?(?P<lead>[\# \t*_`\"']*)"
    rf"(?P<label>{NAME})[ \t_]*\d*[*_`\"'\#]*(?:[ \t]*[:=]|[ \t]+[-–—](?=[ \t])|(?P<bare>[ \t\#*]*$))[ \t]*[*_]*"
    rf"|(?<=[.!?;|,(-])[ \t]*[*_]{{0,3}}(?P<inline>{NAME})[*_]{{0,3}}:[*_]{{0,3}}"
)
"""Where a field begins: `[[ ## name ## ]]`, `<name>`, `**Name:**`, `### Name`, and after a sentence `Name:`."""


class Kind(NamedTuple):
    """What a field holds: its type, its description, whether the answer may lack it, and what it is then."""

    annotation: Any
    told: str
    optional: bool
    default: Any


def _unwrap(annotation: Any) -> Any:
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if get_origin(annotation) in (Union, UnionType) and len(kinds) == 1 else annotation


def _list_kinds(fields: Mapping[str, Any]) -> dict[str, Kind]:
    """Return the kinds of output fields, or of an object's fields; at least one is required."""
    kinds = {}
    for name, field in fields.items():
        optional = not field.is_required() or annotation_allows_none(field.annotation)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if not optional and name in OPTIONAL and field.annotation is str:
            optional, default = True, OPTIONAL[name]
        told = _read_description(name, field) if field.json_schema_extra else "one"
        kinds[name] = Kind(_unwrap(field.annotation), told or "one action" * (name == "action"), optional, default)
    if kinds and all(kind.optional for kind in kinds.values()):
        kinds[name] = kinds[name]._replace(optional=False)
    return kinds


def read_answer(signature: Signature, completion: str) -> Fields | None:
    """Return the fields of the answer in the signature's order; None if they are unclear. The strictest way of reading
    goes first: as the action that it is, as an object, below headers, below headers inside of lines, as one value."""
    kinds = _list_kinds(_list_asked(signature))
    text = re.sub(r"^>[ \t]?", "", TOKENS.sub("", completion).strip(), flags=re.M)
    thinking = "\n".join(match[1] or "" for match in THINKING.finditer(text))
    text = THINKING.sub("\n", text).strip()
    if not text:
        return None
    if "action" in kinds and (action := _find_possible(text)):
        return _complete(kinds, {"action": action}, thinking)
    known, answers = _map_names(tuple(kinds)), []
    for match in list(re.finditer(r"\A(?=[\"']\w+[\"']\s*:)|\{(?=\s*[\"'“\w/#\\])", text))[:10]:
        if objects := _collect(_parse_literals(text[match.start() :], first=True)[:1], known):
            answers.append((objects[0] if len(objects) == 1 else {}, text[: match.start()]))
            break
    if not answers and re.match(r"(?:```\w*\s*)?\{", text):
        return None
    last = list(kinds)[-1]
    for loose in (False, True):
        rows, before = _find_rows(text, known, loose)
        row = next((row for row in rows if last in row), rows[0])
        contradictory = len(row) < len(kinds) and len({each[last] for each in rows if last in each}) > 1
        answers.append(({} if contradictory else row, before))
    read = [(*_convert_fields(kinds, said), before) for said, before in answers]
    if read := [answer for answer in read if answer[0]]:
        fields, _, before = min(read, key=lambda answer: answer[1])
        return _complete(kinds, fields, before, thinking)
    return _read_bare(kinds, _strip_marks(text), thinking)


def _complete(kinds: Mapping[str, Kind], fields: Fields, *before: str) -> Fields:
    """Fill fields that an answer may lack; what stands before the answer, or its thinking, is the missing thought."""
    for text in before:
        lines = [line for line in text.splitlines() if not LEAD_IN.fullmatch(line.strip()) and "```" not in line]
        thought = "\n".join(lines).strip()
        if "thought" in kinds and "thought" not in fields and re.search(r"\w", thought) and not REFUSAL.match(thought):
            fields = fields | {"thought": thought}
    return {name: fields.get(name, kind.default) for name, kind in kinds.items()}


def _convert_fields(kinds: Mapping[str, Kind], said: Mapping[str, Any]) -> tuple[Fields, int]:
    """Return the fields and how many are missing, which may only be lists, and fewer than are there; {} if unclear."""
    fields: Fields = {}
    missing = []
    for name, kind in kinds.items():
        value = _convert(said[name], kind.annotation, kind.told) if name in said else None
        if value is not None:
            fields[name] = _find_possible(value) or _first_line(value) if name == "action" else value
        elif said.get(name) and get_origin(kind.annotation) is list:
            return {}, 0  # a list that is there, and unclear, is not empty
        elif not kind.optional:
            fields[name] = []
            missing.append(get_origin(kind.annotation) is list)
    required = sum(not kind.optional for kind in kinds.values())
    return fields if said and all(missing) and 2 * len(missing) < required else {}, len(missing)


LONGEST_ACTION, FEWEST_WORDS = 120, 3
"""Most characters of an action, and fewest words of a text that lacks the other fields."""
MARKS = " \t*_`\"'“”‘’"


def _read_bare(kinds: Mapping[str, Kind], text: str, thinking: str) -> Fields | None:
    required = [(name, kind) for name, kind in kinds.items() if not kind.optional]
    if len(required) != 1 or not text or REFUSAL.match(text):
        return None
    ((name, kind),) = required
    before, value = "", None
    if name == "action":
        before, value = _find_action(text)
    elif kind.annotation is str:
        bare = re.sub(rf"\A(?:[ \t]*(?:{LEAD_IN.pattern})[ \t]*\n)+", "", text)
        few = len(kinds) > 1 and len(text.split()) < FEWEST_WORDS
        if not few and re.match(r"[^{\[<]*[^\W\d]", text) and not _find_headers(text, _map_names(tuple(kinds)), False):
            value = _convert(bare, str, kind.told)
    elif get_args(kind.annotation) != (str,) or "\n" in text or re.match(r"\[|- ", text) or NOTHING.fullmatch(text):
        value = _convert(text, kind.annotation, kind.told)
    return None if value in (None, "") else _complete(kinds, {name: value}, before, thinking)


def _first_line(text: str) -> str:
    """Return an action's line without what may surround it."""
    line = next((line for line in text.splitlines() if line.strip(MARKS)), "")
    return re.sub(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?", "", line).strip(MARKS)


def _find_possible(text: str) -> str:
    """Return the possible action that a text is, marks aside; an empty text if it is none."""
    said = _first_line(text).lower() if len(_strip_marks(text).splitlines()) == 1 else ""
    possible = {action.lower(): action for action in get_playing().possible} if said else {}
    return possible.get(said) or possible.get(said.rstrip(".!"), "")


def _find_action(text: str) -> tuple[str, str]:
    """Return the action and the text before: the only possible one, the first line if it is nothing else, or the last.
    Without known verbs only a text of one such line is an action."""
    verbs, lines = get_playing().verbs, [*filter(None, map(_first_line, text.splitlines()))]
    possible = [*dict.fromkeys(filter(None, map(_find_possible, lines)))]
    if not lines or _find_headers(text, {}, False):
        return "", ""
    if possible and (len(possible) == 1 or _find_possible(lines[0])):
        return "", possible[0]
    first, last = lines[0], lines[-1]
    alone = len(lines) == 1 and (not verbs or re.fullmatch(r"\W*\d{1,3}\W*", text) is not None)

    def fits(line: str) -> bool:
        plain = len(line) <= LONGEST_ACTION and re.match(r"\w(?!.*([{}<>:?|=]|\[\[|, ))", line) is not None
        return plain and (alone or line.split()[0].lower() in verbs)

    if alone or (fits(first) and first[-1] not in ".!"):
        return "", first.strip("()[]") if fits(first) and (first[-1] not in ".!" or first[0].isdigit()) else ""
    return "\n".join(lines[:-1]), last if fits(last) else ""


def _normalize(name: Any) -> str:
    """Return the name in lower case without spaces, underscores, hyphens, final number and `my` (`My thought 1`)."""
    return re.sub(r"^(?:my|the)\s+|\s+is\s*$|[\W_]+|\d+\s*$", "", str(name).lower())


@lru_cache(maxsize=256)
def _map_names(fields: tuple[str, ...]) -> dict[str, str]:
    """Map normalized names to fields: each field's own name, and its synonyms unless two fields share them."""
    own = {_normalize(name): name for name in fields}
    families = [(family.split(), [own[word] for word in family.split() if word in own]) for family in FAMILIES]
    return own | {word: meant[0] for family, meant in families if len(meant) == 1 for word in family} | own


def _collect(value: Any, known: Mapping[str, str], depth: int = 0) -> list[Fields]:
    """Collect the objects that have any of the fields: a value itself, or those in it. Own names go before synonyms."""
    if isinstance(value, str) and value.startswith("{"):
        value = _parse_literals(value)
    if depth > 5 or not isinstance(value, Mapping | list):
        return []
    own: Fields = {}
    inner = list(value.values()) if isinstance(value, Mapping) else value
    for key in sorted(value, key=lambda key: key not in known.values()) if isinstance(value, Mapping) else ():
        if name := known.get(_normalize(key)) or known.get(f"{_normalize(key)}rules"):
            own[name] = "" if name in own and str(key)[-1].isdigit() else own.get(name, value[key])
    below = [each for item in inner for each in _collect(item, known, depth + 1)]
    return [each for each in below if len(each) > len(own)] or ([own] if own else below)


def _find_rows(text: str, known: Mapping[str, str], loose: bool) -> tuple[list[Fields], str]:
    """Find the objects whose fields stand below headers, and the text before."""
    headers = _find_headers(text, known, loose)
    last = list(dict.fromkeys(known.values()))[-1]
    rows: list[Fields] = [{}]
    for (start, end, name, ends), (after, *_) in pairwise([*headers, (len(text), 0, "", False)]):
        if rows[-1] and ends and (last in rows[-1] or text[start] != "["):
            break
        if name and rows[-1].get(name):
            rows.append({})
        if name:
            rows[-1][name] = text[end:after].strip()
    return rows, next((text[:start] for start, _, name, _ in headers if name), text)


def _find_headers(text: str, known: Mapping[str, str], loose: bool) -> list[tuple[int, int, str, bool]]:
    """Find the headers: where they begin and end, the field or "", and whether they end the answer. If `loose` also
    those inside of lines and of elements."""
    headers: list[tuple[int, int, str, bool]] = []
    free = 0
    for match in HEADER.finditer(text):
        kind = next(kind for kind in ("mark", "tag", "label", "inline") if match[kind])
        word, closing = _normalize(match[kind]), match.group().startswith("</")
        name = known.get(word, "")
        ends = not (name or closing) and (kind == "mark" or word in TURNS.split())
        plain = (kind == "inline" and not loose) or (match["bare"] is not None and not match["lead"].strip(" \t\"'`"))
        if match.start() >= free and (name or ends) and not plain:
            headers.append((match.start(), match.end(), "" if closing else name, ends))
            if kind == "tag" and name and not closing and not loose:
                free = text.find(f"</{match[kind]}>", match.end())
    return headers


def _convert(said: Any, kind: Any, told: str = "") -> Any:
    """Convert whatever a model wrote for a field to the field's type; None if it is missing or unclear."""
    if isinstance(said, str):
        said = _strip_marks(said)
        bare = re.sub(r"\n\s*\}$", "", said).strip("[]()`\"'*, ")
        if PLACEHOLDER.fullmatch(bare) or (" " in bare and told.startswith(bare)):
            return None
    if kind is str:
        return _convert_text(said, told)
    if get_origin(kind) is list:
        item = (get_args(kind) or (str,))[0]
        return _convert_objects(said, item) if hasattr(item, "model_fields") else _convert_list(said, item)
    if isinstance(said, Mapping) and len(said) == 1:
        (said,) = said.values()
    if isinstance(said, str):
        said = said.strip(MARKS + "\n.,;")
        if get_origin(kind) is Literal:
            said = {str(choice).lower(): choice for choice in get_args(kind)}.get(said.lower())
        elif kind is int:
            match = re.fullmatch(r"(?i)(?:\W|\b(?:skills?|numbers?|steps?|no)\b)*?(-?\d+)\W*", said)
            said = match and match[1]
    try:
        return None if said in (None, "") else parse_value(said, kind)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _convert_text(said: Any, told: str) -> str | None:
    """Return the text. Where the description asks for one thing, several contradict each other, and nothing is none."""
    one, none = re.match(r"(?:one|a|an)\b", told, re.I), re.search(r"\bnone\b", told, re.I)
    if isinstance(said, Mapping):
        texts = [text for text in said.values() if isinstance(text, str)]
        said = texts if len(texts) == 1 else None
    if isinstance(said, list):
        texts = [text for item in said if (text := _convert(item, str, told))]
        if len(texts) < len(said) or (one and len(set(texts)) > 1):
            return None
        said = texts[0] if one and texts else "\n".join(texts)
    text = "" if said is None else str(said).strip()
    if not text or (one and not none and NOTHING.fullmatch(text)):
        return "none" if none else None
    return text


def _strip_marks(text: str) -> str:
    """Strip a pair of marks around a text that has no such mark inside."""
    text = re.sub(r"^```\w*\n|\n?```\s*$|^[|>][-+]?[ \t]*\n", "", text.strip()).strip()
    wrapped = re.fullmatch(r"(`{1,3}|\*{1,2}|\"|'|“)(.+)(?:\1|”),?", text)
    return wrapped[2].strip() if wrapped and wrapped[1] not in wrapped[2] else text


def _is_empty(said: Any) -> bool:
    if isinstance(said, Mapping | list):
        return all(map(_is_empty, said.values() if isinstance(said, Mapping) else said))
    return said is None or (isinstance(said, str) and NOTHING.fullmatch(said) is not None)


def _convert_list(said: Any, kind: Any) -> list[Any] | None:
    if isinstance(said, str) and (said := _split_items(said, kind)) is None:
        return None
    said = said if isinstance(said, list) else [said]
    if len(said) == 1 and isinstance(said[0], Mapping):
        said = list(said[0].values())
    while said and all(isinstance(item, list) for item in said):
        said = [*chain(*said)]
    items = [_convert(item, kind) for item in said if not _is_empty(item)]
    return None if None in items else items


def _split_items(text: str, kind: Any) -> list[Any] | None:
    """Split a text into items: JSON or Python, tags, lines, or a row with separators; None if it is unclear."""
    text = re.sub(r"\A(?![-*\d])[^\[{\n\"']*:[ \t]*\n\s*(?=[\[{])|^```.*$", "", text, flags=re.M).strip()
    if _is_empty(text):
        return []
    if re.match(r"[<|]|\[\[\s*#", text):  # elements, a table, or the field of another signature
        return None
    if text[0] in "[{(\"'":
        return _parse_literals(text) or None
    if kind is int:
        return [part for part in re.split(r"[,;&\n]|\band\b", text) if part.strip()]
    lines = [line for line in text.splitlines() if line.strip()]
    if any(BULLET.match(line) for line in lines):
        items = [re.split(r"\n\s*\n", item.strip())[0] for item in BULLET.split(text)[1:]]
        return ["\n".join(map(str.strip, item.splitlines())) for item in items]
    if len(lines) > 1:
        return lines
    parts = text.split(";")
    return None if len(parts) == 1 and text.count(",") > 1 and text[-1] != "." else parts


def _convert_objects(said: Any, kind: type[BaseModel]) -> list[BaseModel] | None:
    """Convert objects in any form, leaving out those with a missing field if there are others; None if unclear."""
    kinds, known = _list_kinds(kind.model_fields), _map_names(tuple(kind.model_fields))
    if isinstance(said, str):
        text = BULLET.sub("", re.sub(r"^```.*$", "", said, flags=re.M)).strip()
        start = re.match(r"[^\[{\n]*:\s*(?=[\[{])|(?=[\[{])", text)
        said = _parse_literals(text[start.end() :]) if start else text
        if not said and text:
            return None
    while isinstance(said, list) and len(said) == 1:
        (said,) = said
    if isinstance(said, list) and all(isinstance(item, str) for item in said):
        said = "\n".join(said)
    rows = _collect(said, known)
    if isinstance(said, str) and not said.startswith("{"):
        found, before = _find_rows(said, known, True)
        clean = [{name: _strip_marks(text.strip(" \t\n*_|;,-")) for name, text in row.items()} for row in found]
        clear = not re.search(r"[^\W\d]", before) and all(_convert_fields(kinds, row)[0] for row in clean)
        rows = clean if clear else []
    try:
        objects = [kind.model_validate(fields) for row in rows if (fields := _convert_fields(kinds, row)[0])]
    except ValidationError:
        return None
    return objects or ([] if _is_empty(said) else None)


LONGEST_LITERAL, MOST_MARKS = 20_000, 600
"""Longer texts and texts with more quotes and brackets are not repaired: json_repair takes the cube of their number."""


def _parse_literals(text: str, first: bool = False) -> list[Any]:
    """Parse the JSON or Python values that a text begins with, or only the first. Broken ones are repaired, but not
    what was cut off; a repair holds no text that does not stand in quotes."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
        if first or not re.match(r"[\s,;]*[\[{(\"']" if text[0] in "[{" else r"\s*\S", text[end:]):
            return [value]
    except (ValueError, RecursionError):
        pass
    text = re.sub("[“”]", '"', (first and text[: text.rfind("}") + 1]) or text.strip())
    too_long = len(text) > LONGEST_LITERAL or len(re.findall(r"[\[{(\"']", text)) > MOST_MARKS
    whole = all(text.count(begin) == text.count(end) for begin, end in ("[]", "{}"))
    if too_long or not (whole or text.endswith('"')):
        return []
    readers: list[tuple[Any, str]] = [(ast.literal_eval, "'\""), (json_repair.loads, '"')]
    for read, quotes in readers["\\" in text :]:  # Python warns of what it does not know behind a backslash
        with suppress(Exception):  # on arbitrary text both may raise anything
            texts = _list_texts(values := read(f"[{text}]"))
            if values and all(any(q not in each and f"{q}{each}{q}" in text for q in quotes) for each in texts):
                return list(values)
    return []


def _list_texts(value: Any) -> list[str]:
    """Texts in lists and objects; what Python has beside them stands in no quotes."""
    if isinstance(value, Mapping | list):
        return [
            text for item in (value.values() if isinstance(value, Mapping) else value) for text in _list_texts(item)
        ]
    return [] if value is None or isinstance(value, int | float) else [str(value)]
