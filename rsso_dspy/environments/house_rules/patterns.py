"""Which commands a rule means, as a person writes them down.

    read_pattern("psql {-p=6543|--port=6543} [-q] {-d=shop|shop}").matches(command)

A pattern is a command line with five additions:

    {a|b c}   one of these, each of which may be several words, or nothing
    [a|b]     one of these, or nothing
    ...       any further words, at the end
    *         any characters inside a word, other than the program
    -p=6543   an option with its value: also ``-p 6543``, ``-p6543``

Options may stand anywhere among the words. Variables, ``cd DIR &&`` and ``< FILE`` are compared as well. Words with a
slash are paths, which are compared from the root of the repository: ``./app/`` is ``app``. A pattern that ends with
``...`` means every command that begins like it and has its options, in whatever folder, unless it names one.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property

from rsso_dspy.environments.house_rules.shell import Command, NotUnderstood, parse_line, resolve_path

OPEN = "..."
CHOICE = re.compile(r"\{([^{}\[\]]*)\}|\[([^{}\[\]]*)\]")
UNCLOSED = re.compile(r"[{}\[\]]")
"""What is left of a choice that lacks its other half."""

MISPLACED_OPEN = re.compile(r"\w\.\.\.$|(?<= )\.\.\. ")
"""`...` at the end of a word, or ahead of others."""

QUOTED_OR_SHORT = re.compile(r"""'[^']*'|"[^"]*"|(?<= )(-[A-Za-z])=""")
"""A text in quotes, or the beginning of a short option with its value."""

MOST_FORMS = 4096
"""Forms of a pattern at most: each choice multiplies them."""


class PatternError(ValueError):
    """A pattern that cannot be read. Its message says why."""


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern without choices."""

    command: Command
    options: tuple[str, ...]
    operands: tuple[str, ...]
    is_open: bool
    is_anywhere: bool
    """Whether the folder is left open."""

    def matches(self, command: Command) -> bool:
        if not self._matches_surroundings(command):
            return False

        rest = [*command.words]
        for option in self.options:
            without = _take_option(rest, option)
            if without is None:
                return False
            rest = without

        if not self.is_open:
            return self._match_operands(rest, command.folder)
        words = [word for word in rest if not word.startswith("-") or word == "-"]
        return self._match_operands(words[: len(self.operands)], command.folder)

    def _matches_surroundings(self, command: Command) -> bool:
        expected = self.command
        if expected.stdin != command.stdin and not (self.is_open and not expected.stdin):
            return False

        variables = command.variables
        if self.is_open:
            variables = {name: value for name, value in variables.items() if name in expected.variables}
        if variables.keys() != expected.variables.keys():
            return False
        if not all(fnmatchcase(value, expected.variables[name]) for name, value in variables.items()):
            return False

        has_path = any("/" in operand for operand in (*self.operands[1:], expected.stdin))
        return self.is_anywhere or has_path or expected.folder == command.folder

    def _match_operands(self, words: Sequence[str], folder: str) -> bool:
        if len(words) != len(self.operands):
            return False
        program, *operands = self.operands
        if ("/" in words[0]) != ("/" in program):  # what is here is not what is on the path
            return False
        if not _match_operand(words[0], program, folder):
            return False
        return all(_match_operand(word, wanted, folder) for word, wanted in zip(words[1:], operands, strict=True))


def _match_operand(word: str, wanted: str, folder: str) -> bool:
    if _is_option(word) and not wanted.startswith("-"):
        return False
    if "/" not in wanted:
        return _match_value(word, wanted)
    if not folder and fnmatchcase(word, wanted):
        return True
    if wanted.startswith("./") and not word.startswith("."):  # as Go's `./auth`, which is a folder, and `auth`
        return False
    return fnmatchcase(resolve_path(folder, word), posixpath.normpath(wanted))


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != ""


def _match_value(word: str, wanted: str) -> bool:
    """Whether a word is the one that is wanted, as it is written or as a path."""
    if fnmatchcase(word, wanted):
        return True
    return "/" in word and fnmatchcase(posixpath.normpath(word), posixpath.normpath(wanted))


def _take_option(words: Sequence[str], option: str) -> list[str] | None:
    """Return words without an option, and its value, if it has one; None if it is not among them."""
    name, has_value, value = option.partition("=")
    is_short = re.fullmatch(r"-[A-Za-z]", name) is not None

    for place, word in enumerate(words):
        preceding = words[:place]
        following = words[place + 1 :]
        if not word.startswith("-"):
            continue
        if has_value and word == name and following and _match_value(following[0], value):
            return [*preceding, *following[1:]]
        if _is_written_out(word, option):
            return [*preceding, *following]
        if not is_short or word.startswith("--"):
            continue

        if has_value and word.startswith(name) and _match_value(word.removeprefix(name), value):
            return [*preceding, *following]
        is_cluster = re.fullmatch(r"-[A-Za-z]{2,4}", word) is not None
        if is_cluster and has_value and word.endswith(name[1]) and following and _match_value(following[0], value):
            return [*preceding, word[:-1], *following[1:]]
        if is_cluster and not has_value and name[1] in word[1:]:
            return [*preceding, word.replace(name[1], "", 1), *following]
    return None


def _is_written_out(word: str, option: str) -> bool:
    """Whether a word is an option with its value behind ``=``, or without one."""
    name, has_value, value = option.partition("=")
    if not has_value:
        return fnmatchcase(word, option)
    word_name, has_word_value, word_value = word.partition("=")
    return bool(has_word_value) and fnmatchcase(word_name, name) and _match_value(word_value, value)


@dataclass(frozen=True)
class Pattern:
    """A set of commands: those that one of its forms matches."""

    text: str

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Raises `PatternError`."""
        return tuple(_make_form(line, self.text) for line in _list_lines(self.text))

    def matches(self, command: Command) -> bool:
        """Whether it means a command. Only forms with its program are read: reading them all takes long."""
        program = posixpath.basename(command.words[0])
        lines = [line for line in _list_lines(self.text) if program in line]
        return any(_make_form(line, self.text).matches(command) for line in lines)

    @property
    def is_open(self) -> bool:
        """Whether a form of it leaves open what follows."""
        return any(form.is_open for form in self.forms)

    @property
    def example(self) -> str:
        """The first form that it has."""
        return _list_lines(self.text)[0]

    @property
    def solution(self) -> str:
        """The first command line that it means, as one would type it."""
        return self.solutions[0]

    @property
    def solutions(self) -> tuple[str, ...]:
        """The command lines that it means, as one would type them."""
        return tuple(map(_type_line, _list_lines(self.text)))

    @property
    def program(self) -> str:
        """The program of that command."""
        return _make_form(self.example, self.text).command.words[0]

    @property
    def last_example(self) -> str:
        """The command line with the last of all choices."""
        return _list_lines(self.text)[-1]


def _type_line(line: str) -> str:
    """Return a form as one would type it: ``-p 6543`` for ``-p=6543``."""
    return QUOTED_OR_SHORT.sub(lambda found: f"{found[1]} " if found[1] else found[0], line)


@cache
def read_pattern(text: str) -> Pattern:
    """Return the pattern of a text, which is read when it is first compared."""
    return Pattern(text)


@cache
def _list_lines(text: str) -> tuple[str, ...]:
    """Return the command lines that a pattern stands for, without its choices: those of the first choice first. Raises
    `PatternError` for too many."""
    match = CHOICE.search(text)
    if match is None:
        return (" ".join(text.split()),)

    alternatives = (match[1] if match[2] is None else match[2]).split("|")
    if match[2] is not None:
        alternatives = ["", *alternatives]
    lines: dict[str, None] = {}
    for alternative in alternatives:
        version = f"{text[: match.start()]}{alternative}{text[match.end() :]}"
        lines |= dict.fromkeys(_list_lines(version))
    if len(lines) > MOST_FORMS:
        raise PatternError(f"{text!r} has more than {MOST_FORMS} forms: write it as several patterns")
    return tuple(lines)


@cache
def _make_form(line: str, text: str) -> Form:
    is_open = line.endswith(f" {OPEN}")
    if unclosed := UNCLOSED.search(line):
        raise PatternError(f"{text!r} is no pattern: a {unclosed[0]} in it has no other half")
    if MISPLACED_OPEN.search(line):
        raise PatternError(f"{text!r} is no pattern: ... has to be its last word")
    try:
        commands = parse_line(line.removesuffix(OPEN) if is_open else line)
    except NotUnderstood as error:
        raise PatternError(f"{text!r} is no pattern: {error} in {line!r}") from None
    if len(commands) != 1:
        raise PatternError(f"{text!r} is no pattern: it has to be one command, and {line!r} has {len(commands)}")

    (command,) = commands
    if "*" in command.words[0]:
        raise PatternError(f"{text!r} is no pattern: it has to name its program whole, not {command.words[0]}")
    options = tuple(word for word in command.words[1:] if word.startswith("-") and word not in ("-", "--"))
    operands = tuple(word for word in command.words if word not in options)
    return Form(command, options, operands, is_open, is_open and not command.folder)


def fill_places(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of their names in angles, such as <port>. Raises `PatternError` for an unknown name."""

    def get_value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise PatternError(f"{text!r} names <{match[1]}>, which is none of {', '.join(sorted(values))}")
        return values[match[1]]

    return re.sub(r"<([a-z_]+)>", get_value, text)
