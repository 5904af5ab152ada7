"""The reference of the command line as a page, made of the verbs themselves.

    python -m rsso_dspy.cli.reference docs/CLI.md        # write it
    python -m rsso_dspy.cli.reference                    # print it

It depends on the verbs alone: not on the terminal, its colours or the folder it is made in.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PROGRAM = "rsso-dspy"

COMMAND = "python -m rsso_dspy.cli.reference docs/CLI.md"
"""What writes the page."""

HEAD = f"""# Command line

Every verb with its arguments and options, made from the program itself by

    {COMMAND}

`{PROGRAM} VERB --help` says the same. The exit code is 0, 2 for a wrong call, 1 for a failed run, 130 when
interrupted, 143 when ended by SIGTERM.
"""

TAKES = {int: "N", float: "X", Path: "PATH"}
"""What stands for a value in the place of its type."""

ELSEWHERE = {"help", "install_completion", "show_completion"}
"""Options that every program of its kind has."""


def page() -> str:
    """The whole page, in Markdown."""
    import typer

    from rsso_dspy.cli.app import app

    root = typer.main.get_command(app)
    verbs = list(_verbs(root, ()))
    listed = "\n".join(f"| [`{name}`](#{_anchor(name)}) | {_cell(_first_sentence(verb))} |" for name, verb in verbs)
    table = f"| verb | what it does |\n|---|---|\n{listed}\n"
    return "\n".join([HEAD, table, *(_section(name, verb) for name, verb in verbs)])


def _verbs(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every verb below a command in the order of its help, under its whole name."""
    for name, below in getattr(command, "commands", {}).items():
        if below.hidden:
            continue
        if getattr(below, "commands", None):
            yield from _verbs(below, (*path, name))
        else:
            yield " ".join([*path, name]), below


def _section(name: str, verb: Any) -> str:
    shown = [parameter for parameter in verb.params if parameter.name not in ELSEWHERE and not parameter.hidden]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    words = [PROGRAM, name, *(_place(argument) for argument in arguments), *(["[OPTIONS]"] if options else [])]
    parts = [f"## `{name}`", f"```\n{' '.join(words)}\n```", _prose(verb.help)]
    if arguments:
        parts.append(_table("argument", [(_name(each), _about(each)) for each in arguments]))
    if options:
        parts.append(_table("option", [(_spelled(each), _about(each)) for each in options]))
    return "\n\n".join(parts) + "\n"


def _table(what: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| `{left.replace('|', ' or ')}` | {right} |" for left, right in rows]
    return "\n".join([f"| {what} | |", "|---|---|", *lines])


def _place(argument: Any) -> str:
    name = _name(argument)
    return name if argument.required else f"[{name}]"


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper() + ("..." if argument.nargs == -1 else ""))


def _spelled(option: Any) -> str:
    """All its spellings, and what it takes."""
    names = ", ".join([*sorted(option.opts, key=len, reverse=True), *option.secondary_opts])
    takes = "" if option.is_flag else f" {option.metavar or TAKES.get(_annotation(option), 'TEXT')}"
    return f"{names}{takes}"


def _annotation(parameter: Any) -> Any:
    """The type of its value."""
    return parameter.type_descriptor.annotation


def _about(parameter: Any) -> str:
    """What it is for, its default and its bounds."""
    notes = ["required"] if parameter.required else []
    if parameter.default not in (None, False, ()) and parameter.show_default:
        notes.append(f"default: {parameter.default}")
    if parameter.max is not None:
        notes.append(f"{parameter.min:g} to {parameter.max:g}")
    elif parameter.min is not None:
        notes.append(f"at least {parameter.min:g}")
    if parameter.multiple:
        notes.append("may be repeated")
    text = " ".join((parameter.help or "").split())
    return _cell(" ".join([text, *([f"({'; '.join(notes)})"] if notes else [])]))


def _prose(text: str | None) -> str:
    """Paragraphs of a docstring, one line each."""
    paragraphs = (text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(_escaped(" ".join(paragraph.split())) for paragraph in paragraphs if paragraph.strip())


def _first_sentence(verb: Any) -> str:
    first = " ".join((verb.help or "").split("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".") + "."


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text that Markdown would take for a tag or for emphasis, outside code."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        for mark in "<>*":
            parts[place] = parts[place].replace(mark, f"\\{mark}")
    return "`".join(parts)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def main(arguments: Sequence[str]) -> None:
    """Write the page to the file that is named, or print it."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
