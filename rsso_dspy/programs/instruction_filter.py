"""Instructions of a skill, checked: each is an action in the form of a template, or begins as one of the examples.

    filter_instructions(["First, open OBJ.", "0", "Be patient"], templates, ["open door"])     # ("open OBJ.",)

The examples count beside the templates because a simulator may understand more than its templates say ("use
thermometer on water"), and what earned points may be taught. Where the templates say that a number is an answer, so
does an instruction: "answer the question with the number of the cup".
"""

import re
from collections.abc import Iterable, Sequence

_HEADING = re.compile(r"^templates:\s*$", re.M | re.I)
_LEADS = re.compile(
    r"^(?:(?:first|second|third|next|then|now|finally|lastly|afterwards?|and|please|step\s+\d+|action|"
    r"you\s+(?:should|can|may|must|need\s+to))\b[\s,:.]*)+",
    re.I,
)
"""What stands before an action without changing it. "Do not" and the like do: such an instruction is no action."""
_ANSWER_TOLD = re.compile(r"\banswer\b[^.]*\bnumber\b", re.I)
_ANSWER = re.compile(
    r"(?:answer|choose|pick|select|reply|enter|give|say)\b.*\b(?:number|option|question)\b|answer\b.*\d", re.I
)


def filter_instructions(written: Sequence[str], templates: str, actions: Iterable[str]) -> tuple[str, ...]:
    """The written instructions that are actions, without words that lead up to them. Empty when fewer than half of
    them are: the answer was about something else."""
    forms = {*_list_template_heads(templates), *_list_example_heads(actions)}
    if not templates:
        return tuple(written)
    bare = [_LEADS.sub("", text) or text for text in written]
    answers = _ANSWER_TOLD.search(_HEADING.split(templates)[0]) is not None
    kept = tuple(
        text
        for text in bare
        if any(_begins_with(text, form) for form in forms) or (answers and _ANSWER.match(text) is not None)
    )
    return kept if 2 * len(kept) >= len(written) else ()


def _list_template_heads(templates: str) -> Iterable[tuple[str, ...]]:
    """The fixed words each template begins with; what is to be filled in is in capitals."""
    *_, listed = _HEADING.split(templates)
    for line in filter(None, listed.splitlines()):
        words = line.split()
        fixed = next((at for at, word in enumerate(words) if word.isupper()), len(words))
        yield tuple(word.lower() for word in words[:fixed])


def _list_example_heads(actions: Iterable[str]) -> Iterable[tuple[str, ...]]:
    """The first word of each action. A bare number answers a question that was asked there, and is nothing to teach."""
    for action in actions:
        if (words := _split_words(action)) and words[0].isalpha():
            yield (words[0],)


def _begins_with(text: str, form: tuple[str, ...]) -> bool:
    return bool(form) and _split_words(text)[: len(form)] == form


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", text.lower()))
