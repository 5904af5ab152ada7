"""Text that is safe to print."""

import re

from rich.text import Text

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on or cannot show: control characters, changes of direction, unpaired surrogates.
Newlines and tabs stay."""


def replace_controls(text: str) -> str:
    """Return the text with a visible mark for every control character, so that the text of a model or a server cannot
    move the cursor, change colours or hide a line."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_controls(text: str) -> str:
    """Return JSON text with every control character escaped; the data stay the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_plain_text(text: str, style: str = "") -> Text:
    """Return the text without interpreting markup or control characters."""
    return Text(replace_controls(text), style)
