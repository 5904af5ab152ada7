"""Skill memories outside of a unit: as a file with its provenance, and as a folder of the Agent Skills format.

    memory = load_library("boil.json", embed)
    memory.rank_skills(state)       # retrieves like the exported memory, with similarities

    kind, schema     what the file is
    provenance       protocol, method, model, rule_based, embedder, variants, seed, trials
    memory           the snapshot, see `memory.py`; includes the settings but no embeddings

Plain JSON: a foreign file can only put words into prompts.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rsso_dspy.errors import DamagedFile, RunMismatch, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory import Embed
from rsso_dspy.memory.skills.memory import (
    Equivalent,
    SkillMemory,
    Verbalize,
    parse_skill_snapshot,
)
from rsso_dspy.memory.skills.skill import SkillSettings

KIND = "rsso-dspy skill library"

SCHEMA = 1
"""Schema version of the file; others are refused."""


@dataclass(frozen=True, slots=True)
class SkillLibraryFile:
    """The content of one file."""

    provenance: dict[str, Any]
    snapshot: dict[str, Any]

    def to_json(self) -> str:
        data = {"kind": KIND, "schema": SCHEMA, "provenance": self.provenance, "memory": self.snapshot}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_library(path: Path | str) -> SkillLibraryFile:
    """Read a file. Raises `UsageError` if it is absent, damaged, or of another kind or schema."""
    try:
        data = read_json(Path(path))
    except OSError as error:
        raise UsageError(f"cannot read the skill library {path}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{path} is damaged ({error.why}); export it again") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(
            f"{path} is not a skill library; `rsso-dspy skills export RUN TASK::VARIANT -o FILE` makes one"
        )
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {data.get('schema')}, but this program reads schema {SCHEMA}; "
            "use the version of rsso-dspy that wrote it, or export it again"
        )
    if not isinstance(data.get("provenance"), dict) or not isinstance(data.get("memory"), dict):
        raise UsageError(f"{path} is damaged (provenance or memory is missing); export it again")
    return SkillLibraryFile(data["provenance"], data["memory"])


def load_library(
    path: Path | str,
    embed: Embed,
    settings: SkillSettings | None = None,
    *,
    embedder: str | None = None,
    verbalize: Verbalize | None = None,
    equivalent: Equivalent | None = None,
) -> SkillMemory:
    """Load the memory in a file; it retrieves like the exported one, byte for byte.

    ``embed`` must be the embedder that the library was learned with; pass its name as ``embedder`` to check that.
    Raises `RunMismatch` for another embedder or for ``settings`` other than the file's (the default), and what
    `read_library` raises. Without ``verbalize`` and ``equivalent`` the memory is read-only: learning a skill raises
    `UsageError`.
    """
    library = read_library(path)
    _, stored = parse_skill_snapshot(library.snapshot, str(path))
    learnt_with = library.provenance.get("embedder")
    if embedder is not None and learnt_with is not None and embedder != learnt_with:
        raise RunMismatch(
            f"{path} was learned with the embedder {learnt_with}, not {embedder}: similarities would not be "
            f"comparable; use embedder.model={learnt_with}"
        )
    memory = SkillMemory(embed, verbalize or _refuse_learning, equivalent or _refuse_learning, settings or stored)
    try:
        memory.restore(library.snapshot)
    except RunMismatch as error:
        raise RunMismatch(f"{path}: {error}") from None
    return memory


def _refuse_learning(*_: Any) -> NoReturn:
    raise UsageError(
        "this skill library is read-only; pass `verbalize` and `equivalent` to load_library to learn with it"
    )


# A folder of the Agent Skills format: SKILL.md, with target and instructions of every skill, and the whole library.

SKILL_FILE = "SKILL.md"
LIBRARY_FILE = "references/library.json"

LONGEST_NAME, LONGEST_DESCRIPTION, MOST_LINES = 64, 1024, 500
"""Limits of the format: characters of a name and of a description, lines of a body."""


def render_skill_folder(library: SkillLibraryFile, name: str, score: float | None = None) -> dict[str, str]:
    """The files of the folder `name`: path to text. Raises `UsageError` for a name or size that the format forbids."""
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot name an Agent Skill: lower-case letters, digits and single hyphens, at most "
            f"{LONGEST_NAME} characters"
        )
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
    front = ["---", f"name: {_quote(name)}", f"description: {_quote(_clean(description)[:LONGEST_DESCRIPTION])}"]
    front += ["metadata:", *(f"  {key}: {_quote(_clean(value))}" for key, value in metadata.items() if value), "---"]
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
    return {SKILL_FILE: "\n".join([*front, "", *body]), LIBRARY_FILE: library.to_json()}


def _quote(value: str) -> str:
    plain = re.fullmatch(r"[a-z][a-z0-9-]*", value) and value not in ("true", "false", "null", "yes", "no", "on", "off")
    return value if plain else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """One line, without the mark of a front matter."""
    return re.sub(r"-{3,}", "--", " ".join(text.split()))
