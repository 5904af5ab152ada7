"""Secrets in what commands print, struck out before anything reaches the disk.

    strike_out_secrets("token ghp_16C7e42F292c6912E7710c838347Ae178B4a")      # "token ***"

Three ways, all of them: what looks like one of the shapes in secret_kinds.tsv, what looks as random as a key and
follows nothing that would explain it, and, by the one mechanism of this program, the values that it knows to be secret
(redact.py). Names stay: what is left says which secret stood there.

The guesses are here and not in that module, through which every record and answer of a model passes: those are
replayed byte for byte, and a text that only looks like a key must stay in them. A learning may lose such a word.
"""

from __future__ import annotations

import math
import os
import re
from functools import cache

from reflexion.redact import STRUCK, redact

_NAME = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|secret(?!ar)|token(?!iz|s[\w.-]*[\"']?\s*[:=]\s*\d+\b)|api[_-]?key|apikey|access[_-]?key|auth[_-]?key|private[_-]?key"
    r"|credential|client[_-]?secret|signing[_-]?key|encryption[_-]?key)[\w.-]*"
)
"""A name that says that its value is secret."""


@cache
def load_kinds() -> tuple[tuple[str, str, str], ...]:
    """Kind, letters (lower case) that a text must hold to be looked at, and pattern, of every row of the table."""
    with open(os.path.join(os.path.dirname(__file__), "secret_kinds.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return tuple((kind, letters, pattern.replace("{NAME}", _NAME)) for kind, letters, pattern in rows)


_RANDOM = re.compile(r"(?<![\w/.+-])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w/.+-])")
_PLAIN = re.compile(r"[0-9a-f-]+|[0-9A-F-]+|[a-z_/-]+|[A-Z_/-]+|\d[\d_-]*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,3}")
_EXPLAINED = re.compile(r"(?:sha\d*[-:]|integrity\W+|digest\W+|md5\W+|checksum\W+|hash\W+)\s*\S{0,8}$", re.I)


def strike_out_secrets(text: str) -> str:
    """The text without any secret that is known or looks like one."""
    lowered = text.lower()
    for number, (_, letters, _) in enumerate(load_kinds()):
        if letters in lowered:
            text = _compile(number).sub(_strike, text)
    return redact(_RANDOM.sub(_strike_random, text))


def clean_command(command: str, root: str = "") -> str:
    """A command as entries have it: without secrets, then normalized and cut, for half of a secret is not known for
    what it is."""
    from reflexion.commands import LONGEST, normalize_command

    return normalize_command(strike_out_secrets(command[: 8 * LONGEST]), root)


def clean_typed(command: str, root: str = "") -> str:
    """A command as it was typed, without secrets, cut."""
    from reflexion.commands import LONGEST, LONGEST_TYPED, shorten_places

    return shorten_places(strike_out_secrets(command[: 8 * LONGEST]), root).strip()[:LONGEST_TYPED]


@cache
def _compile(number: int) -> re.Pattern[str]:
    return re.compile(load_kinds()[number][2])


def _strike(match: re.Match[str]) -> str:
    """The match without its secret."""
    if "s" not in match.re.groupindex:
        return STRUCK
    if match["s"].strip("\"'").startswith(STRUCK):
        return match[0]
    start, end = match.start("s") - match.start(), match.end("s") - match.start()
    return match[0][:start] + STRUCK + match[0][end:]


def _strike_random(match: re.Match[str]) -> str:
    """Nothing in place of a word that is as random as a key, which no hash, name or path is."""
    word = match[0]
    if re.match(r"sha\d+-|_ZN|_RNv", word):  # a checksum of npm, a mangled name
        return word
    kinds = sum(bool(re.search(kind, word)) for kind in ("[a-z]", "[A-Z]", r"\d"))
    if kinds < 3 or _PLAIN.fullmatch(word) or _EXPLAINED.search(match.string[: match.start()][-40:]):
        return word
    if any(len(part) < 20 and _PLAIN.fullmatch(part) for part in re.split(r"[/_.+-]", word) if len(part) > 3):
        return word  # a path or a name made of words
    return STRUCK if measure_entropy(word) >= 4.0 else word


def measure_entropy(word: str) -> float:
    """Bits a letter of a word, by how often its own letters stand in it."""
    counts = [word.count(letter) / len(word) for letter in set(word)]
    return -sum(share * math.log2(share) for share in counts)
