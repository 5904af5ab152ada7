"""What is thought, and what is the answer.

One rule, whatever a mark is called: a block that opens the answer and closes before the answer ends is thought. Not so
where its mark names an output field, or the answer itself.

    separate_blocks("<scratchpad>Shut. wait?</scratchpad><answer>open door</answer> It is shut.", {})
    # Separated(text="open door", thinking="Shut. wait?", ...)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rsso_dspy.answers.marks import THOUGHT, Mark, Names, list_marks, normalize

MOST_BLOCKS = 20
"""Most blocks ahead of an answer that are looked at."""

MOST_MARKS = 300
"""Most marks in an answer: more are a model that got stuck."""

FORMATS = re.compile(
    r"""
      html | head | body | title | p | br | hr | div | span | h[1-4]
    | b | i | u | s | em | strong | small | sub | sup | a
    | ul | ol | li | table | tr | td | th
    | pre | code | json | xml | yaml | python | text | markdown
    | tool_calls? | function_call | function
    """,
    re.X,
)
"""Names of blocks that say how something is written, and not what it is."""

FENCE = re.compile(r"^(?:```|~~~)[ \t]*(?P<name>\w*)[ \t]*$", re.M)
"""A line that begins or ends a fenced block; one with a name begins it."""


class Frame(NamedTuple):
    """A block such as `<answer>` in the midst of a text."""

    before: str
    content: str
    after: str
    unframed: str
    """The whole text without such marks."""


@dataclass(frozen=True, slots=True)
class Separated:
    text: str
    """The answer. Empty where there is none, as behind a thought that was cut off."""
    thinking: str = ""
    """What was thought ahead of it."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Output fields whose own blocks of thought opened the answer, as `<thought>` of the field `thought`."""
    frame: Frame | None = None
    """Where in the text a block says that it is the answer."""
    is_guess: bool = False
    """Whether a block was taken for thought whose name does not say so."""


class Block(NamedTuple):
    mark: Mark
    content: str
    after: str
    is_closed: bool


def separate_blocks(text: str, names: Names) -> Separated:
    """Take the blocks of thought off a text, and what stands around a block that is the answer."""
    thoughts: list[str] = []
    by_field: dict[str, str] = {}
    is_guess = False

    for _ in range(MOST_BLOCKS):
        text = text.strip()
        marks = list_marks(text)
        if len(marks) > MOST_MARKS:
            return Separated("")

        block = _close_lost(text, marks, names) or _open_block(text, marks)
        if block is None or _is_form(block, names):
            break

        owner = block.mark.get_field(names)
        if block.mark.is_answer and owner is None:
            inner = separate_blocks(block.content, names)
            return replace(
                inner,
                thinking=_join([*thoughts, inner.thinking]),
                named={**by_field, **inner.named},
                is_guess=is_guess,
            )

        content = block.content.strip()
        if owner and block.is_closed:
            by_field[owner] = content
        else:
            thoughts.append(content)
        if not block.mark.is_thought:
            is_guess = True
        text = block.after

    answer, dropped = _drop_thought(text, names)
    return Separated(
        text=answer,
        thinking=_join([*thoughts, *dropped]),
        named=by_field,
        frame=_find_frame(answer, names),
        is_guess=is_guess,
    )


def _join(thoughts: Sequence[str]) -> str:
    return "\n".join(filter(None, thoughts))


def spell_fences(text: str) -> str:
    """Return a text whose first fenced block that is called thought stands between marks.

    It ends at the last fence that can be its own: fences without a name may stand inside of it."""
    opening = closing = None
    for fence in FENCE.finditer(text):
        if opening is None:
            if THOUGHT.search(fence["name"].lower()):
                opening = fence
        elif fence["name"]:
            break
        else:
            closing = fence
    if opening is None:
        return text

    name = normalize(opening["name"])
    begin = f"{text[: opening.start()]}<{name}>"
    if closing is None:
        return begin + text[opening.end() :]
    content = text[opening.end() : closing.start()]
    return f"{begin}{content}</{name}>{text[closing.end() :]}"


# The block that a text begins with.


def _open_block(text: str, marks: Sequence[Mark]) -> Block | None:
    """Return the block whose mark a text begins with. A mark that is said twice counts once."""
    if not marks or marks[0].start > 0 or not marks[0].opens:
        return None

    opening, *inside = marks
    begin = opening.end
    while inside and _is_said_again(opening, inside[0], text[begin : inside[0].start]):
        begin = inside.pop(0).end

    closing = _find_closing(opening, inside)
    if closing is None:
        return Block(opening, text[begin:], "", is_closed=False)
    return Block(opening, text[begin : closing.start], text[closing.end :], is_closed=True)


def _is_said_again(opening: Mark, mark: Mark, between: str) -> bool:
    return mark.opens and mark.topic == opening.topic and not between.strip()


def _find_closing(opening: Mark, marks: Sequence[Mark]) -> Mark | None:
    """Return the mark that closes a block: blocks of the same name inside of it have their own.

    Thought may be closed by another name of thought, where its own does not follow, nor that name's opening."""
    depth = 1
    for mark in marks:
        if mark.topic == opening.topic:
            depth += 1 if mark.opens else -1
        if depth == 0:
            return mark

    opened = {mark.topic for mark in marks if mark.opens}
    closed = {mark.topic for mark in marks if mark.closes}
    if not opening.is_thought or opening.topic in closed:
        return None
    for mark in marks:
        if mark.closes and mark.is_thought and mark.topic not in opened:
            return mark
    return None


def _close_lost(text: str, marks: Sequence[Mark], names: Names) -> Block | None:
    """Return the block up to a mark that closes what nothing opened: a server may keep the opening mark to itself."""
    closing = _find_lost_closing(text, marks, names)
    if closing is None:
        return None
    return Block(closing, text[: closing.start], text[closing.end :], is_closed=True)


def _find_lost_closing(text: str, marks: Sequence[Mark], names: Names) -> Mark | None:
    """Return the first mark that closes thought, or the answer, and that nothing opened."""
    opened: set[str] = set()
    has_thought = False
    for mark in marks:
        if mark.opens:
            opened.add(mark.topic)
            has_thought = has_thought or mark.is_thought
            continue

        if mark.topic in opened or _is_format(mark):
            continue
        if mark.is_thought:
            if not has_thought:
                return mark
        elif mark.get_field(names) is None and (mark.is_answer or _ends_alone(mark, marks, text)):
            return mark
    return None


def _ends_alone(mark: Mark, marks: Sequence[Mark], text: str) -> bool:
    """Whether a mark that closes has a name that no other has, and something stands behind it."""
    if mark.is_barred or not text[mark.end :].strip():
        return False
    topics = [other.topic for other in marks]
    return topics.count(mark.topic) == 1


def _is_format(mark: Mark) -> bool:
    return FORMATS.fullmatch(mark.topic) is not None


def _is_form(block: Block, names: Names) -> bool:
    """Whether a block that opens the answer is a part of its form, and no thought."""
    mark = block.mark
    owner = mark.get_field(names)
    if owner and not mark.is_thought:
        return True
    if owner and not block.is_closed:
        return not mark.is_barred and _ends_with_field(block.content, owner, names)
    if mark.is_thought or mark.is_answer:
        return False

    if _is_format(mark):
        return True
    if not block.is_closed:
        return mark.is_ambiguous
    is_whole = not block.after.strip()
    return is_whole or _is_opened(mark.topic, block.after)


def _is_opened(topic: str, text: str) -> bool:
    """Whether a block of this name stands in a text: several of one name are items, and no thought."""
    return any(mark.opens and mark.topic == topic for mark in list_marks(text))


def _ends_with_field(text: str, owner: str, names: Names) -> bool:
    """Whether the element of another field ends a text, whose own closing mark was forgotten: it is no draft then."""
    last = None
    for mark in list_marks(text):
        if not mark.is_barred and mark.get_field(names) not in (None, owner):
            last = mark
    if last is None:
        return False

    behind = text[last.end :].strip()
    if last.opens:
        return "\n" not in behind
    return not behind


# Blocks in the midst of a text.


def _drop_thought(text: str, names: Names) -> tuple[str, list[str]]:
    """Return a text without the blocks of thought in its midst, and these."""
    dropped: list[str] = []
    for _ in range(MOST_BLOCKS):
        opening = _find_thought(text, names)
        if opening is None:
            break

        behind = text[opening.start :]
        block = _open_block(behind, list_marks(behind))
        if block is None or (opening.is_ambiguous and not block.is_closed):
            break
        dropped.append(block.content.strip())
        text = f"{text[: opening.start]}\n{block.after}"
    return text.strip(), dropped


def _find_thought(text: str, names: Names) -> Mark | None:
    for mark in list_marks(text):
        if mark.opens and mark.is_thought and mark.get_field(names) is None:
            return mark
    return None


def _find_frame(text: str, names: Names) -> Frame | None:
    """Return the block in a text's midst that says it is the answer, if no other marks stand around it."""
    marks = list_marks(text)
    if not marks:
        return None
    opening, *inside = marks
    if not opening.opens or not opening.is_answer or opening.get_field(names):
        return None

    closing = _find_closing(opening, inside)
    behind = [mark for mark in inside if closing and mark.start > closing.start]
    if not all(mark.is_answer for mark in behind):
        return None
    return Frame(
        before=text[: opening.start],
        content=text[opening.end : closing.start] if closing else text[opening.end :],
        after=text[closing.end :] if closing else "",
        unframed=_drop_answer_marks(text, marks),
    )


def _drop_answer_marks(text: str, marks: Sequence[Mark]) -> str:
    for mark in reversed(marks):
        if mark.is_answer:
            text = text[: mark.start] + text[mark.end :]
    return text
