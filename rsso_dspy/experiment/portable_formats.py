"""Skills and constitutions in formats that other agents read: Agent Skills folders, marked blocks in Markdown files."""

from pathlib import Path

from rsso_dspy.atomic import atomic_write_text, check_output_path
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.experiment.skill_libraries import LIBRARY, SkillSource, export_library
from rsso_dspy.memory.constitution.agents_md import parse_block, parse_lines, render_block, replace_block
from rsso_dspy.memory.constitution.file import ConstitutionFile
from rsso_dspy.memory.skills.agent_skill import (
    LIBRARY_FILE,
    SKILL_FILE,
    read_agent_skill,
    read_skill_folder,
    render_skill_folder,
)
from rsso_dspy.safe_read import read_text


def export_skill_folder(found: SkillSource, out: Path) -> Path:
    """Write the library of a unit as a folder of the Agent Skills format, over an older export or anew; return its
    SKILL.md. Raises `UsageError` for a folder with other content, and what `render_skill_folder` raises."""
    if out.exists() and not (out / LIBRARY_FILE).exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is no exported library; remove it or name another folder with -o")
    check_output_path(out / LIBRARY_FILE, kind=LIBRARY)
    best = max((trajectory.accumulator for trajectory in found.record.trajectories), default=None)
    for path, text in render_skill_folder(export_library(found), out.resolve().name, best).items():
        atomic_write_text(out / path, text)
    return out / SKILL_FILE


def import_skill_folder(folder: Path, out: Path) -> str:
    """Write the library of a folder as a file; return the folder's name. Raises what `read_skill_folder` raises."""
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'skills.json'}")
    check_output_path(out, kind=LIBRARY)
    skill, library = read_skill_folder(folder)
    atomic_write_text(out, library.to_json())
    return skill.name


def write_constitution_block(book: ConstitutionFile, out: Path) -> None:
    """Write a constitution into the marked block of a Markdown file; the rest of the file stays as it is."""
    if out.suffix.lower() not in (".md", ".mdc", ".markdown"):
        raise UsageError(f"{out} is no Markdown file; name one, e.g. -o AGENTS.md")
    before = _read_markdown(out) if out.exists() else ""
    try:
        text = replace_block(before, render_block(book))
    except UsageError as error:
        raise UsageError(f"{out}: {error}") from None
    atomic_write_text(out, text)


def import_constitution(file: Path) -> ConstitutionFile:
    """Read the rules of a Markdown file: those of its block, else its list items. A SKILL.md must keep the limits of
    the Agent Skills format. Raises `UsageError`."""
    text = read_agent_skill(file).body if file.name == SKILL_FILE else _read_markdown(file)
    return parse_block(text, str(file)) or parse_lines(text, str(file))


def _read_markdown(file: Path) -> str:
    try:
        return read_text(file)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{file} is not read: {error.why}") from None
