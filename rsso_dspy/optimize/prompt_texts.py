"""The words of a predictor's saved state: its demonstrations and its fields as text."""

import json
from itertools import zip_longest
from typing import Any

from rsso_dspy.optimize.compiled_parts import PredictorState


def list_demonstrations(state: PredictorState | None) -> tuple[dict[str, str], ...]:
    """The demonstrations of a predictor, field to text, without DSPy's own mark of where they came from."""
    return tuple(
        {key: format_field_value(value) for key, value in demo.items() if key != "augmented"}
        for demo in (state["demos"] if state else ())
    )


def format_field_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_changed_fields(a: PredictorState, b: PredictorState) -> tuple[str, ...]:
    """Fields whose words differ between the two programs, named by their prefixes in the first."""
    pairs = zip_longest(a["signature"]["fields"], b["signature"]["fields"])
    return tuple((one or other or {}).get("prefix", "").rstrip(":") for one, other in pairs if one != other)
