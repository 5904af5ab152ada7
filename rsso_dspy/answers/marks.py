"""Marks in brackets, read by their kind: what they name, and whether they open or close.

list_marks("<|begin_of_thought|>Shut.<|end_of_thought|>")     # two marks of the topic "thought"
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

Names = Mapping[str, str]
"""Names of output fields as models write them, in lower case and with nothing between their words, to the fields."""

BARRED = re.compile(
    r"""
      [<＜\[［] [ ]? [/／]? [|｜¦│]                         # <|name|>  <｜name｜>  [|name|]  </|name|>
      (?: [ ] (?=\w{3}) )? [/／]?                           # <|/name|>
      (?P<barred> \w [\w▁:.+/-]* (?: [ ] [\w▁:.+/-]+ ){0,3} )
      [ ]? [|｜¦│] [ ]? [>＞\]］]
    | [<＜] [/／]? [|｜¦│] [/／]? (?P<left> \w+ ) [>＞]     # <|name>
    | [<＜] (?P<right> \w+ ) [|｜¦│] [>＞]                  # <name|>
    | <\[ (?P<inner> \w [\w▁]* ) \]>                        # <[name]>
    | < (?P<reserved> pad | unk | mask | sep | unused_?\d+ | extra_id_\d+ | reserved_\d+ | SPECIAL_\d+ ) >
    | < (?P<byte> 0x[0-9A-F]{2} ) >
    | \[ (?P<capital> BOS | EOS | PAD | UNK | SEP | CLS | MASK | EOT | END | STOP | gMASK | UNUSED_TOKEN_\d+ ) \]
    | \[ /? (?P<tools> TOOL_CALLS | TOOL_RESULTS | AVAILABLE_TOOLS | IMG ) \]
    """,
    re.X,
)
"""Marks of chat templates: with bars of any width, and those without bars that nobody writes for another reason.
Neither `a <| b` nor `[x|y]` is one."""

BETWEEN_WORDS = re.compile(rf"[ ]? (?: {BARRED.pattern} ) [ ]?", re.X)
"""The same with the spaces beside it."""

TAG = re.compile(
    r"""
      [<＜〈《⟨◁] [ ]? [/／]? [ ]?                          # <name>  </name>  ◁name▷  ＜name＞
      (?P<tag> [^\W\d_] [\w:.-]{0,40} )
      (?: \s{1,3} [\w:-]{1,40} [ ]?=[ ]? (?: "[^"<>]*" | '[^'<>]*' | [^\s<>"']+ ) )*
      \s{0,2} [>＞〉》⟩▷]
    | < [/／]? (?P<words> [^\W\d_] \w{0,20} (?: [ ] \w{1,20} ){1,3} ) >            # <name of words>
    | (?<! [\[［【] ) [\[［【「] [/／]?                     # [NAME]  [/NAME]  【name】
      (?P<square> [^\W\d_] [\w:.-]{0,40} )
      [\]］】」] (?! [\]］】] )
    """,
    re.X,
)
"""Marks of blocks, with attributes or without."""

DIRECTION = re.compile(
    r"""
      (?P<first> start | begin | open | end | close ) _ (?: of_ )? (?P<behind> \w+ )
    | (?P<ahead> \w+ ) _ (?P<last> start | begin | open | prefix | end | close | suffix )
    """,
    re.X,
)
"""How a name says that its mark opens or closes: `begin_of_thought`, `END_THINKING`, `thinking_end`."""

CLOSING_WORDS = {"end", "close", "suffix"}

THOUGHT = re.compile(
    r"""
      think | thought | reason | analy[sz] | scratch | reflect | ponder | deliberat | rationale | monologue | brainstorm
    | (?: ^ | _ ) cot (?: _ | $ )
    """,
    re.X,
)
"""What is in the name of a mark that says of itself that it is one of thought."""

ALWAYS_THOUGHT = {"think", "thinking"}
"""Names that models are trained to put around thought: only a field of the very same name stands in such a block."""

ANSWER = {"answer", "response", "final", "result", "output", "solution", "box", "boxed"}
"""Words in the name of a mark that says of itself that it is one of the answer."""


class Mark(NamedTuple):
    name: str
    """In lower case, words joined by `_`."""
    topic: str
    """The name without what says that the mark opens or closes: `thought` of `<|END_OF_THOUGHT|>`."""
    opens: bool
    closes: bool
    is_barred: bool
    is_ambiguous: bool
    """Whether it may be a text, and no mark: `[wait]`, `<open chest>`."""
    start: int
    end: int

    @property
    def words(self) -> set[str]:
        return set(self.topic.split("_"))

    @property
    def is_directed(self) -> bool:
        return self.opens or self.closes

    @property
    def is_thought(self) -> bool:
        return THOUGHT.search(self.topic) is not None

    @property
    def is_answer(self) -> bool:
        return not self.is_thought and not ANSWER.isdisjoint(self.words)

    def get_field(self, names: Names) -> str | None:
        """Return the output field that the mark names."""
        owner = names.get(self.topic.replace("_", ""))
        if self.topic in ALWAYS_THOUGHT and owner != self.topic:
            return None
        return owner


def list_marks(text: str) -> list[Mark]:
    """Return the marks of blocks in a text, in their order. A mark in bars that says neither that it opens nor that it
    closes is one where another closes it, as `<|think|>`, or where it is of thought or of the answer. One that may be a
    text is one where it has a partner, or is of thought."""
    barred = list_barred(text)
    begins = {mark.start for mark in barred}
    tags = [_read_tag(match) for match in TAG.finditer(text) if match.start() not in begins]
    closed_barred = {mark.topic for mark in barred if mark.closes}
    closed_tags = {mark.topic for mark in tags if mark.closes}

    marks = []
    for mark in barred:
        if mark.is_directed:
            marks.append(mark)
        elif mark.topic in closed_barred or mark.is_thought or mark.is_answer:
            marks.append(mark._replace(opens=True))
    for mark in tags:
        if not mark.is_ambiguous or mark.topic in closed_tags or mark.is_thought:
            marks.append(mark)
    return sorted(marks, key=_get_start)


def list_barred(text: str) -> list[Mark]:
    """Return the marks of chat templates in a text, in their order."""
    return [_read_barred(match) for match in BARRED.finditer(text)]


def spell_fields(text: str, names: Names) -> str:
    """Return a text whose marks in bars that name output fields are plain ones: `<|ACTION|>` is `<action>`. One that
    closes what nothing opened is left out, and marks of thought are left as they are."""
    opened = set()
    spelled = ""
    place = 0
    for mark in list_barred(text):
        if mark.is_thought or mark.get_field(names) is None:
            continue
        spelled += text[place : mark.start]
        place = mark.end
        if not mark.closes:
            opened.add(mark.topic)
            spelled += f"<{mark.topic}>"
        elif mark.topic in opened:
            spelled += f"</{mark.topic}>"
        else:
            spelled += "\n"
    return spelled + text[place:]


def strip_at_edges(text: str) -> str:
    """Strip the marks of chat templates with which lines begin or end. One between words is left: nobody knows what it
    does there."""
    return "\n".join(_strip_line(line) for line in text.split("\n"))


def has_barred(text: str) -> bool:
    """Whether a mark of a chat template stands in a text."""
    return BARRED.search(text) is not None


def has_mark(text: str) -> bool:
    """Whether a mark of a chat template, or a plain one such as `<name>`, stands in a text."""
    return has_barred(text) or re.search(r"</?[^\W\d][\w:-]*>", text) is not None


def blank_barred(text: str) -> str:
    """Return a text with a space in place of each mark of a chat template."""
    return BETWEEN_WORDS.sub(" ", text).strip() if has_barred(text) else text


def normalize(name: str) -> str:
    """Return a name in lower case, without a namespace, its words joined by `_`."""
    *_, local = name.lower().split(":")
    return re.sub(r"[\s▁.+/-]+", "_", local).strip("_")


def _strip_line(line: str) -> str:
    marks = list_barred(line)
    begin = 0
    for mark in marks:
        if line[begin : mark.start].strip():
            break
        begin = mark.end

    end = len(line)
    for mark in reversed(marks):
        if mark.start < begin or line[mark.end : end].strip():
            break
        end = mark.start
    return line[begin:end]


def _read_barred(match: re.Match[str]) -> Mark:
    name = topic = normalize(match[match.lastgroup or 0])
    closes = _has_slash(match) or match["right"] is not None
    opens = match["left"] is not None and not closes

    direction = DIRECTION.fullmatch(name)
    if direction:
        topic = direction["behind"] or direction["ahead"]
        closes = (direction["first"] or direction["last"]) in CLOSING_WORDS
        opens = not closes
    return Mark(name, topic, opens, closes, True, False, match.start(), match.end())


def _read_tag(match: re.Match[str]) -> Mark:
    name = normalize(match["tag"] or match["words"] or match["square"])
    closes = _has_slash(match)
    is_ambiguous = match["tag"] is None
    return Mark(name, name, not closes, closes, False, is_ambiguous, match.start(), match.end())


def _has_slash(match: re.Match[str]) -> bool:
    """Whether a mark closes by a slash ahead of its name."""
    before_name = match[0][: match.start(match.lastgroup or 0) - match.start()]
    return "/" in before_name or "／" in before_name


def _get_start(mark: Mark) -> int:
    return mark.start
