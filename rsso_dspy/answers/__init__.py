"""An answer without what surrounds it: marks of chat templates, turns of others, and thought.

    separate("<think>Shut. wait?</think>\\nopen door<|im_end|>", {"action": "action"})
    # Separated(text="open door", thinking="Shut. wait?", ...)

`marks.py` reads marks by their kind, `turns.py` says who speaks, and `blocks.py` what is thought.
"""

import re
from dataclasses import replace

from rsso_dspy.answers.blocks import Frame, Separated, separate_blocks, spell_fences
from rsso_dspy.answers.fences import Fenced, hold_fences, put_back
from rsso_dspy.answers.marks import THOUGHT, Names, blank_barred, has_mark, spell_fields, strip_at_edges
from rsso_dspy.answers.turns import choose_turn

__all__ = ["Frame", "Separated", "blank_barred", "find_passage", "has_mark", "separate"]

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


QUOTE = re.compile(r"^>[ \t]?")
"""The mark of a quote with which a line begins."""

CUT_OFF = re.compile(r"</[\w:-]*\Z|(?<=\S)<\Z")
"""A closing mark at the end that was cut off."""


LONGEST_PASSAGE = 5_000  # characters of an action that is looked for in its answer


def find_passage(text: str, completion: str) -> str:
    """Return the passage of a completion that a part of its answer was read from: with characters that nobody sees,
    comments, and marks as they stand in a web page. The part itself where there is no such passage."""
    if text in completion or len(text) > LONGEST_PASSAGE:
        return text
    letters = [_spell_letter(letter) for letter in text]
    match = re.search(f"{INVISIBLE.pattern}*".join(letters), completion.replace("\r\n", "\n"))
    if match is not None:
        return match[0]
    for mark in ESCAPED.finditer(completion):  # in an object, whose quotes are written otherwise
        if f"<{mark[1]}>" not in completion:
            text = text.replace(f"<{mark[1]}>", mark[0])
    return text


def _spell_letter(letter: str) -> str:
    """Return a pattern of what a letter may have been written as."""
    spellings = {"<": "(?:<|&lt;)", ">": "(?:>|&gt;)", "\n": rf"(?:\n|(?xs:{UNREAD.pattern}))"}
    return spellings.get(letter) or re.escape(letter)


def separate(completion: str, names: Names, keeps_code: bool = False) -> Separated:
    """Return the answer that a completion holds, apart from its thought. Whatever the text, nothing is raised.

    With `keeps_code` the content of a fenced block stays as it is, whatever it holds, unless the block is thought."""
    completion = completion.replace("\r\n", "\n")
    text, contents = hold_fences(completion, _is_code) if keeps_code else (completion, [])
    separated = _separate(text, names, keeps_code)
    return _put_back(separated, contents) if contents else separated


def _is_code(block: Fenced) -> bool:
    return THOUGHT.search(block.info.lower()) is None


def _put_back(separated: Separated, contents: list[str]) -> Separated:
    frame = separated.frame
    return replace(
        separated,
        text=put_back(separated.text, contents),
        thinking=put_back(separated.thinking, contents),
        named={name: put_back(text, contents) for name, text in separated.named.items()},
        frame=Frame(*(put_back(text, contents) for text in frame)) if frame else None,
    )


def _separate(completion: str, names: Names, keeps_code: bool) -> Separated:
    text = INVISIBLE.sub("", completion)
    text = ESCAPED.sub(r"<\1>", text)
    text = UNREAD.sub("\n", text)
    text = CUT_OFF.sub("", text)

    turn = choose_turn(text, names)
    answer = turn.answer.strip()
    answer = _strip_form_quotes(answer, names) if keeps_code else _strip_quotes(answer)
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
    return "\n".join(QUOTE.sub("", line) for line in text.split("\n"))


def _strip_form_quotes(text: str, names: Names) -> str:
    """Return a text without the marks of quotes with which the lines at its top begin, and those of labels: other ones
    may be letters of an action."""
    lines = text.split("\n")
    is_top = True
    for number, line in enumerate(lines):
        is_top = is_top and (line.startswith(">") or not line.strip())
        unquoted = QUOTE.sub("", line)
        label = unquoted.partition(":")[0].strip("*_ ").lower()
        if is_top or label in names:
            lines[number] = unquoted
    return "\n".join(lines)
