"""A constitution as a marked block in AGENTS.md, CLAUDE.md or another Markdown file, and back.

    text = replace_block(read, render_block(book))      # everything outside of the block stays as it was
    parse_block(text, "AGENTS.md")                      # the same rules in the same order, and their provenance
    parse_lines(text, "SKILL.md")                       # a text of another's making: its list items as rules

An imported rule gets a new id. A block says which variants its rules were learned on, so that no run on these takes it.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution.constitution import HEADINGS, Constitution
from rsso_dspy.memory.constitution.file import ConstitutionFile
from rsso_dspy.memory.constitution.rules import LASTING, LONGEST
from rsso_dspy.records import Category, Lesson

BEGIN, END = "<!-- rsso-dspy constitution: begin -->", "<!-- rsso-dspy constitution: end -->"
TITLE = "## Rules learned in play"
MOST_RULES = 500
"""Lines of a text of another's making that are read as rules."""

_BLOCK = re.compile(rf"{re.escape(BEGIN)}\n(.*?){re.escape(END)}\n?", re.S)
_PROVENANCE = re.compile(r"^<!-- provenance: (.*) -->$", re.M)
_INSTEAD = "  Instead: "
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(.+)$")
_OTHER_KIND = re.compile(r"<!-- ([\w ]+) of rsso-dspy -->")
"""First line of other files that this package writes."""


def render_block(book: ConstitutionFile) -> str:
    said = json.dumps(book.provenance, ensure_ascii=False, sort_keys=True).replace("-->", "--\\u003e")
    lines = [BEGIN, TITLE, f"<!-- provenance: {said} -->"]
    for category in LASTING:
        if rules := book.constitution.select_rules(category):
            lines += ["", f"### {HEADINGS[category]}", ""]
            for rule in rules:
                lines.append(f"- {_hide_marks(rule.lesson.text)}")
                lines += [f"{_INSTEAD}{_hide_marks(rule.lesson.solution)}"] if category == "error" else []
    return "\n".join([*lines, END, ""])


def replace_block(text: str, block: str) -> str:
    """The text with its block replaced, or with the block at its end. Raises `UsageError` for marks that do not
    match."""
    if text.count(BEGIN) > 1 or text.count(BEGIN) != text.count(END) or (BEGIN in text and not _BLOCK.search(text)):
        raise UsageError(f"the marks {BEGIN} and {END} do not match; mend or remove them")
    if BEGIN in text:
        return _BLOCK.sub(lambda _: block, text)
    return f"{text.rstrip()}\n\n{block}" if text.strip() else block


def parse_block(text: str, where: str) -> ConstitutionFile | None:
    """The constitution in a text's block; None without a block. Raises `UsageError` for a damaged one."""
    replace_block(text, "")
    found = _BLOCK.search(text)
    if found is None:
        return None
    about = _PROVENANCE.search(found[1])
    try:
        provenance = json.loads(about[1]) if about else {}
    except (ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict):
        raise UsageError(f"{where}: the provenance of its block is damaged; export the constitution again")
    headings = {f"### {heading}": category for category, heading in HEADINGS.items()}
    category: Category | None = None
    lessons: list[Lesson] = []
    for line in found[1].split("\n"):
        if line in headings:
            category = headings[line]
        elif line.startswith("- ") and category:
            lessons.append(Lesson(category, _show_marks(line[2:])))
        elif line.startswith(_INSTEAD) and lessons and category == "error":
            lessons[-1] = Lesson("error", lessons[-1].text, _show_marks(line.removeprefix(_INSTEAD)))
    return ConstitutionFile(_make_book(lessons, where), provenance)


def parse_lines(text: str, where: str) -> ConstitutionFile:
    """The list items of a text as abstract rules, bounded; code blocks are left out. Raises `UsageError` when there is
    none, or too many, and for another kind of file of this package."""
    if other := _OTHER_KIND.match(text):
        raise UsageError(f"{where} is a {other[1]} of rsso-dspy and holds no rules")
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    said = [found[1].strip()[:LONGEST] for line in plain.splitlines() if (found := _ITEM.match(line))]
    if not said:
        raise UsageError(f"{where} holds no block of rsso-dspy and no list: write rules as lines that begin with -")
    if len(said) > MOST_RULES:
        raise UsageError(f"{where} holds {len(said)} list items, but at most {MOST_RULES} are read as rules")
    return ConstitutionFile(_make_book([Lesson("abstract", line) for line in said], where), {"writer": "imported"})


def _make_book(lessons: Sequence[Lesson], where: str) -> Constitution:
    source: Any = f"imported from {where.rpartition('/')[2]}"
    return Constitution().with_lessons(lessons, "", source)


def _hide_marks(text: str) -> str:
    """One line in which no comment begins or ends; `_show_marks` gives the text back."""
    line = " ".join(text.split())
    return re.sub(r"(--)(\\*)>", r"\1\2\\>", re.sub(r"<(\\*)!--", r"<\1\\!--", line))


def _show_marks(line: str) -> str:
    return re.sub(r"(--)(\\*)\\>", r"\1\2>", re.sub(r"<(\\*)\\!--", r"<\1!--", line))
