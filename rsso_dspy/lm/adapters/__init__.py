"""DSPy's answer formats for models that do not keep to them: what can be read of an answer is read, without a second
model call.

    with dspy.context(adapter=ChatAdapter()):
        dspy.Predict(FlatActor)(...)        # "Thought: ...\\nAction: open door" is an answer too

Every adapter asks as DSPy's own does, and lets DSPy read first. What DSPy reads stays as it is, unless it is provably
not what the model said (the classes say what that is). What DSPy cannot read goes through `repair`, the same for all
formats; what that cannot read either raises DSPy's own error. The names are DSPy's: streaming knows adapters by them.
"""

import json
import re
from abc import ABC, abstractmethod
from copy import copy
from functools import lru_cache
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.lm.adapters.brief import can_be_brief, describe_form, describe_objective
from rsso_dspy.lm.adapters.field_names import SPARED
from rsso_dspy.lm.adapters.field_values import convert_value, is_list_field, is_text_field
from rsso_dspy.lm.adapters.lenient import repair_leniently
from rsso_dspy.lm.adapters.list_values import is_json_list
from rsso_dspy.lm.adapters.repair import is_echoed_placeholder, repair_answer, trim_answer
from rsso_dspy.lm.adapters.turns import ask_again, format_turns
from rsso_dspy.signatures.complete import speak_completely
from rsso_dspy.signatures.conversation import HOW, find_turns, list_absent
from rsso_dspy.signatures.layouts import SEEN, SignatureWords, arrange_fields, read_words

__all__ = ["ChatAdapter", "JSONAdapter", "XMLAdapter"]

DECORATED = re.compile(r"^\s*\[\[ ## \w+ ## \]\][*_]{0,3}:", re.M)
"""A marker with a colon after it."""
BRACKETS = 300
"""Opening brackets beyond which JSON is not tried: a model that got stuck on one would keep a parser for minutes."""
LINES_OF = r"^\s*\[\[ ## %s ## \]\](.*?)(?=^\s*\[\[ ## \w+ ## \]\]|\Z)"


class _TolerantAdapter(dspy.ChatAdapter, ABC):
    """Reads with the format it is mixed into, then repairs. Keeps no state.

    DSPy's reading is a misreading, in every format, when a draft inside leading thinking tags was taken for the answer,
    or when the last field is the prompt's own placeholder; what else can be proved, each format says.

    An input that is empty text is absent from the prompt, and so is an empty field of a demonstration.
    ``dspy.settings.layout`` orders the inputs; the turns in ``dspy.settings.conversation`` are sent as messages. Under
    ``dspy.settings.interface`` = complete the form is said in fewer words (`brief.py`).
    """

    sends_conversations = True
    asks_for: "_TolerantAdapter | None" = None
    """Whose question this one asks again, in another format."""

    def _call_preprocess(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, Any], signature: type[dspy.Signature], inputs: dict[str, Any]
    ) -> type[dspy.Signature]:
        rollout = dspy.settings.get("rollout")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", _get_temperature(lm)):
            lm_kwargs.setdefault("rollout_id", rollout)  # else DSPy's cache makes all retries one
        processed: Any = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        turns = find_turns(processed)
        absent = tuple(name for name in processed.input_fields if inputs.get(name, "") in ("", None))
        absent = list_absent(processed, turns) if turns else absent
        if dspy.settings.get("interface") == "complete":
            processed = speak_completely(processed, absent)
        if turns:
            return arrange_fields(processed, (), "append")
        return arrange_fields(processed, absent, "paper" if dspy.settings.get("layout") in (None, "paper") else "cache")

    def format(
        self, signature: type[dspy.Signature], demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        turns = find_turns(signature) if SEEN in signature.input_fields else ()
        if not turns:
            messages: list[dict[str, Any]] = super().format(signature, demos, inputs)
            return messages
        if self.asks_for is not None:
            asked = self.asks_for.format(signature, demos, inputs)
            return ask_again(asked, self.user_message_output_requirements(signature))
        return format_turns(self, signature, demos, turns)

    def __call__(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = super(_TolerantAdapter, self._asking(lm)).__call__(lm, *asked, **named)
        return answers

    async def acall(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = await super(_TolerantAdapter, self._asking(lm)).acall(lm, *asked, **named)
        return answers

    def _asking(self, lm: dspy.BaseLM) -> "_TolerantAdapter":
        """This adapter, less the second question for an answer that cannot be read where the model's is one question
        alone (`backends.NAME.ask_again`)."""
        if getattr(lm, "asks_again", True):
            return self
        once = copy(self)
        once.use_json_adapter_fallback = False
        return once

    def _call_postprocess(
        self,
        processed_signature: Any,
        original_signature: Any,
        outputs: Any,
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """As DSPy's; a field that was not asked for is what it is when it is left out, so that the call can serve as a
        demonstration."""
        values: list[dict[str, Any]] = super()._call_postprocess(
            processed_signature, original_signature, outputs, lm, lm_kwargs
        )
        spared = SPARED.keys() & (original_signature.output_fields.keys() - processed_signature.output_fields.keys())
        for value in values:
            value.update({name: SPARED[name] for name in spared if value.get(name) is None})
        return values

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """As DSPy's, made once: it says the same in every call, and is half of what a prompt takes to make."""
        kind: Any = signature
        return _get_system_message(type(self), kind, read_words(signature), can_be_brief(signature))

    def _build_system_message(self, signature: type[dspy.Signature], brief: bool) -> str:
        if not brief and SEEN not in signature.input_fields:
            return super().format_system_message(signature)
        parts = [describe_form(self, signature)] if brief else self._list_form(signature)
        parts += [HOW] if SEEN in signature.input_fields else []
        return "\n\n".join(
            [*parts, describe_objective(signature) if brief else self.format_task_description(signature)]
        )

    def _list_form(self, signature: type[dspy.Signature]) -> list[str]:
        return [self.format_field_description(signature), self.format_field_structure(signature)]

    def user_message_output_requirements(self, signature: type[dspy.Signature]) -> str:
        if not can_be_brief(signature):
            return super().user_message_output_requirements(signature)
        return self._require_briefly(list(signature.output_fields))

    @abstractmethod
    def _require_briefly(self, names: list[str]) -> str:
        """The form of an answer with these fields, in a line."""

    def format_demos(self, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        present = [{name: value for name, value in demo.items() if value != ""} for demo in demos]
        return super().format_demos(signature, present)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        text = trim_answer(completion)
        fields = self._parse_with_dspy(signature, text)
        failure = fields if isinstance(fields, AdapterParseError) else None
        if isinstance(fields, dict):
            again = self._correct_fields(signature, text, fields)
            last = next(reversed(fields), "")
            if again is not None and not is_echoed_placeholder(fields.get(last), last):
                same = again == fields and (
                    text == completion or fields == self._parse_with_dspy(signature, completion)
                )
                return again if same else _report_repair(again)
            failure = AdapterParseError(type(self).__name__, signature, completion, f"No value for {last}.", fields)
        repaired = repair_answer(signature, completion)
        if repaired is None:
            repaired = repair_leniently(signature, completion, dspy.settings.get("verbs") or frozenset())
        if repaired is None:
            _keep(completion)
            raise failure or AdapterParseError(type(self).__name__, signature, completion)
        return _report_repair(repaired)

    def _parse_with_dspy(self, signature: type[dspy.Signature], text: str) -> dict[str, Any] | AdapterParseError:
        """DSPy's reading, or its error. Its parsers let some errors of the libraries below them through."""
        try:
            return super().parse(signature, text)
        except AdapterParseError as error:
            return error
        except Exception as error:
            return AdapterParseError(type(self).__name__, signature, text, f"{type(error).__name__}: {error}")

    @abstractmethod
    def _correct_fields(
        self, signature: type[dspy.Signature], text: str, fields: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The same fields, better ones where DSPy's are provably wrong, or None where it read what is not there. Cheap
        where nothing looks odd, as every answer passes here."""

    def _make_json_adapter_fallback(self) -> dspy.JSONAdapter:
        again = JSONAdapter(
            use_native_function_calling=self.use_native_function_calling, parallel_tool_calls=self.parallel_tool_calls
        )
        again.asks_for = self
        return again


@lru_cache(maxsize=256)
def _get_system_message(adapter: type[_TolerantAdapter], signature: Any, _words: SignatureWords, brief: bool) -> str:
    return adapter()._build_system_message(signature, brief)


class ChatAdapter(_TolerantAdapter):
    """Fields below ``[[ ## name ## ]]``. DSPy misreads a list that is not written as JSON: it takes whatever stands in
    brackets somewhere in the lines; and a colon after a marker, which it takes for text."""

    def _require_briefly(self, names: list[str]) -> str:
        return "Respond with " + ", then ".join(f"`[[ ## {name} ## ]]`" for name in [*names, "completed"]) + "."

    def _correct_fields(
        self, signature: type[dspy.Signature], text: str, fields: dict[str, Any]
    ) -> dict[str, Any] | None:
        if DECORATED.search(text):
            return repair_answer(signature, text) or fields
        lists = {
            name: convert_value(section.group(1).strip(), info)
            for name, info in signature.output_fields.items()
            if is_list_field(info) and (section := re.search(LINES_OF % name, text, re.S | re.M))
            if not is_json_list(section.group(1).strip())
        }
        return repair_answer(signature, text) if None in lists.values() else fields | lists


class JSONAdapter(_TolerantAdapter, dspy.JSONAdapter):
    """One JSON object. DSPy misreads a text that is given as null, list or object (it becomes its Python form), and of
    several objects it takes the last, which is the model playing on by itself; and a field that was cut off before it
    began becomes empty text."""

    def _require_briefly(self, names: list[str]) -> str:
        return "Respond with a JSON object of " + ", then ".join(f"`{name}`" for name in names) + "."

    def _parse_with_dspy(self, signature: type[dspy.Signature], text: str) -> dict[str, Any] | AdapterParseError:
        if text.count("{") + text.count("[") > BRACKETS:
            return AdapterParseError(type(self).__name__, signature, text, "More brackets than an answer has.")
        return super()._parse_with_dspy(signature, text)

    def _correct_fields(
        self, signature: type[dspy.Signature], text: str, fields: dict[str, Any]
    ) -> dict[str, Any] | None:
        texts = [name for name, info in signature.output_fields.items() if is_text_field(info)]
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if isinstance(said, dict) and all(isinstance(said.get(name, ""), str | int | float) for name in texts):
            return fields
        if (repaired := repair_answer(signature, text)) is not None:
            return repaired
        python = any(re.fullmatch(r"None|\[.*\]|\{.*\}", str(fields[name]), re.S) for name in texts)
        return None if python or fields[next(reversed(fields))] == "" else fields


class XMLAdapter(_TolerantAdapter, dspy.XMLAdapter):
    """Fields in tags. DSPy misreads a text that is given twice (it becomes a Python list), and list items in tags
    other than ``<item>`` or on lines of their own (they become one item)."""

    def _require_briefly(self, names: list[str]) -> str:
        return "Respond with the XML tags " + ", then ".join(f"`<{name}>`" for name in names) + "."

    def _correct_fields(
        self, signature: type[dspy.Signature], text: str, fields: dict[str, Any]
    ) -> dict[str, Any] | None:
        kinds = signature.output_fields.items()
        if any(is_text_field(info) and text.count(f"<{name}>") > 1 for name, info in kinds):
            return repair_answer(signature, text)
        lists = {
            name: convert_value(fields[name][0], info)
            for name, info in kinds
            if is_list_field(info) and len(fields[name]) == 1 and isinstance(fields[name][0], str)
            if not re.search(rf"<{name}>\s*<item\b", text)
        }
        return fields | {name: value for name, value in lists.items() if value is not None}


def _keep(completion: str) -> None:
    """Have the ledger of this call keep an answer that could not be read."""
    ledger = dspy.settings.get("ledger")
    if ledger is not None:
        ledger.unread(completion)


def _report_repair(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, after telling the ledger of this call that they had to be repaired."""
    ledger = dspy.settings.get("ledger")
    if ledger is not None:
        ledger.count_repaired()
    return fields


def _get_temperature(lm: dspy.BaseLM) -> float:
    return getattr(lm, "kwargs", {}).get("temperature") or 0.0
