"""DSPy's adapters for models that do not follow the answer format: they read most such answers without a second call.

    with dspy.context(adapter=ChatAdapter()):
        dspy.Predict(FlatActor)(...)        # also reads "Thought: ...\\nAction: open door"

Every adapter builds prompts as DSPy's own does and lets DSPy parse first. DSPy's result is kept unless it provably
differs from what the model wrote (the classes say when). `repair` handles what DSPy cannot parse, in the same way for
all formats; if it fails too, DSPy's own error is raised. The class names are DSPy's, because streaming identifies
adapters by name.
"""

import json
import re
from abc import ABC, abstractmethod
from copy import copy
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.lm.adapters.brief import can_be_brief, describe_form, describe_objective
from rsso_dspy.lm.adapters.field_names import SPARED
from rsso_dspy.lm.adapters.field_values import convert_value, is_list_field, is_text_field
from rsso_dspy.lm.adapters.lenient import join_tool_call, repair_leniently
from rsso_dspy.lm.adapters.list_values import is_json_list
from rsso_dspy.lm.adapters.repair import is_echoed_placeholder, repair_answer, trim_answer
from rsso_dspy.playing import get_playing
from rsso_dspy.signatures.complete import speak_completely
from rsso_dspy.signatures.fields import cache_by_words, remove_fields

__all__ = ["ChatAdapter", "JSONAdapter", "XMLAdapter"]

DECORATED = re.compile(r"^\s*\[\[ ## \w+ ## \]\][*_]{0,3}:", re.M)
"""A field marker followed by a colon."""
BRACKETS = 300
"""Maximum opening brackets for parsing as JSON: a model that repeats one endlessly would keep a parser busy for
minutes."""
LINES_OF = r"^\s*\[\[ ## %s ## \]\](.*?)(?=^\s*\[\[ ## \w+ ## \]\]|\Z)"


class _TolerantAdapter(dspy.ChatAdapter, ABC):
    """Mixin that parses with the format's own adapter, then repairs. Keeps no state.

    In every format DSPy misreads an answer if it takes a draft inside leading thinking tags for the answer, or if the
    last field is the prompt's own placeholder; the subclasses add further cases.

    Empty inputs and empty fields of demonstrations are left out of the prompt. Under ``dspy.settings.interface`` =
    complete the answer form is described in fewer words (`brief.py`).
    """

    def _call_preprocess(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, Any], signature: type[dspy.Signature], inputs: dict[str, Any]
    ) -> type[dspy.Signature]:
        rollout, usual = get_playing().rollout, getattr(lm, "kwargs", {}).get("temperature")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", usual):
            lm_kwargs.setdefault("rollout_id", rollout)  # otherwise DSPy's cache would merge all retries
        processed: Any = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        absent = tuple(name for name in processed.input_fields if inputs.get(name, "") in ("", None))
        if get_playing().interface == "complete":
            processed = speak_completely(processed, absent)
        return remove_fields(processed, absent)

    def __call__(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = super(_TolerantAdapter, self._asking(lm)).__call__(lm, *asked, **named)
        return answers

    async def acall(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = await super(_TolerantAdapter, self._asking(lm)).acall(lm, *asked, **named)
        return answers

    def _asking(self, lm: dspy.BaseLM) -> "_TolerantAdapter":
        """Return this adapter, without the second question for unreadable answers if the model's backend asks only once
        (`backends.NAME.ask_again`)."""
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
        """As DSPy's, and fill output fields that were not asked for with their defaults, so that the call can serve as
        a demonstration."""
        values: list[dict[str, Any]] = super()._call_postprocess(
            processed_signature, original_signature, outputs, lm, lm_kwargs
        )
        spared = SPARED.keys() & (original_signature.output_fields.keys() - processed_signature.output_fields.keys())
        for value in values:
            value.update({name: SPARED[name] for name in spared if value.get(name) is None})
        return values

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """As DSPy's, but cached: it is equal in every call and takes half of the time to build a prompt."""
        return _get_system_message(signature, type(self), can_be_brief(signature))

    def _build_system_message(self, signature: type[dspy.Signature], brief: bool) -> str:
        if not brief:
            return super().format_system_message(signature)
        return f"{describe_form(self, signature)}\n\n{describe_objective(signature)}"

    def user_message_output_requirements(self, signature: type[dspy.Signature]) -> str:
        if not can_be_brief(signature):
            return super().user_message_output_requirements(signature)
        return self._require_briefly(list(signature.output_fields))

    @abstractmethod
    def _require_briefly(self, names: list[str]) -> str:
        """Describe the form of an answer with these fields in one line."""

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
        verbs = get_playing().verbs
        joined = join_tool_call(signature, completion, verbs)
        repaired = repair_answer(signature, joined)
        if repaired is None:
            repaired = repair_leniently(signature, joined, verbs)
        if repaired is None:
            if ledger := get_playing().ledger:
                ledger.unread(completion)
            raise failure or AdapterParseError(type(self).__name__, signature, completion)
        return _report_repair(repaired)

    def _parse_with_dspy(self, signature: type[dspy.Signature], text: str) -> dict[str, Any] | AdapterParseError:
        """Return DSPy's fields or its error; DSPy's parsers also let some errors of other libraries through."""
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
        """Return DSPy's fields, corrected where they are provably wrong; None if DSPy read what is not in the text.

        Every answer passes through here, so this must be cheap for ordinary answers.
        """

    def _make_json_adapter_fallback(self) -> dspy.JSONAdapter:
        return JSONAdapter(
            use_native_function_calling=self.use_native_function_calling, parallel_tool_calls=self.parallel_tool_calls
        )


@cache_by_words
def _get_system_message(signature: type[dspy.Signature], adapter: type[_TolerantAdapter], brief: bool) -> str:
    return adapter()._build_system_message(signature, brief)


class ChatAdapter(_TolerantAdapter):
    """Fields below ``[[ ## name ## ]]``. DSPy misreads lists that are not JSON, because it takes any bracketed part of
    the lines, and a colon after a marker, because it takes it for text."""

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
    """One JSON object. DSPy misreads three cases: a text given as null, list or object becomes its Python form; of
    several objects it takes the last, in which the model plays on by itself; and a field that was cut off before it
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
    """Fields in tags. DSPy misreads a text that is given twice (it becomes a Python list), and list items in other tags
    than ``<item>`` or on separate lines (they become one item)."""

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


def _report_repair(fields: dict[str, Any]) -> dict[str, Any]:
    """Count a repaired answer in the ledger of this call, and return its fields."""
    ledger = get_playing().ledger
    if ledger is not None:
        ledger.count_repaired()
    return fields
