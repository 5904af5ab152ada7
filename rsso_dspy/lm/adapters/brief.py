"""The form of a call in fewer words than DSPy's: each field named once, the form of an answer shown once.

Under the interface `complete`, whose prompts are nobody else's, and of signatures whose fields are plain text: DSPy's
words say what else a field is, and are kept for that.
"""

import textwrap
from typing import Any

import dspy

from rsso_dspy.lm.adapters.field_values import is_text_field
from rsso_dspy.signatures.complete import BRIEF

INPUTS, OUTPUTS, FORM, OBJECTIVE = BRIEF


def can_be_brief(signature: type[dspy.Signature]) -> bool:
    """Whether a call with this signature is put in few words."""
    return dspy.settings.get("interface") == "complete" and all(
        is_text_field(field) and not field.json_schema_extra.get("constraints") for field in signature.fields.values()
    )


def describe_form(adapter: dspy.ChatAdapter, signature: type[dspy.Signature]) -> str:
    """The fields, and an answer with placeholders in the adapter's format."""
    placeholders = {name: f"{{{name}}}" for name in signature.output_fields}
    shown = adapter.format_assistant_message_content(signature, placeholders).strip()
    given, wanted = _list_fields(signature.input_fields), _list_fields(signature.output_fields)
    return "\n".join([INPUTS, *given, OUTPUTS, *wanted, FORM, shown])


def describe_objective(signature: type[dspy.Signature]) -> str:
    """The signature's instructions."""
    return f"{OBJECTIVE}\n{textwrap.dedent(signature.instructions).strip()}"


def _list_fields(fields: dict[str, Any]) -> list[str]:
    return [f"`{name}`: {field.json_schema_extra['desc']}" for name, field in fields.items()]
