"""What may be kept of a command, and what is struck out of free text, before anything reaches the disk.

Of a command stay: the program, its subcommand, names of flags and variables, paths of the repository, and words that
stand in the error. Any other value is `***`, whatever it looks like: no list of shapes of secrets can be complete. What
a program printed is free text; there a few shapes of tokens are struck out, values that the command gave as a secret,
and values of variables of the environment that are named like one.
"""

import os
import re
from functools import lru_cache

from reflexion import TABLES

STRUCK, _QUOTES = "***", "\"'"
LONGEST = 2_400  # letters of a command that are looked at
_NAMES = r"pass|pw(?:d|$)|secret|token(?!iz)|key|auth|cred|cookie|signature"
_SECRET_NAME = re.compile(_NAMES + r"|user|login|body|header|data|literal|^-[pPuUHwkabd]$", re.I)
"""Names whose value is never kept, not even where it stands in the error."""
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<sign>&&|\|\||<<<|<<-?|\d?>&[\d-]|&>>?|\d?>>?|<|[|;&()`])"
    r"|(?P<word>(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\|;&()<>`])+)|(?P<rest>.)",
    re.S,
)
_WRAPPERS, WITH_VERBS, _LONG_FLAGS, _CONSTANTS = (
    frozenset(TABLES["words"][name].split()) for name in ("wrappers", "verbs", "long_flags", "constants")
)
"""Words before another program; programs with a subcommand; those whose long flags have one dash; anybody's values."""


def clean_command(command: str, folders: tuple[str, ...] = (), error: str = "") -> str:
    """A command without values that are nobody's business."""
    return _Line(folders, error).redact_command(command)


def strike_text(text: str, command: str = "") -> str:
    """A text without what looks like a token, the secrets that its command was given, and those of the environment."""
    line = _Line((), "")
    line.redact_command(command)
    values = {value for value in line.secrets if len(value) > 3} | list_secret_values(tuple(os.environ.items()))
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, STRUCK)
    return _strike_shapes(text)


@lru_cache(2)
def list_secret_values(variables: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Values of variables that are named like a secret."""
    named = {value for name, value in variables if re.search(_NAMES, name, re.I) and len(value) > 7}
    return frozenset(v for v in named if not v.isalpha() and "/" not in v[:2] and "://" not in v)


class _Line:
    """A line of commands that is read word by word; `secrets` are values whose name says that they are."""

    def __init__(self, folders: tuple[str, ...], error: str):
        self.folders = folders
        listed = re.split(r"[\s\"'`=,;()<>|]+", error[:50_000])
        self.words = {word.rstrip(".:'\"").removeprefix("./") for word in listed}
        self.secrets: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self.program = self.wrapper = self.subcommand = self.flag = ""
        self.redirects = False

    def redact_command(self, command: str) -> str:
        parts, heredoc = [], False
        for found in _TOKEN.finditer(command[:LONGEST].replace("\\\n", " ")):
            kind, piece = found.lastgroup, found[0]
            if kind == "rest" or (heredoc and "\n" in piece):  # an open quote, or the text of a here-document
                parts.append(f" {STRUCK}")
                break
            if kind == "word":
                parts.append(self._read_word(piece))
            elif kind == "space" and "\n" not in piece:
                parts.append(" ")
            elif kind == "sign" and (piece[-1] in "<>-" or ">" in piece):
                heredoc = heredoc or (piece.startswith("<<") and piece != "<<<")
                self.redirects = not re.fullmatch(r"\d?>&[\d-]", piece)
                parts.append(piece)
            else:
                self._begin()
                parts.append("; " if kind == "space" else piece)
        return "".join(parts).strip("; \n")

    def _read_word(self, word: str) -> str:
        name, sign, value = word.partition("=")
        if sign and re.fullmatch(r"[A-Za-z_]\w*", name):
            return f"{name}={self._read_value(value, name, only_paths=True)}"
        takes_word = self.flag and self.flag in TABLES["option_values"].get(self.program or self.wrapper, "").split()
        if self.redirects or takes_word:
            self.flag = self.flag if self.redirects else ""
            self.redirects = False
            return self._read_value(word, "", only_paths=True)
        if word[0] in "-+" and len(word) > 1:
            return self._read_flag(word)
        if not self.program and (word in _WRAPPERS or (self.wrapper and re.fullmatch(r"\d+[smhd]?", word))):
            self.wrapper, self.flag = word, ""
            return word
        if not self.program:
            self.program, self.flag = os.path.basename(word).lower(), ""
            is_name = re.fullmatch(r"(?=.{1,80}$)[\w.~/@+-]*[A-Za-z][\w./+:-]*", word) and _strike_shapes(word) == word
            return word if is_name else STRUCK
        if self.program.startswith("python") and self.flag == "-m" and re.fullmatch(r"[\w.]+", word):
            self.program, self.flag = word.lower(), ""
            return word
        is_first = not self.subcommand and not self.flag
        if is_first and self.program in WITH_VERBS and re.fullmatch(r"[a-z][a-z0-9:_-]{0,30}", word):
            self.subcommand = word
            if re.fullmatch(TABLES["runners"], f"{self.program} {word}"):
                self._begin()
            return word
        named, self.flag, self.subcommand = self.flag + self.subcommand, "", self.subcommand or "-"
        return self._read_value(word, named)

    def _read_flag(self, word: str) -> str:
        """The name of a flag, without a value that is glued to it."""
        name, sign, value = word.partition("=")
        self.flag = "" if sign else name
        is_long = name.startswith("--") or (self.program in _LONG_FLAGS and re.fullmatch(r"-[a-z][a-z-]*", name))
        if is_long and sign:
            return f"{name}={self._read_value(value, name + self.subcommand)}"
        is_short = re.fullmatch(r"(?=.{1,4}$)(?:-\d{1,3}|[-+][A-OQ-Za-oq-z]{0,3}[pP]?|[\d.]+[smhd]?)", word)
        if is_short or (is_long and len(name) <= 40):
            return word
        letters = re.match(r"-[A-OQ-Za-oq-z]{0,2}[pP]", word) if not is_long else None
        kept = letters[0] if letters else word[:2]
        self.secrets.add(word.removeprefix(kept).strip(_QUOTES))
        return kept + STRUCK

    def _read_value(self, word: str, named: str, only_paths: bool = False) -> str:
        """A value, where it may be kept: a path of the repository, one of its refs, or a word of the error; one that
        is named like a secret only as a path."""
        if word in _CONSTANTS or _is_path(word, self.folders):
            return word
        plain, is_secret = word.strip(_QUOTES), bool(_SECRET_NAME.search(named))
        if is_secret:
            self.secrets.add(plain)
        if is_secret or only_paths or not re.fullmatch(r"[\w.@/+:-]{2,60}", plain) or _strike_shapes(plain) != plain:
            return STRUCK
        refs = [os.path.join(folder, ".git", place, plain) for folder in self.folders
                for place in ("refs/heads", "refs/remotes")]  # fmt: skip
        return word if plain in self.words or any(map(os.path.exists, refs)) else STRUCK


def _is_path(word: str, folders: tuple[str, ...]) -> bool:
    """Whether a word names something that is there, in the repository."""
    path = word.strip(_QUOTES).partition("::")[0].removeprefix("@").removesuffix("/...")
    if not path or path[0] in "~-" or "\x00" in path or len(path) > 200:
        return False
    places = [os.path.normpath(os.path.join(folder, path)) for folder in folders]
    inside = tuple(folder.rstrip("/") + "/" for folder in folders)
    return any(os.path.lexists(place) and f"{place}/".startswith(inside) for place in places)


_RANDOM = r"(?<![\w/.+-])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w/.+-])"
_WORDS = r"[0-9a-f-]+|[a-z_-]+|[A-Z_-]+|\d[\d_-]*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,3}"


def _strike_shapes(text: str) -> str:
    for shape in TABLES["shapes"]:  # where one has a group, it alone is struck out
        text = re.sub(shape, _strike, text)
    return re.sub(_RANDOM, _strike_random, text)


def _strike(match: re.Match[str]) -> str:
    at, text = match.lastindex or 0, match.string
    return text[match.start() : match.start(at)] + STRUCK + text[match.end(at) : match.end()]


def _strike_random(match: re.Match[str]) -> str:
    """Nothing in place of a long word of mixed letters and digits, which no hash, checksum, name or path is."""
    word = match[0]
    mixed = all(re.search(kind, word) for kind in ("[a-z]", "[A-Z]", r"\d"))
    is_sum = re.match(r"sha\d+-|_ZN|_RNv", word) or match.string[: match.start()].endswith(("sha256:", "sha512:"))
    named = any(4 < len(part) < 20 and re.fullmatch(_WORDS, part) for part in re.split(r"[/_.+-]", word))
    return STRUCK if mixed and not (is_sum or named or re.fullmatch(_WORDS, word)) else word
