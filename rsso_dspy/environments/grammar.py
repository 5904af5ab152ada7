"""Extracts actions from prose, using the grammar of a benchmark: ``"First, take the lamp."`` means ``pick up lamp``.

    GRAMMAR.parse_command("go to the hall")                # Command("go", "hall")
    Grammar.from_templates("Templates:\\npush OBJ")     # only the action templates

All code that reads or writes advice for a benchmark shares its grammar.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rsso_dspy.environments.naming import Naming

__all__ = ["AdviceClause", "Command", "Grammar", "Verb", "extract_content_words", "list_templates", "normalize_words"]

CHOOSE = "choose"
"""Verb of a bare number, which answers an open question."""

_HEADING = re.compile(r"^templates:\s*$", re.M | re.I)

_SLOT = re.compile(r"\b[A-Z][A-Z0-9_]*\b")
_ARTICLES = frozenset({"the", "a", "an", "some"})
_LEAD = re.compile(
    r"^(?:\s*(?:[-*•>#]+|\(?\d+[.):]|step \d+[.:]?|first|second|third|next|then|finally|now|again|also|and|please"
    r"|always|you (?:should|must|can|need to)|should|must|try to|try|remember to|instead|only|simply|later|afterwards"
    r"|once more|(?:if|when|once|after|before|while|unless)\b[^,]*,)[\s,]+)+"
)
_NEGATIVE = re.compile(r"^(do not|don't|does not|never|avoid|stop|not|no more|without)\s+(?:again\s+)?")
_NUMBERED = re.compile(r"^\s*\(?\d+[.):]\s+", re.M)
_CLAUSES = re.compile(r"\.(?=\s|$)|[;\n]|!|,? (?:and )?then |, and (?=\w+ )")
_LABEL = re.compile(r"^[^:\"`']{3,70}:\s+")
_STOP = frozenset(
    {"the", "a", "an", "of", "to", "in", "on", "at", "for", "and", "or", "is", "are", "be", "it", "its", "this", "that"}
    | {"which", "with", "from", "by", "as", "your", "you", "will", "has", "have", "can", "not", "do", "if", "then"}
    | {"than", "into", "first", "next", "when", "they", "them", "their", "there", "located", "called", "around", "near"}
    | {"take", "make", "made", "action", "actions", "task"}
)


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed action: verb, thing and, if the verb needs one, place."""

    verb: str
    thing: str = ""
    place: str = ""
    head: str = ""
    """First words of the action, if different from the verb."""
    join: str = ""
    """The word before the place."""

    @property
    def text(self) -> str:
        """Return the action as text for the environment."""
        if self.verb == CHOOSE:
            return self.thing
        tail = f" {self.join} {self.place}" if self.place else ""
        return f"{self.head or self.verb} {self.thing}{tail}".strip()


@dataclass(frozen=True, slots=True)
class AdviceClause:
    """One clause of advice. Without a command it still names things to use or to avoid."""

    text: str
    command: Command | None
    positive: bool
    firm: bool = True
    """"Do not" and "never" are firm; "avoid" leaves a way back when nothing better is left."""


class Verb(NamedTuple):
    """One kind of action."""

    name: str
    pattern: str
    """Regular expression of the whole action in `normalize_words` form, with optional groups ``thing`` and
    ``place``."""
    head: str = ""
    """First words of the action, if different from the name."""
    join: str = ""
    """The word before the place."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """The actions of a benchmark as written in advice."""

    verbs: tuple[Verb, ...]
    """Actions in order of precedence: the first that matches a whole clause applies."""
    synonyms: Mapping[str, str] = field(default_factory=dict)
    """First words of an action to those of an equivalent one, e.g. two ways to travel."""
    travel: str = r"(?!)"
    """Regular expression of an action that leads to the place in its first group; matches nothing by default."""
    search: str = r"(?!)"
    """Regular expression of actions that only search: travel, opening."""
    commits: str = r"(?!)"
    """Regular expression of an action that gives an answer: what it names is never advice for another variant."""
    caution: str = ""
    """A sentence of advice after an action that cost points."""
    naming: Naming = field(default_factory=Naming)
    """How observations name things."""

    @classmethod
    def from_templates(cls, text: str, naming: Naming | None = None) -> "Grammar":
        """Build the grammar of an action_templates text.

        One action per line after ``Templates:``, with placeholders in capitals (``move OBJ to CONTAINER``).
        """
        return cls(tuple(_parse_template(line) for line in list_templates(text)), naming=naming or Naming())

    def make_command(self, name: str, thing: str = "", place: str = "") -> Command:
        """Build the command of a verb of the grammar."""
        verb = next(verb for verb in self.verbs if verb.name == name)
        return Command(name, thing, place, verb.head, verb.join)

    @lru_cache(maxsize=8192)  # noqa: B019 - grammars are few, and live as long as the process
    def parse_command(self, text: str) -> Command | None:
        """Parse a clause that consists of a command; None otherwise."""
        said = normalize_words(re.sub(r"\((?:that|in|from|on)\b[^)]*\)", "", text))
        if said.isdigit():
            return Command(CHOOSE, said)
        for verb in self.verbs:
            if match := re.fullmatch(verb.pattern, said):
                parts = match.groupdict()
                thing, place = ((parts.get(name) or "").strip() for name in ("thing", "place"))
                return Command(verb.name, thing, place, verb.head, verb.join)
        return None

    @lru_cache(maxsize=512)  # noqa: B019
    def parse_advice(self, text: str) -> tuple[AdviceClause, ...]:
        """Parse every clause of an advice text, in order. Questions and templates with placeholders give no command."""
        found: list[AdviceClause] = []
        for clause in _CLAUSES.split(_NUMBERED.sub("", text.lower())):
            if clause.strip().lstrip("- ").startswith("mistake:"):
                clause = f"avoid {clause.partition(':')[2].partition(',')[0].strip()}"
            bare = _LEAD.sub("", _LABEL.sub("", clause.strip())).strip()
            negative = _NEGATIVE.match(bare)
            body = _LEAD.sub("", bare[negative.end() :]) if negative else bare
            body = body.strip(" `\"'“”,")
            if body:
                firm = negative is None or not negative.group(1).startswith(("avoid", "no more", "without"))
                found.append(AdviceClause(body, self.parse_command(body), negative is None, firm))
        return tuple(found)


def normalize_words(text: str) -> str:
    """Normalize a name for comparison: lower case, without articles, punctuation and double spaces."""
    found = re.findall(r"[a-z0-9'%.-]+", text.lower())
    return " ".join(word.strip(".'-") for word in found if word not in _ARTICLES and word.strip(".'-"))


@lru_cache(maxsize=8192)
def extract_content_words(text: str) -> frozenset[str]:
    """Return the content words of a text, lightly stemmed (plural and -ing)."""
    return frozenset(_stem_word(word) for word in normalize_words(text).split() if word not in _STOP)


def list_templates(text: str) -> Iterator[str]:
    """Return the lines of an action_templates text after ``Templates:``, or all lines without this heading."""
    *_, listed = _HEADING.split(text)
    yield from filter(None, (line.strip() for line in listed.splitlines()))


def _parse_template(template: str) -> Verb:
    """Build the verb of one template; text after a second placeholder belongs to the place."""
    verb, _, rest = _SLOT.sub("\0", template).partition("\0")
    if "\0" not in _SLOT.sub("\0", template):
        return Verb(normalize_words(template), re.escape(normalize_words(template)))
    join, slot, after = rest.partition("\0")
    if not slot:
        tail = f" {re.escape(normalize_words(join))}" if normalize_words(join) else ""
        return Verb(normalize_words(verb), f"{re.escape(normalize_words(verb))} (?P<thing>.+?{tail})")
    more = "".join(" .+" if part is None else f" {re.escape(part)}" for part in _split_placeholders(after))
    between = f" {re.escape(normalize_words(join))} " if normalize_words(join) else " "
    pattern = f"{re.escape(normalize_words(verb))} (?P<thing>.+?){between}(?P<place>.+?{more})"
    return Verb(normalize_words(verb), pattern, join=normalize_words(join))


def _split_placeholders(text: str) -> Iterator[str | None]:
    """Split a template into fixed words and placeholders (None)."""
    for number, part in enumerate(text.split("\0")):
        if number:
            yield None
        if normalize_words(part):
            yield normalize_words(part)


def _stem_word(word: str) -> str:
    for ending, least in (("ing", 6), ("es", 6), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            return word[: -len(ending)]
    return word
