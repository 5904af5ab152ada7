"""Texts that somebody gives an agent to read: Agent Skills (`NAME/SKILL.md`) or the rules block of an AGENTS.md.

    read_given(Path("skills/find-plant"))       # a folder with a SKILL.md, or with folders that have one each
    read_given(Path("AGENTS.md"))               # its marked block, or the whole file where there is none

The files are data from anywhere. They are read within limits; nothing in them is executed, imported or followed, and
characters that cannot be seen and marks of prompt fields are taken out. Files that this package exported say which
variants they were learned on; a run that holds one of these out refuses them.
"""

import re
from pathlib import Path
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution.agents_md import parse_block
from rsso_dspy.memory.entries import Entry, EntryMemory, dump_entry
from rsso_dspy.memory.skills.agent_skill import LIBRARY_FILE, SKILL_FILE, read_agent_skill
from rsso_dspy.memory.skills.library import read_library
from rsso_dspy.records import Trajectory
from rsso_dspy.safe_read import read_text

LONGEST_FILE = 256 * 1024
"""Characters of a file."""
MOST_SKILLS = 100

_BLOCK = re.compile(r"<!-- ([\w-]+:[\w-]+)[^\n]*-->\n(.*?)<!-- /\1 -->", re.S)
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKS = re.compile(r"\[\[\s*##|##\s*\]\]")


class Given(EntryMemory):
    """Read-only texts."""

    region, letter, newest_first = "constitution", "G", False

    def format_entry(self, entry: Entry) -> str:
        return f"{entry.data['description']}\n{entry.text}" if entry.data.get("description") else entry.text

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Learn nothing."""


def read_given(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The snapshot of a `Given` memory with the texts at a path, and the keys of the variants that these say they were
    learned on. Raises `UsageError` that names the file and what is wrong with it, and what `safe_read` raises."""
    if path.is_dir():
        files = [path / SKILL_FILE] if (path / SKILL_FILE).is_file() else sorted(path.glob(f"*/{SKILL_FILE}"))
        if not files:
            raise UsageError(
                f"{path} holds no {SKILL_FILE}, and no folder in it does: name a skill's folder or an AGENTS.md"
            )
        if len(files) > MOST_SKILLS:
            raise UsageError(f"{path} holds {len(files)} skills; name a folder with {MOST_SKILLS} at most")
        texts = [_read_skill(file) for file in files]
    else:
        texts = [_read_rules(path)]
    entries = [
        Entry(f"{Given.letter}{number}", _clean(text).strip(), (), data=data)
        for number, (text, data, _) in enumerate(texts, start=1)
    ]
    if not any(entry.text for entry in entries):
        raise UsageError(f"{path} holds no text, so reading it would have no effect; drop it")
    learned_on = dict.fromkeys(variant for _, _, variants in texts for variant in variants)
    snapshot = {"schema": 1, "entries": [dump_entry(entry) for entry in entries], "numbered": len(entries)}
    return snapshot, tuple(learned_on)


_Text = tuple[str, dict[str, str], list[str]]
"""Text, data of its entry, and keys of the variants it was learned on."""


def _read_skill(file: Path) -> _Text:
    _read_bounded(file)
    skill = read_agent_skill(file)
    variants = skill.metadata.get("learned-on", "").split()
    library = file.parent / LIBRARY_FILE
    if variants and library.is_file():  # the front matter holds as many as fit
        variants = [str(key) for key in read_library(library).provenance.get("variants", ())]
    return skill.body, {"name": skill.name, "description": _clean(skill.description)}, variants


def _read_rules(path: Path) -> _Text:
    content = _read_bounded(path)
    book = parse_block(content, str(path))
    if book is not None:
        return book.constitution.text, {"name": path.name}, list(book.variants)
    blocks = [found[2] for found in _BLOCK.finditer(content)]
    return "\n\n".join(blocks) or content, {"name": path.name}, []


def _read_bounded(path: Path) -> str:
    try:
        text = read_text(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(text) > LONGEST_FILE:
        raise UsageError(
            f"{path} has {len(text):,} characters; {LONGEST_FILE:,} are the most that a given text may have"
        )
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _clean(text: str) -> str:
    return _MARKS.sub("", _UNSEEN.sub("", text))
