"""Parses advice in prose into clauses with conditions, order and ranking. It does not know the scene.

    read_advice("In tasks about boiling: if the stove is broken, teleport to the foundry, then open the blast furnace.")

gives two clauses, both under the conditions `task boiling` and `if stove is broken`, the second after the first. Lines
without condition, order or ranking are parsed by the grammar alone: plain advice.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rsso_dspy.explorer.commands import AdviceClause, Command, command, extract_content_words, lines, normalize_words
from rsso_dspy.explorer.vocabulary import TOPIC_WORDS
from rsso_dspy.explorer.wordings import LONGEST, OTHER_ROOM, is_placeholder, is_pronoun, normalize_wording, stem

_BULLET = re.compile(r"^\s*(?:[-*•>#]+\s*|(\(?\d+[.):]|step \d+[.:]?)\s+)+")
_LABEL = re.compile(r"^([^:]{3,100}):(?:\s+(.*)|$)")
_WORDS_OF_CONDITION = (
    r"if|in case|whenever|when|(?<!at )once|as soon as|after(?! that)|unless|until|before|while|as long as"
)
_LEADING = re.compile(rf"^(?:only )?({_WORDS_OF_CONDITION})\b (.+?), (?:then )?(.+)$")
_TRAILING = re.compile(rf"^(.+?),? \b(only )?({_WORDS_OF_CONDITION})\b (.+)$")
_TASK_SCOPE = re.compile(r"^(?:in|for|on|during|with) ([^,]*\b(?:tasks?|games?|problems?)\b[^,]*), (.+)$")
_TASK_SCOPE_LAST = re.compile(
    r"^(.+?),? (?:in|for|during) ((?:all |any |every )?(?:[\w-]+ ){0,2}tasks\b.*|tasks? (?:about|of|that|where)\b.*)$"
)
_CONTINUES = re.compile(r"^(?:and )?(?:then|next|finally|lastly|after that|afterwards|second|third)\b[\s,]*")
_LEAD = re.compile(
    r"^(?:(?:first|second|third|next|then|finally|lastly|after that|now|also|and|but|please|always|simply|instead"
    r"|you (?:should|must|can|may|need to|have to)|should|must|make sure (?:to|that you)|be sure to|remember to|try to"
    r"|it is best to|afterwards|again|once more|later|at once)\b[\s,]*)+"
)
_NEGATIVE = re.compile(
    r"^(?:you (?:should|must|may) )?(do not|don't|never|must not|should not|avoid|stop|not|no more)\b\s*"
)
_PREFER = re.compile(r"^prefer (.+?) (?:to|over|rather than|instead of|before) (.+)$")
_RATHER = re.compile(r"^(.+?),? (?:rather than|instead of|in preference to) (.+)$")
_REPEATS = re.compile(
    r"^(?:repeat|do|try)(?:ing)? (?:again )?(?:what|an?|any|the same|the|actions?|same|\s)*"
    r"(?:that |which )?(?:has |have )?(?:had no effect|did nothing|changed nothing|failed|was not understood"
    r"|brought nothing|does nothing|has no effect|without effect)"
)
_MARKS = re.compile(
    rf"\b(?:{_WORDS_OF_CONDITION}|otherwise|else|prefer|rather than|instead of|then|finally|only)\b|\btasks?\b.*[:,]"
    r"|\bfirst\b|\brepeat"
)
DEPENDING = re.compile(rf"\b(?:{_WORDS_OF_CONDITION}|otherwise|prefer|rather than|only)\b|\btasks?\b.*[:,]")
"""Matches advice that is no plain step of a plan."""
_POSSIBLE = re.compile(r"^(?:you can|possible|you could|able|needed|necessary|in doubt)$")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|;\s*|(?<=\w)[.!?]$")
_PIECES = re.compile(r"(,? and then |,? then |, and | and |, )")
_CUT = 60
"""Minimum characters of a line that may have been wrapped."""
_NOUN = re.compile(
    r"^(?:you |can |have |there (?:is|are) )*(?:see|find|found|seen|notice|hold|holding|carry|have|got|is|are) (.+)$"
)
_STATED = re.compile(r"^(.+?) (?:is|are|has|have|was|were|appears|contains)\b")


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition under which a clause counts. ``kind`` is ``task`` (the task is about the text), or the word that
    began it."""

    kind: str
    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """What "it" can mean: a noun phrase named before, and the command and part of it that named it, if one did."""

    phrase: str
    command: Command | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class ScopedClause:
    """One clause of advice. Exactly one of ``command``, ``ranking`` and ``repeats`` says what it is about; a clause
    without any still names things worth caring for."""

    text: str
    command: Command | None = None
    positive: bool = True
    firm: bool = True
    conditions: tuple[Condition, ...] = ()
    only: bool = False
    """Whether the opposite is meant where the condition does not hold."""
    mentions: tuple[Mention, ...] = ()
    """What was named before in the same line, oldest first."""
    ranking: tuple[str, str] | None = None
    """What to prefer, and to what."""
    repeats: bool = False
    """Whether it is about repeating what had no effect."""
    chain: int = 0
    """Steps of one procedure share a number; 0 for a clause that stands alone."""

    @property
    def is_scoped(self) -> bool:
        return any(each.kind == "task" for each in self.conditions)


@dataclass(frozen=True, slots=True)
class ReadAdvice:
    """A text of advice, read."""

    plain: tuple[AdviceClause, ...] = ()
    clauses: tuple[ScopedClause, ...] = ()


@dataclass
class _Reader:
    """State of the reading: the heading's scope, the last "if", the present procedure."""

    heading: tuple[Condition, ...] = ()
    last_if: tuple[Condition, ...] = ()
    carried: tuple[Condition, ...] = ()
    chain: int = 0
    mentions: list[Mention] = field(default_factory=list)


@lru_cache(maxsize=512)
def read_advice(text: str) -> ReadAdvice:
    """The clauses of a text, line by line; a heading holds for the list below it."""
    reader = _Reader()
    plain: list[AdviceClause] = []
    clauses: list[ScopedClause] = []
    for raw in _unwrap(text.replace("**", "").replace("`", "")):
        bullet = _BULLET.match(raw)
        line = raw[bullet.end() :].strip() if bullet else raw.strip()
        if not line or (not bullet and reader.heading and not raw.startswith((" ", "\t"))):
            reader = _Reader(chain=reader.chain)
        if not line:
            continue
        scope, rest = _split_label(line)
        if scope and not rest:
            reader = _Reader(heading=scope, chain=reader.chain + 1)
        elif not scope and not reader.heading and is_plain(line):
            plain += lines(raw)
        else:
            numbered = bool(bullet and bullet.group(1) and reader.heading)
            clauses += _read_line(rest, (*reader.heading, *scope), reader, numbered)
    return ReadAdvice(tuple(plain), tuple(_drop_lonely_chains(clauses)))


def _unwrap(text: str) -> Iterator[str]:
    """The lines of a text in lower case, wrapped ones joined."""
    whole = ""
    for line in text.splitlines():
        cut = len(whole) > _CUT and whole[-1] not in ".:;!?" and line[:1].islower()
        if whole and not cut:
            yield whole.lower()
        whole = f"{whole} {line}" if cut else line
        if not line.strip():
            yield ""
            whole = ""
    if whole:
        yield whole.lower()


def is_plain(line: str, marks: re.Pattern[str] = _MARKS) -> bool:
    """Whether a line has no condition, order, ranking or reference to resolve: the grammar alone can parse it."""
    if line.startswith("mistake:"):
        return True
    if marks.search(line) or normalize_wording(line) != line:
        return False
    named = (each.command for each in lines(line) if each.command)
    return not any(is_placeholder(part) for each in named for part in (each.thing, each.place))


def _split_label(line: str) -> tuple[tuple[Condition, ...], str]:
    """The conditions that a label states and the text after it. A label that states none is left out, as a name."""
    match = _LABEL.match(line)
    if not match:
        return (), line
    label, rest = match.group(1).strip(), (match.group(2) or "").strip()
    if (scope := _parse_scope(label)) is not None:
        return (scope,), rest
    return (), rest


def _parse_scope(label: str) -> Condition | None:
    """ "in tasks about boiling", "for chemistry tasks", "if the stove is broken", "to boil water", "life span"."""
    if re.search(r"\b(?:tasks?|games?|problems?)\b", label) and not command(_LEAD.sub("", label)):
        return Condition("task", re.sub(r"^(?:in|for|on|during|with)\b", "", label).strip())
    if match := re.match(rf"^({_WORDS_OF_CONDITION})\b (.+)$", label):
        return Condition(match.group(1), match.group(2))
    topic = re.sub(r"^(?:to|for|when|about|on)\b", "", label).strip()
    words = {stem(word) for word in extract_content_words(topic)}
    if words and (label.startswith("to ") or words <= TOPIC_WORDS):
        return Condition("task", topic)
    return None


def _read_line(text: str, scope: tuple[Condition, ...], reader: _Reader, numbered: bool) -> Iterator[ScopedClause]:
    """The clauses of one line. What it names can be meant by "it" further on in it."""
    if not numbered:
        reader.mentions = []
        reader.carried = ()
    for number, sentence in enumerate(part.strip(" .!\"'") for part in _SENTENCES.split(text) if part):
        if not sentence or sentence.endswith("?") or len(sentence) > LONGEST:
            continue
        follows = bool(_CONTINUES.match(sentence)) or (numbered and number == 0)
        if not follows:
            reader.chain += 1
            reader.carried = ()
        own, sentence = _split_label(sentence)
        for clause in _read_sentence(normalize_wording(sentence), (*scope, *own), reader):
            yield replace(clause, chain=reader.chain if clause.command and clause.positive else 0)


def _read_sentence(sentence: str, scope: tuple[Condition, ...], reader: _Reader) -> Iterator[ScopedClause]:
    conditions: list[Condition] = [*scope, *reader.carried]
    said = sentence
    if match := re.match(r"^(?:otherwise|else|if not)[\s,]+(.+)$", said):
        conditions += [replace(each, negated=not each.negated) for each in reader.last_if]
        said = match.group(1)
    said, own, only = _split_conditions(_LEAD.sub("", said))
    if own:
        reader.last_if = tuple(own)
        reader.mentions += [Mention(noun) for each in own if (noun := _find_noun(each.text))]
    if any(each.kind == "task" for each in own):
        conditions = [each for each in conditions if each.kind != "task"]
    conditions += own
    reader.carried = tuple(each for each in conditions if each not in scope)
    yield from _read_main(said, tuple(conditions), only, reader)


def _split_conditions(said: str) -> tuple[str, list[Condition], bool]:
    """The sentence without its conditions, these, and whether it says "only"."""
    found: list[Condition] = []
    only = False
    while True:
        if match := _TASK_SCOPE.match(said):
            found.append(Condition("task", match.group(1)))
            said = match.group(2)
        elif match := _LEADING.match(said):
            only |= said.startswith("only ")
            found.append(Condition(match.group(1), match.group(2)))
            said = match.group(3)
        else:
            break
        said = _LEAD.sub("", said)
    if match := re.match(r"^only (.+)$", said):
        only, said = True, match.group(1)
    if match := _TASK_SCOPE_LAST.match(said):
        found.append(Condition("task", match.group(2)))
        said = match.group(1)
    if match := _TRAILING.match(said):
        only |= bool(match.group(2))
        found.append(Condition(match.group(3), match.group(4)))
        said = match.group(1)
    kept = [each for each in found if not _POSSIBLE.match(each.text)]
    return said, kept, only and bool(kept)


def _read_main(said: str, conditions: tuple[Condition, ...], only: bool, reader: _Reader) -> Iterator[ScopedClause]:
    """The clauses of a sentence whose conditions are known."""

    def make(text: str, **parts: object) -> ScopedClause:
        return ScopedClause(text, conditions=conditions, only=only, mentions=tuple(reader.mentions), **parts)  # type: ignore[arg-type]

    said = _LEAD.sub("", said).strip(" ,.")
    negative = _NEGATIVE.match(said)
    body = _LEAD.sub("", said[negative.end() :]) if negative else said
    firm = negative is None or negative.group(1) not in ("avoid", "no more")
    if match := re.match(r"^leav(?:e|ing) (.+)$", body):
        conditions = (*conditions, Condition("when", f"you are in {match.group(1)}"))
        body = f"teleport to {OTHER_ROOM}"
    if not body:
        return
    if negative and _REPEATS.match(body):
        yield make(body, positive=False, repeats=True)
    elif not negative and (match := _PREFER.match(body) or _RATHER.match(body)):
        yield make(body, ranking=(match.group(1), match.group(2)))
    else:
        for piece in _split_commands(body):
            found = command(piece)
            clause = make(piece, command=found, positive=negative is None, firm=firm)
            yield replace(clause, mentions=_order_mentions(found, reader.mentions)) if found else clause
            for part in ("thing", "place") if found else ():
                if phrase := getattr(found, part):
                    reader.mentions.append(Mention(phrase, found, part))


def _order_mentions(step: Command, mentions: Sequence[Mention]) -> tuple[Mention, ...]:
    """Possible meanings, the likeliest last: what is mixed is the container that things were last put into."""
    places = [each for each in mentions if each.part == "place" and not is_pronoun(each.phrase)]
    return (*mentions, places[-1]) if step.verb == "mix" and places else tuple(mentions)


def _split_commands(text: str) -> list[str]:
    """ "open the fridge and the oven, then wait": a piece that begins no command names more of the same."""
    parts = _PIECES.split(text)
    found = [parts[0]]
    for joint, piece in zip(parts[1::2], parts[2::2], strict=True):
        piece = _LEAD.sub("", piece)
        if command(piece) is not None and not piece.isdigit():
            found.append(piece)
        else:
            found[-1] += (" or " if joint.strip(" ,") in ("", "and") else joint) + piece
    return [piece.strip(" ,.") for piece in found if piece.strip(" ,.")]


def _find_noun(condition: str) -> str:
    """What a condition is about: "you see a thermometer", "the stove is broken"."""
    match = _NOUN.match(condition) or _STATED.match(condition)
    noun = normalize_words(match.group(1)) if match else ""
    return noun.removesuffix(" here") if noun and noun not in ("you", "it", "task", "they") else ""


def _drop_lonely_chains(clauses: Sequence[ScopedClause]) -> Iterator[ScopedClause]:
    """Remove the number of a procedure that has only one step."""
    for clause in clauses:
        alone = sum(each.chain == clause.chain for each in clauses) < 2
        yield replace(clause, chain=0) if alone else clause
