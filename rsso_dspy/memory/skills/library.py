"""A skill memory as a file with its provenance.

    memory = load_library("boil.json", embed)
    memory.nearest(state)           # retrieves like the exported memory, with similarities

    kind, schema     what the file is
    provenance       protocol, method, model, rule_based, embedder, variants, seed, trials
    memory           the snapshot, see `snapshot.py`; includes the settings but no embeddings

Plain JSON: a foreign file can only put words into prompts.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from rsso_dspy.errors import DamagedFile, RunMismatch, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.skills import snapshot as archive
from rsso_dspy.memory.skills.memory import Equivalent, SkillMemory, Verbalize
from rsso_dspy.memory.skills.memory_state import SkillMemoryState
from rsso_dspy.memory.skills.settings import SkillSettings

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


def parse_skill_snapshot(snapshot: dict[str, Any], where: str) -> tuple[SkillMemoryState, SkillSettings]:
    """Load a snapshot and its settings.

    Raises `UsageError` naming ``where`` if it is damaged, `RunMismatch` if another version of this program made it.
    """
    try:
        known = {entry.name for entry in fields(SkillSettings)}
        if stored := [name for name in snapshot["settings"] if name not in known]:
            raise RunMismatch(
                f"{where} was made with settings unknown to this version ({', '.join(stored)}); update rsso-dspy"
            )
        settings = SkillSettings(**snapshot["settings"])
        return archive.load_snapshot(snapshot, settings), settings
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where} holds a damaged skill memory ({type(error).__name__}: {error})") from None


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
