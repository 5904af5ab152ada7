"""Skills and constitutions in formats that other agents read: Agent Skills folders, marked blocks in Markdown files."""

from pathlib import Path

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.experiment.skill_libraries import LIBRARY, SkillSource, export_library
from rsso_dspy.files import atomic_write_text, check_output_path, read_text
from rsso_dspy.memory.constitution.file import ConstitutionFile, render_block, replace_block
from rsso_dspy.memory.skills.library import LIBRARY_FILE, SKILL_FILE, render_skill_folder


def export_skill_folder(found: SkillSource, out: Path) -> Path:
    """Write the library of a unit as a folder of the Agent Skills format, over an earlier export or anew; return its
    SKILL.md. Raises `UsageError` for a folder with other content, and what `render_skill_folder` raises."""
    if out.exists() and not (out / LIBRARY_FILE).exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is no exported library; remove it or name another folder with -o")
    check_output_path(out / LIBRARY_FILE, kind=LIBRARY)
    best = max((trajectory.accumulator for trajectory in found.record.trajectories), default=None)
    for path, text in render_skill_folder(export_library(found), out.resolve().name, best).items():
        atomic_write_text(out / path, text)
    return out / SKILL_FILE


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


def _read_markdown(file: Path) -> str:
    try:
        return read_text(file)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{file} is not read: {error.why}") from None
