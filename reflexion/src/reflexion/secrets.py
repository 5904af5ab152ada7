"""What may be kept of a command, and what is struck out of free text, before anything reaches the disk.

    clean_command("mysqladmin -u root password hunter2")        # "mysqladmin -u *** *** ***"

Of a command stay: the program, its subcommand, names of flags and variables, paths of the repository, and words that
stand in the error. Any other value is `***`, whatever it looks like: no list of shapes of secrets can be complete. What
a program printed is free text; there a few shapes of tokens are struck out, values that the command gave as a secret,
and values of variables of the environment that are named like one.
"""

from __future__ import annotations

import os
import re
from functools import cache

STRUCK = "***"
LONGEST = 2_400
"""Characters of a command that are looked at."""

_NAMES = r"pass|pw(?:d|$)|secret|token(?!iz)|key|auth|cred|cookie|signature"
_SECRET_NAME = re.compile(_NAMES + r"|user|login|body|header|data|literal|^-[pPuUHwkabd]$", re.I)
"""Names whose value is never kept, not even where it stands in the error."""

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<sign>&&|\|\||<<<|<<-?|\d?>&[\d-]|&>>?|\d?>>?|<|[|;&()`])"
    r"|(?P<word>(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\|;&()<>`])+)|(?P<rest>.)",
    re.S,
)
_PROGRAM = re.compile(r"[\w.~/@+-]*[A-Za-z][\w./+:-]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]{0,30}")
_WRAPPER_WORDS = "sudo env time nice command exec xargs timeout nohup npx bunx uvx ! then do else . source"
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
"""What stands before another program."""
_WITH_VALUE = {"sudo": "-u -g -U -p", "env": "-u -C", "nice": "-n", "git": "-C -c", "timeout": "-s -k"}
"""Options of programs that take the next word."""
_VERBS = """
apt apt-get aws az brew bun bundle cargo conda deno docker docker-compose dotnet fly gcloud gem gh git go gradle hatch
helm heroku hg just kubectl make mise mvn npm nx pdm pip pip3 pipenv pnpm podman poetry rails rake rustup svn systemctl
task terraform tofu turbo uv vault yarn
"""
WITH_VERBS = frozenset(_VERBS.split())
"""Programs whose first word says what they do."""
_RUNS = re.compile(r"(?:(?:p?npm|yarn|bun|mise|deno) (?:run|exec|dlx|x)|(?:poetry|uv|pipenv|hatch|pdm) run"
                   r"|bundle exec|docker compose)$")  # fmt: skip
"""Subcommands behind which another program, or the name of a script, stands."""
_LONG_FLAGGED = "find java javac go terraform tofu openssl gcc clang ffmpeg vault"
_LONG_FLAGS = frozenset(_LONG_FLAGGED.split())
"""Programs whose long flags have one dash."""
_PLAIN = "true false yes no on off - -- . .. pipefail HEAD origin /dev/null"
_CONSTANTS = frozenset(_PLAIN.split())
"""Values that anybody has."""


def clean_command(command: str, folders: tuple[str, ...] = (), error: str = "") -> str:
    """A command without values that are nobody's business. `folders`: where paths may be found; `error`: what the
    program printed."""
    return _Line(folders, error).redact_command(command)


def strike_text(text: str, command: str = "") -> str:
    """A text without what looks like a token, the secrets that its command was given, and those of the environment."""
    line = _Line((), "")
    line.redact_command(command)
    for value in sorted({v for v in line.secrets if len(v) > 3} | _list_environment_secrets(), key=len, reverse=True):
        text = text.replace(value, STRUCK)
    for shape in _compile_shapes():
        text = shape.sub(_strike, text)
    return _RANDOM.sub(_strike_random, text)


class _Line:
    """A line of commands that is read word by word."""

    def __init__(self, folders: tuple[str, ...], error: str):
        self.folders = folders
        listed = re.split(r"[\s\"'`=,;()<>|]+", error[:50_000])
        self.words = {word.rstrip(".:'\"").removeprefix("./") for word in listed}
        self.secrets: set[str] = set()
        """Values whose name says that they are secret."""
        self._begin()

    def _begin(self) -> None:
        """Another command begins."""
        self.program = self.wrapper = self.subcommand = self.flag = ""
        self.redirects = False

    def redact_command(self, command: str) -> str:
        """What is kept of a line."""
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
        """What is kept of one word."""
        name, sign, value = word.partition("=")
        if sign and re.fullmatch(r"[A-Za-z_]\w*", name):
            return f"{name}={self._read_value(value, name, only_paths=True)}"
        if self.redirects:
            self.redirects = False
            return self._read_value(word, "", only_paths=True)
        if self.flag and self.flag in _WITH_VALUE.get(self.program or self.wrapper, "").split():
            self.flag = ""
            return self._read_value(word, "", only_paths=True)
        if word[0] in "-+" and len(word) > 1:
            return self._read_flag(word)
        if not self.program:
            return self._read_program(word)
        if self.program.startswith("python") and self.flag == "-m" and re.fullmatch(r"[\w.]+", word):
            self.program, self.flag = word.lower(), ""
            return word
        is_first = not self.subcommand and not self.flag
        if is_first and self.program in WITH_VERBS and _SUBCOMMAND.fullmatch(word):
            self.subcommand = word
            if _RUNS.match(f"{self.program} {word}"):
                self._begin()
            return word
        named, self.flag, self.subcommand = self.flag + self.subcommand, "", self.subcommand or "-"
        return self._read_value(word, named)

    def _read_program(self, word: str) -> str:
        if word in _WRAPPERS or (self.wrapper and re.fullmatch(r"\d+[smhd]?", word)):
            self.wrapper, self.flag = word, ""
            return word
        self.program, self.flag = os.path.basename(word).lower(), ""
        return word if _PROGRAM.fullmatch(word) and len(word) <= 80 and _looks_plain(word) else STRUCK

    def _read_flag(self, word: str) -> str:
        kept, (name, sign, value) = _keep_flag(word, self.program), word.partition("=")
        self.flag = "" if sign else name
        if sign and kept == f"{name}={STRUCK}":
            return f"{name}={self._read_value(value, name + self.subcommand)}"
        if kept != word:
            self.secrets.add(_unquote(word.removeprefix(kept.removesuffix(STRUCK))))
        return kept

    def _read_value(self, word: str, named: str, only_paths: bool = False) -> str:
        """A value, where it may be kept: a path of the repository, one of its refs, or a word of the error; one that
        is named like a secret only as a path."""
        is_secret = bool(_SECRET_NAME.search(named))
        if word in _CONSTANTS or _is_path(word, self.folders):
            return word
        plain = _unquote(word)
        if is_secret:
            self.secrets.add(plain)
        if is_secret or only_paths or not re.fullmatch(r"[\w.@/+:-]{2,60}", plain) or not _looks_plain(plain):
            return STRUCK
        places = [os.path.join(folder, ".git", place) for folder in self.folders
                  for place in ("", "refs/heads", "refs/remotes")]  # fmt: skip
        is_ref = any(os.path.exists(os.path.join(place, plain)) for place in places)
        return word if plain in self.words or is_ref else STRUCK


def _keep_flag(piece: str, program: str) -> str:
    """The name of a flag, without a value that is glued to it."""
    name, sign, _ = piece.partition("=")
    if name.startswith("--") or (program in _LONG_FLAGS and re.fullmatch(r"-[a-z][a-z-]*", name)):
        return f"{name}={STRUCK}" if sign else name if len(name) <= 40 else name[:2] + STRUCK
    if re.fullmatch(r"-\d{1,3}|[-+][A-OQ-Za-oq-z]{0,3}[pP]?|[\d.]+[smhd]?", piece) and len(piece) <= 4:
        return piece
    letters = re.match(r"-[A-OQ-Za-oq-z]{0,2}[pP]", piece)
    return (letters[0] if letters else piece[:2]) + STRUCK


def _is_path(word: str, folders: tuple[str, ...]) -> bool:
    """Whether a word names something that is there, in the repository."""
    path = _unquote(word).partition("::")[0].removeprefix("@").removesuffix("/...")
    if not path or path[0] in "~-" or "\x00" in path or len(path) > 200:
        return False
    places = [os.path.normpath(os.path.join(folder, path)) for folder in folders]
    inside = tuple(folder.rstrip("/") + "/" for folder in folders)
    return any(os.path.lexists(place) and f"{place}/".startswith(inside) for place in places)


def _unquote(word: str) -> str:
    return word.strip("\"'")


def _looks_plain(word: str) -> bool:
    return not any(shape.search(word) for shape in _compile_shapes()) and _RANDOM.sub(_strike_random, word) == word


_NAME = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|secret(?!ar)|token(?!iz|s[\w.-]*[\"']?\s*[:=]\s*\d)|api[_-]?key|credential"
    r"|(?:access|auth|private|client|signing)[_-]?key)[\w.-]*"
)
_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*-----|\Z)",
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|gl[a-z]*-|xox[a-z]-|xapp-|(?:sk|pk|rk|rzp|whsec)[-_]|AKIA|ASIA|AIza"
    r"|ya29\.|GOCSPX-|npm_|pypi-|hf_|hv[sb]\.|dop_v1_|dckr_pat_|SG\.|eyJ[\w-]{8,}\.)[\w.=/+-]{12,}",
    r"(?i)\b(?:bearer|basic)\s+(?P<s>[\w.=/+~-]{12,})",
    r"(?i)authorization[\"']?\s*[:=]\s*[\"']?(?:\w+ )?(?P<s>[\w.=/+~-]{4,})|\b(?:set-)?cookie:\s*(?P<t>\S+=\S+)",
    r"\b\w[\w+.-]*://(?P<s>[^\s/@:]*:[^\s/@]+|\w{16,})@",
    rf"(?i)(?<![\w-]){_NAME}[\"']?\s*(?:=|:(?!:)\s?)\s*[\"']?(?P<s>[^\s\"',;&]*[^\s\"',;&A-Za-z][^\s\"',;&]*|[^\s\"',;&]{{12,}})",
    r"(?i)\bpassword (?:is|for \S+:|')\s*(?P<s>(?!incorrect|required|not )[^\s\"']+)",
    r"\$(?:1|5|6|2[aby]|argon2\w*|y)\$\S{8,}",
)  # fmt: skip
"""Shapes of tokens in free text; what is named `s` or `t` is struck out, or all."""
_RANDOM = re.compile(r"(?<![\w/.+-])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w/.+-])")
_WORDS = re.compile(r"[0-9a-f-]+|[a-z_-]+|[A-Z_-]+|\d[\d_-]*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,3}")


@cache
def _compile_shapes() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(shape) for shape in _SHAPES)


def _strike(match: re.Match[str]) -> str:
    """The match without its secret."""
    for name in ("s", "t"):
        if name in match.re.groupindex and match[name]:
            start, end = match.start(name) - match.start(), match.end(name) - match.start()
            return match[0][:start] + STRUCK + match[0][end:]
    return match[0] if "s" in match.re.groupindex else STRUCK


def _strike_random(match: re.Match[str]) -> str:
    """Nothing in place of a long word of mixed letters and digits, which no hash, checksum, name or path is."""
    word = match[0]
    mixed = all(re.search(kind, word) for kind in ("[a-z]", "[A-Z]", r"\d"))
    if (
        not mixed
        or re.match(r"sha\d+-|_ZN|_RNv", word)
        or match.string[: match.start()].endswith(("sha256:", "sha512:"))
    ):
        return word
    named = any(4 < len(part) < 20 and _WORDS.fullmatch(part) for part in re.split(r"[/_.+-]", word))
    return word if named or _WORDS.fullmatch(word) else STRUCK


def _list_environment_secrets() -> set[str]:
    """Values of variables that are named like a secret, but paths, addresses and plain words."""
    values = {value for name, value in os.environ.items() if re.search(_NAMES, name, re.I)}
    return {v for v in values if len(v) > 7 and not v.isalpha() and "/" not in v[:2] and "://" not in v}
