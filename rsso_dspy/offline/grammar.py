"""Extracts actions from advice: ``"First, take the lamp."`` means ``pick up lamp``."""

import re
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.offline.commands import Command, normalize_words, parse_command

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
class AdviceClause:
    """One clause of advice. Without a command it still names things to use or to avoid."""

    text: str
    command: Command | None
    positive: bool
    firm: bool = True
    """"Do not" and "never" are firm; "avoid" leaves a way back when nothing better is left."""


@lru_cache(maxsize=512)
def parse_advice(text: str) -> tuple[AdviceClause, ...]:
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
            found.append(AdviceClause(body, parse_command(body), negative is None, firm))
    return tuple(found)


@lru_cache(maxsize=8192)
def extract_content_words(text: str) -> frozenset[str]:
    """Return the content words of a text, lightly stemmed (plural and -ing)."""
    return frozenset(_stem_word(word) for word in normalize_words(text).split() if word not in _STOP)


def _stem_word(word: str) -> str:
    for ending, least in (("ing", 6), ("es", 6), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            return word[: -len(ending)]
    return word
