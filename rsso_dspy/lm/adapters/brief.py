"""The form of a call in fewer words than DSPy's: each field named once, the form of an answer shown once.

Under the interface `complete`, whose prompts are nobody else's, and of signatures whose outputs are plain text: DSPy's
words say what else an output must be, and are kept for that.
"""

import textwrap
from typing import Any

import dspy

from rsso_dspy.lm.adapters.field_values import is_text_field

INPUTS = "You are given, in fields:"
OUTPUTS = "Your output fields are:"
FORM = "Your answer has this form:"
OBJECTIVE = "Your objective is:"

WORDS = (INPUTS, OUTPUTS, FORM, OBJECTIVE)
"""What stands between a signature's own words."""


def can_be_brief(signature: type[dspy.Signature]) -> bool:
    """Whether a call with this signature is put in few words."""
    return dspy.settings.get("interface") == "complete" and all(map(is_text_field, signature.output_fields.values()))


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
