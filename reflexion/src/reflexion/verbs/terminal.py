"""Text for a terminal."""

import json
from collections.abc import Sized
from typing import Any

import typer


def echo(text: str = "", err: bool = False, nl: bool = True, **style: Any) -> None:
    typer.secho("".join(c if c.isprintable() or c in "\n\t" else "�" for c in text), err=err, nl=nl, **style)


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=1))


def print_paragraph(text: str, indent: str = "") -> None:
    echo(indent + text)


def print_status(text: str) -> None:
    echo(text, err=True)


def format_plural(things: Sized, noun: str) -> str:
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"
