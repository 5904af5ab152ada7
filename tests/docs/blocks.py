"""Code blocks of the documentation, and what is made of them.

    for block in blocks(page("TUTORIAL.md")):
        block.language, block.text, block.file
    follow(page("TUTORIAL.md"), typed, capsys)

A block of commands holds lines that begin with ``$ ``, each followed by what it is to print. Dots stand for whatever is
left out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_SAVED = re.compile(r"Save this as `([^`]+)`[^`]*:\n\n\Z")
_NAMED = re.compile(r"\A# (\w+\.(?:py|toml))\n")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    file: str
    """Where the page says it is saved; empty when it does not."""


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """The part of a page below a heading of the second level."""
    parts = page(name).split(f"\n## {heading}\n")
    assert len(parts) == 2, f"{name} has no section {heading}"
    return parts[1].partition("\n## ")[0]


def blocks(text: str, *languages: str) -> list[Block]:
    """All fenced blocks of a page in order, or those in these languages."""
    found = []
    for match in _FENCE.finditer(text):
        saved = _SAVED.search(text[: match.start()]) or _NAMED.match(match[2])
        if not languages or match[1] in languages:
            found.append(Block(match[1], match[2], saved[1] if saved else ""))
    return found


def follow(text: str, typed: Callable[[str], str], capsys: Any, toml: Callable[[str], str] = str) -> None:
    """Do what a page or a part of it says, in order: save its files, type its commands, run its code; compare what it
    shows."""
    names: dict = {}
    printed = ""
    for block in blocks(text):
        if block.file:
            Path(block.file).write_text(toml(block.text))
        if block.language == "console":
            for line, shown in commands(block):
                said = typed(line)
                assert not (missing := differs(shown, said)), f"{line}\nsays nothing like\n{missing}\nbut\n{said}"
        elif block.language == "python":
            capsys.readouterr()
            exec(compile(block.text, block.file or "page", "exec"), names)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert not differs(block.text, printed), printed


def commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a block with what the page says it prints."""
    parts = re.split(r"^\$ ", block.text, flags=re.M)
    assert not parts[0], f"a block of commands begins with one: {block.text}"
    return [(line, said) for line, _, said in (part.partition("\n") for part in parts[1:])]


def differs(shown: str, printed: str) -> str:
    """The first line shown that is not in what was printed, after those before it; empty when all are."""
    at = 0
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() == "...":
            continue
        pieces = [r"\s+".join(map(re.escape, piece.split())) for piece in line.split("...")]
        found = re.compile(r"[^\n]*".join(pieces)).search(printed, at)
        if found is None:
            return line
        at = found.end()
    return ""
