"""What was learned, for agents that know nothing of this loop: a block for a rules file, or an Agent Skill.

render_rules_block(entries)         # promoted rules between the marks of AGENTS.md and CLAUDE.md
render_skill(entries, "web-shop")   # SKILL.md: name and description as the format wants them, then the rules
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from reflexion.entry import Entry
from reflexion.errors import UsageError
from reflexion.orders import reads_as_order
from reflexion.promote import BEGIN, END, HEADING, format_rule

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME, LONGEST_DESCRIPTION = 64, 1024


def select_rules(entries: Sequence[Entry], every: bool = False) -> list[Entry]:
    """Entries that are rules: the promoted ones, with `every` all whose resolution is known; the most seen first."""
    chosen = [e for e in entries if e.resolution and (e.promoted or every) and not reads_as_order(e)]
    return sorted(chosen, key=lambda entry: (-entry.occurrences, entry.id))


def render_rules_block(entries: Sequence[Entry]) -> str:
    """The marked block."""
    return "\n".join([BEGIN, HEADING, "", *map(format_rule, entries), END, ""])


def render_skill(entries: Sequence[Entry], name: str) -> str:
    """A SKILL.md. Raises `UsageError` for a name that the format does not take."""
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r} is no name of a skill: lower-case letters, digits and single hyphens, {LONGEST_NAME} at most"
        )
    programs = sorted({entry.context.split()[0] for entry in entries if entry.context})[:12]
    named = ", ".join(program for program in programs if re.fullmatch(r"[\w.+-]+", program))
    description = "What failed in this project before and what helped. Use it before running a command here" + (
        f", above all {named}." if named else "."
    )
    lines = [
        "---",
        f"name: {name}",
        f"description: {description[:LONGEST_DESCRIPTION]}",
        "---",
        "",
        f"# What was learnt in {name}",
        "",
        "Each line is something that went wrong here, and what helped. Check that it is the same situation, apply what",
        "helped, and say so when it did not.",
        "",
        *map(format_rule, entries),
    ]
    return "\n".join(lines) + "\n"


def make_skill_name(root: str) -> str:
    """A name that the format takes, from the project's folder."""
    plain = re.sub(r"[^a-z0-9]+", "-", Path(root).resolve().name.lower()).strip("-") or "project"
    return f"{plain[: LONGEST_NAME - 9].strip('-')}-failures"
