"""The project that a verb of `reflexion` is typed in."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from reflexion.entry_files import list_files, load
from reflexion.errors import RssoError, UnknownName, UsageError
from reflexion.folder import find_root, has_folder, make_folder
from reflexion.verbs.terminal import echo

if TYPE_CHECKING:
    from reflexion.entry import Entry
    from reflexion.index import Index

Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write the change without asking.")]


def confirm_change(diff: str, dry_run: bool, yes: bool) -> bool:
    """Print a change and return whether to write it; a person at a terminal is asked, unless `yes`. Raises `UsageError`
    when the answer is no."""
    echo(diff, nl=False)
    if dry_run:
        return False
    if not yes and sys.stdin.isatty() and not typer.confirm("Write it?"):
        raise UsageError("nothing was written")
    return True


def find_project_root() -> str:
    """The folder in which the loop has begun, here or above. Raises `UsageError`."""
    root = find_root(os.getcwd())
    if root is None or not has_folder(root):
        raise UsageError("no .reflexion/ here or above: begin with `reflexion init`")
    return root


@contextmanager
def open_project(make: bool = False) -> "Iterator[Index]":
    """The index of the project one is in. `make`: begin the loop where it has not begun."""
    from reflexion.index import EVERY, open_index

    if make:
        root = find_root(os.getcwd()) or os.getcwd()
        make_folder(root)
    else:
        root = find_project_root()
    try:
        with open_index(root, checks=EVERY) as index:
            yield index
    except sqlite3.Error as error:
        raise RssoError(f"the index cannot be used ({error}); try `reflexion rebuild-index`") from None


def load_entry(index: "Index", entry_id: str) -> "Entry":
    """An entry by its id or the end of it."""
    names = [name.removesuffix(".json") for name in list_files(index.root)]
    found = [name for name in names if name == entry_id] or [name for name in names if name.endswith(f"-{entry_id}")]
    if len(found) != 1:
        raise UnknownName("entry", entry_id, found or names)
    entry = load(index.root, found[0])
    if entry is None:
        raise UsageError(f"{found[0]}.json holds no entry: mend it by hand")
    return entry
