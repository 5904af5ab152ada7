"""The adapter for answers under a JSON schema that the server enforces: `adapter = "schema"`.

    with dspy.context(adapter=JSONAdapter()):           # this module's, which sends the schema with every request
        dspy.Predict(FlatActor)(...)                    # {"thought": "...", "action": "open door"}
    with dspy.context(action_choices=("open door", "wait")):
        ...                                             # and the action is one of these

Servers that generate under a grammar (llama.cpp, vLLM, Ollama) and providers that support `response_format` cannot
break the schema. The schema limits texts and lists, so that a small model that does not stop is not cut off in the
middle; providers' own endpoints do not support such limits and get none. An answer that breaks the schema shows that
the server ignores it: a warning says so once, and the answer is read, or counted as malformed, like any other.
"""

import json
import logging
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import dspy
import pydantic
from dspy.adapters.json_adapter import _get_structured_outputs_response_format
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.lm import adapters
from rsso_dspy.lm.adapters.field_values import is_single_value, is_text_field
from rsso_dspy.signatures.layouts import cache_by_words

ACTION_FIELDS = ("next_action", "action")
"""Names of the actor's field that `action_choices` restricts."""

CHARACTERS_PER_TOKEN = 2
"""Assumed characters per token, fewer than in prose because endless answers are often not prose. A text of maximum
length then still fits into the answer."""
LONGEST_SINGLE = 200
"""Maximum characters of a single value: an action, a subgoal, a name."""
LONGEST_TEXT = 1500
"""Maximum characters of any other text; llama.cpp's grammars count up to 2,000."""
LONGEST_ITEM = 300
MOST_ITEMS = 16
NAME = "answer"

_logger = logging.getLogger(__name__)
_told: set[str] = set()


class JSONAdapter(adapters.JSONAdapter):
    """The JSON format with the schema of the output fields in `response_format`. The class name is DSPy's, because
    streaming identifies adapters by name. ``dspy.settings.action_choices`` lists the allowed actions; None allows
    any."""

    holds_to_choices = True

    def _prepare_response_format(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, Any], signature: type[dspy.Signature]
    ) -> None:
        longest = _longest_answer(lm) if takes_bounds(lm) else None
        try:
            schema = build_schema(signature, longest, dspy.settings.get("action_choices"))
        except (ValueError, pydantic.errors.PydanticUserError):  # a signature of the user's own, with a free mapping
            lm_kwargs["response_format"] = {"type": "json_object"}
            return
        lm_kwargs["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": NAME, "schema": schema, "strict": True},
        }

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        choices = dspy.settings.get("action_choices")
        if not _keeps_to_schema(signature, completion, choices) and not _was_cut_off(completion):
            _warn_once(str(getattr(dspy.settings.lm, "model", "the model")))
        fields: dict[str, Any] = super().parse(signature, completion)
        name = _find_action(signature)
        if choices is not None and name and fields[name] not in choices:
            what = f"{fields[name]!r} is not one of the {len(choices)} actions that can be taken."
            raise AdapterParseError(type(self).__name__, signature, completion, what, fields)
        return fields


def build_schema(
    signature: type[dspy.Signature], longest: int | None = None, choices: Sequence[str] | None = None
) -> dict[str, Any]:
    """Build the JSON schema of the output fields, in their order, all required, without additional ones.

    `longest` is the maximum answer length in tokens, from which limits of texts follow; None for no limits. `choices`
    are the only values of the action.
    """
    schema = deepcopy(_build_schema(signature, longest))
    if choices is not None and (name := _find_action(signature)):
        schema["properties"][name] = {"type": "string", "enum": list(choices)}
    return schema


def takes_bounds(lm: dspy.BaseLM) -> bool:
    """Return whether the server supports lengths in a schema; providers' own endpoints refuse them."""
    provider = str(getattr(lm, "model", "")).partition("/")[0]
    return provider not in ("openai", "anthropic") or bool(getattr(lm, "kwargs", {}).get("api_base"))


@cache_by_words
def _build_schema(signature: type[dspy.Signature], longest: int | None) -> dict[str, Any]:
    schema: dict[str, Any] = _strip(_get_structured_outputs_response_format(signature).model_json_schema())
    if longest is None:
        return schema
    fields = signature.output_fields
    texts = [name for name, info in fields.items() if is_text_field(info) and not is_single_value(info)]
    left = CHARACTERS_PER_TOKEN * longest - LONGEST_SINGLE * (len(fields) - len(texts))
    share = max(LONGEST_SINGLE // 2, min(LONGEST_TEXT, left // max(1, len(texts))))
    for name, info in fields.items():
        most = (LONGEST_SINGLE if is_single_value(info) else share) if is_text_field(info) else LONGEST_ITEM
        _bound(schema["properties"][name], most)
    for each in schema.get("$defs", {}).values():
        _bound(each, LONGEST_ITEM)
    return schema


def _strip(schema: Any) -> Any:
    """Remove titles and defaults from the schema: grammars ignore them and strict servers refuse them."""
    if isinstance(schema, dict):
        named = schema.get("properties")
        kept = {key: _strip(value) for key, value in schema.items() if key not in ("title", "default", "properties")}
        return kept | ({"properties": {name: _strip(each) for name, each in named.items()}} if named else {})
    return [_strip(each) for each in schema] if isinstance(schema, list) else schema


def _bound(schema: dict[str, Any], most: int) -> None:
    """Limit every text in a part of a schema to `most` characters, and every list to `MOST_ITEMS`."""
    if schema.get("type") == "string" and "enum" not in schema:
        schema["maxLength"] = most
    if schema.get("type") == "array":
        schema["maxItems"] = MOST_ITEMS
    inner = [schema.get("items"), *schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for each in inner:
        if isinstance(each, dict):
            _bound(each, min(most, LONGEST_ITEM))


def _find_action(signature: type[dspy.Signature]) -> str | None:
    return next((name for name in ACTION_FIELDS if name in signature.output_fields), None)


def _keeps_to_schema(signature: type[dspy.Signature], completion: str, choices: Sequence[str] | None) -> bool:
    """Return whether the answer follows the schema: an object with exactly these fields and an allowed action."""
    try:
        said = json.loads(completion)
    except (ValueError, RecursionError):
        return False
    if not isinstance(said, dict) or said.keys() != signature.output_fields.keys():
        return False
    name = _find_action(signature)
    return choices is None or name is None or said[name] in choices


def _was_cut_off(completion: str) -> bool:
    """Return whether the answer is only the beginning of an object, which also happens under a schema at the length
    limit."""
    text = completion.strip()
    return not text or (text.startswith("{") and not text.endswith("}"))


def _warn_once(model: str) -> None:
    if model not in _told:
        _told.add(model)
        _logger.warning(
            "an answer of %s broke the JSON schema of the request: its server seems to ignore response_format. Such "
            "answers are read if possible and otherwise counted as malformed; `rsso-dspy doctor` says whether the "
            "server enforces schemas",
            model,
        )


def _longest_answer(lm: dspy.BaseLM) -> int | None:
    settings = getattr(lm, "kwargs", {})
    return settings.get("max_tokens") or settings.get("max_completion_tokens")
