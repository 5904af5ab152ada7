"""A description of the call's form in fewer words than DSPy's: each field and the answer form appear once.

Used only under the interface `complete`, whose prompts follow no published code, and for signatures of plain text
fields. Other types need DSPy's words, which describe them.
"""

import textwrap
from typing import Any

import dspy

from rsso_dspy.lm.adapters.field_values import is_text_field
from rsso_dspy.playing import get_playing
from rsso_dspy.signatures.complete import BRIEF

INPUTS, OUTPUTS, FORM, OBJECTIVE = BRIEF


def can_be_brief(signature: type[dspy.Signature]) -> bool:
    """Return whether the form of a call with this signature can be described briefly."""
    return get_playing().interface == "complete" and all(
        is_text_field(field) and not field.json_schema_extra.get("constraints") for field in signature.fields.values()
    )


def describe_form(adapter: dspy.ChatAdapter, signature: type[dspy.Signature]) -> str:
    """Describe the fields and show an answer with placeholders in the adapter's format."""
    placeholders = {name: f"{{{name}}}" for name in signature.output_fields}
    shown = adapter.format_assistant_message_content(signature, placeholders).strip()
    given, wanted = _list_fields(signature.input_fields), _list_fields(signature.output_fields)
    return "\n".join([INPUTS, *given, OUTPUTS, *wanted, FORM, shown])


def describe_objective(signature: type[dspy.Signature]) -> str:
    return f"{OBJECTIVE}\n{textwrap.dedent(signature.instructions).strip()}"


def _list_fields(fields: dict[str, Any]) -> list[str]:
    return [f"`{name}`: {field.json_schema_extra['desc']}" for name, field in fields.items()]
