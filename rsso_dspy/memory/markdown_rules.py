"""The rules of a memory file that a person wrote in Markdown, such as AGENTS.md: one for each item of its lists.

split_rules("- Python:\\n  - use uv\\n").rules     # ("Python: use uv",)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

LISTS = ("bullet_list", "ordered_list")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)  # settings that some tools put above a text
SILENT = ("heading", "hr", *LISTS)  # parts of a file that are no text outside of a list


@dataclass(frozen=True, slots=True)
class SplitRules:
    rules: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """First lines of the paragraphs, tables and blocks of code that stand in no list."""


def split_rules(markdown: str) -> SplitRules:
    """Return a rule for each list item without items of its own, as one line. The items above it precede it, and so
    does its heading, unless that is a title (of the first level)."""
    text = FRONT_MATTER.sub("", markdown)
    lines = text.splitlines()
    document = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text))
    rules: list[str] = []
    left_out: list[str] = []
    heading: tuple[str, ...] = ()

    for part in document.children:
        if part.type == "heading":
            heading = () if part.tag == "h1" else (_read_text(part),)
        elif part.type in LISTS:
            rules.extend(_list_rules(part, heading))
        elif part.type not in SILENT and part.map is not None:
            left_out.append(lines[part.map[0]].strip())
    return SplitRules(tuple(rules), tuple(left_out))


def _list_rules(items: SyntaxTreeNode, above: tuple[str, ...]) -> Iterator[str]:
    for item in items.children:
        nested = [part for part in item.children if part.type in LISTS]
        texts = [_read_text(part) for part in item.children if part not in nested]
        path = (*above, " ".join(text for text in texts if text))
        for part in nested:
            yield from _list_rules(part, path)
        if not nested and path[-1]:
            yield ": ".join([*(text.rstrip(":. ") for text in path[:-1] if text), path[-1]])


def _read_text(part: SyntaxTreeNode) -> str:
    """Return the text of a part as it was written, in one line."""
    inline = [node.content for node in part.walk() if node.type in ("inline", "fence", "code_block", "html_block")]
    return " ".join(" ".join(inline).split())
