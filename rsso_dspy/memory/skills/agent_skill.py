"""A skill library as a folder of the Agent Skills format, and back.

    NAME/SKILL.md                   front matter, and every skill with target and instructions
    NAME/references/library.json    the whole library, which a run reads

`read_skill_folder` gives back the library that was exported, byte for byte. Nothing of a folder is ever run, and
other files are not opened.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.memory.front_matter import parse_front_matter, render_front_matter
from rsso_dspy.memory.skills.library import SkillLibraryFile, parse_skill_snapshot, read_library
from rsso_dspy.safe_read import read_text

SKILL_FILE = "SKILL.md"
LIBRARY_FILE = "references/library.json"

LONGEST_NAME, LONGEST_DESCRIPTION, MOST_LINES = 64, 1024, 500
"""Limits of the format: characters of a name and of a description, lines of a body."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """What a SKILL.md says."""

    name: str
    description: str
    body: str
    metadata: Mapping[str, str]


def check_skill_name(name: str) -> None:
    """Raise `UsageError` for a name that the format does not take."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot name an Agent Skill: lower-case letters, digits and single hyphens, at most "
            f"{LONGEST_NAME} characters"
        )


def render_skill_folder(library: SkillLibraryFile, name: str, score: float | None = None) -> dict[str, str]:
    """The files of the folder `name`: path to text. Raises `UsageError` for a name or size that the format forbids."""
    check_skill_name(name)
    state, _ = parse_skill_snapshot(library.snapshot, "the library")
    about = library.provenance
    variants = [str(key) for key in about.get("variants", ())]
    tasks = ", ".join(dict.fromkeys(key.partition("::")[0] for key in variants)) or "tasks of a text game"
    metadata = {
        "protocol": str(about.get("protocol", "")),
        "score": "" if score is None else f"{score:g}",
        "commit": str((about.get("made_by") or {}).get("commit", "")),
        "learned-on": " ".join(variants)[:LONGEST_DESCRIPTION],
        "model": str(about.get("model", "")),
    }
    description = f"How subgoals of these tasks were reached before: {tasks}. Use it when the task is like one of them."
    fields: dict[str, str | Mapping[str, str]] = {
        "name": name,
        "description": _clean(description)[:LONGEST_DESCRIPTION],
        "metadata": {key: _clean(value) for key, value in metadata.items() if value},
    }
    body = [
        "# Skills",
        "",
        "Pursue a skill when its target is what is needed next. Each was at work in two trials.",
        "",
    ]
    for skill in (state.skills[name] for name in state.library):
        body += [f"## {_clean(skill.name)}", "", f"Target: {_clean(skill.target)}", ""]
        body += [*(f"{number}. {_clean(step)}" for number, step in enumerate(skill.instructions, start=1)), ""]
    if len(body) > MOST_LINES:
        raise UsageError(f"the skills take {len(body)} lines, but a SKILL.md has at most {MOST_LINES}")
    return {SKILL_FILE: f"{render_front_matter(fields)}\n" + "\n".join(body), LIBRARY_FILE: library.to_json()}


def read_agent_skill(file: Path) -> AgentSkill:
    """Read a SKILL.md of anyone's making. Raises `UsageError` for one that breaks the format's limits."""
    try:
        fields, body = parse_front_matter(read_text(file), str(file))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{file} is not read: {error.why}") from None
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not description:
        raise UsageError(f"{file}: a SKILL.md needs the texts `name` and `description`")
    check_skill_name(name)
    if name != file.resolve().parent.name:
        raise UsageError(f"{file}: its name is {name}, but its folder is {file.resolve().parent.name}; rename one")
    if len(description) > LONGEST_DESCRIPTION:
        raise UsageError(f"{file}: its description is longer than {LONGEST_DESCRIPTION:,} characters")
    if len(body.splitlines()) > MOST_LINES:
        raise UsageError(f"{file}: its body is longer than {MOST_LINES} lines")
    metadata: Any = fields.get("metadata", {})
    return AgentSkill(name, description, body, metadata if isinstance(metadata, dict) else {})


def read_skill_folder(folder: Path) -> tuple[AgentSkill, SkillLibraryFile]:
    """Read a folder that `render_skill_folder` made. Raises `UsageError` for another one."""
    skill = read_agent_skill(folder / SKILL_FILE)
    if not (folder / LIBRARY_FILE).exists():
        raise UsageError(
            f"{folder} holds no {LIBRARY_FILE}: it is not an exported library. `rsso-dspy constitution import "
            f"{folder / SKILL_FILE}` reads its lines as rules"
        )
    library = read_library(folder / LIBRARY_FILE)
    parse_skill_snapshot(library.snapshot, str(folder / LIBRARY_FILE))
    if render_skill_folder(library, skill.name)[SKILL_FILE].partition("# Skills")[2].strip() != (
        skill.body.partition("# Skills")[2].strip()
    ):
        raise UsageError(f"{folder}: {SKILL_FILE} and {LIBRARY_FILE} differ; export the library again")
    return skill, library


def _clean(text: str) -> str:
    """One line, without the mark of a front matter."""
    return re.sub(r"-{3,}", "--", " ".join(text.split()))
