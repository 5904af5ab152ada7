"""Filter for a skill's instructions: each must be an action in a template's form, or begin like an example's action.

    filter_instructions(["First, open OBJ.", "0", "Be patient"], templates, ["open door"])     # ("open OBJ.",)

Examples count besides templates because a simulator may understand more than its templates ("use thermometer on
water"), and actions that earned points may be taught. If the templates allow numbers as answers, so may instructions:
"answer the question with the number of the cup".
"""

import re
from collections.abc import Iterable, Sequence

_HEADING = re.compile(r"^templates:\s*$", re.M | re.I)
_LEADS = re.compile(
    r"^(?:(?:first|second|third|next|then|now|finally|lastly|afterwards?|and|please|step\s+\d+|action|"
    r"you\s+(?:should|can|may|must|need\s+to))\b[\s,:.]*)+",
    re.I,
)
"""Words before an action that do not change it. Unlike "do not", which makes an instruction no action."""
_ANSWER_TOLD = re.compile(r"\banswer\b[^.]*\bnumber\b", re.I)
_ANSWER = re.compile(
    r"(?:answer|choose|pick|select|reply|enter|give|say)\b.*\b(?:number|option|question)\b|answer\b.*\d", re.I
)


def filter_instructions(written: Sequence[str], templates: str, actions: Iterable[str]) -> tuple[str, ...]:
    """Return the instructions that are actions, without introductory words. Empty if fewer than half of them are
    actions, because then the answer was about something else."""
    if not templates:
        return tuple(written)
    # An example's bare number answers a question of its episode only.
    began = {words[:1] for action in actions if (words := _split_words(action)) and words[0].isalpha()}
    forms = {*filter(None, _list_template_heads(templates)), *began}
    bare = [_LEADS.sub("", text) or text for text in written]
    answers = _ANSWER_TOLD.search(_HEADING.split(templates)[0]) is not None
    kept = tuple(
        text
        for text in bare
        if any(_split_words(text)[: len(form)] == form for form in forms)
        or (answers and _ANSWER.match(text) is not None)
    )
    return kept if 2 * len(kept) >= len(written) else ()


def _list_template_heads(templates: str) -> Iterable[tuple[str, ...]]:
    """Yield the fixed words at the start of each template; placeholders are in capitals."""
    *_, listed = _HEADING.split(templates)
    for line in filter(None, listed.splitlines()):
        words = line.split()
        fixed = next((at for at, word in enumerate(words) if word.isupper()), len(words))
        yield tuple(word.lower() for word in words[:fixed])


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.lower()))
