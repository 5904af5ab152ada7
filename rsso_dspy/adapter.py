"""DSPy's adapters for models that do not follow the answer format: they read most such answers without a second call.

    with dspy.context(adapter=ChatAdapter()):
        dspy.Predict(FlatActor)(...)        # also reads "Thought: ...\\nAction: open door"

Prompts are DSPy's, and DSPy parses first; its result is kept unless it provably differs from what the model wrote.
Otherwise `repair_answer` reads the text, in the same way for all formats. A wrong answer is worse than an unreadable
one: a missing required field is never invented, but thinking tags or prose before the first field may serve as required
reasoning. Of several answers the first complete one counts; the model plays on alone in others.
"""

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from html import unescape
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin

import dspy
import json_repair
from dspy.adapters.utils import annotation_allows_none, apply_output_field_defaults, parse_value
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, ValidationError

from rsso_dspy.playing import get_playing
from rsso_dspy.signatures.complete import BRIEF, speak_completely
from rsso_dspy.signatures.fields import cache_by_words, remove_fields

__all__ = ["ChatAdapter", "JSONAdapter", "XMLAdapter"]

Fields = dict[str, Any]
Signature = type[dspy.Signature]

FAMILIES = (
    "thought thoughts think thinking reasoning reason rationale analysis mythought myreasoning gedanke pensamiento "
    "razonamiento pensée pensee réflexion raisonnement pensiero 思考 想法 推理 理由",
    "action nextaction actions act command nextcommand nextmove bestaction chosenaction finalaction selectedaction "
    "aktion nächsteaktion acción accion próximaacción siguienteacción prochaineaction azione 行动 动作 下一步行动 操作",
    "currentsubgoal subgoal currentgoal chosensubgoal selectedsubgoal teilziel submeta 子目标 当前子目标",
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
SPARED = {"thought": "", "reasoning": "", "current_subgoal": "none", "what_went_wrong": ""}
"""Output fields that an answer may omit, with their defaults, because they do not change the action."""
PROSE = "plan"
"""The output field that a text without any form may be, if no other one is required."""
TURNS = (
    "observation observations obs environment env result user human assistant system feedback response completed "
    "gameresponse output score reward 观察 观察结果"
)
ENVIRONMENT = frozenset(TURNS.split())
"""Names that end an answer: after them the model plays the other side's part."""
TEXT_KEYS = ("text", "value", "content", "rule", "step", "action", "instruction")
"""Keys of an object that may hold the text that is asked for."""
ABOUT = "id category type kind priority confidence importance status index number source"
"""Keys of metadata about a text."""

THINKING = r"(?:think|thinking|thought_process|reasoning_process|reflection)"
OPENING = re.compile(rf"\s*<{THINKING}>", re.I)
CLOSED = re.compile(rf"<{THINKING}>(.*?)</{THINKING}>", re.I | re.S)
LAST_TOKENS = re.compile(r"(?:\s*(?:<\|\w+\|>|<end_of_turn>|</s>))+\s*\Z")
LAST_MARK = "[[ ## completed ## ]]"
MARKED = re.compile(r"^\s*\[\[ ## (\w+) ## \]\](.*?)(?=^\s*\[\[ ## \w+ ## \]\]|\Z)", re.M | re.S)
COLON = re.compile(r"^\s*\[\[ ## \w+ ## \]\][*_]{0,3}:", re.M)
MOST_BRACKETS = 300
"""Most brackets of an answer that is parsed as JSON: an endlessly repeated one would keep a parser busy for minutes."""


class ChatAdapter(dspy.ChatAdapter):
    """Fields below ``[[ ## name ## ]]``. DSPy misreads lists that are not JSON, because it takes any bracketed part of
    the lines, and a colon after a marker, because it takes it for text. In every format it misreads drafts in leading
    thinking tags, and the prompt's own placeholder as the last field.

    Empty inputs and empty fields of demonstrations are left out of the prompt. Under ``dspy.settings.interface`` =
    complete the form of an answer is described in fewer words, if all fields are plain text.
    """

    asked: ClassVar[tuple[str, str, Collection[str]]] = ("Respond with ", "`[[ ## {} ## ]]`", ("completed",))
    """The brief request for an answer: its first words, the mark of a field, and fields that end it."""

    def __call__(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[Fields]:
        answers: list[Fields] = super(ChatAdapter, self._asking(lm)).__call__(lm, *asked, **named)
        return answers

    async def acall(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[Fields]:
        answers: list[Fields] = await super(ChatAdapter, self._asking(lm)).acall(lm, *asked, **named)
        return answers

    def _asking(self, lm: dspy.BaseLM) -> "ChatAdapter":
        """Return this adapter, without the second question for unreadable answers if the model's backend asks only once
        (`backends.NAME.ask_again`)."""
        if getattr(lm, "asks_again", True):
            return self
        once = copy(self)
        once.use_json_adapter_fallback = False
        return once

    def _make_json_adapter_fallback(self) -> dspy.JSONAdapter:
        return JSONAdapter(
            use_native_function_calling=self.use_native_function_calling, parallel_tool_calls=self.parallel_tool_calls
        )

    def _call_preprocess(self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, inputs: Fields) -> Signature:
        rollout, usual = get_playing().rollout, getattr(lm, "kwargs", {}).get("temperature")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", usual):
            lm_kwargs.setdefault("rollout_id", rollout)  # otherwise DSPy's cache would merge all retries
        processed: Any = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        absent = tuple(name for name in processed.input_fields if inputs.get(name, "") in ("", None))
        if get_playing().interface == "complete":
            processed = speak_completely(processed, absent)
        return remove_fields(processed, absent)

    def _call_postprocess(self, processed_signature: Any, original_signature: Any, *rest: Any) -> list[Fields]:
        """As DSPy's, and fill output fields that were not asked for with their defaults, so that the call can serve as
        a demonstration."""
        values: list[Fields] = super()._call_postprocess(processed_signature, original_signature, *rest)
        spared = SPARED.keys() & (original_signature.output_fields.keys() - processed_signature.output_fields.keys())
        for value in values:
            value.update({name: SPARED[name] for name in spared if value.get(name) is None})
        return values

    def format_system_message(self, signature: Signature) -> str:
        return _get_system_message(signature, type(self), _can_be_brief(signature))

    def user_message_output_requirements(self, signature: Signature) -> str:
        if not _can_be_brief(signature):
            return super().user_message_output_requirements(signature)
        words, mark, ends = self.asked
        return f"{words}{', then '.join(mark.format(name) for name in (*signature.output_fields, *ends))}."

    def format_demos(self, signature: Signature, demos: list[Fields]) -> list[Fields]:
        present = [{name: value for name, value in demo.items() if value != ""} for demo in demos]
        return super().format_demos(signature, present)

    def parse(self, signature: Signature, completion: str) -> Fields:
        text, ledger = _trim_answer(completion), get_playing().ledger
        fields = self._parse_with_dspy(signature, text)
        read, failure = None, fields if isinstance(fields, AdapterParseError) else None
        if isinstance(fields, dict):
            read, last = self._correct_fields(signature, text, fields), next(reversed(fields), "")
            if is_echoed_placeholder(fields.get(last), last):
                read = None
            if read == fields and (text == completion or fields == self._parse_with_dspy(signature, completion)):
                return fields
            if read is None:
                failure = AdapterParseError(type(self).__name__, signature, completion, f"No value for {last}.", fields)
        if failure:
            verbs = get_playing().verbs
            joined = _join_tool_call(signature, completion, verbs)
            read = repair_answer(signature, joined) or _repair_leniently(signature, joined, verbs)
        if read is None:
            if ledger:
                ledger.unread(completion)
            raise failure or AdapterParseError(type(self).__name__, signature, completion)
        if ledger:
            ledger.count_repaired()
        return read

    def _parse_with_dspy(self, signature: Signature, text: str) -> Fields | AdapterParseError:
        """Return DSPy's fields or its error; DSPy's parsers also let some errors of other libraries through."""
        try:
            return super().parse(signature, text)
        except AdapterParseError as error:
            return error
        except Exception as error:
            return AdapterParseError(type(self).__name__, signature, text, f"{type(error).__name__}: {error}")

    def _correct_fields(self, signature: Signature, text: str, fields: Fields) -> Fields | None:
        """Return DSPy's fields, corrected where they are provably wrong; None if DSPy read what is not in the text.
        Every answer passes through here, so this must be cheap for ordinary answers."""
        if COLON.search(text):
            return repair_answer(signature, text) or fields
        kinds = {name: kind for name, kind in _list_kinds(signature).items() if kind.item}
        said = {name: value.strip() for name, value in reversed(MARKED.findall(text)) if name in kinds} if kinds else {}
        lists = {
            name: _convert_value(value, kinds[name])
            for name, value in said.items()
            if not isinstance(_load_json(value), list)
        }
        return repair_answer(signature, text) if None in lists.values() else fields | lists


class JSONAdapter(ChatAdapter, dspy.JSONAdapter):
    """One JSON object. DSPy misreads three cases: a text given as null, list or object becomes its Python form; of
    several objects it takes the last, in which the model plays on by itself; and a field that was cut off before it
    began becomes empty text."""

    asked: ClassVar[tuple[str, str, Collection[str]]] = ("Respond with a JSON object of ", "`{}`", ())

    def _parse_with_dspy(self, signature: Signature, text: str) -> Fields | AdapterParseError:
        if text.count("{") + text.count("[") > MOST_BRACKETS:
            return AdapterParseError(type(self).__name__, signature, text, "More brackets than an answer has.")
        return super()._parse_with_dspy(signature, text)

    def _correct_fields(self, signature: Signature, text: str, fields: Fields) -> Fields | None:
        texts = [name for name, kind in _list_kinds(signature).items() if kind.core is str]
        said = _load_json(text)
        if isinstance(said, dict) and all(isinstance(said.get(name, ""), str | int | float) for name in texts):
            return fields
        if (repaired := repair_answer(signature, text)) is not None:
            return repaired
        python = any(re.fullmatch(r"None|\[.*\]|\{.*\}", str(fields[name]), re.S) for name in texts)
        return None if python or fields[next(reversed(fields))] == "" else fields


class XMLAdapter(ChatAdapter, dspy.XMLAdapter):
    """Fields in tags. DSPy misreads a text that is given twice (it becomes a Python list), and list items in other tags
    than ``<item>`` or on separate lines (they become one item)."""

    asked: ClassVar[tuple[str, str, Collection[str]]] = ("Respond with the XML tags ", "`<{}>`", ())

    def _correct_fields(self, signature: Signature, text: str, fields: Fields) -> Fields | None:
        kinds = _list_kinds(signature).items()
        if any(kind.core is str and text.count(f"<{name}>") > 1 for name, kind in kinds):
            return repair_answer(signature, text)
        lists = {
            name: _convert_value(fields[name][0], kind)
            for name, kind in kinds
            if kind.item and len(fields[name]) == 1 and isinstance(fields[name][0], str)
            if not re.search(rf"<{name}>\s*<item\b", text)
        }
        return fields | {name: value for name, value in lists.items() if value is not None}


def _can_be_brief(signature: Signature) -> bool:
    return get_playing().interface == "complete" and all(
        _unwrap(field.annotation) is str and not field.json_schema_extra.get("constraints")
        for field in signature.fields.values()
    )


@cache_by_words
def _get_system_message(signature: Signature, adapter: type[ChatAdapter], brief: bool) -> str:
    """Return DSPy's system message, or one that names each field and shows the form once. Cached because it takes half
    of the time to build a prompt."""
    if not brief:
        return super(ChatAdapter, adapter()).format_system_message(signature)
    inputs, outputs, form, objective = BRIEF
    given, wanted = (
        [f"`{name}`: {field.json_schema_extra['desc']}" for name, field in fields.items()]
        for fields in (signature.input_fields, signature.output_fields)
    )
    placeholders = {name: f"{{{name}}}" for name in signature.output_fields}
    shown = adapter().format_assistant_message_content(signature, placeholders).strip()
    told = textwrap.dedent(signature.instructions).strip()
    return "\n".join([inputs, *given, outputs, *wanted, form, shown, "", objective, told])


def _trim_answer(completion: str) -> str:
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


# Answers that follow no format.

INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060\u00ad"))
FULL_WIDTH = {ord(wide): narrow for wide, narrow in zip("：［］｛｝＂，＃【】＜＞“”", ':[]{}",#[]<>""', strict=True)}
STRAY = re.compile(rf"</?{THINKING}>", re.I)
FIRST_FIELD = re.compile(r"^\s*(?:\[\[|\{|<|\*\*|#|\w[\w ]{0,25}:)", re.M)
"""A line that can begin an answer; unclosed thinking without such a line was cut off."""
TOKENS = re.compile(
    r"\A.*<\|channel\|>final<\|message\|>|<\|im_start\|>(?:assistant)?|<\|start_header_id\|>assistant<\|end_header_id\|>"
    r"|<start_of_turn>(?:model)?|<\|\w+\|>|<end_of_turn>|</?s>|\[/?INST\]",
    re.S,
)
PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype|html|head|body)\b", re.I)
TALK = re.compile(
    r"\W*(?:i'?m|i am|i|we|sorry|as an|unfortunately|apologies|my apologies|no answer|none|n/a|error|please)\b", re.I
)
REFUSAL = re.compile(
    r"\W*(?:sorry|apologies|(?:i'?m|i am) (?:sorry|unable|not able)|i apologi[sz]e|as an (?:ai|assistant|language)"
    r"|i (?:can(?:'?t|not)|won'?t|would rather not))\b",
    re.I,
)
LEAD_IN = re.compile(r"(?:sure|okay|ok|certainly|of course|here|below|based on|great|alright|understood)\b.*|.*:", re.I)
TURN = re.compile(rf"^\s*\W{{0,3}}(?:{TURNS.replace(' ', '|')})(?:\s+\d+)?\W{{0,3}}[:：]", re.I | re.M)
FENCE = re.compile(r"^[ \t]*```\w*[ \t]*\n?|```\Z", re.M)
ROW = re.compile(r"^[ \t]*\|[ \t]*([^|\n]+?)[ \t]*\|[ \t]*([^|\n]*?)[ \t]*\|[ \t]*$", re.M)
BULLET = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):]|\(?[a-z]\)|(?:step|rule)\s*\d+[.:)])\s+", re.I)
NOTHING = re.compile(r"(?:none|null|nil|n/?a|nothing|empty|no rules?|no errors?|\[\s*\]|-)[.!]?", re.I)
EVERY = "bracket tag label heading"
LONGEST_BARE = 200
HEADERS = {
    "bracket": re.compile(
        r"(?:^[ \t]*(?:#{1,6}[ \t]+|[*_]{1,3}|[->][ \t]+))?(?<![`\[])(?:\[\[|\[(?=\s*##))\s*#{0,3}\s*"
        r"(?P<name>[^\W\d][\w \-]{0,40}?)\s*:?\s*#{0,3}\s*\]\]?[*_]{0,3}[ \t]*:?"
        r"|^[ \t]*##\s*(?P<hashed>[^\W\d][\w \-]{0,40}?)\s*##[ \t]*$",
        re.M,
    ),
    "tag": re.compile(
        r"<(?P<slash>/?)(?P<name>[^\W\d][\w\-]{0,40})(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*\s*>"
    ),
    "label": re.compile(
        r"^[ \t]*(?:[-*•>+]\s+|\d+[.)]\s+)?(?:\#{1,6}[ \t]*)?[*_`\"']{0,3}(?P<name>[^\W\d_][\w \-]{0,40}?)"
        r"(?:[ \t]*\d+)?[*_`\"']{0,3}(?:[ \t]*[:：=]|[ \t]+[-–—](?=[ \t]))[ \t]*[*_]{0,3}",
        re.M,
    ),
    "heading": re.compile(r"^[ \t]*(?:\#{1,6}[ \t]*\*{0,2}|\*\*)(?P<name>[^\W\d_][\w \-]{0,40}?)\*{0,2}[ \t]*$", re.M),
    "inline": re.compile(
        r"(?:(?<=[.!?;。！？])[ \t]*|^[ \t]*)[*_`]{0,3}(?P<name>[^\W\d_][\w \-]{0,25}?)[*_`]{0,3}[:：][*_]{0,3}", re.M
    ),
}
CALL = re.compile(r"\b[A-Za-z_]\w*\(\s*\w+\s*=")
KEY = re.compile(r"[\w \-]{1,40}(?=\\?[\"'”]?\s*:)")
DEPTH, ATTEMPTS = 4, 10
"""Maximum depth at which an object is searched for the answer, and number of braces that are tried as its start."""


class Answer(NamedTuple):
    """One way to read an answer: output field to its raw value, the text before the first field, and whether the values
    were cut out of a text, so that marks may be around them."""

    said: Mapping[str, Any]
    before: str = ""
    loose: bool = True


class Header(NamedTuple):
    """A place where a section begins: of an output field, of no field (None), or of the other side's turn. A section of
    no field is left out, and after the last field it ends the answer."""

    start: int
    end: int
    name: str | None
    turn: bool
    tag: bool


def repair_answer(signature: Signature, completion: str) -> Fields | None:
    """Return the fields of the answer in the signature's order; None if they are unclear."""
    text = _strip_quote_marks(TOKENS.sub("", completion).translate(INVISIBLE))
    if not signature.output_fields or not text or PAGE.match(text):
        return None
    forms = dict.fromkeys((text, text.translate(FULL_WIDTH), ROW.sub(r"\1: \2", text)))
    tries = (_parse_text(signature, form, most) for most in (False, True) for form in forms)
    return next((fields for fields in tries if fields is not None), None)


def is_echoed_placeholder(said: Any, name: str) -> bool:
    """Return whether a text is the prompt's placeholder of the field: ``{action}``, dots, ``[your action here]``."""
    shown = rf"\{{{name}\}}\s*(?:# note:.*)?|\.\.\.|…|[\[<{{(]?(?:your|insert) [\w ]{{1,40}} here[\]>}})]?"
    return isinstance(said, str) and re.fullmatch(shown, said.strip(), re.I) is not None


def _is_placeholder(said: Any) -> bool:
    """Return whether a text is any placeholder, also with remains of an object around it."""
    shown = r"[.…]+|(?:your|insert|write|put|enter)\b.*\bhere\W*|\{[^{}\"']*\}(?:\s*# note:.*)?|<[^<>]*>"
    bare = re.sub(r"\n\s*\}$", "", said.strip()).strip("[]()`\"'*, ") if isinstance(said, str) else None
    return bare is not None and re.fullmatch(shown, bare, re.I) is not None


def _strip_quote_marks(text: str) -> str:
    lines = text.strip().splitlines()
    quoted = all(line.lstrip().startswith(">") or not line.strip() for line in lines)
    return "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines).strip() if quoted else text.strip()


def _parse_text(signature: Signature, text: str, most: bool) -> Fields | None:
    """Parse the fields with the first form that holds all of them, or most of them if `most`."""
    thinking, text = _split_thinking(text)
    for form in _iter_forms(signature, text, thinking):
        if (fields := _convert_fields(signature, form, most)) is not None:
            return fields
    return _parse_bare_value(signature, text)


def _iter_forms(signature: Signature, text: str, thinking: str) -> Iterator[Answer]:
    """Yield the ways to read the text, strictest first."""
    known = _map_names(signature.output_fields)
    yield _parse_sections(text, known, "bracket")
    yield from (objects := list(_iter_objects(text, known)))
    for kinds in ("tag", "label heading", EVERY, f"{EVERY} inline"):
        yield _parse_sections(text, known, kinds)
    for form in (*objects, _parse_sections(text, known, EVERY)):
        yield _add_reasoning(signature, form, known, thinking)


def _split_thinking(text: str) -> tuple[str, str]:
    """Split a text into its thinking and the rest. The opening tag may be missing because chat templates write it. If
    the closing tag is missing, the end of the thinking is unknown."""
    inside = [match.group(1).strip() for match in CLOSED.finditer(text)]
    rest = CLOSED.sub("\n", text)
    before, tag, after = rest.partition("</think>")
    if tag and "<think>" not in before:
        return "\n".join([before.strip(), *inside]), after
    cut = OPENING.match(rest)
    rest = STRAY.sub("\n", rest)
    return "\n".join(inside), "" if cut and not FIRST_FIELD.search(rest) else rest


def _add_reasoning(signature: Signature, form: Answer, known: Mapping[str, str], thinking: str) -> Answer:
    """Add to the fields of a form what comes before them: fields in another form, or missing reasoning."""
    said = {**_parse_sections(form.before, known, EVERY).said, **form.said}
    first = next(iter(signature.output_fields))
    if form.said and first not in said and first in FAMILIES[0].split() and not _list_kinds(signature)[first].optional:
        lines = [line for line in form.before.strip().splitlines() if not LEAD_IN.fullmatch(line.strip())]
        prose = FENCE.sub("", "\n".join(lines)).strip()
        said[first] = thinking if REFUSAL.match(prose) else prose or thinking
    return form._replace(said=said)


def _convert_fields(signature: Signature, form: Answer, most: bool) -> Fields | None:
    """Convert the fields to their types; None unless all required ones are there. With `most`, missing or unreadable
    lists count as empty if more than half of the required fields are there."""
    fields: Fields = {}
    kinds = _list_kinds(signature)
    missing = []
    for name, kind in kinds.items():
        value, given = form.said.get(name), name in form.said
        if isinstance(value, str) and kind.core is str:
            value = _strip_decoration(value, kind.one, form.loose)
        if _is_placeholder(value):
            value, given = None, given and not kind.item
        if given and (value := _convert_value(value, kind)) is not None:
            fields[name] = value
        elif not kind.optional:
            if not (most and kind.item):
                return None
            fields[name] = []
            missing.append(name)
    complete = form.said and (not missing or 2 * len(missing) < sum(not kind.optional for kind in kinds.values()))
    return apply_output_field_defaults(signature, fields) if complete else None


def _strip_decoration(text: str, one: bool, loose: bool) -> str:
    """Strip the marks around a text; from a single value also the other side's part after it."""
    text = TURN.split(text)[0].strip() if one else text.strip()
    if not loose:
        return text
    text = re.sub(r"^```\w*\n|\n?```\s*$|^[|>][-+]?[ \t]*\n", "", text).strip()
    return _strip_pair(text, r"(`{1,3}|\*{1,2}|\"|')(.+)\1", 0)


def _strip_pair(text: str, pair: str, flags: int) -> str:
    """Strip a pair of marks around a text that has no such mark inside."""
    wrapped = re.fullmatch(pair, text, flags)
    return wrapped.group(2).strip() if wrapped and wrapped.group(1) not in wrapped.group(2) else text


def _parse_bare_value(signature: Signature, text: str) -> Fields | None:
    """Parse an answer that is only the value of the only required field."""
    required = {name: kind for name, kind in _list_kinds(signature).items() if not kind.optional}
    if len(required) != 1:
        return None
    ((name, kind),) = required.items()
    text = FENCE.sub("", text).strip()
    if kind.core is str:
        text = _strip_decoration(BULLET.sub("", re.sub(r"^>\s+", "", text)), True, True)
        plausible = len(text.splitlines()) == 1 and len(text) <= LONGEST_BARE and re.match(r"[^\W_]", text)
        talk = TALK.match(text) or LEAD_IN.fullmatch(text) or _is_placeholder(text)
        if not plausible or talk or re.search(r"[{}<>:?]|\[\[", text):
            return None
    elif not kind.item or not text:
        return None
    elif not NOTHING.fullmatch(text):
        first = text.splitlines()[0]
        listed = (BULLET.match(first) or first.rstrip().endswith(":")) and len(_split_bullets(text)) > 1
        if TALK.match(text) or not (listed or text.startswith("[") or re.fullmatch(r"(?:\d+|[\s,;&]|and)*", text)):
            return None
    value = _convert_value(text, kind)
    return None if value is None else apply_output_field_defaults(signature, {name: value})


# Fields by name, in sections and objects.


def _normalize(name: Any) -> str:
    """Return the name in lower case without spaces, underscores, hyphens, final number and `my` (`My thought 1`)."""
    return re.sub(r"^my\s+|[\W_]+|\d+\s*$", "", str(name).lower())


def _map_names(fields: Collection[str]) -> dict[str, str]:
    """Map normalized names to fields: each field's own name, and its synonyms unless two fields share them."""
    own = {_normalize(name): name for name in fields}
    names = dict(own)
    for family in map(str.split, FAMILIES):
        meant = [own[word] for word in family if word in own]
        if len(meant) == 1:
            for word in family:
                names.setdefault(word, meant[0])
    return names


def _select_known(said: Mapping[Any, Any], known: Mapping[str, str]) -> Fields:
    """Select the entries that name output fields; a field's own name takes precedence over its synonyms. In an object,
    `error` also names `error_rules`; before a text it would be the name of a single rule."""
    own = set(map(_normalize, known.values()))
    fields: Fields = {}
    for key in sorted(said, key=lambda key: _normalize(key) not in own):
        if name := known.get(_normalize(key)) or known.get(f"{_normalize(key)}rules"):
            fields.setdefault(name, said[key])
    return fields


def _parse_sections(text: str, known: Mapping[str, str], kinds: str) -> Answer:
    """Parse the first answer in sections below headers of these kinds."""
    headers = _find_headers(text, known, kinds.split())
    last = next(reversed(dict.fromkeys(known.values())), "")
    said: Fields = {}
    for header, after in zip(headers, [*headers[1:], None], strict=False):
        if said and (header.turn or (header.name is None and not header.tag and last in said)):
            break
        if header.name is None:
            continue
        section = text[header.end : after.start if after else len(text)].strip()
        section = unescape(section) if header.tag else section
        if header.name not in said:
            said[header.name] = section
        elif said.keys() >= set(known.values()):
            break
        elif header.name == last and said[header.name] != section:
            return Answer({})
    return Answer(said, next((text[: header.start] for header in headers if header.name), ""))


def _find_headers(text: str, known: Mapping[str, str], kinds: Sequence[str]) -> list[Header]:
    """Find the headers apart from each other, in order; inner tags of an element are its content."""
    found, one = [], len(set(known.values())) == 1
    for kind in kinds:
        for match in HEADERS[kind].finditer(text):
            groups = match.groupdict()
            word, closing = _normalize(groups["name"] or groups.get("hashed")), groups.get("slash")
            name = known.get(word) or (known.get(re.sub(r"^the(?=.)|(?<=.)is$", "", word)) if one else None)
            if name or kind == "bracket" or (word in ENVIRONMENT and not closing):
                turn = name is None and word in ENVIRONMENT
                found.append(Header(match.start(), match.end(), None if closing else name, turn, kind == "tag"))
    headers: list[Header] = []
    free = 0
    for header in sorted(found, key=lambda header: (header.start, -header.end)):
        if header.start >= free:
            headers.append(header)
            free = header.end
            if header.tag and header.name:
                free = max(free, text.find(f"</{text[header.start + 1 : free - 1].split()[0]}>", free))
    return headers


def _iter_objects(text: str, known: Mapping[str, str]) -> Iterator[Answer]:
    """Yield the answers in objects of the text: JSON or Python, whole or broken, or a call with field names."""
    if (call := CALL.search(text)) and isinstance(said := _rewrite(text[call.start() :]), Mapping):
        yield Answer(_select_known(said, known), text[: call.start()], False)
    if re.match(r"\s*[\"']\w+[\"']\s*:", text):
        text = "{" + text + "}"
    for start in [match.start() for match in re.finditer(r"\{", text)][:ATTEMPTS]:
        snippet = text[start : _find_object_end(text, start)]
        keys = KEY.findall(snippet) if re.match(r"\{\s*[\"'“\w/#]", snippet) else []
        if any(_normalize(key) in known for key in keys):
            answers = _collect_answers(parse_literal(snippet), known, 0)
            if len(answers) == 1:
                yield Answer(answers[0], text[:start], False)
            if answers:
                return


def _collect_answers(value: Any, known: Mapping[str, str], depth: int) -> list[Fields]:
    """Collect the answers in an object: itself, or those below its keys; of a list, the first that has any."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parse_literal(value.lstrip())
    if isinstance(value, list):
        return next((answers for item in value if (answers := _collect_answers(item, known, depth + 1))), [])
    if not isinstance(value, Mapping) or depth > DEPTH:
        return []
    own = _select_known(value, known)
    below = [answer for child in value.values() for answer in _collect_answers(child, known, depth + 1)]
    return [answer for answer in below if len(answer) > len(own)] or ([own] if own else below)


def _find_object_end(text: str, start: int) -> int:
    """Return the end of the object that begins here, the text's end if it is not closed. Braces in quotes do not count:
    a broken object must not run into the next one."""
    depth = 0
    for match in re.compile(r'\\.|"(?:\\.|[^"\\])*"?|[{}]', re.S).finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if not depth:
            return match.end()
    return len(text)


# Fields by type.


class Kind(NamedTuple):
    """What a field holds: its type without None, the type of a list's items, whether the answer may lack it, and by its
    description whether it asks for one thing, so that several values contradict each other, or for "none"."""

    core: Any
    item: Any
    optional: bool
    one: bool
    none: bool


def _unwrap(annotation: Any) -> Any:
    """Return the type without None."""
    types_ = [kind for kind in get_args(annotation) if kind is not type(None)]
    return types_[0] if get_origin(annotation) in (Union, UnionType) and len(types_) == 1 else annotation


@cache_by_words
def _list_kinds(signature: Signature) -> dict[str, Kind]:
    """Return the kinds of the output fields."""
    kinds = {}
    for name, info in signature.output_fields.items():
        core, told = _unwrap(info.annotation), info.json_schema_extra["desc"]
        item = (get_args(core) or (str,))[0] if get_origin(core) is list else None
        optional = not info.is_required() or annotation_allows_none(info.annotation)
        one, none = re.match(r"(?:one|a|an)\b", told, re.I), re.search(r"\bnone\b", told, re.I)
        kinds[name] = Kind(core, item, optional, bool(one), bool(none))
    return kinds


def _convert_value(said: Any, kind: Kind) -> Any:
    """Convert whatever a model wrote for a field to the field's type; None if it is missing or unclear."""
    if kind.core is str:
        return _convert_text(said, kind)
    if kind.item:
        said = _parse_items(said, kind.item)
    if said is None or said == "":
        return None
    try:
        return parse_value(said, kind.core)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _convert_text(said: Any, kind: Kind) -> str | None:
    if isinstance(said, Mapping):
        said = _extract_text(said, TEXT_KEYS)
    if isinstance(said, list):
        texts = [text for item in said if (text := _convert_text(item, kind))]
        if len(texts) < len(said) or (kind.one and len(set(texts)) > 1):
            return None
        said = texts[0] if kind.one and texts else "\n".join(texts)
    text = "" if said is None else str(said).strip()
    if not text:
        return "none" if kind.none and not kind.optional else None
    return text if kind.none or not (kind.one and NOTHING.fullmatch(text)) else None


def _extract_text(said: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """Return the text of an object with a text key, or with a text as its only value; None otherwise."""
    texts = [said[key] for key in keys if isinstance(said.get(key), str)]
    if not texts and len(said) == 1:
        texts = [text for text in said.values() if isinstance(text, str)]
    return texts[0] if texts else None


# Lists of texts, numbers and objects of a class.

NO_MISTAKES = re.compile(
    r"(?:none\b|no (?:real |clear |obvious )?(?:mistakes?|errors?|error rules?)\b)[^\n]{0,120}", re.I
)
CONDITION = re.compile(r"(?:if|when|while|once|after|before|in|to|for|since|as|because|unless|until|with)\b", re.I)
NUMBERS = re.compile(r"(?:\s|,|;|&|#|\[|\]|\(|\)|\.|\band\b|\bskills?\b|\bnumbers?\b|\bno\.|\d+)*", re.I)
ELEMENT = re.compile(r"<([\w-]+)(?:\s[^<>]*)?>\s*(.*?)\s*</\1>", re.S)
ARROW = re.compile(r"\s?(?:-{1,3}>|→|={1,3}>|⇒)\s?")
SIDES = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):])?\s*", re.M)
HEADER_LINE = re.compile(
    r"\s*(?:#{1,6}\s*)?[*_]*(?:error|mistake|rule|item)s?(?:\s+rules?)?\s*#?\d*[*_]*\s*:?[*_]*\s*", re.I
)
TRAILING = re.compile(r"[\s|;,(]{0,20}(?:\n\s{0,20}(?:[-*•–+]|\(?\d+[.):]))?[\s*_`\"']{0,20}\Z")


def _parse_items(said: Any, kind: Any) -> list[Any] | None:
    """Parse the items of a list in any form, each an object, text or number as `kind` says; None if unclear. Objects
    with a missing field are left out, unless there are no others."""
    objects = _is_class(kind)
    if said is None:
        return []
    if isinstance(said, str):
        said = _split_items(said.strip(), kind)
    if isinstance(said, Mapping):
        said = _unwrap_mapping(said, kind)
    if isinstance(said, int) and not isinstance(said, bool):
        said = [said]
    if not isinstance(said, list):
        return None
    if said and all(isinstance(item, list) for item in said):
        names = list(kind.model_fields) if objects else []
        pairs = objects and all(
            len(item) == len(names) and all(isinstance(text, str) for text in item) for item in said
        )
        said = [dict(zip(names, item, strict=True)) for item in said] if pairs else [i for inner in said for i in inner]
    items = [item for item in said if not (isinstance(item, str) and re.fullmatch(r"[.…]+", item.strip()))]
    if said and not items:
        return None
    items = [item for item in items if not _is_empty(item, kind)]
    read = _parse_objects(items, kind) if objects else [_convert_item(item, kind) for item in items]
    return None if read is None or None in read else read


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _is_empty(item: Any, kind: Any) -> bool:
    if isinstance(item, str):
        text = item.strip()
        return not text or (kind is not int and _says_nothing(text, _is_class(kind)))
    if isinstance(item, Mapping) and _is_class(kind) and item:
        return all(value is None or (isinstance(value, str) and _is_empty(value, str)) for value in item.values())
    return item is None or item == {}


def _says_nothing(text: str, objects: bool) -> bool:
    return bool(NOTHING.fullmatch(text) or (objects and NO_MISTAKES.fullmatch(text)))


def _convert_item(said: Any, kind: Any) -> Any:
    if kind is str:
        if isinstance(said, Mapping):
            lower = {str(key).lower(): value for key, value in said.items() if str(key).lower() not in ABOUT.split()}
            said = _extract_text(lower, (*TEXT_KEYS, "description", "progress", "fact"))
        known = isinstance(said, str | int | float)
        return _strip_pair(str(said).strip(), r"([\"'`“])(.*)(?:\1|”),?", re.S) if known else None
    if kind is int:
        if isinstance(said, Mapping):
            said = next(iter(said.values())) if len(said) == 1 else None
        if isinstance(said, str):
            numbers = re.findall(r"\d+", said) if NUMBERS.fullmatch(said) else []
            return int(numbers[0]) if len(numbers) == 1 else None
        return said if isinstance(said, int) else None
    return said


def _unwrap_mapping(said: Mapping[str, Any], kind: Any) -> list[Any]:
    """Return the items in an object: those of the list it wraps, itself, or its values."""
    if len(said) == 1 and isinstance(only := next(iter(said.values())), list):
        return only
    if _is_class(kind):
        return _split_objects(said, kind)
    keyed = any(isinstance(said.get(key), str) for key in TEXT_KEYS)
    return [said] if keyed or (kind is not str and _extract_text(said, TEXT_KEYS)) else list(said.values())


def _split_bullets(text: str) -> list[str]:
    """Split a text into one item per bullet. A line without a bullet continues the item above; after a blank line it
    ends the list. Text before the first bullet is dropped."""
    items: list[str] = []
    above = ""
    for line in text.splitlines():
        if BULLET.match(line):
            items.append(BULLET.sub("", line).strip())
        elif items and line.strip():
            if not above.strip():
                break
            items[-1] += "\n" + line.strip()
        above = line
    return items


def _split_items(text: str, kind: Any) -> Any:
    """Split a text into items: JSON or Python, nothing at all, tags, a table, lines, or a row with separators."""
    objects = _is_class(kind)
    text = _strip_quote_marks(FENCE.sub("", text.strip()))
    if not text or _says_nothing(text, objects):
        return []
    text = re.sub(r"\A[^\[{\n\"']*:[ \t]*\n\s*(?=[\[{])", "", text)
    if text[0] in "[{\"'(" and (read := _parse_literals(text)) is not None:
        return read
    if kind is int:
        text = re.sub(r"^\s*[-*•]\s+", " ", text, flags=re.M)
        return [int(number) for number in re.findall(r"\d+", text)] if NUMBERS.fullmatch(text) else None
    if text.startswith("<"):
        return _parse_elements(text, kind)
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.lstrip().startswith("|") for line in lines):
        return _parse_table(text, kind)
    if objects and (read := _parse_labels(text, kind)) is not None:
        return read
    if any(BULLET.match(line) for line in lines):
        return _split_bullets(text)
    if len(lines) > 1:
        return lines
    if not objects and re.search("[;；]", text):
        return [part.strip() for part in re.split("[;；]", text) if part.strip()]
    parts = [part.strip() for part in text.split(",")]
    row = kind is str and not text.endswith(".") and not CONDITION.match(text)
    return parts if row and all(2 <= len(part.split()) <= 6 for part in parts) else [text]


def _parse_literals(text: str) -> Any:
    """Parse a text of one literal or several in sequence, separated by commas or lines; None if it holds anything
    else."""
    decoder, values, position = json.JSONDecoder(strict=False), [], 0
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            values.append(value)
            position += len(text[position:]) - len(text[position:].lstrip(" \t\n\r,"))
    except (ValueError, RecursionError):
        return parse_literal(text) if text[0] in "[{(" else None
    if len(values) > 1:
        return values
    if isinstance(only := values[0], str):
        return parse_literal(only.lstrip()) if only.lstrip()[:1] in ("[", "{") else [only]
    return only


def _parse_elements(text: str, kind: Any) -> list[Any] | None:
    """Parse items in tags: texts, or objects whose fields are inner tags."""
    first = re.match(r"<([\w-]+)[^<>]*>[^<]+</", text)
    if _is_class(kind) and first and first.group(1).lower() in _map_names(kind.model_fields):
        return _parse_labels("\n".join(f"{name}: {value}" for name, value in ELEMENT.findall(text)), kind)
    elements = ELEMENT.findall(text)
    if len(elements) == 1 and kind is str and elements[0][1].startswith("<"):
        return _parse_elements(elements[0][1], kind)
    return [dict(ELEMENT.findall(item)) or item for _, item in elements] or None


def _split_table(text: str) -> list[list[str]]:
    """Split the lines of a table into cells, without the ruler below its head."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.lstrip().startswith("|")]
    return [[cell.strip(" *`") for cell in line.split("|")] for line in lines if not re.fullmatch(r"[\s|:-]+", line)]


def _parse_table(text: str, kind: Any) -> list[Any] | None:
    """Parse the rows of a table: objects whose fields are its columns, or the texts of its only column with texts."""
    header, *body = _split_table(text) or [[]]
    if not body or any(len(row) != len(header) for row in body):
        return None
    if _is_class(kind):
        return [dict(zip(header, row, strict=True)) for row in body]
    columns = [list(column) for column in zip(*body, strict=True)]
    texts = [column for column in columns if not all(re.fullmatch(r"\W*\w?\d*\W*", cell) for cell in column)]
    return texts[0] if len(texts) == 1 else None


def _parse_objects(said: Sequence[Any], kind: type[BaseModel]) -> list[BaseModel] | None:
    """Parse the objects of a class in a list. Items that are no such object are left out; None if all are."""
    if said and all(isinstance(item, str) for item in said):
        said = _parse_labels("\n".join(said), kind) or said
    read = [one for item in said if (one := _parse_object(item, kind)) is not None]
    return None if said and not read else read


def _parse_object(said: Any, kind: type[BaseModel]) -> BaseModel | None:
    """Parse an object, or a line such as ``Mistake: ... Solution: ...`` or ``... -> ...``, as the class."""
    if isinstance(said, str) and said.lstrip().startswith("{"):
        said = parse_literal(said.lstrip())
    if isinstance(said, str):
        rows = _parse_labels(said, kind) or []
        said = rows[0] if len(rows) == 1 else None
    if not isinstance(said, Mapping):
        return None
    if len(said) == 1:  # an object below its key, or a sentence as key with another one as value
        key, value = next(iter(said.items()))
        if isinstance(value, Mapping):
            return _parse_object(value, kind)
        sentences = isinstance(value, str) and len(str(key).split()) > 2 and len(kind.model_fields) == 2
        return kind.model_validate(dict(zip(kind.model_fields, (key, value), strict=True))) if sentences else None
    names = _map_names(kind.model_fields)
    fields: Fields = {}
    for key, value in said.items():
        if name := names.get(_normalize(key)):
            only = value[0] if isinstance(value, list) and len(value) == 1 else value
            fields.setdefault(name, "" if only is None else only)
    try:
        return kind.model_validate(fields)
    except ValidationError:
        return None


def _parse_labels(text: str, kind: type[BaseModel]) -> list[dict[str, str]] | None:
    """Parse the objects in a text whose fields have labels, in order, or arrows between them; None if the text has
    another form."""
    names, known = list(kind.model_fields), _map_names(kind.model_fields)
    ahead = r"(?:^|(?<=[.!?;|,(\"'\s]))[\s|]{0,20}(?:[-*•–+]\s+|\(?\d+[.):]\s+)?[*_`\"']*\b"
    behind = r"(?:[ _]*\d+)?[*_`\"']*[ \t]*[:：][*_]*[ \t]*"
    labels = rf"{ahead}({'|'.join(sorted(known, key=len, reverse=True))}){behind}"
    before, *rest = re.split(labels, text, flags=re.I | re.M)
    said = [(known[label.lower()], value) for label, part in zip(rest[::2], rest[1::2], strict=True)
            if (value := _trim_value(part))]  # fmt: skip
    if len(said) >= len(names) and all(
        HEADER_LINE.fullmatch(line) for line in before.splitlines() if SIDES.sub("", line)
    ):
        if [name for name, _ in said] != names * (len(said) // len(names)):
            return None
        return [dict(said[start : start + len(names)]) for start in range(0, len(said), len(names))]
    if len(said) == 1 == len(names) - 1 and said[0][0] == names[1]:
        first = _trim_value(SIDES.sub("", before.rstrip("( "), count=1))
        return [{names[0]: first, names[1]: said[0][1]}] if first else None
    rows = [ARROW.split(SIDES.sub("", line).strip()) for line in text.splitlines() if line.strip()]
    if rows and all(len(row) == len(names) and all(row) for row in rows):
        return [dict(zip(names, map(_trim_value, row), strict=True)) for row in rows]
    return None


def _trim_value(text: str) -> str:
    """Trim a value: marks, the separator, and the header of the next object after it."""
    lines = text.strip().splitlines()
    while len(lines) > 1 and HEADER_LINE.fullmatch(lines[-1]):
        lines.pop()
    text = TRAILING.sub("", "\n".join(lines)).strip()
    text = text.removesuffix(")") if text.count(")") > text.count("(") else text
    return _strip_pair(text, r"([\"'`])(.+)", re.S)


def _split_objects(said: Mapping[str, Any], kind: type[BaseModel]) -> list[Any]:
    """Split an object into the objects it holds: itself, those below its keys, or those with numbered fields or fields
    in lists."""
    known = _map_names(kind.model_fields)
    named = {key: known[_normalize(key)] for key in said if _normalize(key) in known}
    lists = {name: said[key] for key, name in named.items() if isinstance(said[key], list)}
    if len(lists) == len(kind.model_fields) and len({len(value) for value in lists.values()}) == 1:
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if named and not all(isinstance(said[key], Mapping) for key in named):
        groups: dict[str, Fields] = {}
        for key, name in named.items():
            groups.setdefault(re.sub(r".*?(\d*)\s*", r"\1", str(key)), {})[name] = said[key]
        return list(groups.values())
    texts = all(isinstance(value, str) for value in said.values())
    return [{key: value} for key, value in said.items()] if texts else list(said.values())


# Literals.

LONGEST_LITERAL, DEEPEST_LITERAL = 20_000, 60
"""Longer texts and texts with more brackets are not repaired: json_repair takes the cube of those left open."""
CLOSING = {"[": "]", "{": "}", "(": ")"}
WORDS = {"None": "null", "null": "null", "True": "true", "true": "true", "False": "false", "false": "false"}
TOKEN = re.compile(
    r"""(?P<string>(["'])((?:\\.|[^\\])*?)\2(?=\s*(?:[,:;\]})]|$|//|\#|/\*|\\n|\s["'{\[])))"""
    r"""|(?P<call>[^\W\d]\w*\(\s*(?=\w+\s*=))|(?P<key>[^\W\d]\w*)\s*(?:=(?!=)|:)|(?P<open>[\[{(])|(?P<close>[\]})])"""
    r"""|(?P<comma>[,;])|(?P<colon>:)|(?P<gap>//[^\n]*|\#[^\n]*|/\*.*?\*/|\\[nrt]|\s+)|(?P<word>-?\d+(?:\.\d+)?|\w+)""",
    re.S,
)
"""A quote ends a string only before what can follow one; an object may be the call that creates it."""


def parse_literal(text: str) -> Any:
    """Parse the JSON or Python value, whole or broken, that a text begins with; None if there is none. Tuples and sets
    become lists; a list that was cut off keeps its complete items."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    if len(text) > LONGEST_LITERAL or text.count("{") + text.count("[") > DEEPEST_LITERAL:
        return None
    if (value := _rewrite(text)) is not None:
        return value
    try:
        return json_repair.loads(text, skip_json_loads=True) or None
    except Exception:  # json_repair may raise anything on arbitrary text
        return None


def _rewrite(text: str) -> Any:
    """Rewrite the value that a text begins with as JSON and parse it; None if it is something else. Drops comments,
    adds missing commas, and closes a list that was cut off after its last complete item."""
    out: list[str] = []
    stack: list[tuple[str, int]] = []
    position = 0
    while (match := TOKEN.match(text, position)) and (stack or not out):
        kind, word, position = match.lastgroup, match.group(), match.end()
        if kind in ("string", "call", "open", "word", "key") and out and out[-1] not in (",", ":", "[", "{", "("):
            out.append(",")
        if kind in ("call", "open"):
            stack.append((CLOSING[word.strip()[-1]], len(out)))
            out.append("{" if kind == "call" else word)
        elif kind == "close":
            if not stack or stack[-1][0] != word:
                return None
            _close(out, stack.pop()[1])
        elif kind == "word":
            if word not in WORDS and not word.lstrip("-")[0].isdigit():
                return None
            out.append(WORDS.get(word, word))
        elif kind == "key":
            out += [json.dumps(match["key"]), ":"]
        elif kind != "gap":
            out.append(_quote(match[3]) if kind == "string" else "," if kind == "comma" else word)
    if stack:
        if (match is None and text[position : position + 1] not in ("", '"', "'")) or all(
            out[at] == "{" for _, at in stack
        ):
            return None  # of a single value that was cut off, the rest may be what matters
        if out[stack[-1][1]] == "{" and out[stack[-1][1] + 1 :][-2:-1] != [":"]:
            del out[stack.pop()[1] :]
        for _, begun in reversed(stack):
            _close(out, begun)
    return _load_json("".join(out))


def _load_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _close(out: list[str], begun: int) -> None:
    """Close the bracket at this place: of an object if a colon follows the first value, or of a list."""
    while out[-1] == ",":
        out.pop()
    curly = out[begun] == "{" and (len(out) == begun + 1 or out[begun + 2 : begun + 3] == [":"])
    out[begun] = "{" if curly else "["
    out.append("}" if curly else "]")


def _quote(inner: str) -> str:
    """Return the inside of a JSON or Python string as a JSON string."""
    plain = inner.replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n")
    return json.dumps(plain if (value := _load_json(f'"{inner}"')) is None else value)


# Answers that lack inessential fields: a bare action, no reasoning or subgoal, a plan as plain prose.

LONGEST_ACTION, FEWEST_WORDS = 120, 4
"""Maximum characters of a line that can be an action, and minimum words of a text that can be a plan."""
MARKS = re.compile(r"^\s*(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)?[*_`\"'“‘]*")
TOLD = (
    re.compile(r"<(?:answer|final_answer)>\s*(.*?)\s*</(?:answer|final_answer)>", re.I | re.S),
    re.compile(r"\bnext action (?:is|will be|should be)(?: to)?\s*:?\s+(.+)\Z", re.I),
    re.compile(r"\A[^`]*(?:\b(?:i|action|so|therefore)\b|['’]ll\b)[^`\n]*`([^`\n]+)`[.!]*\Z", re.I),
)
"""An action in a tag, in the last sentence ("My next action is to ..."), or as the only code ("I'll `...`")."""
INPUT = re.compile(r"\n\s*\**Action Input:?\**:?[ \t]*(?:(?:none|null|n/a|\"\"|\{\})[ \t]*$)?", re.I | re.M)
CALLED, GIVEN = ("action", "name", "tool", "function"), ("action_input", "parameters", "arguments", "args", "input")


def _repair_leniently(signature: Signature, completion: str, verbs: Collection[str]) -> Fields | None:
    """Repair an answer like `repair_answer`, but allow the fields of `SPARED` to be missing.

    A text without any form is the value of the only required field: an action if its last line begins with one of
    `verbs`, a plan if it is prose. None if the signature has no such fields or nothing can be read.
    """
    if not SPARED.keys() & signature.output_fields.keys():
        return None
    spared = _spare(signature)
    fields = repair_answer(spared, completion)
    required = [name for name, kind in _list_kinds(spared).items() if not kind.optional]
    if len(required) != 1:
        return fields
    name, first = required[0], next(iter(spared.output_fields))
    said = fields and fields[name]
    if fields and not (isinstance(said, str) and re.sub(r"[\W_]+", "", said) == re.sub(r"[\W_]+", "", completion)):
        return fields  # a value that is the whole answer has no form
    text = CLOSED.sub("", completion).strip()
    before, said = ("", _find_plan(text, spared)) if name == PROSE else _find_action(text, verbs, spared, name)
    ahead = {first: before} if before and first in SPARED else {}
    return apply_output_field_defaults(spared, {**ahead, name: said}) if said else None


@cache_by_words
def _spare(signature: Signature) -> Any:
    """Return the signature with the fields of `SPARED` optional."""
    fields = {}
    for name, info in signature.fields.items():
        kind = dspy.InputField if name in signature.input_fields else dspy.OutputField
        default = SPARED.get(name, info.default) if name in signature.output_fields else info.default
        fields[name] = (info.annotation, kind(desc=info.json_schema_extra["desc"], default=default))
    return dspy.Signature(fields, signature.instructions)


def _find_action(text: str, verbs: Collection[str], signature: Signature, field: str) -> tuple[str, str]:
    """Return the action in the last line, with the text before it, or the only one that the text tells otherwise, also
    in the field's column of a table with one row; empty texts if there is none."""
    lines = [line.strip() for line in FENCE.sub("", text).splitlines() if line.strip()]
    if not lines or TURN.search(text):
        return "", ""
    if (len(lines) == 1 and re.fullmatch(r"\W*\d{1,3}\W*", lines[0])) or (
        _fit_action(lines[-1], verbs) and not re.match(r"\W*wait,", lines[-1], re.I)
    ):
        return "\n".join(lines[:-1]), MARKS.sub("", lines[-1]).strip(" \t*_`\"'“”‘’")
    told = [said for pattern in TOLD for said in pattern.findall(text)]
    header, *rows = _split_table(text) or [[]]
    known = _map_names(signature.output_fields)
    columns = [place for place, name in enumerate(header) if known.get(_normalize(name)) == field]
    if len(columns) == 1 and len(header) > 1:
        told += [row[columns[0]] for row in rows if len(row) == len(header)]
    return "", _fit_action(told[0], verbs).strip(".!") if len(told) == 1 else ""


def _fit_action(said: str, verbs: Collection[str]) -> str:
    """Return a line without its marks if it can be an action, otherwise an empty text."""
    said = MARKS.sub("", said).strip(" \t*_`\"'“”‘’")
    word = re.match(r"[a-z0-9]+", said.lower())
    fits = len(said) <= LONGEST_ACTION and not re.search(r"[{}<>:?|\n]|\[\[", said)
    return said if fits and word and word.group() in verbs else ""


def _find_plan(text: str, signature: Signature) -> str:
    """Return the text as a plan if it has more than a few words, is no refusal and names no field, or nothing."""
    lines = FENCE.sub("", text).strip().splitlines()
    if _parse_sections("\n".join(lines), _map_names(signature.output_fields), EVERY).said:
        return ""
    while len(lines) > 1 and LEAD_IN.fullmatch(lines[0].strip()) and _normalize(lines[0]) != PROSE:
        lines.pop(0)
    text = "\n".join(lines).strip()
    refused = REFUSAL.match(text) or _is_placeholder(text) or re.search(r"[{}<>]|\[\[", text)
    return "" if refused or len(text.split()) < FEWEST_WORDS else text


def _join_tool_call(signature: Signature, completion: str, verbs: Collection[str]) -> str:
    """Join the parts of an action that an answer gives as a tool and its input, where `verbs` begin an action:
    `Action: open` above `Action Input: door`, or an object with name and arguments."""
    if not verbs or "action" not in _map_names(signature.output_fields):
        return completion
    joined = INPUT.sub(" ", completion)
    text = joined[joined.find("{") : joined.rfind("}") + 1]
    call = parse_literal(text) if any(f'"{name}"' in text for name in GIVEN) else None
    if not isinstance(call, Mapping):
        return joined
    verb = next((str(call[name]) for name in CALLED if name in call), "").replace("_", " ")
    given = next((call[name] for name in GIVEN if name in call), None)
    if verb.lower().split(" ")[0] not in verbs:
        return joined
    said = f"({', '.join(map(str, given.values()))})" if isinstance(given, Mapping) and given else f" {given or ''}"
    return json.dumps({**call, "action": f"{verb}{said}".strip()}, default=str)
