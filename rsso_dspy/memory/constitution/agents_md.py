"""A constitution as a marked block in AGENTS.md, CLAUDE.md or another Markdown file.

    text = replace_block(read, render_block(book))      # everything outside of the block stays as it was

A block says which variants its rules were learned on.
"""

import json
import re

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution.constitution import HEADINGS
from rsso_dspy.memory.constitution.file import ConstitutionFile
from rsso_dspy.memory.constitution.rules import LASTING

BEGIN, END = "<!-- rsso-dspy constitution: begin -->", "<!-- rsso-dspy constitution: end -->"
TITLE = "## Rules learned in play"

_BLOCK = re.compile(rf"{re.escape(BEGIN)}\n(.*?){re.escape(END)}\n?", re.S)


def render_block(book: ConstitutionFile) -> str:
    said = json.dumps(book.provenance, ensure_ascii=False, sort_keys=True).replace("-->", "--\\u003e")
    lines = [BEGIN, TITLE, f"<!-- provenance: {said} -->"]
    for category in LASTING:
        if rules := book.constitution.select_rules(category):
            lines += ["", f"### {HEADINGS[category]}", ""]
            for rule in rules:
                lines.append(f"- {_hide_marks(rule.lesson.text)}")
                lines += [f"  Instead: {_hide_marks(rule.lesson.solution)}"] if category == "error" else []
    return "\n".join([*lines, END, ""])


def replace_block(text: str, block: str) -> str:
    """The text with its block replaced, or with the block at its end. Raises `UsageError` for marks that do not
    match."""
    if text.count(BEGIN) > 1 or text.count(BEGIN) != text.count(END) or (BEGIN in text and not _BLOCK.search(text)):
        raise UsageError(f"the marks {BEGIN} and {END} do not match; mend or remove them")
    if BEGIN in text:
        return _BLOCK.sub(lambda _: block, text)
    return f"{text.rstrip()}\n\n{block}" if text.strip() else block


def _hide_marks(text: str) -> str:
    """One line in which no comment begins or ends."""
    line = " ".join(text.split())
    return re.sub(r"(--)(\\*)>", r"\1\2\\>", re.sub(r"<(\\*)!--", r"<\1\\!--", line))
