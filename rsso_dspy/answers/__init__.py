"""An answer without what surrounds it: marks of chat templates, turns of others, and thought.

    separate("<think>Shut. wait?</think>\\nopen door<|im_end|>", {"action": "action"})
    # Separated(text="open door", thinking="Shut. wait?", ...)

`marks.py` reads marks by their kind, `turns.py` says who speaks, and `blocks.py` what is thought.
"""

import re
from dataclasses import replace

from rsso_dspy.answers.blocks import Frame, Separated, separate_blocks, spell_fences
from rsso_dspy.answers.marks import Names, blank_barred, has_mark, spell_fields, strip_at_edges
from rsso_dspy.answers.turns import choose_turn

__all__ = ["Frame", "Separated", "blank_barred", "has_mark", "separate"]

INVISIBLE = re.compile(r"[\ufeff\u200b\u200c\u200d\u2060\u00ad]")
"""Characters that nobody sees."""

UNREAD = re.compile(
    r"""
      <!-- (?: (?! <!-- ) . )*? -->
    | < [ ]? (?: think | thinking | thought | reasoning ) [ ]? />
    """,
    re.X | re.S,
)
"""A comment, and an empty block of thought."""

ESCAPED = re.compile(r"&lt;(/?[\w:|｜▁]+)&gt;")
"""A mark as it stands in the text of a web page."""


CUT_OFF = re.compile(r"</[\w:-]*\Z|(?<=\S)<\Z")
"""A closing mark at the end that was cut off."""


def separate(completion: str, names: Names) -> Separated:
    """Return the answer that a completion holds, apart from its thought. Whatever the text, nothing is raised."""
    text = INVISIBLE.sub("", completion)
    text = ESCAPED.sub(r"<\1>", text)
    text = UNREAD.sub("\n", text)
    text = CUT_OFF.sub("", text)

    turn = choose_turn(text, names)
    answer = _strip_quotes(turn.answer.strip())
    answer = spell_fences(spell_fields(answer, names))

    blocks = separate_blocks(answer, names)
    thinking = "\n".join(filter(None, [turn.thinking, blocks.thinking]))
    return replace(
        blocks,
        text=strip_at_edges(blocks.text).strip(),
        thinking=blank_barred(thinking).strip(),
    )


def _strip_quotes(text: str) -> str:
    """Return a text without the marks of quotes with which lines begin."""
    return re.sub(r"^>[ \t]?", "", text, flags=re.M)
