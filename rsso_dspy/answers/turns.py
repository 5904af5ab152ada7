"""Who speaks, and whether to the user: turns and channels, as chat templates mark them, or as is left of the marks.

choose_turn("<|channel|>analysis<|message|>Shut.<|end|><|channel|>final<|message|>open door", {})
# Turn(answer="open door", thinking="Shut.")
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rsso_dspy.answers.marks import Mark, Names, list_barred

OWN = {"assistant", "model", "chatbot", "bot", "ai", "gpt"}
OTHERS = {
    "user",
    "human",
    "prompter",
    "system",
    "developer",
    "tool",
    "tools",
    "function",
    "interpreter",
    "ipython",
    "observation",
    "environment",
    "env",
}
"""Names of who speaks: the model, and all others."""

ROLE = re.compile(
    rf"""
    \s* (?P<role> {" | ".join(sorted(OWN | OTHERS))} )
    (?: [ \t]* (?= \n | [<\[] | \Z ) | (?<= assistant ) (?! [a-z] ) )
    """,
    re.X,
)
"""The name of who speaks, behind a mark: `<|im_start|>assistant`."""

STRUCTURE = re.compile(
    r"""
      (?: ^ | _ )
      (?: start | begin | end | [be]o[a-z] | sep | stop | return | call | turn | im | headers? | role | message | inst
        | constrain | channel | text | sentence )
      (?: _ | $ )
    | ^ endof
    """,
    re.X,
)
"""What is in the names of marks that say where a turn, its head or the text begins or ends."""

PLAIN = re.compile(
    r"""
      < [ ]? /? (?: s | bos | eos | eod | eot | eo[mpha] | sop | seed:[be]os | \w+_token ) [ ]? >
    | < [ ]? (?: start | begin | end ) _of_ (?: turn | text | sentence | utterance | message | sequence ) [ ]? >
    | < /? (?: end | stop | eot_id | im_start | im_end | endof\w+ | turn_end ) >
    | \[ /? end_?of_?(?: turn | text | sentence ) \]
    | \| im_(?: start | end ) \|
    | \[ (?P<user> INST ) \]
    | \[ (?P<assistant> /INST ) \]
    | < [ ]? /? (?: assistant | model ) [ ]? >
    | <<? /? SYS >>?
    | \[ /? SYSTEM_PROMPT \]
    | <role> \w+ </role>
    | < [|｜] [\w▁]* \Z                                     # cut off
    """,
    re.X | re.I,
)
"""The same marks without bars."""

SELF_FRAMED = re.compile(r"(?is)\s*\[INST\](?:(?!\[/?INST\]).)*\[/INST\]\s*")
"""An answer in the marks of the user's turn, in which nobody else speaks."""

HEAD = re.compile(
    r"""
    \s* (?P<channel> analysis | commentary | final | thought | [a-z]* )
    (?: [^\n<]* (?: <\|constrain\|> [^\n<]* )? <\|message\|> | [ \t]* \n )?
    """,
    re.X,
)
"""The head of a channel, behind its mark."""

BARE_HEAD = re.compile(
    r"""
    (?: ^ | (?<= assistant ) ) (?P<channel> analysis | commentary | final ) [^\n<]* \Z
    """,
    re.X | re.M,
)
"""The head of a channel whose own mark is lost, ahead of `<|message|>`."""

LOST_OPENING = re.compile(
    r"""
    \s* (?: assistant \s? )? (?: analysis | commentary )
    (?! [ \t]* [:=–—] | [ \t]+ - [ \t] )
    """,
    re.X,
)
"""The head of a channel at the beginning, all of whose marks are lost: `analysisWe need ...`."""

LOST_HEAD = re.compile(
    r"""
      assistant (?P<glued> analysis | commentary | final )
    | (?: ^ | (?<= [.!?"')] ) ) assistant \s{1,2} (?P<spaced> analysis | commentary | final ) \b
    """,
    re.X | re.M,
)
"""Such a head further on. Nobody writes `assistantfinal` for another reason."""

LOST_FINAL = re.compile(
    r"""
    (?: ^ [ \t]* | (?<= [.!?"'”)\]}>] ) )
    final
    (?= \n | [^\s:.,] )
    (?! ly\b | ists?\b | i[sz]e | s\b )
    """,
    re.X | re.M,
)
"""The head of the last channel where the word `assistant` is lost too: on a line of its own, or without a space."""


class Turn(NamedTuple):
    answer: str
    thinking: str


class Speaker(NamedTuple):
    is_own: bool = True
    """Whether the model speaks for itself, and does not play the user or the environment."""
    channel: str = ""
    """`final`, the name of a channel that no user sees, or empty where none is named."""


class Part(NamedTuple):
    text: str
    speaker: Speaker


def choose_turn(text: str, names: Names) -> Turn:
    """Return what the model says before it plays another's part, without an echo of what it was asked, and what it says
    in channels that no user sees."""
    turn = _join_channels(_take_own(_split_turns(text, names)))
    if turn.answer and turn.thinking:
        return turn
    return _split_lost_channels(turn.answer or turn.thinking) or turn


def _take_own(parts: Sequence[Part]) -> list[Part]:
    own_parts: list[Part] = []
    for part in parts:
        if not part.text.strip():
            continue
        if part.speaker.is_own:
            own_parts.append(part)
        elif own_parts:
            break
    return own_parts


def _join_channels(parts: Sequence[Part]) -> Turn:
    """Return the first final channel, after what was thought before; without one, what stands in no channel."""
    for place, part in enumerate(parts):
        if part.speaker.channel == "final":
            return Turn(part.text, _join(thought.text for thought in parts[:place]))
    answer = _join(part.text for part in parts if not part.speaker.channel)
    thinking = _join(part.text for part in parts if part.speaker.channel)
    return Turn(answer, thinking)


def _join(texts: Iterable[str]) -> str:
    return "\n".join(text.strip() for text in texts if text.strip())


# With marks.


def _split_turns(text: str, names: Names) -> list[Part]:
    """Split a text at the marks of chat templates, which are left out."""
    speaker = Speaker()
    parts: list[Part] = []
    place = 0
    for mark in _list_structure(text, names):
        if mark.start < place:
            continue
        piece = text[place : mark.start]
        place = mark.end

        if mark.topic == "channel" and mark.closes:
            parts = _close_channel(parts, piece, speaker)
            speaker = Speaker()
            continue

        bare_head = BARE_HEAD.search(piece) if mark.topic == "message" else None
        if bare_head:
            piece = piece[: bare_head.start()]
        parts.append(Part(piece, speaker))

        head = HEAD.match(text, place) if mark.topic == "channel" else bare_head
        if head:
            speaker = Speaker(channel=head["channel"])
            place = max(place, head.end()) if head is not bare_head else place
        elif not mark.is_thought and mark.get_field(names):
            speaker = Speaker()
            place = mark.start  # it is read with the fields
        else:
            speaker = _follow(speaker, mark)
            role = ROLE.match(text, place)
            if role:
                speaker = Speaker(is_own=role["role"] in OWN)
                place = role.end()
    return [*parts, Part(text[place:], speaker)]


def _close_channel(parts: Sequence[Part], before: str, speaker: Speaker) -> list[Part]:
    """Return the parts at the end of a channel: if nothing opened it, all that stands before it is in it."""
    all_parts = [*parts, Part(before, speaker)]
    if any(part.speaker.channel for part in all_parts):
        return all_parts
    return [Part(part.text, Speaker(part.speaker.is_own, "thought")) for part in all_parts]


def _follow(speaker: Speaker, mark: Mark) -> Speaker:
    """Return who speaks behind a mark."""
    if mark.is_thought:
        return Speaker(channel="thought")
    if mark.is_answer:
        return Speaker(channel="final")
    if mark.closes:
        ends_head = not mark.words.isdisjoint({"header", "role"})
        return speaker if ends_head else Speaker()
    if not mark.words.isdisjoint(OTHERS):
        return Speaker(is_own=False)
    if not mark.words.isdisjoint(OWN):
        return Speaker()
    if speaker.channel == "thought" and not mark.opens:
        return Speaker()
    return speaker


def _list_structure(text: str, names: Names) -> list[Mark]:
    """Return the marks of turns, heads and channels in their order, without those of blocks. A mark of thought that
    nothing closes is one of them, and so is the next mark: `<|think|>...<|content|>...`."""
    barred = list_barred(text)
    closed = {mark.topic for mark in barred if mark.closes}
    has_switch = False
    marks = _list_plain(text)
    for mark in barred:
        is_alone = not mark.is_directed and mark.topic not in closed
        is_block = mark.is_thought or mark.is_answer or mark.get_field(names) is not None
        is_role = not mark.words.isdisjoint(OWN | OTHERS)
        is_structure = is_role or STRUCTURE.search(mark.topic) is not None

        if is_alone and (has_switch or mark.is_thought):
            has_switch = True
            marks.append(mark)
        elif is_structure and not is_block:
            marks.append(mark)
    return sorted(marks, key=lambda mark: mark.start)


def _list_plain(text: str) -> list[Mark]:
    """Return the marks without bars. `[INST]` begins the user's turn and `[/INST]` the model's."""
    is_self_framed = SELF_FRAMED.fullmatch(text) is not None
    marks = []
    for match in PLAIN.finditer(text):
        topic = match.lastgroup or "plain"
        if topic == "user" and is_self_framed:
            topic = "assistant"
        marks.append(Mark(topic, topic, False, topic == "plain", False, False, match.start(), match.end()))
    return marks


# Without marks.


def _split_lost_channels(text: str) -> Turn | None:
    """Split an answer in channels whose marks are lost; None for another one. What begins as analysis and has no end is
    no answer."""
    opening = LOST_OPENING.match(text)
    begin = opening.end() if opening else 0
    heads = [head for head in LOST_HEAD.finditer(text) if head.start() >= begin]
    if not opening and not heads:
        return None

    thinking = []
    for head in heads:
        thinking.append(text[begin : head.start()])
        begin = head.end()
        following = LOST_HEAD.search(text, begin)
        content = text[begin : following.start()] if following else text[begin:]
        is_final = "final" in (head["glued"], head["spaced"])
        if is_final and content.strip():
            return Turn(_strip_head(content), _join(thinking))

    final = LOST_FINAL.search(text, begin) if opening else None
    if final:
        return Turn(_strip_head(text[final.end() :]), _join([*thinking, text[begin : final.start()]]))
    return Turn("", _join([*thinking, text[begin:]]))


def _strip_head(text: str) -> str:
    """Return a channel's text without what is left of its head."""
    return re.sub(r"\A[ \t]*:?\s*(?:json\s*(?=[\[{]))?", "", text)
