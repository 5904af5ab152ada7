"""Text that is safe to show: what a model, a server or a file says moves no cursor, hides no line and turns no text."""

import json
import re

from rich.text import Text

_CONTROLS = re.compile(
    "["
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but newline and tab
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # changes of direction
    r"\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # characters without a width
    r"\u2028\u2029"  # ends of lines and paragraphs
    r"\ud800-\udfff"  # halves of characters
    "]"
)
"""Characters that a terminal, a browser or an editor acts on, or that nobody sees."""


def replace_controls(text: str) -> str:
    """Return the text with a visible mark for every such character."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_controls(text: str) -> str:
    """Return JSON text with every such character escaped; the data stay the same."""
    return _CONTROLS.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", r"\u007f"), text)


def to_plain_text(text: str, style: str = "") -> Text:
    """Return the text without interpreting markup or control characters."""
    return Text(replace_controls(text), style)
