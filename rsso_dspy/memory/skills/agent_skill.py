"""A skill library as a folder of the Agent Skills format.

NAME/SKILL.md                   front matter, and every skill with target and instructions
NAME/references/library.json    the whole library, which a run reads
"""

import json
import re
from collections.abc import Mapping

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.skills.library import SkillLibraryFile, parse_skill_snapshot

SKILL_FILE = "SKILL.md"
LIBRARY_FILE = "references/library.json"

LONGEST_NAME, LONGEST_DESCRIPTION, MOST_LINES = 64, 1024, 500
"""Limits of the format: characters of a name and of a description, lines of a body."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


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
    return {SKILL_FILE: f"{_render_front_matter(fields)}\n" + "\n".join(body), LIBRARY_FILE: library.to_json()}


def _render_front_matter(fields: Mapping[str, str | Mapping[str, str]]) -> str:
    """Render fields, with values in double quotes where they need them."""
    lines = ["---"]
    for key, value in fields.items():
        if isinstance(value, str):
            lines.append(f"{key}: {_quote(value)}")
        else:
            lines += [f"{key}:", *(f"  {name}: {_quote(said)}" for name, said in value.items())]
    return "\n".join([*lines, "---"]) + "\n"


def _quote(value: str) -> str:
    plain = re.fullmatch(r"[a-z][a-z0-9-]*", value) and value not in ("true", "false", "null", "yes", "no", "on", "off")
    return value if plain else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """One line, without the mark of a front matter."""
    return re.sub(r"-{3,}", "--", " ".join(text.split()))
