"""Words a task type by what its tasks have in common. The wording is the scope of a clause.

    word_task_types({"boil": ["Your task is to boil water. ...", "Your task is to boil lead. ..."]})
    # {"boil": "boil …"}

The internal name of a task type is in no prompt; the agent reads its wording.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

GAP = "…"
_OPENING = re.compile(r"^\s*(?:task description:\s*)?(?:your task is to\s+)?", re.I)
_SENTENCE = re.compile(r"\.(?:\s|$)|\n")
_LONGEST, _LONGEST_TOPIC = 120, 50
"""Maximum characters of a wording and of a topic."""


def word_task_types(texts: Mapping[str, Sequence[str]], names: Collection[str] = ()) -> dict[str, str]:
    """Task type to the words that all its tasks share, with gaps. A type with a single task loses the names that were
    seen in the world. Types that would share a wording use more of their text."""
    for sentences in (1, 3):
        found = {
            kind: _word_type([_take_sentences(text, sentences) for text in each], names) for kind, each in texts.items()
        }
        if len(set(found.values())) == len(found):
            break
    return found


def make_topic(wording: str) -> str:
    """A wording as the words of a scope, short and without its gaps."""
    words = " ".join(re.sub(r"""[…"'():]""", " ", wording.replace("a(n)", "a")).split()).strip(" ,.")
    return words if len(words) <= _LONGEST_TOPIC else words[: _LONGEST_TOPIC + 1].rsplit(" ", 1)[0].strip(" ,.")


def scope_lines(wording: str, lines: Sequence[str]) -> str:
    """Lines scoped to tasks of that wording: ``In tasks about boil: wait.``"""
    return f"In tasks about {make_topic(wording)}: {' '.join(lines)}"


def _take_sentences(text: str, count: int) -> str:
    parts = [part.strip() for part in _SENTENCE.split(_OPENING.sub("", text)) if part.strip()]
    return ". ".join(parts[:count])


def _word_type(texts: Sequence[str], names: Collection[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    words = distinct[0].split()
    for other in distinct[1:]:
        words = _keep_common(words, other.split())
    if len(distinct) == 1:
        words = _drop_names(distinct[0], names).split()
    text = " ".join(word for at, word in enumerate(words) if word != GAP or at == 0 or words[at - 1] != GAP)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rsplit(' ', 1)[0]} {GAP}"


def _keep_common(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for op, start, end, _, _ in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        kept += ours[start:end] if op == "equal" else [GAP]
    return kept


def _drop_names(text: str, names: Collection[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", GAP, text, flags=re.I)
    return text
