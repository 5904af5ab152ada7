"""Commands of a text game, read out of prose: ``"First, go to the kitchen."`` is ``Command("teleport", "kitchen")``.

The grammar is that of the action templates plus the everyday wordings people and language models use for them.
Everything that reads or writes advice shares it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_TWO_PLACES = r"(?P<thing>.+?) (?:to|in|into|on|onto|inside) (?P<place>.+)"
_GRAMMAR = tuple(
    (verb, re.compile(pattern + r"$"))
    for verb, pattern in (
        ("teleport", r"teleport(?:ing)?(?: to)? (?P<thing>.+)"),
        ("go", r"(?:go(?:ing)?|walk(?:ing)?) (?:to )?(?P<thing>.+)"),
        ("open", r"open(?:ing)? (?P<thing>.+)"),
        ("close", r"clos(?:e|ing) (?P<thing>.+)"),
        ("pick up", r"(?:pick(?:ing)? up|tak(?:e|ing)|grab(?:bing)?) (?P<thing>.+)"),
        ("focus", r"focus(?:ing)?(?: on)? (?P<thing>.+)"),
        ("move", r"(?:mov(?:e|ing)|plac(?:e|ing)|put(?:ting)?) " + _TWO_PLACES),
        ("pour", r"pour(?:ing)? " + _TWO_PLACES),
        ("mix", r"mix(?:ing)? (?P<thing>.+)"),
        ("read", r"read(?:ing)? (?P<thing>.+)"),
        ("deactivate", r"(?:deactivat(?:e|ing)|turn(?:ing)? off) (?P<thing>.+)"),
        ("activate", r"(?:activat(?:e|ing)|turn(?:ing)? on) (?P<thing>.+)"),
        ("look in", r"look(?:ing)? (?:in|into|inside|at) (?P<thing>.+)"),
        ("use", r"us(?:e|ing) (?P<thing>.+?) on (?P<place>.+)"),
        ("choose", r"(?:choos(?:e|ing)|answer(?:ing)?) (?:option |number )?(?P<thing>\d+)"),
        ("wait", r"wait(?:ing)?(?:1|\b.*)"),
    )
)
_JOIN = {"move": "to", "pour": "in", "use": "on"}
_PREPOSITION = {"teleport": "teleport to", "go": "go to", "focus": "focus on"}

_ARTICLES = frozenset({"the", "a", "an", "some"})
_SLOTS = frozenset({"obj", "object", "container", "location", "something", "it", "thing", "substance", "item"})
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
    """One action, understood: verb, what it is done to and, for verbs that need one, where."""

    verb: str
    thing: str = ""
    place: str = ""

    @property
    def text(self) -> str:
        """The action as it is sent."""
        if self.verb == "choose":
            return self.thing
        head = _PREPOSITION.get(self.verb, self.verb)
        tail = f" {_JOIN[self.verb]} {self.place}" if self.place else ""
        return f"{head} {self.thing}{tail}".strip()

    @property
    def concrete(self) -> bool:
        """No part of it is a placeholder such as OBJ or "the substance"."""
        return not any(words(part) & _SLOTS and len(words(part)) == 1 for part in (self.thing, self.place))


@dataclass(frozen=True, slots=True)
class Line:
    """One clause of advice. Without a command it still names things worth caring for, or worth leaving alone."""

    text: str
    command: Command | None
    positive: bool
    firm: bool = True
    """"Do not" and "never" are firm; "avoid" leaves a way back when nothing better is left."""


def plain(text: str) -> str:
    """Lower case, without articles, punctuation and doubled spaces: the form in which names are compared."""
    found = re.findall(r"[a-z0-9'%.-]+", text.lower())
    return " ".join(word.strip(".'-") for word in found if word not in _ARTICLES and word.strip(".'-"))


@lru_cache(maxsize=8192)
def words(text: str) -> frozenset[str]:
    """The content words of a text, stemmed lightly (plural and -ing)."""
    return frozenset(_stem(word) for word in plain(text).split() if word not in _STOP)


@lru_cache(maxsize=8192)
def command(text: str) -> Command | None:
    """The command a clause consists of, or None."""
    said = plain(re.sub(r"\((?:that|in|from|on)\b[^)]*\)", "", text))
    if said.isdigit():
        return Command("choose", said)
    for verb, pattern in _GRAMMAR:
        if match := pattern.match(said):
            parts = match.groupdict()
            return Command(verb, (parts.get("thing") or "").strip(), (parts.get("place") or "").strip())
    return None


@lru_cache(maxsize=512)
def lines(text: str) -> tuple[Line, ...]:
    """Every clause of an advice text, in order. Questions and templates with slots give no command."""
    found: list[Line] = []
    for clause in _CLAUSES.split(_NUMBERED.sub("", text.lower())):
        if clause.strip().lstrip("- ").startswith("mistake:"):
            clause = f"avoid {clause.partition(':')[2].partition(',')[0].strip()}"
        bare = _LEAD.sub("", _LABEL.sub("", clause.strip())).strip()
        negative = _NEGATIVE.match(bare)
        body = _LEAD.sub("", bare[negative.end() :]) if negative else bare
        body = body.strip(" `\"'“”,")
        if body:
            firm = negative is None or not negative.group(1).startswith(("avoid", "no more", "without"))
            found.append(Line(body, command(body), negative is None, firm))
    return tuple(found)


def _stem(word: str) -> str:
    for ending, least in (("ing", 6), ("es", 6), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            return word[: -len(ending)]
    return word
