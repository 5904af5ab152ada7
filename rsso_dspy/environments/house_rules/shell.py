"""How a command line is read. Nothing is ever executed.

    parse_line("cd infra && TF_LOG=info terraform plan < answers.txt")
    # [Command(words=("terraform", "plan"), variables={"TF_LOG": "info"}, folder="infra", stdin="answers.txt")]

A small part of the shell is understood: words with quotes, ``NAME=value`` before a command, ``cd DIR``, ``export``,
``sudo``, ``&&``, ``;`` and ``<``. Everything else, such as a pipe, a substitution or a shell in the shell, raises
`NotUnderstood`.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

OPERATORS = "();<>|&"
"""Characters of which `shlex` makes words of their own."""

QUOTED_OPERATORS = {ord(character): 0xE000 + place for place, character in enumerate(OPERATORS)}
"""What stands for an operator inside of quotes while a line is split: there it is a character like any other."""

FROM_QUOTED = {code: character for character, code in QUOTED_OPERATORS.items()}

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "eval", "exec", "source", "xargs"})
"""Programs that run other commands, so that what they do cannot be told from their own words."""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class NotUnderstood(Exception):
    """A command line that has more than the part of the shell that is read. Its message says what."""


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: a program with its arguments, and what it is started with."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """Where it is started, as a path from the root of the repository; empty for the root."""
    stdin: str = ""
    """The file that it reads, as a path from the root; empty for none."""


def parse_line(line: str) -> list[Command]:
    """Return the simple commands of a line in their order. Raises `NotUnderstood`."""
    folder = ""
    exported: dict[str, str] = {}
    commands = []
    for words in _split_commands(_split_words(line)):
        stdin, words = _take_stdin(words)
        variables, words = _take_prefixes(words)
        if not words:
            raise NotUnderstood("a variable or a file without a command")

        words = _take_remote_words(words)
        program, *arguments = words
        if program == "cd":
            folder = _change_folder(folder, arguments)
        elif program == "export":
            exported |= _read_assignments(arguments)
        else:
            commands.append(_make_command(words, {**exported, **variables}, folder, stdin))
    return commands


def _make_command(words: Sequence[str], variables: Mapping[str, str], folder: str, stdin: str) -> Command:
    if words[0] in SHELLS:
        raise NotUnderstood(f"{words[0]} runs other commands")
    if any("\0" in word or "`" in word or "$(" in word for word in words):
        raise NotUnderstood("a substitution")
    return Command(tuple(words), variables, folder, resolve_path(folder, stdin) if stdin else "")


def resolve_path(folder: str, path: str) -> str:
    """Return a path from the root of the repository, for one that is written in a folder."""
    return posixpath.normpath(posixpath.join(folder, path))


def _split_words(line: str) -> list[str]:
    """Return words and operators. Operators inside of quotes are still masked."""
    lexer = shlex.shlex(_mask_quoted_operators(line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return [*lexer]
    except ValueError:
        raise NotUnderstood("a quote that is not closed") from None


def _mask_quoted_operators(line: str) -> str:
    quote = ""
    masked = []
    is_escaped = False
    for character in line:
        if character in "\r\n" and not quote:
            raise NotUnderstood("more than one line")
        if quote or is_escaped:
            masked.append(character.translate(QUOTED_OPERATORS))
        else:
            masked.append(character)

        if is_escaped:
            is_escaped = False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote = character
    return "".join(masked)


def _split_commands(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of every simple command; ``<`` stays among them, marked by the character 0."""
    words: list[str] = []
    for place, token in enumerate(tokens):
        if token == "<":
            words.append("\0<")
        elif token in ("&&", ";"):
            is_last = place == len(tokens) - 1
            if not words or (token == "&&" and is_last):
                raise NotUnderstood(f"{token} without a command")
            yield words
            words = []
        elif token and set(token) <= set(OPERATORS):
            raise NotUnderstood(token)
        else:
            words.append(token.translate(FROM_QUOTED))
    if words:
        yield words


def _take_stdin(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the file that is read, and the other words."""
    if "\0<" not in words:
        return "", [*words]
    place = words.index("\0<")
    if place + 1 == len(words) or words.count("\0<") > 1:
        raise NotUnderstood("< without one file")
    return words[place + 1], [*words[:place], *words[place + 2 :]]


def _take_variables(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are set before a command, and its words."""
    variables: dict[str, str] = {}
    for place, word in enumerate(words):
        match = ASSIGNMENT.fullmatch(word)
        if match is None:
            return variables, [*words[place:]]
        variables[match[1]] = match[2]
    return variables, []


def _take_prefixes(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are set before a command, and its words, without `sudo` and `env`: with them the same
    is done. Raises `NotUnderstood` for an option of theirs, but for the user of `sudo`."""
    variables, rest = _take_variables(words)
    while len(rest) > 1 and rest[0] in ("sudo", "env"):
        prefix, *rest = rest
        if prefix == "sudo" and rest[0] in ("-u", "--user"):
            rest = rest[2:]
        if rest and rest[0].startswith("-"):
            raise NotUnderstood(f"{prefix} {rest[0]}")
        more, rest = _take_variables(rest)
        variables |= more
    return variables, rest


def _take_remote_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command; of `ssh HOST 'COMMAND'` with those of its command, without `sudo`."""
    if words[0] != "ssh" or len(words) < 3 or words[1].startswith("-"):
        return [*words]
    ssh, host, *remote = words
    if len(remote) == 1:
        try:
            remote = shlex.split(remote[0])
        except ValueError:
            raise NotUnderstood("a quote that is not closed") from None
    if remote[:1] == ["sudo"] and len(remote) > 1:
        remote = remote[1:]
    return [ssh, host, *remote]


def _read_assignments(words: Sequence[str]) -> dict[str, str]:
    variables, rest = _take_variables(words)
    if rest or not variables:
        raise NotUnderstood("export without NAME=value")
    return variables


def _change_folder(folder: str, arguments: Sequence[str]) -> str:
    if len(arguments) != 1 or arguments[0].startswith(("-", "~", "/")):
        raise NotUnderstood("cd to no folder of the repository")
    changed = resolve_path(folder, arguments[0])
    if changed.startswith(".."):
        raise NotUnderstood("cd out of the repository")
    return "" if changed == "." else changed
